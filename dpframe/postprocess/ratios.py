"""Intervals for a quotient of two noisy numbers.

Source: Fieller, "Some Problems in Interval Estimation" (1954). For N = n + X and D = d + Y, with
independent noises X and Y, the number N - m D at the true m = n/d is X - m Y, a weighted sum of
noises: it is within f sd with the confidence of f (:mod:`.weighted_laplace`). The interval is the
set of all m for which N - m D is within f sd; nothing is linearised.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]


def ratio_interval(
    numerator: Reals,
    numerator_variance: Reals,
    denominator: Reals,
    denominator_variance: Reals,
    *,
    factor: float,
    within: tuple[float, float],
) -> tuple[Reals, Reals]:
    """Ends of intervals for quotients that are known to lie ``within`` two numbers.

    Parameters
    ----------
    numerator, denominator
        float64, shape (n,); unbiased, with independent noise.
    numerator_variance, denominator_variance
        float64, shape (n,), above 0.
    factor
        f with P(|Z| <= f sd(Z)) >= confidence for weighted sums Z of the noises.
    within
        The smallest and the largest quotient there can be; all of it is the answer where the
        denominator is not clearly above 0, or where no quotient between them fits.

    Returns
    -------
    tuple
        Lower and upper ends, float64, shape (n,). Each holds the true quotient with the confidence
        of ``factor``, where the true denominator is above 0.
    """
    low, high = within
    a = denominator**2 - factor**2 * denominator_variance
    of_ends = numerator_variance * denominator**2 + denominator_variance * numerator**2
    of_ends -= factor**2 * numerator_variance * denominator_variance
    product = numerator * denominator
    bounded = (a > 0) & (denominator > 0)
    safe = np.where(bounded, a, 1.0)
    root = factor * np.sqrt(np.maximum(of_ends, 0.0))  # as a discriminant it would cancel
    lower, upper = (product - root) / safe, (product + root) / safe
    fits = bounded & (lower <= high) & (upper >= low)
    return np.where(fits, np.maximum(lower, low), low), np.where(
        fits, np.minimum(upper, high), high
    )
