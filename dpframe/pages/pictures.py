"""Sections with drawings that need no script: lines over time, more bars, two columns as a grid."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

import numpy as np

from dpframe.pages.chartable import (
    Chartable,
    DrawnMeasure,
    finite_numbers,
    number_text,
    reading_order,
)
from dpframe.pages.line_drawings import HATCH, NARROW, WIDE, Point, Size, draw_lines
from dpframe.pages.moments import periods_of_labels
from dpframe.pages.plot_cells import largest_labels, values_as_text

if TYPE_CHECKING:
    from collections.abc import Sequence


PANELS = 6
"""Largest number of measures that are drawn below each other."""

PERIODS = 2000
"""Largest number of periods that are drawn: the last ones."""

GRID = (12, 30)
"""Largest numbers of columns and rows of a grid: the ones with the largest sums."""

STEPS = 8
"""Number of shades of a grid."""


def lines_section(shown: Chartable, measures: Sequence[DrawnMeasure]) -> str:
    """Return the section of lines over time, as HTML."""
    assert shown.timed is not None
    rows = reading_order(shown, shown.timed)
    times = periods_of_labels(rows["prefix"].astype(str).tolist())
    dated = [time is not None for time in times]
    rows = rows[dated].tail(PERIODS)
    labels = rows["prefix"].astype(str).tolist()
    moments = [time for time in times if time is not None][-PERIODS:]
    places = [time.ordinal - moments[0].ordinal for time in moments]
    all_there = places[-1] + 1 <= 2 * PERIODS
    count = places[-1] + 1 if all_there else len(places)
    at = dict(zip(places if all_there else range(count), range(len(places)), strict=True))
    first = moments[0]
    periods = [labels[at[i]] if i in at else str(first + i) for i in range(count)]
    figures = []
    for measure in measures[:PANELS]:
        value, lower, upper = (finite_numbers(rows[name]) for name in measure.columns)
        points = [
            None if i not in at else _point_or_none(value[at[i]], lower[at[i]], upper[at[i]])
            for i in range(count)
        ]
        drawings = "".join(
            _measure_lines(periods, points, measure, size) for size in (WIDE, NARROW)
        )
        name = f"<figcaption><bdi>{html.escape(measure.name)}</bdi></figcaption>"
        caption = name if shown.is_rollup else ""
        figures.append(f"<figure class='time'>{caption}{drawings}</figure>")
    step = html.escape(shown.hierarchy.level_names[shown.timed - 1])
    sure = f"{100 * shown.receipt['confidence']:.6g} %"
    notes = [f"A point is one <bdi>{step}</bdi>."]
    if count > len(places):
        notes.append("The line breaks where nothing was reported, which is not zero.")
    if not all(dated):
        notes.append("What has no date is in the table only.")
    if len(measures) > PANELS:
        notes.append(f"The other {len(measures) - PANELS} measures are in the table.")
    return _picture_section(
        "picture",
        "Over time",
        f"{HATCH}<p class='legend'><span class='key line'>noisy number</span>"
        f"<span class='key band'>interval, {sure}</span></p>"
        f"{''.join(figures)}<p class='note below'>{' '.join(notes)}</p>",
    )


def _point_or_none(value: float | None, lower: float | None, upper: float | None) -> Point | None:
    return None if value is None else Point(value=value, lower=lower, upper=upper)


def _measure_lines(
    periods: Sequence[str], points: Sequence[Point | None], measure: DrawnMeasure, size: Size
) -> str:
    def said(point: Point) -> str:
        ends = [
            "…" if end is None else number_text(end, measure.digits)
            for end in (point.lower, point.upper)
        ]
        return f"{number_text(point.value, measure.digits)} ({' to '.join(ends)})"

    name = f"{measure.name}, {periods[0]} to {periods[-1]}"
    return draw_lines(periods, points, frozenset(), label=name, said=said, size=size)


def grid_section(shown: Chartable, measure: DrawnMeasure) -> str:
    """Return the section of the first column by the second, as HTML."""
    rows = shown.nodes[shown.level == 2]
    first, second = (values_as_text(rows, name) for name in shown.hierarchy.label_columns[:2])
    value = [np.nan if n is None else n for n in finite_numbers(rows[measure.columns[0]])]
    across, down = (largest_labels(labels, np.array(value)) for labels in (second, first))
    cells = dict(zip(zip(first, second, strict=True), value, strict=True))
    columns, lines_ = across[: GRID[0]], down[: GRID[1]]
    known = [abs(n) for n in value if not np.isnan(n)]
    most = max(known, default=0.0) or 1.0
    names = [html.escape(name) for name in shown.hierarchy.level_names]
    heads = "".join(f"<th scope='col'><bdi>{html.escape(label)}</bdi></th>" for label in columns)
    body = "".join(
        f"<tr><th scope='row'><bdi>{html.escape(label)}</bdi></th>"
        + "".join(_grid_cell(cells.get((label, column)), most, measure) for column in columns)
        + "</tr>"
        for label in lines_
    )
    notes = ["Stronger colour is more; empty cells were not reported, which is not zero."]
    for axis, kept, name in ((down, lines_, names[0]), (across, columns, names[1])):
        if len(axis) > len(kept):
            notes.append(
                f"Of {len(axis):,} values of <bdi>{name}</bdi> the {len(kept)} largest are here, "
                "the others in the table."
            )
    return _picture_section(
        "picture",
        f"<bdi>{names[0]}</bdi> by <bdi>{names[1]}</bdi>",
        f"<div class='scrolling' tabindex='0'><table class='grid' aria-labelledby='picture-title'>"
        f"<thead><tr><td></td>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
        f"<p class='note below'>{' '.join(notes)}</p>",
    )


def _grid_cell(value: float | None, most: float, measure: DrawnMeasure) -> str:
    if value is None or np.isnan(value):
        return "<td class='none'></td>"
    step = min(STEPS, int(np.ceil(STEPS * abs(value) / most)))
    kind = "below" if value < 0 and measure.signed else "above"
    return f"<td class='{kind} s{step}'>{number_text(value, measure.digits)}</td>"


def bars_section(table: str, title: str, notes: Sequence[str] = ()) -> str:
    """Return the section of bars, as HTML."""
    said = f"<p class='note below'>{' '.join(notes)}</p>" if notes else ""
    return _picture_section("picture", title, f"{table}{said}")


def _picture_section(name: str, title: str, inside: str) -> str:
    return (
        f"<section aria-labelledby='{name}-title'><h2 id='{name}-title'>{title}</h2>"
        f"{inside}</section>"
    )
