"""Axes of numbers, times and addresses, cut into halves bit by bit."""

from __future__ import annotations

import contextlib
import datetime as dt
import ipaddress
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpframe.domains._axis import (
    Arrays,
    Axis,
    Codes,
    Counts,
    IntervalAxis,
    Mask,
    Reals,
    Types,
    arrow_duckdb_type,
    begins_with,
    cell_of,
    check_limit,
    decoded_type,
    distinct_values,
    edges,
    is_text_type,
    query_values,
    settle_values,
    single_array,
    unreadable_column,
    whole_points,
)
from dpframe.errors import ColumnError, HierarchyError
from dpframe.hierarchy import Hierarchy, date, number
from dpframe.hierarchy._base import check_column_name
from dpframe.hierarchy._plain_values import Ip
from dpframe.hierarchy._types import READS
from dpframe.noise import PublicRandom


@lru_cache(maxsize=1)
def octets() -> pa.Array:
    """Return the texts 0 to 255. They are made at the first call, because Arrow loads pandas to
    look at Python objects."""
    return pa.array([str(i) for i in range(256)])


@dataclass(frozen=True)
class IpAxis(Axis):
    """The first bits of an IPv4 address, as many as the longest prefix has.

    Other text, IPv6 addresses too, counts as missing. A value of a cell is any address in it.
    """

    hierarchy: Ip

    def __post_init__(self) -> None:
        if self.hierarchy.version != 4:
            column = self.hierarchy.column
            raise HierarchyError(
                f"{self.hierarchy.spec} reads IPv6 addresses, which a domain cannot: write "
                f"ip:{column}?version=4, which leaves them out."
            )

    @property
    def columns(self) -> tuple[str, ...]:
        return self.hierarchy.source_columns

    @property
    def bits(self) -> int:
        return self.hierarchy.prefixes[-1]

    @property
    def spec(self) -> str:
        only = replace(self.hierarchy, prefixes=(self.bits,), invalid="count").spec
        return only.replace("prefixes=32&", "")

    def check_types(self, types: tuple[str, ...]) -> None:
        if types[0] not in ("VARCHAR", '"NULL"') and not types[0].startswith("ENUM"):
            raise unreadable_column("ip", self.columns[0], types[0], "text")

    def read(self, columns: Arrays, bits: int) -> tuple[Codes, Mask | None]:
        texts, place = distinct_values(single_array(columns[0]))
        full = Ip(self.columns[0], prefixes=(32,), version=4)
        steps = full.key_steps(("c0",), (arrow_duckdb_type(texts),))
        found = single_array(
            query_values(texts, steps, f"(k1 & {2**32 - 1}::UHUGEINT)::BIGINT AS x")["x"]
        )
        address = found.fill_null(0).to_numpy(zero_copy_only=False).astype(np.uint64)
        valid = found.is_valid().to_numpy(zero_copy_only=False)
        return (address >> np.uint64(32 - bits))[place], valid[place]

    def draw(self, fixed: Counts, prefix: Codes, generator: PublicRandom, types: Types) -> Arrays:
        kind = decoded_type(types[0])
        if not is_text_type(kind) and not pa.types.is_null(kind):
            raise unreadable_column("ip", self.columns[0], kind, "text")
        free = (32 - fixed).astype(np.uint64)
        rest = generator.integers(0, 2**32, len(prefix), dtype=np.uint64)
        address = (prefix << free) | (rest & ((np.uint64(1) << free) - np.uint64(1)))
        parts = [
            octets().take(pa.array((address >> np.uint64(shift)) & np.uint64(255)))
            for shift in (24, 16, 8, 0)
        ]
        dotted = pc.binary_join_element_wise(*parts, ".")
        return (dotted.cast(kind) if is_text_type(kind) else dotted,)

    def label(self, fixed: int, prefix: int) -> str:
        return f"{self.columns[0]} {ipaddress.IPv4Address(prefix << (32 - fixed))}/{fixed}"


READABLE_NUMBERS = "whole numbers, floating-point numbers, decimals and text"

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
            raise unreadable_column("number", self.column, types[0], READABLE_NUMBERS)
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
        raise unreadable_column("number", self.column, kind, READABLE_NUMBERS)

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


READABLE_TIMES = "dates, timestamps and ISO 8601 text"

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

MICROSECOND = dt.timedelta(microseconds=1)

TICKS = {
    "s": Fraction(10**6),
    "ms": Fraction(10**3),
    "us": Fraction(1),
    "ns": Fraction(1, 1000),
    "D": Fraction(86_400 * 10**6),
}
"""Microseconds of each unit."""


@dataclass(frozen=True)
class TimeAxis(IntervalAxis):
    """Halves of [lower, upper), in UTC; times outside count in the nearest cell.

    NULL and text that is no time are missing. Drawn times are whole numbers of the unit of the
    column's type; the unit of dates is a day. ``limit`` is the most bits.
    """

    column: str
    lower: dt.datetime
    upper: dt.datetime
    limit: int | None = None

    def __post_init__(self) -> None:
        check_column_name("time", self.column)
        for name in ("lower", "upper"):
            object.__setattr__(self, name, utc_moment(name, getattr(self, name)))
        if self.lower >= self.upper:
            raise HierarchyError(
                f"time: lower ({utc_text(self.lower)}) must be before upper "
                f"({utc_text(self.upper)})."
            )
        check_limit("time", self.limit)

    @property
    def spec(self) -> str:
        column = date(self.column).spec.removeprefix("date:")
        bounds = f"lower={utc_text(self.lower)}&upper={utc_text(self.upper)}"
        limit = "" if self.limit is None else f"&depth={self.limit}"
        return f"time:{column}?{bounds}{limit}"

    def check_types(self, types: tuple[str, ...]) -> None:
        kind = types[0]
        if not READS["date"].holds(kind):
            raise unreadable_column("time", self.column, kind, READABLE_TIMES)
        if "_NS" in kind:
            self._in_ticks("ns")

    def read(self, columns: Arrays, bits: int) -> tuple[Codes, Mask | None]:
        values = single_array(columns[0])
        if is_text_type(values.type) or pa.types.is_null(values.type):
            values = _parse_times(values)
        ticks = values.cast(pa.int32()) if pa.types.is_date32(values.type) else values
        numbers = ticks.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        valid = None
        if values.null_count:
            valid = values.is_valid().to_numpy(zero_copy_only=False)
        return self._cells(numbers, _time_unit(values.type), bits), valid

    def draw(self, fixed: Counts, prefix: Codes, generator: PublicRandom, types: Types) -> Arrays:
        kind = given = decoded_type(types[0])
        if is_text_type(kind) or pa.types.is_null(kind):
            kind = pa.timestamp("us")
        if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
            raise unreadable_column("time", self.column, kind, READABLE_TIMES)
        unit = "D" if pa.types.is_date(kind) else kind.unit
        lower, width = self._in_ticks(unit)
        base, *both = whole_points(lower, width, fixed, prefix, generator)
        drawn, middle = (base + offset.astype(np.int64) for offset in both)

        def inside(x: NDArray[Any], at: Mask) -> Mask:
            cell = self._cells(x.astype(np.int64), unit, self.bits)
            return begins_with(cell, self.bits, fixed[at], prefix[at])

        numbers = settle_values(drawn, middle, inside)
        if unit == "D":
            return (pa.array(numbers.astype(np.int32)).cast(pa.date32()).cast(kind),)
        times = pa.array(numbers).cast(kind)
        return (times.cast(given) if is_text_type(given) else times,)

    def _in_ticks(self, unit: str) -> tuple[Fraction, Fraction]:
        """Return the lower bound, in units since 1970, and the width, in units."""
        low, high = ((t - EPOCH) // MICROSECOND for t in (self.lower, self.upper))
        if unit == "ns" and (low * 1000 < -(2**63) + 1 or high * 1000 >= 2**63):
            raise ColumnError(
                f"column {self.column!r} has nanoseconds, from 1677-09-22 to 2262-04-11: choose "
                "lower and upper inside, or cast it to TIMESTAMP."
            )
        return low / TICKS[unit], (high - low) / TICKS[unit]

    def _cells(self, ticks: Counts, unit: str, bits: int) -> Codes:
        lower, width = self._in_ticks(unit)
        base = lower.__floor__()
        offset: Reals = (np.clip(ticks, base, (lower + width).__ceil__()) - base).astype(np.float64)
        offset -= float(lower - base)
        return cell_of(offset, float(width), bits)

    def label(self, fixed: int, prefix: int) -> str:
        span = (self.upper - self.lower) // MICROSECOND
        low, high = (
            self.lower + (span * index >> fixed) * MICROSECOND for index in (prefix, prefix + 1)
        )
        end = "]" if prefix + 1 == 1 << fixed else ")"
        return f"{self.column} [{utc_text(low, ' ')}, {utc_text(high, ' ')}{end}"


def utc_moment(name: str, value: object) -> dt.datetime:
    """Return a bound as a time in UTC; HierarchyError if it is no time."""
    if isinstance(value, np.datetime64):
        value = str(value)
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = dt.datetime.fromisoformat(value.strip())
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime) and value == value:
        value = dt.datetime(value.year, value.month, value.day)
    if not isinstance(value, dt.datetime) or value != value:  # pandas' NaT is no time
        raise HierarchyError(
            f"time: {name} must be a date or a time such as 2017-01-31T12:00:00; got {value!r}."
        )
    exact = dt.datetime(*value.timetuple()[:6], value.microsecond)
    try:
        return exact.replace(tzinfo=dt.UTC) - (value.utcoffset() or dt.timedelta(0))
    except OverflowError:
        raise HierarchyError(f"time: {name} must be in the years 1 to 9999, in UTC.") from None


def utc_text(time: dt.datetime, between: str = "T") -> str:
    """Return a time in UTC as text, in its shortest form."""
    naive = time.replace(tzinfo=None)
    if naive.time() == dt.time(0):
        return naive.date().isoformat()
    return naive.isoformat(between)


def _time_unit(kind: pa.DataType) -> str:
    if pa.types.is_date32(kind):
        return "D"
    return "ms" if pa.types.is_date64(kind) else str(kind.unit)


def _parse_times(column: pa.Array) -> pa.Array:
    """Return text as timestamps in UTC, parsed like the hierarchy ``date``."""
    texts, place = distinct_values(column)
    steps = date("c0").key_steps(("c0",), (arrow_duckdb_type(texts),))[:1]
    moments = "CASE WHEN isfinite(moment) THEN moment END AS x"
    return single_array(query_values(texts, steps, moments)["x"]).take(pa.array(place))
