"""Read any source into pairs of a user and a value, with one statement.

The statement reads the view ``dpframe_source`` once and returns ``hash, held, value, text``: a row
per user with the numbers of their values, and a row per value with its number and text. Its CTEs,
in order:

source  the columns that matter, renamed
keyed   the key of every row, k1
pairs   users and their different keys
known   every key, and its number

The hash of a user is the hash of the id. Equal ids can have different hashes, such as numbers in a
VARIANT; the user then has the smallest of these hashes.

Keys are hashed by their texts, which are equal where keys are: no user changes the hash of another
user's key.

If a user has more than ``items`` pairs, the pairs whose hash of user, key and a secret seed is
smallest take part. So these pairs depend only on this user and the seed: numbers of users and keys,
which also depend on other users, are not hashed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpframe._duck import VIEW
from dpframe._sql import ascending_order
from dpframe.budget import PrivacyUnit
from dpframe.hierarchy import Hierarchy
from dpframe.noise import random_seed
from dpframe.sources.record_leaves import finest_columns, keyed_sql
from dpframe.sources.rollup_statement import source_sql
from dpframe.sources.source_relations import level_and_user_types, open_source
from dpframe.sources.spark import fetch_table, is_spark
from dpframe.sources.spark_counts import check_spark
from dpframe.user_items import UserItems

BLOCK = 2**20
"""About how many values of users are sorted at once."""


def user_items(
    source: object, hierarchy: Hierarchy, unit: PrivacyUnit, items: int, *, progress: bool = False
) -> UserItems:
    """The different values of every user, of which at most ``items`` take part. Private.

    Raises ColumnError where a column cannot be read.
    """
    user = str(unit.user)
    if is_spark(source):
        source = _pairs_of_spark(source, hierarchy, unit)
    with open_source(source, list(dict.fromkeys([*hierarchy.source_columns, user]))) as relation:
        types, kind = level_and_user_types(relation, hierarchy, user)
        statement = items_sql(hierarchy, unit, types=types, user_type=kind, seed=random_seed())
        table = relation.query(statement, progress)
    return _user_items_of_rows(table, items, types)


def _pairs_of_spark(frame: Any, hierarchy: Hierarchy, unit: PrivacyUnit) -> pa.Table:
    """A table of users and their different values, which the Spark cluster finds."""
    (column,) = hierarchy.source_columns
    found = check_spark(frame, hierarchy, unit)
    table = fetch_table(lambda: found.records([column], unit.user).distinct())
    key, user = table[found.names[column]], table["u"]
    return pa.table({column: key} if column == unit.user else {column: key, unit.user: user})


def items_sql(
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    *,
    types: tuple[str, ...],
    user_type: str | None,
    seed: int,
) -> str:
    """The statement; ``types`` are the DuckDB types of ``hierarchy.source_columns``, which have one
    level."""
    source, types = source_sql(hierarchy, unit, types=types, user_type=user_type, view=VIEW)
    (key,) = finest_columns(hierarchy)
    (text,) = hierarchy.texts(1, (key,), types)
    depth = hierarchy.depth((key,))
    below = f"(FROM pairs WHERE {depth} > 0)" if depth is not None else "pairs"  # without the root
    parts = [
        source,
        f"keyed AS NOT MATERIALIZED ({keyed_sql(hierarchy, types, 'source', 'u')})",
        f"pairs AS MATERIALIZED (SELECT DISTINCT u, {key} FROM keyed)",
        f"known AS MATERIALIZED (SELECT {key}, (row_number() OVER (ORDER BY "
        f"{ascending_order(key)}) - 1)"
        f"::INTEGER AS v FROM {below} GROUP BY {key})",
    ]
    return (
        f"WITH {', '.join(parts)} "
        f'SELECT min(hash(u, {seed}::UBIGINT)) AS "hash", '
        'list(v) FILTER (v IS NOT NULL) AS "held", '
        'NULL::INTEGER AS "value", NULL::VARCHAR AS "text" '
        f"FROM pairs LEFT JOIN known ON pairs.{key} IS NOT DISTINCT FROM known.{key} GROUP BY u "
        f"UNION ALL SELECT hash(t, {seed}::UBIGINT), NULL, v, t "
        f"FROM (SELECT v, CAST({text} AS VARCHAR) AS t FROM known)"
    )


def _user_items_of_rows(table: pa.Table, items: int, types: tuple[str, ...]) -> UserItems:
    """The values of users, from the rows of the statement."""
    hashed, number = table["hash"].to_numpy(), table["value"].is_null().to_numpy()
    users, known = np.flatnonzero(number), np.flatnonzero(~number)
    known = known[np.argsort(table["value"].take(known).to_numpy())]
    many = pc.list_value_length(table["held"]).fill_null(0).to_numpy()
    starts = np.concatenate([[0], np.cumsum(many[users], dtype=np.int64)])
    value = pc.list_flatten(table["held"]).to_numpy()  # in the order of users
    value = value if value.flags.writeable else value.copy()
    _put_sample_first(starts, value, hashed[users], hashed[known], items)
    return UserItems(
        starts=starts, value=value, items=items, keys=table["text"].take(known), types=types
    )


def _put_sample_first(
    starts: NDArray[np.int64],
    value: NDArray[np.int32],
    of_user: NDArray[np.uint64],
    of_value: NDArray[np.uint64],
    items: int,
) -> None:
    """For users with more than ``items`` values, put the values that take part first."""
    many = np.diff(starts)
    heavy = np.flatnonzero(many > items)
    for some in np.split(heavy, np.flatnonzero(np.diff(np.cumsum(many[heavy]) // BLOCK)) + 1):
        user = np.repeat(some, many[some])
        first = np.cumsum(many[some]) - many[some]
        place = np.arange(len(user)) + np.repeat(starts[some] - first, many[some])
        own = value[place]
        hashed = of_value[own]
        value[place] = own[np.lexsort((hashed, _mix_bits(of_user[user] ^ hashed), user))]


def _mix_bits(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A permutation of 64-bit numbers in which every bit depends on all bits (Steele, Lea, Flood
    2014, SplitMix)."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return bits ^ (bits >> np.uint64(31))
