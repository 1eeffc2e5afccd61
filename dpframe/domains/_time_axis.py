"""Dates and timestamps in declared bounds."""

from __future__ import annotations

import contextlib
import datetime as dt
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
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
    is_text_type,
    settle_values,
    unreadable_column,
    whole_points,
)
from dpframe.domains._read_values import (
    arrow_duckdb_type,
    distinct_values,
    query_values,
    single_array,
)
from dpframe.errors import ColumnError, HierarchyError
from dpframe.hierarchy import date
from dpframe.hierarchy._base import check_column_name
from dpframe.hierarchy._types import READS
from dpframe.noise import PublicRandom

READABLE = "dates, timestamps and ISO 8601 text"

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
            raise unreadable_column("time", self.column, kind, READABLE)
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
            raise unreadable_column("time", self.column, kind, READABLE)
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
