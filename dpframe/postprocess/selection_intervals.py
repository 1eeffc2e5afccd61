"""Intervals for true counts of released nodes, given which nodes were released and why.

Noise V is added to every count n. A node is shown because n + V reached the threshold t, or because
a descendant is shown. In the first case V is known to be at least t - n, and an interval that
ignores this is too high: near the threshold it misses almost always. In the second case the node's
own noise had no say, and V keeps its law; noises of different nodes are independent. All statements
below hold given which nodes are shown and for which reason each is shown, for every tree of true
counts. Hence they hold without that condition, too.

Everything is in units of the released counts. Laws are symmetric; those of children of remainders
also fall away from 0 on both sides (both hold for ``laplace_table`` and ``gaussian_table``).

Privacy
-------
Post-processing of released counts and public laws: no budget.

References
----------
.. [1] Casella, Berger, "Statistical Inference", 2nd ed., Theorem 9.2.2 (intervals from tests).
.. [2] Lee, Sun, Sun, Taylor, "Exact Post-Selection Inference", Annals of Statistics 44 (2016):
   condition on the selection.
.. [3] Vovk, Wang, "E-values: Calibration, Combination and Applications", Annals of Statistics 49
   (2021).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpframe.noise import NoiseTable
from dpframe.postprocess.joint_noise import half_width, sum_widths

_Interval = tuple[NDArray[np.int64], NDArray[np.int64]]

_SLACK = 1 + 1e-12
"""Comparisons of probabilities lean towards wider intervals by this factor: rounding of float64."""

_PARTS = (1 / 16, 1 / 8, 1 / 4, 1 / 2)
"""Steps of `_step_charge`, as parts of the highest noise."""

_LARGEST = 300.0
"""exp of this number and of its negative are within the range of float64."""

_GRID = 2.0 ** np.arange(3, -12, -0.5)
"""Values of x in `remainder_interval`, times the standard deviation of a child's noise; for 1 to
10**6 children."""


def plain_interval(noise: NoiseTable, noisy: NDArray[np.int64], confidence: float) -> _Interval:
    """Intervals for nodes that are shown because a descendant is: their noise has its own law."""
    half = half_width(noise, 1, confidence)
    return noisy - half, noisy + half


def selected_interval(
    noise: NoiseTable, threshold: int, noisy: NDArray[np.int64], confidence: float, least: int = 1
) -> _Interval:
    """Exact intervals for nodes that are shown only because their noisy count is large enough.

    V has the law ``noise``, and ``noisy`` has n + V of shown nodes. True counts are known to be at
    least ``least``. For each n >= least, given that the node is shown, n is below the interval with
    probability at most (1 - confidence)/2, and above it with probability at most
    (1 - confidence)/2. Ends are around the noisy count.

    Notes
    -----
    With a = (1 - confidence)/2, d = noisy - threshold >= 0 and the cut k = threshold - n, the count
    n is refused from above if P(V >= k + d) <= a P(V >= k), and from below if P(k <= V <= k + d) <=
    a P(V >= k). Given V >= k each happens with probability at most a (a survival function at its
    own argument). For given k the first is true from some d = D_k on, the second is true for d <
    E_k, as tails are monotone. The lower end is the least n that is not refused from above, k =
    max{k: D_k > d}, and the upper end the largest that is not refused from below, k = min{k: E_k <=
    d}. A count n outside is refused, whatever the law; between the ends counts may be refused that
    are kept here (none, if the law is log-concave). For k at or below the lowest V nothing is cut,
    D_k = q + 1 - k and E_k = -q - k with q the half width of the plain interval: from d = number of
    values of V on, the ends are the plain ends. Where even the noisy count is refused, as can be at
    the very threshold, the upper end is raised to it.
    """
    low, high = _offsets(noise.weights.tobytes(), noise.lowest, confidence)
    excess = np.clip(noisy - threshold, 0, len(low) - 1)
    lower = np.maximum(noisy - low[excess], least)
    return lower, np.maximum(noisy - high[excess], np.maximum(noisy, lower))


@lru_cache(maxsize=256)
def _offsets(
    weights: bytes, lowest: int, confidence: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Noisy count minus lower end, and noisy count minus upper end, by excess over the threshold.

    Tails are sums of integers from the top; the sum of all is the only one that 64 bits do not
    hold.
    """
    whole = np.frombuffer(weights, dtype=np.uint64)
    size, cut = len(whole), np.arange(len(whole))
    summed = np.concatenate([np.cumsum(whole[::-1], dtype=np.uint64)[::-1], np.zeros(1, np.uint64)])
    tail = summed.astype(np.float64)
    tail[0] = 2.0**64
    refused = tail[:size] * ((1 - confidence) / 2) / _SLACK

    over = np.searchsorted(-tail, -refused, side="left") - cut  # D_k
    under = _first_above(summed, refused) - cut  # E_k
    q, bottom_plain = int(over[0]) - 1, int(under[0])
    over = np.maximum.accumulate(over[::-1])[::-1]  # the largest of this and higher cuts
    under = np.minimum.accumulate(under)  # the least of this and lower cuts

    excess = np.arange(size + 1)
    top = np.searchsorted(-over, -excess, side="left") - 1  # the last cut with D_k > excess
    top = np.where(excess < over[0], top, q - excess)
    bottom = np.searchsorted(-under, -excess, side="left")  # the first with E_k <= excess
    bottom = np.where(excess < under[0], bottom, bottom_plain - excess)
    return top + lowest + excess, bottom + lowest + excess


def _first_above(summed: NDArray[np.uint64], refused: NDArray[np.float64]) -> NDArray[np.int64]:
    """For every cut k the least position j with P(k <= V <= j) > refused, by bisection."""
    size = len(refused)
    low, high = np.arange(size), np.full(size, size - 1)
    while (low < high).any():
        middle = (low + high) // 2
        mass = (summed[:size] - summed[middle + 1]).astype(np.float64)  # wraps to the right number
        mass[0] = 2.0**64 if middle[0] == size - 1 else mass[0]
        enough = mass > refused
        low, high = np.where(enough, low, middle + 1), np.where(enough, middle, high)
    return low


def remainder_interval(
    parents: NoiseTable,
    children: NoiseTable,
    noisy: NDArray[np.int64],
    shown: NDArray[np.int64],
    group: NDArray[np.int64],
    cut: NDArray[np.bool_],
    *,
    threshold: int,
    confidence: float,
    least: int = 1,
) -> _Interval:
    """Intervals for what parents count beside their shown children, r = n_p - sum of the n_c.

    ``parents`` and ``children`` are the laws of their noise. ``noisy`` has the noisy counts of
    parents, each shown because a child is; ``shown`` those of all their shown children, ``group``
    the position of each child's parent, and ``cut`` whether a child is shown because of its own
    count only, which reached the threshold, and has no shown descendant. True counts of shown
    children are known to be at least ``least``. Ends are at least 0. Given which nodes are shown
    and why, r is below the interval with probability at most (1 - confidence)/2, and above it with
    probability at most (1 - confidence)/2.

    Notes
    -----
    The estimate y_p - sum of the y_c is r + W, W = V_p - sum of the V_c; let a =
    (1 - confidence)/2. *Without cut children* W is symmetric with a known law, and w with
    P(W > w) <= a gives both ends.

    *Lower end.* P(V >= x given V >= k) >= P(V >= x) for all x. So a cut makes V_c, and therefore
    the independent sum, stochastically larger and W smaller: P(W > w) <= a holds as without cuts.

    *Upper end with cut children*, the lower of two that each fail with probability at most a/2.
    (1) n_p - sum of the n_c, with the upper end for n_p alone, and n_c >= max(least, y_c - R) with
    R the highest noise: the latter never fails. (2) An e-value [3]_: with
    M(x) = E exp(x V) and M_k(x) = E(exp(x V) given V >= k),
    exp(x (sum of the V_c - V_p)) / (M_p(x) * product of the children's M or M_k)
    has mean 1 with k = threshold - n_c. M_k grows with k, and k = threshold - (y_c - R) is never
    below that, so with this k the mean is at most 1, and by Markov's inequality
    r - (y_p - sum of the y_c) <= (log(2/a) + log M_p + sum of log M or log M_k) / x but for a
    probability of a/2. x is chosen from a grid for the number of children and the laws alone.
    (3) Instead of log M_k a cut child may be charged x R + c if y_c < threshold + step, and
    log M + c otherwise, with c the log of the largest mean, over all k, of exp(x V) divided by
    the charge without c: an e-value by construction, better for children well above the
    threshold if there are many. The e-values of (2), with weight 1/2, and of (3) with several
    steps are averaged, which is one again, before Markov's inequality.

    Near the threshold nothing is known of a cut child but that it counts at least ``least``: it
    raises the upper end by up to R. That is in the nature of the problem, not of the bound.
    """
    m, tail = len(noisy), (1 - confidence) / 2
    number = np.bincount(group, minlength=m)
    has_cut = np.bincount(group[cut], minlength=m) > 0
    surely = np.maximum(shown - children.highest, least)
    estimate, own = noisy.copy(), noisy + half_width(parents, 1, 1 - tail)
    np.subtract.at(estimate, group, shown)
    np.subtract.at(own, group, surely)

    sizes, size_of = np.unique(number, return_inverse=True)
    width = sum_widths(parents, children, sizes, tail)
    lower = np.maximum(estimate - width[size_of], 0)

    rate = np.minimum(_GRID / children.sd, _LARGEST / children.highest)
    whole_law = np.array([[_log_moments(law, x)[0] for x in rate] for law in (parents, children)])
    charge = math.log(2 / tail) + whole_law[0] + sizes[:, None] * whole_law[1]
    chosen = np.argmin(charge / rate, axis=1)[size_of]
    charge = charge[size_of, chosen]
    for j in np.unique(chosen[has_cut]).tolist():
        at = np.flatnonzero(has_cut & (chosen == j))
        here = np.flatnonzero(cut & (chosen[group] == j))
        charge[at] += _cut_charge(children, rate[j], shown[here] - threshold, group[here], m)[at]
    e_value = estimate + np.floor(charge / rate[chosen] * _SLACK + 1e-6).astype(np.int64)

    upper = np.where(has_cut, np.minimum(e_value, own), estimate + width[size_of])
    return lower, np.maximum(upper, lower)


def _cut_charge(
    law: NoiseTable, rate: float, excess: NDArray[np.int64], group: NDArray[np.int64], m: int
) -> NDArray[np.float64]:
    """How much the cut children of each of m parents raise the sum of log M, by the average of the
    e-values of (2) and (3) in `remainder_interval`."""
    moments = _log_moments(law, rate)
    place = np.maximum(law.highest - law.lowest - excess, 0)
    raised = [math.log(2) + np.bincount(group, moments[place] - moments[0], m)]
    number = np.bincount(group, minlength=m)
    for part in _PARTS:
        step = max(1, int(part * law.highest))
        early = np.bincount(group[excess < step], minlength=m)
        paid = _step_charge(law.weights.tobytes(), law.highest, float(rate), step)
        jump = rate * law.highest - moments[0]
        raised.append(math.log(2 * len(_PARTS)) + number * paid + early * jump)
    mixed: NDArray[np.float64] = -np.logaddexp.reduce(-np.array(raised), axis=0)
    return mixed


@lru_cache(maxsize=256)
def _step_charge(weights: bytes, highest: int, rate: float, step: int) -> float:
    """log of the largest mean of the step's e-value over all cuts: c of (3) in
    `remainder_interval`."""
    pmf = np.frombuffer(weights, dtype=np.uint64)[::-1].astype(np.float64)
    tilted = np.cumsum(pmf * np.exp(-rate * np.arange(len(pmf))))[::-1]  # exp(x (V - R)), from k up
    late = np.append(tilted, np.zeros(step))[step:]
    whole = math.exp(rate * highest - _cached_log_moments(weights, highest, rate)[0])
    mean = (tilted - late + whole * late) / np.cumsum(pmf)[::-1]
    return math.log(float(mean.max()))


def _log_moments(law: NoiseTable, rate: float) -> NDArray[np.float64]:
    """log E(exp(rate V) given V >= lowest + i) for all i; summed from the top."""
    return _cached_log_moments(law.weights.tobytes(), law.highest, float(rate))


@lru_cache(maxsize=256)
def _cached_log_moments(weights: bytes, highest: int, rate: float) -> NDArray[np.float64]:
    pmf = np.frombuffer(weights, dtype=np.uint64)[::-1].astype(np.float64)
    tilted = np.cumsum(pmf * np.exp(-rate * np.arange(len(pmf))))
    moments: NDArray[np.float64] = (np.log(tilted / np.cumsum(pmf)) + rate * highest)[::-1]
    return moments
