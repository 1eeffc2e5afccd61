"""A release as a plotly figure."""

from __future__ import annotations

import html
import importlib
from typing import Any, Literal

import pandas as pd

from dpframe.asking.receipt import Receipt
from dpframe.errors import DpframeError, ParameterError
from dpframe.hierarchy import as_hierarchy
from dpframe.pages.parts import figure, shown_part
from dpframe.postprocess.flat import as_nodes
from dpframe.postprocess.nesting import areas, joint, nearest_reported

LONGEST_LABEL = 120
"""Characters of a label that are drawn; plotly neither wraps nor cuts text."""


def plot(
    frame: pd.DataFrame, receipt: Receipt, *, kind: Literal["icicle", "treemap"] = "icicle"
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

    Returns
    -------
    plotly.graph_objects.Figure
        One trace. A node lies under its nearest reported ancestor.

    Raises
    ------
    DpframeError
        plotly is not installed.
    ParameterError
        The frame lacks a column of a release, does not belong to the receipt, or holds other
        numbers than were released.

    Privacy
    -------
    Post-processing of a release: free.
    """
    if kind not in ("icicle", "treemap"):
        raise ParameterError(f"kind ({kind!r}) must be 'icicle' or 'treemap'.")
    graph = plotly_objects()
    frame, extract = shown_part(frame, receipt, "plot")
    hierarchy = as_hierarchy(receipt["hierarchy"])
    frame = as_nodes(frame, hierarchy.label_columns)
    ancestor = nearest_reported(frame, hierarchy)
    trace = {"icicle": graph.Icicle, "treemap": graph.Treemap}[kind](
        ids=[str(i) for i in range(len(frame))],
        parents=[str(i) if i >= 0 else "" for i in ancestor.tolist()],
        labels=_labels(frame, ancestor.tolist(), joint(hierarchy)),
        values=areas(frame, ancestor).tolist(),
        branchvalues="total",
        marker={"colors": _colours(frame["level"].tolist(), hierarchy.height)},
        hovertext=_hover(frame, hierarchy.level_names, receipt),
        hovertemplate="%{hovertext}<extra></extra>",
    )
    figure = graph.Figure(trace)
    columns = ", ".join(hierarchy.source_columns)
    promise = f"Noisy counts with {receipt['guarantee']}"
    figure.update_layout(
        title={
            "text": _drawn(f"{receipt.subject} of {columns}"),
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


def _hover(frame: pd.DataFrame, names: tuple[str, ...], receipt: Receipt) -> list[str]:
    confidence, digits = receipt["confidence"], receipt.digits
    numbers = (frame[name].tolist() for name in ("level", "count", "lower", "upper", "residual"))
    out = []
    for label, level, *counts in zip(frame["prefix"], *numbers, strict=True):
        count, lower, upper, residual = ("" if pd.isna(n) else figure(n, digits) for n in counts)
        between = f"between {lower} and {upper}" if upper else f"at least {lower}"
        lines = [f"<b>{_drawn(label)}</b>", f"count {count}", between]
        lines[-1] += f" ({100 * confidence:.6g} %)"
        lines.append(f"residual {residual}")
        lines.append(f"level {level}" + (f", {_drawn(names[level - 1])}" if level else ""))
        out.append("<br>".join(lines))
    return out


def _drawn(text: object) -> str:
    """Text that plotly shows as it is: it would read tags, and run on for ever."""
    whole = str(text)
    return html.escape(
        whole if len(whole) <= LONGEST_LABEL else f"{whole[: LONGEST_LABEL - 1]}…", quote=False
    )
