"""SQL of records as a stream: one row per record, in the source's order, one key per level.

Keys are those of ``rollup_statement``, and rows are not grouped. The statement of ``stream_sql``
reads the source once and returns ``l1, l2, ...``: the record's node at each level as text, NULL
where the record does not reach the level (:mod:`dpframe.hierarchy.stream_keys`). Where texts repeat
often, it is cheaper to read them unchanged (``texts_sql``) and to find the keys of each text once
(``keys_sql``).
"""

from __future__ import annotations

from dpframe._duck import VIEW
from dpframe._sql import ascending_order
from dpframe.budget import PrivacyUnit
from dpframe.hierarchy import Hierarchy
from dpframe.hierarchy.stream_keys import level_key_sql, pack_key
from dpframe.sources.record_leaves import (
    add_columns,
    add_key_steps,
    finest_columns,
    source_columns,
)
from dpframe.sources.rollup_statement import exact_column_sql, source_sql, user_pairs
from dpframe.sources.user_shares import user_sample_ctes


def stream_sql(hierarchy: Hierarchy, *, types: tuple[str, ...]) -> str:
    """A query of the keys of every record; ``types`` are the DuckDB types of
    ``hierarchy.source_columns``."""
    named = zip(hierarchy.source_columns, types, strict=True)
    chosen = ", ".join(
        f"{exact_column_sql(column, t)} AS c{i}" for i, (column, t) in enumerate(named)
    )
    keyed = (
        f"(SELECT {', '.join(finest_columns(hierarchy))} FROM "
        f"{_finest_key_query(hierarchy, chosen, types)})"
    )
    return _level_keys_query(hierarchy, types, keyed, "")


def texts_sql(hierarchy: Hierarchy) -> str:
    """A query of the one text column of a hierarchy, for ``keys_sql``."""
    (column,) = hierarchy.source_columns
    return f"SELECT {exact_column_sql(column, 'VARCHAR')} AS c0 FROM {VIEW}"


def keys_sql(hierarchy: Hierarchy) -> str:
    """A query of the keys of distinct texts ``c0``, numbered by ``i``, without dropped texts."""
    types = ("VARCHAR",)
    keyed = _finest_key_query(hierarchy, "i, c0 COLLATE C AS c0", types)
    finest = ", ".join(finest_columns(hierarchy))
    return f"WITH keyed AS MATERIALIZED (SELECT i, {finest} FROM {keyed}) " + _level_keys_query(
        hierarchy, types, "keyed", 'i AS "i", '
    )


def users_sql(
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    *,
    types: tuple[str, ...],
    user_type: str | None,
    seed: int,
) -> str:
    """A query of every user's counted rows (or different items), sampled as in the rollup.

    Column ``u`` numbers the users in ascending order. Rows are sorted by user and key, so that the
    order of some users' rows tells nothing about another user.
    """
    source, types = source_sql(hierarchy, unit, types=types, user_type=user_type, view=VIEW)
    keys = ", ".join(finest_columns(hierarchy))
    pairs = user_pairs(hierarchy, types)
    if unit.contribution == "items":  # each item once, however often it comes
        pairs[-1] = f"pairs AS (SELECT DISTINCT u, {keys}, 1 AS m FROM keyed)"
    parts = [source, *pairs, *user_sample_ctes(keys, unit, seed)]
    ranked = f"(SELECT dense_rank() OVER (ORDER BY u ASC NULLS FIRST) AS u, {keys} FROM bounded)"
    order = ascending_order(
        "u", *(f"l{level}" for level in range(1, hierarchy.height + 1)), nulls="FIRST"
    )
    rows = _level_keys_query(hierarchy, types, ranked, 'u AS "u", ')
    return f"WITH {', '.join(parts)} {rows} ORDER BY {order}"


def _finest_key_query(hierarchy: Hierarchy, chosen: str, types: tuple[str, ...]) -> str:
    """A subquery of the chosen columns and the finest key."""
    query = f"(SELECT {chosen} FROM {VIEW})"
    return add_key_steps(hierarchy, source_columns(hierarchy), types, query)


def _level_keys_query(hierarchy: Hierarchy, types: tuple[str, ...], query: str, kept: str) -> str:
    """A query of the keys of all levels, from the finest key."""
    finest = finest_columns(hierarchy)
    where = ""
    if hierarchy.on_invalid == "drop":
        where = " WHERE " + " AND ".join(f"{key} IS NOT NULL" for key in finest)

    def key(level: int, columns: tuple[str, ...]) -> str:
        return pack_key(hierarchy.texts(level, columns, types)[: len(columns)])

    steps, keys = level_key_sql(hierarchy, finest, key)
    for step in steps:
        query = add_columns(query, step)
    selects = [f'{sql} AS "l{level}"' for level, sql in enumerate(keys, 1)]
    return f"SELECT {kept}{', '.join(selects)} FROM {query}{where}"
