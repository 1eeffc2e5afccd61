"""What sums of randomised one-hot reports tell of one device, exactly.

Asymmetric binary randomised response on a one-hot vector of P cells: the cell that is held reports
1 with probability 1/2, every other one with a0 = 1/(e^el + 1), el the local epsilon (Chadha et al.,
"Differentially Private Heavy Hitter Detection using Federated Analytics", 2023). The server sees
sums over N devices, N public, T times.

*Neighbours:* one device whose whole data are replaced. In a round its held cell changes from x to
y and all other cells keep their law, so a round is the pair (A, B) of two independent cells: A, the
sum of x, where its report changes from 1/2 to a0, and B, that of y, from a0 to 1/2. Rounds are
chosen after looking at earlier ones, which privacy loss distributions allow for fixed parameters.

*The other devices* hide the report: f of them hold the cell, the sum has the law Bin(f, 1/2) +
Bin(N - 1 - f, a0). No holder is not always the worst case. Accounted for is Bin(N - 1 - f*, a0),
f* = `spared`: with at most f* holders, the real sum is this one plus independent bits, which is
post-processing; with more, Bin(f, 1/2) alone hides more than it. The second is checked by
computation (tests/privacy/test_aggregate.py).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpframe.accounting.losses import Losses, composed, losses_between

STEP = 1e-4
"""Grid of the privacy loss."""

SPARED = 20
"""Holders that are always spared."""

FEWEST = 100
"""Devices below which nothing is claimed."""


def silence(local_epsilon: float) -> float:
    """a0: the probability that a cell that is not held reports 1."""
    return 1 / (math.exp(local_epsilon) + 1)


def spared(devices: int, local_epsilon: float) -> int:
    """f*: holders of a cell whose reports are left out of the accounting."""
    return max(SPARED, math.ceil(12 * devices * silence(local_epsilon)))


def aggregate_delta(*, devices: int, rounds: int, local_epsilon: float, epsilon: float) -> float:
    """Delta at epsilon of all rounds together, for replacing one device; 1 where nothing is known.

    Parameters
    ----------
    devices
        N, public, from 100.
    rounds
        T, from 1.
    local_epsilon
        Of one report, above 0: replacing a device's report is exactly that private to the server.
    """
    others = devices - 1 - spared(devices, local_epsilon)
    if devices < FEWEST or others < devices // 10:
        return 1.0
    return _together(others, rounds, local_epsilon, epsilon).delta(epsilon)


@lru_cache(maxsize=64)
def _together(others: int, rounds: int, local_epsilon: float, epsilon: float) -> Losses:
    a0 = silence(local_epsilon)
    held, free = (_cell(others, a0, chance) for chance in (0.5, a0))
    left, came = losses_between(held, free, STEP), losses_between(free, held, STEP)
    return composed([(left, rounds), (came, rounds)], epsilon)


def _cell(others: int, a0: float, chance: float) -> NDArray[np.float64]:
    """Law of a cell's sum: the others, and one device that reports 1 with a chance."""
    mean = others * a0
    most = min(others, math.ceil(mean + 40 * math.sqrt(mean) + 80))  # beyond: below 1e-100
    k = np.arange(most)
    logs = np.cumsum(np.log((others - k) / (k + 1)) + math.log(a0 / (1 - a0)))
    logs = np.append(0.0, logs)  # log P(k) - log P(0)
    rest = np.exp(logs - logs.max())
    rest /= rest.sum()
    law: NDArray[np.float64] = np.append((1 - chance) * rest, 0.0)
    law[1:] += chance * rest
    return law


def local_epsilon(*, devices: int, rounds: int, epsilon: float, delta: float) -> float:
    """The largest local epsilon, to 0.001 and rounded down, that keeps the sums (epsilon, delta).

    Returns 0 if even 0.001 does not.
    """
    low, high = 0, 20_000
    while high - low > 1:
        middle = (low + high) // 2
        cost = aggregate_delta(
            devices=devices, rounds=rounds, local_epsilon=middle / 1000, epsilon=epsilon
        )
        low, high = (middle, high) if cost <= delta else (low, middle)
    return low / 1000
