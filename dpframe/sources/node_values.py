"""Values of columns at the nodes of a release, on the private side: in bins, and of users.

**Values in bins** are read by SQL, each with the part of a selection where it lies.

Parts are those of :mod:`dpframe.sources.segment_places`, and public. CTEs, in order:

source  the columns that matter, renamed, with the user u and the value v
keyed   the finest key of every row that has a value
leaves  the part of every finest key, unless keys have codes

**Codes** of finest keys are whole numbers, from which a table has the part. They take the place of
a join where every level is a column of whole numbers, and the reported ones are close together. So
types and reported nodes alone, which are public, decide whether there are codes. A record's code
depends on its own key and on what is public.

**Amounts of users** are what users have of columns at their nodes, and its sums with bounds.

What a user adds depends on this user, on public numbers and on nothing else; it is in whole
numbers, so that its norm is surely within its bound.

**Different values of users** are matched with users: each value at a node with one user who has it
there, each user at each level with at most so many values. Those that count are the first largest
set that can be matched, in an order of hashes that does not depend on the data: a value counts
where it can be matched beside all values that count before it. So one user more takes nothing away,
and adds at most as many values as they are matched with (docs/guarantees.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpframe._duck import VIEW
from dpframe.budget import PrivacyUnit
from dpframe.common.texts import identifier
from dpframe.counts import Ints, NodeSet
from dpframe.errors import SourceError
from dpframe.hierarchy import Hierarchy
from dpframe.hierarchy._date import moment_sql
from dpframe.measures.bins import ValueKind, value_sql
from dpframe.measures.measure import LARGEST, LEAST, BinVectors
from dpframe.sources.cell_leaves import finest_columns, keyed_sql
from dpframe.sources.rollup_statement import source_sql
from dpframe.sources.segment_places import (
    PublicNodes,
    ReportedNodes,
    keyed_leaves_join,
    leaf_places_ctes,
    node_places_ctes,
    reported_levels,
)

Few = NDArray[np.int32]


def binned_sql(column: str, duckdb_type: str, kind: ValueKind) -> str:
    """SQL of a value as the floating-point number that bins are of; NULL, infinite or no number for
    what is no value. No value is an error."""
    if kind == "number":
        return f"TRY_CAST({column} AS DOUBLE)"
    if kind == "duration":
        return f"epoch(TRY_CAST({column} AS INTERVAL))"
    return f"epoch({moment_sql(column, duckdb_type)})"  # NULL for infinite times


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeyCodes:
    """Codes of finest keys: their SQL, over the columns k1, k2, ..., and the part by code."""

    sql: str
    parts: Ints


MOST_CODES = 2**20
"""The most codes: their table stays in the cache of a processor."""


def key_codes(hierarchy: Hierarchy, types: tuple[str, ...], nodes: PublicNodes) -> KeyCodes | None:
    """Codes of the finest keys of records, by which the reported nodes are told apart; None without
    such codes.

    A code has one digit for each level, coarse to fine: the distance of the level's number from the
    least reported one, or one of two digits for NULL and for all other numbers.
    """
    from dpframe.sources.packed_keys import packable

    if not packable(hierarchy, types):
        return None
    levels, sql, sizes, digits = reported_levels(nodes), "0", list[int](), list[Ints]()
    for level in range(1, max(levels, default=0) + 1):
        column = nodes.keys[level - 1]
        numbers = _whole_numbers(column.filter(pa.array(nodes.level >= level)))
        if numbers is None:
            return None
        known = [number for number in numbers.unique().to_pylist() if number is not None]
        low, high = min(known, default=0), max(known, default=-1)
        sizes.append(high - low + 1 + OTHERS)
        if math.prod(sizes) > MOST_CODES:
            return None
        own = numbers.fill_null(low).to_numpy() - np.int64(low) + OTHERS
        own[numbers.is_null().to_numpy()] = MISSING
        digit = np.zeros(len(nodes.level), dtype=np.int64)
        digit[nodes.level >= level] = own
        digits.append(digit)
        key = finest_columns(hierarchy)[level - 1]
        sql = (
            f"({sql}) * {sizes[-1]} + CASE WHEN {key} BETWEEN {low} AND {high} THEN "
            f"{key}::BIGINT - ({low}) + {OTHERS} WHEN {key} IS NULL THEN {MISSING} ELSE {OTHER} END"
        )
    parts, code = np.zeros(math.prod(sizes), dtype=np.int64), np.zeros(len(nodes.level), np.int64)
    for level, (size, digit) in enumerate(zip(sizes, digits, strict=True), 1):
        code = code * size + digit
        here = np.flatnonzero(nodes.level == level)
        below = parts.reshape(math.prod(sizes[:level]), -1)
        below[code[here]] = here[:, None]  # and finer nodes after them
    return KeyCodes(sql=sql, parts=parts)


OTHER, MISSING, OTHERS = 0, 1, 2
"""The digit of a number beyond the reported ones, that of NULL, and how many such digits there
are."""


def _whole_numbers(texts: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """The numbers of 64 bits that texts are; None if one is another text."""
    try:
        numbers = texts.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    return numbers if numbers.cast(texts.type).equals(texts) else None


def bins_statement(
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    vectors: BinVectors,
    nodes: ReportedNodes,
    *,
    types: Mapping[str, str],
    again: bool,
    codes: KeyCodes | None,
) -> str:
    """The statement; ``types`` are DuckDB's, by column. By record it returns ``code, v`` of every
    value, which is counted elsewhere: to group rows by part and bin takes four times as long.
    ``code`` is the part if there are no ``codes``. ``again`` says that the source may be read
    twice, so that nothing holds its rows.

    By user it returns ``part, bin, n``, without what is 0. ``n`` adds up what users weigh there, of
    ``vectors.unit`` units a user, rounded down. A user has as many units at most, and for totals
    and means as many at each level. It depends on this user alone.
    """
    number = binned_sql(identifier(vectors.column), types[vectors.column], vectors.value)
    value, valued = number, "isfinite(v)"
    if vectors.each != "row":  # whole steps: no total depends on the order of rows
        value, valued = value_sql(number, vectors.steps, clipped=False), "v IS NOT NULL"
    by_user = unit.user is not None
    source, read = source_sql(
        hierarchy,
        unit,
        types=tuple(types[column] for column in hierarchy.source_columns),
        user_type=types[unit.user] if unit.user is not None else None,
        view=VIEW,
        beside={"v": value},
        again=again or codes is not None,
    )
    rows, kept = f"(FROM source WHERE {valued})", "u, v" if by_user else "v"
    parts = [source, f"keyed AS NOT MATERIALIZED ({keyed_sql(hierarchy, read, rows, kept)})"]
    if codes is not None:
        return f"WITH {', '.join(parts)} SELECT ({codes.sql})::UINTEGER AS code, v FROM keyed"
    if hierarchy.has_cells or by_user:
        parts += leaf_places_ctes(hierarchy, read, nodes)
    else:  # without the values, keys are found by reading less
        parts.append(f"keys AS NOT MATERIALIZED ({keyed_sql(hierarchy, read, 'source', '')})")
        parts += node_places_ctes(hierarchy, read, nodes, "keys")
    placed = keyed_leaves_join(hierarchy, nodes)
    if not by_user:
        return f"WITH {', '.join(parts)} SELECT part::UINTEGER AS code, v FROM {placed}"
    own = _row_weight_ctes if vectors.each == "row" else _total_weight_ctes
    parts += own(hierarchy, vectors, nodes, placed)
    return (
        f"WITH {', '.join(parts)} SELECT part, bin, sum(n)::BIGINT AS n FROM bounded "
        "GROUP BY part, bin"
    )


def _row_weight_ctes(_: Any, vectors: BinVectors, __: Any, placed: str) -> list[str]:
    """CTEs up to ``bounded``: a user's units, divided over the rows that have a value."""
    return [
        f"sums AS (SELECT u, part, {vectors.bins.place_sql('v')} AS bin, count(*) AS n FROM "
        f"{placed} GROUP BY u, part, bin)",
        "users AS (SELECT u, sum(n)::BIGINT AS all_n FROM sums GROUP BY u)",
        f"bounded AS (SELECT part, bin, ({vectors.unit} * n) // all_n AS n FROM sums JOIN "
        "users ON sums.u IS NOT DISTINCT FROM users.u)",
    ]


def _total_weight_ctes(
    hierarchy: Hierarchy, vectors: BinVectors, nodes: ReportedNodes, placed: str
) -> list[str]:
    """CTEs up to ``bounded``, for the total or mean of each user at every node: a user's units at
    each level, divided evenly over the nodes where the user has values."""
    levels, root = ([], "part") if hierarchy.has_cells else (reported_levels(nodes), "0")
    at = "".join(f", n{level}" for level in levels)
    times = " * n" if vectors.each == "mean" else ""
    edge = f"(({{}})::HUGEINT{times})"
    place = vectors.bins.place_sql("x", lambda value: edge.format(vectors.steps.of(value)))
    each = " UNION ALL ".join(
        f"SELECT n{level} AS part, {place} AS bin, count(*) OVER (PARTITION BY u) AS k FROM "
        f"(SELECT u, n{level}, sum(v)::HUGEINT AS x, count(*) AS n FROM placed "
        f"WHERE n{level} IS NOT NULL GROUP BY u, n{level})"
        for level in (0, *levels)
    )
    return [
        f"placed AS (SELECT u, v, {root} AS n0{at} FROM {placed})",
        f"bounded AS (SELECT part, bin, {vectors.unit} // k AS n FROM ({each}))",
    ]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class UserColumns:
    """What users have of columns at their finest keys, those of the root among them. Private.

    Rows are in the order of users, and of nodes within a user, so that what is added up for a user
    does not depend on others. ``values``: float64, shape (columns, rows).
    """

    user: Ints
    leaf: Ints
    values: NDArray[np.float64]

    def amounts(self, nodes: NodeSet, column: int, part: NDArray[np.bool_]) -> UserAmounts:
        """What users have of a column at and below each node of a ``part`` of the nodes."""
        values, number = self.values[column], np.where(part, np.cumsum(part) - 1, -1)
        above = [nodes.ancestors_at(level) for level in np.unique(nodes.level[part]).tolist()]
        places = [np.where(node >= 0, number[node], -1) for node in above]
        size = int(part.sum())

        def of_some(begin: int, end: int) -> tuple[Ints, NDArray[np.float64]]:
            user, leaf, value = (each[begin:end] for each in (self.user, self.leaf, values))
            at = [place[leaf] for place in places]
            pairs = [(user * size + one)[one >= 0] for one in at]
            amount = np.concatenate([value[:0], *(value[one >= 0] for one in at)])
            pair, where = np.unique(np.concatenate([user[:0], *pairs]), return_inverse=True)
            return pair, np.bincount(where, amount, len(pair))

        ends = whole_users(self.user, BLOCK_ROWS)
        several = [(self.user[:0], values[:0]), *by_threads(of_some, ends)]
        pair, amount = (np.concatenate(parts) for parts in zip(*several, strict=True))
        return UserAmounts(user=pair // size, node=pair % size, amount=amount, nodes=size)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class UserAmounts:
    """What every user has of a column at some nodes, one row a pair of user and node. Private."""

    user: Ints
    node: Ints
    amount: NDArray[np.float64]
    nodes: int

    def magnitudes(self, lower: float, upper: float) -> Ints:
        """How many users each bin has; a user with what is between the bounds is in the bin of the
        Euclidean norm, a power of two, and in none if the norm is 0."""
        amount = np.clip(self.amount, lower, upper)
        norm = np.sqrt(np.bincount(self.user, amount * amount))
        exponent = np.frexp(norm[norm > 0])[1] - 1
        bins = np.clip(exponent, LEAST, LARGEST) - LEAST
        return np.bincount(bins, minlength=LARGEST - LEAST + 1).astype(np.int64)

    def bounded_sums(self, lower: float, upper: float, bound: float, norm: int, most: int) -> Ints:
        """The sum at every node in whole units, of which ``bound`` has ``norm``.

        What a user has at a node is cut to the bounds, and then to a level of this user, so that
        the Euclidean norm over all nodes is at most ``norm``. A user adds to at most ``most``
        nodes, to those with the most.
        """

        def of_some(begin: int, end: int) -> Ints:
            here = slice(begin, end)
            amount = np.clip(self.amount[here], lower, upper)
            user, node = self.user[here] - self.user[begin], self.node[here]
            units = np.minimum(np.rint(np.abs(amount) / bound * norm), norm).astype(np.int64)
            units = _bounded_units(user, node, units, norm, most)
            return node_sums(node, np.where(amount < 0, -units, units), self.nodes)

        ends = whole_users(self.user, BLOCK_ROWS)
        return np.sum([np.zeros(self.nodes, dtype=np.int64), *by_threads(of_some, ends)], axis=0)


def whole_users(user: Ints, rows: int) -> list[int]:
    """Ends of blocks of about so many rows, which are in the order of users; none is divided."""
    return sorted({0, *np.searchsorted(user, user[rows::rows]).tolist(), len(user)})


def _bounded_units(user: Ints, node: Ints, units: Ints, norm: int, most: int) -> Ints:
    """Units of users at nodes, cut as ``bounded_sums`` says."""
    squares, many = np.bincount(user, units * units), np.bincount(user)
    cut = np.flatnonzero(((squares > norm * norm) | (many > most))[user])  # the rest fits
    order = cut[np.lexsort([node[cut], -units[cut], user[cut]])]
    owner, cut_units = user[order], units[order]
    first = np.flatnonzero(np.diff(owner, prepend=-1))
    many = np.diff(np.append(first, len(owner)))
    cut_units[np.arange(len(owner)) - np.repeat(first, many) >= most] = 0
    levels = _levels_of_users(cut_units, first, many, norm)
    units[order] = np.minimum(cut_units, np.repeat(levels, many))
    return units


def _levels_of_users(units: Ints, first: Ints, many: Ints, norm: int) -> Ints:
    """The largest level of each user that keeps the norm of their units, cut to it, within
    ``norm``. A user has ``many`` units from a position in ``first`` on, in descending order."""
    squares = np.append(0, np.cumsum(units * units))
    end = np.repeat(first + many, many)
    row = np.arange(len(units))
    # from one unit on, what comes after it stays whole, and it and all before it are cut alike
    left = norm * norm - (squares[end] - squares[row + 1])
    alike = row - np.repeat(first, many) + 1
    level = np.where(left < 0, -1, floor_root(np.maximum(left, 0) // alike))
    fits = level < units  # cutting reaches this unit; so it does for all units before it
    reached = np.add.reduceat(fits.astype(np.int64), first) if len(first) else first
    last = np.maximum(first + reached - 1, 0)
    return np.where(reached > 0, level[last] if len(level) else 0, norm)


def matched_values(held: pa.ChunkedArray, nodes: int, most: int, *, root: bool) -> Ints:
    """How many values are matched at each of the ``nodes``, where each user is matched with at most
    ``most`` at a level. With ``root`` all values are at node 0, too.

    ``held`` has for each user the hash ``h`` of each value, and the nodes where it lies, a column a
    level, NULL for none. Values with one hash are one value.
    """
    many = pc.fill_null(pc.list_value_length(held), 0).to_numpy()
    count = np.zeros(nodes, dtype=np.int64)
    if not many.any():
        return count
    value, *places = pc.list_flatten(held).combine_chunks().flatten()
    if not root and places[0].null_count:
        raise SourceError(CHANGED)
    hashes = mix_bits(value.to_numpy().astype(np.uint64))
    order = np.argsort(hashes)
    hashes, user = hashes[order], np.repeat(np.arange(len(many)), many)[order]
    new = np.append(True, hashes[1:] != hashes[:-1])
    number, bits = np.cumsum(new) - 1, max(nodes - 1, 1).bit_length()
    mask = (1 << bits) - 1
    low = hashes[new].astype(np.int64) & mask  # so that no node comes first for all values
    levels = [np.zeros(len(user), dtype=np.int64)] if root else []
    levels += [pc.fill_null(place, -1).to_numpy()[order].astype(np.int64) for place in places]
    for node in levels:
        there = node >= 0
        at = (number << bits | (node ^ low[number]))[there]
        at, owner = different_pairs(at, user[there], len(many))
        starts = np.flatnonzero(np.diff(at, prepend=-1))
        node = (at[starts] ^ low[at[starts] >> bits]) & mask
        rows = np.bincount(owner, minlength=1)
        if rows.max() > most:
            loop = match_in_order if len(owner) < MANY_PAIRS else compiled_match()
            room = np.minimum(rows, most).astype(np.int32)
            ends = np.append(starts, len(owner))
            first = np.append(0, np.cumsum(room, dtype=np.int64))
            node = node[loop(ends, owner.astype(np.int32), first, room)]
        count += np.bincount(node, minlength=nodes)
    return count


CHANGED = "the source changed while it was read. Call again."

MANY_PAIRS = 2**14
"""From so many pairs of a user and a value on, the loop is compiled."""


@lru_cache
def compiled_match() -> Callable[[Ints, Few, Ints, Few], NDArray[np.bool_]]:
    """The loop of :func:`match_in_order`, compiled."""
    from dpframe.sketches._kernels import compile_loop

    return compile_loop(match_in_order)


def match_in_order(starts: Ints, user: Few, first: Ints, room: Few) -> NDArray[np.bool_]:
    """Return for each value whether it can be matched beside all that are matched before it.

    Value i has the users ``user[starts[i] : starts[i + 1]]``. User u can be matched with
    ``room[u]`` values, which are held from place ``first[u]`` on; this changes ``room``. Where none
    of a value's users has room, a shortest chain is searched in which each user takes a value of
    the one before, and the last one has room. Users who are reached in vain have no such chain
    later on either.
    """
    values = len(starts) - 1
    matched, owner = np.zeros(values, np.bool_), np.full(values, -1, np.int32)
    where, held = np.zeros(values, np.int64), np.zeros(first[-1], np.int32)
    reached, through = np.full(len(room), -1, np.int32), np.zeros(len(room), np.int32)
    queue = np.zeros(len(room), np.int32)
    for value in range(values):
        found, wanted, length, at, place, last = -1, value, 0, 0, 0, 0
        while True:
            for i in range(starts[wanted], starts[wanted + 1]):
                one = user[i]
                if reached[one] < value:
                    reached[one], through[one], queue[length] = value, wanted, one
                    length += 1
                    if room[one] > 0:
                        found = one
                        break
            if found >= 0:
                break
            if place == last:
                if at == length:
                    break
                place, last = first[queue[at]], first[queue[at] + 1]
                at += 1
            wanted = held[place]
            place += 1
        if found < 0:
            for at in range(length):
                reached[queue[at]] = values
            continue
        matched[value] = True
        room[found] -= 1
        one, place = found, first[found] + room[found]
        while one >= 0:  # back along the chain
            wanted = through[one]
            held[place] = wanted
            place, where[wanted] = where[wanted], place
            one, owner[wanted] = owner[wanted], one
    return matched


THREADS = 4
"""Threads, at most: each holds an array with one number for every node."""

BLOCK_ROWS = 2**17
"""Rows of users that numpy reads at once, but for users with more: they stay in the cache of a
processor."""


def threads() -> int:
    """How many threads work at once."""
    return min(int(pa.cpu_count()), THREADS)


def by_threads(work: Callable[[int, int], Any], ends: Sequence[int]) -> list[Any]:
    """What threads make of all ranges between ``ends``, in their order."""
    with ThreadPoolExecutor(threads()) as pool:
        each = pool.map if len(ends) > 2 else map  # one range waits for no other
        return list(each(work, ends[:-1], ends[1:]))


def different_pairs(one: Ints, other: Ints, size: int) -> tuple[Ints, Ints]:
    """The different pairs of a whole number and another one below ``size``, in order."""
    bits = max(size - 1, 1).bit_length()
    if int(one.max(initial=0)).bit_length() + bits > 63:
        order = np.lexsort([other, one])
        one, other = one[order], other[order]
        new = (np.diff(one, prepend=-1) != 0) | (np.diff(other, prepend=-1) != 0)
        return one[new], other[new]
    packed = (one << bits) | other
    if (packed[1:] < packed[:-1]).any():
        packed.sort()
    packed = packed[np.flatnonzero(np.diff(packed, prepend=-1))]
    return packed >> bits, packed & ((1 << bits) - 1)


def node_sums(at: NDArray[Any], number: Ints, size: int) -> Ints:
    """Sums of whole numbers, which floats hold exactly below 2**53."""
    return np.bincount(at, weights=number, minlength=size).astype(np.int64)


def floor_root(square: Ints) -> Ints:
    """The largest whole number whose square is at most ``square``, below 2**52."""
    root = np.sqrt(square.astype(np.float64)).astype(np.int64)
    root -= root * root > square
    return root + ((root + 1) * (root + 1) <= square)


def ceil_root(square: Ints) -> Ints:
    """The least whole number whose square is at least ``square``, below 2**52."""
    root = floor_root(square)
    return root + (root * root < square)


def mix_bits(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A permutation of 64-bit numbers in which every bit depends on all bits (Steele, Lea, Flood
    2014, SplitMix)."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return bits ^ (bits >> np.uint64(31))
