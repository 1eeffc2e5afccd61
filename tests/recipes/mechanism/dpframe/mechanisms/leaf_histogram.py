"""A noisy histogram of the finest level. Neighbours: one record, which moves one of its counts by
one, and the total with ``remainder``. Stability histogram: Bun, Nissim and Stemmer (2019).
"""

from __future__ import annotations

import numpy as np

from dpframe.accounting.losses import LevelLaws, composed_delta
from dpframe.counts import CountTree, NoisyNodes, nearest_chosen
from dpframe.noise import NoiseTable


def cost(laws: LevelLaws, *, epsilon: float, remainder: bool) -> float:
    """Delta of the level, and of the total, at ``epsilon``."""
    return composed_delta(laws.noise, levels=1 + remainder, epsilon=epsilon)


def run(
    tree: CountTree, *, height: int, noise: NoiseTable, threshold: int, remainder: bool
) -> NoisyNodes:
    """Perturb, and show what reaches the threshold."""
    noisy = tree.count + noise.draw(len(tree.count))
    shown = (tree.level == height) & (noisy >= threshold)
    shown[0] = remainder
    residual = noisy[shown]
    residual[: int(remainder)] -= residual[int(remainder) :].sum()
    return NoisyNodes(
        level=tree.level[shown],
        ancestor=nearest_chosen(tree, shown),
        residual=residual,
        count=noisy[shown],
        terms=np.zeros(int(shown.sum()), dtype=np.int64),
        keys=tuple(key.take(np.flatnonzero(shown)) for key in tree.keys),
    )
