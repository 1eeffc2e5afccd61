"""SQL that divides a user's weight into whole units, over the user's rows or by their weights.

By rows: among a user's ``total`` rows, in the order of their keys, row i gets the units between
``floor((grid (i - 1) + offset) / total)`` and ``floor((grid i + offset) / total)``. All rows of a
user get ``grid`` units, and a key gets the sum of its rows. Grouping by user and key first would
give the same number, since the terms between cancel out. But where most groups have one row, such
grouping would take longer than all the rest, and so would sorting texts instead of their numbers.

CTEs, over rows with the user u and the key of the row:

numbered  every finest key and its number, leaf, in ascending order of the keys
ranked    for every row its leaf, its place i among the rows of its user, and their total
bounded   units of every leaf
leaves    units of every finest key
"""

from __future__ import annotations

from collections.abc import Sequence

from dpframe._sql import ascending_order
from dpframe.budget import PrivacyUnit
from dpframe.sources.measure_units import WHOLE


def row_shares(keys: Sequence[str], *, grid: int, seed: int, keyed: str, placed: str) -> list[str]:
    """The CTEs. ``keyed`` is a table that has all ``keys``. ``placed`` is a FROM clause of rows
    with the columns ``u`` and ``leaf``, and may read the CTE ``numbered``.

    The offset of a user depends only on that user and the seed. All rows of the user share it,
    though equal ids can have different hashes (numbers in a VARIANT, text without case in a
    STRUCT).
    """
    names = ", ".join(keys)
    return [
        f"numbered AS MATERIALIZED (SELECT {names}, row_number() OVER (ORDER BY "
        f"{ascending_order(*keys)}) AS leaf FROM (SELECT DISTINCT {names} FROM {keyed}))",
        _ranked_cte(["leaf"], seed, placed),
        f"bounded AS (SELECT leaf, {_row_units_sql(grid)} AS n FROM ranked GROUP BY leaf)",
        f"leaves AS (SELECT {names}, n FROM bounded JOIN numbered USING (leaf))",
    ]


def row_shares_of_numbers(keys: Sequence[str], *, grid: int, seed: int, keyed: str) -> list[str]:
    """The CTEs ``ranked`` and ``leaves``, from the rows of ``keyed``, which have the user u and
    keys that are whole numbers."""
    names = ", ".join(keys)
    return [
        _ranked_cte(keys, seed, keyed),
        f"leaves AS (SELECT {names}, {_row_units_sql(grid)} AS n FROM ranked GROUP BY {names})",
    ]


def _ranked_cte(keys: Sequence[str], seed: int, rows: str) -> str:
    return (
        f"ranked AS (SELECT {', '.join(keys)}, row_number() OVER (PARTITION BY u ORDER BY "
        f"{ascending_order(*keys)}) AS i, count(*) OVER (PARTITION BY u) AS total, "
        f"min({user_hash('u', seed)}) OVER (PARTITION BY u) AS h FROM {rows})"
    )


def _row_units_sql(grid: int) -> str:
    offset = "(h % total::UBIGINT)::BIGINT"
    return f"sum(({grid} * i + {offset}) // total - ({grid} * (i - 1) + {offset}) // total)::BIGINT"


def measured_shares(keys: Sequence[str], *, grid: int, seed: int) -> list[str]:
    """The CTEs ``running`` and ``bounded`` over ``pairs``, in which m is the weight of a user and
    key.

    A user whose measures add up to less than WHOLE gets proportionally fewer units.
    """
    names, order, offset = ", ".join(keys), ascending_order(*keys), "(h % total)::HUGEINT"
    return [
        f"running AS (SELECT {names}, m, sum(m) OVER (PARTITION BY u ORDER BY {order} "
        f"ROWS UNBOUNDED PRECEDING)::HUGEINT AS upto, "
        f"greatest(sum(m) OVER (PARTITION BY u), {WHOLE})::HUGEINT AS total, "
        f"min({user_hash('u', seed)}) OVER (PARTITION BY u) AS h FROM pairs)",
        f"bounded AS (SELECT {names}, ({grid} * upto + {offset}) // total "
        f"- ({grid} * (upto - m) + {offset}) // total AS n FROM running)",
    ]


def user_sample_ctes(keys: str, unit: PrivacyUnit, seed: int) -> list[str]:
    """CTEs of a uniform sample of at most ``max_contributions`` rows of each user, over all keys.

    Rows are ranked by a hash of user, key, number among equal rows and seed, so the sample depends
    neither on the order of the rows nor on other users.
    """
    order = ascending_order(row_hash(f"u, {keys}, i", seed), *keys.split(", "), "i")
    return [
        f"rows AS (SELECT u, {keys}, unnest(range(m)) AS i FROM pairs)",
        f"bounded AS (SELECT u, {keys}, 1 AS n FROM rows QUALIFY row_number() OVER "
        f"(PARTITION BY u ORDER BY {order}) "
        f"<= {unit.max_contributions})",
    ]


def user_hash(user: str, seed: int) -> str:
    """SQL of the hash from which the offset of a user follows."""
    return f"hash({user}, {seed}::UBIGINT)"


def row_hash(row: str, seed: int) -> str:
    """SQL of the hash by which a user's rows are sampled.

    DuckDB adds a number to a hash by an exclusive or, which keeps rows together that agree in
    their first bits: the second hash separates them.
    """
    return f"hash(hash({row}, {seed}::UBIGINT))"


def same_key_sql(keys: Sequence[str], one: str, other: str) -> str:
    """The condition that joins two relations on all columns of a key."""
    return " AND ".join(f"{one}.{key} IS NOT DISTINCT FROM {other}.{key}" for key in keys)
