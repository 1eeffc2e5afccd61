"""The law of successes in independent trials, each probability between two whole numbers of parts
of 2**-96."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from dpframe.verifier.numbers import ONE, divide_up
from dpframe.verifier.verdict import NotVerifiedError

FINE = 1 << 176
"""The weight of the likeliest value, before all are divided by their sum."""

LEAST_WEIGHT = 1 << 60
"""In the scale of ``FINE``: all values beyond one that weighs less are bounded together, in
``rest``."""

MOST_VALUES = 2_000_000
"""The most values that are looked at one by one."""


@dataclass(frozen=True)
class BinomialLaw:
    """Bounds in parts of ONE: P(successes = lowest + i) is from ``low[i]`` to ``high[i]``, and all
    other values together have at most ``rest``."""

    lowest: int
    low: list[int]
    high: list[int]
    rest: int

    def with_one(self, chance: Fraction, *, more: bool) -> list[int]:
        """Bounds on the law with one more trial, of another chance: from above if ``more``, else
        from below."""
        own = self.high if more else self.low
        over, under = chance.numerator, chance.denominator
        parts = zip([*own, 0], [0, *own], strict=True)
        sums = ((under - over) * no + over * yes for no, yes in parts)
        return [divide_up(each, under) if more else each // under for each in sums]

    def cumulative(self, x: int) -> int:
        """An upper bound on P(successes < x)."""
        return min(ONE, sum(self.high[: max(0, x - self.lowest)]) + self.rest)


@lru_cache(maxsize=8)
def binomial_law(n: int, chance: Fraction) -> BinomialLaw:
    """The law of n trials, 0 < chance < 1, from the likeliest value outwards by the ratios of
    neighbouring probabilities."""
    if 30 * math.sqrt(n * float(chance) * (1 - float(chance))) > MOST_VALUES:
        raise NotVerifiedError(f"sums of {n} reports have too many values to check")
    odds = chance / (1 - chance)
    over, under = odds.numerator, odds.denominator
    mode = min(n, math.floor((n + 1) * chance))
    up, beyond = _weights_by_ratios(mode, n, lambda k: ((n - k) * over, (k + 1) * under), 1)
    down, before = _weights_by_ratios(mode, 0, lambda k: (k * under, (n - k + 1) * over), -1)
    weights = [*reversed(down), (FINE, FINE), *up]
    least = sum(low for low, _ in weights)
    rest = beyond + before
    most = sum(high for _, high in weights) + rest
    return BinomialLaw(
        lowest=mode - len(down),
        low=[low * ONE // most for low, _ in weights],
        high=[divide_up(high * ONE, least) for _, high in weights],
        rest=divide_up(rest * ONE, least),
    )


def _weights_by_ratios(
    start: int, end: int, ratio: Callable[[int], tuple[int, int]], step: int
) -> tuple[list[tuple[int, int]], int]:
    """The weights of the values after ``start`` towards ``end``, each between two bounds, and an
    upper bound on the weight of all values beyond these: ratios fall from value to value."""
    low = high = FINE
    out: list[tuple[int, int]] = []
    for k in range(start, end, step):
        over, under = ratio(k)
        low, high = low * over // under, divide_up(high * over, under)
        out.append((low, high))
        if high < LEAST_WEIGHT:
            if k + step == end:
                return out, 0
            over, under = ratio(k + step)
            return out, divide_up(high * over, under - over)
    return out, 0
