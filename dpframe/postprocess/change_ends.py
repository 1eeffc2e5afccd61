"""Ends of the intervals of changes, and how they are shown."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpframe.postprocess.change_sides import Numbers, Side


@dataclass(frozen=True, kw_only=True, eq=False)
class ChangeEnds:
    """Ends of the intervals of a change: lists with one end per row, None where nothing is known.

    ``lower`` and ``upper`` are for the change; ``ratio`` has the quotients, their lower and their
    upper ends. ``confidence`` is that of changes and quotients.
    """

    confidence: float
    before: tuple[Numbers, Numbers]
    after: tuple[Numbers, Numbers]
    lower: Numbers
    upper: Numbers
    ratio: tuple[Numbers, Numbers, Numbers]

    def of_side(self, role: str) -> tuple[Numbers, Numbers]:
        """The ends for the numbers of one release; ``role`` is "before" or "after"."""
        return self.before if role == "before" else self.after


def end_difference(a: int | None, b: int | None, more: int = 0) -> int | None:
    return None if a is None or b is None else a - b + more


def shown_end(units: int | None, scale: Fraction, whole: bool, *, up: bool) -> Any:
    """Convert an end from units to what the frame shows; rounded outwards if numbers are whole."""
    if units is None:
        return None
    exact = Fraction(units) / scale
    if whole:
        return math.ceil(exact) if up else math.floor(exact)
    return float(exact)


def shown_change_ends(
    before: Side,
    after: Side,
    confidence: float,
    shown: list[tuple[Numbers, Numbers]],
    units: tuple[list[Any], list[Any]],
    ratio: tuple[list[float], list[float]] | None,
    scale: Fraction,
) -> ChangeEnds:
    """Convert ends to what the frame shows, wide enough to hold the changes and quotients of the
    shown numbers. ``units`` has the ends of changes in units, of which ``scale`` are 1."""
    lower = [shown_end(end, scale, before.whole, up=False) for end in units[0]]
    upper = [shown_end(end, scale, before.whole, up=True) for end in units[1]]
    values: Numbers = []
    nothing: Numbers = [None] * len(lower)
    low: Numbers = list(ratio[0]) if ratio else nothing
    high: Numbers = list(ratio[1]) if ratio else nothing
    for row, (b, a) in enumerate(zip(before.value, after.value, strict=True)):
        both = b is not None and a is not None and b == b and a == a
        if both:
            lower[row] = None if lower[row] is None else min(lower[row], a - b)
            upper[row] = None if upper[row] is None else max(upper[row], a - b)
        clear = both and ratio is not None and b > 0 and high[row] < math.inf
        values.append(max(0.0, a / b) if clear else None)
        if clear:
            low[row], high[row] = min(low[row], values[-1]), max(high[row], values[-1])
    return ChangeEnds(
        confidence=confidence,
        before=shown[0],
        after=shown[1],
        lower=lower,
        upper=upper,
        ratio=(values, low, high),
    )
