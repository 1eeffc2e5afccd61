"""Texts of plotly figures: labels without markup, and numbers with their intervals."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dpframe.pages.chartable import Chartable, DrawnMeasure, finite_numbers, number_text

if TYPE_CHECKING:
    import pandas as pd

LONGEST_LABEL = 120
"""Largest number of characters of a label; plotly neither wraps nor cuts text."""


def plotly_text(text: object, longest: int = LONGEST_LABEL) -> str:
    """Escape and cut a text for plotly, which reads tags in it and shows any length."""
    whole = str(text)
    return html.escape(whole if len(whole) <= longest else f"{whole[: longest - 1]}…", quote=False)


def hover_texts(rows: pd.DataFrame, shown: Chartable) -> list[str]:
    """Return the hover text of each row, with all its released numbers."""
    percent = f"({100 * shown.receipt['confidence']:.6g} %)"
    names = shown.hierarchy.level_names
    said = [_hover_lines(rows, measure, percent, shown.is_rollup) for measure in shown.measures]
    if not shown.is_rollup and "residual" in rows.columns:
        digits = shown.measures[0].digits
        said.append(
            [
                f"residual {'' if n is None else number_text(n, digits)}"
                for n in finite_numbers(rows["residual"])
            ]
        )
    out = []
    for label, level, *lines in zip(rows["prefix"], rows["level"].tolist(), *said, strict=True):
        where = f"level {level}" + (f", {plotly_text(names[level - 1])}" if level else "")
        out.append("<br>".join([f"<b>{plotly_text(label)}</b>", *lines, where]))
    return out


def _hover_lines(rows: pd.DataFrame, measure: DrawnMeasure, percent: str, named: bool) -> list[str]:
    return list(_sentences(rows, measure, percent, named))


def _sentences(
    rows: pd.DataFrame, measure: DrawnMeasure, percent: str, named: bool
) -> Iterator[str]:
    columns = (finite_numbers(rows[name]) for name in measure.columns)
    for value, low, high in zip(*columns, strict=True):
        number, lower, upper = (
            "" if n is None else number_text(n, measure.digits) for n in (value, low, high)
        )
        if high is None:
            between = f"at least {lower}" if lower else "interval unknown"
        else:
            between = f"between {lower} and {upper}"
        if named:
            yield f"{plotly_text(measure.name)} {number}, {between} {percent}"
        else:
            yield f"count {number}<br>{between} {percent}"
