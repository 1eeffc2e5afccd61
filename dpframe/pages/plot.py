"""``result.dp.plot()``: plotly's figures of a release, and of changes."""

from __future__ import annotations

import html
import importlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.asking.privacy_receipt import Receipt
from dpframe.common.calls import import_extra
from dpframe.measures.bins import DAY
from dpframe.pages.chartable import (
    BARS,
    PANELS,
    Block,
    Chartable,
    DrawnMeasure,
    Kind,
    area_measure,
    blocks,
    changes_of,
    chartable,
    dated_rows,
    grid_of,
    level_order,
    measure_points,
    period_start_text,
)
from dpframe.pages.drawings import Point
from dpframe.pages.page_parts import released_part, sure_text
from dpframe.postprocess.shown_nodes import (
    areas,
    finite_numbers,
    label_joint,
    nearest_reported,
    type_of_values,
)

if TYPE_CHECKING:
    import pandas as pd

FILL = "#3b8bc4"
"""Blue that stands out from white, from grey and from black (3:1), with any kind of sight."""

BAND = "rgba(59,139,196,0.25)"
GREY, DARK_GREY = "rgb(225,225,225)", "rgb(165,165,165)"

SCALE = "Cividis"
"""Even steps of lightness, in grey print and with any kind of sight (Nunez et al. 2018)."""

SIGNED = [[0.0, "#8c510a"], [0.5, "#f5f5f5"], [1.0, "#01665e"]]
"""Brown to green over nearly white (ColorBrewer BrBG), for measures of both signs."""

CELLS, WRITTEN = 30, 16
"""Largest number of values of a column in a heatmap, the largest ones; and with numbers in it."""

NAMED = 12
"""Largest number of nodes that the hover text of a block of several nodes names."""

LONGEST, LONGEST_IN_GRID, LONGEST_IN_TEXT = 36, 28, 120
"""Largest number of characters of a label beside a bar, beside a grid, and in hover texts: plotly
neither wraps nor cuts text."""

ACROSS = 112
"""Characters that fit beside each other into a usual figure; the levels of a tree share them."""

ROW, PANEL, TREE = 26, 240, 720
"""Heights in pixels of a bar, of a panel of lines, and of a tree, whose least block has room for a
line of text."""

WIDENED = "small blocks are drawn larger than to scale, and hatched ones hold several nodes"


def plot(
    frame: pd.DataFrame,
    receipt: Receipt,
    *,
    kind: Kind | None = None,
    measure: str | None = None,
) -> Any:
    """Return a plotly figure of the reported nodes, with error bounds in the hover text.

    Arguments are those of ``result.dp.plot``. Noisy children can sum up to more than their parent,
    and counts can be negative. Therefore the area of a node in a tree is the larger of its count
    and the sum of its children's areas, and never below 0. If small blocks are widened or drawn
    together, the subtitle says so.

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
    asked = shown.find_measure(measure)
    form = shown.kind(kind)
    graph = plotly_objects()
    if form in ("bar", "line"):
        measures = shown.measures if asked is None else (asked,)
        draw = _bar_figure if form == "bar" else _line_figure
        figure, said = draw(shown, measures, graph)
    else:
        measures = (area_measure(shown, form, asked),)
        if form == "heatmap":
            figure, said = _heatmap_figure(shown, measures[0], graph)
        else:
            figure, said = _tree_figure(shown, measures[0], form, graph)
    said = [*said, *(f"{one.name}: {one.bound}" for one in measures if one.bound)]
    columns = ", ".join(shown.hierarchy.source_columns)
    named = f": {measures[0].name}" if shown.is_rollup and len(measures) == 1 else ""
    promise = f"Noisy {'numbers' if shown.is_rollup else 'counts'} with {receipt['guarantee']}"
    subtitle = [promise, extract, "; ".join(said)]
    return _with_title(figure, f"{receipt.subject} of {columns}{named}", subtitle)


def _with_title(figure: Any, title: str, subtitle: Sequence[str]) -> Any:
    """Put a title and lines below it onto a figure, and return the figure."""
    lines = [_plotly_text(line, 200) for line in subtitle if line]
    figure.update_layout(
        title={
            "text": _plotly_text(title),
            "subtitle": {"text": "<br>".join(lines)},
            "yref": "container",
            "y": 1,
            "yanchor": "top",
            "pad": {"t": 18},
        },
        margin={"t": 84 + 17 * len(lines), "l": 16, "r": 16, "b": 16},
    )
    return figure


def change_plot(found: pd.DataFrame) -> Any:
    """Return a plotly figure of ``dp.change``: bars with intervals, the clearest changes first.

    Raises
    ------
    DpframeError
        plotly is not installed.
    ParameterError
        The numbers of the frame were changed, or it lacks columns.

    Privacy
    -------
    Post-processing of releases: free.
    """
    from dpframe.pages.series_page import change_title, checked_change

    facts, extract = checked_change(found, "plot")
    changes, graph = changes_of(found), plotly_objects()
    drawn = changes[:BARS]
    timed = type_of_values(found["change"]) == "INTERVAL"
    unit = DAY if timed else 1
    known = [None if c.change is None else c.change / unit for c in drawn]
    more, less = (
        [
            None if c.change is None or end is None else abs(end - c.change) / unit
            for c, end in pairs
        ]
        for pairs in ([(c, c.upper) for c in drawn], [(c, c.lower) for c in drawn])
    )
    hold = "together" if facts["simultaneous"] else "each on its own"
    said = [f"intervals hold {hold} with {100 * facts['confidence']:.6g} %", extract]
    if timed:
        said.append("in days")
    if not all(c.is_more_than_noise for c in drawn):
        said.append("grey: noise alone may explain it")
    if len(changes) > BARS:
        said.append(f"the first {BARS} of {len(changes):,}")
    figure = graph.Figure(
        graph.Bar(
            x=known,
            y=list(range(len(drawn))),
            orientation="h",
            marker={"color": [FILL if c.is_more_than_noise else DARK_GREY for c in drawn]},
            error_x={"type": "data", "array": more, "arrayminus": less, "thickness": 1.5},
            hovertext=[_plotly_text(c.name) for c in drawn],
            hovertemplate="<b>%{hovertext}</b><br>%{x:+,}<extra></extra>",
        )
    )
    figure.update_xaxes(rangemode="tozero", tickformat=",", tickangle=0)
    figure.update_yaxes(**_bar_axis([c.name for c in drawn]))
    figure.update_layout(bargap=0.25, height=150 + ROW * max(len(drawn), 4))
    return _with_title(figure, change_title(facts), ["; ".join(filter(None, said))])


def plotly_objects() -> Any:
    """Return plotly's module of figures; DpframeError if plotly is not installed."""
    missing = "plot needs plotly. Run pip install 'dpframe[plots]'."
    return import_extra("plotly.graph_objects", missing)


# -- bars and lines --------------------------------------------------------------------------------


def _bar_figure(
    shown: Chartable, measures: Sequence[DrawnMeasure], graph: Any
) -> tuple[Any, list[str]]:
    """Return a figure of bars, one panel per measure, and remarks for its subtitle."""
    places = level_order(shown, shown.bar_level)
    drawn, panels = shown.nodes.iloc[places[:BARS]], measures[:PANELS]
    figure = _panels(graph, [m.name for m in panels] if shown.is_rollup else [], across=True)
    for at, measure in enumerate(panels, 1):
        points = [_in_axis(p, measure) for p in measure_points(drawn, measure)]
        where = {"row": 1, "col": at} if shown.is_rollup else {}
        more = [None if p is None or p.upper is None else p.upper - p.value for p in points]
        less = [None if p is None or p.lower is None else p.value - p.lower for p in points]
        form = graph.Bar if measure.has_zero else graph.Scatter  # no bar begins in 1970
        figure.add_trace(
            form(
                x=[None if p is None else p.value for p in points],
                y=list(range(len(drawn))),
                marker={"color": FILL},
                error_x={"type": "data", "array": more, "arrayminus": less, "thickness": 1.5},
                hovertext=_hover_texts(drawn, shown),
                hovertemplate="%{hovertext}<extra></extra>",
                **({"orientation": "h"} if measure.has_zero else {"mode": "markers"}),
            ),
            **where,
        )
        figure.update_xaxes(**_number_axis(measure), **where)
    ticks = max(3, 10 // max(1, len(panels)))
    figure.update_xaxes(nticks=ticks, tickangle=0)
    figure.update_yaxes(**_bar_axis(drawn["prefix"].astype(str).tolist()))
    figure.update_layout(showlegend=False, bargap=0.25, height=150 + ROW * max(len(drawn), 4))
    said = []
    if shown.hierarchy.height > 1:
        said.append(f"level {shown.bar_level} ({shown.hierarchy.level_names[shown.bar_level - 1]})")
    if len(places) > BARS:
        said.append(f"the first {BARS} of {len(places):,}")
    return figure, said + _measures_remark(measures)


def _in_axis(point: Point | None, measure: DrawnMeasure) -> Point | None:
    """Return a point in the units of its axis: of times, milliseconds; of durations, hours. An
    interval that reaches beyond a bound ends there."""
    if point is None or measure.limits is None:
        return point
    unit = {"time": 1e-3, "duration": 3_600.0}.get(measure.figures.value, 1.0)
    low, high = measure.limits
    return Point(
        value=point.value / unit,
        lower=(low if point.lower is None else point.lower) / unit,
        upper=(high if point.upper is None else point.upper) / unit,
    )


def _number_axis(measure: DrawnMeasure) -> dict[str, Any]:
    if not measure.has_zero:
        return {"type": "date"}
    unit = {"title": {"text": "hours"}} if measure.figures.value == "duration" else {}
    return {"rangemode": "tozero", "tickformat": ",", **unit}


def _bar_axis(labels: Sequence[str]) -> dict[str, Any]:
    """Return the axis of bars: every label whole up to ``LONGEST``, the first one on top."""
    return {
        "tickvals": list(range(len(labels))),
        "ticktext": [_plotly_text(label, LONGEST) for label in labels],
        "range": [max(len(labels), 1) - 0.5, -0.5],
        "automargin": True,
        "showgrid": False,
        "zeroline": False,
    }


def _line_figure(
    shown: Chartable, measures: Sequence[DrawnMeasure], graph: Any
) -> tuple[Any, list[str]]:
    """Return a figure of lines, one panel per measure, and remarks for its subtitle."""
    drawn, moments, undated = dated_rows(shown)
    starts = [period_start_text(time) for time in moments]
    runs = _consecutive_runs([time.ordinal for time in moments])
    panels = measures[:PANELS]
    figure = _panels(graph, [m.name for m in panels] if shown.is_rollup else [], across=False)
    texts = _hover_texts(drawn, shown)
    for at, measure in enumerate(panels, 1):
        where = {"row": at, "col": 1} if shown.is_rollup else {}
        points = [_in_axis(p, measure) for p in measure_points(drawn, measure)]
        value, lower, upper = (
            [None if p is None else getattr(p, end) for p in points]
            for end in ("value", "lower", "upper")
        )
        figure.add_trace(_band_trace(starts, lower, upper, runs, graph), **where)
        x, y, said = (_break_between_runs(column, runs) for column in (starts, value, texts))
        figure.add_trace(
            graph.Scatter(
                x=x,
                y=y,
                mode="lines+markers" if len(starts) <= 3 * BARS else "lines",
                line={"color": FILL, "width": 2},
                marker={"size": 5},
                connectgaps=False,
                hovertext=said,
                hovertemplate="%{hovertext}<extra></extra>",
            ),
            **where,
        )
        figure.update_yaxes(**_number_axis(measure), automargin=True, **where)
    figure.update_layout(showlegend=False, height=140 + PANEL * max(1, len(panels)))
    assert shown.date_level is not None
    said = [f"a point is one {shown.hierarchy.level_names[shown.date_level - 1]}"]
    if len(runs) > 1:
        said.append("the line breaks where nothing was reported, which is not zero")
    if undated:
        said.append(f"not drawn: {undated:,} without a date")
    return figure, said + _measures_remark(measures)


def _panels(graph: Any, names: list[str], *, across: bool) -> Any:
    if not names:
        return graph.Figure()
    subplots = importlib.import_module("plotly.subplots")
    shape = {"rows": 1, "cols": len(names)} if across else {"rows": len(names), "cols": 1}
    shared = {"shared_yaxes": True} if across else {"shared_xaxes": True}
    spacing = {"horizontal_spacing": 0.04} if across else {"vertical_spacing": 0.08}
    titles = [_plotly_text(name, LONGEST) for name in names]
    return subplots.make_subplots(**shape, **shared, **spacing, subplot_titles=titles)


def _measures_remark(measures: Sequence[DrawnMeasure]) -> list[str]:
    if len(measures) <= PANELS:
        return []
    return [f"the first {PANELS} of {len(measures)} measures: pass measure= for another one"]


def _consecutive_runs(ordinals: Sequence[int]) -> list[tuple[int, int]]:
    """Return stretches of consecutive periods, as places of their start and end."""
    cuts = [i for i in range(1, len(ordinals)) if ordinals[i] != ordinals[i - 1] + 1]
    ends = [0, *cuts, len(ordinals)]
    return [(a, b) for a, b in pairwise(ends) if a < b]


def _break_between_runs(column: Sequence[Any], runs: Sequence[tuple[int, int]]) -> list[Any]:
    """Put a None between runs, at which plotly breaks a line."""
    out: list[Any] = []
    for start, end in runs:
        out += ([None] if out else []) + list(column[start:end])
    return out


def _band_trace(
    starts: Sequence[str],
    lower: Sequence[float | None],
    upper: Sequence[float | None],
    runs: Sequence[tuple[int, int]],
    graph: Any,
) -> Any:
    """Return polygons between the ends of the intervals, one per run; a stroke for one point."""
    x: list[Any] = []
    y: list[Any] = []
    for start, end in runs:
        there = [i for i in range(start, end) if lower[i] is not None and upper[i] is not None]
        if there:
            x += ([None] if x else []) + [starts[i] for i in (*there, *there[::-1], there[0])]
            y += [None] if y else []
            y += [*(upper[i] for i in there), *(lower[i] for i in there[::-1]), upper[there[0]]]
    return graph.Scatter(
        x=x,
        y=y,
        mode="lines",
        fill="toself",
        fillcolor=BAND,
        line={"color": BAND, "width": 1},
        hoverinfo="skip",
    )


# -- grid ------------------------------------------------------------------------------------------


def _heatmap_figure(shown: Chartable, measure: DrawnMeasure, graph: Any) -> tuple[Any, list[str]]:
    """Return a figure of the first level by the second, and remarks for its subtitle."""
    found = grid_of(shown, measure)
    x, y = (
        {label: i for i, label in enumerate(axis[:CELLS])} for axis in (found.across, found.down)
    )
    grid = np.full((len(y), len(x)), np.nan)
    texts = np.full(grid.shape, "not reported", dtype=object)
    said = _hover_texts(found.rows, shown)
    for (a, b), number, text in zip(found.pairs, found.numbers, said, strict=True):
        if a in y and b in x:
            grid[y[a], x[b]], texts[y[a], x[b]] = number, text
    trace = graph.Heatmap(
        z=grid,
        colorscale=SIGNED if measure.signed else SCALE,
        zmid=0 if measure.signed else None,
        xgap=1,
        ygap=1,
        text=texts,
        texttemplate="%{z:.3~s}" if max(grid.shape) <= WRITTEN else None,
        hovertemplate="%{text}<extra></extra>",
        hoverongaps=False,
        colorbar={
            "title": {"text": _plotly_text(measure.name, LONGEST_IN_GRID)},
            "tickformat": ",",
        },
    )
    figure = graph.Figure(trace)
    names = shown.hierarchy.level_names
    figure.update_xaxes(**_heatmap_axis(list(x), names[1]), tickangle=-45 if len(x) > 6 else 0)
    figure.update_yaxes(**_heatmap_axis(list(y), names[0]), autorange="reversed")
    figure.update_layout(height=260 + 22 * max(len(y), 4))
    notes = ["empty cells were not reported, which is not zero"] if np.isnan(grid).any() else []
    notes += [
        f"the {CELLS} largest of {len(axis):,} values of {_plotly_text(name)}"
        for axis, name in ((found.down, names[0]), (found.across, names[1]))
        if len(axis) > CELLS
    ]
    return figure, notes


def _heatmap_axis(labels: list[str], name: str) -> dict[str, Any]:
    return {
        "tickvals": list(range(len(labels))),
        "ticktext": [_plotly_text(label, LONGEST_IN_GRID) for label in labels],
        "title": {"text": _plotly_text(name, LONGEST_IN_GRID)},
        "automargin": True,
        "showgrid": False,
        "zeroline": False,
    }


# -- trees -----------------------------------------------------------------------------------------


def _tree_figure(
    shown: Chartable, measure: DrawnMeasure, kind: str, graph: Any
) -> tuple[Any, list[str]]:
    """Return a figure with one trace, and remarks for its subtitle."""
    ancestor = nearest_reported(shown.nodes, shown.hierarchy)
    area = areas(shown.nodes, ancestor, measure.columns[0])
    in_order = shown.hierarchy.kind in ("date", "number")
    drawn = blocks(area, ancestor, in_order=in_order)
    numbers = [
        "" if number is None else measure.figures.number(number)
        for number in finite_numbers(shown.nodes[measure.columns[0]])
    ]
    wide = ACROSS // (len(set(shown.level.tolist())) or 1)
    rooms = [max(8, wide - len(number) - 1) if kind == "icicle" else 60 for number in numbers]
    labels = _block_labels(shown, ancestor.tolist(), rooms)
    said = _hover_texts(shown.nodes, shown)
    level = shown.level.tolist()
    kinds = {"icicle": graph.Icicle, "treemap": graph.Treemap}
    ids = [f"more in {b.inside}" if b.several else str(b.node) for b in drawn]
    trace = kinds[kind](
        ids=ids,
        parents=[ids[block.inside] if block.inside >= 0 else "" for block in drawn],
        labels=[f"{len(b.several):,} more" if b.several else labels[b.node] for b in drawn],
        text=["" if b.several else numbers[b.node] for b in drawn],
        texttemplate="%{label}  %{text}" if kind == "icicle" else "%{label}<br>%{text}",
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
    figure.update_layout(uniformtext={"minsize": 11, "mode": "hide"}, height=TREE)
    if kind == "icicle":
        figure.update_traces(tiling={"orientation": "h"}, leaf={"opacity": 1})
    widened = any(block.widened for block in drawn)
    return figure, [WIDENED] if widened else []


def _block_labels(shown: Chartable, ancestor: list[int], rooms: list[int]) -> list[str]:
    """Return labels, each as long as its room, without the beginning that the label of the node
    above already has."""
    between = label_joint(shown.hierarchy)
    levels, whole = shown.level.tolist(), shown.nodes["prefix"].astype(str).tolist()
    out = []
    for label, above, room in zip(whole, ancestor, rooms, strict=True):
        start = whole[above] + between if between and above >= 0 and levels[above] else ""
        out.append(_plotly_text(label.removeprefix(start), room))
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


# -- texts -----------------------------------------------------------------------------------------


def _plotly_text(text: object, longest: int = LONGEST_IN_TEXT) -> str:
    """Escape and cut a text for plotly, which reads tags in it and shows any length."""
    whole = str(text)
    return html.escape(whole if len(whole) <= longest else f"{whole[: longest - 1]}…", quote=False)


def _hover_texts(rows: pd.DataFrame, shown: Chartable) -> list[str]:
    """Return the hover text of each row, with all its released numbers."""
    names = shown.hierarchy.level_names
    said = [list(_hover_lines(rows, one, shown)) for one in shown.measures]
    if not shown.is_rollup and "residual" in rows.columns:
        known = finite_numbers(rows["residual"])
        written = shown.measures[0].figures
        said.append([f"residual {'' if n is None else written.number(n)}" for n in known])
    out = []
    for label, level, *lines in zip(rows["prefix"], rows["level"].tolist(), *said, strict=True):
        where = f"level {level}" + (f", {_plotly_text(names[level - 1])}" if level else "")
        out.append("<br>".join([f"<b>{_plotly_text(label)}</b>", *lines, where]))
    return out


def _hover_lines(rows: pd.DataFrame, measure: DrawnMeasure, shown: Chartable) -> Iterator[str]:
    sure, named = _plotly_text(sure_text(shown.receipt, measure.name)), shown.is_rollup
    figures, points = measure.figures, measure_points(rows, measure)
    if figures.is_binned:
        for point in points:
            ends = (None, None, None) if point is None else (point.value, point.lower, point.upper)
            said = f"{figures.number(ends[0])}, {figures.interval(*ends[1:])} ({sure})"
            yield f"{_plotly_text(measure.name)} {said}"
        return
    columns = (finite_numbers(rows[name]) for name in measure.columns)
    for value, low, high in zip(*columns, strict=True):
        number, lower, upper = ("" if n is None else figures.number(n) for n in (value, low, high))
        between = f"between {lower} and {upper}"
        if high is None:
            between = f"at least {lower}" if lower else "interval unknown"
        name = f"{_plotly_text(measure.name)} {number}, " if named else f"count {number}<br>"
        yield f"{name}{between} ({sure})"
