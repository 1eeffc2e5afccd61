"""Totals of the nodes of a selection that add up: what is measured above the parts, and how."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

PARTS = -1
"""The place of parts among levels that are measured."""


def level_strategy(level: NDArray[np.int64], ancestor: NDArray[np.int64]) -> Mapping[int, Fraction]:
    """Parts of epsilon for the parts and for the totals of levels."""
    return {PARTS: Fraction(1)}


def adding_up(
    ancestor: NDArray[np.int64],
    parts: NDArray[np.object_],
    spread: NDArray[np.float64],
    known: NDArray[np.object_],
    variance: NDArray[np.float64],
) -> tuple[NDArray[np.object_], NDArray[np.float64]]:
    """Totals in whole numbers that add up, and their variance."""
    total, var = parts.copy(), spread.copy()
    for v in range(len(total) - 1, 0, -1):
        total[ancestor[v]] += total[v]
        var[ancestor[v]] += var[v]
    return total, var
