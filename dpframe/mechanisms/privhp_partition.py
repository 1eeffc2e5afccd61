"""PrivHP: a partition of the domain whose cells have counts, from exact and hashed counts by level.

Source
    Holland, Camtepe, Thapa, Xue: "Private Synthetic Data Generation in Small Memory", Algorithms 2
    to 4 and section 6. ``run_full`` is the tree of all nodes that they compare with (PMM: He,
    Vershynin, Zhu, "Algorithmically Effective Differentially Private Synthetic Data", 2023).
Neighbours
    One record more or less. All noise is unbounded and integer: epsilon alone, delta = 0.
Deviations
    Noise is added here and not before the stream, so that raw sketches can be merged; the law of
    what is released is the same. In Algorithm 3, l is the level of the parents, L_k..r-1, and
    children are looked up in the table of level l + 1; no table is unused, and line 10 is as
    printed. The root is clipped at 0 first. Among equal counts the smaller code is kept, so
    growth is a function of the noisy counts. For several rows the median of a count sketch is
    taken: the least of several noisy rows is biased. In section 6 the count of the *left* child
    is subtracted where a walk goes right; ``sample_leaves`` draws from the same law in one step.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpframe.accounting.partition_scales import PartitionLaws
from dpframe.errors import ParameterError
from dpframe.noise import PublicRandom, UnboundedNoise
from dpframe.sketches.hot_partition import HotPartition, Shape

Codes = NDArray[np.uint64]
Counts = NDArray[np.float64]

DEEPEST_FULL = 22
"""Most levels below the root of a tree that is kept in full."""


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """A binary tree with consistent counts of at least 0. Public. Sorted by level, then code.

    Parameters
    ----------
    level
        int64, 0 for the root.
    code
        uint64, the first ``level`` bits of all leaves below.
    count
        Records, at least 0; children add up to their parent, up to float rounding.
    leaf
        Whether the node has no children in this tree. Leaves partition the domain.
    depth
        r: bits of a code of the finest level.
    """

    level: NDArray[np.int64]
    code: Codes
    count: Counts
    leaf: NDArray[np.bool_]
    depth: int


def cost(laws: PartitionLaws) -> Fraction:
    """Return epsilon for one record more or less, exactly; delta is 0."""
    return laws.epsilon


def run(state: HotPartition, laws: PartitionLaws) -> Partition:
    """Draw noise for every exact node and every cell, and grow the partition from these numbers.

    Parameters
    ----------
    state
        Private counts.
    laws
        Noise for the same depth, exact levels and rows.
    """
    shape = state.shape
    if (laws.depth, laws.exact, laws.rows) != (shape.depth, shape.exact, shape.rows):
        raise ParameterError("laws and sketch differ in depth, hot or rows.")
    exact = _noisy_levels(state.cells, laws)
    tables = [
        table + _draw_level(laws, shape.exact + 1 + i, table.size).reshape(table.shape)
        for i, table in enumerate(state.tables)
    ]
    return grow_partition(exact, tables, shape)


def run_full(codes: Codes, laws: PartitionLaws) -> Partition:
    """The baseline: exact noisy counts on every level, O(2**depth) memory.

    Parameters
    ----------
    codes
        Private leaves, below 2**depth.
    laws
        Noise for at most 22 levels below the root, all exact.
    """
    if laws.exact != laws.depth or laws.depth > DEEPEST_FULL:
        raise ParameterError(
            f"laws must be exact on all levels, at most {DEEPEST_FULL} below the root."
        )
    cells = np.bincount(codes.astype(np.int64), minlength=2**laws.depth)
    levels = _consistent_levels(_noisy_levels(cells, laws))
    nodes = [np.arange(len(counts), dtype=np.uint64) for counts in levels]
    return _partition(nodes, levels, nodes[:-1], laws.depth)


def _draw_level(laws: PartitionLaws, level: int, n: int) -> NDArray[np.int64]:
    return UnboundedNoise(laws.scales[level]).draw(n)


def _noisy_levels(cells: NDArray[np.int64], laws: PartitionLaws) -> list[NDArray[np.int64]]:
    """Return noisy counts of levels 0..exact, from the exact counts of the deepest level."""
    levels = [cells]
    while len(levels[-1]) > 1:
        levels.append(levels[-1].reshape(-1, 2).sum(axis=1))
    return [c + _draw_level(laws, level, len(c)) for level, c in enumerate(reversed(levels))]


# -- from here on nothing is private -------------------------------------------------------------


def grow_partition(
    exact: list[NDArray[np.int64]], tables: list[NDArray[np.int64]], shape: Shape
) -> Partition:
    """Grow a partition by Algorithm 3 on noisy counts, O(k log k) a level.

    Parameters
    ----------
    exact
        Noisy counts of all nodes of levels 0..L_k, 2**l on level l.
    tables
        Noisy cells of each level below, shape (rows, width).
    shape
        Sizes and hashes.
    """
    counts = _consistent_levels(exact)
    nodes = [np.arange(len(c), dtype=np.uint64) for c in counts]
    branched = nodes[:-1]
    hot, of_hot = nodes[-1], counts[-1]
    for level, table in enumerate(tables, start=shape.exact + 1):
        children = np.repeat(hot << np.uint64(1), 2)
        children[1::2] += np.uint64(1)
        estimates = shape.estimates(table, level, children).astype(np.float64)
        below = consistent_children(of_hot, estimates)
        branched.append(hot)
        nodes.append(children)
        counts.append(below)
        kept = np.sort(np.argsort(-below, kind="stable")[: shape.hot])
        hot, of_hot = children[kept], below[kept]
    return _partition(nodes, counts, branched, shape.depth)


def consistent_children(parents: Counts, children: Counts) -> Counts:
    """Make children add up to their parents: Algorithm 4 for all parents of a level.

    Parameters
    ----------
    parents
        (n,), at least 0.
    children
        (2 n,), left and right of each parent in turn.

    Returns
    -------
    (2 n,), at least 0; each two add up to their entry of ``parents``.
    """
    left, right = np.maximum(children.reshape(-1, 2), 0.0).T
    half = (left + right - parents) / 2
    no_left = left - half < 0
    no_right = ~no_left & (right - half < 0)
    out = np.empty((len(parents), 2))
    out[:, 0] = np.where(no_left, 0.0, np.where(no_right, parents, left - half))
    out[:, 1] = np.where(no_left, parents, np.where(no_right, 0.0, right - half))
    return out.reshape(-1)


def _consistent_levels(noisy: list[NDArray[np.int64]]) -> list[Counts]:
    """Apply Algorithm 4 from the root down; the root is clipped at 0."""
    counts = [np.maximum(noisy[0].astype(np.float64), 0.0)]
    for level in noisy[1:]:
        counts.append(consistent_children(counts[-1], level.astype(np.float64)))
    return counts


def _partition(
    nodes: list[Codes], counts: list[Counts], branched: list[Codes], depth: int
) -> Partition:
    """Put all levels into arrays; ``branched``: nodes with children, for all but the last level."""
    leaf = [~np.isin(n, b, assume_unique=True) for n, b in zip(nodes, branched, strict=False)]
    sizes = [len(n) for n in nodes]
    return Partition(
        level=np.repeat(np.arange(len(nodes)), sizes),
        code=np.concatenate(nodes),
        count=np.concatenate(counts),
        leaf=np.concatenate([*leaf, np.ones(sizes[-1], np.bool_)]),
        depth=depth,
    )


def sample_leaves(
    partition: Partition, n: int, generator: PublicRandom
) -> tuple[NDArray[np.int64], Codes]:
    """Draw n independent leaves, each with a chance in proportion to its count. Costs no budget.

    Parameters
    ----------
    partition
        The released partition.
    n
        Number of leaves, from 0.
    generator
        Randomness for public numbers.

    Returns
    -------
    Levels and codes, (n,) each. The root n times if all counts are 0.
    """
    leaves = np.flatnonzero(partition.leaf & (partition.count > 0))
    if not len(leaves):
        return np.zeros(n, np.int64), np.zeros(n, np.uint64)
    sums = np.cumsum(partition.count[leaves])
    at = np.searchsorted(sums, generator.random(n) * sums[-1], side="right")
    drawn = leaves[np.minimum(at, len(leaves) - 1)]
    return partition.level[drawn], partition.code[drawn]
