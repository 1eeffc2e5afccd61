"""Several hierarchies at once: how they are written, their kinds of cells, what is refused."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import dpframe as dp
from dpframe.hierarchy import Cells, as_hierarchies, as_hierarchy

FOUR = "ip:src?version=4 * ip:dst?version=4"

WRITTEN: list[tuple[Any, Any]] = [
    ("ip:src * ip:dst", dp.product("ip:src", "ip:dst")),
    ("ip:src  *  path:c?separator= > ", dp.product("ip:src", dp.path("c", separator=" > "))),
    ("country * product", dp.cube(["country", "product"])),
    ("columns:a,b * c", dp.product(["a", "b"], "c")),
    ("sets:a,b; a;b", dp.cube(["a", "b"])),
    ("sets:a,b;a", dp.grouping_sets([["a", "b"], "a"])),
    ("sets:a,b;b,c;c", dp.grouping_sets([("a", "b"), ("b", "c"), ("c",), ()])),
    (["country", "date:when?levels=year,month"], "country > date:when?levels=year,month"),
    (["country", dp.date("when", levels=("year",))], "columns:country > date:when?levels=year"),
    (["a", "b", "ip:src"], "columns:a,b > ip:src"),
    ([dp.columns("a"), "b"], dp.columns("a", "b")),
    ("date:when > country > city", ["date:when", "country", "city"]),
    (dp.product(dp.cube(["a", "b"]), "ip:src"), "a * b * ip:src"),
    (dp.product("a%2Ab", "x y"), "columns:a%252Ab * columns:x y"),
]


@pytest.mark.parametrize(("written", "meant"), WRITTEN, ids=[str(w) for w, _ in WRITTEN])
def test_what_is_written_is_what_is_meant_and_its_text_reads_back(
    written: object, meant: object
) -> None:
    found = as_hierarchies(written)
    assert found == as_hierarchies(meant)
    again = as_hierarchies(found.spec)
    assert (again, hash(again), again.spec) == (found, hash(found), found.spec)


@pytest.mark.parametrize(
    "written",
    ["ip:src", "path:c?separator= * ", "path:c?separator= > &depth=3", ["a * b"], ["a > b", "c"]],
)
def test_what_is_one_hierarchy_stays_one(written: Any) -> None:
    """Law: signs inside of options, and names in a list of columns, join nothing."""
    assert as_hierarchies(written) == as_hierarchy(written)
    assert not isinstance(as_hierarchy(written), Cells)
    assert as_hierarchies(as_hierarchy(written).spec) == as_hierarchy(written)


@pytest.mark.parametrize("written", [FOUR, "a * b * c", "sets:a,b;b,c;b", "a > path:p?depth=3"])
def test_no_kind_comes_before_one_that_refines_it(written: str) -> None:
    """Law: finest first, each kind once, the total not among them."""
    cells = as_hierarchies(written)
    assert isinstance(cells, Cells)
    for before, after in itertools.combinations(cells.kinds, 2):
        assert not all(a <= b for a, b in zip(before, after, strict=True))
    assert all(map(any, cells.kinds))
    assert cells.height == len(cells.kinds) == len(cells.level_names)


def test_the_order_is_by_levels_and_then_as_specified() -> None:
    """Law: ties are broken by the order of the dimensions, as the receipt prints it."""
    cells = dp.product("a", dp.code("c", lengths=(1, 2)))
    assert cells.kinds == ((1, 2), (1, 1), (0, 2), (1, 0), (0, 1))
    assert cells.level_names[-1] == f"a * c {dp.code('c', lengths=(1, 2)).level_names[1]}"
    assert as_hierarchies(FOUR).height == 24


def test_a_cube_of_many_kinds_is_shown_by_its_text() -> None:
    assert repr(dp.cube(["a", "b"])) == "Cells('columns:a * columns:b')"


BAD: list[tuple[Any, str]] = [
    ("ip:src * path:src", "column 'src' is in several dimensions"),
    ("a * b * a", "column 'a' is in several dimensions"),
    (("path:a", "path:b", "path:c"), "728 kinds of cells, above 128"),
    ("a * b * c * d * e * f * g * h", "have 255 kinds .*a cube of 7 has 127"),
    ("sets:a,b;a;b;a", "'a'.* twice: keep one"),
    ("sets:a;a,b", r"\['a'\] before \['a', 'b'\].*\[\['a', 'b'\], \['a'\]\]"),
    ("sets:a,b;;a", "grouping_sets needs sets of columns"),
    ("sets:a", "names one column"),
    ("a * b > c", "both"),
    (("sets:a,b;a", "c"), "lacks some kinds of cells"),
    ([["a", "b"], ["a"]], "Sets of columns are dp.grouping_sets"),
    ("ip:src * ipp:dst", "names no known kind"),
]


@pytest.mark.parametrize(("written", "said"), BAD, ids=[str(w) for w, _ in BAD])
def test_what_cannot_be_asked_says_why_and_what_to_write(written: Any, said: str) -> None:
    with pytest.raises(dp.HierarchyError, match=said):
        dp.product(*written) if isinstance(written, tuple) else as_hierarchies(written)


def test_arguments_of_other_kinds_are_refused() -> None:
    for call in (
        lambda: dp.grouping_sets("a,b"),
        lambda: dp.grouping_sets([["a", 1]]),  # type: ignore[list-item]
        lambda: dp.cube("abc"),
    ):
        with pytest.raises(dp.ParameterTypeError):
            call()
    for call in (lambda: dp.product("a"), lambda: dp.cube(["a"]), lambda: dp.cube(["a", "a"])):
        with pytest.raises(dp.HierarchyError):
            call()


@pytest.mark.parametrize("value", [FOUR, dp.product("a", "b"), ["a", "ip:src"], "sets:a,b;a"])
def test_questions_of_one_hierarchy_refuse_several(value: Any) -> None:
    with pytest.raises(dp.HierarchyError, match="is several hierarchies"):
        as_hierarchy(value)
