"""Searches for the least noise whose cost stays within delta; callers check the result."""

from __future__ import annotations

import math
from collections.abc import Callable

from dpframe.errors import BudgetError

SMALLEST_SCALE = 0.5
"""Searches end below this scale, half a record: most noise is 0 there."""


def least_bound(cost: Callable[[int], float], start: int, delta: float, step: int = 1) -> int:
    """Return the least bound from 1 on, to within ``step``, whose cost stays within delta.

    The cost falls with the bound. Where ``start`` is too short, the search goes up to four times
    ``start``; callers check the result.
    """
    low, high = 0, start
    while cost(high) > delta and high < 4 * start:
        low, high = high, high + max(step, start // 16)
    while high - low > step:
        middle = (low + high) // 2
        low, high = (low, middle) if cost(middle) <= delta else (middle, high)
    return high


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

    def cost(sigma: float) -> float:
        return normal_delta(1 / sigma, epsilon)

    low, high = 1e-3, 10 * math.sqrt(math.log(2 / delta)) / epsilon
    while high / low > 1.0005:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if cost(middle) <= delta else (middle, high)
    return low


def normal_delta(mu: float, epsilon: float) -> float:
    """Return delta of a count that moves by ``mu`` sigmas of its continuous Gaussian noise."""
    a, b = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    return _normal_cdf(a) - math.exp(epsilon) * _normal_cdf(b)


def _normal_cdf(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2
