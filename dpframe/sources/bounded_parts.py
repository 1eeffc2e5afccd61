"""SQL, in whole numbers of any engine, for what a record or a user adds to a part, bounded.

A row is a part, or a user and a part. Its columns: ``m``, how many rows there are; for vector i
the sum ``xi`` and the number ``nxi`` of its values, where :func:`value_indices` says i; and with
users,
the columns that ``user_total_columns`` names, over all parts of the user. All arithmetic is exact,
and rounds towards 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, assert_never

from dpframe.sources.summands import Summand
from dpframe.vectors import GRID, Vector


class Arithmetic(Protocol):
    """How an engine computes with whole numbers; dialects have both methods."""

    def wide(self, value: str) -> str:
        """The value as a whole number of up to 38 digits."""

    def quotient(self, a: str, b: str) -> str:
        """The quotient, rounded towards 0."""


class DuckArithmetic:
    def wide(self, value: str) -> str:
        return f"CAST({value} AS HUGEINT)"

    def quotient(self, a: str, b: str) -> str:
        """Divide in 64 bits where both fit, as most do: 128 bits take ten times as long."""
        short = f"TRY_CAST({a} AS BIGINT) // TRY_CAST({b} AS BIGINT)"
        return f"coalesce({short}, {a} // {b})"


DUCKDB = DuckArithmetic()


def vector_summands(vectors: Sequence[Vector], *, by_user: bool) -> dict[str, Summand]:
    """The values of a row that vectors add up, by name."""
    own = zip(value_indices(vectors, by_user=by_user), vectors, strict=True)
    return {f"x{i}": added for i, v in own if (added := _summand_of(v, by_user)) is not None}


def value_indices(vectors: Sequence[Vector], *, by_user: bool) -> list[int]:
    """The i of every vector: the index of the first vector that adds up the same values."""
    first: dict[Summand, int] = {}
    out = []
    for i, v in enumerate(vectors):
        added = _summand_of(v, by_user)
        out.append(i if added is None else first.setdefault(added, i))
    return out


def _summand_of(v: Vector, by_user: bool) -> Summand | None:
    if v.column is None:
        return None
    counted = v.kind == "outside" and not by_user
    return Summand(
        kind="outside" if counted else "value",
        column=v.column,
        steps=v.bounds,
        clipped=not (by_user and v.of_total),
    )


def user_total_columns(i: int, vector: Vector, a: Arithmetic) -> dict[str, str]:
    """What a vector needs to know about all parts of a user: by name, the SQL of one part."""
    x = f"x{i}"
    if vector.kind in ("users", "rows"):
        return {"all_m": "m"}
    above, below = _signed_sums_sql(x, a)
    ends = {f"up_{x}": above, f"down_{x}": below}
    if vector.kind == "sum":
        return ends
    return {f"all_n{x}": f"n{x}"} | (ends if vector.kind == "outside" else {})


def record_part_sql(i: int, vector: Vector, a: Arithmetic) -> str:
    """SQL for the value of a part whose records were bounded one by one."""
    x = f"x{i}"
    if vector.kind == "rows":
        return "m"
    if vector.kind in ("above", "below"):
        return _distance_sql(x, vector, a)
    return f"coalesce({x}, 0)"


def _distance_sql(x: str, vector: Vector, a: Arithmetic) -> str:
    """SQL for the total distance of the values above the lower bound, or below the upper one."""
    value = a.wide(f"coalesce({x}, 0)")
    if vector.kind == "above":
        return f"({value} - {a.wide(f'({vector.bounds.low})')} * n{x})"
    return f"({a.wide(f'({vector.bounds.high})')} * n{x} - {value})"


def of_user(i: int, vector: Vector, a: Arithmetic) -> str:
    """SQL for what one user adds to one part; over all parts they add at most ``most``."""
    x, grid = f"x{i}", a.wide(str(GRID))
    if vector.kind == "users":
        return a.quotient(f"{grid} * m", "all_m")
    if vector.kind == "rows":
        most = vector.most // GRID
        return a.quotient(f"{grid} * m * {most}", f"greatest(all_m, {most})")
    values = f"nullif(all_n{x}, 0)"
    if vector.kind == "above" or vector.kind == "below":  # mypy reads no tuple
        return f"coalesce({a.quotient(_distance_sql(x, vector, a), values)}, 0)"
    if vector.kind == "outside":
        share = f"coalesce({a.quotient(f'{grid} * n{x}', values)}, 0)"
        return f"CASE WHEN {_is_clipped_sql(x, vector)} THEN {share} ELSE 0 END"
    if vector.kind == "sum":
        return _clipped_sum_sql(x, vector, a)
    assert_never(vector.kind)


def _signed_sums_sql(x: str, a: Arithmetic) -> tuple[str, str]:
    """SQL for a user's sum in a part: its positive part, and its negative part."""
    value = a.wide(f"coalesce({x}, 0)")
    return f"greatest({value}, 0)", f"greatest(-{value}, 0)"


def _sum_bounds(vector: Vector) -> tuple[int, int]:
    return max(vector.bounds.high, 0), max(-vector.bounds.low, 0)


def _clipped_sum_sql(x: str, vector: Vector, a: Arithmetic) -> str:
    """SQL for a user's sum. Positive sums are scaled down to the upper bound, negative ones to the
    lower bound, and both together to the larger bound; towards 0, in whole steps."""
    (above, below), (high, low) = _signed_sums_sql(x, a), _sum_bounds(vector)
    ups, downs = f"up_{x}", f"down_{x}"
    up = a.quotient(f"{above} * {high}", f"greatest({ups}, {high}, 1)")
    down = a.quotient(f"{below} * {low}", f"greatest({downs}, {low}, 1)")
    together = f"least({ups}, {high}) + least({downs}, {low})"
    most = vector.bounds.most
    cut = a.quotient(f"{a.wide(f'({up} - {down})')} * {most}", f"greatest({together}, {most})")
    # most users are within their bounds, and quotients of wide numbers are slow
    return (
        f"CASE WHEN {_is_clipped_sql(x, vector)} THEN {cut} ELSE {a.wide(f'coalesce({x}, 0)')} END"
    )


def _is_clipped_sql(x: str, vector: Vector) -> str:
    """SQL for whether ``_clipped_sum_sql`` cuts the sum of a user."""
    (high, low), (ups, downs) = _sum_bounds(vector), (f"up_{x}", f"down_{x}")
    return f"({ups} > {high} OR {downs} > {low} OR {ups} + {downs} > {vector.bounds.most})"
