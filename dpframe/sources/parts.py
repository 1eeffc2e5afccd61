"""What records or users have in every part of a selection; of users bounded as a whole.

Parts are public, so that a bound may depend on them, on the one user and on nothing else. The
statement reads the view ``dpframe_source`` once and returns ``part, v0, v1, ...``. Its CTEs, in
order:

source          the columns that matter, renamed, with the user u and values in steps
keyed           the finest key of every row, k1, k2, ...
chosen, leaves  the part of every finest key (:mod:`dpframe.sources.located`)
sums            rows, sums and numbers of values of a (user and) part
users           what bounds need to know of all parts of a user
"""

from __future__ import annotations

from collections.abc import Sequence

from dpframe._duck import VIEW
from dpframe._sql import identifier
from dpframe.budget import PrivacyUnit
from dpframe.hierarchy import Hierarchy
from dpframe.sources.located import Reported, located, same_leaf
from dpframe.sources.rollup_statement import keyed, source_sql
from dpframe.steps import outside_sql, value_sql
from dpframe.vectors import GRID, Vector


def parts_statement(
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    vectors: Sequence[Vector],
    nodes: Reported,
    *,
    types: tuple[str, ...],
    user_type: str | None,
) -> str:
    """The statement; ``types`` are the DuckDB types of ``hierarchy.source_columns``."""
    by_user = unit.user is not None
    values = {
        f"x{i}": value_sql(identifier(v.column), v.bounds, clipped=not (by_user and v.of_total))
        for i, v in enumerate(vectors)
        if v.column is not None and (by_user or v.kind != "outside")
    }
    values |= {
        f"x{i}": f"CAST({outside_sql(identifier(v.column), v.bounds)} AS BIGINT)"
        for i, v in enumerate(vectors)
        if v.column is not None and v.kind == "outside" and not by_user
    }
    source, types = source_sql(
        hierarchy, unit, types=types, user_type=user_type, view=VIEW, beside=values
    )
    kept = ", ".join([*(["u"] if by_user else []), *values])
    by = "u, part" if by_user else "part"
    summed = "".join(f", sum({x}) AS {x}, count({x}) AS n{x}" for x in values)
    bounded = _of_user if by_user else _of_records
    shown = "".join(f", {bounded(i, v)} AS v{i}" for i, v in enumerate(vectors))
    total = "".join(f", sum(v{i}) AS v{i}" for i in range(len(vectors)))
    parts = [
        source,
        f"keyed AS NOT MATERIALIZED ({keyed(hierarchy, types, 'source', kept)})",
        *located(hierarchy, types, nodes),
        f"sums AS (SELECT {by}, count(*) AS m{summed} FROM keyed JOIN leaves "
        f"ON {same_leaf(hierarchy)} GROUP BY {by})",
    ]
    rows = "sums"
    if by_user:
        whole = dict(w for v in enumerate(vectors) for w in _of_all(*v).items())
        needed = "".join(
            f", sum({sql})::{'BIGINT' if name.startswith('all_') else 'HUGEINT'} AS {name}"
            for name, sql in whole.items()
        )
        parts.append(f"users AS (SELECT u{needed or ', 0 AS none'} FROM sums GROUP BY u)")
        rows = "sums JOIN users ON sums.u IS NOT DISTINCT FROM users.u"
    return (
        f"WITH {', '.join(parts)} SELECT part{total} FROM (SELECT part{shown} FROM {rows}) "
        "GROUP BY part"
    )


def _of_all(i: int, vector: Vector) -> dict[str, str]:
    """What has to be known of all parts of a user, name to SQL of one part."""
    x = f"x{i}"
    if vector.kind in ("users", "rows"):
        return {"all_m": "m"}
    if vector.kind == "sum":
        above, below = _sides(x)
        return {f"up_{x}": above, f"down_{x}": below}
    own = {f"all_n{x}": f"n{x}"}
    if vector.kind == "outside":
        above, below = _sides(x)
        own |= {f"up_{x}": above, f"down_{x}": below}
    return own


def _of_records(i: int, vector: Vector) -> str:
    """SQL of what a part has, whose records were bounded one by one."""
    x = f"x{i}"
    if vector.kind == "rows":
        return "m"
    if vector.kind == "present":
        return f"n{x}"
    if vector.kind == "centred":
        return f"coalesce({x}, 0) - {vector.bounds.middle}::HUGEINT * n{x}"
    return f"coalesce({x}, 0)"


def _of_user(i: int, vector: Vector) -> str:
    """SQL of what one user adds to one part, HUGEINT; what they add to all is at most ``most``."""
    x = f"x{i}"
    if vector.kind == "users":
        return f"{GRID} * m // all_m"
    if vector.kind == "rows":
        most = vector.most // GRID
        return f"{GRID}::HUGEINT * m * {most} // greatest(all_m, {most})"
    values = f"nullif(all_n{x}, 0)"
    if vector.kind == "present":
        return f"coalesce({GRID} * n{x} // {values}, 0)"
    if vector.kind == "centred":
        centred = f"{x} - {vector.bounds.middle}::HUGEINT * n{x}"
        return f"coalesce(({centred}) // {values}, 0)"
    if vector.kind == "outside":
        share = f"coalesce({GRID} * n{x} // {values}, 0)"
        return f"CASE WHEN {_is_cut(x, vector)} THEN {share} ELSE 0 END"
    return _total(x, vector)


def _sides(x: str) -> tuple[str, str]:
    """SQL of what is above 0, and of what is below, of a user in a part."""
    value = f"coalesce({x}, 0)::HUGEINT"
    return f"greatest({value}, 0)", f"greatest(-{value}, 0)"


def _ends(vector: Vector) -> tuple[int, int]:
    return max(vector.bounds.high, 0), max(-vector.bounds.low, 0)


def _total(x: str, vector: Vector) -> str:
    """The sum of a user: what is above 0 is scaled down to the upper bound, what is below to the
    lower one, and both together to the larger of the two; towards 0, in whole steps."""
    (above, below), (high, low) = _sides(x), _ends(vector)
    ups, downs = f"up_{x}", f"down_{x}"
    cut = (
        f"({above} * {high} // greatest({ups}, {high}, 1)"
        f" - {below} * {low} // greatest({downs}, {low}, 1))"
    )
    together = f"least({ups}, {high}) + least({downs}, {low})"
    scaled = f"{cut} * {vector.bounds.most} // greatest({together}, {vector.bounds.most})"
    return f"CASE WHEN {_is_cut(x, vector)} THEN {scaled} ELSE coalesce({x}, 0)::HUGEINT END"


def _is_cut(x: str, vector: Vector) -> str:
    """Whether ``_total`` cuts what a user has."""
    (high, low), (ups, downs) = _ends(vector), (f"up_{x}", f"down_{x}")
    return f"({ups} > {high} OR {downs} > {low} OR {ups} + {downs} > {vector.bounds.most})"
