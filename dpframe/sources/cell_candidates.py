"""Bring groups of records that another engine counted into the form of cells counted by DuckDB.

Groups come in any order, with the levels and texts of their nodes (``sources.portable_groups``).
Here groups get DuckDB's keys, and each node counts the sum of the groups at and below it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpframe import _duck
from dpframe._sql import identifier
from dpframe.dialects import Dialect
from dpframe.errors import SourceError
from dpframe.hierarchy import Hierarchy
from dpframe.hierarchy.portable import Keys
from dpframe.hierarchy.portable_kinds import returned_keys
from dpframe.sources.candidate_columns import (
    AGAIN,
    candidate_columns,
    integer_column,
    texts_of_column,
)
from dpframe.sources.candidates import (
    MOST,
    WHAT,
    check_belongs,
    check_sums,
    keys_from_texts,
    wrong_key_sql,
)
from dpframe.sources.cell_leaves import cell_rows, counted_cells, dimension_ctes, places_join
from dpframe.sources.count_rows import counts_of
from dpframe.sources.portable_groups import group_columns
from dpframe.sources.record_leaves import finest_columns, one_to
from dpframe.tree import Counts


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
    if len(counts.own) != table.num_rows + 1:  # one more: the row of no records
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
