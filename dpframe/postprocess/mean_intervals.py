"""Intervals of quotients of noisy numbers, and of means, whose factor depends on the mean.

Source: Fieller, "Some Problems in Interval Estimation" (1954). For N = n + X and D = d + Y, with
independent noises X and Y, the number N - m D at the true m = n/d is X - m Y, a weighted sum of
noises: it is within f sd with the confidence of f (:mod:`.weighted_laplace`). The interval is the
set of all m for which N - m D is within f sd; nothing is linearised.

A mean is a quotient of A and A + B: A is by how much
its values are above the lower bound, B by how much they are below the upper bound. Both have the
same weighted sums of noises, eA and eB, drawn apart. If the true mean is the part u of the way from
the lower to the upper bound, then its interval is made of the sum (1 - u) eA - u eB. The noise with
the largest share in eA has the share L there; in this sum it has

    L max(u, 1 - u)^2 / (u^2 + (1 - u)^2),

from L/2 in the middle to L at a bound. So this share is known for each value that the mean could
have, and with it the factor that the value needs (:func:`.weighted_laplace.share_factor`). The set
of all values that fit holds the true one with the confidence; its ends are shown.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpframe.postprocess.weighted_laplace import CELLS, deviation_factor, share_factor

Reals = NDArray[np.float64]

BOUNDARY = 1e-9
"""Ends this near to a distance at which the factor changes are taken to be there; in parts of half
the distance of the bounds."""


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

    Numbers are unbiased, with independent noise. ``factor`` is f with P(|Z| <= f sd(Z)) >=
    confidence for weighted sums Z of the noises. All of ``within`` is the answer where the
    denominator is not clearly above 0, or where no quotient between them fits. An interval holds
    the true quotient with the confidence of ``factor``, where the true denominator is above 0.
    """
    a = denominator**2 - factor**2 * denominator_variance
    of_ends = numerator_variance * denominator**2 + denominator_variance * numerator**2
    of_ends -= factor**2 * numerator_variance * denominator_variance
    product = numerator * denominator
    bounded = (a > 0) & (denominator > 0)
    safe = np.where(bounded, a, 1.0)
    root = factor * np.sqrt(np.maximum(of_ends, 0.0))  # as a discriminant it would cancel
    lower, upper = (product - root) / safe, (product + root) / safe
    return _cut_to_bounds(lower, upper, within, where=bounded)


def _cut_to_bounds(
    lower: Reals, upper: Reals, within: tuple[float, float], *, where: NDArray[np.bool_]
) -> tuple[Reals, Reals]:
    """Intervals cut to bounds; the bounds themselves elsewhere, and where nothing fits them."""
    low, high = within
    fits = where & (lower <= high) & (upper >= low)
    lower = np.where(fits, np.maximum(lower, low), low)
    return lower, np.where(fits, np.minimum(upper, high), high)


def mean_ends(
    quotient: Reals,
    told: Reals,
    largest: Reals | None,
    confidence: float,
    *,
    half: float,
    within: tuple[float, float],
) -> tuple[Reals, Reals]:
    """Ends of intervals for means, as distances from the middle of the bounds.

    ``quotient`` is the noisy mean, less the middle; ``told`` the standard deviation of the noisy
    number of values over that number, NaN where it is not known or not above 0; ``largest`` is L of
    the module's docstring, None where it is not known: one factor then serves all values. ``half``
    is half the distance of the bounds; the bounds, ``within``, are the answer where nothing is
    known, or where no value between them fits.
    """
    known = ~np.isnan(told)
    own = np.where(known, quotient, 0.0)
    spread = np.where(known, told, 1.0) ** 2

    def fitting(here: NDArray[np.intp], factor: float) -> tuple[Reals, Reals]:
        return ratio_interval(
            own[here],
            spread[here] * half**2,
            np.ones(len(here)),
            spread[here],
            factor=factor,
            within=(-np.inf, np.inf),
        )

    every = np.arange(len(own))
    first, last = fitting(every, deviation_factor(confidence))  # no factor is larger
    nearest = np.where((first <= 0) & (last >= 0), 0.0, np.minimum(np.abs(first), np.abs(last)))
    furthest = np.maximum(np.abs(first), np.abs(last))
    least, most = np.full(len(own), np.inf), np.full(len(own), -np.inf)
    for here, inner, outer, factor in _factor_rings(
        largest, confidence, nearest / half, furthest / half
    ):
        lower, upper = fitting(here, factor)
        for low_end, high_end in ((-outer * half, -inner * half), (inner * half, outer * half)):
            one, other = np.maximum(lower, low_end), np.minimum(upper, high_end)
            fits = one <= other
            least[here] = np.where(fits, np.minimum(least[here], one), least[here])
            most[here] = np.where(fits, np.maximum(most[here], other), most[here])
    return _cut_to_bounds(least, most, within, where=known)


def spread_from_end(
    quotient: Reals, end: Reals, largest: Reals | None, confidence: float, *, half: float
) -> tuple[Reals, Reals]:
    """The least and the most that ``told`` of `mean_ends` can have been, from one end that is
    between the bounds: they differ where the end is at a value at which the factor changes."""
    n = len(end)
    fewest, most = np.full(n, np.inf), np.full(n, -np.inf)
    place = np.abs(end) / half
    for here, inner, outer, factor in _factor_rings(
        largest, confidence, place - BOUNDARY, place + BOUNDARY
    ):
        at = place[here]
        inside = (inner - BOUNDARY <= at) & (at <= outer + BOUNDARY)
        fewest[here] = np.where(inside, np.minimum(fewest[here], factor), fewest[here])
        most[here] = np.where(inside, np.maximum(most[here], factor), most[here])
    ratio = np.abs(quotient - end) / np.hypot(half, end)
    return ratio / most, ratio / fewest


def _factor_rings(
    largest: Reals | None, confidence: float, nearest: Reals, furthest: Reals
) -> list[tuple[NDArray[np.intp], Reals, Reals, float]]:
    """For each factor: the nodes that it serves, the least and the largest distance from the middle
    at which it serves them, and the factor. Together they cover all distances from ``nearest`` to
    ``furthest``. Distances are in parts of half the distance of the bounds."""
    if largest is None:
        n = len(nearest)
        return [(np.arange(n), np.zeros(n), np.full(n, np.inf), deviation_factor(confidence))]
    first = np.floor(_share_at_distance(nearest, largest) * CELLS - BOUNDARY)
    last = np.minimum(np.floor(_share_at_distance(furthest, largest) * CELLS + BOUNDARY), CELLS - 1)
    found = []
    for cell in range(CELLS):
        here = np.flatnonzero((first <= cell) & (cell <= last))
        if len(here):
            inner, outer = (_distance_of_share(cell + end, largest[here]) for end in (0, 1))
            if cell == CELLS - 1:
                outer = np.full(len(here), np.inf)
            factor = share_factor(confidence, (cell + 0.5) / CELLS)
            found.append((here, inner, outer, factor))
    return found


def _share_at_distance(distance: Reals, largest: Reals) -> Reals:
    """The largest share of one noise, where a mean is at this distance from the middle."""
    x = (1 + np.clip(distance, 0.0, 1.0)) / 2
    shares: Reals = largest * x**2 / (x**2 + (1 - x) ** 2)
    return shares


def _distance_of_share(cells: int, largest: Reals) -> Reals:
    """The distance from the middle at which the largest share is ``cells / CELLS``; inf if it is
    smaller everywhere."""
    part = cells / CELLS / largest
    x = 1 / (1 + np.sqrt(np.maximum(1 / np.clip(part, 0.5, 1.0) - 1, 0.0)))
    return np.where(part > 1, math.inf, 2 * x - 1)
