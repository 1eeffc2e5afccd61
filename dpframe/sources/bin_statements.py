"""SQL of the values that bins count, each with the part of a selection where it lies.

Parts are those of :mod:`dpframe.sources.segment_places`, and public. CTEs, in order:

source  the columns that matter, renamed, with the user u and the value v
keyed   the finest key of every row that has a value
leaves  the part of every finest key, unless keys have codes

**Codes** of finest keys are whole numbers, from which a table has the part. They take the place of
a join where every level is a column of whole numbers, and the reported ones are close together. So
types and reported nodes alone, which are public, decide whether there are codes. A record's code
depends on its own key and on what is public.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from dpframe._duck import VIEW
from dpframe.budget import PrivacyUnit
from dpframe.common.texts import identifier
from dpframe.counts import Ints
from dpframe.hierarchy import Hierarchy
from dpframe.hierarchy._date import moment_sql
from dpframe.measures.bins import ValueKind, value_sql
from dpframe.measures.measure import BinVectors
from dpframe.sources.cell_leaves import finest_columns, keyed_sql
from dpframe.sources.packed_keys import packable
from dpframe.sources.rollup_statement import source_sql
from dpframe.sources.segment_places import (
    PublicNodes,
    ReportedNodes,
    keyed_leaves_join,
    leaf_places_ctes,
    node_places_ctes,
    reported_levels,
)


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
