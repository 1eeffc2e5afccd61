"""Count the different users at every node, for any source, with one statement.

A user counts once in the total, and in each level at no more than ``at_most`` of their nodes: the
first nodes in the order of a hash of user, node and a secret seed. So these nodes depend only on
this user and the seed. At their other nodes users are not counted at all, and a node at which
nobody is counted does not exist. CTEs, in order:

source  the columns that matter, renamed
held    users and their different values
keyed   users and their finest keys
of_l    users and their different nodes of level l
level_l numbers of users at the nodes of level l

For listed keys, chosen, leaves and placed stand in place of of_l and level_l.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dpframe._duck import VIEW
from dpframe._sql import ascending_order
from dpframe.budget import PrivacyUnit
from dpframe.hierarchy import Hierarchy
from dpframe.hierarchy._base import check_writable
from dpframe.noise import random_seed
from dpframe.sources.exact_trees import check_readable
from dpframe.sources.keys import check_key_types
from dpframe.sources.node_places import keyed_leaves_join, node_places_ctes, reported_levels
from dpframe.sources.record_leaves import finest_columns, keyed_sql, source_columns
from dpframe.sources.rollup_statement import candidates_sql, result_columns, source_sql
from dpframe.sources.source_relations import canonical, open_source
from dpframe.sources.spark import fetch_table, is_spark
from dpframe.sources.spark_counts import check_spark
from dpframe.sources.user_shares import row_hash
from dpframe.tree import CountTree, ListedNodes


def node_users(
    source: object,
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    band: int,
    *,
    listed: ListedNodes | None = None,
    progress: bool = False,
) -> CountTree:
    """Numbers of users at nodes with at least ``band`` users, or at the listed nodes. Private.

    Raises ColumnError where a column cannot be read, or a listed key is no value of its column.
    """
    user = str(unit.user)
    check_readable(source, hierarchy, unit)
    if is_spark(source):
        source = _node_pairs_of_spark(source, hierarchy, unit)
    with open_source(source, list(dict.fromkeys([*hierarchy.source_columns, user]))) as relation:
        seen = dict(zip(relation.columns, map(canonical, relation.types), strict=True))
        types = tuple(seen[c] for c in hierarchy.source_columns)
        hierarchy.check_types(types)
        check_writable(user, seen[user])
        if listed is not None:
            check_key_types(listed, hierarchy, types)
        held, read = _user_value_ctes(hierarchy, unit, types, seen[user])
        if listed is None:
            statement = candidate_users_sql(
                hierarchy, unit, held, read, band=band, seed=random_seed()
            )
        else:
            statement = listed_users_sql(hierarchy, unit, held, read, listed, seed=random_seed())
        table = relation.query(statement, progress)
    if listed is None:
        return _unconnected_tree(table, types)
    count = np.zeros(len(listed.level), dtype=np.int64)
    count[table["place"].cast(pa.int64()).to_numpy()] = table["n"].cast(pa.int64()).to_numpy()
    return CountTree(
        level=listed.level, parent=listed.parent, count=count, keys=listed.keys, types=types
    )


def _unconnected_tree(table: pa.Table, types: tuple[str, ...]) -> CountTree:
    """A tree of unconnected nodes: their counts do not add up, and their parents can be missing."""
    level, count = (table[name].cast(pa.int64()).to_numpy() for name in ("level", "n"))
    return CountTree(
        level=level,
        parent=np.full(len(level), -1, dtype=np.int64),
        count=count,
        keys=tuple(table[name] for name in table.column_names[2:]),
        types=types,
    )


def _node_pairs_of_spark(frame: object, hierarchy: Hierarchy, unit: PrivacyUnit) -> pa.Table:
    """A table of users and their different values, which the Spark cluster finds."""
    columns, user = hierarchy.source_columns, str(unit.user)
    found = check_spark(frame, hierarchy, unit)
    table = fetch_table(lambda: found.records(columns, user).distinct())
    return pa.table({user: table["u"], **{c: table[found.names[c]] for c in columns}})


def _user_value_ctes(
    hierarchy: Hierarchy, unit: PrivacyUnit, types: tuple[str, ...], user_type: str
) -> tuple[list[str], tuple[str, ...]]:
    """The CTEs ``source``, ``held`` and ``keyed``, and the types of the columns of ``source``. Each
    value of a user is read once."""
    source, types = source_sql(hierarchy, unit, types=types, user_type=user_type, view=VIEW)
    own = ", ".join(source_columns(hierarchy))
    return [
        source,
        f"held AS (SELECT DISTINCT u, {own} FROM source)",
        f"keyed AS MATERIALIZED ({keyed_sql(hierarchy, types, 'held', 'u')})",
    ], types


def candidate_users_sql(
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    held: list[str],
    types: tuple[str, ...],
    *,
    band: int,
    seed: int,
) -> str:
    """The statement where no keys are listed; it returns ``level, n, t1, t2, ...``."""
    names, height = finest_columns(hierarchy), hierarchy.height
    depth = hierarchy.depth(names)
    own = ["u", *names, *([] if depth is None else [f"{depth} AS d"])]
    parts = [*held, f"of_{height} AS MATERIALIZED (SELECT DISTINCT {', '.join(own)} FROM keyed)"]
    for level in range(height - 1, 0, -1):
        keys = [f"{sql} AS k{i}" for i, sql in enumerate(hierarchy.coarser(level, names), 1)]
        shorter = [] if depth is None else [f"least(d, {level}) AS d"]
        coarser = ", ".join(["u", *keys, *shorter])
        parts.append(f"of_{level} AS MATERIALIZED (SELECT DISTINCT {coarser} FROM of_{level + 1})")
    for level in range(1, height + 1):
        width = len(names) if level == height else len(hierarchy.coarser(level, names))
        keys = [f"k{i}" for i in range(1, width + 1)]
        ended = "" if depth is None else f"(FROM of_{level} WHERE d = {level}) AS "
        some = _first(unit, keys, f"{ended}of_{level}", seed)
        length = "" if depth is None else f", {level} AS d"
        parts.append(
            f"level_{level} AS (SELECT {', '.join(keys)}{length}, count(*)::BIGINT AS n "
            f"FROM ({some}) GROUP BY {', '.join(keys)})"
        )
    users = "count(*)::BIGINT", "(SELECT DISTINCT u FROM of_1)"
    shown = ", ".join(f'{name} AS "{name}"' for name in result_columns(hierarchy))
    return (
        f'WITH {", ".join(parts)} SELECT level AS "level", n AS "n", {shown} '
        f"FROM ({candidates_sql(hierarchy, types, band, root=users)}) "
        f"ORDER BY {hierarchy.order_by()}"
    )


def listed_users_sql(
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    held: list[str],
    types: tuple[str, ...],
    listed: ListedNodes,
    *,
    seed: int,
) -> str:
    """The statement for listed keys; it returns ``place, n``. On each level, only listed nodes
    compete for the ``at_most`` nodes of a user."""
    levels = reported_levels(listed)
    at = "".join(f", n{level}" for level in levels)
    parts = [
        *held,
        *node_places_ctes(hierarchy, types, listed),
        f"placed AS MATERIALIZED (SELECT DISTINCT u{at} FROM {keyed_leaves_join(hierarchy)})",
    ]
    counted = ["SELECT 0 AS place, count(*) AS n FROM (SELECT DISTINCT u FROM placed)"]
    for level in levels:
        own = f"(SELECT DISTINCT u, n{level} AS place FROM placed WHERE n{level} IS NOT NULL)"
        some = _first(unit, ["place"], own, seed)
        counted.append(f"SELECT place, count(*) AS n FROM ({some}) GROUP BY place")
    return f"WITH {', '.join(parts)} " + " UNION ALL ".join(counted)


def _first(unit: PrivacyUnit, keys: list[str], rows: str, seed: int) -> str:
    """A query of the ``keys`` of one level's nodes, one row per user who is counted at the node."""
    order = ascending_order(row_hash(", ".join(["u", *keys]), seed), *keys)
    return (
        f"SELECT {', '.join(keys)} FROM {rows} QUALIFY row_number() OVER "
        f"(PARTITION BY u ORDER BY {order}) <= {unit.nodes}"
    )
