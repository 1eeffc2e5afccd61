"""Rows of users as numbers, from which different users and bounded sums are counted. Private.

**Different users**, or values, are counted at nodes. One statement reads who has which finest keys;
numpy counts. A user counts at no more than ``most`` of their nodes of each level, those with the
smallest hashes. So these nodes depend only on this user and on a secret seed. The hash of a node
mixes the hash of the user with those of the user's own keys below the node: nodes of one level
share no key, so each is as likely as any other.

The statement reads the view ``dpframe_source`` once, or its keys once more where it stands. CTEs:

source    the columns that matter, renamed; u is the user, or the value
keyed     the finest key of every row, k1, k2, ...
numbered  every different key, its number v from 0, its hash h, and where it lies

It returns users with their hash and ``held``, the numbers of the keys of their rows; keys with
their hash; and where no nodes are listed, the nodes with at least so many rows.

**Parts**: rows are put in the order of users and parts, and added up for each pair. The bounds of a
user's totals come from :mod:`dpframe.sources.segment_places`.

**Texts**: rows are read once where users count by shares and values are added up later.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpframe._duck import VIEW, Relation, register_table
from dpframe._duck.connections import read_limits
from dpframe.budget import PrivacyUnit
from dpframe.common.texts import ascending_order
from dpframe.counts import Ints
from dpframe.errors import SourceError
from dpframe.hierarchy import Hierarchy
from dpframe.hierarchy._cells import Columns
from dpframe.measures.measure import Vector
from dpframe.sources.cell_leaves import finest_columns, keyed_sql, same_key_sql, user_hash
from dpframe.sources.node_values import (
    BLOCK_ROWS,
    CHANGED,
    by_threads,
    different_pairs,
    mix_bits,
    whole_users,
)
from dpframe.sources.packed_keys import BITS, NUMBERS
from dpframe.sources.portable_sql import Summand
from dpframe.sources.rollup_statement import candidates_sql, level_ctes, result_columns, source_sql
from dpframe.sources.segment_places import (
    PublicNodes,
    ReportedNodes,
    bounded_parts_statement,
    keyed_leaves_join,
    leaf_columns,
    leaf_places_ctes,
    reported_levels,
    user_rows_statement,
    vector_summands,
)
from dpframe.sources.small_frames import UserLeaves, share_user_leaves

Hashes = NDArray[np.uint64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class UserRows:
    """The keys of users' rows. Private.

    User u has the keys ``key[first[u] : first[u + 1]]``, numbers from 0, some of them several
    times. ``places``: the number of the node of each key at each counted level, -1 for none.
    """

    first: Ints
    key: NDArray[np.integer]
    user_hash: Hashes
    key_hash: Hashes
    places: tuple[Ints, ...]

    def __repr__(self) -> str:
        return "UserRows(<private>)"

    @property
    def users(self) -> int:
        return len(self.first) - 1

    def count(self, sizes: Sequence[int], most: int | None = None) -> list[Ints]:
        """How many users count at each node, an array of one of the ``sizes`` for each level."""

        def of_some(begin: int, end: int) -> list[Ints]:
            rows = slice(self.first[begin], self.first[end])
            user = np.repeat(np.arange(end - begin), np.diff(self.first[begin : end + 1]))
            pairs = different_pairs(user, self.key[rows].astype(np.int64), len(self.key_hash))
            hashes = self.user_hash[begin:end]
            return [
                np.bincount(self._nodes_of_users(pairs, place, size, hashes, most), minlength=size)
                for place, size in zip(self.places, sizes, strict=True)
            ]

        firsts = np.searchsorted(self.first, np.arange(0, len(self.key), BLOCK_ROWS))
        ends = np.unique([0, *firsts.tolist(), self.users]).tolist()
        several = [[np.zeros(size, dtype=np.int64) for size in sizes], *by_threads(of_some, ends)]
        return [np.sum(each, axis=0) for each in zip(*several, strict=True)]

    def _nodes_of_users(
        self, pairs: tuple[Ints, Ints], place: Ints, size: int, hashes: Hashes, most: int | None
    ) -> Ints:
        """The nodes at which the users of some pairs of a user and a key count, at one level."""
        user, key = pairs
        node = place[key]
        if (node < 0).any():
            there = node >= 0
            user, key, node = user[there], key[there], node[there]
        owner, found = different_pairs(user, node, size)
        if most is None or not (many := np.bincount(owner, minlength=len(hashes)) > most).any():
            return found
        rows = many[user]
        own, node_of = user[rows], node[rows]
        order = np.argsort(own * size + node_of, kind="stable")
        own, node_of = own[order], node_of[order]
        starts = np.flatnonzero(np.diff(own * size + node_of, prepend=-1))
        below = np.add.reduceat(mix_bits(self.key_hash[key[rows]][order]), starts)
        own, node_of = own[starts], node_of[starts]
        order = np.lexsort([node_of, mix_bits(hashes[own] ^ below), own])
        begin = np.flatnonzero(np.diff(own[order], prepend=-1))
        within = np.arange(len(own)) - np.repeat(begin, np.diff(np.append(begin, len(own))))
        return np.concatenate([found[~many[owner]], node_of[order][within < most]])


MOST_ROWS, MOST_ROWS_OF_LIMIT = 2**26, 2**22
"""About how many rows numpy holds at once, some 50 bytes each. The second number holds where the
environment limits memory, since that limit is DuckDB's alone."""


def user_ranges(relation: Relation, kind: str) -> list[str]:
    """Conditions on the user u, or a value, of the DuckDB type ``kind``; each holds for some users
    with all of their rows, and one of them for every user.

    More rows than numpy should hold are read range by range, which gives the same numbers.
    """
    if kind not in (*NUMBERS, "VARCHAR") or not relation.repeats(computed=False):
        return ["true"]  # equal values of other types can have different hashes
    (rows,) = relation.query(f'SELECT count(*) AS "n" FROM {VIEW}', False)["n"].to_pylist()
    most = MOST_ROWS_OF_LIMIT if "DPFRAME_MEMORY_LIMIT" in read_limits() else MOST_ROWS
    ranges = max(1, math.ceil(rows / most))
    if ranges == 1:
        return ["true"]
    return [f"hash(u) % {ranges}::UBIGINT = {i}" for i in range(ranges)]


def users_at_reported(
    relation: Relation,
    hierarchy: Hierarchy,
    types: tuple[str, ...],
    source: str,
    nodes: PublicNodes,
    *,
    user_type: str,
    rows: str = "source",
    most: int | None = None,
    seed: int = 0,
    progress: bool = False,
) -> Ints:
    """How many users, or values, count at each of the ``nodes``; the root, the first one, has all.
    Of cells, each user counts in the segments where they have rows.

    ``source`` is the SQL of the CTE, ``types`` are those of its columns, and ``rows`` those of it
    that count.
    """
    levels = [] if hierarchy.has_cells else reported_levels(nodes)
    at = {"p0": "part" if hierarchy.has_cells else "0"} | {f"p{n}": f"n{n}" for n in levels}
    parts = [*_keyed_ctes(relation, hierarchy, types, source, rows)]
    parts += leaf_places_ctes(hierarchy, types, nodes)
    names, level = finest_columns(hierarchy), hierarchy.height
    if not hierarchy.has_cells:
        names, level = leaf_columns(hierarchy, nodes)
    shown = ", ".join(f"{sql} AS {name}" for name, sql in at.items())
    hashed = _key_hash_sql(hierarchy, level, names, types, seed)
    parts.append(
        f"numbered AS MATERIALIZED (SELECT {', '.join(names)}, {shown}, {hashed} AS h, "
        "row_number() OVER () - 1 AS v FROM leaves)"
    )
    count = np.zeros(len(nodes.level), dtype=np.int64)
    for some in user_ranges(relation, user_type):
        statement = _users_and_keys_sql(parts, names, some, seed, [*at])
        users, keys, _ = _users_and_keys(relation.query(statement, progress))
        places = tuple(pc.fill_null(keys[name], -1).to_numpy().astype(np.int64) for name in at)
        counted = _user_rows(users, keys, places)
        count += np.sum(counted.count([len(count)] * len(at), most), axis=0)
    return count


def users_at_all(
    relation: Relation,
    hierarchy: Hierarchy,
    types: tuple[str, ...],
    source: str,
    band: int,
    *,
    user_type: str,
    most: int,
    seed: int,
    progress: bool = False,
) -> pa.Table:
    """The nodes at which at least ``band`` users count, in preorder: ``level``, ``n`` and the key
    columns t1, t2, ... of :func:`.result_columns`; and the root with all users.

    Arguments are as for :func:`users_at_reported`.
    """
    names, height = finest_columns(hierarchy), hierarchy.height
    texts = hierarchy.texts(height, names, types)
    columns = {f"t{i}": sql for i, sql in enumerate(texts, 1)}
    columns |= {f"s{i}": sql for i, sql in enumerate(hierarchy.preorder(height, names), 1)}
    columns["level"] = hierarchy.depth(names) or f"{height}"
    columns["h"] = _key_hash_sql(hierarchy, height, names, types, seed)
    added = ", ".join(f"{sql} AS {name}" for name, sql in columns.items())
    keys, order = ", ".join(names), hierarchy.order_by()
    last = ", ".join(f"lag({name}) OVER w AS b{name}" for name in (*names, "level"))
    parts = [
        *_keyed_ctes(relation, hierarchy, types, source, "source"),
        f"leaves AS MATERIALIZED (SELECT {keys}, count(*)::BIGINT AS n FROM keyed GROUP BY {keys})",
        f"ordered AS (SELECT {keys}, n, level, h, row_number() OVER w - 1 AS v, {last} "
        f"FROM (SELECT *, {added} FROM leaves) WINDOW w AS (ORDER BY {order}))",
        f"numbered AS MATERIALIZED ({_shared_levels_sql(hierarchy, 'ordered')})",
        *level_ctes(hierarchy),
    ]
    nodes = candidates_sql(hierarchy, types, band)
    counts, seen = list[Ints](), list[pa.Table]()
    for some in user_ranges(relation, user_type):
        told = ["n", "level", "shared"]
        statement = _users_and_keys_sql(parts, names, some, seed, told, hierarchy, nodes)
        users, keys_of, nodes_of = _users_and_keys(relation.query(statement, progress))
        size, depth, shared = (keys_of[name].to_numpy() for name in told)
        number = [np.cumsum(shared < level) - 1 for level in range(1, height + 1)]
        places = tuple(np.where(depth >= level, own, -1) for level, own in enumerate(number, 1))
        sizes = [int(own[-1]) + 1 if len(own) else 0 for own in number]
        counted = _user_rows(users, keys_of, places)
        level_of, rows_of = nodes_of["level"].to_numpy(), nodes_of["n"].to_numpy()
        n = np.full(len(level_of), counted.users)
        for level, count in enumerate(counted.count(sizes, most), 1):
            ends = np.flatnonzero(depth >= level)
            rows = np.bincount(number[level - 1][ends], size[ends], sizes[level - 1])
            found, here = np.flatnonzero(rows >= band), np.flatnonzero(level_of == level)
            if not np.array_equal(rows[found], rows_of[here]):
                raise SourceError(CHANGED)
            n[here] = count[found]
        counts.append(n)
        seen.append(nodes_of.select(["level", "n", *result_columns(hierarchy)]))
        if not seen[-1].equals(seen[0]):
            raise SourceError(CHANGED)
    n = np.sum(counts, axis=0)
    table = seen[0].set_column(1, "n", pa.array(n))
    return table.filter(pa.array((n >= band) | (level_of == 0)))


def _keyed_ctes(
    relation: Relation, hierarchy: Hierarchy, types: tuple[str, ...], source: str, rows: str
) -> list[str]:
    """The CTEs ``source`` and ``keyed``, read twice where that costs only what is read then."""
    held = "NOT " if relation.repeats(computed=False) else ""
    return [source, f"keyed AS {held}MATERIALIZED ({keyed_sql(hierarchy, types, rows, 'u')})"]


def _key_hash_sql(
    hierarchy: Hierarchy, level: int, names: tuple[str, ...], types: tuple[str, ...], seed: int
) -> str:
    """SQL of the hash of a key, of its texts, which are equal where keys are: no user changes the
    hash of another's key."""
    if hierarchy.has_cells:
        return "0::UBIGINT"
    texts = hierarchy.texts(level, names, types)[: len(names)]
    return f"hash({', '.join(f'CAST({text} AS VARCHAR)' for text in texts)}, {seed}::UBIGINT)"


def _shared_levels_sql(hierarchy: Hierarchy, rows: str) -> str:
    """A query of keys in order, with ``shared``: in how many levels a key and the key before it,
    ``bk1``, ..., have the same node."""
    own, names = finest_columns(hierarchy), finest_columns(hierarchy)
    before, query, tests = tuple(f"b{name}" for name in names), rows, list[str]()
    for level in range(hierarchy.height - 1, 0, -1):
        pairs = []
        for side, keys in (("l", own), ("m", before)):
            made = hierarchy.coarser(level, keys)
            pairs.append({f"{side}{level}_{i}": sql for i, sql in enumerate(made, 1)})
        added = ", ".join(f"{sql} AS {name}" for side in pairs for name, sql in side.items())
        query = f"(SELECT *, {added} FROM {query})"
        own, before = (tuple(side) for side in pairs)
        differ = [f"{a} IS DISTINCT FROM {b}" for a, b in zip(own, before, strict=True)]
        differ.append(f"least(level, {level}) <> least(blevel, {level})")
        tests.append(f"WHEN {' OR '.join(differ)} THEN {level - 1}")
    cases = "".join(f" {test}" for test in ["WHEN v = 0 THEN 0", *reversed(tests)])
    chosen = ", ".join([*names, "n", "level", "h", "v"])
    return (
        f"SELECT {chosen}, (CASE{cases} ELSE {hierarchy.height - 1} END)::SMALLINT AS shared "
        f"FROM {query}"
    )


def _users_and_keys_sql(
    parts: list[str],
    names: tuple[str, ...],
    some: str,
    seed: int,
    of_keys: Sequence[str],
    hierarchy: Hierarchy | None = None,
    nodes: str | None = None,
) -> str:
    """The statement of ``some`` users, whose keys have the columns ``of_keys``, and whose ``nodes``
    are a query."""
    joined = f"keyed LEFT JOIN numbered ON {same_key_sql(names, 'keyed', 'numbered')}"
    texts = [] if hierarchy is None else [*result_columns(hierarchy)]
    columns = [*dict.fromkeys([*of_keys, *(["level", "n"] if nodes else [])])]
    selects = [
        {"hash": f"min(hash(u, {seed}::UBIGINT))", "held": "list(v::UINTEGER)"},
        {"hash": "h", "place": "v", **{name: f"{name}" for name in of_keys}},
    ]
    rows = [f"{joined} WHERE {some} GROUP BY u", "numbered"]
    if nodes is not None and hierarchy is not None:
        place = f"-1 - row_number() OVER (ORDER BY {hierarchy.order_by()})"
        own = {name: name for name in ("level", "n", *texts)}
        selects.append({"place": place, **own})
        rows.append(f"({nodes})")
    shown = {"hash": "UBIGINT", "held": "UINTEGER[]", "place": "BIGINT"}
    shown |= dict.fromkeys(columns, "BIGINT") | dict.fromkeys(texts, "")
    each = [
        "SELECT "
        + ", ".join(
            (f"{one[name]}::{kind}" if kind and name in one else one.get(name, "NULL"))
            + f' AS "{name}"'
            for name, kind in shown.items()
        )
        + f" FROM {of}"
        for one, of in zip(selects, rows, strict=True)
    ]
    return f"WITH {', '.join(parts)} {' UNION ALL '.join(each)}"


def _users_and_keys(table: pa.Table) -> tuple[pa.Table, pa.Table, pa.Table]:
    """Users, keys in the order of their numbers, and nodes in preorder."""
    place = table["place"].to_numpy(zero_copy_only=False)
    is_user = pc.is_valid(table["held"]).to_numpy()
    users = table.select(["hash", "held"]).take(np.flatnonzero(is_user))
    out = [users]
    for chosen in (~is_user & (place >= 0), ~is_user & (place < 0)):
        rows = np.flatnonzero(chosen)
        order = rows[np.argsort(np.abs(place[rows]), kind="stable")]
        out.append(table.drop_columns(["held"]).take(order))
    return tuple(out)


def _user_rows(users: pa.Table, keys: pa.Table, places: tuple[Ints, ...]) -> UserRows:
    """SourceError if a row has a key that was not there when keys were read."""
    flat = pc.list_flatten(users["held"]).combine_chunks()
    if flat.null_count:
        raise SourceError(CHANGED)
    many = pc.fill_null(pc.list_value_length(users["held"]), 0).to_numpy()
    return UserRows(
        first=np.concatenate([[0], np.cumsum(many, dtype=np.int64)]),
        key=flat.to_numpy(),
        user_hash=users["hash"].to_numpy(),
        key_hash=keys["hash"].to_numpy(),
        places=places,
    )


def parts_of_users(
    relation: Relation,
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    vectors: Sequence[Vector],
    nodes: ReportedNodes,
    *,
    types: tuple[str, ...],
    user_type: str,
    progress: bool,
) -> Iterator[pa.Table]:
    """Yield tables whose columns ``part, v0, v1, ...`` add up to what all users add to the parts.

    Users whose ids are whole numbers are put in order here, others are grouped by DuckDB.
    """
    grouped = user_type not in NUMBERS
    for some in user_ranges(relation, user_type):
        statement = user_rows_statement(
            *(hierarchy, unit, vectors, nodes),
            types=types,
            user_type=user_type,
            grouped=grouped,
            some=some,
        )
        table = relation.query(statement, progress)
        if grouped:
            many = pc.fill_null(pc.list_value_length(table["held"]), 0).to_numpy()
            user = np.repeat(np.arange(len(many)), many)
            table = _rows_in_lists(table["held"])
        else:
            user = _user_codes(table["u"].combine_chunks())
            table = table.drop_columns(["u"])
        yield from _bounded_sums(user, table, vectors, len(nodes.level))


def _rows_in_lists(held: pa.ChunkedArray) -> pa.Table:
    flat = pc.list_flatten(held)  # without a chunk, Arrow 20 makes no table of it
    if not pa.types.is_struct(flat.type):
        return pa.table({"v": flat})
    return pa.Table.from_struct_array(flat if flat.num_chunks else flat.combine_chunks())


def _bounded_sums(
    user: Ints, rows: pa.Table, vectors: Sequence[Vector], parts: int
) -> Iterator[pa.Table]:
    """Yield tables as :func:`parts_of_users` does, from the user, ``part`` and values of rows."""
    if rows["part"].null_count:
        raise SourceError(CHANGED)
    part = rows["part"].to_numpy().astype(np.int64)
    order = _order_by_users(user, part, parts)
    user, part, taken = user[order], part[order], pa.array(order)
    values = {name: rows[name].combine_chunks().take(taken) for name in rows.column_names[1:]}
    for begin, end in pairwise(whole_users(user, SOME_ROWS)):
        here = slice(begin, end)
        own = {name: column.slice(begin, end - begin) for name, column in values.items()}
        sums = pa.table(_sums_of_users(user[here], part[here], own))
        with register_table(sums, "what users have in parts") as summed:
            yield summed.query(bounded_parts_statement(vectors), False)


SOME_ROWS = 2**20
"""About how many rows are added up at once."""


SUMS_FIT = 2**62
"""Sums below it fit into 64 bits; others are added up as Python's whole numbers."""


def _user_codes(ids: pa.Array) -> Ints:
    """A number for each whole number, in the same order; NULL has one of its own."""
    filled = pc.fill_null(ids, pc.min(ids) if ids.null_count < len(ids) else 0)
    codes: Ints = filled.to_numpy().astype(np.int64)
    if ids.null_count:
        _, codes = np.unique(codes, return_inverse=True)
        codes[ids.is_null().to_numpy(zero_copy_only=False)] = -1
    return codes


def _order_by_users(user: Ints, part: Ints, parts: int) -> Ints:
    """The order of rows by user, then by part. They are sorted once if user, part and row fit into
    one number, else by part and then by user."""
    low, high = int(user.min(initial=0)), int(user.max(initial=0))
    of_parts = max(parts - 1, 1).bit_length()
    if (high - low).bit_length() + of_parts + len(user).bit_length() <= BITS:
        return _stable_order(((user - low) << of_parts) | part)
    order = _stable_order(part)
    return order[_stable_order(user[order])]


def _stable_order(key: Ints) -> Ints:
    """The order of rows by a key; rows with equal keys stay in their order. If key and row fit into
    one number, these numbers are sorted, which is far faster."""
    low, high = int(key.min(initial=0)), int(key.max(initial=0))
    of_rows = len(key).bit_length()
    if (high - low).bit_length() + of_rows > BITS:
        return np.argsort(key, kind="stable")
    packed = key - low
    packed <<= of_rows
    packed |= np.arange(len(key))
    packed.sort()
    packed &= (1 << of_rows) - 1
    return packed


def _sums_of_users(user: Ints, part: Ints, values: Mapping[str, pa.Array]) -> dict[str, Any]:
    """The columns that ``bounded_parts_statement`` reads, one row for each user and part, from rows
    in the order of users and parts. Sums are exact."""
    same = np.diff(user, prepend=user[:1] - 1) == 0
    start = np.flatnonzero(~same | (np.diff(part, prepend=-1) != 0))
    owner = np.flatnonzero(~same[start])
    of_user = np.repeat(np.arange(len(owner)), np.diff(np.append(owner, len(start))))
    m = np.diff(np.append(start, len(user)))
    out: dict[str, NDArray[Any]] = {"part": part[start], "m": m}
    out["all_m"] = np.add.reduceat(m, owner)[of_user]
    for name, column in values.items():
        x = pc.fill_null(column, 0).to_numpy()
        if float(np.abs(x.astype(np.float64)).max(initial=0)) * len(x) >= SUMS_FIT:
            x = x.astype(object)
        x = np.add.reduceat(x, start)
        n = np.add.reduceat(
            column.is_valid().to_numpy(zero_copy_only=False).astype(np.int64), start
        )
        up, down = np.maximum(x, 0), np.maximum(-x, 0)
        totals = {f"all_n{name}": n, f"up_{name}": up, f"down_{name}": down}
        out |= {name: x, f"n{name}": n}
        out |= {total: np.add.reduceat(each, owner)[of_user] for total, each in totals.items()}
    return {
        name: pa.array(column, pa.decimal128(38)) if column.dtype == object else column
        for name, column in out.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class KeyRows:
    """Rows of users, read once for shares and for what is added up later. Private.

    Row i is of the user ``user[i]`` and has the key ``key[i]``, both numbers from 0; ``values`` are
    by what they add. ``keys`` has the columns k1, k2, ... of every key, in their order, and
    ``hashes`` are those of users from which the offsets of their shares follow.
    """

    user: Ints
    key: Ints
    values: Mapping[Summand, pa.Array]
    keys: pa.Table
    hashes: Hashes

    def __repr__(self) -> str:
        return "KeyRows(<private>)"

    def has(self, vectors: Sequence[Vector]) -> bool:
        """Whether all values that vectors add up are at hand."""
        return self.values.keys() >= {*summands_of_users(vectors)}

    def shares(self, grid: int) -> UserLeaves:
        """What users count at each key, in units of which each user has ``grid``."""
        bits = max(len(self.keys) - 1, 1).bit_length()
        packed = (self.user << bits) | self.key
        packed.sort()
        k, n = share_user_leaves(packed, self.hashes.take, bits, grid)
        names = self.keys.column_names
        table = self.keys.take(pa.array(k)).append_column("n", pa.array(n))
        return UserLeaves(table, f"SELECT {', '.join(names)}, n FROM {VIEW}")

    def parts(
        self,
        hierarchy: Hierarchy,
        types: tuple[str, ...],
        vectors: Sequence[Vector],
        nodes: ReportedNodes,
    ) -> Iterator[pa.Table]:
        """Yield tables as :func:`parts_of_users` does."""
        keys = self.keys.append_column("v", pa.array(np.arange(len(self.keys))))
        places = [f"keyed AS (FROM {VIEW})", *leaf_places_ctes(hierarchy, types, nodes)]
        query = f"SELECT v, part FROM {keyed_leaves_join(hierarchy, nodes)}"
        with register_table(keys, "the keys of users") as relation:
            found = relation.query(f"WITH {', '.join(places)} {query}", False)
        part = np.zeros(len(keys), dtype=np.int64)
        part[found["v"].to_numpy()] = found["part"].to_numpy()
        wanted = vector_summands(vectors, by_user=True)
        rows = pa.table(
            {"part": part[self.key], **{name: self.values[one] for name, one in wanted.items()}}
        )
        yield from _bounded_sums(self.user, rows, vectors, len(nodes.level))


def summands_of_users(vectors: Sequence[Vector]) -> list[Summand]:
    """The different values of users that vectors add up."""
    return [*dict.fromkeys(vector_summands(vectors, by_user=True).values())]


def text_key_rows(
    relation: Relation,
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    types: tuple[str, ...],
    user_type: str,
    values: Sequence[Summand],
    *,
    seed: int,
    progress: bool,
) -> KeyRows | None:
    """The rows of users who count by shares of them, with ``values``; None where SQL has to count:
    for other types than texts and whole numbers, and for more rows than numpy should hold."""
    readable = {*NUMBERS, "VARCHAR"}
    if unit.weight is not None or unit.grid == 1 or not isinstance(hierarchy, Columns):
        return None
    if not {*types, user_type} <= readable or len(user_ranges(relation, user_type)) > 1:
        return None
    beside = {f"x{i}": one.sql for i, one in enumerate(values)}
    source, read = source_sql(
        *(hierarchy, unit),
        types=types,
        user_type=user_type,
        view=VIEW,
        beside=beside,
        again=relation.repeats(computed=False),
    )
    names, kept = finest_columns(hierarchy), ", ".join(["u", *beside])
    keys, order = ", ".join(names), ascending_order(*names)
    held = "NOT " if relation.repeats(computed=False) else ""
    packed = ", ".join(f"{name} := {name}" for name in ("v", *beside))
    packed = f"struct_pack({packed})" if beside else "v"  # numbers alone are listed faster
    joined = f"keyed LEFT JOIN numbered ON {same_key_sql(names, 'keyed', 'numbered')}"
    table = relation.query(
        f"WITH {source}, keyed AS {held}MATERIALIZED "
        f"({keyed_sql(hierarchy, read, 'source', kept)}), numbered AS MATERIALIZED (SELECT {keys}, "
        f"(row_number() OVER (ORDER BY {order}) - 1)::UINTEGER AS v FROM (SELECT DISTINCT {keys} "
        f'FROM keyed)) SELECT min({user_hash("u", seed)}) AS "hash", '
        f'list({packed}) AS "held", NULL::UINTEGER AS "v", '
        f"{', '.join(f'NULL AS {name}' for name in names)} FROM {joined} GROUP BY u "
        f"UNION ALL SELECT NULL, NULL, v, {keys} FROM numbered",
        progress,
    )
    is_user = pc.is_valid(table["held"])
    users, of_keys = table.filter(is_user), table.filter(pc.invert(is_user)).sort_by("v")
    many = pc.list_value_length(users["held"]).to_numpy()
    rows = _rows_in_lists(users["held"])
    if rows["v"].null_count:
        raise SourceError(CHANGED)
    return KeyRows(
        user=np.repeat(np.arange(len(many)), many),
        key=rows["v"].to_numpy().astype(np.int64),
        values=dict(zip(values, rows.columns[1:], strict=True)),
        keys=of_keys.select(list(names)),
        hashes=users["hash"].to_numpy(),
    )
