"""Totals that add up, of parts that were measured and levels above them that were too.

Whole numbers of any size: least squares sees only what measured totals differ by from the sums of
measured parts, which is as large as noise is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpframe.postprocess.forest import Forest
from dpframe.postprocess.strategy import best_strategy
from dpframe.postprocess.tree_squares import checked_forest
from dpframe.postprocess.whole_parts import totals_of, whole_estimates

LEAST_PARTS = Fraction(9, 20)
"""Of epsilon: what a part has of its own is at most 2.3 times as far off as without levels above
it, whatever the height."""

GAUSSIAN = 2.6
"""Error of every level where Gaussian noise is divided evenly over k levels, over the root of k and
in standard deviations of the Laplace noise that a level alone would have: at (1, 1e-6)."""

OF_RECORDS, OF_USERS = 1.02, 1.2
"""Parts of the error of an even division up to which a level may go. By record others who divide
evenly pay for counts beside, so that 1.02 is below what their means have
(tests/benchmarks/rollup_error.py). A user is cut over all parts
together: that is worst where nodes are many, so that little should be taken from parts."""

SHORT = 2.0**62
"""Sums of absolute values below this, as floating-point numbers tell them, fit 64 bits."""

PARTS = -1
"""The place of parts among levels that are measured."""


def level_strategy(
    level: NDArray[np.int64], ancestor: NDArray[np.int64], *, by_user: bool
) -> Mapping[int, Fraction]:
    """Parts of epsilon for the parts and for the totals of levels; they sum to 1.

    The error over all nodes is the least, with no level above what an even division over levels
    leaves it, as far as that can be.
    """
    levels = len(np.unique(level))
    even = min(levels, GAUSSIAN * math.sqrt(levels))
    limit = even * (OF_USERS if by_user else OF_RECORDS)
    found = best_strategy(ancestor, level, least_parts=LEAST_PARTS, limit=limit)
    return {PARTS: found.parts, **found.levels}


def adding_up(
    ancestor: NDArray[np.int64] | Forest,
    parts: NDArray[np.object_],
    spread: NDArray[np.float64],
    known: NDArray[np.object_],
    variance: NDArray[np.float64],
) -> tuple[NDArray[np.object_], NDArray[np.float64]]:
    """Totals in whole numbers that add up, and the variance of each.

    Parameters
    ----------
    ancestor
        int64, shape (n,); -1 for the root, which is first. Or the forest of it.
    parts, spread
        Measured parts, whole numbers, and their variances.
    known, variance
        Measured totals, whole numbers, and their variances; inf where there is none.
    """
    forest = checked_forest(ancestor)
    summed = sums(parts, forest)
    measured = np.isfinite(variance)
    apart = np.zeros(len(parts), dtype=np.int64)
    apart[measured] = (known[measured] - summed[measured]).astype(np.int64)
    found = whole_estimates(
        forest,
        part=np.zeros(len(parts), dtype=np.int64),
        part_variance=spread,
        total=apart,
        total_variance=variance,
    )
    return summed + found.total.astype(object), found.total_variance


def sums(parts: NDArray[np.object_], ancestor: NDArray[np.int64] | Forest) -> NDArray[np.object_]:
    """Of the parts at and below every node: in 64 bits where they fit, which is far faster."""
    forest = checked_forest(ancestor)
    try:
        short = parts.astype(np.int64)
    except OverflowError:
        return totals_of(forest, parts)
    if np.abs(short.astype(np.float64)).sum() < SHORT:
        return totals_of(forest, short).astype(object)
    return totals_of(forest, parts)
