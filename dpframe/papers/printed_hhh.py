"""Algorithm 1 of Biswas et al. (2024) as printed, for comparison only, and what it costs.

The printed algorithm adds one ``gamma ~ Lap(2/eps)`` to the test of every node and fresh
``w ~ Lap(4/eps)`` to each. Unrelated nodes with counts near the threshold reveal gamma, so the
adversary is given gamma; then only ``w`` hides the record on its path.

Neighbours: one record. Sound for heights up to 4, where the per-node noise alone suffices
(`printed_delta` checks it exactly for every release). From height 5 on the algorithm is not private
(docs/soundness.md), and the plan refuses such heights.

Deviation: integer noise, cut where a 64-bit table ends, instead of continuous noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpframe.accounting.path_recursion import path_delta
from dpframe.mechanisms import offline_hhh
from dpframe.noise import NoiseTable, laplace_table
from dpframe.tree import CountTree, NoisyNodes

TABLE_TAIL = 41.0
"""A tail of exp(-41) still has weight in a 64-bit table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedLaws:
    """The three laws of the printed algorithm; ``delta`` is an upper bound on what they cost."""

    gamma: NoiseTable
    test: NoiseTable
    release: NoiseTable
    delta: float


def printed_threshold(epsilon: float, delta: float, height: int) -> int:
    """Return the threshold of line 1, rounded up."""
    return math.ceil(8 / epsilon * math.log(2 * height / delta) + 1)


def printed_laws(epsilon: float, height: int, threshold: int) -> PrintedLaws:
    """Return Lap(2/eps), Lap(4/eps) and Lap(4/eps), as printed, on the integers, and their delta at
    this threshold."""
    gamma = laplace_table(2 / epsilon, math.ceil(2 / epsilon * TABLE_TAIL))
    test = laplace_table(4 / epsilon, math.ceil(4 / epsilon * TABLE_TAIL))
    delta = printed_delta(gamma, test, test, height=height, epsilon=epsilon, threshold=threshold)
    return PrintedLaws(gamma=gamma, test=test, release=test, delta=delta)


def chance_at_threshold(laws: PrintedLaws) -> float:
    """Return P(w + gamma >= 0): the chance of selection at the threshold."""
    at_least = laws.test.at_least()
    first = np.arange(laws.gamma.lowest, laws.gamma.highest + 1) * -1 - laws.test.lowest
    inside = np.clip(first, 0, len(at_least) - 1)
    return float(laws.gamma.pmf @ at_least[inside])


def run(tree: CountTree, *, laws: PrintedLaws, threshold: int) -> NoisyNodes:
    """Select and release as the offline mechanism does, with one gamma in all tests."""
    gamma = int(laws.gamma.draw(1)[0])  # line 2
    return offline_hhh.run(
        tree,
        test=laws.test,  # line 9
        release=laws.release,  # line 12
        threshold=threshold - gamma,  # line 10
        remainder=False,
    )


# -- what it costs -------------------------------------------------------------------------------


def printed_lower_bound(epsilon: float, height: int) -> float:
    """Return a delta that the printed algorithm certainly exceeds: no node of the path is selected.

    ``max over F of E_gamma[((1 - q)^h - e^eps (1 - q')^h)_+]``, in the limit of many unrelated
    nodes, by quadrature over gamma and a scan of F. Zero, up to rounding, for h <= 4.
    """
    gamma = np.linspace(-40 / epsilon, 40 / epsilon, 8_001)
    density = epsilon / 4 * np.exp(-np.abs(gamma) * epsilon / 2)
    weight = density * (gamma[1] - gamma[0])
    scale = 4 / epsilon

    def divergence(gap: float) -> float:
        """``gap`` is threshold - F."""
        bot = _laplace_below(gap - gamma, scale)
        bot_more = _laplace_below(gap - 1 - gamma, scale)
        apart = bot**height - math.exp(epsilon) * bot_more**height
        return float(weight @ np.maximum(apart, 0.0))

    gaps = np.linspace(-20 / epsilon, 60 / epsilon, 321)
    return max(divergence(gap) for gap in gaps)


def _laplace_below(x: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
    tail = 0.5 * np.exp(-np.abs(x) / scale)
    return np.where(x < 0, tail, 1 - tail)


def printed_delta(
    gamma: NoiseTable,
    test: NoiseTable,
    release: NoiseTable,
    *,
    height: int,
    epsilon: float,
    threshold: int,
) -> float:
    """Return an upper bound on delta of the printed algorithm with bounded integer noise.

    The adversary is given gamma. For each value of gamma the recursion runs at the threshold that
    remains. Consecutive values of gamma form groups, and each group is charged at its worst
    (smallest) remaining threshold.
    """
    pmf = gamma.pmf
    run = max(1, len(pmf) // 48)
    total = 0.0
    for start in range(0, len(pmf), run):
        worst = gamma.lowest + min(start + run, len(pmf)) - 1
        left = threshold - worst
        if left < 2:
            total += float(pmf[start : start + run].sum())
            continue
        total += float(pmf[start : start + run].sum()) * path_delta(
            test, release, height=height, epsilon=epsilon, remainder=False, threshold=left
        )
    return min(1.0, total)
