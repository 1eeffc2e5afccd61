"""Frames in memory as Arrow tables, without guessing a type from values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from dpframe import _compute as pc
from dpframe._nested import children, has_children, with_children
from dpframe._unicode import unicode_table
from dpframe.errors import ColumnError, DpframeError, ParameterTypeError, SourceError
from dpframe.sources.columns import check_arrow_types, require
from dpframe.sources.foreign import foreign_table, foreign_types, is_foreign, no_frame
from dpframe.sources.objects import each_as_text, from_objects
from dpframe.sources.within import Within

EARLIEST, LATEST, INFINITY = -9_223_372_022_400_000_000, 2**63 - 2, 2**63 - 1
"""Microseconds since 1970 that SQL can hold, and what it reads as infinitely late."""

DAY = 86_400_000_000
"""Microseconds, the latest that a time of the day can be."""

FACTORS = {"s": 10**6, "ms": 10**3, "us": 1}
"""Microseconds of a unit; of nanoseconds only times of the day can be out of their range."""


def arrow_table(source: Any, wanted: Sequence[str]) -> pa.Table:
    """The wanted columns of a pandas, Polars or Arrow frame, in which no value is an error.

    Raises ColumnError for a type in which times cannot be brought into what SQL can hold.
    """
    table = unicode_table(_readable(_as_table(source, wanted)))
    for i, field in enumerate(table.schema):
        if _is_time(field.type) or _holds_times(field.type):
            if not _holdable(field.type):
                raise ColumnError(
                    f"column {field.name!r} has an Arrow type of which times inside cannot be read "
                    "safely (a union or a list view): cast the column to text."
                )
            held = [_held(chunk) for chunk in table.column(i).chunks]
            table = table.set_column(i, field.name, pa.chunked_array(held, field.type))
    return table


def _readable(table: pa.Table) -> pa.Table:
    """A table whose types DuckDB reads: numbers of 16 bits as those of 32, which hold them all.

    Raises ColumnError for a type that it does not read.
    """
    for i, field in enumerate(table.schema):
        if pa.types.is_float16(field.type):
            table = table.set_column(i, field.name, table.column(i).cast(pa.float32()))
        elif _is_unread(field.type):
            raise ColumnError(
                f"column {field.name!r} has type {field.type}, which DuckDB does not read. Cast it "
                "to float64 or decimal128, or to text as a key."
            )
    return table


def _is_unread(kind: pa.DataType) -> bool:
    own = pa.types.is_float16(kind) or pa.types.is_decimal256(kind)
    return own or any(map(_is_unread, children(kind)))


def _is_time(kind: pa.DataType) -> bool:
    tests = (pa.types.is_timestamp, pa.types.is_duration, pa.types.is_time)
    return any(test(kind) for test in tests)


def _holds_times(kind: pa.DataType) -> bool:
    return any(_is_time(child) or _holds_times(child) for child in children(kind))


def _holdable(kind: pa.DataType) -> bool:
    return not _holds_times(kind) or (has_children(kind) and all(map(_holdable, children(kind))))


def _held(times: pa.Array) -> pa.Array:
    """Times out of all that SQL can hold, which would be errors, at the nearest it can."""
    kind = times.type
    if not _is_time(kind):
        return with_children(times, _held) if _holds_times(kind) else times
    first, last = _bounds(kind)
    numbers = times.view(pa.int32() if pa.types.is_time32(kind) else pa.int64())
    found = pc.min_max(numbers).as_py()
    if found["min"] is None or (first <= found["min"] and found["max"] <= last):
        return times
    wide = numbers.cast(pa.int64())
    near = pc.max_element_wise(pc.min_element_wise(wide, last, skip_nulls=False), first)
    near = pc.if_else(pc.is_valid(wide), near, None)
    if pa.types.is_timestamp(kind) and (kind.unit == "us" or kind.tz is None):
        infinite = pc.is_in(wide, pa.array([-INFINITY, INFINITY]))
        near = pc.if_else(infinite, wide, near)
    return near.cast(numbers.type).view(kind)


def _bounds(kind: pa.DataType) -> tuple[int, int]:
    """The first and the last number of a type of times that SQL can hold."""
    if pa.types.is_time(kind):
        return 0, DAY * 1_000 if kind.unit == "ns" else DAY // FACTORS[kind.unit]
    if kind.unit == "ns":
        return -INFINITY, INFINITY
    if pa.types.is_duration(kind):
        return -(INFINITY // FACTORS[kind.unit]), INFINITY // FACTORS[kind.unit]
    return -(-EARLIEST // FACTORS[kind.unit]), LATEST // FACTORS[kind.unit]


def _as_table(source: Any, wanted: Sequence[str]) -> pa.Table:
    columns = list(dict.fromkeys(wanted))
    if type(source).__module__.split(".")[0] == "narwhals":
        source = source.to_native()  # whose Python objects are read as such
    kind = type(source).__module__.split(".")[0]
    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    if isinstance(source, pa.Table):
        require(columns, source.column_names, alone=True)
        return source.select(columns)
    if kind == "pandas" and hasattr(source, "columns"):
        require(columns, list(source.columns), alone=True, index=list(source.index.names))
        return pa.table({name: from_pandas(source[name]) for name in columns})
    if kind == "polars" and hasattr(source, "collect_schema"):
        return _from_polars(source, columns)
    refuse_spark(source)
    if not is_foreign(source):
        raise no_frame(source)
    return foreign_table(source, columns)


def rows_of_frame(source: Any) -> int | None:
    """Of a frame that is in memory; None of another source."""
    if isinstance(source, pa.Table | pa.RecordBatch):
        return int(source.num_rows)
    kind = type(source)
    if kind.__name__ == "DataFrame" and kind.__module__.split(".")[0] in IN_MEMORY:
        return len(source)
    return None


IN_MEMORY = ("pandas", "polars")
"""Packages whose ``DataFrame`` knows its length."""


def computed(source: object, wanted: Sequence[str]) -> object:
    """A lazy frame, or one of another library, as a table, for whoever reads it more than once;
    other sources as they are."""
    if isinstance(source, Within):
        return replace(source, source=computed(source.source, [*wanted, source.column]))
    kind = type(source)
    lazy = kind.__name__ == "LazyFrame" and kind.__module__.partition(".")[0] == "polars"
    return arrow_table(source, wanted) if lazy or is_foreign(source) else source


def refuse_spark(source: object) -> None:
    """Raise ParameterTypeError for a frame of Spark, where Spark does not count."""
    where, name = type(source).__module__, type(source).__name__
    if where.startswith("pyspark.pandas"):
        raise ParameterTypeError(
            "a pandas-on-Spark frame is no source: pass frame.to_spark(), which Spark counts."
        )
    if where.split(".")[0] == "pyspark" and name == "DataFrame":
        raise ParameterTypeError(
            "a Spark DataFrame is a source for hhh, heavy_hitters, tree_counts and rollup, which "
            "count without fetching it: here pass frame.toArrow(), if it fits into memory, or the "
            "path of a Parquet file that the frame was written to."
        )


def _from_polars(source: Any, columns: list[str]) -> pa.Table:
    """From a frame or a lazy frame; what Polars says about a failing row is dropped."""
    import polars

    try:
        schema = source.collect_schema()
        require(columns, schema.names(), alone=True)
        check_arrow_types({name: schema[name] for name in columns})
        frame = source.lazy().select(columns).collect()
        objects = {  # Arrow would have their addresses in memory
            name: from_objects(frame[name].to_list())
            for name in columns
            if schema[name] == polars.Object
        }
        typed = frame.drop(*objects).to_arrow()
        return pa.table({n: objects[n] if n in objects else typed[n] for n in columns})
    except DpframeError:
        raise
    except (Exception, polars.exceptions.PanicException) as raised:
        error = type(raised).__name__
    raise SourceError(
        f"reading the Polars frame failed ({error}; its text is withheld, it can quote the data)."
    )


def from_pandas(series: Any) -> pa.Array:
    """A pandas column: what has a type keeps it, objects become text."""
    if series.dtype == object:
        return from_objects(series)
    categories = getattr(series.dtype, "categories", None)
    if categories is not None and categories.dtype == object:  # Arrow would guess their type
        codes = np.asarray(series.array.codes)
        return from_objects(list(categories)).take(pa.array(codes, mask=codes < 0))
    try:
        array = pa.Array.from_pandas(series)
        if not _is_extension(array.type):
            return array
    except Exception:  # text that is no unicode
        pass
    return each_as_text(series)


OWN_TYPES = ("PeriodDtype", "IntervalDtype")
"""Of pandas, which Arrow has no type for; complex numbers are others."""


def pandas_types(source: Any, wanted: Sequence[str]) -> dict[str, str]:
    """Columns of a pandas frame that are read as text though their dtype is another, and public,
    under the names of types that hierarchies know."""
    if type(source).__module__.split(".")[0] != "pandas":
        return {}
    found = {}
    for name in wanted:
        dtype = source[name].dtype
        if type(dtype).__name__ == "CategoricalDtype":
            dtype = dtype.categories.dtype
        if type(dtype).__name__ in OWN_TYPES or getattr(dtype, "kind", "") == "c":
            found[name] = f"PANDAS({dtype})"
    return found


def _is_extension(kind: pa.DataType) -> bool:
    """Periods and intervals, which SQL would show as their storage, also as categories."""
    stored = kind.value_type if pa.types.is_dictionary(kind) else kind
    return isinstance(stored, pa.BaseExtensionType)


def without_rows(source: Any) -> Any:
    """A frame in memory with its columns and their types alone; of a lazy one nothing is computed.

    Other sources tell their types without a row being read.
    """
    if isinstance(source, pa.Table | pa.RecordBatch):
        return source.slice(0, 0)
    package = type(source).__module__.partition(".")[0]
    if package == "pandas" and hasattr(source, "iloc"):
        return source.iloc[:0]
    if package == "polars" and hasattr(source, "clear"):
        return source.clear()
    return foreign_types(source) if is_foreign(source) else source
