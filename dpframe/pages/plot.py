"""A release as a plotly figure."""

from __future__ import annotations

import html
import importlib
from collections.abc import Iterator
from typing import Any, Literal

import pandas as pd

from dpframe.asking.measured import ShownMeasure, shown_measures
from dpframe.asking.receipt import Receipt
from dpframe.errors import DpframeError, ParameterError
from dpframe.hierarchy import as_hierarchy
from dpframe.pages.parts import figure, shown_part
from dpframe.pages.rollups import check_columns, decimals
from dpframe.postprocess.flat import as_nodes
from dpframe.postprocess.nesting import areas, joint, nearest_reported

LONGEST_LABEL = 120
"""Characters of a label that are drawn; plotly neither wraps nor cuts text."""


def plot(
    frame: pd.DataFrame,
    receipt: Receipt,
    *,
    kind: Literal["icicle", "treemap"] = "icicle",
    measure: str | None = None,
) -> Any:
    """A plotly figure of the reported nodes, with error bounds in the hover text.

    Noisy children can sum up to more than their parent, and counts can be negative; plotly then
    draws nothing. Here ``branchvalues`` is "total", and the value of a node is its count or what
    its children take, whichever is more, and never below 0
    (:func:`dpframe.postprocess.nesting.areas`). Hover text shows the released numbers. A node
    without a positive count has no area.

    Parameters
    ----------
    frame
        What a release returned, or some of its rows in any order.
    receipt
        Its receipt, ``result.dp.receipt``.
    kind
        "icicle" (default) or "treemap".
    measure
        Of a rollup: what has the area, by its column; one whose parts are never more than the
        whole. By default the first of those.

    Returns
    -------
    plotly.graph_objects.Figure
        One trace. A node lies under its nearest reported ancestor.

    Raises
    ------
    DpframeError
        plotly is not installed.
    ParameterError
        No area can show the measure, the frame lacks a column of a release, does not belong to
        the receipt, or holds other
        numbers than were released.

    Privacy
    -------
    Post-processing of a release: free.
    """
    if kind not in ("icicle", "treemap"):
        raise ParameterError(f"kind ({kind!r}) must be 'icicle' or 'treemap'.")
    graph = plotly_objects()
    frame, extract = shown_part(frame, receipt, "plot")
    measures = shown_measures(receipt)
    width = _width(measures, measure)
    hierarchy = as_hierarchy(receipt["hierarchy"])
    frame = as_nodes(frame, hierarchy.label_columns)
    ancestor = nearest_reported(frame, hierarchy)
    trace = {"icicle": graph.Icicle, "treemap": graph.Treemap}[kind](
        ids=[str(i) for i in range(len(frame))],
        parents=[str(i) if i >= 0 else "" for i in ancestor.tolist()],
        labels=_labels(frame, ancestor.tolist(), joint(hierarchy)),
        values=areas(frame, ancestor, width).tolist(),
        branchvalues="total",
        marker={"colors": _colours(frame["level"].tolist(), hierarchy.height)},
        hovertext=_hover(frame, hierarchy.level_names, receipt, measures),
        hovertemplate="%{hovertext}<extra></extra>",
    )
    figure = graph.Figure(trace)
    columns = ", ".join(hierarchy.source_columns)
    promise = f"Noisy {'numbers' if measures else 'counts'} with {receipt['guarantee']}"
    subject = f"{receipt.subject} of {columns}" + (f": {width}" if measures else "")
    figure.update_layout(
        title={
            "text": _drawn(subject),
            "subtitle": {"text": "<br>".join(map(_drawn, filter(None, (promise, extract))))},
        },
        margin={"t": 80, "l": 16, "r": 16, "b": 16},
        uniformtext={"minsize": 11, "mode": "hide"},
    )
    if kind == "icicle":
        figure.update_traces(tiling={"orientation": "v"}, leaf={"opacity": 1})
    return figure


def plotly_objects() -> Any:
    """The figures of plotly; DpframeError without it."""
    try:
        return importlib.import_module("plotly.graph_objects")
    except ImportError:
        raise DpframeError("plot needs plotly: pip install 'dpframe[plots]'") from None


def _labels(frame: pd.DataFrame, ancestor: list[int], between: str) -> list[str]:
    """Labels without what the node above already says."""
    levels, whole = frame["level"].tolist(), frame["prefix"].astype(str).tolist()
    out = []
    for label, above in zip(whole, ancestor, strict=True):
        start = whole[above] + between if between and above >= 0 and levels[above] else ""
        out.append(_drawn(label.removeprefix(start)))
    return ["Everything" if level == 0 else label for level, label in zip(levels, out, strict=True)]


def _colours(levels: list[int], height: int) -> list[str]:
    """Light blue for everything to green for the finest level; dark text is legible on all."""
    ends = list(zip((202, 222, 255), (131, 179, 168), strict=True))
    mixed = [[round(a + (b - a) * n / height) for a, b in ends] for n in levels]
    return [f"rgb({r},{g},{b})" for r, g, b in mixed]


def _width(measures: list[ShownMeasure], asked: str | None) -> str:
    """The column that has the area."""
    if not measures:
        if asked is not None:
            raise ParameterError(f"measure ({asked!r}) is of rollups: leave it out here.")
        return "count"
    can = [measure.name for measure in measures if measure.drawn]
    shown = ", ".join(map(repr, can)) or "none of this one"
    if asked is not None and asked not in [measure.name for measure in measures]:
        raise ParameterError(
            f"measure ({asked!r}) is no measure of this rollup: pass one that areas can show, "
            f"{shown}."
        )
    if asked in can or (asked is None and can):
        return asked or can[0]
    what = "the measures of this rollup" if asked is None else f"measure {asked!r}"
    raise ParameterError(
        f"plot shows parts as areas of a whole, which {what} cannot be: means and numbers of "
        "different values do not add up, and sums of both signs have parts that are more than the "
        f"whole. Areas can show {shown}; result.dp.report(path) has a table of all."
    )


def _hover(
    frame: pd.DataFrame, names: tuple[str, ...], receipt: Receipt, measures: list[ShownMeasure]
) -> list[str]:
    percent = f"({100 * receipt['confidence']:.6g} %)"
    if measures:
        numbers = _measured(frame, measures, percent)
    else:
        numbers = _counted(frame, receipt.digits, percent)
    out = []
    for label, level, said in zip(frame["prefix"], frame["level"].tolist(), numbers, strict=True):
        where = f"level {level}" + (f", {_drawn(names[level - 1])}" if level else "")
        out.append("<br>".join([f"<b>{_drawn(label)}</b>", *said, where]))
    return out


def _counted(frame: pd.DataFrame, digits: int, percent: str) -> Iterator[list[str]]:
    columns = (frame[name].tolist() for name in ("count", "lower", "upper", "residual"))
    for row in zip(*columns, strict=True):
        count, lower, upper, residual = ("" if pd.isna(n) else figure(n, digits) for n in row)
        between = f"between {lower} and {upper}" if upper else f"at least {lower}"
        yield [f"count {count}", f"{between} {percent}", f"residual {residual}"]


def _measured(
    frame: pd.DataFrame, measures: list[ShownMeasure], percent: str
) -> Iterator[list[str]]:
    check_columns(frame, measures)
    places = [decimals(frame, measure) for measure in measures]
    columns = [frame[list(measure.columns)].to_numpy().tolist() for measure in measures]
    for row in zip(*columns, strict=True):
        yield [
            f"{_drawn(measure.name)} {value:,.{n}f}, between {lower:,.{n}f} and {upper:,.{n}f} "
            f"{percent}"
            for measure, n, (value, lower, upper) in zip(measures, places, row, strict=True)
        ]


def _drawn(text: object) -> str:
    """Text that plotly shows as it is: it would read tags, and run on for ever."""
    whole = str(text)
    return html.escape(
        whole if len(whole) <= LONGEST_LABEL else f"{whole[: LONGEST_LABEL - 1]}…", quote=False
    )
