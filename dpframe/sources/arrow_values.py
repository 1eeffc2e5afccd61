"""Change values of Arrow arrays so that DuckDB can hold them, and none makes a statement fail.

Arrow does not check what it is given: anything can stand below a NULL, text can be no UTF-8, a
decimal can be larger than its type, a map can name a key twice. DuckDB computes with such values,
raises, or closes its database. So each value is mapped by itself, before anything is counted
(docs/known_limits.md).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Context, Decimal

import pyarrow as pa
import pyarrow.compute as pc

from dpframe._unicode import is_arrow_text, unicode
from dpframe.errors import ColumnError

EARLIEST, LATEST, INFINITY = -9_223_372_022_400_000_000, 2**63 - 2, 2**63 - 1
"""The first and last microsecond since 1970 that SQL can hold, and the one it reads as infinity."""

DAY = 86_400_000_000
"""The latest time of the day, in microseconds."""

FACTORS = {"s": 10**6, "ms": 10**3, "us": 1}
"""Microseconds in each unit. With nanoseconds, only times of the day can be out of range."""

EXTENSIONS = ("arrow.uuid", "arrow.bool8")
"""Extension types that DuckDB reads and that have no malformed values. Other extension types are
read as their storage."""


def readable_table(table: pa.Table) -> pa.Table:
    """A table of types and values that DuckDB can hold, without metadata of fields.

    Raises ColumnError for a name with a NUL, and for a type that cannot be read or changed.
    """
    columns = []
    for field, column in zip(table.schema, table.columns, strict=True):
        if "\0" in field.name:
            raise ColumnError(f"column {field.name!r} has a NUL in its name. Rename it.")
        if pa.types.is_run_end_encoded(column.type):
            column = pa.chunked_array(map(pc.run_end_decode, column.chunks), column.type.value_type)
        _check_arrow_type(field.name, column.type)
        empty = _readable_array(pa.nulls(0, column.type))
        columns.append(pa.chunked_array(_readable_chunks(column), empty.type))
    return pa.Table.from_arrays(columns, names=table.column_names)


MANY = 1_000_000
"""Rows from which pieces are looked at by several threads; starting these takes a millisecond."""


def _readable_chunks(column: pa.ChunkedArray) -> list[pa.Array]:
    if len(column) < MANY:
        return [_readable_array(chunk) for chunk in column.chunks]
    with ThreadPoolExecutor(min(pa.cpu_count(), column.num_chunks)) as threads:
        return list(threads.map(_readable_array, column.chunks))


def _check_arrow_type(name: str, kind: pa.DataType) -> None:
    if _has_unread_type(kind) and not pa.types.is_float16(kind):
        raise ColumnError(
            f"column {name!r} has type {kind}, which DuckDB does not read. Cast it to float64 or "
            "decimal128, or a key to text."
        )
    if not _can_change_all(kind):
        raise ColumnError(
            f"column {name!r} has a union or a list view inside. Cast the column to text."
        )


def _has_unread_type(kind: pa.DataType) -> bool:
    own = pa.types.is_decimal256(kind) or pa.types.is_float16(kind)
    return own or any(map(_has_unread_type, children(kind)))


def _can_change_all(kind: pa.DataType) -> bool:
    """Whether dpframe can change all values of the type that may have to change."""
    if not _may_change(kind):
        return True
    within = children(kind)
    known = _change_of(kind) is not None or (has_children(kind) and len(within) > 0)
    return known and all(map(_can_change_all, within))


def _may_change(kind: pa.DataType) -> bool:
    """Whether values of a type, or of a type inside it, may have to change."""
    return _change_of(kind) is not None or any(map(_may_change, children(kind)))


def _change_of(kind: pa.DataType) -> Callable[[pa.Array], pa.Array] | None:
    """The function that changes arrays of a type; None where at most the arrays inside change."""
    if isinstance(kind, pa.BaseExtensionType):
        return None if kind.extension_name in EXTENSIONS else lambda array: array.storage
    return next((change for is_kind, change in CHANGES if is_kind(kind)), None)


def _readable_array(array: pa.Array) -> pa.Array:
    change = _change_of(array.type)
    if change is not None:
        changed = change(array)
        return changed if changed.type == array.type else _readable_array(changed)
    return with_children(array, _readable_array) if _must_rebuild(array.type) else array


def _must_rebuild(kind: pa.DataType) -> bool:
    """Whether values may have to change, or fields inside (of structs and lists) have metadata."""
    return kind.num_fields > 0 or _may_change(kind)


def _list_of_pairs(maps: pa.Array) -> pa.Array:
    """A map as a list of keys and values: DuckDB does not compare the keys of a list."""
    kind, buffers = pa.list_(maps.type.field(0).type), maps.buffers()[:2]
    return pa.Array.from_buffers(
        kind, len(maps), buffers, offset=maps.offset, children=[maps.values]
    )


def _bound_decimals(array: pa.Array) -> pa.Array:
    """Decimals, with NULL for each that has more digits than its type."""
    kind, context = array.type, Context(prec=80)
    most = context.scaleb(Decimal(10**kind.precision - 1), -kind.scale)
    low, high = pa.scalar(most.copy_negate(), kind), pa.scalar(most, kind)
    beyond = pc.or_(pc.less(array, low), pc.greater(array, high))
    array = pc.if_else(pc.fill_null(beyond, False), pa.scalar(None, kind), array)
    return _zero_below_nulls(array, pa.scalar(Decimal(0), kind))


def _bound_small_decimals(array: pa.Array) -> pa.Array:
    """Decimals of 32 and 64 bits, with NULL for each whose stored number has too many digits."""
    kind, most = array.type, 10**array.type.precision - 1
    numbers = array.view(pa.int32() if pa.types.is_decimal32(kind) else pa.int64())
    beyond = pc.or_(pc.less(numbers, -most), pc.greater(numbers, most))
    numbers = pc.if_else(pc.fill_null(beyond, False), pa.scalar(None, numbers.type), numbers)
    return _zero_below_nulls(numbers, pa.scalar(0, numbers.type)).view(kind)


def _bound_times(times: pa.Array) -> pa.Array:
    """Times, each moved to the nearest time that SQL can hold: DuckDB raises at others. Infinite
    timestamps stay."""
    kind = times.type
    first, last = _time_limits(kind)
    numbers = times.view(pa.int32() if pa.types.is_time32(kind) else pa.int64())
    found = pc.min_max(numbers).as_py()
    if found["min"] is not None and not (first <= found["min"] and found["max"] <= last):
        wide = numbers.cast(pa.int64())
        near = pc.max_element_wise(pc.min_element_wise(wide, last, skip_nulls=False), first)
        near = pc.if_else(pc.is_valid(wide), near, None)
        if pa.types.is_timestamp(kind) and (kind.unit == "us" or kind.tz is None):
            infinite = pc.is_in(wide, pa.array([-INFINITY, INFINITY]))
            near = pc.if_else(infinite, wide, near)
        numbers = near.cast(numbers.type)
    return _zero_below_nulls(numbers, pa.scalar(0, numbers.type)).view(kind)


def _zero_below_nulls(array: pa.Array, zero: pa.Scalar) -> pa.Array:
    """The array with zeros below its NULLs, since DuckDB computes with the values there."""
    if not array.null_count:
        return array
    valid = pc.is_valid(array).buffers()[1]
    return pa.Array.from_buffers(
        array.type, len(array), [valid, pc.fill_null(array, zero).buffers()[1]]
    )


def _time_limits(kind: pa.DataType) -> tuple[int, int]:
    """The first and last stored number that SQL can hold, for a type of times."""
    if pa.types.is_time(kind):
        return 0, DAY * 1_000 if kind.unit == "ns" else DAY // FACTORS[kind.unit]
    if kind.unit == "ns":
        return -INFINITY, INFINITY
    if pa.types.is_duration(kind):
        return -(INFINITY // FACTORS[kind.unit]), INFINITY // FACTORS[kind.unit]
    return -(-EARLIEST // FACTORS[kind.unit]), LATEST // FACTORS[kind.unit]


CHANGES: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], pa.Array]], ...] = (
    (is_arrow_text, unicode),
    (pa.types.is_float16, lambda array: array.cast(pa.float32())),
    (pa.types.is_map, _list_of_pairs),
    (pa.types.is_decimal128, _bound_decimals),
    (pa.types.is_decimal32, _bound_small_decimals),
    (pa.types.is_decimal64, _bound_small_decimals),
    (pa.types.is_timestamp, _bound_times),
    (pa.types.is_duration, _bound_times),
    (pa.types.is_time, _bound_times),
)


# -- arrays with other children ------------------------------------------------------------------

LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_map)


def has_children(kind: pa.DataType) -> bool:
    """Whether ``with_children`` can change the children of a type."""
    wraps = pa.types.is_dictionary(kind) or isinstance(kind, pa.BaseExtensionType)
    return wraps or pa.types.is_struct(kind) or any(is_kind(kind) for is_kind in LISTS)


def children(kind: pa.DataType) -> list[pa.DataType]:
    """The types inside of a type."""
    if pa.types.is_dictionary(kind):
        return [kind.value_type]
    if isinstance(kind, pa.BaseExtensionType):
        return [kind.storage_type]
    return [kind.field(i).type for i in range(kind.num_fields)]


def with_children(array: pa.Array, change: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """An array whose children are changed, of a slice too; itself if it has none. What holds the
    children stays as it is, so that a value beside a changed one is the same value."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        values = change(array.dictionary)
        return pa.DictionaryArray.from_arrays(array.indices, values, ordered=kind.ordered)
    if isinstance(kind, pa.BaseExtensionType):
        storage = change(array.storage)
        same = storage.type == kind.storage_type
        return pa.ExtensionArray.from_storage(kind, storage) if same else storage
    if pa.types.is_struct(kind):
        fields = [change(array.field(i)) for i in range(kind.num_fields)]
        there = array.is_valid().to_numpy(zero_copy_only=False)  # fields of a slice start at 0
        nulls = int((~there).sum())  # counted: Arrow must know that entries of a map have none
        own = [pa.array(there).buffers()[1] if nulls else None]
        named = [pa.field(kind.field(i).name, field.type) for i, field in enumerate(fields)]
        return pa.Array.from_buffers(pa.struct(named), len(array), own, nulls, children=fields)
    if any(is_kind(kind) for is_kind in LISTS):
        own = array.buffers()[: 1 if pa.types.is_fixed_size_list(kind) else 2]
        values = change(array.values)  # all of them, also of a slice
        kind = _list_of(kind, values.type)
        return pa.Array.from_buffers(kind, len(array), own, offset=array.offset, children=[values])
    return array


def _list_of(kind: pa.DataType, inside: pa.DataType) -> pa.DataType:
    """The same kind of list with another type inside; a map keeps its own."""
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(inside, kind.list_size)
    if pa.types.is_map(kind):
        return kind
    return pa.large_list(inside) if pa.types.is_large_list(kind) else pa.list_(inside)
