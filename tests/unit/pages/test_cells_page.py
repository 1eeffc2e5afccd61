"""Cells as a page: what is written into it, and what is refused."""

from __future__ import annotations

import json
import re
from typing import Any

import pandas as pd
import pytest

import dpframe as dp
from dpframe.hierarchy import as_hierarchy
from dpframe.pages.page_parts import lineage_labels
from dpframe.pages.report import report_page
from dpframe.testing import seeded_noise

HOSTILE = "</script><script>window.hit = 1</script>"


def result() -> pd.DataFrame:
    rows = [("10.0.0.1", f"{HOSTILE}/b")] * 900 + [("10.9.0.1", "c")] * 700
    frame = pd.DataFrame(rows, columns=["src", "p"])
    return frame.dp.hhh("ip:src?version=4 * path:p?depth=2", epsilon=1.0, delta=1e-6, threshold=60)


def data_in(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    facts: dict[str, Any] = json.loads(found[1])
    return facts


def test_the_page_holds_every_released_number_and_the_nodes_above_it() -> None:
    """Law: lines nest: what is below a node begins like it; and no label is markup."""
    released = result()
    text = report_page(released, released.dp.receipt)
    assert HOSTILE not in text
    assert text.count("<script") == 2
    facts = data_in(text)
    assert facts["residual"] == released["residual"].tolist()
    assert facts["names"] == ["src", "p"]
    line = ["10.0.0.0/8", "10.0.0.0/16", "10.0.0.0/24", "10.0.0.1/32"]
    assert line in facts["lines"][0]
    assert [HOSTILE.split("/")[0], "/".join(HOSTILE.split("/")[:2])] in facts["lines"][1]


def test_cells_that_overlap_are_said_to() -> None:
    """Law: level 0 is everything, the first sentence names finest cells, and nothing adds up."""
    rows = [(u, f"a{u % 2}", f"b{t}") for u in range(900) for t in range(2)]
    frame = pd.DataFrame(rows, columns=["who", "a", "b"])
    with seeded_noise(2):
        released = frame.dp.hhh("a * b", user="who", epsilon=3.0, delta=1e-6)
        bought = frame.assign(v=1.0).dp.rollup(
            "a * b", {"n": "count", "s": "sum(v, 0, 2)"}, user="who", epsilon=3.0, delta=1e-6
        )
    text = report_page(released, released.dp.receipt)
    facts = data_in(text)
    assert facts["overlap"] is True
    assert facts["residual"] == released["count"].tolist()
    assert facts["kind"][0] == "everything"
    assert "The largest of 4 finest cells: " in text
    assert "Cells overlap, so that rows do not add up." in text
    assert "disjoint" not in text
    for measure in ("n", "s"):
        page = report_page(bought, bought.dp.receipt, measure=measure)
        assert data_in(page)["residual"] == pytest.approx(bought[measure].tolist())
        assert f"The largest of 4 finest cells by <bdi>{measure}</bdi>" in page
    assert data_in(report_page(result(), result().dp.receipt))["overlap"] is False


LINES: list[tuple[str, str, int, list[str]]] = [
    *(("ip:a", "2001:db8::/32", 2, ["2001::/16", "2001:db8::/32"]), ("ip:a", "*", 0, [])),
    *(("ip:a", "<invalid>", 1, ["<invalid>"]), ("path:a", "x/y/z", 3, ["x", "x/y", "x/y/z"])),
    ("domain:a", "a.b.com", 3, ["com", "b.com", "a.b.com"]),
    *(
        ("date:a", "2026-01", 2, ["2026", "2026-01"]),
        ("code:a?lengths=1,3", "123", 2, ["1", "123"]),
    ),
    ("columns:a,b", "FR / Paris", 2, ["FR", "FR / Paris"]),
    ("columns:a,b", "FR / P / Q", 2, ["FR / P / Q"]),
    ("number:a?lower=0&upper=8&depth=3", "[4, 6)", 2, ["[4, 8]", "[4, 6)"]),
]


@pytest.mark.parametrize(("hierarchy", "label", "level", "line"), LINES)
def test_lines_go_from_coarse_to_fine(hierarchy: str, label: str, level: int, line: Any) -> None:
    assert lineage_labels(as_hierarchy(hierarchy), label, level) == line


def test_choices_of_drawings_and_changed_numbers_are_refused() -> None:
    released = result()
    with pytest.raises(dp.ParameterError, match=r"kind .'bar'. does not fit cells"):
        report_page(released, released.dp.receipt, kind="bar")
    with pytest.raises(dp.ParameterError, match="not the release"):
        report_page(released.assign(residual=1), released.dp.receipt)


def test_three_dimensions_have_the_table_alone() -> None:
    frame = pd.DataFrame({"a": ["x"] * 90, "b": ["y"] * 90, "c": ["z"] * 90})
    released = frame.dp.hhh(dp.cube(["a", "b", "c"]), epsilon=1.0, delta=1e-6)
    text = report_page(released, released.dp.receipt)
    assert 'aria-labelledby="matrix-title" hidden>' in text
    assert "In none" in text


@pytest.mark.parametrize(
    ("measure", "shown", "matrix"),
    [(None, "paid", True), ("n", "n", True), ("typical", "typical", False)],
)
def test_a_rollup_shows_one_measure(measure: str | None, shown: str, matrix: bool) -> None:
    """Law: that is asked for, else the first that adds up; a matrix only of what does."""
    frame = pd.DataFrame({"a": ["x"] * 90 + ["y"] * 60, "b": ["z"] * 150, HOSTILE: 7.0})
    measures = {
        "typical": dp.mean(HOSTILE, lower=0, upper=10),
        "paid": dp.sum(HOSTILE, lower=0, upper=10),
        "n": "count",
    }
    released = frame.dp.rollup("a * b", measures, epsilon=4.0, delta=1e-6)
    text = report_page(released, released.dp.receipt, measure=measure)
    facts = data_in(text)
    assert re.findall(r'data-by="residual".*?<bdi>(.*?)</bdi>', text) == [shown]
    known = released[shown].astype(object).where(released[shown].notna(), None)
    assert facts["residual"] == known.tolist()
    assert facts["upper"] == released[f"{shown}_upper"].tolist()
    assert ('aria-labelledby="matrix-title" hidden>' in text) != matrix
    assert HOSTILE not in text
    with pytest.raises(dp.ParameterError, match="measure"):
        report_page(released, released.dp.receipt, measure="none")


def test_a_release_without_cells_says_so() -> None:
    frame = pd.DataFrame({"a": ["x"], "b": ["y"]})
    released = frame.dp.hhh("a * b", epsilon=1.0, delta=1e-6)
    text = report_page(released, released.dp.receipt)
    assert "No cell reached the threshold" in text
    assert 'aria-labelledby="matrix-title" hidden>' in text


def test_whole_counts_stand_beside_residuals() -> None:
    frame = pd.DataFrame({"a": ["x"] * 900, "b": ["y"] * 900})
    released = frame.dp.hhh("a * b", epsilon=1.0, delta=1e-6, totals=True)
    facts = data_in(report_page(released, released.dp.receipt))
    for name in ("residual", "count", "count_lower", "count_upper"):
        assert facts[name] == released[name].tolist()
