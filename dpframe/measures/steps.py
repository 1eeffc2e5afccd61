"""Values as whole numbers, so that a sum on the private side is exact.

A value is clipped to its bounds and written as a multiple of a step, a power of ten that whole
numbers and decimals are multiples of. No floating-point number is ever summed: adding such numbers
rounds, and how it rounds depends on all rows (Mironov, "On Significance of the Least Significant
Bits for Differential Privacy", 2012; Casacuberta et al., "Widespread Underestimation of
Sensitivity in Differentially Private Libraries", 2022).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from dpframe.measures.bins import double_sql

DIGITS = 10
"""Decimal digits of the larger bound, in steps: a value is rounded by at most 5e-10 of it."""

WHOLE_DIGITS = 13
"""Digits up to which the step stays 1 for large bounds, so that whole numbers are exact."""

FARTHEST = 10**15
"""Steps beyond which a single value is cut before it enters the total of a user, whose bound cuts
further: sums of all rows of all users fit 128 bits, times a bound."""


@dataclass(frozen=True)
class Steps:
    """How values between two bounds become whole numbers.

    Parameters
    ----------
    lower, upper
        Bounds, finite, the first below the second.
    """

    lower: float
    upper: float

    @cached_property
    def decimals(self) -> int:
        """The step is 10 ** -decimals."""
        largest = max(abs(Fraction(self.lower)), abs(Fraction(self.upper)))
        digits = 1
        while Fraction(10) ** digits <= largest:
            digits += 1
        while Fraction(10) ** (digits - 1) > largest:
            digits -= 1
        if DIGITS <= digits <= WHOLE_DIGITS:
            return 0
        return (DIGITS if digits < DIGITS else WHOLE_DIGITS) - digits

    def of(self, value: float) -> int:
        """A value in steps, to the nearest: the same floating-point product, or quotient, and the
        same rounding as in SQL. All three are monotone, so that a value between two others is
        between them in steps, too."""
        ten = 10.0 ** abs(self.decimals)
        scaled = value * ten if self.decimals >= 0 else value / ten
        whole = math.floor(abs(scaled))
        return int(math.copysign(whole + (abs(scaled) - whole >= 0.5), scaled))

    @property
    def low(self) -> int:
        return self.of(self.lower)

    @property
    def high(self) -> int:
        return self.of(self.upper)

    @property
    def most(self) -> int:
        """The largest absolute value, in steps."""
        return max(abs(self.low), abs(self.high))

    @property
    def width(self) -> int:
        """The distance of the bounds, in steps; 1 where both are one step."""
        return max(self.high - self.low, 1)

    @property
    def step(self) -> float:
        """The step in units of the value."""
        return float(Fraction(10) ** -self.decimals)

    def value(self, steps: float) -> float:
        """Steps in units of the value."""
        if self.decimals >= 0:
            return float(Fraction(steps) / 10**self.decimals) if steps == steps else math.nan
        return float(Fraction(steps) * 10**-self.decimals)


def value_sql(column: str, steps: Steps, *, clipped: bool) -> str:
    """SQL of a value in steps, BIGINT; NULL for what is no value: NULL, NaN, infinite, no number.

    ``column`` is the SQL of a number, or of text that is read as one. Without ``clipped`` only
    values beyond ``FARTHEST`` are cut. What a value becomes depends on this value alone.
    """
    low, high = reach(steps, clipped=clipped)
    number, scale = f"TRY_CAST({column} AS DOUBLE)", double_sql(10.0 ** abs(steps.decimals))
    scaled = f"{number} {'*' if steps.decimals > 0 else '/'} {scale}" if steps.decimals else number
    return (  # a value within its bounds, which most are, costs one product
        f"CASE WHEN isfinite({number}) AND {number} BETWEEN {double_sql(low)} AND "
        f"{double_sql(high)} "
        f"THEN CAST(round({scaled}) AS BIGINT) WHEN isfinite({number}) "
        f"THEN CASE WHEN {number} < {double_sql(low)} THEN {steps.of(low)}::BIGINT "
        f"ELSE {steps.of(high)}::BIGINT END END"
    )


def present_sql(column: str) -> str:
    """SQL of whether there is a value, 1 or 0."""
    return f"CASE WHEN isfinite(TRY_CAST({column} AS DOUBLE)) THEN 1 ELSE 0 END"


def reach(steps: Steps, *, clipped: bool) -> tuple[float, float]:
    """What a value is cut to: its bounds, or what sums can hold."""
    if clipped:
        return steps.lower, steps.upper
    return steps.value(-FARTHEST), steps.value(FARTHEST)


def outside_sql(column: str, steps: Steps) -> str:
    """SQL of whether a value is beyond its bounds."""
    number = f"TRY_CAST({column} AS DOUBLE)"
    inside = f"BETWEEN {double_sql(steps.lower)} AND {double_sql(steps.upper)}"
    return f"(isfinite({number}) AND {number} NOT {inside})"
