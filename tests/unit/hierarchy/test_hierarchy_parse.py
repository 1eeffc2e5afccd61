"""What people write and the hierarchy that it means."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpframe as dp
from dpframe.hierarchy import KINDS, Hierarchy, as_hierarchy
from tests.members import tries

NAMES = st.one_of(
    st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=12),
    st.sampled_from(
        [" ", " a ", "a,b", "a?b=c&d", "100%", "%2C", "a:b", "a b", 'a"b', "a'b", "+", "日本"]
    ),
)
"""Column names, with everything in them that a specification uses itself."""


def lengths(low: int, high: int) -> st.SearchStrategy[tuple[int, ...]]:
    numbers = st.lists(st.integers(low, high), min_size=1, max_size=8, unique=True)
    return numbers.map(sorted).map(tuple)


LISTS = st.lists(NAMES, min_size=1, max_size=5, unique=True)
UNITS = ("year", "month", "day", "hour")
LEVELS = st.sets(st.sampled_from(UNITS), min_size=1).map(
    lambda s: tuple(sorted(s, key=UNITS.index))
)
INVALID = st.sampled_from(["count", "drop"])
BOUNDS = st.floats(-1e300, 1e300) | st.integers(-(2**63), 2**63)
HIERARCHIES: st.SearchStrategy[Hierarchy] = st.one_of(
    st.builds(
        dp.ip,
        NAMES,
        prefixes=lengths(1, 32),
        prefixes6=lengths(1, 128),
        version=st.sampled_from([None, 4, 6]),
        invalid=INVALID,
    ),
    st.builds(dp.path, NAMES, separator=NAMES, depth=st.integers(1, 128), invalid=INVALID),
    st.builds(lambda names, invalid: dp.columns(*names, invalid=invalid), LISTS, INVALID),
    st.builds(dp.domain, NAMES, depth=st.integers(1, 128), invalid=INVALID),
    st.builds(dp.date, NAMES, levels=LEVELS, invalid=INVALID),
    st.builds(dp.code, NAMES, lengths=lengths(1, 10_000), invalid=INVALID),
    st.builds(
        lambda name, bounds, depth, invalid: dp.number(
            name, lower=bounds[0], upper=bounds[1], depth=depth, invalid=invalid
        ),
        NAMES,
        st.tuples(BOUNDS, BOUNDS).map(sorted).filter(lambda b: float(b[0]) < float(b[1])),
        st.integers(1, 48),
        INVALID,
    ),
)


@tries(50, 400, deadline=None)
@given(HIERARCHIES)
def test_the_specification_says_everything(hierarchy: Hierarchy) -> None:
    """Parsing the canonical string gives an equal hierarchy, whatever its columns are called."""
    again = as_hierarchy(hierarchy.spec)
    assert again == hierarchy
    assert hash(again) == hash(hierarchy)
    assert again.spec == hierarchy.spec
    assert again.height == hierarchy.height == len(hierarchy.level_names)
    assert as_hierarchy(hierarchy) is hierarchy


DROPS = dp.ip("a", invalid="drop")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        *(("ip:src", dp.ip("src")), ("ip: src ", dp.ip("src")), ("date:when", dp.date("when"))),
        ("ip:src?prefixes=8,16&version=4", dp.ip("src", prefixes=(8, 16), version=4)),
        ("ip:src?prefixes6=32&version=6", dp.ip("src", prefixes6=(32,), version=6)),
        *(("path:c", dp.path("c")), ("path:c?separator= > ", dp.path("c", separator=" > "))),
        ("path:c?separator=+", dp.path("c", separator="+")),
        ("path:c?separator=%26&depth=3", dp.path("c", separator="&", depth=3)),
        ("columns:country, state,city", dp.columns("country", "state", "city")),
        *((["a", "b"], dp.columns("a", "b")), (("a,b", "c"), dp.columns("a,b", "c"))),
        *(
            (dp.columns(names), dp.columns("a", "b"))
            for names in (["a", "b"], pd.Index(["a", "b"]))
        ),
        *(("columns:a%2Cb,c", dp.columns("a,b", "c")), ("ip:a?invalid=drop", DROPS)),
        ("domain:host?depth=2", dp.domain("host", depth=2)),
        ("date:when?levels=year, month", dp.date("when", levels=("year", "month"))),
        ("code:zip?lengths=1,3,5", dp.code("zip", lengths=(1, 3, 5))),
        ("number:age?lower=0&upper=100", dp.number("age", lower=0, upper=100)),
        ("number:t?lower=-1.5&upper=1e3&depth=4", dp.number("t", lower=-1.5, upper=1000, depth=4)),
    ],
)
def test_string_list_and_object_mean_the_same(written: Any, meant: Hierarchy) -> None:
    assert as_hierarchy(written) == meant
    assert as_hierarchy(written).spec == meant.spec


def test_lists_arrays_and_ranges_are_as_good_as_tuples() -> None:
    assert dp.code("z", lengths=[1, 3]) == dp.code("z", lengths=(1, 3))  # type: ignore[arg-type]
    assert dp.code("z", lengths=range(1, 4)).height == 3  # type: ignore[arg-type]
    assert dp.ip("a", prefixes=np.array([8, 16])) == dp.ip("a", prefixes=(8, 16))  # type: ignore[arg-type]
    assert dp.date("d", levels=["year"]) == dp.date("d", levels=("year",))  # type: ignore[arg-type]


NO_NAMES: list[Any] = [[], [1], ["a", None], ["a", ""], [["a"]]]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("", "hierarchy '' names no known kind"),
        ("ip", "hierarchy 'ip' has no column: write ip:COLUMN, or columns:ip"),
        ("a, b", "'a, b' would be one column.*columns:a,b"),
        *((f"{ip}:src", r"Did you mean 'ip'\?") for ip in ("ips", "IP")),
        ("column:a", r"Did you mean 'columns'\?"),
        ("geo:a", "names no known kind"),
        ("ip:", "has an empty column name: write ip:COLUMN"),
        ("columns:a,,b", "has an empty column name"),
        ("columns:a,a", "columns names 'a' twice"),
        ("ip:a,b", "ip reads one column; 'ip:a,b' names 2"),
        ("ip:a?prefix=8", r"no option 'prefix'\. Did you mean 'prefixes'\? It has: prefixes"),
        ("path:a?height=3", "path has no option 'height'.*It has: separator, depth, invalid"),
        ("ip:a?prefixes=8,x", "ip: prefixes must be a whole number; got 'x'"),
        ("ip:a?prefixes=16,8", r"ip: prefixes must increase, coarse to fine; got \(16, 8\)"),
        ("ip:a?prefixes=8,8", "ip: prefixes must increase"),
        *((f"ip:a?prefixes={p}", "ip: prefixes must lie in 1 to 32") for p in ("0,8", "33")),
        ("ip:a?prefixes6=129", "ip: prefixes6 must lie in 1 to 128"),
        ("ip:a?version=5", "ip: version must be 4, 6 or absent; got 5"),
        ("ip:a?invalid=skip", "invalid='skip' is not known: use 'count'"),
        *((f"path:a?depth={d}", f"in 1 to 128; got {d}") for d in (0, 129)),
        ("path:a?depth=", "path: depth must be a whole number; got ''"),
        ("path:a?separator=", "path: separator must be text"),
        ("domain:a?depth=-1", "domain: depth must be a whole number in 1 to 128"),
        ("date:a?levels=day,year", "date: levels must go from coarse to fine"),
        ("date:a?levels=decade", "date: levels must be some of year, quarter, month, week, day"),
        ("code:a", "code needs lengths: write 'code:COLUMN"),
        ("code:a?lengths=3,1", "code: lengths must increase"),
        ("number:a", "number needs lower and upper: .*public values"),
        ("number:a?lower=0", "number needs upper"),
        ("number:a?lower=x&upper=1", "number: lower must be a number; got 'x'"),
        ("number:a?lower=0&upper=inf", "number: upper must be finite"),
        ("number:a?lower=nan&upper=1", "number: lower must be finite"),
        ("number:a?lower=1&upper=1", "must be less than upper"),
        ("number:a?lower=0&upper=1&depth=49", "number: depth must be a whole number in 1 to 48"),
        (["a", "a"], "columns names 'a' twice"),
        *((names, "columns needs the names") for names in NO_NAMES),
    ],
)
def test_wrong_specifications_are_answered_by_name(written: Any, said: str) -> None:
    with pytest.raises(dp.HierarchyError, match=said):
        as_hierarchy(written)


def test_an_unknown_kind_is_answered_with_all_kinds() -> None:
    with pytest.raises(dp.HierarchyError) as error:
        as_hierarchy("geo:src")
    for kind in KINDS:
        assert f"{kind}:" in str(error.value)


@pytest.mark.parametrize("written", [None, 3, 1.5, b"ip:src", {"a"}, object])
def test_other_types_are_no_hierarchies(written: Any) -> None:
    said = r"hierarchy must be the name of a column.*; got [\w.]+\.$"
    with pytest.raises(dp.ParameterTypeError, match=said):
        as_hierarchy(written)


NO_COLUMNS: list[Any] = [[], [["a", 1]], [["a"], "b"], [3]]


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: dp.ip(""), "ip needs the name of one column"),
        (lambda: dp.ip(3), "ip needs the name of one column"),  # type: ignore[arg-type]
        (lambda: dp.path(["a"]), "path needs the name of one column"),  # type: ignore[arg-type]
        (lambda: dp.ip("a", prefixes=8), "prefixes must be whole numbers; got 8"),  # type: ignore[arg-type]
        (lambda: dp.ip("a", prefixes=()), "prefixes must be whole numbers"),
        (lambda: dp.ip("a", prefixes=(True,)), "prefixes must be whole numbers"),
        (lambda: dp.ip("a", prefixes=(8.0,)), "prefixes must be whole numbers"),  # type: ignore[arg-type]
        (lambda: dp.ip("a", version=4.0), "version must be 4, 6 or absent"),  # type: ignore[arg-type]
        (lambda: dp.ip("a", invalid=None), "invalid=None is not known"),  # type: ignore[arg-type]
        (lambda: dp.path("a", depth=True), "depth must be a whole number"),
        (lambda: dp.path("a", depth=2.0), "depth must be a whole number"),  # type: ignore[arg-type]
        (lambda: dp.path("a", separator=b"/"), "separator must be text"),  # type: ignore[arg-type]
        (lambda: dp.domain("a", depth="2"), "depth must be a whole number"),  # type: ignore[arg-type]
        (lambda: dp.date("a", levels="year"), "levels must be some of"),  # type: ignore[arg-type]
        (lambda: dp.date("a", levels=()), "levels must be some of"),
        (lambda: dp.date("a", levels=3), "levels must be some of"),  # type: ignore[arg-type]
        (lambda: dp.code("a", lengths=3), "lengths must be whole numbers"),  # type: ignore[arg-type]
        (lambda: dp.code("a", lengths=tuple(range(1, 200))), "has 199 levels"),
        *((lambda names=n: dp.columns(*names), "columns needs the names") for n in NO_COLUMNS),
        (lambda: dp.columns(*[f"c{i}" for i in range(129)]), "has 129 levels"),
        (lambda: dp.number("a", lower=True, upper=2), "lower must be a number"),
        (lambda: dp.number("a", lower="0", upper=2), "lower must be a number"),  # type: ignore[arg-type]
        (lambda: dp.number("a", lower=0, upper=10**400), "upper must be finite"),
        (lambda: dp.number("a", lower=0, upper=1, depth=True), "depth must be a whole number"),
    ],
)
def test_wrong_objects_are_answered_by_name(build: Any, said: str) -> None:
    with pytest.raises(dp.HierarchyError, match=said):
        build()


HEIGHTS = [
    *(("ip:a", 5), ("ip:a?version=4", 4), ("ip:a?version=6", 5), ("path:a", 8), ("domain:a", 4)),
    *(("ip:a?prefixes=8&prefixes6=32", 1), ("path:a?depth=128", 128), ("columns:a,b,c", 3)),
    *(("date:a", 4), ("date:a?levels=day", 1), ("code:a?lengths=1,3,5", 3)),
    ("number:a?lower=0&upper=1", 10),
]


@pytest.mark.parametrize(("spec", "height"), HEIGHTS)
def test_the_height_follows_from_the_specification(spec: str, height: int) -> None:
    assert as_hierarchy(spec).height == height
