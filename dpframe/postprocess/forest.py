"""One or several trees, level by level: checks, and the two passes of least squares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpframe.errors import ParameterError

_Number = TypeVar("_Number", np.float64, np.int64, np.object_)

_LARGEST = 2.0**61
"""Sums of whole numbers below this fit int64 with room to spare. Float64 rounds from 2**53 on."""

_VARIANCES = (1e-100, 1e100)
"""Within these, no product or quotient of a count and variances leaves float64."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Forest:
    """Nodes renumbered level by level, in their old order within a level.

    ``order`` and ``up``: int64, shape (n,); for each node its old position, and the new position of
    its parent, -1 for a root. ``starts``: new position where each level starts, n at the end.
    """

    order: NDArray[np.intp]
    up: NDArray[np.int64]
    starts: tuple[int, ...]

    @classmethod
    def of(cls, parent: NDArray[np.int64]) -> Forest:
        depth = (parent >= 0).astype(np.int64)
        ancestor = parent.astype(np.int64)
        below = np.flatnonzero(depth)
        while below.size:  # depth = steps to an ancestor + its steps upwards
            above = ancestor[below]
            depth[below] += depth[above]
            ancestor[below] = ancestor[above]
            below = below[ancestor[below] >= 0]
        order = np.argsort(depth, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        up = parent[order]
        up[up >= 0] = place[up[up >= 0]]
        starts = np.cumsum(np.bincount(depth, minlength=1))
        return cls(order=order, up=up, starts=(0, *starts.tolist()))

    def levels(self) -> Iterator[tuple[slice, slice, NDArray[np.intp]]]:
        """From the top down: the new positions of a level and of the next level, and for each node
        of the next level the place of its parent within the upper level."""
        for lo, mid, hi in zip(self.starts, self.starts[1:], self.starts[2:], strict=False):
            yield slice(lo, mid), slice(mid, hi), self.up[mid:hi] - lo

    def restore(self, x: NDArray[_Number]) -> NDArray[_Number]:
        """Return values of the renumbered nodes in the caller's numbering."""
        out = np.empty_like(x)
        out[self.order] = x
        return out


def check_tree(
    parent: ArrayLike, noisy: ArrayLike, variance: ArrayLike, complete: ArrayLike
) -> tuple[Forest, NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Check the arguments of :mod:`.consistency`. Return the forest, and by level the counts, the
    variances, and which nodes with children are complete, and which incomplete."""
    above, counts, var, flags = map(np.asarray, (parent, noisy, variance, complete))
    if above.ndim != 1 or not above.shape == counts.shape == var.shape == flags.shape:
        raise ParameterError("tree arrays must be one-dimensional, one value a node each.")
    if above.dtype.kind != "i" or (above < -1).any() or (above >= np.arange(len(above))).any():
        raise ParameterError(
            "parent must hold whole numbers with -1 <= parent[i] < i. List parents before children."
        )
    if flags.dtype != np.bool_:
        raise ParameterError("complete must be an array of booleans, one a node.")
    if counts.dtype.kind not in "if" or not np.abs(counts.astype(np.float64)).sum() < _LARGEST:
        raise ParameterError("counts must be finite numbers with absolute sum below 2**61.")
    if var.dtype.kind not in "if" or not ((var >= _VARIANCES[0]) & (var <= _VARIANCES[1])).all():
        raise ParameterError("variance must hold numbers from 1e-100 to 1e100.")
    inner = np.zeros(len(above), dtype=np.bool_)
    inner[above[above >= 0]] = True
    forest = Forest.of(above)
    order = forest.order
    y, v = counts[order].astype(np.float64), var[order].astype(np.float64)
    return forest, y, v, (inner & flags)[order], (inner & ~flags)[order]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SubtreeEstimates:
    """What the subtree of each node alone tells of the node, given which nodes are ``tied`` to the
    sum of their children: float64 or bool, shape (n,), by level.

    ``z`` and ``s``: best estimate and its variance. ``sums`` and ``below``: sums of ``z`` and of
    ``s`` over the children.
    """

    z: NDArray[np.float64]
    s: NDArray[np.float64]
    sums: NDArray[np.float64]
    below: NDArray[np.float64]
    tied: NDArray[np.bool_]


def upward_pass(
    forest: Forest,
    y: NDArray[np.float64],
    var: NDArray[np.float64],
    tied: NDArray[np.bool_],
    undecided: NDArray[np.bool_] | None = None,
) -> SubtreeEstimates:
    """Estimate nodes from the leaves up. An undecided node becomes tied if its own value is below
    the sum of its children's estimates."""
    z, s, sums, below, tied = y.copy(), var.copy(), np.zeros_like(y), np.zeros_like(y), tied.copy()
    for top, here, group in reversed(list(forest.levels())):
        sums[top] = np.bincount(group, z[here], top.stop - top.start)
        below[top] = np.bincount(group, s[here], top.stop - top.start)
        if undecided is not None:
            tied[top] |= undecided[top] & (y[top] < sums[top])
        gain = np.where(tied[top], var[top] / (var[top] + below[top]), 0.0)
        z[top] += gain * (sums[top] - z[top])
        s[top] = np.where(tied[top], gain * below[top], s[top])
    return SubtreeEstimates(z=z, s=s, sums=sums, below=below, tied=tied)


def downward_pass(forest: Forest, up: SubtreeEstimates) -> NDArray[np.float64]:
    """Return the least squares solution for these tied nodes, by level, from the roots down."""
    x = up.z.copy()
    for top, here, group in forest.levels():
        gap = np.where(up.tied[top], x[top] - up.sums[top], 0.0)
        x[here] += up.s[here] / up.below[top][group] * gap[group]
    return x
