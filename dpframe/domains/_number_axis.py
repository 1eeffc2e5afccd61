"""Numbers in declared bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpframe.domains._axis import (
    Arrays,
    Codes,
    Counts,
    IntervalAxis,
    Mask,
    Reals,
    Types,
    begins_with,
    cell_of,
    check_limit,
    decoded_type,
    edges,
    is_text_type,
    settle_values,
    unreadable_column,
    whole_points,
)
from dpframe.domains._read_values import distinct_values, query_values, single_array
from dpframe.errors import ColumnError
from dpframe.hierarchy import Hierarchy, number
from dpframe.noise import PublicRandom

READABLE = "whole numbers, floating-point numbers, decimals and text"

WIDEST = 2.0**62
"""Least bound that is too large, in units of a decimal's last digit: these are 64-bit integers."""


@dataclass(frozen=True)
class NumberAxis(IntervalAxis):
    """Halves of [lower, upper); values outside count in the nearest cell.

    NULL, NaN and text that is no number are missing. Columns of whole numbers get whole numbers
    drawn: one in the cell or, if it holds none, the nearest to its middle. Columns of text get the
    text of a floating-point number. ``limit`` is the most bits.
    """

    column: str
    lower: float
    upper: float
    limit: int | None = None

    def __post_init__(self) -> None:
        checked = number(self.column, lower=self.lower, upper=self.upper)
        object.__setattr__(self, "lower", checked.lower)
        object.__setattr__(self, "upper", checked.upper)
        check_limit("number", self.limit)

    @property
    def spec(self) -> str:
        spec = number(self.column, lower=self.lower, upper=self.upper).spec
        return spec if self.limit is None else f"{spec}&depth={self.limit}"

    def check_types(self, types: tuple[str, ...]) -> None:
        outer = types[0].split("(")[0]
        if types[0].endswith("]") or outer.removeprefix("U") not in (
            *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE"),
            *("DECIMAL", "VARCHAR", "ENUM", '"NULL"'),
        ):
            raise unreadable_column("number", self.column, types[0], READABLE)
        if outer == "DECIMAL":
            self._check_scale(int(types[0].rstrip(")").rpartition(",")[2]))
        elif outer == "HUGEINT":
            self._check_scale(0)

    def _check_scale(self, scale: int) -> None:
        if max(abs(self.lower), abs(self.upper)) * 10.0**scale >= WIDEST:
            raise ColumnError(
                f"column {self.column!r} has {scale} decimals, too many for lower={self.lower!r}, "
                f"upper={self.upper!r}: cast it to DOUBLE."
            )

    def read(self, columns: Arrays, bits: int) -> tuple[Codes, Mask | None]:
        values = _doubles(columns[0])
        missing = np.isnan(values)
        some = bool(missing.any())
        np.clip(values, self.lower, self.upper, out=values)
        values -= self.lower
        if some:
            values[missing] = 0.0
        return cell_of(values, self.upper - self.lower, bits), ~missing if some else None

    def draw(self, fixed: Counts, prefix: Codes, generator: PublicRandom, types: Types) -> Arrays:
        kind = decoded_type(types[0])
        if pa.types.is_integer(kind):
            dtype = kind.to_pandas_dtype()
            info = np.iinfo(dtype)
            drawn = self._draw_whole(fixed, prefix, generator, 0, float(info.min), float(info.max))
            return (pa.array(drawn.astype(dtype), type=kind),)
        if pa.types.is_decimal(kind):
            self._check_scale(kind.scale)
            most = float(10**kind.precision - 1)
            drawn = self._draw_whole(fixed, prefix, generator, kind.scale, -most, most)
            return (_decimal_array(drawn.astype(np.int64), kind),)
        if pa.types.is_floating(kind):
            return (pa.array(self._real(fixed, prefix, generator, kind.to_pandas_dtype())),)
        if is_text_type(kind) or pa.types.is_null(kind):
            reals = pa.array(self._real(fixed, prefix, generator, np.float64))
            return (reals.cast(kind) if is_text_type(kind) else reals,)
        raise unreadable_column("number", self.column, kind, READABLE)

    def _real(
        self, fixed: Counts, prefix: Codes, generator: PublicRandom, dtype: Any
    ) -> NDArray[Any]:
        low, high = edges(fixed, prefix, self.upper - self.lower)
        drawn = low + (high - low) * generator.random(len(prefix)) + self.lower
        middle = (low + high) / 2 + self.lower
        with np.errstate(over="ignore"):
            given = drawn.astype(dtype), middle.astype(dtype)
        return settle_values(*given, lambda x, at: self._inside(x, fixed[at], prefix[at]))

    def _draw_whole(
        self,
        fixed: Counts,
        prefix: Codes,
        generator: PublicRandom,
        scale: int,
        least: float,
        most: float,
    ) -> Reals:
        """Draw whole numbers, in units of 10**-scale, within the bounds of the type."""
        unit = 10**scale
        lower, upper = Fraction(self.lower) * unit, Fraction(self.upper) * unit
        base, *both = whole_points(lower, upper - lower, fixed, prefix, generator)
        if most >= 2.0**63:  # as a float, the type's bound is rounded up by one
            most = math.nextafter(min(most, 2.0**64), 0.0)
        drawn, middle = (np.clip(base + x, least, most) for x in both)

        def inside(x: NDArray[Any], at: Mask) -> Mask:
            return self._inside(x / unit, fixed[at], prefix[at])

        settle: Reals = settle_values(drawn, middle, inside)
        return settle

    def _inside(self, x: NDArray[Any], fixed: Counts, prefix: Codes) -> Mask:
        offset = np.clip(x.astype(np.float64), self.lower, self.upper) - self.lower
        cell = cell_of(offset, self.upper - self.lower, self.bits)
        return begins_with(cell, self.bits, fixed, prefix)

    def label(self, fixed: int, prefix: int) -> str:
        text = _interval_labels(self.lower, self.upper).label(fixed, (str(prefix),))
        return f"{self.column} {text}"


@lru_cache(maxsize=64, typed=True)
def _interval_labels(lower: float, upper: float) -> Hierarchy:
    """Return the hierarchy whose labels name the intervals of a range."""
    return number("x", lower=lower, upper=upper)


def _doubles(column: pa.Array) -> Reals:
    """Return a copy of a column as doubles, NaN where there is no number."""
    column = single_array(column)
    if is_text_type(column.type):
        texts, place = distinct_values(column)
        read = single_array(query_values(texts, (), "TRY_CAST(c0 AS DOUBLE) AS x")["x"])
        return np.array(read.to_numpy(zero_copy_only=False), dtype=np.float64)[place]
    if column.type != pa.float64():
        column = pc.cast(column, pa.float64(), safe=False)
    return np.array(column.to_numpy(zero_copy_only=False), dtype=np.float64)


def _decimal_array(units: Counts, kind: pa.DataType) -> pa.Array:
    """Return decimals from units in their last digit."""
    words = np.stack([units, units >> 63], axis=1).astype("<i8")
    wide = pa.decimal128(38, kind.scale)
    buffers = [None, pa.py_buffer(words.tobytes())]
    return pa.Array.from_buffers(wide, len(units), buffers).cast(kind)
