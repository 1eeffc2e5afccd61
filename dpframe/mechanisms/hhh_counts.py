"""Counts of every node from hierarchical heavy hitters: sums of the residuals released below.

The offline mechanism (:mod:`dpframe.mechanisms.offline_hhh`) releases a noisy residual for every
reported node and for the total. The count of a node is the sum of the residuals released at or
below it, so counts add up by themselves. Nodes above a reported node are listed too. All of this is
post-processing: it costs nothing beyond the release of the heavy hitters.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe.mechanisms import offline_hhh
from dpframe.noise import NoiseTable
from dpframe.postprocess.half_widths import half_width
from dpframe.tree import CountTree, NoisyTree


def run(
    tree: CountTree,
    *,
    test: NoiseTable,
    release: NoiseTable,
    threshold: int,
    confidence: float,
    height: int,
) -> NoisyTree:
    """Release heavy hitters and the remainder; all quantities in units of the grid.

    With certainty, a node that is not reported holds at most ``threshold - test.lowest - 1`` units
    that no reported node below covers; intervals allow for these units.
    """
    _, places, residual = offline_hhh.select(
        tree,
        kinds=offline_hhh.level_kinds(tree),
        test=test,
        threshold=threshold,
        remainder=True,
    )
    return sum_residuals(
        tree,
        places[:, 0],
        residual + release.draw(len(residual)),
        noise=release,
        hidden=threshold - test.lowest - 1,
        confidence=confidence,
        height=height,
    )


def sum_residuals(
    tree: CountTree,
    reported: NDArray[np.int64],
    residual: NDArray[np.int64],
    *,
    noise: NoiseTable,
    hidden: int,
    confidence: float,
    height: int,
) -> NoisyTree:
    """Add up released residuals; read only positions and keys of released nodes from the tree."""
    n = len(tree.level)
    own, terms = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    own[reported], terms[reported] = residual, 1
    count, shown, bare = own.copy(), terms > 0, np.zeros(n, dtype=np.int64)
    is_reported = terms > 0
    for level in range(int(tree.level.max(initial=0)), 0, -1):
        here = np.flatnonzero((tree.level == level) & shown)
        above = tree.parent[here]
        shown[above] = True
        for values in (count, terms):
            np.add.at(values, above, values[here])
        np.add.at(bare, above, (~is_reported[here]).astype(np.int64))
    kept = np.flatnonzero(shown)
    rank = np.cumsum(shown) - 1
    halves = {int(k): half_width(noise, int(k), confidence) for k in np.unique(terms[kept])}
    half = np.array([halves[int(k)] for k in terms[kept]], dtype=np.int64)
    free = is_reported[kept]
    missing = np.where(free, 0, hidden)
    single = half_width(noise, 1, confidence)
    rest_high = np.where(free, own[kept] + single, hidden)
    rest_low = np.where(free, own[kept] - single - hidden * bare[kept], 0)
    return NoisyTree(
        level=tree.level[kept],
        parent=np.where(tree.parent[kept] >= 0, rank[tree.parent[kept]], -1),
        count=count[kept],
        lower=count[kept] - half,
        upper=count[kept] + half + missing,
        other=np.zeros(len(kept), dtype=np.bool_),
        open=tree.level[kept] < height,
        keys=tuple(column.take(pa.array(kept)) for column in tree.keys),
        rest=(np.maximum(rest_low, 0), np.maximum(rest_high, 0)),
        variance=np.maximum(terms[kept], 1) * noise.sd**2,
    )
