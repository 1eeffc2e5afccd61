"""The measures on the page of a rollup: their numbers with intervals, heads and sentences."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.asking.privacy_receipt import Receipt
from dpframe.asking.released_measures import ReleasedMeasure, digits_for_width
from dpframe.errors import ParameterError

if TYPE_CHECKING:
    import pandas as pd

TOTALS = 6
"""Largest number of measures whose total stands at the top of a page; the table has the rest."""


def drawn_measure(measures: Sequence[ReleasedMeasure]) -> ReleasedMeasure | None:
    """Return the first measure that widths can show, or None."""
    return next((measure for measure in measures if measure.has_areas), None)


def check_measure_columns(frame: pd.DataFrame, measures: Sequence[ReleasedMeasure]) -> None:
    """Raise ParameterError if the frame lacks a column of a measure."""
    for measure in measures:
        for column in measure.columns:
            if column not in frame.columns:
                raise ParameterError(
                    f"the frame has no column {column!r}. Pass the result unchanged."
                )


def measure_facts(frame: pd.DataFrame, measures: Sequence[ReleasedMeasure]) -> dict[str, Any]:
    """Return a list of numbers for each column, and the facts that a page needs of each measure."""
    check_measure_columns(frame, measures)
    told, facts = [], {}
    for place, measure in enumerate(measures):
        key = f"m{place}"
        told.append({"key": key, "title": measure.name, "digits": decimals(frame, measure)})
        for end, column in zip(("", "_lower", "_upper"), measure.columns, strict=True):
            facts[f"{key}{end}"] = _measure_numbers(frame[column], whole=measure.has_whole_values)
    drawn = drawn_measure(measures)
    return {
        "measures": told,
        "drawn": None if drawn is None else f"m{measures.index(drawn)}",
        **facts,
    }


def _measure_numbers(column: pd.Series[Any], *, whole: bool) -> list[float | None]:
    """Return the numbers of a column, with None where nothing is known."""
    convert = int if whole else float
    known = column.notna() & np.isfinite(column.astype(float))
    return [convert(n) if there else None for n, there in zip(column, known, strict=True)]


def decimals(frame: pd.DataFrame, measure: ReleasedMeasure) -> int:
    """Return how many decimals to show: two digits of the narrowest interval."""
    if measure.has_whole_values or not len(frame):
        return 0
    _, lower, upper = measure.columns
    half = (frame[upper].astype(float) - frame[lower].astype(float)) / 2
    wide = half[half > 0]
    return digits_for_width(float(wide.min())) if len(wide) else 2


def measure_heads(measures: Sequence[ReleasedMeasure]) -> str:
    """Return the heads of the columns of measures, as HTML."""
    return "\n".join(
        f'<th scope="col" role="columnheader" data-by="m{place}" class="number">'
        f'<button type="button"><bdi>{html.escape(measure.name)}</bdi></button></th>'
        for place, measure in enumerate(measures)
    )


def drawing_hint(measures: Sequence[ReleasedMeasure]) -> str:
    """Return a sentence on what the drawing shows, or why there is none, as HTML."""
    drawn = drawn_measure(measures)
    if drawn is None:
        return (
            "No measure of this rollup has parts that are never more than the whole, so nothing is "
            "drawn to scale. Choose a name in the table to see what is below it."
        )
    return (
        f"Width is <bdi>{html.escape(drawn.name)}</bdi>, which is noisy, of small blocks more than "
        "that, so that they can be read; a hatched block holds several nodes. Choose a block to "
        "zoom in, one above it to zoom out. With the keyboard: arrow keys, Enter, Escape."
    )


def total_figures(
    frame: pd.DataFrame, measures: Sequence[ReleasedMeasure], percent: str
) -> list[tuple[str, str, str]]:
    """Return for each measure its name, and its value and interval over all data."""
    check_measure_columns(frame, measures)
    row = frame[frame["level"] == 0]
    if len(row) != 1:
        return []
    out = []
    for measure in measures[:TOTALS]:
        n = decimals(frame, measure)
        value, lower, upper = (f"{row[c].iloc[0]:,.{n}f}" for c in measure.columns)
        out.append((measure.name, value, f"{lower} to {upper}, {percent}"))
    return out


def measure_sentences(receipt: Receipt, measures: Sequence[ReleasedMeasure]) -> list[str]:
    """Return sentences that explain the measures."""
    out = [
        f"Counts are of {receipt['counts']}. All numbers carry noise on purpose, and can be "
        "negative where the true ones are not."
    ]
    if not all(measure.adds_up for measure in measures):
        out.append(
            "Counts and sums of a node hold what is below it; means and numbers of different "
            "values do not add up."
        )
    for name, facts in receipt["measures"].items():
        if facts["lower"] is not None:
            what = "everything a user adds up to was" if _by_user(receipt, facts) else "values were"
            out.append(
                f"For {name}, {what} cut to {facts['lower']:,g} from below and to "
                f"{facts['upper']:,g} from above; no interval covers what that takes away."
            )
    return out


def _by_user(receipt: Receipt, facts: dict[str, Any]) -> bool:
    return receipt["user"] is not None and str(facts["spec"]).startswith("sum")
