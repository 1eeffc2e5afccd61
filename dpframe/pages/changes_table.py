"""The largest changes between two releases, as a table of a page."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpframe.pages.line_drawings import Point

if TYPE_CHECKING:
    import pandas as pd

CHANGES = 15
"""Largest number of rows in the table."""

Write = Callable[[float], str]
"""A function that writes a number for the page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The numbers of a node in two periods, None where it was not reported, and their change.

    ``lower`` and ``upper`` are the ends of the interval of the change.
    """

    label: str
    level: int
    before: Point | None
    after: Point | None
    change: float | None
    lower: float | None
    upper: float | None
    ratio: float | None
    is_more_than_noise: bool

    @property
    def at_least(self) -> float:
        """The least size of the change by its interval; 0 if it may be noise."""
        if not self.is_more_than_noise:
            return 0.0
        return min(abs(end) for end in (self.lower, self.upper) if end is not None)


def changes_of(found: pd.DataFrame) -> list[Change]:
    """Read the rows of ``dp.change``; sort them by the least size of the change, largest first."""
    out = [
        Change(
            label=str(row["prefix"]),
            level=int(row["level"]),
            before=_change_point(row, "before"),
            after=_change_point(row, "after"),
            change=finite_or_none(row["change"]),
            lower=finite_or_none(row["change_lower"]),
            upper=finite_or_none(row["change_upper"]),
            ratio=finite_or_none(row["ratio"]),
            is_more_than_noise=bool(row["more_than_noise"]),
        )
        for row in found.to_dict("records")
    ]
    return sorted(out, key=lambda c: (-c.at_least, -abs(c.change or 0.0), c.level, c.label))


def _change_point(row: Mapping[Any, Any], side: str) -> Point | None:
    value = finite_or_none(row[side])
    if value is None:
        return None
    ends = (finite_or_none(row[f"{side}_{end}"]) for end in ("lower", "upper"))
    return Point(value=value, lower=next(ends), upper=next(ends))


def finite_or_none(number: Any) -> float | None:
    """Return a number, or None if it is missing or not finite."""
    import pandas as pd

    return None if pd.isna(number) or not math.isfinite(number) else number


def changes_table(
    found: pd.DataFrame, periods: tuple[str, str], *, number: Write, signed: Write
) -> str:
    """Return the table of the largest changes, and a note on its intervals, as HTML."""
    rows = "".join(
        _change_table_row(change, number, signed) for change in changes_of(found)[:CHANGES]
    )
    before, after = (html.escape(period) for period in periods)
    said = found.attrs["dp_change"]
    sure = f"{100 * said['confidence']:.6g} %"
    return (
        "<div class='scrolling'><table class='changes' aria-labelledby='changes-title'><thead><tr>"
        f"<th scope='col'>Node</th><th scope='col' class='number optional'>{before}</th>"
        f"<th scope='col' class='number optional'>{after}</th>"
        "<th scope='col' class='number'>Change</th><th scope='col' class='number optional'>Ratio"
        f"</th></tr></thead><tbody>{rows}</tbody></table></div>"
        f"<p class='note below'>From {before} to {after}, of {len(found):,} nodes. The intervals "
        f"of all changes hold together with confidence {sure}. Changes that noise alone may "
        "explain stand below the others, in grey. Where a period does not report a node, its "
        "interval is made of bounds from threshold and noise: what is not reported is not zero."
        "</p>"
    )


def _change_table_row(change: Change, number: Write, signed: Write) -> str:
    kind = "" if change.is_more_than_noise else " class='within'"
    ends = " to ".join("…" if end is None else signed(end) for end in (change.lower, change.upper))
    sides = "".join(
        f"<td class='number optional'>{'not reported' if p is None else number(p.value)}</td>"
        for p in (change.before, change.after)
    )
    moved = "" if change.change is None else signed(change.change)
    ratio = "" if change.ratio is None else f"× {change.ratio:.2f}"
    return (
        f"<tr{kind}><th scope='row' dir='auto'>{html.escape(node_name(change.label))}</th>{sides}"
        f"<td class='number'>{moved}<small>{ends}</small></td>"
        f"<td class='number optional'>{ratio}</td></tr>"
    )


def node_name(label: str) -> str:
    """Return the name of a node for people."""
    return "Total" if label == "*" else label
