"""The plotly figure of a release."""

from __future__ import annotations

import html
import re
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpframe as dp
from dpframe.asking.privacy_receipt import Receipt
from dpframe.pages.chartable import LEAST, Block, blocks, period_of_label, period_start_text
from dpframe.pages.plot import plot
from dpframe.pages.report import report_page
from tests.members import tries

HOSTILE = "<b>x</b><a href='javascript:alert(1)'>&amp;"


def released(count: list[int]) -> tuple[pd.DataFrame, Receipt]:
    """Six nodes of a path with these noisy counts, and a receipt for paths."""
    labels = ["*", "a", "a/b", f"a/b/{HOSTILE}", "c", "y" * 999]
    frame = pd.DataFrame({"level": [0, 1, 2, 3, 1, 1], "prefix": labels, "count": count})
    frame = frame.assign(residual=7, lower=frame["count"] - 3, upper=frame["count"] + 3)
    empty = pd.DataFrame({"p": pd.Series([], dtype=object)})
    return frame, dp.hhh(empty, "path:p", epsilon=1.0, delta=1e-6).dp.receipt


COUNTS = [50, 20, 35, 12345, -4, 9]


@pytest.fixture
def graph() -> Any:
    return pytest.importorskip("plotly.graph_objects", reason="plotly is an optional package")


def blocks_of(figure: Any) -> dict[str, tuple[str, str, float, str]]:
    """Parent, label, value and hover text of every block of a tree, by the row that it is."""
    (trace,) = figure.data
    rows = zip(trace.ids, trace.parents, trace.labels, trace.values, trace.hovertext, strict=True)
    return {row[0]: row[1:] for row in rows}


@pytest.mark.parametrize("kind", ["icicle", "treemap"])
def test_nodes_lie_under_their_ancestors(graph: Any, kind: Any) -> None:
    """Law: a block lies in the one of its nearest reported ancestor, the largest first."""
    figure = plot(*released(COUNTS), kind=kind)
    (trace,) = figure.data
    assert trace.type == kind
    found = blocks_of(figure)
    assert list(found) == ["0", "1", "5", "4", "2", "3"]
    assert {at: block[0] for at, block in found.items()} == dict(
        zip("015423", ["", "0", "0", "0", "1", "2"], strict=True)
    )
    assert figure.to_json()


def test_children_fit_into_their_parents(graph: Any) -> None:
    """plotly draws nothing where children exceed a total; released numbers stay in the text."""
    figure = plot(*released(COUNTS))
    assert figure.data[0].branchvalues == "total"
    found = blocks_of(figure)
    values = {at: block[2] for at, block in found.items()}
    assert values["0"] == 12354
    assert values["4"] == 0
    for at in values:
        inside = sum(values[other] for other, block in found.items() if block[0] == at)
        assert inside <= values[at] * (1 + 1e-12)
    assert "count 20<br>between 17 and 23 (95 %)<br>residual 7<br>level 1" in found["1"][3]
    assert "count -4<br>between -7 and -1" in found["4"][3]
    assert "12,345" in found["3"][3]


def test_a_small_block_can_be_read_and_says_so(graph: Any) -> None:
    """Law: what is widened says so, in its text and below the title; to scale nothing is said."""
    figure = plot(*released(COUNTS))
    found = blocks_of(figure)
    assert found["5"][2] == pytest.approx(LEAST * 12354)
    assert "drawn wider than to scale" in found["5"][3]
    assert "drawn larger than to scale" in figure.layout.title.subtitle.text
    figure = plot(*released([90, 50, 35, 20, 30, 10]))
    assert [block[2] for block in blocks_of(figure).values()] == [90, 50, 30, 10, 35, 20]
    assert "scale" not in figure.layout.title.subtitle.text


def test_labels_are_shown_as_they_are(graph: Any) -> None:
    """plotly reads tags in text; labels have none, do not repeat their parent and end in time."""
    found = blocks_of(plot(*released(COUNTS), kind="treemap"))
    assert [found[at][1] for at in "012"] == ["Everything", "a", "b"]
    for text in (found["3"][1], found["3"][3]):
        assert "<a" not in text
        assert "&lt;b&gt;x&lt;/b&gt;&lt;a href='javascript:alert(1)'&gt;&amp;amp;" in text
    for kind in ("icicle", "treemap"):
        drawn = blocks_of(plot(*released(COUNTS), kind=kind))  # type: ignore[arg-type]
        assert max(len(block[1]) for block in drawn.values()) < 300
    (trace,) = plot(*released(COUNTS), kind="bar").data
    assert "<a" not in "".join(trace.hovertext)


def test_no_rows_and_no_total(graph: Any) -> None:
    frame, receipt = released(COUNTS)
    assert len(plot(frame.iloc[:0], receipt).data[0].ids or ()) == 0
    assert set(plot(frame.iloc[1:], receipt).data[0].parents[:3]) == {""}
    for kind in ("icicle", "treemap", "bar"):
        assert plot(frame.iloc[:0], receipt, kind=kind).to_json()
        assert plot(frame.iloc[:1], receipt, kind=kind).to_json()


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(dp.ParameterError, match="must be one of 'bar', 'line', 'icicle'"):
        plot(*released(COUNTS), kind="pie")  # type: ignore[arg-type]


# -- what fits -----------------------------------------------------------------------------------

BUDGET: dict[str, Any] = {"epsilon": 5.0, "delta": 1e-6}
DAYS = pd.date_range("2024-01-01", periods=70)
ROWS = pd.DataFrame({"day": DAYS.repeat(40), "a": ["x", "x", "y", "z"] * 700})
ROWS = ROWS.assign(b=["p", "q"] * 1400, n=[1.0, 3.0] * 1400)
MEASURES = {"rows": "count", "total": "sum(n, 0, 5)", "typical": "mean(n, 0, 5)"}


def results() -> dict[str, tuple[pd.DataFrame, str, set[str]]]:
    """A result, the kind that is usual for it, and others that fit."""
    tree = {"icicle", "treemap", "bar"}
    skewed = pd.DataFrame({"a": ["x"] * 900 + ["y"] * 500, "b": ["p"] * 900 + ["q", "r"] * 250})
    return {
        "list": (ROWS.dp.heavy_hitters("a", k=10, **BUDGET), "bar", tree),
        "one level": (ROWS.dp.tree_counts(["a"], keys=["x", "y"], epsilon=5.0), "bar", tree),
        "months": (ROWS.dp.tree_counts("date:day?levels=month", **BUDGET), "line", {*tree, "line"}),
        "days": (ROWS.dp.hhh("date:day?levels=month,day", **BUDGET), "line", {*tree, "line"}),
        "a column of days": (ROWS.dp.heavy_hitters("day", **BUDGET), "line", {*tree, "line"}),
        "grid": (ROWS.dp.tree_counts(["a", "b"], **BUDGET), "heatmap", {*tree, "heatmap"}),
        "tree": (skewed.dp.rollup(["a", "b"], ["count"], **BUDGET), "icicle", {*tree, "heatmap"}),
        "one level is shown": (skewed.dp.hhh(["a", "b"], **BUDGET), "bar", {*tree, "heatmap"}),
        "measures": (ROWS.dp.rollup("date:day", MEASURES, **BUDGET), "line", {*tree, "line"}),
        "means": (ROWS.dp.rollup(["a"], {"typical": "mean(n, 0, 5)"}, **BUDGET), "bar", {"bar"}),
    }


def test_what_fits_is_drawn_and_what_does_not_is_refused_with_what_does(graph: Any) -> None:
    """Law: of every result the usual kind is drawn without asking."""
    shape = {"bar": "bar", "line": "scatter", "icicle": "icicle", "treemap": "treemap"}
    for name, (frame, usual, fits) in results().items():
        fits = fits | {usual}
        assert frame.dp.plot().data[0].type == shape.get(usual, usual), name
        for kind in ("bar", "line", "icicle", "treemap", "heatmap"):
            if kind in fits:
                assert frame.dp.plot(kind=kind).data[0].type == shape.get(kind, kind), name
                continue
            with pytest.raises(dp.ParameterError, match=f"kind \\('{kind}'\\)") as error:
                frame.dp.plot(kind=kind)
            named = str(error.value).rpartition("Choose ")[2]
            assert set(re.findall(r"'(\w+)'", named)) == fits, (name, kind)


def test_bars_have_their_intervals_and_every_label(graph: Any) -> None:
    """Law: the largest first, the ends of the error bars are those of the release."""
    frame = ROWS.dp.heavy_hitters("a", k=10, **BUDGET)
    figure = frame.sort_values("a").dp.plot()
    (trace,) = figure.data
    assert list(trace.x) == frame["count"].tolist()
    assert list(figure.layout.yaxis.ticktext) == frame["a"].tolist()
    upper = [v + more for v, more in zip(trace.x, trace.error_x.array, strict=True)]
    lower = [v - less for v, less in zip(trace.x, trace.error_x.arrayminus, strict=True)]
    assert upper == frame["upper"].tolist()
    assert lower == frame["lower"].tolist()


def test_blocks_of_a_tree_have_their_numbers(graph: Any) -> None:
    """Law: a block says its label and its number; one of several nodes says how many."""
    frame = ROWS.dp.tree_counts(["a", "b"], **BUDGET)
    (trace,) = frame.dp.plot(kind="icicle").data
    assert "%{text}" in trace.texttemplate
    shown = [one for one in trace.text if one]
    assert sorted(shown) == sorted(f"{n:,}" for n in frame["count"])
    addresses = pd.DataFrame({"src": ["10.218.221.241"] * 300 + ["10.47.6.154"] * 99_000})
    counted = addresses.dp.hhh("ip:src", **BUDGET)
    (drawn,) = counted.dp.plot(kind="icicle").data
    assert not any(
        "…" in label for label in drawn.labels
    )  # a number takes no more room than it has


def test_lines_run_in_time_and_break_where_nothing_is_reported(graph: Any) -> None:
    """Law: one point a period in its order, whatever the order of the rows; no line over a gap."""
    frame = ROWS.dp.tree_counts("date:day?levels=month,day", **BUDGET)
    days = frame[(frame["level"] == 2) & ~frame["prefix"].str.endswith("<other>")]
    shuffled = frame.sample(frac=1, random_state=1)
    band, line = shuffled.dp.plot().data
    assert list(line.x) == [f"{day:%Y-%m-%d}" for day in DAYS]
    assert list(line.y) == days["count"].tolist()
    assert list(band.y[:70]) == days["upper"].tolist()
    assert list(band.y[70:140]) == days["lower"].tolist()[::-1]
    gap = frame[frame["prefix"] != "2024-01-20"]
    figure = gap.dp.plot()
    assert [i for i, x in enumerate(figure.data[1].x) if x is None] == [19]
    assert "breaks where nothing was reported" in figure.layout.title.subtitle.text


def test_measures_stand_beside_each_other_or_alone(graph: Any) -> None:
    """Law: all measures of a rollup, or the one that is asked for, and each only once."""
    frame = ROWS.dp.rollup(["a"], MEASURES, **BUDGET)
    figure = frame.dp.plot()
    names = [note.text for note in figure.layout.annotations]
    assert names == ["rows", "total", "typical", "typical_clipped"][: len(names)]
    assert len(figure.data) == len(names) >= 3
    (trace,) = frame.dp.plot(measure="typical").data
    assert sorted(trace.x) == sorted(frame["typical"][1:])


def test_a_heatmap_shows_each_pair_where_it_belongs(graph: Any) -> None:
    """Law: a cell has the number of its row; pairs that were not reported have none."""
    frame = ROWS.dp.tree_counts(["a", "b"], **BUDGET)
    figure = frame.dp.plot(kind="heatmap")
    (trace,) = figure.data
    down, across = figure.layout.yaxis.ticktext, figure.layout.xaxis.ticktext
    pairs = frame[frame["level"] == 2].dropna()
    assert len(pairs) >= 4
    shown = {
        (html.unescape(a), html.unescape(b)): trace.z[i][j]
        for i, a in enumerate(down)
        for j, b in enumerate(across)
        if trace.z[i][j] == trace.z[i][j]
    }
    assert {pair: shown[pair] for pair in zip(pairs["a"], pairs["b"], strict=True)} == dict(
        zip(zip(pairs["a"], pairs["b"], strict=True), pairs["count"], strict=True)
    )


LABELS = [
    *(("2024", "2024-01-01"), ("2024-Q2", "2024-04-01"), ("2024-W01", "2024-01-01")),
    *(("2024-03", "2024-03-01"), ("2024-03-05", "2024-03-05")),
    *(("2024-03-05 07:00", "2024-03-05 07:00"), ("2024-13", None), ("2024-02-30", None)),
    *(("2023-W53", None), ("20240305", None), ("<invalid>", None)),
]


@pytest.mark.parametrize(("label", "start"), LABELS)
def test_labels_of_dates_are_read(label: str, start: str | None) -> None:
    found = period_of_label(label)
    assert (None if found is None else period_start_text(found)) == start


def test_without_plotly_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    with pytest.raises(dp.DpframeError, match=r"pip install 'dpframe\[plots\]'"):
        plot(*released(COUNTS))


def test_a_heatmap_of_nothing_is_empty(graph: Any) -> None:
    frame = ROWS.head(3).dp.hhh(["a", "b"], epsilon=1.0, delta=1e-9)
    assert plot(frame, frame.dp.receipt, kind="heatmap").data[0].z.shape == (0, 0)
    assert "<table class='grid'" in report_page(frame, frame.dp.receipt, kind="heatmap")


@pytest.mark.parametrize("consistent", [True, False])
@pytest.mark.parametrize("kind", ["icicle", "treemap"])
def test_tree_counts_are_drawn_with_their_rests(graph: Any, kind: Any, consistent: bool) -> None:
    """``<other>`` is a node like others; where counts add up, areas are the counts."""
    source = pd.DataFrame({"p": ["a/b"] * 300 + ["a/c"] * 200 + ["d"] * 90})
    frame = dp.tree_counts(
        source, "path:p?depth=2", epsilon=1.0, keys=["a/b", "e"], consistent=consistent
    )
    figure = plot(frame, frame.dp.receipt, kind=kind)
    found = {block[1]: block[0] for block in blocks_of(figure).values()}
    assert {"Everything", "a", "e", "b", "&lt;other&gt;"} == set(found)
    assert [at for at, block in blocks_of(figure).items() if block[0] == "1"] == ["4", "5"]
    assert figure.layout.title.text == "Counts of p"
    assert "1-differential privacy" in figure.layout.title.subtitle.text
    assert figure.to_json()


# -- room for small blocks of a tree ---------------------------------------------------------------


def tree(parents: list[int], own: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Areas that hold their children, and the parent of each; node 0 is the only root."""
    ancestor = np.array([-1, *(p % (i + 1) for i, p in enumerate(parents))], dtype=np.int64)
    area = np.array(own[: len(ancestor)], dtype=np.int64)
    for node in range(len(ancestor) - 1, 0, -1):
        inside = area[ancestor == ancestor[node]].sum()
        area[ancestor[node]] = max(area[ancestor[node]], inside)
    return area, ancestor


def inside(drawn: list[Block], at: int) -> list[Block]:
    return [block for block in drawn if block.inside == at]


@tries(60, 2000)
@given(
    parents=st.lists(st.integers(0, 40), min_size=1, max_size=40),
    own=st.lists(st.sampled_from([0, 1, 1, 2, 5, 30, 900]), min_size=41, max_size=41),
    in_order=st.booleans(),
)
def test_children_lie_in_their_parents_and_every_node_is_there_once(
    parents: list[int], own: list[int], in_order: bool
) -> None:
    """Law: a node is drawn, in a block of several, or below one; equal siblings alike."""
    area, ancestor = tree(parents, own)
    drawn = blocks(area, ancestor, in_order=in_order)
    held = [node for block in drawn for node in (block.several or (block.node,))]
    assert len(held) == len(set(held))
    above = {node: block.inside for block in drawn for node in (block.several or (block.node,))}
    for node in range(1, len(area)):
        if node in above:
            assert drawn[above[node]].node == ancestor[node]
            assert not drawn[above[node]].several
    together = {node for block in drawn for node in block.several}
    hidden = set(range(len(area))) - set(held)
    for node in hidden:
        assert ancestor[node] in together | hidden
    for at, block in enumerate(drawn):
        below = inside(drawn, at)
        assert sum(b.value for b in below) <= block.value * (1 + 1e-9)
        single = [b for b in below if not b.several]
        for b in single:
            for other in single:
                if area[b.node] == area[other.node]:
                    assert b.value == other.value
                elif area[b.node] > area[other.node]:
                    assert b.value >= other.value * (1 - 1e-9)


def test_a_child_of_ninety_percent_leaves_room_to_read_its_siblings() -> None:
    """Law: few have their least width, many share a block; to scale where nothing is small."""
    few = np.array([1000, 910, 30, 20, 10, 5])
    root = np.array([-1, 0, 0, 0, 0, 0])
    drawn = blocks(few, root)
    assert [block.node for block in drawn] == [0, 1, 2, 3, 4, 5]
    assert all(block.value >= LEAST * 1000 for block in drawn)
    many = np.array([1000, 910, *[3] * 30])
    drawn = blocks(many, np.array([-1, *[0] * 31]))
    assert [block.several for block in drawn] == [(), (), tuple(range(2, 32))]
    assert drawn[2].value >= 90
    even = np.array([100, 50, 30])
    assert [block.value for block in blocks(even, np.array([-1, 0, 0]))] == [100, 50, 30]
