"""What sums and shuffles of randomised reports tell about one device.

**Sums** of one-hot reports are accounted for exactly.

Asymmetric binary randomised response on a one-hot vector of P cells: the held cell reports 1 with
probability 1/2, every other cell with a0 = 1/(e^el + 1), el the local epsilon (Chadha et al.,
"Differentially Private Heavy Hitter Detection using Federated Analytics", 2023). The server sees
sums over N devices, N public, for each of T reports.

*Neighbours* "replace": one device whose whole data are replaced. In a report its held cell changes
from x to y, and all other cells keep their law. So a report is the pair (A, B) of two independent
sums: A is the sum of cell x, where the device's bit changes from 1/2 to a0, and B is the sum of
cell y, where it changes from a0 to 1/2. "remove": one device whose data are removed, or added. It
still reports, like a device that holds nothing, so one of the two cells changes. A device that
holds nothing of what is asked for changes no more than this. Questions are chosen after looking at
earlier sums, which privacy loss distributions allow for fixed parameters.

*The other devices* hide the report: if f of them hold the cell, the sum over all of them has the
law Bin(f, 1/2) + Bin(N - 1 - f, a0). The worst case is not always f = 0. The accounting uses Bin(N
- 1 - f*, a0), where f* is the number of holders that are left out. With f <= f* holders, the real
sum is this sum plus independent bits, which is post-processing. With more holders, the real sum is
Bin(f* + 1, 1/2) plus independent bits. f* is chosen such that Bin(f* + 1, 1/2) alone hides more
than Bin(N - 1 - f*, a0), which is checked for the very N and a0 (`_hides_more`).

**Shuffles** of reports are accounted for by amplification, for every local randomiser.

The accountant of Chadha et al. (2023), Algorithm 1: Renyi divergences of one round of reports,
added over rounds, turned into (epsilon, delta). It holds for every local randomiser, so it knows
nothing of sums or of one-hot reports, and is far looser for them than the accounting of sums.

A report of an el-DP randomiser is a *clone* with probability exp(-el): a draw from the reports of
one of the two data in question, each with chance 1/2 (Feldman, McMillan, Talwar, "Hiding Among the
Clones", 2021, Theorem 3.1). The neighbours are then told apart no better than the pair (A + b,
C - A + 1 - b), C ~ Bin(N - 1, exp(-el)), A ~ Bin(C, 1/2), and b = 1 with probability
e^el/(e^el + 1) for one neighbour, 1/(e^el + 1) for the other.

The paper takes its bound from the successor paper of 2023, "Stronger Privacy Amplification by
Shuffling for Renyi and Approximate Differential Privacy", Theorem 3.2, with twice as many clones.
Its authors have withdrawn that theorem for general randomisers (errata of arXiv 2208.04591), so the
number of clones here is that of the paper of 2021.

The pair shows C, so powers of the likelihood ratio average over C. Fewer clones hide less: each
group of values of C is replaced by its least value.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpframe.accounting.losses import Losses, compose_losses, least_integer, pair_losses
from dpframe.noise import NoiseTable, table_from_density


def success_law(n: int, chance: float) -> tuple[int, NDArray[np.float64]]:
    """Return the law of the successes of n trials: the lowest value that is kept, and the
    probabilities of all values from there on.

    Values further than 40 standard deviations plus 80 from the mean are left out: together they
    have a probability below 1e-100. Probabilities have a relative error of about 1e-12.
    """
    mean, sd = n * chance, math.sqrt(n * chance * (1 - chance))
    lowest = max(0, math.floor(mean - 40 * sd - 80))
    highest = min(n, math.ceil(mean + 40 * sd + 80))
    mode = min(max(math.floor(mean), lowest), highest)
    k = np.arange(lowest, highest, dtype=np.float64)
    steps = np.log((n - k) / (k + 1)) + math.log(chance / (1 - chance))
    up, down = np.cumsum(steps[mode - lowest :]), np.cumsum(steps[: mode - lowest][::-1])[::-1]
    law = np.exp(np.concatenate([-down, [0.0], up]))
    return lowest, law / law.sum()


def binomial(n: int, chance: float) -> NoiseTable:
    """Return the law of the successes of n trials as a table, which ends where 64-bit weights are
    0: within 20 standard deviations plus 82 of the mean."""
    return table_from_density("binomial", *success_law(n, chance))


FLOATS = 1 + 1e-9
"""Margin on a moment, above the rounding of its sum."""

GROUPS = 48
"""Values of the number of clones are put into this many groups around the mean, and into this many
below."""

FEWEST = 100
"""With fewer devices no guarantee is claimed."""


def shuffle_epsilon(*, devices: int, reports: int, local_epsilon: float, delta: float) -> float:
    """Return epsilon at delta of T rounds of shuffled reports, for replacing one device's data.

    Parameters
    ----------
    devices
        N, public.
    reports
        T, the number of reports of every device.
    local_epsilon
        For one report, above 0.

    Notes
    -----
    Conversion: Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy" (2020),
    Proposition 12. The result is never more than T local epsilons.
    """
    orders = _orders(local_epsilon)
    renyi = reports * _renyi(devices, local_epsilon)
    converted = renyi + np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)
    return min(reports * local_epsilon, max(0.0, float(converted.min()) * FLOATS))


@lru_cache(maxsize=256)
def shuffle_local_epsilon(*, devices: int, reports: int, epsilon: float, delta: float) -> float:
    """Return the largest local epsilon with which shuffled reports are (epsilon, delta)-DP.

    The result is rounded down to a multiple of 0.001. It is 0 if even 0.001 is too large, and with
    fewer than 100 devices.
    """
    if devices < FEWEST:
        return 0.0

    def costly(thousandths: int) -> bool:
        local = thousandths / 1000
        cost = shuffle_epsilon(devices=devices, reports=reports, local_epsilon=local, delta=delta)
        return cost > epsilon

    return (least_integer(costly, 0, 20_000) - 1) / 1000


def _orders(local_epsilon: float) -> NDArray[np.float64]:
    """Return orders alpha; powers of the largest ratio, e^el, stay within float64."""
    orders = np.concatenate([np.arange(1.5, 32, 0.5), np.geomspace(32, 2048, 49)])
    return np.asarray(orders[orders * local_epsilon < 600])


def _renyi(devices: int, local_epsilon: float) -> NDArray[np.float64]:
    """Return upper bounds on the Renyi divergences of one round, for all orders."""
    chance = math.exp(-local_epsilon)
    others = devices - 1
    mean, sd = others * chance, math.sqrt(others * chance)
    core = np.linspace(mean - 9 * sd, mean + 9 * sd, GROUPS)
    few = np.linspace(0, max(mean - 9 * sd, 0), GROUPS)  # rare, and weighed by powers of e^el
    starts = np.unique(np.floor(np.concatenate([few, core])).clip(0, others))
    lowest, law = success_law(others, chance)
    summed = np.concatenate([[0.0], np.cumsum(law)])  # P(fewer than lowest + i)
    below = np.append(summed[(starts[1:].astype(int) - lowest).clip(0, len(law))], 1.0)
    mass = np.diff(below, prepend=0.0) + 1e-300  # more than what float64 loses
    orders = _orders(local_epsilon)
    moments = np.zeros(len(orders))
    for clones, part in zip(starts, mass, strict=True):
        moments += part * _moments(int(clones), local_epsilon, orders)
    return np.asarray(np.log(moments * FLOATS) / (orders - 1))


def _moments(clones: int, local_epsilon: float, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the means of powers of the likelihood ratio, for every order, given the clones."""
    true = 1 / (1 + math.exp(-local_epsilon))
    lowest, law = success_law(clones + 1, 0.5)
    k = lowest + np.arange(len(law))
    more, less = k / (clones + 1), (clones + 1 - k) / (clones + 1)
    both = 2 * law  # Bin(C, 1/2) at k - 1 and at k are parts of Bin(C + 1, 1/2) at k
    here, there = true * more + (1 - true) * less, (1 - true) * more + true * less
    powers = np.exp(np.multiply.outer(orders, np.log(here / there)))
    beyond = 2 * np.exp(orders * local_epsilon - 800)  # 40 deviations: Hoeffding, times the ratio
    return np.asarray(powers @ (both * there) + beyond)


Neighbours = Literal["replace", "remove"]

STEP = 1e-4
"""Step of the grid of privacy losses for epsilon up to 1; for a larger epsilon, this times
epsilon."""

LONGEST_TABLE = 1 << 24
"""Most points of the composed losses of all reports, which bounds memory. Where there would be
more, the grid is coarser, which overstates delta."""

FIRST = 1.15
"""For the number of holders that is tried first: the variance of their sum, over the variance of
the sum of the other devices."""

MORE = 1.3
"""Factor from one number of holders tried to the next."""

COARSER = 8
"""Grid steps that are joined into one in the first search."""

CURVE = 800
"""Number of points at which privacy curves are compared."""

TINY = 1e-30
"""How far a privacy curve may be above another curve; paid for in delta."""

LARGEST = 20_000
"""Local epsilons are searched below this many thousandths."""


def silence(local_epsilon: float) -> float:
    """Return a0: the probability that a cell that is not held reports 1."""
    return 1 / (math.exp(local_epsilon) + 1)


@lru_cache(maxsize=1024)
def spare_holders(devices: int, local_epsilon: float) -> int:
    """Return f*, how many holders the accounting leaves out; ``devices`` if no number suffices."""
    a0 = silence(local_epsilon)
    part = 4 * FIRST * a0 * (1 - a0)
    holders = math.ceil(devices * part / (1 + part)) + 20
    while holders < devices - 1:
        if _hides_more(holders + 1, devices - 1 - holders, a0):
            return holders
        holders = math.ceil(MORE * holders)
    return devices


def _hides_more(holders: int, others: int, a0: float) -> bool:
    """Whether ``holders`` of a cell hide a report better than ``others`` devices that do not hold
    the cell, at every epsilon.

    Curves of delta fall with epsilon, so each point of the first curve is compared with the next
    point of the second. For epsilon from log(1/(2 a0)) on, both curves are 0, since no likelihood
    ratio is larger. Outcomes of probability below 1e-40 are left out.
    """
    highest, usual = math.log(1 / (2 * a0)), 8 / math.sqrt(others * a0 * (1 - a0))
    epsilons = np.linspace(0, highest, CURVE // 4)
    if usual < highest:  # most of the losses are there
        epsilons = np.union1d(epsilons, np.linspace(0, usual, CURVE))
    ratios = np.exp(epsilons)
    by_holders, by_others = (
        law[law > 1e-40] for _, law in (success_law(holders, 0.5), success_law(others, a0))
    )
    for here, there in ((0.5, a0), (a0, 0.5)):
        one = _sums_above_ratios(
            _add_device(by_holders, here), _add_device(by_holders, there), ratios
        )
        two = _sums_above_ratios(
            _add_device(by_others, here), _add_device(by_others, there), ratios
        )
        if (one[:-1] * (1 + 1e-9) > two[1:] * (1 - 1e-9) + TINY).any():
            return False
    return True


def _sums_above_ratios(
    here: NDArray[np.float64], there: NDArray[np.float64], ratios: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the sum of max(here - r * there, 0) over all outcomes, for each ratio r.

    In the order of here / there, the outcomes above r are the last ones, so the result is a
    difference of two sums over last outcomes. The difference is a small part of these sums, about
    as small as the relative difference of two neighbouring outcomes: 1e-4 for millions of devices.
    Rounding stays far within 1e-9 of the difference
    (``tests/unit/accounting/test_aggregate_curve.py``).
    """
    order = np.argsort(here / there, kind="stable")
    first = np.searchsorted((here / there)[order], ratios, side="right")
    ends = [
        np.append(np.cumsum(law[order[::-1]], dtype=np.longdouble)[::-1], 0.0)
        for law in (here, there)
    ]
    above: NDArray[np.float64] = np.maximum(ends[0][first] - ratios * ends[1][first], 0.0)
    return above.astype(np.float64)


@lru_cache(maxsize=1024)
def aggregate_delta(
    *,
    devices: int,
    reports: int,
    local_epsilon: float,
    epsilon: float,
    neighbours: Neighbours = "replace",
    coarser: int = 1,
) -> float:
    """Return delta at epsilon of all reports together; 1 if ``devices`` < 100 or no f* suffices.

    Parameters
    ----------
    devices
        N, public, from 100.
    reports
        T, the number of reports of every device, from 1.
    local_epsilon
        Local epsilon of one report, above 0: what the report alone promises, exactly, if a device's
        data are replaced.
    coarser
        Grid steps that are joined into one. More steps are faster, and overstate delta by more.
    """
    others = devices - 1 - spare_holders(devices, local_epsilon)
    if devices < FEWEST or others < 1:
        return 1.0
    worst = _report_losses(others, reports, local_epsilon, epsilon, neighbours, coarser)
    return min(1.0, max(losses.delta(epsilon) for losses in worst) + 2 * reports * TINY)


@lru_cache(maxsize=8)
def _report_losses(
    others: int,
    reports: int,
    local_epsilon: float,
    epsilon: float,
    neighbours: Neighbours,
    coarser: int = 1,
) -> tuple[Losses, ...]:
    """Return the losses of all reports: once for "replace", whose two directions are alike, and for
    both directions of "remove"."""
    a0 = silence(local_epsilon)
    held, free = (_cell_sum_law(others, a0, chance) for chance in (0.5, a0))
    finest = max(STEP * max(1.0, epsilon), 2 * reports * local_epsilon / LONGEST_TABLE)
    step = coarser * finest
    left, came = pair_losses(held, free, step), pair_losses(free, held, step)
    if neighbours == "replace":
        return (compose_losses([(left, reports), (came, reports)], epsilon),)
    return tuple(compose_losses([(one, reports)], epsilon) for one in (left, came))


def _cell_sum_law(others: int, a0: float, chance: float) -> NDArray[np.float64]:
    """Return the law of a cell's sum: ``others`` devices that do not hold the cell, and one device
    that reports 1 with ``chance``.

    The law starts at the lowest value of the law for ``others`` alone.
    """
    return _add_device(success_law(others, a0)[1], chance)


def _add_device(rest: NDArray[np.float64], chance: float) -> NDArray[np.float64]:
    law: NDArray[np.float64] = np.append((1 - chance) * rest, 0.0)
    law[1:] += chance * rest
    return law


@lru_cache(maxsize=256)
def local_epsilon(
    *, devices: int, reports: int, epsilon: float, delta: float, neighbours: Neighbours = "replace"
) -> float:
    """Return the largest local epsilon with which the sums are (epsilon, delta)-DP.

    The result is rounded down to a multiple of 0.001. It is 0 if even 0.001 is too large.
    """

    def kept(thousandths: int, coarser: int) -> bool:
        cost = aggregate_delta(
            devices=devices,
            reports=reports,
            local_epsilon=thousandths / 1000,
            epsilon=epsilon,
            neighbours=neighbours,
            coarser=coarser,
        )
        return cost <= delta

    def last(low: int, high: int, coarser: int) -> int:
        return least_integer(lambda thousandths: not kept(thousandths, coarser), low, high) - 1

    near = last(0, LARGEST, COARSER)  # in most cases just below the result
    if near > 0 and not kept(near, 1):
        return last(0, near, 1) / 1000
    low, step = near, 1
    while low + step < LARGEST and kept(low + step, 1):
        low, step = low + step, 2 * step
    return last(low, min(low + step, LARGEST), 1) / 1000
