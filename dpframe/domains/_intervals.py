"""Halve an interval: find the cell of a value, and draw a value of a cell."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpframe.domains._axis import MAX_BITS, USUAL_BITS, Axis, Codes, Counts, Mask
from dpframe.noise import PublicRandom

Reals = NDArray[np.float64]


class IntervalAxis(Axis):
    """One column in declared bounds, halved at most ``limit`` times."""

    column: str
    limit: int | None

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def bits(self) -> int:
        return self.limit or MAX_BITS

    @property
    def usual(self) -> int:
        return self.limit or USUAL_BITS


def cell_of(offset: Reals, width: float, bits: int) -> Codes:
    """Return the cell of every offset from the lower bound, the nearest cell if it lies outside.
    Overwrites ``offset``."""
    np.divide(offset, width, out=offset)
    np.multiply(offset, 2.0**bits, out=offset)
    np.clip(offset, 0.0, 2.0**bits - 1, out=offset)
    return offset.astype(np.int64).view(np.uint64)


def begins_with(cell: Codes, bits: int, fixed: Counts, prefix: Codes) -> Mask:
    """Whether paths of ``bits`` bits begin with the ``fixed`` bits of ``prefix``."""
    inside: Mask = (cell >> (bits - fixed).astype(np.uint64)) == prefix
    return inside


def edges(fixed: Counts, prefix: Codes, width: float) -> tuple[Reals, Reals]:
    """Return the offsets at which cells begin and end."""
    exponent = -fixed.astype(np.int32)
    low = np.ldexp(prefix.astype(np.float64), exponent) * width
    high = np.ldexp(prefix.astype(np.float64) + 1.0, exponent) * width
    return low, high


def whole_points(
    lower: Fraction, width: Fraction, fixed: Counts, prefix: Codes, generator: PublicRandom
) -> tuple[int, Reals, Reals]:
    """Draw a whole number of each cell, all equally likely: a base, and offsets from it.

    A cell that holds no whole number gives the one nearest to its middle, within the bounds if they
    hold any. The last cell also holds the upper bound. The second offsets are of the numbers to use
    where rounding moves the first numbers out of their cells.
    """
    base = math.floor(lower)
    shift = float(lower - base)
    low, high = (edge + shift for edge in edges(fixed, prefix, float(width)))
    first, last = np.ceil(low), np.ceil(high) - 1.0
    count = last - first + 1.0
    least, most = math.ceil(shift), math.ceil(shift + float(width)) - 1.0
    middle = np.rint((low + high) / 2)
    if least <= most:
        is_last = prefix + np.uint64(1) == np.uint64(1) << fixed.astype(np.uint64)
        highest = np.where(is_last, max(most, math.floor(shift + float(width))), most)
        middle = np.clip(np.where(is_last, np.rint(high), middle), least, highest)
    at = first + np.floor(generator.random(len(prefix)) * count)
    return base, np.where(count >= 1.0, np.minimum(at, last), middle), middle


def settle_values(
    drawn: NDArray[Any], middle: NDArray[Any], inside: Callable[[NDArray[Any], Mask], Mask]
) -> NDArray[Any]:
    """Replace values that rounding moved out of their cell by its middle, if that is inside.

    ``inside(values, rows)`` says which values of some rows are in their cells.
    """
    rows = np.ones(len(drawn), dtype=np.bool_)
    rows[rows] = ~inside(drawn, rows)
    if rows.any():
        rows[rows] = inside(middle[rows], rows)
        drawn[rows] = middle[rows]
    return drawn
