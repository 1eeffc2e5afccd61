"""Counts of a tree that add up, with an ``<other>`` row for what no released child covers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe.postprocess.consistency import consistent_counts, consistent_whole_counts
from dpframe.tree import NoisyTree


def tree_in_records(noisy: NoisyTree, grid: int) -> NoisyTree:
    """Convert units to whole records: counts to the nearest, halves up, and intervals outwards."""
    rest = noisy.rest
    return replace(
        noisy,
        count=(2 * noisy.count + grid) // (2 * grid),
        lower=noisy.lower // grid,
        upper=-(-noisy.upper // grid),
        rest=None if rest is None else (rest[0] // grid, -(-rest[1] // grid)),
    )


def consistent_tree(noisy: NoisyTree, grid: int) -> NoisyTree:
    """Non-negative whole records in which every node is the sum of its children.

    Weighted least squares, then the nearest whole numbers (:mod:`.consistency`); where a node may
    have children that are not released, an ``<other>`` child takes what the released children
    leave, and is never negative. Post-processing: free. The counts are no longer unbiased.

    Intervals are computed from the noise in the counts before they are adjusted. Two changes keep
    their confidence: ends are raised to 0, as true counts are not negative, and intervals are
    widened where needed to hold the adjusted count. The interval of an ``<other>`` row is ``rest``,
    or goes from 0 to the upper end of its parent if there is no ``rest``.
    """
    variance = noisy.variance
    if variance is None:
        half = (noisy.upper - noisy.lower) / 2
        variance = np.maximum(half, 1.0) ** 2
    closed = ~noisy.open
    values = consistent_counts(noisy.parent, noisy.count, variance, complete=closed) / grid
    count = consistent_whole_counts(noisy.parent, values, variance / grid**2, complete=closed)
    exact = replace(tree_in_records(noisy, grid), count=count)
    full = _append_rests(exact)
    lower = np.minimum(np.maximum(full.lower, 0), full.count)
    return replace(full, lower=lower, upper=np.maximum(full.upper, full.count))


def _append_rests(noisy: NoisyTree) -> NoisyTree:
    """Append an ``<other>`` child to every open node that has children."""
    n = len(noisy.level)
    covered = np.zeros(n, dtype=np.int64)
    np.add.at(covered, noisy.parent[1:], noisy.count[1:])
    has_child = np.zeros(n, dtype=np.bool_)
    has_child[noisy.parent[1:]] = True
    above = np.flatnonzero(has_child & noisy.open)
    if noisy.rest is None:
        low, high = np.zeros(len(above), dtype=np.int64), noisy.upper[above]
    else:
        low, high = noisy.rest[0][above], noisy.rest[1][above]
    places = pa.array(np.concatenate([np.arange(n), above]))
    return NoisyTree(
        level=_append_values(noisy.level, noisy.level[above] + 1),
        parent=_append_values(noisy.parent, above),
        count=_append_values(noisy.count, (noisy.count - covered)[above]),
        lower=_append_values(noisy.lower, low),
        upper=_append_values(noisy.upper, high),
        other=np.concatenate([noisy.other, np.ones(len(above), dtype=np.bool_)]),
        open=np.zeros(n + len(above), dtype=np.bool_),
        keys=tuple(column.take(places) for column in noisy.keys),
    )


def _append_values(a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([a, b.astype(np.int64)])
