"""Candidates that another engine counted, as the rollup in DuckDB would have returned them.

They come in any order, with keys as portable texts. Here they get DuckDB's keys and preorder, and
are checked for being counts of a tree: an accounting by paths would not hold for others.
"""

from __future__ import annotations

import pyarrow as pa

from dpframe import _duck
from dpframe._sql import identifier
from dpframe.dialects import Dialect
from dpframe.errors import SourceError
from dpframe.hierarchy import Hierarchy
from dpframe.hierarchy.portable import Keys
from dpframe.hierarchy.portable_kinds import portable_keys

WHAT = "the candidates"


def in_preorder(
    table: pa.Table, hierarchy: Hierarchy, dialect: Dialect, types: tuple[str, ...]
) -> pa.Table:
    """``level, n, t1, ...`` as ``rollup_sql`` in DuckDB returns them, from any order of rows.

    Raises SourceError where a row is no node of the hierarchy, a node repeats, or a node has no
    parent or more than its parent.
    """
    keys = portable_keys(hierarchy, dialect, types)
    with _duck.register(table, WHAT) as relation:
        wrong = relation.query(_wrong_sql(keys), False).to_pylist()[0]
        for what, found in wrong.items():
            if found:
                raise SourceError(REFUSED[what])
        return relation.query(_preorder_sql(keys), False)


REFUSED = {
    "keys": "candidates has rows whose keys are no nodes of the hierarchy",
    "repeated": "candidates has a node twice",
    "parents": "candidates has a node whose parent is missing or counts less",
    "sums": "candidates has a node that counts less than its children together",
}


def _parsed(keys: Keys) -> str:
    """CTEs: ``given`` with t1, t2, ... and ``nodes`` with DuckDB's keys k1, k2, ... beside them."""
    names = [f"t{i}" for i in range(1, keys.width + 1)]
    texts = tuple(f"CAST({name} AS VARCHAR)" for name in names)
    levels = range(1, keys.hierarchy.height + 1)
    by_level = [keys.key_of_text(level, texts) for level in levels]
    keyed = []
    for i in range(keys.width):
        cases = " ".join(
            f"WHEN {level} THEN {sql[i]}" for level, sql in zip(levels, by_level, strict=True)
        )
        keyed.append(f"CASE level {cases} END AS k{i + 1}")
    return (
        f"given AS (SELECT CAST(level AS BIGINT) AS level, CAST(n AS BIGINT) AS n, "
        f"{', '.join(names)} FROM {identifier(_duck.VIEW)}), "
        f"nodes AS (SELECT level, n, {', '.join(names)}, {', '.join(keyed)} FROM given)"
    )


def _preorder_sql(keys: Keys) -> str:
    h = keys.hierarchy
    names = tuple(f"k{i}" for i in range(1, keys.width + 1))
    selects = []
    for level in range(1, h.height + 1):
        texts = h.texts(level, names, keys.types_of_keys)
        columns = [f"{level} AS level", "n"]
        columns += [f"{sql} AS s{i}" for i, sql in enumerate(h.preorder(level, names), 1)]
        columns += [f"{sql} AS t{i}" for i, sql in enumerate(texts, 1)]
        selects.append(f"SELECT {', '.join(columns)} FROM nodes WHERE level = {level}")
    sorts = len(h.preorder(1, names))
    nulls = [f"NULL AS s{i}" for i in range(1, sorts + 1)]
    nulls += [f"NULL AS t{i}" for i in range(1, keys.width + 1)]
    root = f"SELECT 0 AS level, n, {', '.join(nulls)} FROM nodes WHERE level = 0"
    shown = ", ".join(f"t{i}" for i in range(1, keys.width + 1))
    return (
        f"WITH {_parsed(keys)} SELECT level, n, {shown} FROM "
        f"({' UNION ALL '.join([*selects, root])}) ORDER BY {h.order_by()}"
    )


def _wrong_sql(keys: Keys) -> str:
    """One row: how many rows break each rule."""
    h = keys.hierarchy
    names = tuple(f"k{i}" for i in range(1, keys.width + 1))
    bad, parents = [], []
    for level in range(1, h.height + 1):
        own = names[: len(h.coarser(level, names))]
        for i, name in enumerate(own, 1):
            first = level == 1 or h.kind == "columns"
            none = f"t{i} IS NOT NULL" if first else "true"
            member = f"NOT coalesce({keys.level_of_key(level, name)}, false)"
            bad.append(
                f"level = {level} AND CASE WHEN {name} IS NULL THEN {none} ELSE {member} END"
            )
        bad += [f"level = {level} AND t{i} IS NOT NULL" for i in _beyond(own, names)]
        above = h.coarser(level - 1, names) if level > 1 else ()
        cast = [f"CAST({sql} AS VARCHAR) AS p{i}" for i, sql in enumerate(above, 1)]
        cast += [f"CAST(NULL AS VARCHAR) AS p{i}" for i in _beyond(above, names)]
        cast += [f"CAST({name} AS VARCHAR) AS q{i}" for i, name in enumerate(names, 1)]
        parents.append(f"SELECT level, n, {', '.join(cast)} FROM nodes WHERE level = {level}")
    bad += [f"level = 0 AND t{i} IS NOT NULL" for i in range(1, len(names) + 1)]
    root = [f"CAST(NULL AS VARCHAR) AS {c}{i}" for c in "pq" for i in range(1, len(names) + 1)]
    parents.append(f"SELECT level, n, {', '.join(root)} FROM nodes WHERE level = 0")
    same = " AND ".join(f"a.p{i} IS NOT DISTINCT FROM b.q{i}" for i in range(1, len(names) + 1))
    q, p = (", ".join(f"{c}{i}" for i in range(1, len(names) + 1)) for c in "qp")
    return (
        f"WITH {_parsed(keys)}, tree AS ({' UNION ALL '.join(parents)}), "
        f"sums AS (SELECT level, {p}, sum(n) AS below FROM tree WHERE level > 0 "
        f"GROUP BY level, {p}) "
        f"SELECT (SELECT count(*) FROM nodes WHERE {' OR '.join(f'({b})' for b in bad)}) AS keys, "
        f"(SELECT count(*) FROM (SELECT count(*) AS c FROM tree GROUP BY level, {q}) WHERE c > 1) "
        "AS repeated, "
        f"(SELECT count(*) FROM tree AS a LEFT JOIN tree AS b ON b.level = a.level - 1 AND {same} "
        "WHERE a.level > 0 AND (b.n IS NULL OR a.n > b.n)) AS parents, "
        f"(SELECT count(*) FROM sums AS a JOIN tree AS b ON b.level = a.level - 1 AND {same} "
        "WHERE a.below > b.n) AS sums"
    )


def _beyond(some: tuple[str, ...], names: tuple[str, ...]) -> range:
    return range(len(some) + 1, len(names) + 1)
