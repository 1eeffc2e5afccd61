"""Addresses of a column of texts as numbers in order, in NumPy.

SQL groups the texts, reads each once, and groups what it read; where most texts differ, their
groups take most of the time. Here the bytes of every row are read, which takes less than a group.

The counts are those of :mod:`dpframe.sources.record_leaves`: what the reader of bytes does not know
is read by the same expressions. So the way may depend on the data, and does: on how many of the
first texts differ, and on how many are no plain addresses. Were the counts others, a record that
changes the way could change what all others count.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe import _compute as pc
from dpframe._duck import VIEW, Relation, register
from dpframe._duck.limits import wanted
from dpframe.hierarchy._ip import Ip
from dpframe.sources.address_bytes import dotted
from dpframe.sources.record_leaves import keyed
from dpframe.sources.rollup_statement import exact

FIRST, LAST = 2**16, 2**20
"""Rows after which it is asked, doubling them, whether most texts are new."""

NEW = 0.1
"""Of the rows so far those with an address that no other one has; if fewer, SQL is faster."""

HELD = 2**24
"""Rows that are held before they are counted."""

MOST = 2**26
"""Different addresses that are held: 1 GB, with what counting takes."""

ODD = 2**22
"""Texts that are left to SQL, each once a batch of rows."""

Numbers = NDArray[np.uint32]
Counts = NDArray[np.int64]

ALL = 2**64 - 1


@dataclass(frozen=True, slots=True)
class AddressRows:
    """How many rows the finest keys have: those of IPv4 in order, each once, and others.

    ``rest`` has the columns ``high`` and ``low``, the words of a key, NULL for ``<invalid>``, and
    n; a key can have several rows.
    """

    four: Numbers
    n: Counts
    rest: pa.Table


def address_rows(relation: Relation, hierarchy: Ip, *, progress: bool) -> AddressRows | None:
    """The finest keys of rows of text. Private. None where SQL has to find them, or is faster."""
    if "DPFRAME_MEMORY_LIMIT" in wanted():  # which DuckDB heeds
        return None
    if not relation.repeats():
        return None
    read = Reader(hierarchy)
    statement = f"SELECT {exact(hierarchy.column, 'VARCHAR')} AS c0 FROM {VIEW}"
    with closing(relation.pieces(statement, progress)) as pieces:
        for piece in pieces:
            read.add(piece.column(0))
            if read.is_for_sql():
                return None
    return read.finish()


class Reader:
    """Counts batches of texts."""

    def __init__(self, hierarchy: Ip) -> None:
        self._hierarchy = hierarchy
        self._held: list[Numbers] = []
        self._rows = self._held_rows = self._invalid = self._odd_texts = 0
        self._odd: list[pa.StructArray] = []
        self._four, self._n = np.empty(0, np.uint32), np.empty(0, np.int64)
        self._ask = FIRST

    def add(self, texts: pa.Array) -> None:
        """Count rows."""
        self._rows += len(texts)
        if texts.null_count:
            self._invalid += texts.null_count
            texts = texts.drop_null()
        numbers, plain = dotted(texts)
        if plain is not None:
            odd = pc.value_counts(texts.filter(pa.array(~plain)))
            self._odd_texts += len(odd)
            self._odd.append(odd)
        self._add_four(numbers)

    def _add_four(self, numbers: Numbers) -> None:
        if self._hierarchy.version == 6:
            self._invalid += len(numbers)
            return
        below = 32 - self._hierarchy.prefixes[-1]
        if below:
            numbers = numbers >> np.uint32(below) << np.uint32(below)
        self._held.append(numbers)
        self._held_rows += len(numbers)
        if self._held_rows > HELD:
            self._fold()

    def _fold(self) -> None:
        rows = np.concatenate([*self._held, np.empty(0, np.uint32)])
        self._held, self._held_rows = [], 0
        rows.sort()
        starts = starts_of(rows)
        n = np.diff(starts, append=len(rows))
        self._four, self._n = added((self._four, self._n), (rows[starts], n))

    def is_for_sql(self) -> bool:
        """Whether SQL should count, as far as can be seen."""
        if self._odd_texts > ODD or len(self._four) > MOST:
            return True
        if not self._ask <= self._rows or self._ask > LAST:
            return False
        self._ask *= 2
        rows = np.concatenate(self._held)
        rows.sort()
        alone = np.diff(starts_of(rows), append=len(rows)) == 1
        return int(alone.sum()) < NEW * self._rows

    def finish(self) -> AddressRows:
        """What all rows count."""
        self._fold()
        four, rest = self._read_by_sql()
        keys, n = added((self._four, self._n), four)
        if self._invalid and self._hierarchy.on_invalid == "count":
            invalid = pa.table([[None], [None], [self._invalid]], schema=REST)
            rest = pa.concat_tables([rest, invalid])
        return AddressRows(keys, n, rest)

    def _read_by_sql(self) -> tuple[tuple[Numbers, Counts], pa.Table]:
        """Keys of the texts that are not read here, of IPv4 and others."""
        if not self._odd:
            return (self._four[:0], self._n[:0]), REST.empty_table()
        texts, n = zip(*(odd.flatten() for odd in self._odd), strict=True)
        counted = pa.table({"c0": pa.chunked_array(texts), "n": pa.chunked_array(n)})
        rows = f"(SELECT c0 COLLATE C AS c0, n FROM {VIEW})"
        statement = (
            f"SELECT (k1 >> 32 = {0xFFFF}) IS TRUE AS four, (k1 >> 64)::UBIGINT AS high, "
            f"(k1 & {ALL}::UHUGEINT)::UBIGINT AS low, sum(n)::BIGINT AS n "
            f"FROM ({keyed(self._hierarchy, ('VARCHAR',), rows, 'n')}) GROUP BY k1 "
            "ORDER BY k1 ASC NULLS LAST"
        )
        with register(counted, "texts of addresses") as relation:
            read = relation.query(statement, False)
        four, rest = read.filter(read["four"]), read.filter(pc.invert(read["four"]))
        keys = four["low"].to_numpy().astype(np.uint32)  # the lower half of the word
        return (keys, four["n"].to_numpy()), rest.select(REST.names).cast(REST)


REST = pa.schema([("high", pa.uint64()), ("low", pa.uint64()), ("n", pa.int64())])


def added(one: tuple[Numbers, Counts], other: tuple[Numbers, Counts]) -> tuple[Numbers, Counts]:
    """Keys in order, each once, with what both count."""
    if not len(one[0]) or not len(other[0]):
        return one if len(one[0]) else other
    keys = np.concatenate([one[0], other[0]])
    order = np.argsort(keys, kind="stable")  # which merges what is in order
    keys = keys[order]
    starts = starts_of(keys)
    return keys[starts], np.add.reduceat(np.concatenate([one[1], other[1]])[order], starts)


def starts_of(ordered: Numbers) -> NDArray[np.intp]:
    """Where a value is another one than that before it."""
    new = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return np.flatnonzero(new)
