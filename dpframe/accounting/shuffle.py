"""Amplification by shuffling: what shuffled reports of local randomisers tell about one device.

The accountant of Chadha et al. (2023), Algorithm 1: Renyi divergences of one round of reports,
added over rounds, turned into (epsilon, delta). It holds for every local randomiser, so it knows
nothing of sums or of one-hot reports, and is far looser for them than
:mod:`dpframe.accounting.aggregate`.

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

import numpy as np
from numpy.typing import NDArray

from dpframe.accounting.binomial import success_law
from dpframe.accounting.search import least_integer

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
