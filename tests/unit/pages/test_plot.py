"""The plotly figure of a release."""

from __future__ import annotations

import sys
from typing import Any

import pandas as pd
import pytest

import dpframe as dp
from dpframe.asking.receipt import Receipt
from dpframe.errors import DpframeError, ParameterError
from dpframe.pages.plot import plot

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


@pytest.mark.parametrize("kind", ["icicle", "treemap"])
def test_nodes_lie_under_their_ancestors(graph: Any, kind: Any) -> None:
    figure = plot(*released(COUNTS), kind=kind)
    (trace,) = figure.data
    assert trace.type == kind
    assert list(trace.ids) == ["0", "1", "2", "3", "4", "5"]
    assert list(trace.parents) == ["", "0", "1", "2", "0", "0"]
    assert figure.to_json()


def test_children_fit_into_their_parents(graph: Any) -> None:
    """plotly draws nothing where children exceed a total; released numbers stay in the text."""
    (trace,) = plot(*released(COUNTS)).data
    assert trace.branchvalues == "total"
    assert list(trace.values) == [12354, 12345, 12345, 12345, 0, 9]
    assert "count 20<br>between 17 and 23 (95 %)<br>residual 7<br>level 1" in trace.hovertext[1]
    assert "count -4<br>between -7 and -1" in trace.hovertext[4]
    assert "12,345" in trace.hovertext[3]


def test_labels_are_shown_as_they_are(graph: Any) -> None:
    """plotly reads tags in text; labels have none, do not repeat their parent and end in time."""
    (trace,) = plot(*released(COUNTS)).data
    assert list(trace.labels[:3]) == ["Everything", "a", "b"]
    for text in (trace.labels[3], trace.hovertext[3]):
        assert "<a" not in text
        assert "&lt;b&gt;x&lt;/b&gt;&lt;a href='javascript:alert(1)'&gt;&amp;amp;" in text
    assert max(map(len, trace.labels)) < 300


def test_no_rows_and_no_total(graph: Any) -> None:
    """An empty figure, and several roots."""
    frame, receipt = released(COUNTS)
    assert len(plot(frame.iloc[:0], receipt).data[0].ids or ()) == 0
    assert list(plot(frame.iloc[1:], receipt).data[0].parents) == ["", "0", "1", "", ""]


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ParameterError, match="must be 'icicle' or 'treemap'"):
        plot(*released(COUNTS), kind="pie")  # type: ignore[arg-type]


def test_without_plotly_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of dpframe's own, with the command."""
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    with pytest.raises(DpframeError, match=r"pip install 'dpframe\[plots\]'"):
        plot(*released(COUNTS))


@pytest.mark.parametrize("consistent", [True, False])
@pytest.mark.parametrize("kind", ["icicle", "treemap"])
def test_tree_counts_are_drawn_with_their_rests(graph: Any, kind: Any, consistent: bool) -> None:
    """``<other>`` is a node like others; where counts add up, areas are the counts."""
    source = pd.DataFrame({"p": ["a/b"] * 300 + ["a/c"] * 200 + ["d"] * 90})
    frame = dp.tree_counts(
        source, "path:p?depth=2", epsilon=1.0, keys=["a/b", "e"], consistent=consistent
    )
    figure = plot(frame, frame.dp.receipt, kind=kind)
    (trace,) = figure.data
    assert list(trace.labels) == ["Everything", "a", "e", "<other>", "b", "<other>"] or list(
        trace.labels
    ) == ["Everything", "a", "e", "&lt;other&gt;", "b", "&lt;other&gt;"]
    assert list(trace.parents) == ["", "0", "0", "0", "1", "1"]
    assert figure.layout.title.text == "Counts of p"
    assert "1-differential privacy" in figure.layout.title.subtitle.text
    if consistent:
        assert list(trace.values) == frame["count"].tolist()
    assert figure.to_json()
