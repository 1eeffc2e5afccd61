"""``dp.rollup_sql``, ``dp.tree_rollup_sql`` and ``dp.measures_sql``: statements for a warehouse."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from dpframe._known_arguments import known_arguments
from dpframe.asking.question import Question
from dpframe.asking.warehouse_plan import (
    RollupSql,
    WarehousePlan,
    dialect_from,
    source_from,
    statement,
)
from dpframe.asking.warehouse_types import DUCKDB, column_types
from dpframe.errors import ParameterError
from dpframe.periods import as_period
from dpframe.questions.hhh.ask import HHH
from dpframe.questions.rollup.ask import ROLLUP
from dpframe.questions.tree_counts.ask import TREE_COUNTS

if TYPE_CHECKING:
    from dpframe.hierarchy import Hierarchy
    from dpframe.measures import Measure
    from dpframe.questions.rollup.plan import RollupPlan
    from dpframe.vectors import Vector

F = TypeVar("F", bound=Callable[..., RollupSql])


def declared_by(question: Question[Any, Any], without: Sequence[str] = ()) -> Callable[[F], F]:
    """A function that takes what plans a question beside its own parameters. Its signature says so
    in full; for type checkers it stands in ``statements.pyi``, which is made of the same."""

    def declared(function: F) -> F:
        own = inspect.signature(function)
        *named, _ = own.parameters.values()
        rest = [
            question.parameters[name]
            for name in question.planning
            if name not in (*own.parameters, *without)
        ]
        function.__signature__ = own.replace(  # type: ignore[attr-defined]
            parameters=[*named, *rest]
        )
        return function

    return declared


@known_arguments
@declared_by(HHH, without=("counters",))
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
        As for :func:`hhh`, but for "streaming", whose sketches no statement makes, and ``weight``,
        which only the statement for DuckDB adds up.
    table
        The table or view as the warehouse's SQL names it, or a query in parentheses.
    dialect
        "duckdb", "postgres", "spark" (also "databricks"): run against each other in tests.
        "snowflake", "bigquery": parsed in tests, never run there (docs/warehouses.md).
    types
        Types of columns by name, as the warehouse or DuckDB calls them. Columns without one are
        read as text: right for texts and whole numbers. Give those of floating-point numbers,
        decimals, dates and timestamps, and always that of a weight and of the times of a period,
        as they are: a time with a zone is compared as an instant, others as they are written.
    period
        As for :func:`hhh`: the statement reads the records of that period alone, which the ledger
        is charged for. One that is not over is refused; a query in parentheses restricts as well,
        and is charged for all times.

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
@declared_by(TREE_COUNTS)
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


@known_arguments
@declared_by(ROLLUP)
def measures_sql(
    by: str | Sequence[str] | Hierarchy,
    measures: Mapping[str, Measure | str] | Sequence[Measure | str] | str,
    *,
    table: str,
    dialect: str,
    types: Mapping[str, str] | None = None,
    **planning: Any,
) -> RollupSql:
    """As :func:`rollup_sql`, for ``dp.rollup(candidates=result, plan=statement.plan)``.

    Of records, and with bounds that are known: one statement cannot count what depends on the
    selected nodes. ``types`` must have the columns that are added up.

    Examples
    --------
    >>> import dpframe as dp
    >>> made = dp.measures_sql(
    ...     ["country"], {"orders": "count", "paid": dp.sum("amount", lower=0, upper=500)},
    ...     table="sales", dialect="postgres", types={"amount": "numeric"}, epsilon=1.0, delta=1e-6)
    >>> made.plan.columns
    ('level', 'n', 't1', 'x1', 'plan', 'nodes')
    """
    if (user := planning.get("user")) is not None:
        raise ParameterError(
            f"user ({user!r}): what users add to the selected nodes takes a second statement. "
            "Leave user out; or pass a Spark DataFrame or a DuckDB relation to dp.rollup, which "
            "run both."
        )
    if (heavy := planning.get("heavy")) is not None:
        raise ParameterError(
            f"heavy ({heavy!r}) selects by whole numbers of 128 bits, which warehouses lack: leave "
            "heavy out, and records decide; or pass the rows to dp.rollup, as Parquet files."
        )
    return _written(
        ROLLUP, {"by": by, "measures": measures, **planning}, table, dialect, types, _measured
    )


def _measured(plan: RollupPlan) -> tuple[Vector, ...]:
    """What the statement adds up; ParameterError for what depends on the selected nodes."""
    for name, measure in plan.asked.measures.items():
        if measure.kind == "distinct" or measure.searched:
            why = "counts different values" if measure.kind == "distinct" else "has bounds 'auto'"
            raise ParameterError(
                f"measure {name!r} {why}, which takes a second statement: leave it out, "
                f"{'' if measure.kind == 'distinct' else 'give its bounds, '}or pass a Spark "
                "DataFrame or a DuckDB relation to dp.rollup, which run both."
            )
    return plan.vectors


def _nothing(_: object) -> None:
    """Counts alone."""


def _written(
    question: Question[Any, Any],
    arguments: Mapping[str, Any],
    table: str,
    dialect: str,
    types: Mapping[str, str] | None,
    measured: Callable[[Any], tuple[Vector, ...] | None] = _nothing,
) -> RollupSql:
    """The statement of a question, for checked arguments."""
    plan, chosen = question.plan(arguments), dialect_from(dialect)
    if plan.unit.nodes is not None:
        raise ParameterError(
            "contribution='items' counts different users, of each level some nodes of every user, "
            "which no statement for warehouses does: pass the rows themselves, as a frame, Parquet "
            "files or a Spark DataFrame, or leave contribution out."
        )
    period, vectors = as_period(arguments.get("period")), measured(plan)
    if plan.unit.measured and chosen != DUCKDB:
        raise ParameterError(
            f"weight ({plan.unit.weight!r}) of hhh is added up in whole numbers of 128 bits, which "
            f"dialect={chosen!r} lacks: use dialect='duckdb', or pass the rows themselves to "
            "dp.hhh, as a frame or as Parquet files."
        )
    values = [v.column for v in vectors or () if v.column is not None]
    belonging = WarehousePlan(
        plan=plan,
        table=source_from(table),
        dialect=chosen,
        types=column_types(plan, chosen, types, list(dict.fromkeys(values)), period),
        question=question.name,
        vectors=vectors,
        period=period,
    )
    return statement(belonging)
