"""Draw a release as a plotly figure, of a kind that fits the release."""

from __future__ import annotations

from typing import Any

import pandas as pd

from dpframe._late_imports import import_extra
from dpframe.asking.privacy_receipt import Receipt
from dpframe.pages.chartable import Chartable, DrawnMeasure, Kind, area_measure, chartable
from dpframe.pages.page_parts import released_part
from dpframe.pages.plot_cells import heatmap
from dpframe.pages.plot_rows import bar_figure, line_figure
from dpframe.pages.plot_texts import plotly_text
from dpframe.pages.plot_trees import tree_figure


def plot(
    frame: pd.DataFrame,
    receipt: Receipt,
    *,
    kind: Kind | None = None,
    measure: str | None = None,
) -> Any:
    """Return a plotly figure of the reported nodes, with error bounds in the hover text.

    Parameters
    ----------
    frame
        The frame of a release, or some of its rows in any order.
    receipt
        Its receipt, ``result.dp.receipt``.
    kind
        "bar": one level side by side, with intervals; the default for lists.
        "line": over time, with the band of intervals; the default for dates.
        "heatmap": the first column by the second; the default if most of that grid is reported.
        "icicle" (the default for all other trees) or "treemap": parts of a whole.
    measure
        The measure of a rollup that is drawn, by its column. By default bars and lines show all
        measures beside each other, and other drawings the first that they can show.

    Returns
    -------
    plotly.graph_objects.Figure
        Noisy children can sum up to more than their parent, and counts can be negative. Therefore
        the area of a node in a tree is the larger of its count and the sum of its children's areas,
        and never below 0. If small blocks are widened or drawn together, the subtitle says so.
        Hover text shows the released numbers.

    Raises
    ------
    DpframeError
        plotly is not installed.
    ParameterError
        The kind or the measure does not fit the release; or the frame lacks a column of a release,
        does not belong to the receipt, or its numbers were changed.

    Privacy
    -------
    Post-processing of a release: free.
    """
    frame, extract = released_part(frame, receipt, "plot")
    shown = chartable(frame, receipt)
    asked = shown.chosen(measure)
    form = shown.kind(kind)
    graph = plotly_objects()
    if form in ("bar", "line"):
        measures = shown.measures if asked is None else (asked,)
        draw = bar_figure if form == "bar" else line_figure
        figure, said = draw(shown, measures, graph)
    else:
        measures = (area_measure(shown, form, asked),)
        if form == "heatmap":
            figure, said = heatmap(shown, measures[0], graph)
        else:
            figure, said = tree_figure(shown, measures[0], form, graph)
    promise = f"Noisy {'numbers' if shown.is_rollup else 'counts'} with {receipt['guarantee']}"
    subtitle = [promise, extract, "; ".join(said)]
    figure.update_layout(
        title={
            "text": plotly_text(_subject(shown, measures)),
            "subtitle": {"text": "<br>".join(plotly_text(line, 200) for line in subtitle if line)},
            "yref": "container",
            "y": 1,
            "yanchor": "top",
            "pad": {"t": 18},
        },
        margin={"t": 84 + 17 * sum(map(bool, subtitle)), "l": 16, "r": 16, "b": 16},
    )
    return figure


def _subject(shown: Chartable, measures: tuple[DrawnMeasure, ...]) -> str:
    columns = ", ".join(shown.hierarchy.source_columns)
    named = f": {measures[0].name}" if shown.is_rollup and len(measures) == 1 else ""
    return f"{shown.receipt.subject} of {columns}{named}"


def plotly_objects() -> Any:
    """Return plotly's module of figures; DpframeError if plotly is not installed."""
    missing = "plot needs plotly. Run pip install 'dpframe[plots]'."
    return import_extra("plotly.graph_objects", missing)
