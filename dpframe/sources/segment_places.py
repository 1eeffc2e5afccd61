"""Where records lie among reported nodes and cells, and what is added up there.

**Places**: SQL finds where the finest keys of a source lie among reported nodes.

Reported nodes are public, and few; they come into the statement as rows. Two CTEs, over ``keyed``,
which has the finest keys k1, k2, ...:

chosen  the reported nodes: level, key and place
leaves  every finest key; its part, the place of the reported node furthest down, or of the root, 0;
        and n1, n2, ..., the places of its nodes at the reported levels, NULL for nodes that are not
        reported

**Segments**: SQL finds the segment of reported cells in which each record lies.

A segment has the records of a reported cell that no reported cell asked before it has. CTEs over
``keyed``, which has the finest keys of all dimensions, k1, k2, ...; for the dimension d:

keyed_d   its finest keys
chosen_d  its nodes that reported cells have
leaves_d  its finest keys, with the places of their nodes at every level of ``chosen_d``
reported  the reported cells, by the places of their nodes
leaves    every finest key, and its part: of the reported cells that hold the key, the place of the
          cell asked first, or 0, the rest, if there is none

**Parts**: what records or users have in every part of a selection is added up; a user's total is
bounded.

Parts are public, so a bound may depend on them and on the one user, and on nothing else. The
statement reads the view ``dpframe_source`` once and returns ``part, v0, v1, ...``; where users are
protected it returns rows, which :mod:`dpframe.sources.user_rows` adds up. Its CTEs, in order:

source          the columns that matter, renamed, with the user u and values in steps
keyed           the finest key of every row, k1, k2, ...
chosen, leaves  the part of every finest key (as for *Places*)

**Bounded values**: SQL, in whole numbers of any engine, gives what a record or user adds to a part.

The SQL reads one row per part, or per user and part, with these columns: ``m``, the number of
records; for a vector the sum ``xi`` and the number ``nxi`` of its values, where i is the number
that :func:`value_indices` gives the vector; and with users, the columns of
``user_total_columns``, added up over all parts of the user. Arithmetic is exact, and quotients are
rounded towards 0.

**Different values** are counted at every reported node, or in the segment of every cell.

If records are protected, all values count, and :mod:`dpframe.sources.user_rows` counts them. If
users are, :mod:`dpframe.sources.node_values` matches values with users. The statement returns a row
for each user, ``held``, the hashes ``h`` of their values with a secret seed, and where these lie.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, assert_never

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe._duck import VIEW
from dpframe.budget import PrivacyUnit
from dpframe.common.texts import literal
from dpframe.counts import ListedCells
from dpframe.hierarchy import Hierarchy, Kind
from dpframe.hierarchy._base import level_key_sql, pack_key
from dpframe.measures.measure import GRID, Distinct, Vector
from dpframe.sources.cell_leaves import finest_columns, keyed_sql, same_key_sql
from dpframe.sources.portable_sql import Summand
from dpframe.sources.rollup_statement import exact_column_sql, source_sql


class Arithmetic(Protocol):
    """How an engine computes with whole numbers; dialects have both methods."""

    def wide(self, value: str) -> str:
        """The value as a whole number of up to 38 digits."""

    def quotient(self, a: str, b: str) -> str:
        """The quotient, rounded towards 0."""


class DuckArithmetic:
    def wide(self, value: str) -> str:
        return f"CAST({value} AS HUGEINT)"

    def quotient(self, a: str, b: str) -> str:
        """Divide in 64 bits where both fit, as most do: 128 bits take ten times as long."""
        short = f"TRY_CAST({a} AS BIGINT) // TRY_CAST({b} AS BIGINT)"
        return f"coalesce({short}, {a} // {b})"


DUCKDB = DuckArithmetic()


def vector_summands(vectors: Sequence[Vector], *, by_user: bool) -> dict[str, Summand]:
    """The values of a row that vectors add up, by the name ``xi`` of the column."""
    own = zip(value_indices(vectors, by_user=by_user), vectors, strict=True)
    return {f"x{i}": added for i, v in own if (added := _summand_of(v, by_user)) is not None}


def value_indices(vectors: Sequence[Vector], *, by_user: bool) -> list[int]:
    """The i of every vector: the index of the first vector that adds up the same values; its own
    index if it adds up none."""
    first: dict[Summand, int] = {}
    out = []
    for i, v in enumerate(vectors):
        added = _summand_of(v, by_user)
        out.append(i if added is None else first.setdefault(added, i))
    return out


def _summand_of(v: Vector, by_user: bool) -> Summand | None:
    if v.column is None:
        return None
    counted = v.kind == "outside" and not by_user
    return Summand(
        kind="outside" if counted else "value",
        column=v.column,
        steps=v.bounds,
        clipped=not (by_user and v.of_total),
    )


def user_total_columns(i: int, vector: Vector, a: Arithmetic) -> dict[str, str]:
    """The columns that a vector needs, added up over all parts of a user: by name, the SQL of the
    value in one part."""
    x = f"x{i}"
    if vector.kind in ("users", "rows"):
        return {"all_m": "m"}
    above, below = _signed_sums_sql(x, a)
    ends = {f"up_{x}": above, f"down_{x}": below}
    if vector.kind == "sum":
        return ends
    return {f"all_n{x}": f"n{x}"} | (ends if vector.kind == "outside" else {})


def record_part_sql(i: int, vector: Vector, a: Arithmetic) -> str:
    """SQL for the value of a part whose records were bounded one by one."""
    x = f"x{i}"
    if vector.kind == "rows":
        return "m"
    if vector.kind in ("above", "below"):
        return _distance_sql(x, vector, a)
    return f"coalesce({x}, 0)"


def _distance_sql(x: str, vector: Vector, a: Arithmetic) -> str:
    """SQL for how far the values of a part lie above the lower bound, or below the upper bound,
    added up."""
    value = a.wide(f"coalesce({x}, 0)")
    if vector.kind == "above":
        return f"({value} - {a.wide(f'({vector.bounds.low})')} * n{x})"
    return f"({a.wide(f'({vector.bounds.high})')} * n{x} - {value})"


def of_user(i: int, vector: Vector, a: Arithmetic) -> str:
    """SQL for what one user adds to one part. Over all parts, a user adds at most
    ``vector.most``."""
    x, grid = f"x{i}", a.wide(str(GRID))
    if vector.kind == "users":
        return a.quotient(f"{grid} * m", "all_m")
    if vector.kind == "rows":
        most = vector.most // GRID
        return a.quotient(f"{grid} * m * {most}", f"greatest(all_m, {most})")
    values = f"nullif(all_n{x}, 0)"
    if vector.kind == "above" or vector.kind == "below":  # mypy reads no tuple
        return f"coalesce({a.quotient(_distance_sql(x, vector, a), values)}, 0)"
    if vector.kind == "outside":
        share = f"coalesce({a.quotient(f'{grid} * n{x}', values)}, 0)"
        return f"CASE WHEN {_is_clipped_sql(x, vector)} THEN {share} ELSE 0 END"
    if vector.kind == "sum":
        return _clipped_sum_sql(x, vector, a)
    assert_never(vector.kind)


def _signed_sums_sql(x: str, a: Arithmetic) -> tuple[str, str]:
    """SQL for a user's sum in a part: its positive part, and its negative part."""
    value = a.wide(f"coalesce({x}, 0)")
    return f"greatest({value}, 0)", f"greatest(-{value}, 0)"


def _sum_bounds(vector: Vector) -> tuple[int, int]:
    return max(vector.bounds.high, 0), max(-vector.bounds.low, 0)


def _clipped_sum_sql(x: str, vector: Vector, a: Arithmetic) -> str:
    """SQL for a user's sum in a part. Positive sums are scaled down to the upper bound, negative
    sums to the lower bound, and both together to the larger of the bounds. Results are rounded
    towards 0, to whole steps."""
    (above, below), (high, low) = _signed_sums_sql(x, a), _sum_bounds(vector)
    ups, downs = f"up_{x}", f"down_{x}"
    up = a.quotient(f"{above} * {high}", f"greatest({ups}, {high}, 1)")
    down = a.quotient(f"{below} * {low}", f"greatest({downs}, {low}, 1)")
    together = f"least({ups}, {high}) + least({downs}, {low})"
    most = vector.bounds.most
    cut = a.quotient(f"{a.wide(f'({up} - {down})')} * {most}", f"greatest({together}, {most})")
    # most users are within their bounds, and quotients of wide numbers are slow
    return (
        f"CASE WHEN {_is_clipped_sql(x, vector)} THEN {cut} ELSE {a.wide(f'coalesce({x}, 0)')} END"
    )


def _is_clipped_sql(x: str, vector: Vector) -> str:
    """SQL for whether ``_clipped_sum_sql`` cuts the sum of a user."""
    (high, low), (ups, downs) = _sum_bounds(vector), (f"up_{x}", f"down_{x}")
    return f"({ups} > {high} OR {downs} > {low} OR {ups} + {downs} > {vector.bounds.most})"


class PublicNodes(Protocol):
    """Public nodes; the first one is the root."""

    @property
    def level(self) -> NDArray[np.int64]: ...

    @property
    def keys(self) -> tuple[pa.ChunkedArray, ...]: ...


class ReportedNodes(PublicNodes, Protocol):
    """The reported nodes of a selection or a list."""

    @property
    def ancestor(self) -> NDArray[np.int64]: ...


def node_places_ctes(
    hierarchy: Hierarchy, types: tuple[str, ...], nodes: PublicNodes, keyed: str = "keyed"
) -> list[str]:
    """The CTEs ``chosen`` and ``leaves``. ``types`` are the types of the columns as the statement
    reads them; ``keyed`` has all finest keys."""
    names, _ = leaf_columns(hierarchy, nodes)
    return [
        f"chosen AS ({chosen_nodes(hierarchy, nodes)})",
        f"leaves AS ({leaves_among(hierarchy, types, nodes, names, keyed)})",
    ]


def reported_levels(nodes: PublicNodes) -> list[int]:
    """The levels that have reported nodes, in ascending order, without level 0."""
    return sorted({level for level in nodes.level.tolist() if level})


def keyed_leaves_join(hierarchy: Hierarchy, nodes: PublicNodes) -> str:
    """The join of ``keyed`` with the leaf of every row. Every row has a leaf. DuckDB overestimates
    the number of leaves; with LEFT its hash table holds the leaves, and not all rows."""
    keys = finest_columns(hierarchy)
    if not hierarchy.has_cells:
        keys, _ = leaf_columns(hierarchy, nodes)
    return f"keyed LEFT JOIN leaves ON {same_key_sql(keys, 'keyed', 'leaves')}"


def leaf_columns(hierarchy: Hierarchy, nodes: PublicNodes) -> tuple[tuple[str, ...], int]:
    """The first columns of the finest key, by which the reported levels are told apart, and their
    level: all of them if a coarser key is more than the first columns of a finer one."""
    keys, at = finest_columns(hierarchy), hierarchy.height
    if hierarchy.depth(keys) is not None:
        return keys, at
    for level in range(hierarchy.height - 1, max([1, *reported_levels(nodes)]) - 1, -1):
        coarser = hierarchy.coarser(level, keys)
        if coarser != keys[: len(coarser)]:
            break
        keys, at = coarser, level
    return keys, at


def chosen_nodes(hierarchy: Hierarchy, nodes: PublicNodes) -> str:
    """The query of ``chosen``."""
    wide: dict[int, int] = {}

    def width(level: int, columns: tuple[str, ...]) -> str:
        wide[level] = len(columns)
        return ""

    level_key_sql(hierarchy, finest_columns(hierarchy), width)
    texts = [np.array(key.cast(pa.string()).to_pylist(), dtype=object) for key in nodes.keys]
    selects = []
    for level in reported_levels(nodes):
        here = np.flatnonzero(nodes.level == level)
        names = tuple(f"t{i + 1}" for i in range(wide[level]))
        columns = {
            name: _list_rows(text[here].tolist(), "VARCHAR")
            for name, text in zip(names, texts, strict=False)
        }
        columns["place"] = _list_rows(here.tolist(), "BIGINT")
        shown = ", ".join(f"{sql} AS {name}" for name, sql in columns.items())
        selects.append(
            f"SELECT {level} AS level, {pack_key(names)} AS key, place FROM (SELECT {shown})"
        )
    return " UNION ALL ".join(selects or ["SELECT 0 AS level, NULL::VARCHAR AS key, 0 AS place"])


def _list_rows(values: Sequence[str | int | None], kind: str) -> str:
    """SQL of a column with these values, a row each. It is one text, for DuckDB takes 60 times as
    long to read a row of VALUES."""
    return f"unnest(from_json({literal(json.dumps(values))}, '[\"{kind}\"]'))"


def leaves_among(
    hierarchy: Hierarchy,
    types: tuple[str, ...],
    nodes: PublicNodes,
    names: tuple[str, ...],
    keyed: str = "keyed",
    chosen: str = "chosen",
) -> str:
    """The query of ``leaves``, which have the columns ``names``, from tables with the names
    ``keyed`` and ``chosen``."""

    def key(level: int, columns: tuple[str, ...]) -> str:
        return pack_key(hierarchy.texts(level, columns, types)[: len(columns)])

    steps, texts = level_key_sql(hierarchy, names, key)
    query = f"(SELECT DISTINCT {', '.join(names)} FROM {keyed})"
    for step in steps:
        added = ", ".join(f"{sql} AS {name}" for name, sql in step.items())
        query = f"(SELECT *, {added} FROM {query})"
    levels = reported_levels(nodes)
    named = "".join(f", {texts[level - 1]} AS s{level}" for level in levels)
    joins = " ".join(
        f"LEFT JOIN (SELECT key, place FROM {chosen} WHERE level = {level}) AS p{level} "
        f"ON (s{level} COLLATE C) = p{level}.key"
        for level in levels
    )
    part = ", ".join([*(f"p{level}.place" for level in reversed(levels)), "0"])
    at = "".join(f", p{level}.place AS n{level}" for level in levels)
    keys = ", ".join(f"named.{name} AS {name}" for name in names)
    return (
        f"SELECT {keys}, coalesce({part}) AS part{at} "
        f"FROM (SELECT {', '.join(names)}{named} FROM {query}) AS named {joins}"
    )


Texts = tuple[str | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _DimensionNodes:
    """The nodes of one dimension that reported cells have. Public."""

    level: NDArray[np.int64]
    keys: tuple[pa.ChunkedArray, ...]


def leaf_places_ctes(hierarchy: Hierarchy, types: tuple[str, ...], nodes: PublicNodes) -> list[str]:
    """The CTEs up to ``leaves``, of one hierarchy or of cells. The leaves of cells have a part, and
    no nodes at levels."""
    if hierarchy.has_cells:
        return _segment_ctes(hierarchy, types, nodes)
    return node_places_ctes(hierarchy, types, nodes)


def _dimension_ctes(
    d: int, one: Hierarchy, types: tuple[str, ...], nodes: PublicNodes, keys: Sequence[str]
) -> tuple[list[str], str]:
    """The CTEs that find the keys of one dimension among its nodes, and the SQL of their join.

    ``d`` is the number of the dimension. The last CTE, ``leaves_d``, is joined with ``keyed``, in
    which the columns ``keys`` have the keys of this dimension.
    """
    names = finest_columns(one)
    pairs = [*zip(keys, names, strict=True)]
    shown = ", ".join(f"{key} AS {name}" for key, name in pairs)
    on = " AND ".join(f"keyed.{key} IS NOT DISTINCT FROM l{d}.{name}" for key, name in pairs)
    ctes = [
        f"keyed_{d} AS (SELECT DISTINCT {shown} FROM keyed)",
        f"chosen_{d} AS ({chosen_nodes(one, nodes)})",
        f"leaves_{d} AS ({leaves_among(one, types, nodes, names, f'keyed_{d}', f'chosen_{d}')})",
    ]
    return ctes, f"JOIN leaves_{d} AS l{d} ON {on}"


def _listed_cells_ctes(cells: Hierarchy, types: tuple[str, ...], listed: ListedCells) -> list[str]:
    """The CTEs up to ``leaves``: the part of a row follows from the numbers of its keys."""
    parts, joins, part, stride = list[str](), list[str](), ["1"], 1
    for d, (one, own, axis) in reversed(
        [*enumerate(zip(cells.dimensions, cells.by_dimension(types), listed.axes, strict=True), 1)]
    ):
        start = sum(each.key_width for each in cells.dimensions[: d - 1])
        keys = finest_columns(cells)[start : start + one.key_width]
        own_ctes, join = _dimension_ctes(d, one, own, axis, keys)
        parts += own_ctes
        joins.append(join)
        part.append(f"(l{d}.n1 - 1) * {stride}")  # place 0 is the root
        stride *= len(axis.level) - 1
    every = ", ".join(finest_columns(cells))
    chosen = ", ".join(f"keyed.{name} AS {name}" for name in finest_columns(cells))
    return [
        *parts,
        f"leaves AS (SELECT {chosen}, coalesce({' + '.join(part)}, 0) AS part "
        f"FROM (SELECT DISTINCT {every} FROM keyed) AS keyed {' '.join(joins)})",
    ]


def _segment_ctes(cells: Hierarchy, types: tuple[str, ...], nodes: PublicNodes) -> list[str]:
    if isinstance(nodes, ListedCells):
        return _listed_cells_ctes(cells, types, nodes)
    kinds = [(0,) * len(cells.dimensions), *reversed(cells.kind_order)]
    depth = np.array([kinds[level] for level in nodes.level.tolist()], dtype=np.int64)
    parts, joins, places, start = list[str](), list[str](), list[list[int]](), 0
    for d, (one, own) in enumerate(
        zip(cells.dimensions, cells.by_dimension(types), strict=True), 1
    ):
        here = slice(start, start + one.key_width)
        line, place = _distinct_nodes(depth[:, d - 1], nodes.keys[here])
        places.append(place)
        start += one.key_width
        if not len(line.level):
            continue
        own_ctes, join = _dimension_ctes(d, one, own, line, finest_columns(cells)[here])
        parts += own_ctes
        joins.append(join)
    asked = list(reversed(reported_levels(nodes)))
    found = [f"r{level}" for level in asked]
    joins += [
        _cell_join(name, level, kinds[level]) for name, level in zip(found, asked, strict=True)
    ]
    part = ", ".join([*(f"{name}.place" for name in found), "0"])
    every = ", ".join(finest_columns(cells))
    chosen = ", ".join(f"keyed.{name} AS {name}" for name in finest_columns(cells))
    return [
        *parts,
        f"reported AS ({_cell_rows_sql(nodes, places)})",
        f"leaves AS (SELECT {chosen}, coalesce({part}) AS part "
        f"FROM (SELECT DISTINCT {every} FROM keyed) AS keyed {' '.join(joins)})",
    ]


def _distinct_nodes(
    depth: NDArray[np.int64], keys: Sequence[pa.ChunkedArray]
) -> tuple[_DimensionNodes, list[int]]:
    """The different nodes of a dimension, and for each cell the place of its node among them, -1
    where the dimension is rolled up."""
    texts = zip(*(key.cast(pa.string()).to_pylist() for key in keys), strict=True)
    numbers: dict[tuple[int, Texts], int] = {}
    place = [
        numbers.setdefault((level, text), len(numbers)) if level else -1
        for level, text in zip(depth.tolist(), texts, strict=True)
    ]
    levels = np.array([level for level, _ in numbers], dtype=np.int64)
    columns = zip(*(text for _, text in numbers), strict=True) if numbers else [[] for _ in keys]
    return (
        _DimensionNodes(
            level=levels,
            keys=tuple(pa.chunked_array([pa.array(list(c), pa.string())]) for c in columns),
        ),
        place,
    )


def _cell_join(name: str, level: int, kind: Kind) -> str:
    """The join with the reported cells of a kind, whose place it adds."""
    used = [(d, depth) for d, depth in enumerate(kind, 1) if depth]
    on = " AND ".join(f"{name}.p{d} = l{d}.n{depth}" for d, depth in used)
    chosen = ", ".join(["place", *(f"p{d}" for d, _ in used)])
    return f"LEFT JOIN (SELECT {chosen} FROM reported WHERE level = {level}) AS {name} ON {on}"


def _cell_rows_sql(nodes: PublicNodes, places: Sequence[Sequence[int]]) -> str:
    rows = ", ".join(
        f"({', '.join(map(str, row))})"
        for row in zip(range(len(nodes.level)), nodes.level.tolist(), *places, strict=True)
    )
    names = ", ".join(f"p{d}" for d in range(1, len(places) + 1))
    return f"SELECT * FROM (VALUES {rows}) AS cells(place, level, {names})"


def parts_statement(
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    vectors: Sequence[Vector],
    nodes: ReportedNodes,
    *,
    types: tuple[str, ...],
) -> str:
    """The statement of records; ``types`` are the DuckDB types of ``hierarchy.source_columns``."""
    values = {name: one.sql for name, one in vector_summands(vectors, by_user=False).items()}
    parts = _placed_ctes(hierarchy, unit, values, nodes, types=types, user_type=None)
    summed = "".join(f", sum({x}) AS {x}, count({x}) AS n{x}" for x in values)
    numbered = zip(value_indices(vectors, by_user=False), vectors, strict=True)
    shown = [f"{record_part_sql(*one, DUCKDB)} AS v{i}" for i, one in enumerate(numbered)]
    return (
        f"WITH {', '.join(parts)} SELECT {', '.join(['part', *shown])} FROM (SELECT part, "
        f"count(*) AS m{summed} FROM {keyed_leaves_join(hierarchy, nodes)} GROUP BY part)"
    )


def user_rows_statement(
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    vectors: Sequence[Vector],
    nodes: ReportedNodes,
    *,
    types: tuple[str, ...],
    user_type: str,
    grouped: bool,
    some: str,
) -> str:
    """The statement of the rows of ``some`` users; it returns ``u``, ``part`` and values of every
    row, or if ``grouped`` a list ``held`` of the parts and values of each user."""
    values = {name: one.sql for name, one in vector_summands(vectors, by_user=True).items()}
    parts = _placed_ctes(hierarchy, unit, values, nodes, types=types, user_type=user_type)
    listed = " AND part > 0" * isinstance(nodes, ListedCells)
    joined = f"{keyed_leaves_join(hierarchy, nodes)} WHERE ({some}){listed}"
    kept = ["part::UINTEGER AS part", *values]
    if not grouped:
        return f"WITH {', '.join(parts)} SELECT u, {', '.join(kept)} FROM {joined}"
    packed = ", ".join(f"{name} := {name}" for name in ("part", *values))
    return (
        f"WITH {', '.join(parts)} SELECT list(struct_pack({packed})) AS held "
        f"FROM (SELECT u, {', '.join(kept)} FROM {joined}) GROUP BY u"
    )


WIDE_ROWS = f"(SELECT part, COLUMNS(* EXCLUDE (part))::HUGEINT FROM {VIEW})"
"""Rows in one type, whatever sums are: DuckDB divides by DECIMAL in floating-point numbers."""


def bounded_parts_statement(vectors: Sequence[Vector]) -> str:
    """The statement over a table with a row for each user and part, ``part``, ``m``, sums and
    numbers of values, and the user's totals of ``user_total_columns``."""
    numbered = zip(value_indices(vectors, by_user=True), vectors, strict=True)
    shown = "".join(f", {of_user(*one, DUCKDB)} AS v{i}" for i, one in enumerate(numbered))
    total = "".join(f", sum(v{i}) AS v{i}" for i in range(len(vectors)))
    return f"SELECT part{total} FROM (SELECT part{shown} FROM {WIDE_ROWS}) GROUP BY part"


def _placed_ctes(
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    values: Mapping[str, str],
    nodes: ReportedNodes,
    *,
    types: tuple[str, ...],
    user_type: str | None,
    rows: str = "source",
) -> list[str]:
    """The CTEs up to ``leaves``, with the user and the ``values``, SQL by name, of each of the
    ``rows`` in ``keyed``."""
    source, types = source_sql(
        hierarchy,
        unit,
        types=types,
        user_type=user_type,
        view=VIEW,
        beside=values,
    )
    kept = ", ".join([*(["u"] if user_type is not None else []), *values])
    return [
        source,
        f"keyed AS NOT MATERIALIZED ({keyed_sql(hierarchy, types, rows, kept)})",
        *leaf_places_ctes(hierarchy, types, nodes),
    ]


def distinct_statement(
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    distinct: Distinct,
    nodes: ReportedNodes,
    *,
    types: tuple[str, ...],
    user_type: str,
    value_type: str,
    seed: int,
) -> str:
    """The statement where users are protected; ``types`` are the DuckDB types of
    ``hierarchy.source_columns``."""
    parts = _placed_ctes(
        *(hierarchy, unit),
        {"v": exact_column_sql(distinct.column, value_type)},
        nodes,
        types=types,
        user_type=user_type,
        rows="(FROM source WHERE v IS NOT NULL)",
    )
    places = value_places(hierarchy, nodes)
    at = "".join(f", {place}::INTEGER AS {place}" for place in places)
    parts.append(
        f"placed AS (SELECT DISTINCT u, hash(v, {seed}::UBIGINT) AS h{at} FROM "
        f"{keyed_leaves_join(hierarchy, nodes)})"
    )
    packed = ", ".join(f"{name} := {name}" for name in ("h", *places))
    return (
        f"WITH {', '.join(parts)} SELECT list(struct_pack({packed})) AS held FROM placed GROUP BY u"
    )


def value_places(hierarchy: Hierarchy, nodes: ReportedNodes) -> list[str]:
    """The columns with the places where values of users are matched, level by level; the root,
    where all are, has none."""
    if hierarchy.has_cells:
        return ["part"]
    return [f"n{level}" for level in reported_levels(nodes)]
