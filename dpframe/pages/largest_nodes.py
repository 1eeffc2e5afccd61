"""The answer of a page: two sentences, and the ten largest nodes with intervals and shares."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpframe.asking.released_measures import digits_for_width
from dpframe.errors import ParameterError
from dpframe.hierarchy import INVALID, OTHER
from dpframe.pages.chartable import Chartable, DrawnMeasure, finite_numbers, number_text
from dpframe.postprocess.shown_rows import share_frame

if TYPE_CHECKING:
    import pandas as pd

LARGEST = 10

SHORT = 80
"""Largest number of characters of a label in a sentence; the table has the whole label."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A node to draw as a bar: its number, the ends of its interval, its share of everything."""

    label: str
    value: float
    lower: float | None
    upper: float | None
    share: tuple[float, float, float] | None = None


def bars_of(
    rows: pd.DataFrame, measure: DrawnMeasure, share: Mapping[int, tuple[float, float, float]]
) -> list[Bar]:
    """Return rows that have a number as bars; ``share`` is by place in the release."""
    columns = (finite_numbers(rows[name]) for name in measure.columns)
    labels, places = rows["prefix"].astype(str), rows["place"]
    return [
        Bar(label=label, value=value, lower=lower, upper=upper, share=share.get(place))
        for label, place, value, lower, upper in zip(labels, places, *columns, strict=True)
        if value is not None
    ]


def largest_first(shown: Chartable, measure: DrawnMeasure, level: int) -> pd.DataFrame:
    """Return the rows of a level, largest first, with ``<other>`` and ``<invalid>`` last."""
    rows = shown.nodes.assign(place=np.arange(len(shown.nodes)))[shown.level == level]
    labels = rows["prefix"].astype(str).tolist()
    rest = [label.endswith((OTHER, INVALID)) for label in labels]
    size = [-np.inf if n is None else n for n in finite_numbers(rows[measure.columns[0]])]
    ordered: pd.DataFrame = rows.iloc[np.lexsort((np.arange(len(rows)), -np.array(size), rest))]
    return ordered


def shares_of(
    frame: pd.DataFrame, shown: Chartable, measure: DrawnMeasure
) -> dict[int, tuple[float, float, float]]:
    """Return shares of everything with their intervals, by place; none if they are not known."""
    try:
        name = measure.name if shown.is_rollup else None
        found = share_frame(frame, shown.receipt, of="total", measure=name)
    except ParameterError:  # no total, a mean, or a frame of an older version
        return {}
    columns = (found[name].tolist() for name in ("share", "share_lower", "share_upper"))
    known = enumerate(zip(*columns, strict=True))
    return {place: row for place, row in known if not any(np.isnan(row))}


# -- sentences -----------------------------------------------------------------------------------


def answer_sentences(
    shown: Chartable, measure: DrawnMeasure, what: str, bars: Sequence[Bar], level: int
) -> str:
    """Return two sentences as HTML: how much there is in all, and which node is largest."""
    first = _largest_sentence(shown, measure, what, bars, level)
    return f"<p class='answer'>{_total_sentence(shown, measure, what)} {first}</p>"


def _total_sentence(shown: Chartable, measure: DrawnMeasure, what: str) -> str:
    row = shown.nodes[shown.level == 0]
    values = [finite_numbers(row[name]) for name in measure.columns]
    if len(row) != 1 or values[0][0] is None:
        return "How much there is in all is not part of what is shown here."
    value, lower, upper = (column[0] for column in values)
    number = f"<strong>{number_text(value or 0, measure.digits)}</strong>"
    sure = f"{100 * shown.receipt['confidence']:.6g} %"
    ends = f" ({_ends_text(lower, upper, measure.digits)}, {sure})"
    if shown.is_rollup:
        return f"In all, <bdi>{html.escape(what)}</bdi> is about {number}{ends}."
    return f"There are about {number} <bdi>{html.escape(what)}</bdi> in all{ends}."


def _largest_sentence(
    shown: Chartable, measure: DrawnMeasure, what: str, bars: Sequence[Bar], level: int
) -> str:
    name = f"<bdi>{html.escape(shown.hierarchy.level_names[level - 1])}</bdi>"
    named = [bar for bar in bars if not bar.label.endswith((OTHER, INVALID))]
    if not named:
        return "Nothing in it is large enough to be shown on its own."
    places, first = measure.digits, named[0]
    unit = "" if shown.is_rollup else f" <bdi>{html.escape(what)}</bdi>"
    said = f"about {number_text(first.value, places)}{unit}{_share_text(first)}"
    if len(named) == 1:
        return f"Only one {name} is shown: {_bar_name(first)}, with {said}."
    second = named[1]
    other = f"{_bar_name(second)}, with {number_text(second.value, places)}{_share_text(second)},"
    if first.lower is None or second.upper is None or first.lower <= second.upper:
        return (
            f"The largest {name} seems to be {_bar_name(first)}, with {said}; {other} is so close "
            "that noise may have decided which of them is first."
        )
    return f"The largest {name} is {_bar_name(first)}, with {said}; {other} comes next."


def _share_text(bar: Bar) -> str:
    return "" if bar.share is None else f" ({percents(bar.share)[0]} of everything)"


def _bar_name(bar: Bar) -> str:
    short = bar.label if len(bar.label) <= SHORT else f"{bar.label[: SHORT - 1]}…"
    return f"<strong><bdi>{html.escape(short)}</bdi></strong>"


def _ends_text(lower: float | None, upper: float | None, places: int) -> str:
    if lower is None:
        return "interval unknown"
    return f"{number_text(lower, places)} " + (
        "or more" if upper is None else f"to {number_text(upper, places)}"
    )


def percents(share: tuple[float, float, float]) -> tuple[str, str, str]:
    """Return a share and the ends of its interval, with decimals that fit its width."""
    places = min(2, max(0, digits_for_width(50 * (share[2] - share[1])) - 1))
    value, lower, upper = (f"{100 * part:.{places}f} %" for part in share)
    return value, lower, upper


# -- bars ----------------------------------------------------------------------------------------


def bars_table(
    bars: Sequence[Bar], shown: Chartable, measure: DrawnMeasure, what: str, level: int, title: str
) -> str:
    """Return bars as the rows of a table, with whole labels as text beside them, as HTML.

    Parameters
    ----------
    title
        The id of the heading.
    """
    ends = [end for bar in bars for end in (bar.value, bar.lower, bar.upper) if end is not None]
    low, high = min([0.0, *ends]), max([0.0, *ends])
    span = (high - low) or 1.0
    name = shown.hierarchy.level_names[level - 1]
    shares = any(bar.share for bar in bars)
    rows = "".join(_bar_row(bar, low, span, measure.digits, shares) for bar in bars)
    share_head = "<th scope='col' class='number share'>Share</th>" if shares else ""
    return (
        f"<table class='bars' aria-labelledby='{title}'><thead><tr>"
        f"<th scope='col'><bdi>{html.escape(name)}</bdi></th>"
        "<th class='drawn' aria-hidden='true'></th>"
        f"<th scope='col' class='number'><bdi>{html.escape(what)}</bdi></th>"
        f"{share_head}</tr></thead><tbody>{rows}</tbody></table>"
    )


def _bar_row(bar: Bar, low: float, span: float, places: int, shares: bool) -> str:
    def at(value: float) -> float:
        return round(100 * (value - low) / span, 3)

    left, right = sorted((at(0.0), at(bar.value)))
    parts = [
        f"<rect class='bar' x='{left}' y='0' width='{max(right - left, 0.3):.3f}' height='16'/>"
    ]
    if bar.lower is not None and bar.upper is not None:
        start, wide = at(bar.lower), max(at(bar.upper) - at(bar.lower), 0.35)
        parts.append(f"<rect class='whisker' x='{start}' y='6' width='{wide:.3f}' height='4'/>")
    share = ""
    if shares:
        told = ""
        if bar.share is not None:
            part, least, most = percents(bar.share)
            told = f"{part}<small>{least.removesuffix(' %')} to {most}</small>"
        share = f"<td class='number share'>{told}</td>"
    return (
        f"<tr><th scope='row'><bdi>{html.escape(bar.label)}</bdi></th>"
        "<td class='drawn' aria-hidden='true'><svg viewBox='0 0 100 16' "
        f"preserveAspectRatio='none'>{''.join(parts)}</svg></td>"
        f"<td class='number'>{number_text(bar.value, places)}"
        f"<small>{_ends_text(bar.lower, bar.upper, places)}</small></td>{share}</tr>"
    )
