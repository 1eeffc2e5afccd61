"""Hierarchical heavy hitters from noisy counts of single nodes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpframe.tree import CountTree


def topmost_subtracted(
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
