"""Bring candidates that another engine counted into the form of our own counts.

**Columns** of a result are read as a warehouse's client returned them.

Names can be in upper or lower case, and values of many types.

**Nodes** that another engine counted get the form of DuckDB's own rollup.

Candidates come in any order, with keys as portable texts. Here they get DuckDB's keys and preorder,
and are checked to be counts of a tree: accounting by paths holds only for a tree.

**Groups of records** that another engine counted get the form of cells that DuckDB counted.

Groups come in any order, with the levels and texts of their nodes (``sources.portable_sql``). Here
groups get DuckDB's keys, and each node counts the sum of the groups at and below it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpframe import _duck
from dpframe.common.texts import identifier
from dpframe.counts import Counts, CountTree
from dpframe.dialects import Dialect
from dpframe.errors import ColumnError, ParameterTypeError, SourceError
from dpframe.hierarchy import Hierarchy
from dpframe.hierarchy.portable import Keys
from dpframe.hierarchy.portable_kinds import returned_keys
from dpframe.sources.cell_leaves import (
    cell_rows,
    counted_cells,
    dimension_ctes,
    finest_columns,
    one_to,
    places_join,
)
from dpframe.sources.frames import arrow_table
from dpframe.sources.portable_sql import group_columns
from dpframe.sources.rollup_statement import counts_of, tree_of

AGAIN = "Run the statement again, and pass its whole result as the client returns it."

NUMBERS = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
"""Arrow types in which a client can return whole numbers."""


def candidate_columns(candidates: object, columns: tuple[str, ...]) -> pa.Table:
    """The columns of the result, in the order of ``columns``."""
    if isinstance(candidates, _duck.DuckDBPyRelation):
        with _duck.GivenRelation(candidates) as relation:
            chosen = ", ".join(map(identifier, _result_names(relation, columns)))
            table = relation.query(f"SELECT {chosen} FROM {_duck.VIEW}", False)
        return table.rename_columns(list(columns))
    named = _result_names(candidates, columns)
    try:
        table = arrow_table(candidates, named)
    except (pa.ArrowException, UnicodeError):
        table = None
    if table is None:  # outside of the handler: no traceback quotes a value
        raise SourceError(f"candidates has values that cannot be read. {AGAIN}")
    return table.rename_columns(list(columns))


def _result_names(candidates: object, columns: tuple[str, ...]) -> list[str]:
    """The names that the result has for the columns: warehouses can change their case."""
    there = [str(name) for name in _column_names_of_result(candidates)]
    found = {name.lower(): name for name in there}
    for name in columns:
        if sum(other.lower() == name for other in there) > 1:
            raise ColumnError(f"candidates has column {name!r} more than once. {AGAIN}")
    missing = [name for name in columns if name not in found]
    if missing:
        raise ColumnError(
            f"candidates has no column {missing[0]!r}; it needs {', '.join(columns)}. {AGAIN}"
        )
    return [found[name] for name in columns]


def _column_names_of_result(candidates: object) -> list[object]:
    names = getattr(candidates, "column_names", None)  # of Arrow
    if names is not None:
        return list(names)
    if not hasattr(candidates, "columns"):
        raise ParameterTypeError(
            f"candidates is {type(candidates).__name__}. Pass a pandas or Polars frame, an Arrow "
            "table or a DuckDB relation."
        )
    return list(candidates.columns)


def integer_column(column: pa.ChunkedArray, name: str) -> NDArray[np.int64]:
    """The column as whole numbers, whatever type it has; SourceError for any other value."""
    kind, numbers = column.type, None
    written = _is_text(kind)  # of objects, such as decimal.Decimal
    if pa.types.is_floating(kind):
        column = pc.if_else(pc.less_equal(pc.abs(column), 2.0**53), column, None)
    if written or any(test(kind) for test in NUMBERS):
        with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
            plain = column.cast(pa.string()).cast(pa.decimal128(38, 4)) if written else column
            numbers = plain.cast(pa.int64())
    if numbers is None or numbers.null_count:
        raise SourceError(f"candidates has no whole numbers in column {name!r}. {AGAIN}")
    found: NDArray[np.int64] = numbers.to_numpy()
    return found


def texts_of_column(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """The column as texts, whatever type of text it has; SourceError for other types."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
        if _is_text(kind):
            chunks = [c.dictionary.cast(pa.string()).take(c.indices) for c in column.chunks]
            column = pa.chunked_array(chunks, pa.string())
    if pa.types.is_null(kind) or _is_text(kind):
        return column.cast(pa.string())
    raise SourceError(f"candidates has no texts in column {name!r}, but {column.type}. {AGAIN}")


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


WHAT = "the candidates"

MOST = 2**61
"""The largest count, so that sums of counts and noise fit 64 bits."""


def preorder_table(
    table: pa.Table,
    hierarchy: Hierarchy,
    dialect: Dialect | None,
    types: tuple[str, ...],
    *,
    own: bool = False,
    sums: tuple[str, ...] = (),
) -> pa.Table:
    """``level, n, t1, ...`` as ``rollup_statement`` in DuckDB returns them, from any order of rows.

    ``dialect`` is None for rows of DuckDB's own statement. ``own`` says that dpframe itself ran the
    statement, so that the checks of ``CountTree.from_preorder`` are enough. ``sums`` are further
    columns.

    Unless ``own``, raises SourceError where a row is no node of the hierarchy, a node repeats, or a
    node has no parent, counts more than its parent, or counts less than its children together.
    """
    keys = returned_keys(hierarchy, dialect, types)
    with _duck.register_table(table, WHAT) as relation:
        wrong = {} if own else relation.query(_violations_sql(keys), False).to_pylist()[0]
        for what, found in wrong.items():
            if found:
                raise SourceError(REFUSED[what])
        return relation.query(_preorder_sql(keys, sums), False)


REFUSED = {
    "keys": f"candidates has keys that are no nodes of the hierarchy. {AGAIN}",
    "repeated": f"candidates has a node twice. {AGAIN}",
    "parents": f"candidates has a node whose parent is missing or counts less. {AGAIN}",
    "sums": f"candidates has a node that counts less than its children together. {AGAIN}",
}
"""Messages about rows that are no counts of a tree. They quote no value."""


def candidate_tree(
    candidates: object,
    hierarchy: Hierarchy,
    dialect: Dialect | None,
    types: tuple[str, ...],
    *,
    columns: tuple[str, ...],
    band: int,
    fingerprint: str,
    sums: Mapping[str, int] | None = None,
) -> CountTree:
    """The tree in the result of the statement that has this fingerprint. Private. ``sums`` names
    columns of sums, each with the largest absolute value of one record.

    Raises ColumnError for missing columns, and SourceError for a result of another plan or with
    missing rows, and for rows that are no counts of a tree at or above the band.
    """
    table = candidate_columns(candidates, columns)
    level, n = (integer_column(table[name], name) for name in ("level", "n"))
    check_belongs(table, fingerprint)
    if (level < 0).any() or (level > hierarchy.height).any():
        raise SourceError(f"candidates has levels outside 0 to {hierarchy.height}. {AGAIN}")
    if (level == 0).sum() != 1:
        raise SourceError(f"candidates needs exactly one row of level 0. {AGAIN}")
    if (n[level > 0] < band).any() or (n < 0).any():
        raise SourceError(f"candidates has counts below the plan's band, {band}. {AGAIN}")
    if (n > MOST).any():
        raise SourceError(f"candidates has counts beyond {MOST}, which no table has. {AGAIN}")
    sums = sums or {}
    names = [name for name in columns if name not in ("level", "n", "plan", "nodes", *sums)]
    given = {"level": level, "n": n}
    given |= {name: texts_of_column(table[name], name) for name in (*names, *sums)}
    for name, most in sums.items():
        check_sums(given[name], n, most)
    rows = preorder_table(pa.table(given), hierarchy, dialect, types, sums=tuple(sums))
    return tree_of(rows, types, tuple(sums))


def check_belongs(table: pa.Table, fingerprint: str) -> None:
    """Raise SourceError for a result that is empty, of another plan, or of another number of rows
    than its column ``nodes`` says."""
    nodes = integer_column(table["nodes"], "nodes")
    if not table.num_rows:
        raise SourceError(f"candidates is empty, without the row of the root. {AGAIN}")
    if pc.unique(texts_of_column(table["plan"], "plan")).to_pylist() != [fingerprint]:
        raise SourceError("candidates belongs to another plan. Pass their statement's plan.")
    if (nodes != table.num_rows).any():
        raise SourceError(f"candidates lacks rows, or has too many. {AGAIN}")


SUM = re.compile("-?[0-9]{1,38}")


def check_sums(column: pa.ChunkedArray, n: NDArray[np.int64], most: int) -> None:
    """Raise SourceError for sums that ``n`` records of at most ``most`` each cannot add up to."""
    for text, records in zip(column.to_pylist(), n.tolist(), strict=True):
        if text is None or not SUM.fullmatch(text) or abs(int(text)) > records * most:
            raise SourceError(f"candidates has sums that its counts cannot have. {AGAIN}")


def _candidate_ctes(keys: Keys, sums: tuple[str, ...] = ()) -> str:
    """CTEs: ``given`` with texts t1, t2, ...; ``nodes``, which adds DuckDB's keys k1, k2, ..."""
    names = [f"t{i}" for i in range(1, keys.width + 1)]
    shown = ", ".join([*names, *sums])
    return (
        f"given AS (SELECT CAST(level AS BIGINT) AS level, CAST(n AS BIGINT) AS n, "
        f"{shown} FROM {identifier(_duck.VIEW)}), "
        f"nodes AS (SELECT level, n, {shown}, {', '.join(keys_from_texts(keys))} FROM given)"
    )


def keys_from_texts(keys: Keys) -> list[str]:
    """SQL for DuckDB's keys k1, k2, ..., from rows that have ``level`` and texts t1, t2, ..."""
    texts = tuple(f"CAST(t{i} AS VARCHAR)" for i in range(1, keys.width + 1))
    levels = range(1, keys.hierarchy.height + 1)
    by_level = [keys.key_of_text(level, texts) for level in levels]
    keyed = []
    for i in range(keys.width):
        cases = " ".join(
            f"WHEN {level} THEN {sql[i]}" for level, sql in zip(levels, by_level, strict=True)
        )
        keyed.append(f"CASE level {cases} END AS k{i + 1}")
    return keyed


def _preorder_sql(keys: Keys, sums: tuple[str, ...]) -> str:
    h = keys.hierarchy
    names = tuple(f"k{i}" for i in range(1, keys.width + 1))
    selects = []
    for level in range(1, h.height + 1):
        texts = h.texts(level, names, keys.types_of_keys)
        columns = [f"{level} AS level", "n"]
        columns += [f"{sql} AS s{i}" for i, sql in enumerate(h.preorder(level, names), 1)]
        columns += [f"{sql} AS t{i}" for i, sql in enumerate(texts, 1)]
        columns += sums
        selects.append(f"SELECT {', '.join(columns)} FROM nodes WHERE level = {level}")
    sorts = len(h.preorder(1, names))
    nulls = [f"NULL AS s{i}" for i in range(1, sorts + 1)]
    nulls += [f"NULL AS t{i}" for i in range(1, keys.width + 1)]
    nulls += sums
    root = f"SELECT 0 AS level, n, {', '.join(nulls)} FROM nodes WHERE level = 0"
    shown = ", ".join([*(f"t{i}" for i in range(1, keys.width + 1)), *sums])
    return (
        f"WITH {_candidate_ctes(keys, sums)} SELECT level, n, {shown} FROM "
        f"({' UNION ALL '.join([*selects, root])}) ORDER BY {h.order_by()}"
    )


def wrong_key_sql(keys: Keys) -> str:
    """SQL for whether the key of a row is no node of the row's level."""
    h = keys.hierarchy
    names = tuple(f"k{i}" for i in range(1, keys.width + 1))
    bad = []
    for level in range(1, h.height + 1):
        own = names[: len(h.coarser(level, names))]
        for i, name in enumerate(own, 1):
            first = level == 1 or h.kind == "columns"
            none = f"t{i} IS NOT NULL" if first else "true"
            member = f"NOT coalesce({keys.level_of_key(level, name)}, false)"
            bad.append(
                f"level = {level} AND CASE WHEN {name} IS NULL THEN {none} ELSE {member} END"
            )
        bad += [f"level = {level} AND t{i} IS NOT NULL" for i in _unused_places(own, names)]
    bad += [f"level = 0 AND t{i} IS NOT NULL" for i in range(1, len(names) + 1)]
    return " OR ".join(f"({b})" for b in bad)


def _violations_sql(keys: Keys) -> str:
    """A query of one row: for each rule, how many rows break it."""
    h = keys.hierarchy
    names = tuple(f"k{i}" for i in range(1, keys.width + 1))
    parents = []
    for level in range(1, h.height + 1):
        above = h.coarser(level - 1, names) if level > 1 else ()
        cast = [f"CAST({sql} AS VARCHAR) AS p{i}" for i, sql in enumerate(above, 1)]
        cast += [f"CAST(NULL AS VARCHAR) AS p{i}" for i in _unused_places(above, names)]
        cast += [f"CAST({name} AS VARCHAR) AS q{i}" for i, name in enumerate(names, 1)]
        parents.append(f"SELECT level, n, {', '.join(cast)} FROM nodes WHERE level = {level}")
    root = [f"CAST(NULL AS VARCHAR) AS {c}{i}" for c in "pq" for i in range(1, len(names) + 1)]
    parents.append(f"SELECT level, n, {', '.join(root)} FROM nodes WHERE level = 0")
    same = " AND ".join(f"a.p{i} IS NOT DISTINCT FROM b.q{i}" for i in range(1, len(names) + 1))
    q, p = (", ".join(f"{c}{i}" for i in range(1, len(names) + 1)) for c in "qp")
    return (
        f"WITH {_candidate_ctes(keys)}, tree AS ({' UNION ALL '.join(parents)}), "
        f"sums AS (SELECT level, {p}, sum(n) AS below FROM tree WHERE level > 0 "
        f"GROUP BY level, {p}) "
        f"SELECT (SELECT count(*) FROM nodes WHERE {wrong_key_sql(keys)}) AS keys, "
        f"(SELECT count(*) FROM (SELECT count(*) AS c FROM tree GROUP BY level, {q}) WHERE c > 1) "
        "AS repeated, "
        f"(SELECT count(*) FROM tree AS a LEFT JOIN tree AS b ON b.level = a.level - 1 AND {same} "
        "WHERE a.level > 0 AND (b.n IS NULL OR a.n > b.n)) AS parents, "
        f"(SELECT count(*) FROM sums AS a JOIN tree AS b ON b.level = a.level - 1 AND {same} "
        "WHERE a.below > b.n) AS sums"
    )


def _unused_places(some: tuple[str, ...], names: tuple[str, ...]) -> range:
    return range(len(some) + 1, len(names) + 1)


def candidate_cells(
    candidates: object,
    cells: Hierarchy,
    dialect: Dialect | None,
    types: tuple[str, ...],
    *,
    columns: tuple[str, ...],
    band: int,
    fingerprint: str,
    sums: Mapping[str, int],
) -> Counts:
    """The counts in the result of the statement that has this fingerprint. Private. ``sums`` names
    columns of sums, each with the largest absolute value of one record.

    Raises ColumnError for missing columns, and SourceError for a result of another plan or with
    missing rows, and for rows that are no groups of nodes at or above the band.
    """
    table = candidate_columns(candidates, columns)
    n = integer_column(table["n"], "n")
    check_belongs(table, fingerprint)
    names = group_columns(len(cells.dimensions), cells.key_width)
    levels, keys = names[: len(cells.dimensions)], names[len(cells.dimensions) :]
    given: dict[str, object] = {"n": n}
    whole = np.ones(len(n), dtype=np.bool_)
    for name, one in zip(levels, cells.dimensions, strict=True):
        level = integer_column(table[name], name)
        if (level < 0).any() or (level > one.height).any():
            raise SourceError(f"candidates has levels outside 0 to {one.height}. {AGAIN}")
        given[name] = level
        whole &= level == 0
    if whole.sum() != 1:
        raise SourceError(f"candidates needs exactly one row with all levels 0. {AGAIN}")
    if (n[~whole] < 1).any() or (n < 0).any():
        raise SourceError(f"candidates has groups of no records. {AGAIN}")
    if (n > MOST).any() or n.sum(dtype=object) > MOST:
        raise SourceError(f"candidates has counts beyond {MOST}, which no table has. {AGAIN}")
    read = {name: texts_of_column(table[name], name) for name in (*keys, *sums)}
    for name, most in sums.items():
        check_sums(read[name], n, most)
    return group_counts(
        pa.table(given | read), cells, dialect, types, band=band, sums=tuple(sums), own=False
    )


def group_counts(
    table: pa.Table,
    cells: Hierarchy,
    dialect: Dialect | None,
    types: tuple[str, ...],
    *,
    band: int,
    sums: tuple[str, ...] = (),
    own: bool = True,
) -> Counts:
    """Counts from the columns ``n, l1, ..., t1, ...`` and ``sums``. Private. ``dialect`` is None
    for rows of DuckDB's own statement; ``own`` says that dpframe itself ran the statement.

    Raises SourceError where a group repeats or has a node below the band, and, unless ``own``,
    where a text is no node of its dimension.
    """
    several = [
        returned_keys(one, dialect, read)
        for one, read in zip(cells.dimensions, cells.by_dimension(types), strict=True)
    ]
    parts = [_leaf_cte(cells, sums)]
    start, joins, wrong = 0, list[str](), list[str]()
    for number, (one, keys) in enumerate(zip(cells.dimensions, several, strict=True), 1):
        texts_of = [f"t{i}" for i in range(start + 1, start + one.key_width + 1)]
        start += one.key_width
        parts += _dimension_nodes_ctes(number, keys, texts_of)
        wrong.append(f"SELECT count(*) AS bad FROM nodes_{number} WHERE {wrong_key_sql(keys)}")
        kept = [f"t{i}" for i in one_to(one.key_width)]
        values = (
            f"(SELECT {', '.join(finest_columns(one))}, {', '.join(kept)}, level AS d, sum(n) AS n "
            f"FROM nodes_{number} GROUP BY ALL)"
        )
        of_keys = keys.types_of_keys
        parts += dimension_ctes(one, of_keys, number, values, band, kept=[*kept, "d"])
        pairs = [(f"l{number}", "d"), *zip(texts_of, kept, strict=True)]
        joins.append(places_join("leaf", f"places_{number}", f"p{number}", pairs))
    rows = f"leaf {' '.join(joins)}"
    cell = counted_cells(cells, "sum(leaf.n)::BIGINT", rows, added=sums)
    with _duck.register_table(table, WHAT) as relation:
        if not own:
            asked = f"WITH {', '.join(parts)} SELECT sum(bad) AS bad FROM "
            found = relation.query(f"{asked}({' UNION ALL '.join(wrong)})", False)
            if found["bad"].to_pylist() != [0]:
                raise SourceError(
                    f"candidates has keys that are no nodes of the hierarchy. {AGAIN}"
                )
        statement = f"WITH {', '.join([*parts, cell])} {cell_rows(cells, sums)}"
        counts = counts_of(relation.query(statement, False), cells, types, sums)
    if len(counts.own_counts) != table.num_rows + 1:  # one more: the row of no records
        raise SourceError(f"candidates has a repeated group, or nodes below the band. {AGAIN}")
    for number, (axis, places) in enumerate(zip(counts.axes, counts.places, strict=True), 1):
        asked_for = pc.sum(table[f"l{number}"]).as_py() or 0
        if int(axis.level[places].sum()) != asked_for:
            raise SourceError(f"candidates has a node below the plan's band, {band}. {AGAIN}")
    return counts


def _leaf_cte(cells: Hierarchy, sums: tuple[str, ...]) -> str:
    """The CTE ``leaf``: the groups as the client returned them."""
    names = group_columns(len(cells.dimensions), cells.key_width)
    shown = ["CAST(n AS BIGINT) AS n"]
    shown += [f"CAST({name} AS BIGINT) AS {name}" for name in names[: len(cells.dimensions)]]
    shown += [f"CAST({name} AS VARCHAR) AS {name}" for name in names[len(cells.dimensions) :]]
    shown += [f"CAST({name} AS HUGEINT) AS {name}" for name in sums]
    return f"leaf AS MATERIALIZED (SELECT {', '.join(shown)} FROM {identifier(_duck.VIEW)})"


def _dimension_nodes_ctes(number: int, keys: Keys, texts_of: list[str]) -> list[str]:
    """The CTE of one dimension's nodes in the groups: level, t1, ..., n, and DuckDB's keys."""
    own = ", ".join(f"{name} AS t{i}" for i, name in enumerate(texts_of, 1))
    rows = f"SELECT l{number} AS level, {own}, sum(n) AS n FROM leaf GROUP BY ALL"
    keyed = ", ".join(keys_from_texts(keys))
    return [f"nodes_{number} AS MATERIALIZED (SELECT *, {keyed} FROM ({rows}))"]
