"""Changes of numbers whose law is not known: from the intervals of both releases as shown."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from dpframe.errors import ParameterError
from dpframe.postprocess.change_ends import ChangeEnds, end_difference, shown_change_ends
from dpframe.postprocess.change_sides import Numbers, Side, check_together


def shown_ends(
    before: Side, after: Side, *, confidence: float, given: bool, simultaneous: bool, why: str
) -> ChangeEnds:
    """Ends of intervals from the intervals of both frames; ParameterError if these do not give the
    confidence that is asked for.

    ``given`` says whether the caller named ``confidence``; if not, changes on their own get the
    confidence with which the intervals of both frames hold together.
    """
    check_together(before, after, simultaneous)
    released = [_certain_ends(side) for side in (before, after)]
    both = before.confidence * after.confidence
    rows = max(1, len(before.value))
    if before.told is not None and after.told is not None:
        each = math.sqrt(1 - (1 - confidence) / (rows if simultaneous else 1))
        before, after = (
            replace(side, lower=low, upper=high)
            for side, (low, high) in ((before, before.told(each)), (after, after.told(each)))
        )
    held = 1 - rows * (1 - both) if simultaneous else both
    if before.told is not None and after.told is not None:
        held = confidence
    if held < confidence and (simultaneous or given):
        needed = math.sqrt(1 - (1 - confidence) / (rows if simultaneous else 1))
        instead = "Pass simultaneous=False" if simultaneous else "Leave confidence out"
        raise ParameterError(
            f"the intervals of these releases do not hold {rows if simultaneous else 1} changes "
            f"with confidence {confidence:g}"
            f"{' all together' if simultaneous else ''}. {instead}, or release both with "
            f"confidence={_confidence_text(needed)}. No others can be told: {why}"
        )
    ends = [_certain_ends(side) for side in (before, after)]
    (b_low, b_high), (a_low, a_high) = ends
    lower = [end_difference(a, b) for a, b in zip(a_low, b_high, strict=True)]
    upper = [end_difference(a, b) for a, b in zip(a_high, b_low, strict=True)]
    ratio = None
    if before.nonnegative and after.nonnegative:
        ratio = (
            [_quotient_or_default(a, b, 0.0) for a, b in zip(a_low, b_high, strict=True)],
            [_quotient_or_default(a, b, math.inf) for a, b in zip(a_high, b_low, strict=True)],
        )
    return shown_change_ends(
        before, after, min(held, 1.0), released, (lower, upper), ratio, Fraction(1)
    )


def _confidence_text(confidence: float) -> str:
    """Write a confidence with a few digits, rounded up."""
    digits = max(3, math.ceil(-math.log10(1 - confidence)) + 1)
    return f"{math.ceil(confidence * 10**digits) / 10**digits:.{digits}f}"


def _certain_ends(side: Side) -> tuple[Numbers, Numbers]:
    """The ends in the frame; for nodes that it does not report, bounds that are certain."""
    lower, upper = list(side.lower), list(side.upper)
    for row, shown in enumerate(side.shown):
        if not shown:
            hides = side.hides(row, 0.0)
            least, most = (None, None) if hides is None else hides
            lower[row] = 0 if side.nonnegative else None if least is None else float(least)
            upper[row] = None if most is None else math.ceil(most) if side.whole else float(most)
    return lower, upper


def _quotient_or_default(a: float | None, b: float | None, otherwise: float) -> float:
    if a is None or b is None or not b > 0:
        return otherwise
    return max(0.0, a / b)
