"""What sums of randomised one-hot reports tell about one device, exactly.

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
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpframe.accounting.binomial import success_law
from dpframe.accounting.losses import Losses, compose_losses, pair_losses
from dpframe.accounting.search import least_integer

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

FEWEST = 100
"""With fewer devices no guarantee is claimed."""


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
