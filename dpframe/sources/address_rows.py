"""Addresses of a column of texts as numbers in order, in NumPy.

SQL groups the texts, reads each once, and groups the addresses; where most texts differ, grouping
takes most of the time. Here the bytes of every row are read, which takes less time.
Reading IPv6 is slower than grouping: where most rows are IPv6, SQL groups the texts first.

The counts equal the counts of :mod:`dpframe.sources.record_leaves`, whose expressions read each
text that the readers of bytes do not know. So the way of reading may depend on the data: on how
many of the first texts differ, and on how many are IPv6 or no plain addresses. If the counts
differed, a record that changes the way could change what all other records count.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpframe._duck import VIEW, Relation, register_table
from dpframe._duck.memory_limits import read_limits
from dpframe.hierarchy._ip import Ip
from dpframe.sources.address_batch import (
    ALL,
    AddressBatch,
    Counts,
    Numbers,
    finest_four,
    finest_six,
    read_batch,
)
from dpframe.sources.record_leaves import keyed_sql
from dpframe.sources.rollup_statement import exact_column_sql

FIRST, LAST = 2**16, 2**18
"""After how many rows the way is chosen anew: the first number, then its doubles to the last."""

NEW = 0.1
"""Least share of the rows so far whose address no other row has; below it, SQL is faster."""

SIX = 0.5
"""Largest share of IPv6 in the rows so far; above this share, SQL groups the texts first."""

HELD = 2**24
"""The most IPv4 addresses that are held uncounted; with more IPv6 addresses, SQL groups texts."""

MOST = 2**26
"""The most addresses that are held, of IPv4 each once: 1 GB, with what counting takes."""

ODD = 2**22
"""The most odd texts that are left to SQL; equal texts in one batch of rows are one text."""

Way = Literal["rows", "texts", "sql"]
"""How addresses are read: every row here, each different text once here, or all by SQL."""

Counted = tuple[Numbers, Counts]
"""Keys of IPv4 in order, each once, and how many rows each has."""

NONE: Counted = np.empty(0, np.uint32), np.empty(0, np.int64)

REST = pa.schema([("high", pa.uint64()), ("low", pa.uint64()), ("n", pa.int64())])

MIXING = np.uint64(0x9E3779B97F4A7C15)
"""An odd number that mixes two words into one; only the choice of the way depends on it."""


@dataclass(frozen=True, slots=True, repr=False)
class AddressRows:
    """How many rows the finest keys have.

    ``four`` has the keys of IPv4 in order, each once, and ``n`` their numbers of rows. ``rest`` has
    all other keys: the columns ``high`` and ``low``, the words of a key (NULL for ``<invalid>``),
    and ``n``; a key can occur in several rows of ``rest``.
    """

    four: Numbers
    n: Counts
    rest: pa.Table


def address_rows(relation: Relation, hierarchy: Ip, *, progress: bool) -> AddressRows | None:
    """Count the finest keys of rows of text. Private. None where SQL has to count, or is faster."""
    if "DPFRAME_MEMORY_LIMIT" in read_limits():  # only DuckDB heeds it
        return None
    if not relation.repeats():
        return None
    rows = f"SELECT {exact_column_sql(hierarchy.column, 'VARCHAR')} AS c0 FROM {VIEW}"
    texts = f"SELECT c0, count(*) AS n FROM ({rows}) GROUP BY c0"
    found = _read_addresses(relation, rows, AddressReader(hierarchy, "rows"), progress)
    if found == "texts":
        found = _read_addresses(relation, texts, AddressReader(hierarchy, "texts"), progress)
    return found if isinstance(found, AddressRows) else None


def _read_addresses(
    relation: Relation, statement: str, reader: AddressReader, progress: bool
) -> AddressRows | Way:
    """The counts of all rows, read in the way of the reader; or a better way, once it shows."""
    with closing(relation.pieces(statement, progress)) as pieces:
        for piece in pieces:
            reader.add(*piece.columns)
            if (way := reader.better()) != reader.way:
                return way
    return reader.finish()


class AddressReader:
    """Counts batches of texts."""

    def __init__(self, hierarchy: Ip, way: Way) -> None:
        self.way: Way = way
        self._hierarchy = hierarchy
        self._ask = FIRST
        self._rows = self._held = self._six = self._odd = self._invalid = 0
        self._batches: list[AddressBatch] = []
        self._four = NONE

    def add(self, texts: pa.Array, n: pa.Array | None = None) -> None:
        """Count the texts: each stands for one row, or for its ``n`` rows."""
        batch = read_batch(self._hierarchy, texts, None if n is None else n.to_numpy())
        self._rows += len(texts)
        self._held += len(batch.four)
        self._six += len(batch.six)
        self._odd += len(batch.odd)
        self._invalid += batch.invalid
        self._batches.append(batch)
        if self._held > HELD:
            self._fold()

    def _fold(self) -> None:
        for counted in (True, False):
            of = [batch for batch in self._batches if (batch.four_n is not None) == counted]
            rows = np.concatenate([NONE[0], *(batch.four for batch in of)])
            rows = finest_four(rows, self._hierarchy)
            if counted:
                n = np.concatenate([NONE[1], *(b.four_n for b in of if b.four_n is not None)])
                more = sort_counts(rows, n)
            else:
                rows.sort()
                starts = starts_of(rows)
                more = rows[starts], np.diff(starts, append=len(rows))
            self._four = merge_counts(self._four, more)
        for batch in self._batches:
            batch.four, batch.four_n = NONE[0], None
        self._held = 0

    def better(self) -> Way:
        """The best way, judging by the rows so far; if that is not ``way``, callers start anew."""
        if self._odd > ODD or len(self._four[0]) + self._six > MOST:
            return "sql"
        if self.way == "texts" or self._six > HELD:
            return "texts"
        if self._rows < self._ask or self._ask > LAST:
            return self.way
        self._ask *= 2
        six = np.concatenate([batch.six for batch in self._batches])
        four = np.concatenate([batch.four for batch in self._batches])
        alone = 0
        for keys in (four, six[:, 0] * MIXING ^ six[:, 1]):
            keys.sort()
            alone += int((np.diff(starts_of(keys), append=len(keys)) == 1).sum())
        if alone < NEW * self._rows:
            return "sql"
        return "texts" if self._six > SIX * self._rows else "rows"

    def finish(self) -> AddressRows:
        """Return the counts of all rows."""
        self._fold()
        four, rest = self._read_by_sql()
        keys, n = merge_counts(self._four, four)
        parts = [rest, *(_ipv6_table(batch, self._hierarchy) for batch in self._batches)]
        if self._invalid and self._hierarchy.on_invalid == "count":
            parts.append(pa.table([[None], [None], [self._invalid]], schema=REST))
        return AddressRows(keys, n, pa.concat_tables(parts))

    def _read_by_sql(self) -> tuple[Counted, pa.Table]:
        """The counted keys of the odd texts: of IPv4, and the others in a table like ``rest``."""
        odd = [batch for batch in self._batches if len(batch.odd)]
        if not odd:
            return NONE, REST.empty_table()
        texts = pa.chunked_array([batch.odd for batch in odd])
        counted = pa.table({"c0": texts, "n": np.concatenate([batch.odd_n for batch in odd])})
        rows = f"(SELECT c0 COLLATE C AS c0, n FROM {VIEW})"
        statement = (
            f"SELECT (k1 >> 32 = {0xFFFF}) IS TRUE AS four, (k1 >> 64)::UBIGINT AS high, "
            f"(k1 & {ALL}::UHUGEINT)::UBIGINT AS low, sum(n)::BIGINT AS n "
            f"FROM ({keyed_sql(self._hierarchy, ('VARCHAR',), rows, 'n')}) GROUP BY k1"
        )
        with register_table(counted, "texts of addresses") as relation:
            read = relation.query(statement, False)
        four, rest = read.filter(read["four"]), read.filter(pc.invert(read["four"]))
        keys = four["low"].to_numpy().astype(np.uint32)  # the lower half of the word
        return sort_counts(keys, four["n"].to_numpy()), rest.select(REST.names).cast(REST)


def _ipv6_table(batch: AddressBatch, hierarchy: Ip) -> pa.Table:
    words = finest_six(batch.six, hierarchy)
    n = np.ones(len(batch.six), np.int64) if batch.six_n is None else batch.six_n
    table = pa.table([words[:, 0], words[:, 1], n], schema=REST)
    batch.six = batch.six[:0].copy()  # frees memory for the statement
    return table


def merge_counts(one: Counted, other: Counted) -> Counted:
    """The sum of two counts, key by key."""
    if not len(one[0]) or not len(other[0]):
        return one if len(one[0]) else other
    return sort_counts(np.concatenate([one[0], other[0]]), np.concatenate([one[1], other[1]]))


def sort_counts(keys: Numbers, n: Counts) -> Counted:
    """Keys in order, each once, with its total count."""
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    starts = starts_of(keys)
    return keys[starts], np.add.reduceat(n[order], starts) if len(starts) else n


def starts_of(ordered: NDArray[np.unsignedinteger]) -> NDArray[np.intp]:
    """The first place, and the places where a value differs from the value before it."""
    new = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return np.flatnonzero(new)
