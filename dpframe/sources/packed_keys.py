"""SQL of records as a stream, and keys of whole numbers as sketches count them.

**SQL** of records as a stream has one row per record, in the source's order, and one key per level.

Keys are those of ``rollup_statement``, and rows are not grouped. The statement of ``stream_sql``
reads the source once and returns ``l1, l2, ...``: the record's node at each level as text, NULL
where the record does not reach the level (:mod:`dpframe.hierarchy._base`). Where texts repeat
often, it is cheaper to read them unchanged (``texts_sql``) and to find the keys of each text once
(``keys_sql``).

**Columns of whole numbers** have keys that sketches count fastest: one number per node.

A node of level l is the codes of its first l columns, in separate bits. The code of a number is its
distance from a low number. Columns get the bits that the first batch needs, and share what is left
of 63. If later values do not fit, sketches go on with texts. At the end each number becomes the one
text that the SQL has for the node, so that a sketch is as if it had counted texts from the start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpframe._duck import VIEW, register_table
from dpframe.budget import PrivacyUnit
from dpframe.common.texts import ascending_order, unicode
from dpframe.hierarchy import Hierarchy
from dpframe.hierarchy._base import level_key_sql, pack_key
from dpframe.hierarchy._cells import Columns
from dpframe.sketches import MisraGries
from dpframe.sources.cell_leaves import (
    add_columns,
    add_key_steps,
    finest_columns,
    source_columns,
    user_sample_ctes,
)
from dpframe.sources.rollup_statement import exact_column_sql, source_sql, user_pairs


def stream_sql(hierarchy: Hierarchy, *, types: tuple[str, ...]) -> str:
    """A query of the keys of every record; ``types`` are the DuckDB types of
    ``hierarchy.source_columns``."""
    named = zip(hierarchy.source_columns, types, strict=True)
    chosen = ", ".join(
        f"{exact_column_sql(column, t)} AS c{i}" for i, (column, t) in enumerate(named)
    )
    keyed = (
        f"(SELECT {', '.join(finest_columns(hierarchy))} FROM "
        f"{_finest_key_query(hierarchy, chosen, types)})"
    )
    return _level_keys_query(hierarchy, types, keyed, "")


def texts_sql(hierarchy: Hierarchy) -> str:
    """A query of the one text column of a hierarchy, for ``keys_sql``."""
    (column,) = hierarchy.source_columns
    return f"SELECT {exact_column_sql(column, 'VARCHAR')} AS c0 FROM {VIEW}"


def keys_sql(hierarchy: Hierarchy) -> str:
    """A query of the keys of distinct texts ``c0``, numbered by ``i``, without dropped texts."""
    types = ("VARCHAR",)
    keyed = _finest_key_query(hierarchy, "i, c0 COLLATE C AS c0", types)
    finest = ", ".join(finest_columns(hierarchy))
    return f"WITH keyed AS MATERIALIZED (SELECT i, {finest} FROM {keyed}) " + _level_keys_query(
        hierarchy, types, "keyed", 'i AS "i", '
    )


def users_sql(
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    *,
    types: tuple[str, ...],
    user_type: str | None,
    seed: int,
) -> str:
    """A query of every user's counted rows (or different items), sampled as in the rollup.

    Column ``u`` numbers the users in ascending order. Rows are sorted by user and key, so that the
    order of some users' rows tells nothing about another user.
    """
    source, types = source_sql(hierarchy, unit, types=types, user_type=user_type, view=VIEW)
    keys = ", ".join(finest_columns(hierarchy))
    pairs = user_pairs(hierarchy, types)
    if unit.contribution == "items":  # each item once, however often it comes
        pairs[-1] = f"pairs AS (SELECT DISTINCT u, {keys}, 1 AS m FROM keyed)"
    parts = [source, *pairs, *user_sample_ctes(keys, unit, seed)]
    ranked = f"(SELECT dense_rank() OVER (ORDER BY u ASC NULLS FIRST) AS u, {keys} FROM bounded)"
    order = ascending_order(
        "u", *(f"l{level}" for level in range(1, hierarchy.height + 1)), nulls="FIRST"
    )
    rows = _level_keys_query(hierarchy, types, ranked, 'u AS "u", ')
    return f"WITH {', '.join(parts)} {rows} ORDER BY {order}"


def _finest_key_query(hierarchy: Hierarchy, chosen: str, types: tuple[str, ...]) -> str:
    """A subquery of the chosen columns and the finest key."""
    query = f"(SELECT {chosen} FROM {VIEW})"
    return add_key_steps(hierarchy, source_columns(hierarchy), types, query)


def _level_keys_query(hierarchy: Hierarchy, types: tuple[str, ...], query: str, kept: str) -> str:
    """A query of the keys of all levels, from the finest key."""
    finest = finest_columns(hierarchy)
    where = ""
    if hierarchy.on_invalid == "drop":
        where = " WHERE " + " AND ".join(f"{key} IS NOT NULL" for key in finest)

    def key(level: int, columns: tuple[str, ...]) -> str:
        return pack_key(hierarchy.texts(level, columns, types)[: len(columns)])

    steps, keys = level_key_sql(hierarchy, finest, key)
    for step in steps:
        query = add_columns(query, step)
    selects = [f'{sql} AS "l{level}"' for level, sql in enumerate(keys, 1)]
    return f"SELECT {kept}{', '.join(selects)} FROM {query}{where}"


BITS = 63
"""Bits of a key; with one more bit a key could be negative."""

NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
"""Types whose values are whole numbers from -2^63 to 2^63 - 1."""


def packable(hierarchy: Hierarchy, types: tuple[str, ...]) -> bool:
    """Whether every level has its own column, of whole numbers."""
    return isinstance(hierarchy, Columns) and set(types) <= set(NUMBERS)


def values_sql(hierarchy: Hierarchy, types: tuple[str, ...]) -> str:
    """A query of the columns of the levels, of the rows that the hierarchy keeps."""
    named = zip(hierarchy.source_columns, types, strict=True)
    read = [f"{exact_column_sql(name, kind)}::BIGINT" for name, kind in named]
    where = ""
    if hierarchy.on_invalid == "drop":
        where = " WHERE " + " AND ".join(f"{sql} IS NOT NULL" for sql in read)
    chosen = ", ".join(f"{sql} AS c{i}" for i, sql in enumerate(read))
    return f"SELECT {chosen} FROM {VIEW}{where}"


@dataclass(frozen=True, slots=True)
class NumberCodes:
    """Codes of a column: its numbers less ``low``, in ``bits`` bits; the largest code is NULL."""

    low: int
    bits: int

    @property
    def null(self) -> int:
        return (1 << self.bits) - 1

    def of(self, column: pa.Array) -> NDArray[np.int64] | None:
        """The code of every value; None if some value does not fit."""
        low, high = value_range(column)
        if low < self.low or high - self.low >= self.null:
            return None
        return self.of_fitting(column)

    def of_fitting(self, column: pa.Array) -> NDArray[np.int64]:
        """The code of every value of a column whose values all fit."""
        filled = column.fill_null(self.low).to_numpy(zero_copy_only=False)
        numbers: NDArray[np.int64] = filled.astype(np.int64)
        numbers -= np.int64(self.low)
        if column.null_count:
            numbers[column.is_null().to_numpy(zero_copy_only=False)] = self.null
        return numbers

    def values(self, codes: NDArray[np.int64]) -> pa.Array:
        """The values that the codes stand for."""
        missing = codes == self.null
        return pa.array(np.where(missing, 0, codes) + np.int64(self.low), pa.int64(), mask=missing)


def value_range(column: pa.Array | pa.ChunkedArray) -> tuple[int, int]:
    """The smallest and the largest value; 0 and 0 if there is no value."""
    found = pc.min_max(column).as_py()
    return (0, 0) if found["min"] is None else (found["min"], found["max"])


def codes_for(batch: pa.RecordBatch) -> list[NumberCodes] | None:
    """Codes with room for a batch, and for similar batches; None if 63 bits are too few."""
    ends = [value_range(column) for column in batch.columns]
    needed = [(high - low + 2).bit_length() for low, high in ends]
    spare = (BITS - sum(needed)) // len(needed)
    if spare < 0:
        return None
    out = []
    for (low, high), least in zip(ends, needed, strict=True):
        bits = least + spare
        start = max(low - (2**bits - 2 - (high - low)) // 2, -(2**63))
        out.append(NumberCodes(start, bits))
    return out


class PackedKeyCounter:
    """Counts batches of ``values_sql`` into sketches that hold no record yet."""

    def __init__(self, sketches: Sequence[MisraGries], hierarchy: Hierarchy) -> None:
        self._sketches, self._hierarchy = sketches, hierarchy
        self._codes: list[NumberCodes] | None = None
        self._texts = False

    def update(self, batch: pa.RecordBatch) -> None:
        """Count the rows of a batch."""
        if not batch.num_rows:
            return
        if self._codes is None and not self._texts:
            self._codes = codes_for(batch)
        keys: Sequence[Any] | None = self._pack_rows(batch)
        if keys is None:
            self.finish()
            keys = texts_by_level(self._hierarchy, batch.columns)
        for sketch, own in zip(self._sketches, keys, strict=True):
            sketch.update(own)

    def _pack_rows(self, batch: pa.RecordBatch) -> list[NDArray[np.int64]] | None:
        """For each level, the nodes of all rows; None if a value does not fit."""
        if self._codes is None:
            return None
        out, above = [], np.zeros(batch.num_rows, dtype=np.int64)
        for column, codes in zip(batch.columns, self._codes, strict=True):
            own = codes.of(column)
            if own is None:
                return None
            above = (above << np.int64(codes.bits)) | own
            out.append(above)
        return out

    def finish(self) -> None:
        """Make the sketches hold texts from here on."""
        if self._codes is not None:
            for level, sketch in enumerate(self._sketches, 1):
                sketch._rename("text", partial(self._unpack_keys, level=level))
        self._codes, self._texts = None, True

    def _unpack_keys(self, keys: pa.Array, level: int) -> pa.Array:
        """The texts of a level's nodes."""
        assert self._codes is not None
        numbers, values = keys.to_numpy(zero_copy_only=False), []
        for codes in reversed(self._codes[:level]):
            values.append(codes.values(numbers & np.int64(codes.null)))
            numbers = numbers >> np.int64(codes.bits)
        below = [pa.nulls(len(keys), pa.int64()) for _ in self._codes[level:]]
        return texts_by_level(self._hierarchy, [*reversed(values), *below])[level - 1]


def texts_by_level(hierarchy: Hierarchy, values: Sequence[pa.Array]) -> list[pa.Array]:
    """The texts of the nodes of rows, one array per level, from the values of the columns."""
    assert isinstance(hierarchy, Columns)
    every = replace(hierarchy, invalid="count")  # rows to drop are gone already
    types = ("BIGINT",) * len(values)
    table = pa.table(dict(zip(hierarchy.source_columns, values, strict=True)))
    with register_table(table, "the keys of a batch") as relation:
        batches = list(relation.batches(stream_sql(every, types=types)))
    found = pa.Table.from_batches(batches) if batches else None
    if found is None:
        return [pa.array([], pa.large_string()) for _ in values]
    return [unicode(c.cast(pa.large_string()).combine_chunks()) for c in found.columns]
