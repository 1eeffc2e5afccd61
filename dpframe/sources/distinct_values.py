"""Count the different values at every reported node, or in the segment of every cell.

If records are protected, all values count. If users are, each level counts at most ``at_most``
pairs of a node and a value per user: the first pairs in the order of a hash with a secret seed.
Which pairs of a user count depends only on this user, the reported nodes and the seed. All segments
together are one level. The statement returns ``place, n``.
"""

from __future__ import annotations

from dpframe._duck import VIEW
from dpframe._sql import ascending_order
from dpframe.budget import PrivacyUnit
from dpframe.hierarchy import Hierarchy
from dpframe.sources.node_places import ReportedNodes, keyed_leaves_join, reported_levels
from dpframe.sources.record_leaves import keyed_sql
from dpframe.sources.rollup_statement import exact_column_sql, source_sql
from dpframe.sources.segment_places import leaf_places_ctes
from dpframe.sources.user_shares import row_hash
from dpframe.vectors import Distinct


def distinct_statement(
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    distinct: Distinct,
    nodes: ReportedNodes,
    *,
    types: tuple[str, ...],
    user_type: str | None,
    value_type: str,
    seed: int,
) -> str:
    """The statement; ``types`` are the DuckDB types of ``hierarchy.source_columns``."""
    source, types = source_sql(
        hierarchy,
        unit,
        types=types,
        user_type=user_type,
        view=VIEW,
        beside={"v": exact_column_sql(distinct.column, value_type)},
    )
    user = "u, " if unit.user is not None else ""
    valued, several = "(FROM source WHERE v IS NOT NULL)", hierarchy.has_cells
    levels, root = ([], "part") if several else (reported_levels(nodes), "0")
    at = "".join(f", n{level}" for level in levels)
    parts = [
        source,
        f"keyed AS NOT MATERIALIZED ({keyed_sql(hierarchy, types, valued, user + 'v')})",
        *leaf_places_ctes(hierarchy, types, nodes),
        f"placed AS (SELECT DISTINCT {user}v, {root} AS n0{at} FROM "
        f"{keyed_leaves_join(hierarchy)})",
    ]
    counted = [
        "SELECT place, count(DISTINCT v) AS n FROM "
        f"({_bounded_values_sql(level, distinct, user, seed)}) "
        "GROUP BY place"
        for level in (0, *levels)
    ]
    return f"WITH {', '.join(parts)} " + " UNION ALL ".join(counted)


def _bounded_values_sql(level: int, distinct: Distinct, user: str, seed: int) -> str:
    """A query of the pairs of a node and a value that count at a level."""
    pairs = f"SELECT DISTINCT {user}n{level} AS place, v FROM placed WHERE n{level} IS NOT NULL"
    if distinct.at_most is None:
        return pairs
    order = ascending_order(row_hash("u, place, v", seed), "place", "v")
    return (
        f"SELECT place, v FROM ({pairs}) QUALIFY row_number() OVER "
        f"(PARTITION BY u ORDER BY {order}) <= {distinct.at_most}"
    )
