"""Add up what records or users have in every part of a selection; a user's total is bounded.

Parts are public, so a bound may depend on them and on the one user, and on nothing else. The
statement reads the view ``dpframe_source`` once and returns ``part, v0, v1, ...``. Its CTEs, in
order:

source          the columns that matter, renamed, with the user u and values in steps
keyed           the finest key of every row, k1, k2, ...
chosen, leaves  the part of every finest key (:mod:`dpframe.sources.segment_places`)
sums            rows, sums and numbers of values per part, or per user and part
users           totals over all parts of a user, which the bounds need (only with a user)
"""

from __future__ import annotations

from collections.abc import Sequence

from dpframe._duck import VIEW
from dpframe.budget import PrivacyUnit
from dpframe.hierarchy import Hierarchy
from dpframe.sources.bounded_parts import (
    DUCKDB,
    of_user,
    record_part_sql,
    user_total_columns,
    value_indices,
    vector_summands,
)
from dpframe.sources.node_places import ReportedNodes, keyed_leaves_join
from dpframe.sources.record_leaves import keyed_sql
from dpframe.sources.rollup_statement import source_sql
from dpframe.sources.segment_places import leaf_places_ctes
from dpframe.vectors import Vector


def parts_statement(
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    vectors: Sequence[Vector],
    nodes: ReportedNodes,
    *,
    types: tuple[str, ...],
    user_type: str | None,
) -> str:
    """The statement; ``types`` are the DuckDB types of ``hierarchy.source_columns``."""
    by_user = unit.user is not None
    added = vector_summands(vectors, by_user=by_user)
    numbered = list(zip(value_indices(vectors, by_user=by_user), vectors, strict=True))
    values = {name: one.sql for name, one in added.items()}
    source, types = source_sql(
        hierarchy, unit, types=types, user_type=user_type, view=VIEW, beside=values
    )
    kept = ", ".join([*(["u"] if by_user else []), *values])
    by = "u, part" if by_user else "part"
    summed = "".join(f", sum({x}) AS {x}, count({x}) AS n{x}" for x in values)
    bounded = of_user if by_user else record_part_sql
    shown = "".join(f", {bounded(*one, DUCKDB)} AS v{i}" for i, one in enumerate(numbered))
    total = "".join(f", sum(v{i}) AS v{i}" for i in range(len(vectors)))
    parts = [
        source,
        f"keyed AS NOT MATERIALIZED ({keyed_sql(hierarchy, types, 'source', kept)})",
        *leaf_places_ctes(hierarchy, types, nodes),
        f"sums AS (SELECT {by}, count(*) AS m{summed} FROM {keyed_leaves_join(hierarchy)} GROUP "
        f"BY {by})",
    ]
    rows = "sums"
    if by_user:
        whole = dict(w for one in numbered for w in user_total_columns(*one, DUCKDB).items())
        needed = "".join(f", sum({sql})::HUGEINT AS {name}" for name, sql in whole.items())
        parts.append(f"users AS (SELECT u{needed or ', 0 AS none'} FROM sums GROUP BY u)")
        rows = "sums JOIN users ON sums.u IS NOT DISTINCT FROM users.u"
    return (
        f"WITH {', '.join(parts)} SELECT part{total} FROM (SELECT part{shown} FROM {rows}) "
        "GROUP BY part"
    )
