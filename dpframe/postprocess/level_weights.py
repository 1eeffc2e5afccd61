"""How to divide a budget over levels when the tree is public: least error of the worst node."""

from __future__ import annotations

import numpy as np

from dpframe.postprocess.consistency import consistent_variance
from dpframe.tree import ListedNodes

LARGEST_TREE = 20_000
"""The most nodes of a tree for which weights are searched. In larger trees nodes have many
children, and weights gain nothing."""

RATIOS = (1.0, 0.8, 0.9, 1.1, 1.25, 1.4, 1.6, 1.8, 2.0, 2.5)
"""Weight of a level over the weight of the level above; 1 first, so that it wins ties."""


def deepest_level(listed: ListedNodes) -> int:
    """The last level that has listed or ``<other>`` nodes."""
    return int((listed.level + listed.rest).max())


def best_weights(listed: ListedNodes, height: int, *, squared: bool) -> tuple[float, ...]:
    """Weights of levels 0 to ``height``, a geometric series, that leave the least variance of the
    worst node after least squares.

    An ``<other>`` node of the public nodes counts as one more child. ``squared``: whether the
    variance of a level is proportional to 1 / weight (Gaussian), and not the standard deviation
    (Laplace). All are 1 if the tree is larger than ``LARGEST_TREE``, or if no other weights lower
    the largest variance of a node by at least 1 %. Without least squares equal weights are best: of
    numbers with a given sum of inverses the largest is least if all are equal.
    """
    equal = (1.0,) * (height + 1)
    if len(listed.level) > LARGEST_TREE:
        return equal
    n, rests = len(listed.level), np.flatnonzero(listed.rest)
    parent = np.concatenate([listed.parent, rests])
    level = np.concatenate([listed.level, listed.level[rests] + 1])
    complete = np.ones(n + len(rests), dtype=np.bool_)

    def worst(ratio: float) -> float:
        weights = ratio ** np.arange(height + 1)
        share = weights / weights.sum()
        variance = 1 / share if squared else 1 / share**2
        return float(consistent_variance(parent, variance[level], complete=complete).max())

    errors = [worst(ratio) for ratio in RATIOS]
    best = RATIOS[int(np.argmin(errors))]
    if min(errors) > 0.99 * errors[0]:
        return equal
    return tuple(float(best**depth) for depth in range(height + 1))
