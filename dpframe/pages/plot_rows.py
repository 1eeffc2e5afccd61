"""Draw bars with their intervals, and lines over time with a band, as plotly figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from dpframe.pages.chartable import Chartable, DrawnMeasure, finite_numbers, reading_order
from dpframe.pages.moments import period_start_text, periods_of_labels
from dpframe.pages.plot_texts import hover_texts, plotly_text

if TYPE_CHECKING:
    import pandas as pd

FILL = "#3b8bc4"
"""Blue that stands out from white, from grey and from black (3:1), with any kind of sight."""

BAND = "rgba(59,139,196,0.25)"

BARS = 40
"""Largest number of bars that are drawn: the first ones."""

LONGEST = 36
"""Largest number of characters of a label beside a bar; the hover text has the whole label."""

PANELS = 6
"""Largest number of measures that are drawn beside each other."""

ROW, PANEL = 26, 240
"""Heights of a bar and of a panel of lines, in pixels."""


def bar_figure(
    shown: Chartable, measures: Sequence[DrawnMeasure], graph: Any
) -> tuple[Any, list[str]]:
    """Return a figure of bars, one panel per measure, and remarks for its subtitle."""
    rows = reading_order(shown, shown.listed)
    drawn, panels = rows.head(BARS), measures[:PANELS]
    labels = _bar_labels(drawn, shown)
    figure = _panels(graph, [m.name for m in panels] if shown.is_rollup else [], across=True)
    for at, measure in enumerate(panels, 1):
        value, more, less = _values_and_errors(drawn, measure)
        figure.add_trace(
            graph.Bar(
                x=value,
                y=list(range(len(drawn))),
                orientation="h",
                marker={"color": FILL},
                error_x={"type": "data", "array": more, "arrayminus": less, "thickness": 1.5},
                hovertext=hover_texts(drawn, shown),
                hovertemplate="%{hovertext}<extra></extra>",
            ),
            **({"row": 1, "col": at} if shown.is_rollup else {}),
        )
    ticks = max(3, 10 // max(1, len(panels)))
    figure.update_xaxes(rangemode="tozero", tickformat=",", nticks=ticks, tickangle=0)
    figure.update_yaxes(
        tickvals=list(range(len(drawn))),
        ticktext=labels,
        range=[max(len(drawn), 1) - 0.5, -0.5],
        automargin=True,
        showgrid=False,
        zeroline=False,
    )
    figure.update_layout(showlegend=False, bargap=0.25, height=150 + ROW * max(len(drawn), 4))
    return figure, list(_bar_remarks(rows, shown, len(measures)))


def line_figure(
    shown: Chartable, measures: Sequence[DrawnMeasure], graph: Any
) -> tuple[Any, list[str]]:
    """Return a figure of lines, one panel per measure, and remarks for its subtitle."""
    assert shown.timed is not None
    rows = reading_order(shown, shown.timed)
    times = periods_of_labels(rows["prefix"].astype(str).tolist())
    kept = [time is not None for time in times]
    drawn, moments = rows[kept], [time for time in times if time is not None]
    starts = [period_start_text(time) for time in moments]
    runs = _consecutive_runs([time.ordinal for time in moments])
    panels = measures[:PANELS]
    figure = _panels(graph, [m.name for m in panels] if shown.is_rollup else [], across=False)
    texts = hover_texts(drawn, shown)
    for at, measure in enumerate(panels, 1):
        where = {"row": at, "col": 1} if shown.is_rollup else {}
        value, lower, upper = (finite_numbers(drawn[name]) for name in measure.columns)
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
    figure.update_yaxes(rangemode="tozero", tickformat=",", automargin=True)
    figure.update_layout(showlegend=False, height=140 + PANEL * max(1, len(panels)))
    said = [f"a point is one {shown.hierarchy.level_names[shown.timed - 1]}"]
    if len(runs) > 1:
        said.append("the line breaks where nothing was reported, which is not zero")
    if len(rows) > len(drawn):
        said.append(f"not drawn: {len(rows) - len(drawn):,} without a date")
    return figure, [*said, *_measures_remark(len(measures))]


def _panels(graph: Any, names: list[str], *, across: bool) -> Any:
    if not names:
        return graph.Figure()
    import importlib

    subplots = importlib.import_module("plotly.subplots")
    shape = {"rows": 1, "cols": len(names)} if across else {"rows": len(names), "cols": 1}
    shared = {"shared_yaxes": True} if across else {"shared_xaxes": True}
    spacing = {"horizontal_spacing": 0.04} if across else {"vertical_spacing": 0.08}
    titles = [plotly_text(name, LONGEST) for name in names]
    return subplots.make_subplots(**shape, **shared, **spacing, subplot_titles=titles)


def _bar_labels(rows: pd.DataFrame, shown: Chartable) -> list[str]:
    return [plotly_text(label, LONGEST) for label in rows["prefix"].astype(str)]


def _values_and_errors(
    rows: pd.DataFrame, measure: DrawnMeasure
) -> tuple[list[float | None], list[float | None], list[float | None]]:
    """Return values, and the distances to the ends of their intervals; None if unknown."""
    value, lower, upper = (finite_numbers(rows[name]) for name in measure.columns)
    more = [None if v is None or u is None else u - v for v, u in zip(value, upper, strict=True)]
    less = [None if v is None or b is None else v - b for v, b in zip(value, lower, strict=True)]
    return value, more, less


def _bar_remarks(rows: pd.DataFrame, shown: Chartable, measures: int) -> Iterator[str]:
    if shown.hierarchy.height > 1:
        yield f"level {shown.listed} ({shown.hierarchy.level_names[shown.listed - 1]})"
    if len(rows) > BARS:
        yield f"the first {BARS} of {len(rows):,}"
    yield from _measures_remark(measures)


def _measures_remark(measures: int) -> Iterator[str]:
    if measures > PANELS:
        yield f"the first {PANELS} of {measures} measures: pass measure= for another one"


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
