"""The base class of the axes of a domain, halves of intervals, bits of several axes, and how values
are read: as Arrow arrays, each different text once in DuckDB.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpframe import _duck
from dpframe.common.texts import unicode
from dpframe.errors import ColumnError, HierarchyError
from dpframe.hierarchy import Hierarchy
from dpframe.hierarchy._base import level_key_sql
from dpframe.hierarchy._types import COMMON, READS, unreadable_type
from dpframe.noise import PublicRandom

Codes: TypeAlias = NDArray[np.uint64]
Counts: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]
Arrays: TypeAlias = tuple[pa.Array, ...]
Types: TypeAlias = tuple[pa.DataType, ...]

MAX_BITS = 48
"""Most halvings that stay exact in the 53 bits of a double."""

USUAL_BITS = 20
"""Halvings of an interval if no depth is given: down to a millionth of it."""


class Axis(ABC):
    """One column, or the columns of one hierarchy, as paths of at most ``bits`` bits."""

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Columns that the axis reads and gives back."""

    @property
    @abstractmethod
    def bits(self) -> int:
        """The most bits that a path can have."""

    @property
    def usual(self) -> int:
        """The most bits if no depth is given."""
        return self.bits

    @property
    @abstractmethod
    def spec(self) -> str:
        """The canonical text."""

    @abstractmethod
    def check_types(self, types: tuple[str, ...]) -> None:
        """Raise ColumnError if the DuckDB types of the columns cannot be read."""

    @abstractmethod
    def read(self, columns: Arrays, bits: int) -> tuple[Codes, Mask | None]:
        """Return a path of ``bits`` bits for each row, and which rows have one (None: all).
        Private."""

    @abstractmethod
    def draw(self, fixed: Counts, prefix: Codes, generator: PublicRandom, types: Types) -> Arrays:
        """Draw a value of every cell for each column. The first ``fixed`` bits of the value's path
        are ``prefix``."""

    @abstractmethod
    def label(self, fixed: int, prefix: int) -> str:
        """Return the label of a cell, for people."""

    def diameter(self, fixed: int) -> float:
        """Return the largest distance of two values that share ``fixed`` bits; 1 for the whole
        axis."""
        return 2.0**-fixed


def decoded_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values; for a dictionary, the type of its entries."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def is_text_type(kind: pa.DataType) -> bool:
    """Whether a plain type is text."""
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(test(kind) for test in tests)


def check_limit(kind: str, limit: object) -> None:
    """Raise HierarchyError unless ``limit`` is None or a possible number of halvings."""
    if limit is not None and (
        isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_BITS
    ):
        raise HierarchyError(
            f"{kind}: depth must be a whole number in 1 to {MAX_BITS}; got {limit!r}."
        )


def unreadable_column(kind: str, column: str, given: object, readable: str) -> ColumnError:
    """Return the error for a column of a type that an axis cannot read."""
    plain_type = str(given).split("<")[0]  # without parameters, which can be values of an ENUM
    reads = READS.get("date" if kind == "time" else kind)  # none for a list of keys
    advice = reads.advice if reads is not None else COMMON
    return unreadable_type(f"{kind} reads", column, plain_type, readable, advice)


def types_of_columns(columns: tuple[str, ...], types: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the types of some columns; ColumnError if a column does not exist."""
    for name in columns:
        if name not in types:
            raise ColumnError(f"column {name!r} does not exist.")
    return tuple(types[name] for name in columns)


# -- Weave the bits of several axes into one path, and take them apart, by small tables -----------


CHUNK = 11
"""Bits that one table moves: its 2048 words stay in the fastest cache."""


@dataclass(frozen=True, eq=False)
class Moves:
    """Tables that move the bits of a number to other places, and drop bits without a place."""

    tables: tuple[Codes, ...]

    @classmethod
    def of(cls, target: Sequence[int]) -> Moves:
        """Make tables that move bit i, from the lowest, to ``target[i]``, or drop it if that is
        negative."""
        tables = []
        for start in range(0, len(target), CHUNK):
            here = target[start : start + CHUNK]
            value = np.arange(1 << len(here), dtype=np.uint64)
            table = np.zeros(len(value), dtype=np.uint64)
            for i, place in enumerate(here):
                if place >= 0:
                    table |= ((value >> np.uint64(i)) & np.uint64(1)) << np.uint64(place)
            tables.append(table)
        return cls(tuple(tables))

    def add(self, numbers: Codes, out: Codes) -> None:
        """Write the moved bits of ``numbers`` into ``out``."""
        for i, table in enumerate(self.tables):
            part = numbers >> np.uint64(i * CHUNK) if i else numbers
            out |= table[(part & np.uint64(len(table) - 1)).view(np.int64)]


def axis_turns(bits: Sequence[int], depth: int) -> tuple[int, ...]:
    """Return the axis of each bit of a path: in turn all axes that have bits left."""
    left, out = list(bits), list[int]()
    while len(out) < depth:
        for axis in range(len(left)):
            if left[axis] and len(out) < depth:
                left[axis] -= 1
                out.append(axis)
    return tuple(out)


# -- Halve an interval: find the cell of a value, and draw a value of a cell ----------------------


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


Steps = tuple[dict[str, str], ...]


def single_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array; a dictionary is decoded."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):  # without chunks, in older Arrow
            column = pa.concat_arrays(column.chunks)
    if pa.types.is_dictionary(column.type):
        return column.dictionary_decode()
    return column


def distinct_values(column: pa.Array) -> tuple[pa.Array, Counts]:
    """Return the different values, NULL included, and the place of each row among them."""
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    if pa.types.is_null(column.type):
        column = column.cast(pa.string())
    encoded = column.dictionary_encode(null_encoding="encode")
    place = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return unicode(encoded.dictionary), place


def query_values(values: pa.Array, steps: Steps, answer: str, what: str = "a batch") -> pa.Table:
    """Compute the SQL ``answer`` for every value, in order. ``steps`` start from column ``c0``."""
    table = pa.table({"i": np.arange(len(values)), "c0": values})
    query = f"(SELECT i, c0 FROM {_duck.VIEW})"
    for step in steps:
        added = ", ".join(f"{sql} AS {name}" for name, sql in step.items())
        query = f"(SELECT *, {added} FROM {query})"
    with _duck.register_table(table, what) as relation:
        found = relation.query(f"SELECT i, {answer} FROM {query}", False)
    order = pc.sort_indices(found["i"])
    return found.drop_columns(["i"]).take(order).combine_chunks()


def arrow_duckdb_type(values: pa.Array) -> str:
    """Return DuckDB's name of the type of an array."""
    with _duck.register_table(pa.table({"c0": values[:0]}), "a batch") as relation:
        return relation.types[0]


def level_texts(values: pa.Array, hierarchy: Hierarchy) -> list[pa.Array]:
    """Return the nodes of different values of one column, as an array of texts for each level. NULL
    at level 1 means missing or malformed; below, it means that the value has no such level."""
    kind = arrow_duckdb_type(values)
    hierarchy.check_types((kind,))

    def text(level: int, columns: tuple[str, ...]) -> str:
        return f"CAST({hierarchy.texts(level, columns, (kind,))[0]} AS VARCHAR)"

    steps, texts = level_key_sql(hierarchy, ("k1",), text)
    named = ", ".join(f"{sql} AS t{level}" for level, sql in enumerate(texts, 1))
    found = query_values(values, (*hierarchy.key_steps(("c0",), (kind,)), *steps), named)
    return [single_array(column).cast(pa.large_string()) for column in found.columns]
