"""Weighted sums of Laplace noise, and intervals of means.

**Weighted sums** of Laplace noises have one factor for all weights, exact for equal ones.

Estimates by least squares are weighted sums of many independent noises, with weights that differ
from node to node. `deviation_factor` turns the standard deviation of any of them into a half
width; `sum_half_width` is the exact half width for a plain sum of equal noises, as
:mod:`.joint_noise` has it for tables.

**Means** and other quotients of noisy numbers have intervals; the factor of a mean depends on the
mean.

Source: Fieller, "Some Problems in Interval Estimation" (1954). For N = n + X and D = d + Y, with
independent noises X and Y, the number N - m D at the true m = n/d is X - m Y, a weighted sum of
noises: it is within f sd with the confidence of f. The interval is the set of all m for which N - m
D is within f sd; nothing is linearised.

A mean is a quotient of A and A + B: A is by how much its values are above the lower bound, B by how
much they are below the upper bound. Both have the same weighted sums of noises, eA and eB, drawn
apart. If the true mean is the part u of the way from the lower to the upper bound, then its
interval is made of the sum (1 - u) eA - u eB. The noise with the largest share in eA has the share
L there; in this sum it has

    L max(u, 1 - u)^2 / (u^2 + (1 - u)^2),

from L/2 in the middle to L at a bound. So this share is known for each value that the mean could
have, and with it the factor that the value needs (:func:`share_factor`). The set of all values that
fit holds the true one with the confidence; its ends are shown.

Privacy
-------
A function of public scales: no budget.

References
----------
.. [1] Ghosh, Roughgarden, Sundararajan, "Universally Utility-Maximizing Privacy Mechanisms",
   STOC 2009: the discrete Laplace law on all whole numbers.
.. [2] Birnbaum, "On Random Variables with Comparable Peakedness", Ann. Math. Stat. 19 (1948).
.. [3] Szekely, Bakirov, "Extremal Probabilities for Gaussian Quadratic Forms", Probability Theory
   and Related Fields 126 (2003): the same pattern, equal weights, for sums of squares.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from dpframe.errors import ParameterError

MARGIN = 1.001
"""Factor in `deviation_factor`, for what is found by search and not proved."""

_SLACK = 1e-10
"""Probabilities lean towards wider intervals by this part: rounding of float64."""

_EQUAL = (1, 2, 3, 4, 6, 10)
"""Numbers of equal weights that are looked at; more are closer to the normal law."""

_TERMS = 10**6
"""The most terms of a sum: more take too much memory."""


@lru_cache(maxsize=256)
def deviation_factor(confidence: float) -> float:
    """Some f with P(|X| <= f sd(X)) >= confidence for every weighted sum X of Laplace noises.

    X is any sum of independent centered continuous Laplace and normal variables, of any scales; f
    is at most 0.1 % above what one Laplace variable, an equal sum of few or a normal variable
    needs. ParameterError if the confidence is not between 0 and 1.

    Notes
    -----
    For discrete Laplace noise on whole numbers see `whole_half_width`.

    *How it is known.* Given exponential variables E_i of mean 1, X of variance 1 is normal with the
    variance w_0 + sum of w_i E_i, where the w are the shares of variance. Its tail beyond t is the
    mean of a function of that variance which is convex, then concave; so the tail is extremal at
    equal shares in every search that was made: of the weights of one value, of two values, with a
    normal part, and of thousands of random ones none had a tail above the largest tail of a normal
    variable and of 1, 2, 3, ... equal Laplace variables. Only one Laplace variable (from about 91 %
    on), a normal one (below that) and, within 0.1 points where these meet, a few equal ones are
    ever the worst. That no others are is not proved here: hence `MARGIN`, and a test that inverts
    the characteristic functions of thousands of weights.

    Examples
    --------
    >>> round(deviation_factor(0.95), 3), round(deviation_factor(0.8), 3)
    (2.12, 1.283)
    """
    _check_confidence(confidence)
    normal = NormalDist().inv_cdf((1 + confidence) / 2)
    return MARGIN * max(normal, *(_equal_factor(k, confidence) for k in _EQUAL))


CELLS = 16
"""Number of steps into which the largest share is divided; within a step the factor changes by
1 %."""

SURE = 0.9999
"""Confidence up to which characteristic functions are inverted: to 1e-8 of a probability."""


def share_factor(confidence: float, largest: float) -> float:
    """As `deviation_factor`, and at most that, for sums of Laplace variables in which ``largest``,
    above 0 and at most 1, is the largest share of the variance that one noise has.

    Notes
    -----
    All other shares are at most the largest one, m. In every search the sums that need the largest
    factor are extremal again: further shares of m, and a rest that is normal, one Laplace variable
    or a few equal ones. The result is the largest of their factors at both ends of a step of m,
    times `MARGIN`; that no other sum needs more is not proved here either.

    Examples
    --------
    >>> round(share_factor(0.8, 1.0), 3), round(share_factor(0.99, 0.01), 3)
    (1.15, 2.648)
    """
    _check_confidence(confidence)
    if not 0 < largest <= 1:
        raise ParameterError(f"largest ({largest}) must be above 0 and at most 1.")
    if confidence > SURE:
        return deviation_factor(confidence)
    return _cell_factor(min(int(largest * CELLS), CELLS - 1), confidence)


@lru_cache(maxsize=1024)
def _cell_factor(cell: int, confidence: float) -> float:
    ends = [cell / CELLS] if cell else []
    several = {shares for m in (*ends, (cell + 1) / CELLS) for shares in _extremal_shares(m)}
    several |= set() if ends else {()}
    found = max(_quantile(shares, confidence) for shares in several)
    return min(MARGIN * found, deviation_factor(confidence))


def _extremal_shares(m: float) -> list[tuple[float, ...]]:
    """Sums to try: shares of Laplace variables, the largest m; what is left of 1 is normal."""
    fit = int((1 - m) / m + 1e-9)
    found = [(m,) * (1 + j) for j in range(min(fit, 3) + 1)]
    found.append((*(m,) * (1 + fit), max(0.0, 1 - m * (1 + fit))))
    fewest = max(1, math.ceil((1 - m) / m - 1e-9))
    found += [(m, *[(1 - m) / k] * k) for k in (fewest, fewest + 2) if m < 1]
    return found


_CIRCLE, _POINTS = 70.0, 2**16
"""Standard deviations around a circle, of which 1e-20 wraps around, and points on the circle,
between which laws are interpolated."""


@lru_cache(maxsize=4096)
def _quantile(shares: tuple[float, ...], confidence: float) -> float:
    """x with P(|X| <= x) = confidence, for X of variance 1: a sum of Laplace variables with these
    shares of the variance, and of a normal variable with the rest."""
    at = np.arange(1, 20_000)
    s = at * (2 * math.pi / _CIRCLE)
    phi = np.exp(-max(0.0, 1 - sum(shares)) * s * s / 2)
    for share in shares:
        phi /= 1 + share * s * s / 2
    series = np.zeros(_POINTS // 2 + 1)
    series[1 : len(at) + 1] = phi / at
    x = np.arange(_POINTS // 5) * (_CIRCLE / _POINTS)
    waves = np.fft.irfft(-1j * series, _POINTS)[: len(x)] * (_POINTS / 2)
    inside = 2 * x / _CIRCLE + 2 / math.pi * waves
    above = int(np.argmax(inside >= confidence))
    return float(np.interp(confidence, inside[above - 1 : above + 1], x[above - 1 : above + 1]))


def whole_half_width(
    variance: NDArray[np.float64], confidence: float, largest: NDArray[np.float64] | None = None
) -> NDArray[np.int64]:
    """Half widths for whole estimates made of unbounded discrete Laplace noise: ceil(f sd + 1/2).

    ``variance`` is below 2**120, as if noises were continuous: a noise of scale b has 2 b**2.
    ``largest`` is as for `share_factor`, None where it is not known. Noises are discrete Laplace of
    scales b_i >= 1, with weights of at most 1 in absolute value, as those of least squares are. For
    their sum X, P(|X| <= f sd + 1/2) >= confidence; so P(|X'| <= w) >= confidence for the error X'
    of any whole estimate that is less than 1 from the sum.

    Notes
    -----
    *The half.* A continuous Laplace variable is b E_1 - b E_2 with exponential E, and the floor of
    b E is geometric and independent of its fraction: it is a discrete Laplace variable [1]_ plus an
    independent symmetric rest. So a continuous sum is X + W, W symmetric and independent, and with
    weights 1 and -1, X being unimodal on the whole numbers, no interval of length 2 w holds more of
    X than the middle one [2]_: P(|X| <= w) >= P(|X + W| <= w) for whole w. For such sums ceil(f sd)
    is enough. For one noise of scale b, p = exp(-1/b) and weight a <= 1, P(|X| > h + 1/2) <= 2
    p**(m + 1) / (1 + p) with m + 1 >= h/a + 1/2, and 2 sqrt(p) <= 1 + p. For sums of several it is
    not proved but computed, exactly, for thousands of weights; without the half it fails for
    weights such as 8/13.
    """
    f: NDArray[np.float64] | float = deviation_factor(confidence)
    if largest is not None and confidence <= SURE:
        cell = np.minimum(largest * CELLS, CELLS - 1).astype(np.int64)
        cells, where = np.unique(cell, return_inverse=True)
        middle = (cells + 0.5) / CELLS
        f = np.array([share_factor(confidence, m) for m in middle.tolist()])[where]
    half: NDArray[np.int64] = np.ceil(f * np.sqrt(variance) + 0.5).astype(np.int64)
    return half


def sum_half_width(scale: Fraction | float, terms: int, confidence: float) -> int:
    """Least w with P(|D_1 + ... + D_terms| <= w) >= confidence, for discrete Laplace D.

    P(D = x) is proportional to exp(-abs(x) / scale) on all whole numbers. ``terms`` are 1 to 10**6.
    Exact but where the probability meets the confidence to 1e-9.

    Notes
    -----
    No lattice and no truncation. With p = exp(-1/b), q = 1 - p, D is a difference of two geometric
    variables, the sum G - G' one of two negative binomial ones, numbers of successes of
    probability p before the k-th failure. G >= n if the first n + k - 1 trials have at most k - 1
    failures, so P(G - G' > w) = P(A + B <= k - 1), with A the failures in w trials, binomial, and
    B those in G' + k more: from the generating function ((p + q s) / (1 + p - p s))**k B is a
    binomial variable of k trials of probability q plus an independent negative binomial one of
    ratio p / (1 + p). All terms are positive: nothing cancels, whatever b.

    Examples
    --------
    >>> sum_half_width(1.0, 1, 0.95), sum_half_width(Fraction(7, 2), 40, 0.95)
    (3, 61)
    """
    _check_confidence(confidence)
    if not 0 < scale < 2**60:
        raise ParameterError(f"scale ({scale}) must be above 0 and below 2**60.")
    if not 1 <= terms <= _TERMS:
        raise ParameterError(f"terms ({terms}) must be a whole number from 1 to {_TERMS}.")
    return _sum_half_width(float(scale), int(terms), float(confidence))


@lru_cache(maxsize=4096)
def _sum_half_width(scale: float, terms: int, confidence: float) -> int:
    rate, refused = 1 / scale, (1 - confidence) / 2 * (1 - _SLACK)
    before = _failures_between(rate, terms)
    low, high = -1, math.ceil(2 * scale * math.sqrt(terms)) + 1
    while _sum_tail(high, rate, before) > refused:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if _sum_tail(middle, rate, before) > refused:
            low = middle
        else:
            high = middle
    return high


def _failures_between(rate: float, k: int) -> NDArray[np.float64]:
    """P(B <= j) for j = 0 to k - 1, with B as in `sum_half_width`."""
    j = np.arange(1, k)
    log_p, log_q = -rate, math.log(-math.expm1(-rate))
    ratio = log_p - math.log1p(math.exp(-rate))
    tries = _from_ratios(k * log_p, np.log((k - j + 1) / j) + log_q - log_p)
    waits = _from_ratios(-k * math.log1p(math.exp(-rate)), np.log((k + j - 1) / j) + ratio)
    size = 1 << (2 * k).bit_length()
    law = np.fft.irfft(np.fft.rfft(tries, size) * np.fft.rfft(waits, size), size)[:k]
    found: NDArray[np.float64] = np.cumsum(np.maximum(law, 0.0))
    return found


def _sum_tail(w: int, rate: float, before: NDArray[np.float64]) -> float:
    """P(sum > w), summed over the failures in w trials; log q - log p is log(exp(rate) - 1)."""
    j = np.arange(1, min(len(before), w + 1))
    law = _from_ratios(-w * rate, np.log((w - j + 1) / j) + math.log(math.expm1(rate)))
    return float(law @ before[::-1][: len(law)])


def _from_ratios(first: float, ratios: NDArray[np.float64]) -> NDArray[np.float64]:
    """A law from the logarithms of its first probability and of the ratios of neighbors."""
    law: NDArray[np.float64] = np.exp(np.cumsum(np.concatenate([[first], ratios])))
    return law


@lru_cache(maxsize=1024)
def _equal_factor(k: int, confidence: float) -> float:
    """The quantile of a sum of k equal continuous Laplace variables, over its standard deviation.

    As in `sum_half_width`, with a Poisson process in the place of trials: the sum exceeds x if
    fewer than k events come within x and until a second process of the same rate has had k events.
    Rounded up.
    """
    chance = np.log((k + np.arange(1, k) - 1) / np.arange(1, k) / 2)
    reversed_ = np.cumsum(_from_ratios(-k * math.log(2), chance))[::-1]
    low, high = 0.0, 60.0 * math.sqrt(k)
    while high - low > 1e-12 * high:
        x = (low + high) / 2
        events = np.log(x / np.arange(1, k))
        enough = 2 * float(_from_ratios(-x, events) @ reversed_) <= 1 - confidence
        low, high = (low, x) if enough else (x, high)
    return high / math.sqrt(2 * k)


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise ParameterError(f"confidence ({confidence}) must be above 0 and below 1.")


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
        low, high = least[here], most[here]
        for low_end, high_end in ((-outer * half, -inner * half), (inner * half, outer * half)):
            one, other = np.maximum(lower, low_end), np.minimum(upper, high_end)
            fits = one <= other
            low = np.where(fits, np.minimum(low, one), low)
            high = np.where(fits, np.maximum(high, other), high)
        least[here], most[here] = low, high
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
