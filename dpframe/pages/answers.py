"""The first part of a page: the answer in two sentences, the largest nodes, and the picture."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpframe.pages.fitting import Chartable, Drawn, area_measure, beside
from dpframe.pages.largest import LARGEST, Bar, answer, bars_of, bars_table, largest, shares_of
from dpframe.pages.pictures import grid, over_time, side_by_side

if TYPE_CHECKING:
    import pandas as pd

BARS = 40
"""Largest number of bars that are drawn; the table has the rest."""

WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def answered(
    frame: pd.DataFrame,
    shown: Chartable,
    measure: Drawn,
    form: str,
    measures: Sequence[Drawn],
) -> tuple[str, str]:
    """Return the sentences, and the sections of the largest nodes and of the picture, as HTML.

    Parameters
    ----------
    frame
        The released columns, with their attrs.
    shown
        The same release, prepared for drawing.
    measure
        The measure that the answer is about.
    form
        The kind of picture.
    measures
        The measures that lines show.
    """
    what = measure.name if shown.is_rollup else shown.receipt.counted
    level = shown.timed if form == "line" and shown.timed is not None else shown.listed
    share = shares_of(frame, shown, measure)
    rows = largest(shown, measure, level)
    bars = bars_of(rows, measure, share)
    told = answer(shown, measure, what, bars, level)
    top = _largest(shown, measure, what, bars[:LARGEST], len(bars), level)
    if form == "line":
        return told, top + over_time(shown, measures)
    if form == "heatmap":
        return told, top + grid(shown, area_measure(shown, form, measure))
    if form == "bar" and len(bars) > LARGEST:
        listed = beside(shown, level).assign(place=-1)
        every = bars_of(listed.head(BARS), measure, {})
        notes = [f"The first {BARS} of {len(listed):,}."] if len(listed) > BARS else []
        name = html.escape(shown.hierarchy.level_names[level - 1])
        table = bars_table(every, shown, measure, what, level, "picture-title")
        return told, top + side_by_side(table, f"By <bdi>{name}</bdi>", notes)
    return told, top


def _largest(
    shown: Chartable, measure: Drawn, what: str, bars: list[Bar], of: int, level: int
) -> str:
    if not bars:
        return ""
    name = f"<bdi>{html.escape(shown.hierarchy.level_names[level - 1])}</bdi>"
    number = WORDS[len(bars)] if len(bars) > 1 else ""
    title = f"The {number} largest of {of:,}: {name}" if of > len(bars) else f"Largest: {name}"
    sure = f"{100 * shown.receipt['confidence']:.6g} %"
    notes = [
        f"The thin lines and the small numbers are intervals ({sure}). Where those of two rows "
        "overlap, their order is not certain."
    ]
    if any(bar.share for bar in bars):
        notes.append("Shares are of everything, what is not shown here included.")
    elif not shown.is_rollup:
        parts = shown.receipt.get("adds_up", True)
        notes.append(
            "Shares are not known here, because no total is."
            if parts
            else "These numbers are no parts of a whole: they do not add up."
        )
    table = bars_table(bars, shown, measure, what, level, "largest-title")
    return (
        f"<section aria-labelledby='largest-title'><h2 id='largest-title'>{title}</h2>{table}"
        f"<p class='note below'>{' '.join(notes)}</p></section>"
    )
