"""Baseline: a noisy histogram on every level, composed; heavy hitters by post-processing.

The textbook route (stability histograms: Bun, Nissim and Stemmer, 2019; the comparison of Biswas
et al., 2024, section 3). Neighbours: one record, which moves one count on each of the h levels,
and the total with ``remainder``. Bounded integer noise; noisy counts below ``bound + 2`` are not
shown, so a node that only one of two neighbours has is never shown.

Deviation: composition by privacy loss distributions instead of a sum over levels.
"""

from __future__ import annotations

import numpy as np

from dpframe.accounting.levels import LevelLaws, composed_delta
from dpframe.noise import NoiseTable
from dpframe.postprocess.conditional import topmost_subtracted
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
    residual, selected = topmost_subtracted(tree, noisy, visible, threshold)
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
