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
from dpframe.mechanisms.offline_hhh import sum_released_residuals
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
    gamma = int(laws.gamma.draw(1)[0])  # line 2
    selected = np.zeros(len(tree.level), dtype=bool)  # line 3
    covered = np.zeros(len(tree.level), dtype=np.int64)
    for level in range(int(tree.level.max(initial=0)), 0, -1):  # line 4
        here = tree.at_level(level)  # line 5
        residual = tree.count[here] - covered[here]
        noise = laws.test.draw(len(here))  # line 9
        top = (residual > 0) & (residual + noise + gamma >= threshold)  # lines 7 and 10
        selected[here] = top  # line 11
        np.add.at(covered, tree.parent[here], np.where(top, tree.count[here], covered[here]))
    residual = (tree.count - covered)[selected]
    return sum_released_residuals(
        tree, selected, residual + laws.release.draw(len(residual))
    )  # line 12
