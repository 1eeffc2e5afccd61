"""``dp.rollup_sql`` and ``dp.tree_rollup_sql``: the counting as a statement for a warehouse."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from dpframe._known_arguments import known_arguments
from dpframe.asking.question import Question
from dpframe.asking.warehouse_plan import (
    RollupSql,
    WarehousePlan,
    column_types,
    dialect_from,
    source_from,
    statement,
)
from dpframe.errors import ParameterError
from dpframe.questions.hhh.ask import HHH
from dpframe.questions.tree_counts.ask import TREE_COUNTS

if TYPE_CHECKING:
    from dpframe.hierarchy import Hierarchy


P = ParamSpec("P")
T = TypeVar("T")


def _planned_by(
    question: Question[Any, Any], *, without: Sequence[str] = ()
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A function's own parameters, and for its other keywords those by which a question is planned,
    less what no statement does."""

    def with_signature(function: Callable[P, T]) -> Callable[P, T]:
        signature = inspect.signature(function)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        there = {*without, *(p.name for p in own)}
        planning = [question.parameters[name] for name in question.planning if name not in there]
        full = signature.replace(parameters=[*own, *planning])
        function.__signature__ = full  # type: ignore[attr-defined]
        return function

    return with_signature


@known_arguments
@_planned_by(HHH, without=("counters",))
def rollup_sql(
    hierarchy: str | Sequence[str] | Hierarchy,
    *,
    table: str,
    dialect: str,
    types: Mapping[str, str] | None = None,
    **planning: Any,
) -> RollupSql:
    """The SQL statement that counts for :func:`hhh` in a warehouse, and the plan it belongs to.

    Run ``.sql`` with any client, and pass its result to
    ``dp.hhh(candidates=result, plan=statement.plan)``, which draws the noise. Reads no data.

    Parameters
    ----------
    hierarchy, epsilon, delta, ...
        As for :func:`hhh`, but for "streaming", whose sketches no statement makes.
    table
        The table or view as the warehouse's SQL names it, or a query in parentheses.
    dialect
        "duckdb", "postgres", "spark" (also "databricks"): run against each other in tests.
        "snowflake", "bigquery": parsed in tests, never run there (docs/warehouses.md).
    types
        Types of columns by name, as the warehouse or DuckDB calls them. Columns without one are
        read as text: right for texts and whole numbers. Give those of floating-point numbers,
        decimals, dates and timestamps, and always that of a weight.

    Returns
    -------
    RollupSql
        ``sql`` and ``plan``. With ``user`` the statement holds the secret seed by which the rows
        of a user are rounded or sampled: keep it as you keep the data.

    Privacy
    -------
    The result of the statement is private: exact counts. It is public only after ``hhh``.

    Examples
    --------
    >>> import dpframe as dp
    >>> made = dp.rollup_sql(["country", "city"], table="visits", dialect="postgres",
    ...                      epsilon=1.0, delta=1e-6)
    >>> made.plan.columns
    ('level', 'n', 't1', 't2', 'plan', 'nodes')
    """
    if planning.get("mechanism") == "streaming":
        raise ParameterError(
            "mechanism='streaming' keeps sketches, which no SQL statement makes: use "
            "mechanism='offline'."
        )
    return _written(HHH, {"hierarchy": hierarchy, **planning}, table, dialect, types)


@known_arguments
@_planned_by(TREE_COUNTS)
def tree_rollup_sql(
    hierarchy: str | Sequence[str] | Hierarchy,
    *,
    table: str,
    dialect: str,
    types: Mapping[str, str] | None = None,
    **planning: Any,
) -> RollupSql:
    """As :func:`rollup_sql`, for ``dp.tree_counts(candidates=result, plan=statement.plan)``.

    Examples
    --------
    >>> import dpframe as dp
    >>> made = dp.tree_rollup_sql(["origin"], table="trips", dialect="duckdb", epsilon=1.0,
    ...                           keys=["JFK", "LGA"])
    >>> made.plan.band
    1
    """
    return _written(TREE_COUNTS, {"hierarchy": hierarchy, **planning}, table, dialect, types)


def _written(
    question: Question[Any, Any],
    arguments: Mapping[str, object],
    table: object,
    dialect: object,
    types: object,
) -> RollupSql:
    plan, chosen = question.plan(arguments), dialect_from(dialect)
    belonging = WarehousePlan(
        plan=plan,
        table=source_from(table),
        dialect=chosen,
        types=column_types(plan, chosen, types),
        question=question.name,
    )
    return statement(belonging)
