"""Bring candidates that another engine counted into the form of DuckDB's own rollup.

Candidates come in any order, with keys as portable texts. Here they get DuckDB's keys and preorder,
and are checked to be counts of a tree: accounting by paths holds only for a tree.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

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
from dpframe.sources.count_rows import tree_of
from dpframe.tree import CountTree

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
