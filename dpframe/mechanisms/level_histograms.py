"""Baseline: a noisy histogram on every level, composed; heavy hitters by post-processing.

The textbook route (stability histograms: Bun, Nissim and Stemmer, 2019; the comparison of Biswas
et al., 2024, section 3). Neighbours: one record, which moves one count on each of the h levels,
and the total with ``remainder``. Bounded integer noise; noisy counts below ``bound + 2`` are not
shown, so a node that only one of two neighbours has is never shown.

Deviation: composition by privacy loss distributions instead of a sum over levels.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpframe.accounting.levels import LevelLaws, composed_delta
from dpframe.noise import NoiseTable
from dpframe.tree import CountTree, NoisyNodes, chosen_nodes


def cost(laws: LevelLaws, *, height: int, epsilon: float, remainder: bool) -> float:
    """Delta of all levels together at ``epsilon``."""
    return composed_delta(laws.noise, levels=height + remainder, epsilon=epsilon)


def run(
    tree: CountTree, *, noise: NoiseTable, shown: int, threshold: int, remainder: bool
) -> NoisyNodes:
    """Perturb every level; then select by noisy residuals, which is free."""
    noisy = tree.count + noise.draw(len(tree.count))
    visible = noisy >= shown
    visible[0] = remainder
    # public from here on: hidden nodes carry no number
    residual, selected = _topmost_subtracted(tree, noisy, visible, threshold)
    selected[0] = remainder
    nodes = chosen_nodes(tree, selected)
    return NoisyNodes(
        level=nodes.level,
        ancestor=nodes.ancestor,
        keys=nodes.keys,
        residual=residual[selected],
        count=noisy[selected],
        terms=np.zeros(int(selected.sum()), dtype=np.int64),
    )


def _topmost_subtracted(
    tree: CountTree, noisy: NDArray[np.int64], visible: NDArray[np.bool_], threshold: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Select nodes bottom up; return the residuals of all nodes, and which nodes are selected.

    Residual: noisy count minus the noisy counts of the topmost selected descendants. The selection
    reads the shape of the tree and the noisy counts of visible nodes, nothing else.
    """
    selected = np.zeros(len(noisy), dtype=bool)
    covered = np.zeros(len(noisy), dtype=np.int64)
    for level in range(int(tree.level.max(initial=0)), 0, -1):
        here = tree.at_level(level)
        top = visible[here] & (noisy[here] - covered[here] >= threshold)
        selected[here] = top
        np.add.at(covered, tree.parent[here], np.where(top, noisy[here], covered[here]))
    return noisy - covered, selected
