"""The scales of PrivHP: noise for exact counts near the root of a tree, and for hashed ones below.

Holland, Camtepe, Thapa, Xue: "Private Synthetic Data Generation in Small Memory", Theorem 2. A
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

from dpframe.accounting.tree_levels import FINE, WIDEST
from dpframe.errors import BudgetError, ParameterError
from dpframe.sketches.hot_partition import exact_levels

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
