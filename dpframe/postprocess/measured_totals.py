"""Totals that add up, from measured parts and from measured levels above them.

Whole numbers of any size: least squares sees only the differences between measured totals and the
sums of measured parts, which are as large as noise is.
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
"""The least part of epsilon that parts get: a part is then at most 2.3 times as far off as if parts
alone were measured, whatever the height."""

GAUSSIAN = 2.6
"""Error of every level where Gaussian noise is divided evenly over k levels, divided by the root of
k, in standard deviations of the Laplace noise that a level alone would have; at (1, 1e-6)."""

OF_RECORDS, OF_USERS = 1.02, 1.2
"""How large the error of a level may get, in errors of an even division, where records or users are
protected. Other methods that divide evenly also pay for counts of records, so that 1.02 is below
the errors of their means (tests/benchmarks/rollup_error.py). A user is clipped over all parts
together, which is worst where there are many nodes, so that little should be taken from parts."""

SHORT = 2.0**62
"""Sums of absolute values below this, as floating-point numbers tell them, fit 64 bits."""

PARTS = -1
"""The key of the parts among the levels that are measured."""


def level_strategy(
    level: NDArray[np.int64], ancestor: NDArray[np.int64], *, by_user: bool
) -> Mapping[int, Fraction]:
    """Divide epsilon between the parts and the totals of levels, in fractions that sum to 1.

    The error over all nodes is the least that is found. Levels whose error is above ``OF_RECORDS``
    or ``OF_USERS`` times the error of an even division over levels count for more in it.
    """
    levels = len(np.unique(level))
    even = min(levels, GAUSSIAN * math.sqrt(levels))
    limit = even * (OF_USERS if by_user else OF_RECORDS)
    found = best_strategy(ancestor, level, least_parts=LEAST_PARTS, limit=limit)
    return {PARTS: found.parts, **found.levels}


def consistent_totals(
    ancestor: NDArray[np.int64] | Forest,
    parts: NDArray[np.object_],
    spread: NDArray[np.float64],
    known: NDArray[np.object_],
    variance: NDArray[np.float64],
) -> tuple[NDArray[np.object_], NDArray[np.float64]]:
    """Totals in whole numbers that add up, and the variance of each: from measured ``parts`` with
    variances ``spread`` and totals that are ``known`` with a ``variance``, inf where no total was
    measured."""
    forest = checked_forest(ancestor)
    summed = subtree_sums(parts, forest)
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


def subtree_sums(
    parts: NDArray[np.object_], ancestor: NDArray[np.int64] | Forest
) -> NDArray[np.object_]:
    """Sums of the parts at and below every node: in 64 bits where they fit, which is far faster."""
    forest = checked_forest(ancestor)
    try:
        short = parts.astype(np.int64)
    except OverflowError:
        return totals_of(forest, parts)
    if np.abs(short.astype(np.float64)).sum() < SHORT:
        return totals_of(forest, short).astype(object)
    return totals_of(forest, parts)
