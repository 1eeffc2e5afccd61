"""From whatever holds the rows to pairs of a user and a value, by one statement.

The statement reads the view ``dpframe_source`` once and returns ``user, value, text, hash``: a row
a pair, then one a value with its text, then one a user. Its CTEs, in order:

source  the columns that matter, renamed
keyed   the key of every row, k1
pairs   users and their different keys
known   every key, and its number
users   every user, their number and a hash: of ids that are equal and have different hashes, such
        as numbers in a VARIANT, the least one

Keys are hashed by their texts, which are equal where keys are: no user changes the hash of another
user's key.

Of a user with more pairs than take part those do whose hash of user, key and a secret seed is
smallest, so that which they are depends on this user and the seed alone: numbers of users and keys,
which depend on others too, are not hashed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe._duck import VIEW
from dpframe._sql import ascending
from dpframe.budget import PrivacyUnit
from dpframe.hierarchy import Hierarchy
from dpframe.hierarchy._base import check_writable
from dpframe.noise import random_seed
from dpframe.sources.record_leaves import finest, keyed
from dpframe.sources.relations import canonical, opened
from dpframe.sources.rollup_statement import source_sql
from dpframe.sources.spark import fetched, is_spark
from dpframe.sources.spark_counts import check_spark
from dpframe.user_items import UserItems


def user_items(
    source: object, hierarchy: Hierarchy, unit: PrivacyUnit, items: int, *, progress: bool = False
) -> UserItems:
    """The different values of every user, of whom ``items`` take part. Private.

    Raises ColumnError where a column cannot be read.
    """
    user = str(unit.user)
    if is_spark(source):
        source = _pairs_of_spark(source, hierarchy, unit)
    with opened(source, list(dict.fromkeys([*hierarchy.source_columns, user]))) as relation:
        seen = dict(zip(relation.columns, map(canonical, relation.types), strict=True))
        types = tuple(seen[c] for c in hierarchy.source_columns)
        hierarchy.check_types(types)
        check_writable(user, seen[user])
        statement = items_sql(
            hierarchy, unit, types=types, user_type=seen[user], seed=random_seed()
        )
        table = relation.query(statement, progress)
    return _items(table, items, types)


def _pairs_of_spark(frame: Any, hierarchy: Hierarchy, unit: PrivacyUnit) -> pa.Table:
    """Users and their different values, which the cluster finds."""
    (column,) = hierarchy.source_columns
    found = check_spark(frame, hierarchy, unit)
    table = fetched(lambda: found.records([column], unit.user).distinct())
    key, user = table[found.names[column]], table["u"]
    return pa.table({column: key} if column == unit.user else {column: key, unit.user: user})


def items_sql(
    hierarchy: Hierarchy, unit: PrivacyUnit, *, types: tuple[str, ...], user_type: str, seed: int
) -> str:
    """The statement; ``types`` are the DuckDB types of ``hierarchy.source_columns``, which have one
    level."""
    source, types = source_sql(hierarchy, unit, types=types, user_type=user_type, view=VIEW)
    (key,) = finest(hierarchy)
    (text,) = hierarchy.texts(1, (key,), types)
    parts = [
        source,
        f"keyed AS NOT MATERIALIZED ({keyed(hierarchy, types, 'source', 'u')})",
        f"pairs AS MATERIALIZED (SELECT DISTINCT u, {key} FROM keyed)",
        f"known AS MATERIALIZED (SELECT {key}, (row_number() OVER (ORDER BY {ascending(key)}) - 1)"
        f"::INTEGER AS v FROM pairs GROUP BY {key})",
        f"users AS MATERIALIZED (SELECT u, min(hash(u, {seed}::UBIGINT)) AS h, "
        "(row_number() OVER () - 1)::INTEGER AS i FROM pairs GROUP BY u)",
    ]
    return (
        f"WITH {', '.join(parts)} "
        'SELECT i AS "user", v AS "value", NULL::VARCHAR AS "text", NULL::UBIGINT AS "hash" '
        f"FROM pairs JOIN known ON pairs.{key} IS NOT DISTINCT FROM known.{key} "
        "JOIN users ON pairs.u IS NOT DISTINCT FROM users.u "
        f"UNION ALL SELECT -1::INTEGER, v, t, hash(t, {seed}::UBIGINT) "
        f"FROM (SELECT v, CAST({text} AS VARCHAR) AS t FROM known) "
        "UNION ALL SELECT i, -1::INTEGER, NULL, h FROM users"
    )


def _items(table: pa.Table, items: int, types: tuple[str, ...]) -> UserItems:
    """Pairs, by the rows of the statement."""
    user, value = table["user"].to_numpy(), table["value"].to_numpy()
    known, users = np.flatnonzero(user < 0), np.flatnonzero(value < 0)
    known, users = known[np.argsort(value[known])], users[np.argsort(user[users])]
    hashes = [table["hash"].take(rows).to_numpy() for rows in (users, known)]
    rest = np.concatenate([known, users])
    if len(rest) and rest.min() == len(user) - len(rest):  # as DuckDB gives them: no copy
        user, value = user[: -len(rest)], value[: -len(rest)]
    else:
        user, value = np.delete(user, rest), np.delete(value, rest)
    others = _beside(user, value, hashes[0], hashes[1], items)
    if len(others):
        taking_part = np.ones(len(user), dtype=np.bool_)
        taking_part[others] = False
        user = np.concatenate([user[taking_part], user[others]])
        value = np.concatenate([value[taking_part], value[others]])
    return UserItems(
        user=user,
        value=value,
        taking_part=len(user) - len(others),
        keys=table["text"].take(known),
        types=types,
    )


def _beside(
    user: NDArray[np.int32],
    value: NDArray[np.int32],
    of_user: NDArray[np.uint64],
    of_value: NDArray[np.uint64],
    items: int,
) -> NDArray[np.int64]:
    """The places of pairs that take no part: of users who have more than ``items``."""
    many = np.bincount(user, minlength=len(of_user))
    if many.max(initial=0) <= items:
        return np.zeros(0, dtype=np.int64)
    heavy = np.flatnonzero((many > items)[user])
    mixed = _mixed(of_user[user[heavy]] ^ of_value[value[heavy]])
    order = heavy[np.lexsort((of_value[value[heavy]], mixed, user[heavy]))]
    first = np.searchsorted(user[order], user[order], side="left")
    return order[np.arange(len(order)) - first >= items]


def _mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A permutation of 64-bit numbers in which every bit depends on all (Steele, Lea, Flood 2014,
    SplitMix)."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return bits ^ (bits >> np.uint64(31))
