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

**Scales** of the noise, for exact counts near the root and for hashed counts below: Theorem 2. A
record moves one count of each exact level by 1, and one cell in each of the j rows of each level
below by 1, up or down. Laplace noise of scale 1 / sigma_l on the counts of an exact level, and of
scale j / sigma_l on the cells of a level below, costs sigma_l. All levels cost the sum, which is at
most epsilon; delta is 0. Noise and moves are whole numbers, so that rounding costs nothing. A
record replaced by another is two such moves and costs twice as much.

Equation 23 divides epsilon so that the bound on the 1-Wasserstein distance is least: sigma_l is
proportional to the root of a sum of diameters of cells of level l - 1, of all cells on exact levels
and of k such cells below. The equation is for j = 1; the bound has j k in place of k otherwise. For
the root, level l - 1 is the root itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpframe.accounting.tree_levels import FINE, WIDEST
from dpframe.errors import BudgetError, ParameterError
from dpframe.noise import PublicRandom, UnboundedNoise
from dpframe.sketches.hot_partition import HotPartition, Shape, exact_levels

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


Split = Literal["optimal", "uniform"]


@dataclass(frozen=True, slots=True)
class PartitionLaws:
    """Scales of unbounded discrete Laplace noise.

    Parameters
    ----------
    scales
        Scale for each count or cell of levels 0..r, in records.
    exact
        L_k: the deepest level that is counted exactly.
    rows
        j, rows of the tables below.
    """

    scales: tuple[Fraction, ...]
    exact: int
    rows: int

    @property
    def depth(self) -> int:
        """r, the finest level."""
        return len(self.scales) - 1

    @property
    def epsilon(self) -> Fraction:
        """What one record costs, exactly: for each level, how many counts or cells a record moves,
        divided by the scale; added up over levels."""
        moved = (1 if level <= self.exact else self.rows for level in range(len(self.scales)))
        return sum((m / b for m, b in zip(moved, self.scales, strict=True)), Fraction(0))


def partition_laws(
    *,
    depth: int,
    hot: int,
    rows: int,
    epsilon: float,
    diameters: Sequence[float],
    split: Split = "optimal",
) -> PartitionLaws:
    """Return the noise of all levels within epsilon.

    Parameters
    ----------
    depth
        r, from 1.
    hot
        k, from 1. From 2**r on all levels are exact: the full-memory tree.
    rows
        j, odd.
    epsilon
        For one record more or less, above 0.
    diameters
        The largest diameter of a cell of each level 0..r; known without the data. Only ratios
        matter. All are above 0; only the last may be 0.
    split
        "optimal" for equation 23, "uniform" for the same sigma_l on every level.

    Raises
    ------
    BudgetError
        If epsilon is no number above 0, or the noise of a level is wider than 2**28 records.
    ParameterError
        If the diameters are not as above, or ``split`` is another word.
    """
    lengths = tuple(float(d) for d in diameters)
    fit = len(lengths) == depth + 1 and all(math.isfinite(d) and d >= 0 for d in lengths)
    if not fit or min(lengths[:-1]) <= 0:
        raise ParameterError(f"diameters must be {depth + 1} finite numbers above 0, one a level.")
    if split not in ("optimal", "uniform"):
        raise ParameterError(f"split ({split!r}) must be 'optimal' or 'uniform'.")
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise BudgetError(f"epsilon ({epsilon}) must be a number above 0.")
    return _rounded_partition_laws(
        exact_levels(depth, hot), hot, rows, float(epsilon), lengths, split
    )


@lru_cache(maxsize=64)
def _rounded_partition_laws(
    exact: int,
    hot: int,
    rows: int,
    epsilon: float,
    diameters: tuple[float, ...],
    split: Split,
) -> PartitionLaws:
    sigmas = [
        Fraction(epsilon) * share for share in _level_shares(exact, hot, rows, diameters, split)
    ]
    moved = [1 if level <= exact else rows for level in range(len(sigmas))]
    scales = [m / sigma for m, sigma in zip(moved, sigmas, strict=True)]
    if max(scales) > WIDEST:
        raise BudgetError(
            f"epsilon ({epsilon:g} per record) is too small: noise would have scale "
            f"{float(max(scales)):.1e}. Raise epsilon, lower depth or rows, or use split='uniform'."
        )
    fine = tuple(Fraction(math.ceil(scale * FINE), FINE) for scale in scales)
    laws = PartitionLaws(fine, exact, rows)
    if laws.epsilon > Fraction(epsilon):
        raise AssertionError("scales are rounded up")
    return laws


def _level_shares(
    exact: int, hot: int, rows: int, diameters: tuple[float, ...], split: Split
) -> list[Fraction]:
    """Return sigma_l / epsilon for every level: positive numbers of sum 1."""
    weights = [Fraction(1)] * len(diameters)
    if split == "optimal":
        for level in range(len(diameters)):
            above = max(level - 1, 0)
            cells = 2**above if level <= exact else rows * hot
            weights[level] = Fraction(math.sqrt(cells) * math.sqrt(diameters[above]))
    total = sum(weights)
    return [weight / total for weight in weights]
