"""The first part of a page: the answer in two sentences, the largest nodes, and the picture."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpframe.pages.chartable import Chartable, DrawnMeasure, area_measure, reading_order
from dpframe.pages.largest_nodes import (
    LARGEST,
    Bar,
    answer_sentences,
    bars_of,
    bars_table,
    largest_first,
    shares_of,
)
from dpframe.pages.pictures import bars_section, grid_section, lines_section

if TYPE_CHECKING:
    import pandas as pd

BARS = 40
"""Largest number of bars that are drawn; the table has the rest."""

WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def answer_sections(
    frame: pd.DataFrame,
    shown: Chartable,
    measure: DrawnMeasure,
    form: str,
    measures: Sequence[DrawnMeasure],
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
    what = measure.name if shown.is_rollup else shown.receipt.count_noun
    level = shown.timed if form == "line" and shown.timed is not None else shown.listed
    share = shares_of(frame, shown, measure)
    rows = largest_first(shown, measure, level)
    bars = bars_of(rows, measure, share)
    told = answer_sentences(shown, measure, what, bars, level)
    top = _largest_section(shown, measure, what, bars[:LARGEST], len(bars), level)
    if form == "line":
        return told, top + lines_section(shown, measures)
    if form == "heatmap":
        return told, top + grid_section(shown, area_measure(shown, form, measure))
    if form == "bar" and len(bars) > LARGEST:
        listed = reading_order(shown, level).assign(place=-1)
        every = bars_of(listed.head(BARS), measure, {})
        notes = [f"The first {BARS} of {len(listed):,}."] if len(listed) > BARS else []
        name = html.escape(shown.hierarchy.level_names[level - 1])
        table = bars_table(every, shown, measure, what, level, "picture-title")
        return told, top + bars_section(table, f"By <bdi>{name}</bdi>", notes)
    return told, top


def _largest_section(
    shown: Chartable, measure: DrawnMeasure, what: str, bars: list[Bar], of: int, level: int
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
