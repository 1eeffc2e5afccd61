"""Algorithm 1 of Biswas et al. (2024) as printed, for comparison only.

Neighbours: one record. Sound for heights up to 4, where the per-node noise alone suffices
(checked exactly by :mod:`dpframe.accounting.printed_algorithm` for every release). From height 5
on the algorithm is not private (docs/soundness.md), and the plan refuses such heights.

Deviation: integer noise, cut where a 64-bit table ends, instead of continuous noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpframe.accounting.printed_algorithm import printed_delta
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
    laws = PrintedLaws(gamma=gamma, test=test, release=test, delta=1.0)
    delta = cost(laws, height=height, epsilon=epsilon, threshold=threshold)
    return PrintedLaws(gamma=gamma, test=test, release=test, delta=delta)


def cost(laws: PrintedLaws, *, height: int, epsilon: float, threshold: int) -> float:
    """Return delta against an adversary who is given gamma."""
    return printed_delta(
        laws.gamma,
        laws.test,
        laws.release,
        height=height,
        epsilon=epsilon,
        threshold=threshold,
    )


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
