"""Count in NumPy: small frames, texts of addresses, and users of whole numbers.

**Small frames** are counted by columns of texts and whole numbers, and by IPv4 addresses.

DuckDB takes some milliseconds to plan a statement, however few rows there are. Here the place of a
value among the values of its level stands for the value, and the place of a path for the node. The
tree equals the tree of :mod:`dpframe.sources.rollup_statement`, node by node and in the same order.
The choice between the two modules depends on the data, so both must return equal counts
(docs/decisions/0035).

**Texts of addresses**: IPv4 is counted by bytes in NumPy, the rest in SQL.

SQL groups the texts, reads each once, and groups the addresses; where most texts differ, grouping
takes most of the time. Here the bytes of every row are read, and the numbers sorted. Sorted
addresses have sorted nodes at every level, so the count of a node is the difference of two running
totals. In preorder only the root stands before IPv4.

The counts equal the counts of :mod:`dpframe.sources.cell_leaves`, whose expressions read each
text that the reader of bytes does not know. So the way of reading may depend on the data: on how
many of the first rows have an IPv4 address that no other row has. If the counts differed, a record
that changes the way could change what all other records count.

**Users** are counted by the finest keys, where users and keys are whole numbers.

A row is one number of 63 bits: its user and, in lower bits, its key. Sorting these numbers puts the
rows of a user together, in the order of the keys; a window function of SQL takes three times as
long.

For one seed the counts equal the counts of :mod:`dpframe.sources.cell_leaves`, hash by hash: SQL
counts rows that do not fit 63 bits, and long tables, which DuckDB can spill. If counts differed,
one user whose id or rows change the way of counting could change what all other users count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpframe._duck import VIEW, Relation, register_table
from dpframe._duck.connections import read_limits
from dpframe.budget import PrivacyUnit
from dpframe.counts import CountTree
from dpframe.hierarchy import Hierarchy
from dpframe.hierarchy._cells import Columns
from dpframe.hierarchy._plain_values import MAPPED, Ip
from dpframe.sources.address_keys import parse_dotted
from dpframe.sources.cell_leaves import finest_columns, keyed_sql, row_hash, user_hash
from dpframe.sources.packed_keys import BITS, NUMBERS, NumberCodes, value_range
from dpframe.sources.rollup_statement import exact_column_sql, rollup_statement, source_sql

FIRST, LAST = 2**16, 2**18
"""After how many rows the way is chosen anew: the first number, then its doubles to the last."""

NEW = 0.1
"""Least share of the rows so far whose IPv4 address no other row has; below it, SQL is faster."""

HELD = 2**24
"""The most IPv4 addresses that are held uncounted."""

MOST_ADDRESSES = 2**26
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
        if self._odd_texts > ODD or len(self._counted[0]) > MOST_ADDRESSES:
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


MOST = 50_000
"""The most rows: above, DuckDB can be faster, depending on how many different values there are."""

CELLS = 4_000_000
"""The most places that are held, of 8 bytes each: a node has one at every level."""

TEXTS = (pa.string(), pa.large_string())

KINDS = {
    **dict.fromkeys(TEXTS, "VARCHAR"),
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.uint8(): "UTINYINT",
    pa.uint16(): "USMALLINT",
    pa.uint32(): "UINTEGER",
    pa.uint64(): "UBIGINT",
}
"""DuckDB's names of types whose values can be keys unchanged: equal values have equal bytes."""


def counts_small(hierarchy: Hierarchy, unit: PrivacyUnit) -> bool:
    """Whether the hierarchy and unit can be counted here, if rows are few and types fit. If the
    environment sets limits, DuckDB counts, which heeds or refuses them, for any number of rows."""
    by_record = unit.user is None and unit.weight is None
    return isinstance(hierarchy, Columns | Ip) and by_record and not read_limits()


def small_counts(table: pa.Table, hierarchy: Hierarchy, band: int) -> CountTree | None:
    """True counts of the nodes at or above the band. Private. None where DuckDB has to count."""
    columns = [table[name].combine_chunks() for name in hierarchy.source_columns]
    kinds = tuple(KINDS.get(column.type, "") for column in columns)
    by_address = isinstance(hierarchy, Ip)
    levels = len(hierarchy.prefixes) if isinstance(hierarchy, Ip) else len(columns)
    few = table.num_rows <= MOST and table.num_rows * levels**2 <= CELLS
    if not few or not all(kinds):
        return None
    placed = (
        _prefix_places(columns[0], hierarchy) if by_address else [_value_places(c) for c in columns]
    )
    if placed is None:
        return None
    if hierarchy.on_invalid == "drop":
        valid = np.logical_and.reduce([place > 0 for place, _ in placed])
        placed = [(place[valid], values) for place, values in placed]
    level, count, at = _preorder_nodes([place for place, _ in placed], [len(v) for _, v in placed])
    kept = (count >= band) | (level == 0)
    pairs = zip(placed, at[:, kept], strict=True)
    keys = [values.take(pa.array(own)) for (_, values), own in pairs]
    if by_address:  # a node's own key is the finest key that it has
        keys = [pc.coalesce(*reversed(keys))]
    return CountTree.from_preorder(
        level=level[kept],
        count=count[kept],
        keys=tuple(pa.chunked_array([key]) for key in keys),
        types=kinds,
    )


def _value_places(column: pa.Array) -> tuple[Ints, pa.Array]:
    """The place of every value among the different values, and these values in order. Place 0 is
    NULL and empty text, even if neither occurs."""
    coded = column.dictionary_encode(null_encoding="encode")
    values = coded.dictionary
    order = pc.array_sort_indices(values, null_placement="at_start").to_numpy()
    known = values.is_valid().to_numpy(zero_copy_only=False)[order]
    if values.type in TEXTS:
        known &= pc.binary_length(values).fill_null(0).to_numpy()[order] > 0
    places = np.empty(len(values), dtype=np.int64)
    places[order] = np.cumsum(known)
    return places[coded.indices.to_numpy()], _behind_null(values.take(pa.array(order[known])))


def _behind_null(values: pa.Array) -> pa.Array:
    return pa.concat_arrays([pa.nulls(1, values.type), values])


def _prefix_places(column: pa.Array, hierarchy: Hierarchy) -> list[tuple[Ints, pa.Array]] | None:
    """For every level the places and values that ``_value_places`` would return; values are the
    texts of keys. None unless all texts are IPv4 addresses in dotted decimals without leading
    zeros."""
    assert isinstance(hierarchy, Ip)
    if hierarchy.version == 6 or column.type not in TEXTS or column.null_count:
        return None
    coded = column.dictionary_encode()
    numbers, others = parse_dotted(coded.dictionary)
    if others is not None:
        return None
    addresses = numbers.astype(np.int64)
    rows, out = coded.indices.to_numpy(), []
    for bits in hierarchy.prefixes:
        found, place = np.unique(addresses >> (32 - bits) << (32 - bits), return_inverse=True)
        out.append((place[rows] + 1, _behind_null(pa.array(found + MAPPED).cast(pa.string()))))
    return out


def _preorder_nodes(places: Sequence[Ints], sizes: Sequence[int]) -> tuple[Ints, Ints, Ints]:
    """The level, the count, and the places at every level (0 below the node), of all nodes in
    preorder."""
    path, rows = np.zeros(len(places[0]), dtype=np.int64), len(places[0])
    counts, at = [np.array([rows])], [np.zeros((len(places), 1), dtype=np.int64)]
    parents: list[Ints] = []
    for depth, (place, size) in enumerate(zip(places, sizes, strict=True)):
        found, path, count = _count_codes(path * size + place, len(counts[-1]) * size)
        above = found // size
        here = at[-1][:, above]
        here[depth] = found % size
        counts, parents, at = [*counts, count], [*parents, above], [*at, here]
    first = [np.arange(len(counts[-1]))]  # the first leaf of every node, finest level first
    for above, count in zip(reversed(parents), reversed(counts[:-1]), strict=True):
        first.append(first[-1][np.searchsorted(above, np.arange(len(count)))] if rows else count)
    level = np.repeat(np.arange(len(counts)), [len(count) for count in counts])
    order = np.lexsort((level, np.concatenate(first[::-1])))
    return level[order], np.concatenate(counts)[order], np.concatenate(at, axis=1)[:, order]


def _count_codes(codes: Ints, size: int) -> tuple[Ints, Ints, Ints]:
    """The different codes, below ``size``, in order; the place of each row's code among them; and
    the number of rows of each code."""
    if size > 4 * len(codes):
        return np.unique(codes, return_inverse=True, return_counts=True)
    times = np.bincount(codes, minlength=size)
    found = np.flatnonzero(times)
    return found, (np.cumsum(times > 0) - 1)[codes], times[found]


MOST_USER_ROWS = 2**25
"""The most rows that are held in memory: 1 GB, with what DuckDB hands over."""

BLOCK = 2**20
"""About how many rows are bounded at once; users are not divided."""


@dataclass(frozen=True, slots=True, repr=False)
class UserLeaves:
    """Packed keys ``k``, each once, with the users' count ``n``; ``sql`` unpacks the keys."""

    table: pa.Table
    sql: str


def user_leaves(
    relation: Relation,
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    types: tuple[str, ...],
    user_type: str | None,
    *,
    seed: int,
    progress: bool,
) -> UserLeaves | None:
    """The users' counts at each finest key. Private. None where SQL has to count."""
    if unit.user is None or unit.weight is not None or unit.contribution == "items":
        return None
    if "DPFRAME_MEMORY_LIMIT" in read_limits():  # only DuckDB heeds it
        return None
    if not hierarchy.whole_keys(types) or not {*types, user_type} <= set(NUMBERS):
        return None
    source, types = source_sql(hierarchy, unit, types=types, user_type=user_type, view=VIEW)
    names = finest_columns(hierarchy)
    read = keyed_sql(hierarchy, types, "source", "u")
    statement = (
        f"WITH {source} SELECT u, {', '.join(names)} FROM ({read}) LIMIT {MOST_USER_ROWS + 1}"
    )
    rows = relation.query(statement, progress)
    fields = [_packed_field(column) for column in rows.columns]
    key_bits = sum(field.bits for field in fields[1:])
    unit_bits = unit.grid.bit_length() if unit.grid > 1 else 0
    if rows.num_rows > MOST_USER_ROWS or key_bits + max(fields[0].bits, unit_bits) > BITS:
        return None
    packed = packed_rows(rows, fields)
    del rows
    packed.sort()
    kinds = dict(zip(("u", *names), (str(user_type), *types), strict=True))
    hashed = RowHashes(fields, kinds, seed)
    if unit.grid > 1:
        k, n = share_user_leaves(packed, hashed.users, key_bits, unit.grid)
    else:
        k, n = sample_user_leaves(packed, hashed, key_bits, unit.max_contributions)
    return UserLeaves(pa.table({"k": k, "n": n}), _unpack_sql(fields[1:], names, types))


@dataclass(frozen=True, slots=True, repr=False)
class RowHashes:
    """DuckDB's hashes of packed rows; ``kinds`` are the types by name, the user's first."""

    fields: Sequence[NumberCodes]
    kinds: Mapping[str, str]
    seed: int

    def users(self, codes: Ints) -> NDArray[np.uint64]:
        """The hashes of users, from their codes."""
        return self._hashes({"u": self.fields[0].values(codes)}, user_hash)

    def rows(self, packed: Ints, number: Ints) -> NDArray[np.uint64]:
        """The hashes of rows, each with its number among equal rows."""
        values, columns = packed, {}
        for place, name in reversed(list(enumerate(self.kinds))):
            columns[name] = self.fields[place].values(values & self.fields[place].null)
            values = values >> self.fields[place].bits
        own = {name: columns[name] for name in self.kinds}
        return self._hashes({**own, "i": pa.array(number)}, row_hash)

    def _hashes(
        self, columns: Mapping[str, pa.Array], hashed: Callable[[str, int], str]
    ) -> NDArray[np.uint64]:
        of = ", ".join(f"{name}::{self.kinds.get(name, 'BIGINT')}" for name in columns)
        size = len(next(iter(columns.values())))
        table = pa.table({**columns, "place": np.arange(size)})
        with register_table(table, "rows of users") as relation:
            found = relation.query(f"SELECT place, {hashed(of, self.seed)} AS h FROM {VIEW}", False)
        out = np.empty(size, dtype=np.uint64)
        out[found["place"].to_numpy()] = found["h"].to_numpy()
        return out


def _packed_field(column: pa.ChunkedArray) -> NumberCodes:
    low, high = value_range(column)
    return NumberCodes(low, (high - low + 1).bit_length())  # room for NULL


def packed_rows(rows: pa.Table, fields: Sequence[NumberCodes]) -> Ints:
    """One number per row, with the first column in the highest bits."""
    out, start = np.zeros(rows.num_rows, dtype=np.int64), 0
    for batch in rows.to_batches():
        part = out[start : start + batch.num_rows]
        start += batch.num_rows
        for column, field in zip(batch.columns, fields, strict=True):
            part <<= field.bits
            part |= field.of_fitting(column)
    return out


def _unpack_sql(fields: Sequence[NumberCodes], names: Sequence[str], types: Sequence[str]) -> str:
    """A query that returns the columns of the unpacked keys, by name, and n."""
    chosen, below = [], sum(field.bits for field in fields)
    for field, name, kind in zip(fields, names, types, strict=True):
        below -= field.bits
        code = f"((k >> {below}) & {field.null})"
        chosen.append(
            f"CASE WHEN {code} <> {field.null} THEN ({code} + {field.low})::{kind} END AS {name}"
        )
    return f"SELECT {', '.join(chosen)}, n FROM {VIEW}"


def share_user_leaves(
    packed: Ints, hashed: Callable[[Ints], NDArray[np.uint64]], key_bits: int, grid: int
) -> tuple[Ints, Ints]:
    """The keys and their units: every user has ``grid`` units, in equal shares for each row.

    The first i of a user's ``total`` rows have ``floor((grid i + offset) / total)`` units.
    ``packed`` must be sorted, and is overwritten. ``hashed`` returns the hashes of codes of users.
    """
    unit_bits, done = grid.bit_length(), 0
    users = packed >> key_bits
    hashes = hashed(users[_starts(users)])
    del users
    for block in _user_blocks(packed, key_bits):
        starts, total = _user_starts(block, key_bits)
        own = hashes[done : (done := done + len(starts))]
        offset = (own % total.astype(np.uint64)).astype(np.int64)
        units = np.arange(1, len(block) + 1)
        units -= np.repeat(starts, total)
        units *= grid
        units += np.repeat(offset, total)
        units //= np.repeat(total, total)
        first = units[starts]
        units[1:] -= units[:-1].copy()
        units[starts] = first
        block &= 2**key_bits - 1
        block <<= unit_bits
        block |= units
    packed.sort()
    keys = packed >> unit_bits
    packed &= 2**unit_bits - 1
    starts = _starts(keys)
    return keys[starts], np.add.reduceat(packed, starts) if len(starts) else packed


def sample_user_leaves(
    packed: Ints, hashed: RowHashes, key_bits: int, most: int
) -> tuple[Ints, Ints]:
    """The keys and their numbers of rows. Of every user at most ``most`` rows count, those with
    the smallest hashes.

    ``packed`` must be sorted, and is overwritten.
    """
    kept = 0
    for block in _user_blocks(packed, key_bits):
        starts, total = _user_starts(block, key_bits)
        many = total > most
        taken = [block[np.repeat(~many, total)]]
        if many.any():
            rows, size = block[np.repeat(many, total)], total[many]
            own = np.repeat(np.arange(len(size)), size)
            first = np.repeat(np.cumsum(size) - size, size)
            equal = _starts(rows)
            number = np.arange(len(rows)) - np.repeat(equal, np.diff(equal, append=len(rows)))
            order = _order_by_hash(own, hashed.rows(rows, number))
            taken.append(rows[order[np.arange(len(rows)) - first < most]])
        found = np.concatenate(taken) & (2**key_bits - 1)
        packed[kept : kept + len(found)] = found
        kept += len(found)
    keys = packed[:kept]
    keys.sort()
    starts = _starts(keys)
    return keys[starts], np.diff(starts, append=len(keys))


def _order_by_hash(own: Ints, hashes: NDArray[np.uint64]) -> Ints:
    """The order of rows by user, then hash, then place; ``own`` numbers users from 0, in order."""
    left = BITS - int(own[-1]).bit_length()
    short = (own << left) | (hashes >> np.uint64(64 - left)).astype(np.int64)
    order = np.argsort(short)
    ordered = short[order]
    if (ordered[1:] == ordered[:-1]).any():  # bits that were left out could decide
        return np.lexsort((hashes, own))
    return order


def _user_blocks(packed: Ints, key_bits: int) -> Iterator[Ints]:
    """Yield the rows in blocks of whole users."""
    start, last = 0, int(packed[-1]) >> key_bits if len(packed) else 0
    while start < len(packed):
        user = int(packed[min(start + BLOCK, len(packed)) - 1]) >> key_bits
        end = len(packed)
        if user < last:
            end = start + int(np.searchsorted(packed[start:], (user + 1) << key_bits))
        yield packed[start:end]
        start = end


def _user_starts(block: Ints, key_bits: int) -> tuple[Ints, Ints]:
    """The place where the rows of each user start, and how many rows each user has."""
    starts = _starts(block >> key_bits)
    return starts, np.diff(starts, append=len(block))


def _starts(ordered: Ints) -> Ints:
    """The first place, and the places where a value differs from the value before it."""
    new = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return np.flatnonzero(new)
