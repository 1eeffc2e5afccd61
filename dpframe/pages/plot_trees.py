"""Draw parts of a whole as a plotly icicle or treemap."""

from __future__ import annotations

from typing import Any

from dpframe.pages.chartable import Chartable, DrawnMeasure
from dpframe.pages.plot_texts import hover_texts, plotly_text
from dpframe.pages.widths import Block, blocks
from dpframe.postprocess.shown_nodes import areas, label_joint, nearest_reported

NAMED = 12
"""Largest number of nodes that the hover text of a block of several nodes names."""

GREY = "rgb(225,225,225)"

HEIGHT = 720
"""Height in pixels: the least block of a level has room for a line of text."""

ACROSS = 112
"""Characters that fit beside each other into a usual figure; the levels share them."""

WIDENED = "small blocks are drawn larger than to scale, and hatched ones hold several nodes"


def tree_figure(
    shown: Chartable, measure: DrawnMeasure, kind: str, graph: Any
) -> tuple[Any, list[str]]:
    """Return a figure with one trace, and remarks for its subtitle."""
    ancestor = nearest_reported(shown.nodes, shown.hierarchy)
    area = areas(shown.nodes, ancestor, measure.columns[0])
    in_order = shown.hierarchy.kind in ("date", "number")
    drawn = blocks(area, ancestor, in_order=in_order)
    longest = max(8, ACROSS // (len(set(shown.level.tolist())) or 1)) if kind == "icicle" else 60
    labels = _block_labels(shown, ancestor.tolist(), longest)
    said = hover_texts(shown.nodes, shown)
    level = shown.level.tolist()
    kinds = {"icicle": graph.Icicle, "treemap": graph.Treemap}
    ids = [f"more in {b.inside}" if b.several else str(b.node) for b in drawn]
    trace = kinds[kind](
        ids=ids,
        parents=[ids[block.inside] if block.inside >= 0 else "" for block in drawn],
        labels=[f"{len(b.several):,} more" if b.several else labels[b.node] for b in drawn],
        values=[block.value for block in drawn],
        branchvalues="total",
        sort=False,
        marker={
            "colors": [
                GREY if block.several else _level_colour(level[block.node], shown.hierarchy.height)
                for block in drawn
            ],
            "line": {"color": "white", "width": 1},
            "pattern": {"shape": ["/" if block.several else "" for block in drawn]},
        },
        hovertext=[_block_hover_text(block, said, labels) for block in drawn],
        hovertemplate="%{hovertext}<extra></extra>",
    )
    figure = graph.Figure(trace)
    figure.update_layout(uniformtext={"minsize": 11, "mode": "hide"}, height=HEIGHT)
    if kind == "icicle":
        figure.update_traces(tiling={"orientation": "h"}, leaf={"opacity": 1})
    widened = any(block.widened for block in drawn)
    return figure, [WIDENED] if widened else []


def _block_labels(shown: Chartable, ancestor: list[int], longest: int) -> list[str]:
    """Return labels without the beginning that the label of the node above already has."""
    between = label_joint(shown.hierarchy)
    levels, whole = shown.level.tolist(), shown.nodes["prefix"].astype(str).tolist()
    out = []
    for label, above in zip(whole, ancestor, strict=True):
        start = whole[above] + between if between and above >= 0 and levels[above] else ""
        out.append(plotly_text(label.removeprefix(start), longest))
    return ["Everything" if level == 0 else label for level, label in zip(levels, out, strict=True)]


def _block_hover_text(block: Block, said: list[str], labels: list[str]) -> str:
    if not block.several:
        wider = "<br>drawn wider than to scale" if block.widened else ""
        return said[block.node] + wider
    names = [labels[i] for i in block.several[:NAMED]]
    more = ["…"] if len(block.several) > NAMED else []
    return "<br>".join([f"<b>{len(block.several):,} smaller nodes</b>", *names, *more])


def _level_colour(level: int, height: int) -> str:
    """Return the colour of a level, from light blue for the root to green for the finest; dark text
    is legible on all of them."""
    ends = zip((202, 222, 255), (131, 179, 168), strict=True)
    r, g, b = (round(a + (z - a) * level / height) for a, z in ends)
    return f"rgb({r},{g},{b})"
