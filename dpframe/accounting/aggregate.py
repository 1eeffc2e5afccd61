"""What sums of randomised one-hot reports tell of one device, exactly.

Asymmetric binary randomised response on a one-hot vector of P cells: the cell that is held reports
1 with probability 1/2, every other one with a0 = 1/(e^el + 1), el the local epsilon (Chadha et al.,
"Differentially Private Heavy Hitter Detection using Federated Analytics", 2023). The server sees
sums over N devices, N public, for each of T reports.

*Neighbours* "replace": one device whose whole data are replaced. In a report its held cell changes
from x to y and all other cells keep their law, so a report is the pair (A, B) of two independent
cells: A, the sum of x, where its bit changes from 1/2 to a0, and B, that of y, from a0 to 1/2.
"remove": one device whose data are removed, or added; it reports all the same, as one that holds
nothing, so that one of the two cells changes. A device that holds nothing of what is asked for
changes no more than that. What is asked is chosen after looking at earlier sums, which privacy loss
distributions allow for fixed parameters.

*The other devices* hide the report: f of them hold the cell, the sum has the law Bin(f, 1/2) +
Bin(N - 1 - f, a0). No holder is not always the worst case. Accounted for is Bin(N - 1 - f*, a0),
f* = `spared`: with f <= f* holders, the real sum is this one plus independent bits, which is
post-processing; with more, it is Bin(f* + 1, 1/2) plus independent bits, and f* is chosen so that
this alone is seen, for the very N and a0, to hide more (`_hides_more`).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpframe.accounting.binomial import trials
from dpframe.accounting.losses import Losses, composed, losses_between

Neighbours = Literal["replace", "remove"]

STEP = 1e-4
"""Grid of the privacy loss, for epsilon up to 1; above, in parts of epsilon."""

LONGEST_TABLE = 1 << 24
"""Points of the losses of all reports together: bounds memory. Where there would be more, the grid
is coarser, which overstates delta."""

FIRST = 1.15
"""Variance of the holders that are tried first, in parts of that of what is accounted for."""

MORE = 1.3
"""How many times as many are tried next."""

COARSER = 8
"""How many steps of the grid are one in the search that comes first."""

CURVE = 800
"""Points of a privacy curve that are compared."""

TINY = 1e-30
"""What a privacy curve may be above another one; paid for in delta."""

LARGEST = 20_000
"""Thousandths that a local epsilon is below."""

FEWEST = 100
"""Devices below which nothing is claimed."""


def silence(local_epsilon: float) -> float:
    """a0: the probability that a cell that is not held reports 1."""
    return 1 / (math.exp(local_epsilon) + 1)


@lru_cache(maxsize=1024)
def spared(devices: int, local_epsilon: float) -> int:
    """f*: holders of a cell whose reports are left out of the accounting; all, if none suffice."""
    a0 = silence(local_epsilon)
    part = 4 * FIRST * a0 * (1 - a0)
    holders = math.ceil(devices * part / (1 + part)) + 20
    while holders < devices - 1:
        if _hides_more(holders + 1, devices - 1 - holders, a0):
            return holders
        holders = math.ceil(MORE * holders)
    return devices


def _hides_more(holders: int, others: int, a0: float) -> bool:
    """Whether so many holders hide a report better than so many others, at every epsilon.

    Curves of delta fall with epsilon: each point of the one is compared with the next point of the
    other. From log(1/(2 a0)) on both are 0, no likelihood ratio being larger. Outcomes of less than
    1e-40 are left out.
    """
    highest, usual = math.log(1 / (2 * a0)), 8 / math.sqrt(others * a0 * (1 - a0))
    epsilons = np.linspace(0, highest, CURVE // 4)
    if usual < highest:  # most of the losses are there
        epsilons = np.union1d(epsilons, np.linspace(0, usual, CURVE))
    ratios = np.exp(epsilons)
    by_holders, by_others = (
        law[law > 1e-40] for _, law in (trials(holders, 0.5), trials(others, a0))
    )
    for here, there in ((0.5, a0), (a0, 0.5)):
        one = _curve(_with(by_holders, here), _with(by_holders, there), ratios)
        two = _curve(_with(by_others, here), _with(by_others, there), ratios)
        if (one[:-1] * (1 + 1e-9) > two[1:] * (1 - 1e-9) + TINY).any():
            return False
    return True


def _curve(
    here: NDArray[np.float64], there: NDArray[np.float64], ratios: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The sum of max(here - r * there, 0) over all outcomes, for each ratio r.

    What is above r is the end of the outcomes in the order of here / there: each sum is a
    difference of two sums of such ends. It is small beside them by as much as one outcome differs
    from the next, about 1e-4 where there are millions of devices; what rounding leaves of that is
    far within 1e-9 (``tests/unit/accounting/test_aggregate_curve.py``).
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
    """Delta at epsilon of all reports together; 1 where nothing is known.

    Parameters
    ----------
    devices
        N, public, from 100.
    reports
        T, of every device, from 1.
    local_epsilon
        Of one report, above 0: replacing a device's report is exactly that private to the server.
    coarser
        Steps of the grid that are one: faster, and overstates delta by more.
    """
    others = devices - 1 - spared(devices, local_epsilon)
    if devices < FEWEST or others < 1:
        return 1.0
    worst = _together(others, reports, local_epsilon, epsilon, neighbours, coarser)
    return min(1.0, max(losses.delta(epsilon) for losses in worst) + 2 * reports * TINY)


@lru_cache(maxsize=8)
def _together(
    others: int,
    reports: int,
    local_epsilon: float,
    epsilon: float,
    neighbours: Neighbours,
    coarser: int = 1,
) -> tuple[Losses, ...]:
    """Losses of all reports, in every direction that is another one."""
    a0 = silence(local_epsilon)
    held, free = (_cell(others, a0, chance) for chance in (0.5, a0))
    finest = max(STEP * max(1.0, epsilon), 2 * reports * local_epsilon / LONGEST_TABLE)
    step = coarser * finest
    left, came = losses_between(held, free, step), losses_between(free, held, step)
    if neighbours == "replace":
        return (composed([(left, reports), (came, reports)], epsilon),)
    return tuple(composed([(one, reports)], epsilon) for one in (left, came))


def _cell(others: int, a0: float, chance: float) -> NDArray[np.float64]:
    """Law of a cell's sum, from wherever the others start: they, and one device with a chance."""
    return _with(trials(others, a0)[1], chance)


def _with(rest: NDArray[np.float64], chance: float) -> NDArray[np.float64]:
    law: NDArray[np.float64] = np.append((1 - chance) * rest, 0.0)
    law[1:] += chance * rest
    return law


@lru_cache(maxsize=256)
def local_epsilon(
    *, devices: int, reports: int, epsilon: float, delta: float, neighbours: Neighbours = "replace"
) -> float:
    """The largest local epsilon, to 0.001 and rounded down, that keeps the sums (epsilon, delta).

    Returns 0 if even 0.001 does not.
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
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if kept(middle, coarser) else (low, middle)
        return low

    near = last(0, LARGEST, COARSER)  # hardly below the one that is wanted
    if near > 0 and not kept(near, 1):
        return last(0, near, 1) / 1000
    low, step = near, 1
    while low + step < LARGEST and kept(low + step, 1):
        low, step = low + step, 2 * step
    return last(low, min(low + step, LARGEST), 1) / 1000
