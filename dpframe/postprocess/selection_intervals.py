"""Intervals for true counts of released nodes, given which were released and why, and for changes.

**Counts**, given which nodes were released.

Noise V is added to every count n. A node is shown because n + V reached the threshold t, or because
a descendant is shown. In the first case V is known to be at least t - n, and an interval that
ignores this is too high: near the threshold it misses almost always. In the second case the node's
own noise had no say, and V keeps its law; noises of different nodes are independent. All statements
below hold given which nodes are shown and for which reason each is shown, for every tree of true
counts. Hence they hold without that condition, too.

Everything is in units of the released counts. Laws are symmetric; those of children of remainders
also fall away from 0 on both sides (both hold for ``laplace_table`` and ``gaussian_table``).

**Changes** of nodes have intervals together, or each on its own.

A row can be wrong in two ways. First, the noise of its counts can be beyond its width. This noise
is drawn after and independently of the selection, so the chance of this holds given which nodes are
reported. Second, a node that one release does not report can hold more there than its bound. For
nodes that the *other* release names, whose noise is independent, the chance of this holds given
everything else. The first way gets most of 1 - confidence, evenly over all rows (Bonferroni). The
second gets :data:`BOUNDS` of it, divided evenly between the releases whose bounds can fail, and
then over all nodes that the other release reports, whether or not this release reports them: the
number of nodes that a release does not report depends on its noise.

An end without a bound is infinite, also in units, which are whole numbers else.

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
from collections import defaultdict
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpframe.errors import ParameterError
from dpframe.noise import NoiseTable
from dpframe.postprocess.change_sides import DrawnNumbers, Numbers, Side, check_together
from dpframe.postprocess.joint_noise import (
    Noise,
    difference_half_width,
    half_width,
    quotient_ends,
    sum_widths,
)
from dpframe.postprocess.weighted_laplace import deviation_factor, ratio_interval, whole_half_width

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


BOUNDS = 0.1
"""Part of 1 - confidence for bounds of nodes that one release does not report. Tails of test noise
are exponential: half of this part, a twentieth, widens a bound by three scales of the test noise.
Intervals of counts get a percent wider."""

SINGLE = 0.05
"""Part of the chance of a row that goes to each of its counts on its own, where counts were made to
add up and the range of a drawn count can be without bounds."""

ROUNDED = 1.5
"""Units by which ends in quotients are moved outwards: 1, as whole numbers differ by less from the
estimates by least squares, and 1/2 by which whole noise is wider than continuous noise."""

Range = tuple[float, float]
"""The least and the most of a drawn number plus what is hidden beside it, in units."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ChangeEnds:
    """Ends of the intervals of a change, one per row: of the numbers of both releases, by their
    role, of the change, and of the quotients, which come with their values (None where nothing is
    known). ``confidence`` is that of changes and quotients."""

    confidence: float
    sides: dict[str, tuple[Numbers, Numbers]]
    lower: Numbers
    upper: Numbers
    ratio: tuple[Numbers, Numbers, Numbers]


def _shown_end(units: float, scale: Fraction, whole: bool, *, up: bool) -> Any:
    """Convert an end from units to what the frame shows; rounded outwards if numbers are whole."""
    if abs(units) == math.inf:
        return units
    exact = Fraction(units) / scale
    if whole:
        return math.ceil(exact) if up else math.floor(exact)
    return float(exact)


def _change_ends(
    before: Side,
    after: Side,
    confidence: float,
    sides: list[tuple[Numbers, Numbers]],
    units: tuple[list[float], list[float]],
    ratio: tuple[list[float], list[float]] | None,
    scale: Fraction,
) -> ChangeEnds:
    """Convert ends to what the frame shows, wide enough to hold the changes and quotients of the
    shown numbers. ``units`` has the ends of changes in units, of which ``scale`` are 1."""
    lower = [_shown_end(end, scale, before.whole, up=False) for end in units[0]]
    upper = [_shown_end(end, scale, before.whole, up=True) for end in units[1]]
    values: Numbers = [None] * len(lower)
    low, high = ratio or (values, values)
    for row, (b, a) in enumerate(zip(before.value, after.value, strict=True)):
        if b is None or a is None or b != b or a != a:
            continue
        lower[row], upper[row] = min(lower[row], a - b), max(upper[row], a - b)
        if ratio is not None and b > 0 and high[row] < math.inf:
            values[row] = found = max(0.0, a / b)
            low[row], high[row] = min(low[row], found), max(high[row], found)
    return ChangeEnds(
        confidence=confidence,
        sides=dict(zip(("before", "after"), sides, strict=True)),
        lower=lower,
        upper=upper,
        ratio=(values, low, high),
    )


# -- numbers whose law is not known: from the intervals of both releases as shown -----------------


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
    needed = math.sqrt(1 - (1 - confidence) / (rows if simultaneous else 1))
    held = 1 - rows * (1 - both) if simultaneous else both
    ends = released
    if before.means is not None and after.means is not None:
        held, ends = confidence, []
        for side, means in ((before, before.means), (after, after.means)):
            lower, upper = means(needed)
            ends.append(_certain_ends(replace(side, lower=lower, upper=upper)))
    if held < confidence and (simultaneous or given):
        instead = "Pass simultaneous=False" if simultaneous else "Leave confidence out"
        raise ParameterError(
            f"the intervals of these releases do not hold {rows if simultaneous else 1} changes "
            f"with confidence {confidence:g}"
            f"{' all together' if simultaneous else ''}. {instead}, or release both with "
            f"confidence={_confidence_text(needed)}. No others can be told: {why}"
        )
    (b_low, b_high), (a_low, a_high) = ends
    units = _differences(a_low, b_high), _differences(a_high, b_low)
    ratio = None
    if before.has_ratio and after.has_ratio:
        ratio = (
            [max(0.0, a / b) if b > 0 else 0.0 for a, b in zip(a_low, b_high, strict=True)],
            [max(0.0, a / b) if b > 0 else math.inf for a, b in zip(a_high, b_low, strict=True)],
        )
        for row, least in enumerate(zip(a_low, b_low, strict=True)):
            if -math.inf in least:  # a quantile that can be below its lower bound, and below 0
                ratio[0][row] = ratio[1][row] = math.nan
    return _change_ends(before, after, min(held, 1.0), released, units, ratio, Fraction(1))


def _differences(ends: Numbers, less: Numbers) -> Numbers:
    return [a - b for a, b in zip(ends, less, strict=True)]


def _confidence_text(confidence: float) -> str:
    """Write a confidence with a few digits, rounded up."""
    digits = max(3, math.ceil(-math.log10(1 - confidence)) + 1)
    return f"{math.ceil(confidence * 10**digits) / 10**digits:.{digits}f}"


def _certain_ends(side: Side) -> tuple[Numbers, Numbers]:
    """The ends in the frame; for nodes that it does not report, bounds that are certain."""
    lower, upper = list(side.lower), list(side.upper)
    for row, value in enumerate(side.value):
        if value is None:
            least, most = side.hides(row, 0.0)
            lower[row] = 0 if side.nonnegative else float(least)
            upper[row] = math.ceil(most) if side.whole and most < math.inf else float(most)
    return lower, upper


# -- numbers whose law is known --------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Chances:
    """The chance per row that each way of being wrong may have: ``noise``, and ``bound`` for the
    first and for the second release."""

    noise: float
    bound: tuple[float, float]


def divide_chances(before: Side, after: Side, alpha: float, *, simultaneous: bool) -> Chances:
    """Divide ``alpha``, which is 1 - confidence, between the ways of being wrong. Which nodes only
    one release reports matters through the number of rows alone, and given this number the noise of
    counts keeps its law."""
    bounded = [side.hidden.by_chance for side in (before, after)]
    part = alpha * BOUNDS if any(bounded) else 0.0
    rows, named = len(before.value), (after.reported, before.reported)
    each = tuple(
        part / sum(bounded) / (n if simultaneous else 1) if own else 0.0
        for own, n in zip(bounded, named, strict=True)
    )
    return Chances(
        noise=(alpha - part) / (max(1, rows) if simultaneous else 1), bound=(each[0], each[1])
    )


def joint_ends(before: Side, after: Side, *, confidence: float, simultaneous: bool) -> ChangeEnds:
    """Ends of intervals by the laws of all numbers; ParameterError if they should hold all together
    (``simultaneous``) and do not."""
    one, other = before.drawn, after.drawn
    assert one is not None
    assert other is not None
    check_together(before, after, simultaneous)
    alpha = 1 - confidence
    shared = divide_chances(before, after, alpha, simultaneous=simultaneous)
    alone = divide_chances(before, after, alpha, simultaneous=False)
    below = _number_ranges(before, one, shared.bound[0])
    above = _number_ranges(after, other, shared.bound[1])
    adjusted = one.adjusted or other.adjusted
    joint = shared.noise * (1 - 2 * SINGLE) if adjusted else shared.noise
    halves = _difference_widths(one, other, 1 - joint)
    pairs = list(zip(below, above, halves, strict=True))
    lower = [a[0] - b[1] - half for b, a, half in pairs]
    upper = [a[1] - b[0] + half for b, a, half in pairs]
    ratio = None
    if before.has_ratio and after.has_ratio:
        ratio = _quotient_intervals(one, other, below, above, 1 - joint)
    if adjusted:  # narrowed to what the intervals of each number on its own allow
        single = 1 - shared.noise * SINGLE
        under = _single_ranges(before.nonnegative, one, below, single)
        over = _single_ranges(after.nonnegative, other, above, single)
        for row, (b, a) in enumerate(zip(under, over, strict=True)):
            lower[row], upper[row] = max(lower[row], a[0] - b[1]), min(upper[row], a[1] - b[0])
            if ratio and b[1]:
                ratio[0][row] = max(ratio[0][row], a[0] / b[1])
            if ratio and b[0]:
                ratio[1][row] = min(ratio[1][row], a[1] / b[0])
    sides = [
        _side_intervals(before, one, 1 - alone.noise, alone.bound[0]),
        _side_intervals(after, other, 1 - alone.noise, alone.bound[1]),
    ]
    return _change_ends(before, after, confidence, sides, (lower, upper), ratio, one.scale)


def _number_ranges(side: Side, drawn: DrawnNumbers, chance: float) -> list[Range]:
    ranges: list[Range] = []
    for row, (low, high) in enumerate(zip(drawn.low, drawn.high, strict=True)):
        least, most = (end * drawn.scale for end in side.hides(row, chance))
        if most == math.inf:
            ranges.append((low if side.nonnegative else -math.inf, math.inf))
        else:
            ranges.append((low + math.floor(least), high + math.ceil(most)))
    return ranges


def _difference_widths(
    one: DrawnNumbers, other: DrawnNumbers | None, confidence: float
) -> list[int]:
    """Half widths of intervals for the difference of both noises, in units, one per row; those of
    the first noise alone if there is no ``other``."""
    widths = []
    for row in range(len(one.low)):
        first = _noise_of_row(one, row)
        still = replace(first, terms=0) if isinstance(first, Noise) else 0.0
        second = still if other is None else _noise_of_row(other, row)
        if isinstance(first, Noise) and isinstance(second, Noise):
            widths.append(difference_half_width(first, second, confidence))
            continue
        spread = [_variance_of_noise(noise) for noise in (first, second)]
        half = int(whole_half_width(np.array([sum(spread)]), confidence)[0])
        both = sum(own > 0 for own in spread)
        widths.append(half + max(0, both - 1))  # either estimate is rounded
    return widths


def _noise_of_row(drawn: DrawnNumbers, row: int) -> Noise | float:
    """The noise of a row if its law is written as a table, else its variance."""
    if drawn.noise is None:
        return drawn.variance[row]
    noise = drawn.noise[row]
    return noise if noise.has_table else noise.variance


def _variance_of_noise(noise: Noise | float) -> float:
    return noise.variance if isinstance(noise, Noise) else noise


def _single_ranges(
    nonnegative: bool, drawn: DrawnNumbers, ranges: list[Range], confidence: float
) -> list[Range]:
    """Intervals of true numbers, in units, each on its own; numbers that cannot be negative have
    lower ends of at least 0."""
    halves = _difference_widths(drawn, None, confidence)
    return [
        (max(0, low - half) if nonnegative else low - half, high + half)
        for (low, high), half in zip(ranges, halves, strict=True)
    ]


def _side_intervals(
    side: Side, drawn: DrawnNumbers, confidence: float, chance: float
) -> tuple[Numbers, Numbers]:
    """The intervals that a release shows; for nodes that it does not report, bounds, each on its
    own."""
    unknown = [row for row, value in enumerate(side.value) if value is None]
    bounds: list[Range] = []
    if unknown:
        ranges = _number_ranges(side, drawn, chance)
        bounds = _single_ranges(side.nonnegative, drawn, ranges, confidence)
    lower, upper = list(side.lower), list(side.upper)
    for row in unknown:
        lower[row] = _shown_end(bounds[row][0], drawn.scale, side.whole, up=False)
        upper[row] = _shown_end(bounds[row][1], drawn.scale, side.whole, up=True)
    return lower, upper


def _quotient_intervals(
    below: DrawnNumbers,
    above: DrawnNumbers,
    under: list[Range],
    over: list[Range],
    confidence: float,
) -> tuple[list[float], list[float]]:
    """Ends for after (``above``, ``over``) / before (``below``, ``under``); 0 and infinity where
    nothing is known."""
    groups: dict[Any, list[int]] = defaultdict(list)
    for row in range(len(under)):
        pair = _noise_of_row(below, row), _noise_of_row(above, row)
        tabled = isinstance(pair[0], Noise) and isinstance(pair[1], Noise)
        groups[tuple(noise.key for noise in pair) if tabled else None].append(row)  # type: ignore[union-attr]
    low, high = np.zeros(len(under)), np.full(len(under), np.inf)
    for key, rows in groups.items():
        (n, n_unknown), (d, d_unknown) = (_range_ends(ranges, rows) for ranges in (over, under))
        if key is not None:
            assert below.noise is not None
            assert above.noise is not None
            found = quotient_ends(n, above.noise[rows[0]], d, below.noise[rows[0]], confidence)
        else:
            spread = [
                np.array([_variance_of_noise(_noise_of_row(side, row)) for row in rows])
                for side in (above, below)
            ]
            how: Any = {"factor": deviation_factor(confidence), "within": (0.0, np.inf)}
            first = ratio_interval(n[0] - ROUNDED, spread[0], d[1] + ROUNDED, spread[1], **how)
            last = ratio_interval(n[1] + ROUNDED, spread[0], d[0] - ROUNDED, spread[1], **how)
            found = first[0], last[1]
        low[rows] = np.where(d_unknown, 0.0, found[0])
        high[rows] = np.where(n_unknown, np.inf, found[1])
    return low.tolist(), high.tolist()


def _range_ends(ranges: list[Range], rows: list[int]) -> tuple[Any, Any]:
    """Both ends of the ranges of ``rows``, 0 for an infinite one, and where the upper end is
    infinite."""
    low, high = (np.array([float(ranges[row][end]) for row in rows]) for end in (0, 1))
    ends = tuple(np.where(np.isinf(end), 0.0, end) for end in (low, high))
    return ends, np.isinf(high)
