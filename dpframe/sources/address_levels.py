"""Count texts of addresses: IPv4 by their bytes in NumPy, the rest in SQL.

SQL groups the texts, reads each once, and groups the addresses; where most texts differ, grouping
takes most of the time. Here the bytes of every row are read, and the numbers sorted. Sorted
addresses have sorted nodes at every level, so the count of a node is the difference of two running
totals. In preorder only the root stands before IPv4.

The counts equal the counts of :mod:`dpframe.sources.record_leaves`, whose expressions read each
text that the reader of bytes does not know. So the way of reading may depend on the data: on how
many of the first rows have an IPv4 address that no other row has. If the counts differed, a record
that changes the way could change what all other records count.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpframe._duck import VIEW, Relation, register_table
from dpframe._duck.memory_limits import read_limits
from dpframe.budget import PrivacyUnit
from dpframe.hierarchy import Hierarchy
from dpframe.hierarchy._ip import MAPPED, Ip
from dpframe.sources.address_bytes import parse_dotted
from dpframe.sources.record_leaves import keyed_sql
from dpframe.sources.rollup_statement import exact_column_sql, rollup_statement

FIRST, LAST = 2**16, 2**18
"""After how many rows the way is chosen anew: the first number, then its doubles to the last."""

NEW = 0.1
"""Least share of the rows so far whose IPv4 address no other row has; below it, SQL is faster."""

HELD = 2**24
"""The most IPv4 addresses that are held uncounted."""

MOST = 2**26
"""The most different IPv4 addresses that are held: 1 GB, with what counting takes."""

ODD = 2**22
"""The most other texts that are left to SQL; equal texts in one batch of rows are one text."""

ALL = 2**64 - 1

Ints = NDArray[np.int64]
Numbers = NDArray[np.uint32]

Counted = tuple[Numbers, Ints]
"""Keys of IPv4 in order, each once, and how many rows each has."""

NONE: Counted = np.empty(0, np.uint32), np.empty(0, np.int64)

REST = pa.schema([("high", pa.uint64()), ("low", pa.uint64()), ("n", pa.int64())])

NODES = pa.schema([("level", pa.int64()), ("n", pa.int64()), ("t1", pa.string())])

LEAVES = f"SELECT (high::UHUGEINT << 64) | low AS k1, n FROM {VIEW}"


def address_nodes(
    relation: Relation,
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    types: tuple[str, ...],
    band: int,
    *,
    progress: bool,
) -> pa.Table | None:
    """Nodes at or above the band, as the statement of
    :func:`dpframe.sources.rollup_statement.rollup_statement` returns them. Private. None where SQL
    has to count."""
    if not isinstance(hierarchy, Ip) or types != ("VARCHAR",) or hierarchy.version == 6:
        return None
    if unit.user is not None or unit.weight is not None:
        return None
    found = address_rows(relation, hierarchy, progress=progress)
    if found is None:
        return None
    level, n, number = four_nodes(found, hierarchy.prefixes, band)
    four = pa.table([level, n, pa.array(number).cast(pa.string())], schema=NODES)
    rest, others = NODES.empty_table(), 0
    if found.rest.num_rows:
        statement = rollup_statement(hierarchy, unit, band=band, types=types, seed=0, leaves=LEAVES)
        with register_table(found.rest, "addresses") as table:
            rest = table.query(statement, False).cast(NODES)
        others, rest = rest["n"][0].as_py(), rest.slice(1)
    root = pa.table([[0], [others + int(found.n.sum())], [None]], schema=NODES)
    return pa.concat_tables([root, four, rest])


@dataclass(frozen=True, slots=True, repr=False)
class AddressRows:
    """How many rows the finest keys have.

    ``four`` has the keys of IPv4 in order, each once, and ``n`` their numbers of rows. ``rest`` has
    all other keys: the columns ``high`` and ``low``, the words of a key (NULL for ``<invalid>``),
    and ``n``.
    """

    four: Numbers
    n: Ints
    rest: pa.Table


def four_nodes(found: AddressRows, prefixes: tuple[int, ...], band: int) -> tuple[Ints, Ints, Ints]:
    """Levels, counts and IPv6-mapped numbers of IPv4 nodes at or above the band, in preorder."""
    before = np.concatenate([[0], np.cumsum(found.n)])
    starts = np.arange(len(found.four))
    levels, counts, numbers = [], [], []
    for level in range(len(prefixes), 0, -1):
        below = np.uint32(32 - prefixes[level - 1])
        own = found.four[starts] >> below
        new = starts_of(own)
        starts, own = starts[new], own[new]
        n = np.diff(before[np.append(starts, len(found.four))])
        heavy = n >= band
        counts.append(n[heavy])
        numbers.append((own[heavy] << below).astype(np.int64))
        levels.append(np.full(len(counts[-1]), level))
    reached, number = np.concatenate(levels), np.concatenate(numbers)
    order = np.argsort(number << 8 | reached)
    return reached[order], np.concatenate(counts)[order], number[order] | MAPPED


def address_rows(relation: Relation, hierarchy: Ip, *, progress: bool) -> AddressRows | None:
    """Count the finest keys of rows of text. Private. None where SQL has to count, or is faster."""
    if "DPFRAME_MEMORY_LIMIT" in read_limits():  # only DuckDB heeds it
        return None
    if not relation.repeats():
        return None
    reader = AddressReader(hierarchy)
    rows = f"SELECT {exact_column_sql(hierarchy.column, 'VARCHAR')} AS c0 FROM {VIEW}"
    with closing(relation.pieces(rows, progress)) as pieces:
        for piece in pieces:
            reader.add(piece.column(0))
            if reader.slower():
                return None
    return reader.finish()


class AddressReader:
    """Counts batches of texts."""

    def __init__(self, hierarchy: Ip) -> None:
        self._hierarchy = hierarchy
        self._ask = FIRST
        self._rows = self._held = self._odd_texts = 0
        self._four: list[Numbers] = []
        self._counted = NONE
        self._odd: list[pa.Table] = []

    def add(self, texts: pa.Array) -> None:
        """Count the texts, one row each."""
        numbers, plain = parse_dotted(texts)
        if plain is not None:
            others, n = pc.value_counts(texts.filter(pa.array(~plain))).flatten()
            self._odd.append(pa.table({"c0": others.cast(pa.large_string()), "n": n}))
            self._odd_texts += len(others)
        self._rows += len(texts)
        self._held += len(numbers)
        self._four.append(numbers)
        if self._held > HELD:
            self._fold()

    def _fold(self) -> None:
        below = np.uint32(32 - self._hierarchy.prefixes[-1])
        keys = np.concatenate([NONE[0], *self._four]) >> below << below
        keys.sort()
        starts = starts_of(keys)
        more = keys[starts], np.diff(starts, append=len(keys))
        self._counted = merge_counts(self._counted, more)
        self._four, self._held = [], 0

    def slower(self) -> bool:
        """Whether SQL is the better way, judging by the rows so far."""
        if self._odd_texts > ODD or len(self._counted[0]) > MOST:
            return True
        if self._rows < self._ask or self._ask > LAST:
            return False
        self._ask *= 2
        keys = np.concatenate([NONE[0], *self._four])
        keys.sort()
        alone = int((np.diff(starts_of(keys), append=len(keys)) == 1).sum())
        return alone < NEW * self._rows

    def finish(self) -> AddressRows:
        """Return the counts of all rows."""
        self._fold()
        if not self._odd:
            return AddressRows(*self._counted, REST.empty_table())
        rows = f"(SELECT c0 COLLATE C AS c0, n FROM {VIEW})"
        statement = (
            f"SELECT (k1 >> 32 = {0xFFFF}) IS TRUE AS four, (k1 >> 64)::UBIGINT AS high, "
            f"(k1 & {ALL}::UHUGEINT)::UBIGINT AS low, sum(n)::BIGINT AS n "
            f"FROM ({keyed_sql(self._hierarchy, ('VARCHAR',), rows, 'n')}) GROUP BY k1"
        )
        with register_table(pa.concat_tables(self._odd), "texts of addresses") as relation:
            read = relation.query(statement, False)
        four, rest = read.filter(read["four"]), read.filter(pc.invert(read["four"]))
        keys = four["low"].to_numpy().astype(np.uint32)  # the lower half of the word
        order = np.argsort(keys)
        counted = merge_counts(self._counted, (keys[order], four["n"].to_numpy()[order]))
        return AddressRows(*counted, rest.select(REST.names).cast(REST))


def merge_counts(one: Counted, other: Counted) -> Counted:
    """The sum of two counts, key by key."""
    if not len(one[0]) or not len(other[0]):
        return one if len(one[0]) else other
    keys, n = np.concatenate([one[0], other[0]]), np.concatenate([one[1], other[1]])
    order = np.argsort(keys, kind="stable")
    keys, starts = keys[order], starts_of(keys[order])
    return keys[starts], np.add.reduceat(n[order], starts)


def starts_of(ordered: Numbers) -> NDArray[np.intp]:
    """The first place, and the places where a value differs from the value before it."""
    new = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return np.flatnonzero(new)
