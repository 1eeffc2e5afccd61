"""Searches: the place where a statement turns true, and the least noise whose cost stays within
delta. Callers check the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dpframe.errors import BudgetError

SMALLEST_SCALE = 0.5
"""Searches end below this scale, half a record: most noise is 0 there."""


def least_integer(true: Callable[[int], bool], low: int, high: int, step: int = 1) -> int:
    """Return the least whole number, to within ``step``, from which on a statement is true.

    The statement counts as false at ``low`` and as true at ``high``, where it is not tried.
    """
    while high - low > step:
        middle = (low + high) // 2
        low, high = (low, middle) if true(middle) else (middle, high)
    return high


def closest_numbers(
    true: Callable[[float], bool],
    low: float,
    high: float,
    *,
    apart: float = 0.0,
    part: float = 0.0,
    ratio: float | None = None,
) -> tuple[float, float]:
    """Return two numbers close together: a statement is false at the lower and true at the upper.

    It counts as false at ``low`` and as true at ``high``, where it is not tried. The numbers are at
    most ``apart``, or a ``part`` of the upper one, apart. With a ``ratio`` the search goes in equal
    ratios, and the upper number is at most this many times the lower.
    """
    while high - low > max(apart, part * high) if ratio is None else high / low > ratio:
        middle = (low + high) / 2 if ratio is None else math.sqrt(low * high)
        if middle in (low, high):  # no float lies between
            break
        low, high = (low, middle) if true(middle) else (middle, high)
    return low, high


def least_bound(cost: Callable[[int], float], start: int, delta: float, step: int = 1) -> int:
    """Return the least bound from 1 on, to within ``step``, whose cost stays within delta.

    The cost falls with the bound. Where ``start`` is too short, the search goes up to four times
    ``start``; callers check the result.
    """
    low, high = 0, start
    while cost(high) > delta and high < 4 * start:
        low, high = high, high + max(step, start // 16)
    return least_integer(lambda bound: cost(bound) <= delta, low, high, step)


def least_scale(cost: Callable[[float], float], start: float, delta: float) -> float:
    """Return the least scale, to half a percent, whose cost is within delta.

    The search takes secants in ln delta.
    """
    goal = math.log(delta)

    def excess(scale: float) -> float:
        return math.log(max(cost(scale), 1e-300)) - goal

    low, high = start / 1.5, start * 1.5
    at_low, at_high = excess(low), excess(high)
    while at_high > 0:
        low, at_low, high = high, at_high, high * 1.5
        at_high = excess(high)
    while at_low <= 0:
        if low < SMALLEST_SCALE:
            return low
        low, at_low, high, at_high = low / 1.5, excess(low / 1.5), low, at_low
    while high / low > 1.005:
        guess = low + (high - low) * min(max(at_low / (at_low - at_high), 0.1), 0.9)
        at = excess(guess)
        if at <= 0:
            high, at_high = guess, at
        else:
            low, at_low = guess, at
    return high


def path_budget_error(epsilon: float, delta: float, height: int) -> BudgetError:
    return BudgetError(
        f"no 64-bit noise reaches delta={delta:g} at epsilon={epsilon:g}, height={height}. "
        "Raise delta, or move epsilon towards 1."
    )


def continuous_sigma(epsilon: float, delta: float) -> float:
    """Return sigma of the continuous Gaussian mechanism for sensitivity 1 (Balle and Wang 2018,
    Theorem 8). It tells where a search starts and which family is worth trying; privacy does not
    rest on it."""
    widest = 10 * math.sqrt(math.log(2 / delta)) / epsilon

    def enough(sigma: float) -> bool:
        return normal_delta(1 / sigma, epsilon) <= delta

    return closest_numbers(enough, 1e-3, widest, ratio=1.0005)[0]


def normal_delta(mu: float, epsilon: float) -> float:
    """Return delta of a count that moves by ``mu`` sigmas of its continuous Gaussian noise."""
    a, b = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    return _normal_cdf(a) - math.exp(epsilon) * _normal_cdf(b)


def _normal_cdf(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2
