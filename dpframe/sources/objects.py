"""Write Python objects as text, and change Arrow values so that DuckDB can hold them.

**Python objects** of a column become text by rules for their types: equal objects, equal texts.

A user is a group of equal values. If one user had two texts, their rows would count as two users,
and the promise would be half as strong as stated. So only types whose equality is known are read,
and an object of any other type is missing (docs/known_limits.md).

**Values of Arrow arrays** are changed so that DuckDB can hold them, and none makes a statement
fail.

Arrow does not check what it is given: anything can stand below a NULL, text can be no UTF-8, a
decimal can be larger than its type, a map can name a key twice. DuckDB computes with such values,
raises, or closes its database. So each value is mapped by itself, before anything is counted
(docs/known_limits.md).
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import math
import pathlib
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from decimal import Context, Decimal, Inexact, localcontext
from enum import Enum
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpframe.common.texts import arrow_texts, decode_bytes, escape_bytes, unicode
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
        if len(column) < MANY:
            pieces = [_readable_array(chunk) for chunk in column.chunks]
        else:
            with ThreadPoolExecutor(min(pa.cpu_count(), column.num_chunks)) as threads:
                pieces = list(threads.map(_readable_array, column.chunks))
        empty = _readable_array(pa.nulls(0, column.type))
        columns.append(pa.chunked_array(pieces, empty.type))
    return pa.Table.from_arrays(columns, names=table.column_names)


MANY = 1_000_000
"""Rows from which pieces are looked at by several threads; starting these takes a millisecond."""


def _check_arrow_type(name: str, kind: pa.DataType) -> None:
    within = types_within(kind)
    unread = any(one.id in UNREAD for one in within)
    if unread and kind != pa.float16():
        raise ColumnError(
            f"column {name!r} has type {kind}, which DuckDB does not read. Cast it to float64 or "
            "decimal128, or a key to text."
        )
    if not all(map(_can_change, within)):
        raise ColumnError(
            f"column {name!r} has a union or a list view inside. Cast the column to text."
        )


def types_within(kind: pa.DataType) -> list[pa.DataType]:
    """A type, and the types inside of it, at any depth."""
    found = [kind]
    for outer in found:  # which grows
        found.extend(children(outer))
    return found


def _can_change(kind: pa.DataType) -> bool:
    """Whether dpframe can change the values of the type, if some inside may have to change."""
    known = _change_of(kind) is not None or has_children(kind)
    return known or not any(map(_change_of, types_within(kind)))


def _change_of(kind: pa.DataType) -> Callable[[pa.Array], pa.Array] | None:
    """The function that changes arrays of a type; None where at most the arrays inside change."""
    if isinstance(kind, pa.BaseExtensionType):
        return None if kind.extension_name in EXTENSIONS else _storage_of
    return CHANGES.get(kind.id)


def _storage_of(array: pa.ExtensionArray) -> pa.Array:
    return array.storage


def _readable_array(array: pa.Array) -> pa.Array:
    kind, change = array.type, _change_of(array.type)
    if change is not None:
        changed = change(array)
        return changed if changed.type == kind else _readable_array(changed)
    # fields inside, of structs and lists, can have metadata
    rebuilds = kind.num_fields > 0 or any(map(_change_of, types_within(kind)))
    return with_children(array, _readable_array) if rebuilds else array


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


def _widen_floats(array: pa.Array) -> pa.Array:
    return array.cast(pa.float32())


CHANGES: dict[int, Callable[[pa.Array], pa.Array]] = {
    **{kind.id: unicode for kind in arrow_texts()},
    pa.lib.Type_HALF_FLOAT: _widen_floats,
    pa.lib.Type_MAP: _list_of_pairs,
    pa.lib.Type_DECIMAL128: _bound_decimals,
    pa.lib.Type_DECIMAL32: _bound_small_decimals,
    pa.lib.Type_DECIMAL64: _bound_small_decimals,
    pa.lib.Type_TIMESTAMP: _bound_times,
    pa.lib.Type_DURATION: _bound_times,
    pa.lib.Type_TIME32: _bound_times,
    pa.lib.Type_TIME64: _bound_times,
}
"""How arrays change, by the number that Arrow gives their type."""

UNREAD = (pa.lib.Type_DECIMAL256, pa.lib.Type_HALF_FLOAT)
"""Types that DuckDB does not read."""


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


WHOLE = 2.0**127
"""Whole floating-point numbers below this are written as integers, as SQL writes them
(``text_sql``)."""

LARGEST = 2**1024 - 2**970
"""Whole numbers below this round to a finite floating-point number."""

DIGITS = 4000
"""Decimals with more digits before or behind the point are not written: that would take long."""


def texts_of_objects(values: Any) -> pa.Array:
    """Python objects as texts, each as SQL would write it; an object without a text is NULL."""
    if all(kind in AT_ONCE or kind.__name__ in MISSING for kind in set(map(type, values))):
        try:
            return pa.Array.from_pandas(values, type=pa.large_string())
        except Exception:  # text with lone surrogates, and a number that is no NaN
            pass
    return each_as_text(values)


AT_ONCE = (str, type(None), float)
"""Types of columns of texts, in which NaN stands for what is missing: Arrow reads these columns."""

MISSING = ("NaTType", "NAType")
"""Types of what is missing in pandas, by name, so that pandas need not be loaded."""


def each_as_text(values: Iterable[Any]) -> pa.Array:
    """Each object as text, independently of all other objects."""
    return pa.array(map(object_text, values), type=pa.large_string())


def object_text(value: Any) -> str | None:
    """The text of an object; None if it is missing, or its type has no texts.

    For texts and missing values this agrees with Arrow, which reads a column of texts at once:
    other rows decide which of the two reads a value.
    """
    try:
        return _text_or_raise(value)
    except Exception:  # an object can raise anything, and must not stop the other rows
        return None


def _text_or_raise(value: Any) -> str | None:
    """The text of an object; None if it is missing. Raises if its type is not read."""
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    kind = type(value)
    if value is None or kind.__name__ in MISSING:
        return None
    for kinds, text in TEXTS:
        if issubclass(kind, kinds):  # an object can claim another class than its type
            return text(value)
    if _package(kind) == "pandas":
        return OF_PANDAS[kind.__name__](value)
    raise TypeError


def _package(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _unicode_text(value: str) -> str:
    text = str.__str__(value)  # for an enum: its value
    return decode_bytes(text.encode("utf-8", "surrogatepass"))


def _number_text(value: Any) -> str | None:
    """The text of a number of a base type, None for NaN. Equal numbers have equal texts, whatever
    their types: 7, 7.0 and Decimal("7.00")."""
    if value != value:  # NaN
        return None
    if isinstance(value, Decimal) and value.is_finite() and abs(value.adjusted()) > DIGITS:
        raise OverflowError
    if not isinstance(value, int) and math.isinf(value):
        return repr(float(value))
    if value == int(value):
        whole = int(value)
        as_float = float(whole) if WHOLE <= abs(whole) < LARGEST else math.nan
        return repr(as_float) if as_float == whole else str(whole)
    if value == float(value):
        return repr(float(value))
    if isinstance(value, Fraction):
        value = _equal_decimal(value)
    return f"{value:f}".rstrip("0") if isinstance(value, Decimal) else str(value)


def _equal_decimal(value: Fraction) -> Decimal | Fraction:
    """A fraction as a decimal, if a decimal of at most DIGITS digits equals it; else unchanged."""
    with localcontext(prec=DIGITS) as context:
        exact = Decimal(value.numerator) / Decimal(value.denominator)
        return value if context.flags[Inexact] else exact


def _complex_text(number: complex) -> str | None:
    number += 0j  # no negative zero
    if number != number:
        return None
    return str(number) if number.imag else _number_text(number.real)


def _moment_text(value: dt.datetime) -> str | None:
    """The instant in UTC, so that equal instants of two zones have one text. None for a year that
    only pandas can hold."""
    if _package(type(value)) != "pandas":
        value = dt.datetime.combine(dt.datetime.date(value), dt.datetime.timetz(value))
    elif not 1 <= value.year <= 9999:
        return None
    return str(value if value.tzinfo is None else value.astimezone(dt.UTC))


def _time_of_day_text(value: dt.time) -> str | None:
    clock = dt.datetime.combine(dt.date.min, value)
    return None if clock.tzinfo else str(clock.time())  # a zone's offset depends on the day


def _duration_text(value: dt.timedelta) -> str:
    """A duration of Python or of pandas, which can have nanoseconds."""
    if _package(type(value)) != "pandas":
        return str(dt.timedelta.__pos__(value))
    whole = dt.timedelta(value.days, value.seconds, value.microseconds)
    return _duration_with_nanoseconds(whole, getattr(value, "nanoseconds", 0))


def _duration_with_nanoseconds(whole: dt.timedelta, nano: int) -> str:
    if not nano:
        return str(whole)
    clock = (dt.datetime(2000, 1, 1) + dt.timedelta(seconds=whole.seconds)).time()
    return f"{whole.days} days {clock}.{whole.microseconds:06}{nano:03}"


def _numpy_time_text(value: Any) -> str | None:
    """A time or duration of NumPy, of any unit, as Python or pandas writes it. None for NaT, and
    for a fraction of a nanosecond. Raises for a value that Python cannot hold, and for a number of
    months or years without a date."""
    value = np.datetime64(value) if isinstance(value, np.datetime64) else np.timedelta64(value)
    if np.isnat(value):
        return None
    unit, count = np.datetime_data(value.dtype)
    if unit in ("Y", "M") and value.dtype.kind == "M":
        value, unit, count = value.astype("datetime64[D]"), "D", 1
    parts = int(value.astype(np.int64)) * count * ATTOSECONDS[unit]
    nano, finer = divmod(parts, ATTOSECONDS["ns"])
    if finer:
        return None
    micro, nano = divmod(nano, 1_000)
    whole = dt.timedelta(microseconds=micro)
    if value.dtype.kind == "m":
        return _duration_with_nanoseconds(whole, nano)
    moment = dt.datetime(1970, 1, 1) + whole
    return f"{moment.isoformat(' ', 'microseconds')}{nano:03}" if nano else str(moment)


ATTOSECONDS = {
    **{u: 1_000**power for power, u in enumerate(("as", "fs", "ps", "ns", "us", "ms", "s"))},
    "m": 60 * 10**18,
    "h": 3_600 * 10**18,
    "D": 86_400 * 10**18,
    "W": 604_800 * 10**18,
}
"""Attoseconds of NumPy's units, without years and months, whose lengths differ."""


def _interval_text(value: Any) -> str:
    left, right = _text_or_raise(value.left), _text_or_raise(value.right)
    return f"{'(['[value.closed_left]}{left}, {right}{')]'[value.closed_right]}"


def _item_texts(values: Iterable[Any]) -> list[str]:
    """The texts of a container's elements, texts in quotes: ("a, b",) is not ("a", "b")."""
    texts = [(type(value), _text_or_raise(value)) for value in values]
    return [repr(text) if issubclass(kind, QUOTED) else str(text) for kind, text in texts]


def _tuple_text(value: tuple[Any, ...]) -> str:
    items = _item_texts(tuple.__iter__(value))
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


def _list_text(value: list[Any]) -> str:
    return f"[{', '.join(_item_texts(list.__iter__(value)))}]"


def _array_text(value: Any) -> str | None:
    of_numpy = _package(type(value)) == "numpy"  # a masked array has missing values
    return object_text(value.tolist() if of_numpy else np.ndarray.tolist(value))


def _set_text(items: Iterable[Any]) -> str:
    return "{" + ", ".join(sorted(_item_texts(items))) + "}"


def _dict_text(value: dict[Any, Any]) -> str:
    pairs = zip(_item_texts(dict.__iter__(value)), _item_texts(dict.values(value)), strict=True)
    return "{" + ", ".join(sorted(f"{key}: {item}" for key, item in pairs)) + "}"


QUOTED = (str, bytes, bytearray, memoryview)

ALL = slice(None)

TEXTS: tuple[tuple[Any, Callable[[Any], str | None]], ...] = (
    (str, _unicode_text),
    ((bool, np.bool_), lambda value: str(bool(value)).lower()),
    ((np.datetime64, np.timedelta64), _numpy_time_text),  # a kind of whole number to NumPy
    (int, lambda value: _number_text(int.__int__(value))),
    (float, lambda value: _number_text(float.__float__(value))),
    ((np.integer, np.floating), lambda value: _number_text(np.generic.item(value))),
    (Decimal, lambda value: _number_text(Decimal(value))),
    (Fraction, lambda value: _number_text(Fraction.__pos__(value))),
    (bytes, lambda value: escape_bytes(bytes.__getitem__(value, ALL))),
    (bytearray, lambda value: escape_bytes(bytes(bytearray.__getitem__(value, ALL)))),
    (memoryview, lambda value: escape_bytes(bytes(value))),
    (uuid.UUID, uuid.UUID.__str__),
    (dt.datetime, _moment_text),
    (dt.date, dt.date.isoformat),
    (dt.time, _time_of_day_text),
    (dt.timedelta, _duration_text),
    (ipaddress.IPv4Interface, ipaddress.IPv4Interface.__str__),
    (ipaddress.IPv6Interface, ipaddress.IPv6Interface.__str__),
    (ipaddress.IPv4Address, ipaddress.IPv4Address.__str__),
    (ipaddress.IPv6Address, ipaddress.IPv6Address.__str__),
    (ipaddress.IPv4Network, ipaddress.IPv4Network.__str__),
    (ipaddress.IPv6Network, ipaddress.IPv6Network.__str__),
    (Enum, lambda value: f"{type(value).__name__}.{value._name_}"),
    (pathlib.PurePosixPath, pathlib.PurePosixPath.__str__),
    (pathlib.PureWindowsPath, lambda value: pathlib.PureWindowsPath.__str__(value).lower()),
    (complex, lambda value: _complex_text(complex.__complex__(value))),
    (np.complexfloating, lambda value: _complex_text(complex(np.generic.item(value)))),
    (tuple, _tuple_text),
    (list, _list_text),
    (np.ndarray, _array_text),
    (set, lambda value: _set_text(set.__iter__(value))),
    (frozenset, lambda value: _set_text(frozenset.__iter__(value))),
    (dict, _dict_text),
)
"""How objects of a type are written. The first type that fits decides. Equal objects have one text,
with two exceptions: truth values are no numbers, and a subclass can define its own equality.

A subclass is read by the methods of its base type, so that what it makes of its own text, number or
elements is not asked for, and cannot give one value two texts."""

OF_PANDAS: dict[str, Callable[[Any], str]] = {"Period": str, "Interval": _interval_text}
"""How pandas objects are written, by the name of their class, so that pandas need not be loaded."""
