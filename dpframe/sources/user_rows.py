"""Count users by the finest keys in NumPy, where users and keys are whole numbers.

A row is one number of 63 bits: its user and, in lower bits, its key. Sorting these numbers puts the
rows of a user together, in the order of the keys; a window function of SQL takes three times as
long.

For one seed the counts equal the counts of :mod:`dpframe.sources.user_shares`, hash by hash: SQL
counts rows that do not fit 63 bits, and long tables, which DuckDB can spill. If counts differed,
one user whose id or rows change the way of counting could change what all other users count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe._duck import VIEW, Relation, register_table
from dpframe._duck.memory_limits import read_limits
from dpframe.budget import PrivacyUnit
from dpframe.hierarchy import Hierarchy
from dpframe.sources.packed_keys import BITS, NUMBERS, NumberCodes, value_range
from dpframe.sources.record_leaves import finest_columns, keyed_sql
from dpframe.sources.rollup_statement import source_sql
from dpframe.sources.user_shares import row_hash, user_hash

MOST = 2**25
"""The most rows that are held in memory: 1 GB, with what DuckDB hands over."""

BLOCK = 2**20
"""About how many rows are bounded at once; users are not divided."""

Ints = NDArray[np.int64]


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
    statement = f"WITH {source} SELECT u, {', '.join(names)} FROM ({read}) LIMIT {MOST + 1}"
    rows = relation.query(statement, progress)
    fields = [_packed_field(column) for column in rows.columns]
    key_bits = sum(field.bits for field in fields[1:])
    unit_bits = unit.grid.bit_length() if unit.grid > 1 else 0
    if rows.num_rows > MOST or key_bits + max(fields[0].bits, unit_bits) > BITS:
        return None
    packed = packed_rows(rows, fields)
    del rows
    packed.sort()
    kinds = dict(zip(("u", *names), (str(user_type), *types), strict=True))
    hashed = RowHashes(fields, kinds, seed)
    if unit.grid > 1:
        k, n = share_user_leaves(packed, hashed, key_bits, unit.grid)
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
    packed: Ints, hashed: RowHashes, key_bits: int, grid: int
) -> tuple[Ints, Ints]:
    """The keys and their units: every user has ``grid`` units, in equal shares for each row.

    The first i of a user's ``total`` rows have ``floor((grid i + offset) / total)`` units.
    ``packed`` must be sorted, and is overwritten.
    """
    unit_bits, done = grid.bit_length(), 0
    users = packed >> key_bits
    hashes = hashed.users(users[_starts(users)])
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
