"""The first part of a page: the answer, the largest nodes, and a picture that needs no script."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpframe.asking.measure_texts import Figures, digits_for_width
from dpframe.errors import ParameterError
from dpframe.hierarchy import INVALID, OTHER
from dpframe.pages.chartable import (
    BARS,
    PANELS,
    Chartable,
    DrawnMeasure,
    area_measure,
    dated_rows,
    grid_of,
    level_order,
    measure_points,
)
from dpframe.pages.drawings import (
    HATCH,
    NARROW,
    WIDE,
    Point,
    axis_of,
    draw_bar,
    draw_lines,
)
from dpframe.pages.page_parts import confidence_percent, sentence, sure_text
from dpframe.postprocess.shown_rows import share_frame

if TYPE_CHECKING:
    import pandas as pd

LARGEST = 10
"""Number of nodes beside the answer."""

PERIODS = 2000
"""Largest number of periods that are drawn: the last ones."""

GRID = (12, 30)
"""Largest numbers of columns and rows of a grid: the ones with the largest sums."""

STEPS = 8
"""Number of shades of a grid."""

SHORT = 80
"""Largest number of characters of a label in a sentence; the table has the whole label."""

WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")

Share = tuple[float, float, float]
"""A share of everything, and the ends of its interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A node to draw as a bar: its number, the ends of its interval, its share of everything, and
    its other numbers."""

    label: str
    value: float
    lower: float | None
    upper: float | None
    share: Share | None = None
    others: tuple[Point | None, ...] = ()

    @property
    def name(self) -> str:
        """The label for a sentence, as HTML."""
        short = self.label if len(self.label) <= SHORT else f"{self.label[: SHORT - 1]}…"
        return f"<strong><bdi>{html.escape(short)}</bdi></strong>"

    @property
    def is_mostly_noise(self) -> bool:
        """Whether the interval is wider than the number."""
        if self.lower is None or self.upper is None:
            return self.lower is None and self.upper is None
        return self.upper - self.lower > abs(self.value)

    @property
    def share_text(self) -> str:
        return "" if self.share is None else f" ({_percents(self.share)[0]} of everything)"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """What the answer is about: a release, a measure and its name, and a level."""

    shown: Chartable
    measure: DrawnMeasure
    what: str
    level: int

    @property
    def level_name(self) -> str:
        """The name of the level, as HTML."""
        return f"<bdi>{html.escape(self.shown.hierarchy.level_names[self.level - 1])}</bdi>"

    def number(self, value: float) -> str:
        return self.measure.figures.number(value)

    def ends(self, lower: float | None, upper: float | None) -> str:
        return self.measure.figures.interval(lower, upper)

    def bars(
        self,
        places: NDArray[np.int64],
        shares: Mapping[int, Share],
        others: Sequence[DrawnMeasure] = (),
    ) -> list[Bar]:
        """Return the nodes at ``places`` that have a number as bars."""
        rows = self.shown.nodes.iloc[places]
        points = measure_points(rows, self.measure)
        more = [measure_points(rows, other) for other in others]
        labels = rows["prefix"].astype(str)
        return [
            Bar(
                label=label,
                value=p.value,
                lower=p.lower,
                upper=p.upper,
                share=shares.get(place),
                others=tuple(other),
            )
            for label, place, p, *other in zip(labels, places.tolist(), points, *more, strict=True)
            if p is not None
        ]


def answer_sections(
    frame: pd.DataFrame,
    shown: Chartable,
    measure: DrawnMeasure,
    form: str,
    measures: Sequence[DrawnMeasure],
) -> tuple[str, str]:
    """Return the sentences, and the sections of the largest nodes and of the picture, as HTML.

    ``frame`` are the released columns with their attrs, and ``shown`` the same prepared for
    drawing. The answer is about ``measure``; lines show ``measures``.
    """
    what = measure.name if shown.is_rollup else shown.receipt.count_noun
    dated = form == "line" and shown.date_level is not None
    level = shown.date_level if dated and shown.date_level is not None else shown.bar_level
    about = _Question(shown=shown, measure=measure, what=what, level=level)
    shares = _shares_of(frame, shown, measure)
    by_size = level_order(shown, level, measure)
    bars = about.bars(by_size, shares)
    ranked = not (measure.has_zero and _is_mostly_noise(bars))
    if not ranked:  # the largest would be the ones with the largest noise
        by_size = np.flatnonzero(shown.level == level)
        bars = about.bars(by_size, shares)
    largest = _largest_sentence(about, bars) if ranked else _noise_sentence(about, bars)
    told = f"<p class='answer'>{_total_sentence(about)} {largest}</p>"
    if form == "bar" and len(by_size) <= BARS:  # one list of all
        places = level_order(shown, level) if is_ordered(shown, level) else by_size
        others = [one for one in shown.measures if one != measure] if lists_all(shown) else []
        some = about.bars(places, shares, others)
        return told, _bars_section(about, some, len(bars), ranked, others)
    top = _bars_section(about, bars[:LARGEST], len(bars), ranked)
    if form == "line":
        return told, _lines_section(shown, measures) + top
    if form == "heatmap":
        return told, top + _grid_section(shown, area_measure(shown, form, measure))
    if form == "bar" and is_ordered(shown, level):
        some = about.bars(level_order(shown, level)[:BARS], {})
        notes = [f"The first {BARS} of {len(by_size):,}."]
        table = _bars_table(about, some, "picture-title")
        return told, top + _section("picture", f"By {about.level_name}", table, notes)
    return told, top


def lists_all(shown: Chartable) -> bool:
    """Whether the bars of a page are all that it has to list: few nodes of one level, with few
    measures."""
    rows = shown.nodes[shown.level > 0]
    whole = not rows[shown.measures[0].columns[0]].isna().any()
    return shown.hierarchy.height == 1 and len(rows) <= BARS and len(shown.measures) <= 3 and whole


def is_ordered(shown: Chartable, level: int) -> bool:
    """Whether the nodes of a level have an order of their own, apart from their size."""
    return shown.hierarchy.kind == "number" or shown.date_level == level


def _section(name: str, title: str, inside: str, notes: Sequence[str]) -> str:
    note = f"<p class='note below'>{' '.join(notes)}</p>" if notes else ""
    return (
        f"<section aria-labelledby='{name}-title'>"
        f"<h2 id='{name}-title' class='capital'>{title}</h2>"
        f"{inside}{note}</section>"
    )


def _shares_of(frame: pd.DataFrame, shown: Chartable, measure: DrawnMeasure) -> dict[int, Share]:
    """Return shares of everything with their intervals, by place; none if they are not known."""
    if measure.figures.is_binned:
        return {}
    try:
        name = measure.name if shown.is_rollup else None
        found = share_frame(frame, shown.receipt, of="total", measure=name)
    except ParameterError:  # no total, a mean, or a frame of an older version
        return {}
    columns = (found[name].tolist() for name in ("share", "share_lower", "share_upper"))
    known = enumerate(zip(*columns, strict=True))
    return {place: row for place, row in known if not any(np.isnan(row))}


# -- sentences -----------------------------------------------------------------------------------


def _total_sentence(about: _Question) -> str:
    shown = about.shown
    total = measure_points(shown.nodes[shown.level == 0], about.measure)
    if about.measure.at is not None and len(total) == 1:
        return _quantile_sentence(about, total[0])
    if len(total) != 1 or total[0] is None:
        return "The total is not part of this result."
    number = f"<strong>{about.number(total[0].value)}</strong>"
    sure = sure_text(shown.receipt, about.measure.name, total=True)
    ends = f" ({about.ends(total[0].lower, total[0].upper)}, {html.escape(sure)})"
    what = f"<bdi>{html.escape(about.what)}</bdi>"
    if about.measure.figures.is_binned:
        values = f"values of <bdi>{html.escape(str(about.measure.of))}</bdi>"
        return f"There are about {number} {values} in all{ends}."
    if shown.is_rollup:
        return f"The total of {what} is about {number}{ends}."
    return f"There are about {number} {what} in all{ends}."


def _quantile_sentence(about: _Question, point: Point | None) -> str:
    """Return which part of all values is at most a quantile, as HTML."""
    measure, receipt = about.measure, about.shown.receipt
    of = f"<bdi>{html.escape(str(measure.of))}</bdi>"
    if point is None:
        return f"How large values of {of} are is unknown: there are too few of them."
    part = "Half" if measure.at == 0.5 else f"{100 * (measure.at or 0):.10g} %"
    what = f"the values of {of} are"
    if measure.each != "row":
        what = f"all users have a {measure.each} of {of} of"
    elif receipt.get("user") is not None:
        what = f"the values of {of}, every user weighing the same, are"
    bound = "not later than" if measure.figures.value == "time" else "at most"
    ends = f"{about.ends(point.lower, point.upper)}, {confidence_percent(receipt)}"
    return f"{part} of {what} {bound} about <strong>{about.number(point.value)}</strong> ({ends})."


SUPERLATIVES = {"number": "highest", "time": "latest", "duration": "longest"}
"""How the largest quantile is called."""


def _is_mostly_noise(bars: Sequence[Bar]) -> bool:
    """Return whether the intervals of most named nodes, or of the largest one, are wider than their
    numbers, so that noise decides which of them is large."""
    named = [bar for bar in bars if not bar.label.endswith((OTHER, INVALID))]
    wide = [bar.is_mostly_noise for bar in named]
    return bool(named) and (wide[0] or 2 * sum(wide) > len(wide))


def _noise_sentence(about: _Question, bars: Sequence[Bar]) -> str:
    few = WORDS[len(bars)] if len(bars) < len(WORDS) else f"{len(bars):,}"
    if about.measure.at is not None:
        return (
            f"Most intervals of {few} nodes of {about.level_name} are wider than their numbers, so "
            "that none is named first."
        )
    return (
        f"Noise is most of the numbers of {few} nodes of {about.level_name}, so that none is named "
        "as the largest."
    )


def _largest_sentence(about: _Question, bars: Sequence[Bar]) -> str:
    name = about.level_name
    named = [bar for bar in bars if not bar.label.endswith((OTHER, INVALID))]
    if not named:
        return "Nothing in it is large enough to be shown on its own."
    first = named[0]
    unit = "" if about.shown.is_rollup else f" <bdi>{html.escape(about.what)}</bdi>"
    said = f"about {about.number(first.value)}{unit}{first.share_text}"
    if about.measure.at is not None:
        return _highest_sentence(about, named)
    if len(named) == 1:
        return f"Only one {name} is shown: {first.name}, with {said}."
    second = named[1]
    other = f"{second.name}, with {about.number(second.value)}{second.share_text},"
    if first.lower is None or second.upper is None or first.lower <= second.upper:
        return (
            f"The largest {name} seems to be {first.name}, with {said}; {other} is so close "
            "that noise may have decided which of them is first."
        )
    return f"The largest {name} is {first.name}, with {said}; {other} comes next."


def _highest_sentence(about: _Question, named: Sequence[Bar]) -> str:
    """Return which node has the largest quantile, as HTML."""
    first = named[0]
    what = f"The {SUPERLATIVES[about.measure.figures.value]} <bdi>{html.escape(about.what)}</bdi>"
    said = f"that of {first.name}, about {about.number(first.value)}"
    if len(named) == 1:
        number = about.number(first.value)
        return f"Only one {about.level_name} is known: {first.name}, about {number}."
    second = named[1]
    other = f"{second.name}, about {about.number(second.value)},"
    if first.lower is None or second.upper is None or first.lower <= second.upper:
        return (
            f"{what} seems to be {said}; {other} is so close that noise may have decided which of "
            "them is first."
        )
    return f"{what} is {said}; {other} comes next."


def _percents(share: Share) -> tuple[str, str, str]:
    """Return a share and the ends of its interval, with decimals that fit its width."""
    places = min(2, max(0, digits_for_width(50 * (share[2] - share[1])) - 1))
    value, lower, upper = (f"{100 * part:.{places}f} %" for part in share)
    return value, lower, upper


# -- bars ----------------------------------------------------------------------------------------


def _bars_section(
    about: _Question,
    some: Sequence[Bar],
    of: int,
    ranked: bool,
    others: Sequence[DrawnMeasure] = (),
) -> str:
    """Return the section of some bars out of ``of``, as HTML."""
    if not some:
        return ""
    title = f"By {about.level_name}"
    if of > len(some):
        number = WORDS[len(some)]
        title = f"The {f'{number} largest' if ranked else f'first {number}'} of {of:,}: "
        title += about.level_name
    bound = html.escape(about.measure.bound)
    held = f", of the noise alone; {bound}" if bound else ""
    notes = [
        f"The thin lines and the small numbers are intervals "
        f"({confidence_percent(about.shown.receipt)}{held}). Where those of two rows overlap, "
        "their order is not certain."
    ]
    if not ranked:
        poor = "Noise is most of these numbers"
        if about.measure.at is not None:
            poor = "Most of these intervals are wider than their numbers"
        notes.append(f"{poor}, so that they are not ordered by size.")
    if any(bar.share for bar in some):
        notes.append("Shares are of everything, what is not shown here included.")
    elif about.measure.at is not None:
        notes.append("These numbers are no parts of a whole: they do not add up.")
    elif not about.shown.is_rollup:
        parts = about.shown.receipt.get("adds_up", True)
        notes.append(
            "Shares are not known here, because no total is."
            if parts
            else "These numbers are no parts of a whole: they do not add up."
        )
    table = _bars_table(about, some, "largest-title", others)
    return _section("largest", title, table, notes)


def _bars_table(
    about: _Question, bars: Sequence[Bar], title: str, others: Sequence[DrawnMeasure] = ()
) -> str:
    """Return bars as the rows of a table, with whole labels as text beside them, as HTML.

    ``title`` is the id of the heading.
    """
    numbers = (end for bar in bars for end in (bar.value, bar.lower, bar.upper))
    ends = axis_of(numbers, zero=about.measure.has_zero)
    shares = any(bar.share for bar in bars)
    rows = "".join(_bar_row(about, bar, ends, shares, others) for bar in bars)
    share_head = "<th scope='col' class='number share'>Share</th>" if shares else ""
    more = "".join(
        f"<th scope='col' class='number'>{_measure_head(other.name, other)}</th>"
        for other in others
    )
    return (
        f"<div class='across'><table class='bars' aria-labelledby='{title}'><thead><tr>"
        f"<th scope='col'>{about.level_name}</th>"
        "<th class='drawn' aria-hidden='true'></th>"
        f"<th scope='col' class='number'>{_measure_head(about.what, about.measure)}</th>"
        f"{share_head}{more}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _measure_head(name: str, measure: DrawnMeasure) -> str:
    """Return the head of a column of numbers: its name, and the bound that cuts them."""
    bound = f"<small>{html.escape(measure.bound)}</small>" if measure.bound else ""
    return f"<bdi>{html.escape(name)}</bdi>{bound}"


def _bar_row(
    about: _Question,
    bar: Bar,
    ends: tuple[float, float],
    shares: bool,
    others: Sequence[DrawnMeasure],
) -> str:
    share = "<td class='number share'></td>" if shares else ""
    if bar.share is not None and shares:
        part, least, most = _percents(bar.share)
        between = f"<small>{least.removesuffix(' %')} to {most}</small>"
        share = f"<td class='number share'>{part}{between}</td>"
    more = "".join(
        f"<td class='number other' data-title='{html.escape(other.name)}'>"
        f"{_number_and_ends(point, other.figures)}</td>"
        for other, point in zip(others, bar.others, strict=True)
    )
    return (
        f"<tr><th scope='row'><bdi>{html.escape(bar.label)}</bdi></th>"
        "<td class='drawn' aria-hidden='true'>"
        f"{_drawn_bar(about.measure, bar, ends)}</td>"
        f"<td class='number'>{about.number(bar.value)}"
        f"<small>{about.ends(bar.lower, bar.upper)}</small></td>{share}{more}</tr>"
    )


def _drawn_bar(measure: DrawnMeasure, bar: Bar, ends: tuple[float, float]) -> str:
    """Draw a bar; an interval that reaches beyond a bound is drawn to that bound."""
    low, high = bar.lower, bar.upper
    if measure.limits is not None:
        low = max(ends[0], measure.limits[0]) if low is None else low
        high = min(ends[1], measure.limits[1]) if high is None else high
    return draw_bar(bar.value, low, high, *ends, zero=measure.has_zero)


def _number_and_ends(point: Point | None, figures: Figures) -> str:
    if point is None and not figures.is_binned:
        return "–"
    value, *ends = (None,) * 3 if point is None else (point.value, point.lower, point.upper)
    return f"{figures.number(value)}<small>{figures.interval(*ends)}</small>"


# -- lines and grids -----------------------------------------------------------------------------


def point_text(point: Point, figures: Figures) -> str:
    """Write a number and its interval for a tooltip."""
    return f"{figures.number(point.value)} ({figures.interval(point.lower, point.upper)})"


def _lines_section(shown: Chartable, measures: Sequence[DrawnMeasure]) -> str:
    """Return the section of lines over time, as HTML."""
    rows, moments, undated = dated_rows(shown)
    rows, moments = rows.tail(PERIODS), moments[-PERIODS:]
    labels = rows["prefix"].astype(str).tolist()
    places = [time.ordinal - moments[0].ordinal for time in moments]
    if places[-1] >= 2 * PERIODS:  # too many empty periods to draw each
        places = list(range(len(places)))
    at = dict(zip(places, range(len(places)), strict=True))
    periods = [labels[at[i]] if i in at else str(moments[0] + i) for i in range(places[-1] + 1)]
    figures = []
    for measure in measures[:PANELS]:
        known = measure_points(rows, measure)
        points = [known[at[i]] if i in at else None for i in range(len(periods))]
        label = f"{measure.name}, {periods[0]} to {periods[-1]}"
        kind = measure.figures.value

        def said(point: Point, figures: Figures = measure.figures) -> str:
            return point_text(point, figures)

        drawings = "".join(
            draw_lines(
                periods,
                points,
                frozenset(),
                label=label,
                said=said,
                size=size,
                value=kind,
                limits=measure.limits,
            )
            for size in (WIDE, NARROW)
        )
        name = ", ".join(filter(None, (measure.name * shown.is_rollup, measure.bound)))
        caption = f"<figcaption><bdi>{html.escape(name)}</bdi></figcaption>" if name else ""
        figures.append(f"<figure class='time'>{caption}{drawings}</figure>")
    assert shown.date_level is not None
    step = html.escape(shown.hierarchy.level_names[shown.date_level - 1])
    notes = [f"A point is one <bdi>{step}</bdi>."]
    if len(periods) > len(places):
        notes.append("The line breaks where nothing was reported, which is not zero.")
    if undated:
        notes.append("What has no date is in the table only.")
    if len(measures) > PANELS:
        notes.append(f"The other {len(measures) - PANELS} measures are in the table.")
    legend = (
        "<p class='legend'><span class='key line'>noisy number</span>"
        f"<span class='key band'>interval, {confidence_percent(shown.receipt)}"
        f"{', noise alone' * any(measure.bound for measure in measures)}</span></p>"
    )
    return _section("picture", "Over time", f"{HATCH}{legend}{''.join(figures)}", notes)


def _grid_section(shown: Chartable, measure: DrawnMeasure) -> str:
    """Return the section of the first column by the second, as HTML."""
    grid = grid_of(shown, measure)
    cells = dict(zip(grid.pairs, grid.numbers.tolist(), strict=True))
    columns, lines = grid.across[: GRID[0]], grid.down[: GRID[1]]
    known = [n for n in cells.values() if not np.isnan(n)]
    least = 0.0 if measure.has_zero else min(known, default=0.0)
    most = max((abs(n - least) for n in known), default=0.0) or 1.0
    names = [f"<bdi>{html.escape(name)}</bdi>" for name in shown.hierarchy.level_names]
    heads = "".join(f"<th scope='col'><bdi>{html.escape(label)}</bdi></th>" for label in columns)
    body = "".join(
        f"<tr><th scope='row'><bdi>{html.escape(label)}</bdi></th>"
        + "".join(
            _grid_cell(cells.get((label, column)), least, most, measure) for column in columns
        )
        + "</tr>"
        for label in lines
    )
    more = "more" if measure.has_zero else "later"
    notes = [f"Stronger colour is {more}; empty cells were not reported, which is not zero."]
    notes += [html.escape(sentence(measure.bound))] if measure.bound else []
    for axis, some, name in ((grid.down, lines, names[0]), (grid.across, columns, names[1])):
        if len(axis) > len(some):
            notes.append(
                f"Of {len(axis):,} values of {name} the {len(some)} largest are here, the others "
                "in the table."
            )
    table = (
        "<div class='scrolling' tabindex='0'><table class='grid' aria-labelledby='picture-title'>"
        f"<thead><tr><td></td>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
    )
    return _section("picture", f"{names[0]} by {names[1]}", table, notes)


def _grid_cell(value: float | None, least: float, most: float, measure: DrawnMeasure) -> str:
    if value is None or np.isnan(value):
        return "<td></td>"
    step = min(STEPS, int(np.ceil(STEPS * abs(value - least) / most)))
    kind = "below" if value < 0 and measure.signed else "above"
    return f"<td class='{kind} s{step}'>{measure.figures.number(value)}</td>"
