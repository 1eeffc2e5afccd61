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
    warehouse_statement,
    warehouse_table,
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
    from dpframe.vectors import Vector

F = TypeVar("F", bound=Callable[..., RollupSql])


def with_planning_parameters(
    question: Question[Any, Any], without: Sequence[str] = ()
) -> Callable[[F], F]:
    """Add the planning parameters of a question to the signature of a function.

    Type checkers find the full signature in ``statements.pyi``, which is made of the question's
    declaration too.
    """

    def declared(function: F) -> F:
        own = inspect.signature(function)
        *named, _ = own.parameters.values()
        rest = [
            question.parameters[name]
            for name in question.plan_arguments
            if name not in (*own.parameters, *without)
        ]
        function.__signature__ = own.replace(  # type: ignore[attr-defined]
            parameters=[*named, *rest]
        )
        return function

    return declared


@known_arguments
@with_planning_parameters(HHH, without=("counters",))
def rollup_sql(
    hierarchy: str | Sequence[str] | Hierarchy,
    *,
    table: str,
    dialect: str,
    types: Mapping[str, str] | None = None,
    **planning: Any,
) -> RollupSql:
    """Write the SQL statement that counts for :func:`hhh` in a warehouse, and plan the release.

    Run ``.sql`` with any client, and pass its result to
    ``dp.hhh(candidates=result, plan=statement.plan)``, which draws the noise. Reads no data.

    Parameters
    ----------
    hierarchy, epsilon, delta, ...
        As for :func:`hhh`, with two exceptions: no statement makes the sketches of "streaming", and
        only the statement for DuckDB adds up a ``weight``.
    table
        The table or view, as it is named in the warehouse's SQL, or a query in parentheses.
    dialect
        "duckdb", "postgres", "spark" (also "databricks"): tests run their statements and compare
        the counts. "snowflake", "bigquery": tests only parse them (docs/warehouses.md).
    types
        Types of columns by name, as the warehouse or DuckDB calls the types. Columns left out here
        are read as text, which is right for texts and whole numbers. Give the true types of columns
        of floating-point numbers, decimals, dates and timestamps, and always of the weight and of
        the times of a period: times with a zone are compared as instants, others as written.
    period
        As for :func:`hhh`: the statement reads only the records of that period, and the ledger is
        charged for that period. A period that is not over is refused. A query in parentheses can
        restrict the records too, but is charged for all times.

    Returns
    -------
    RollupSql
        ``sql`` and ``plan``. With ``user`` the statement holds the secret seed for rounding or
        sampling the rows of a user: keep it as you keep the data.

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
            "mechanism='streaming' cannot run as a SQL statement. Use mechanism='offline'."
        )
    return _question_statement(HHH, {"hierarchy": hierarchy, **planning}, table, dialect, types)


@known_arguments
@with_planning_parameters(TREE_COUNTS)
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
    return _question_statement(
        TREE_COUNTS, {"hierarchy": hierarchy, **planning}, table, dialect, types
    )


@known_arguments
@with_planning_parameters(ROLLUP)
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

    Only for records, and with known bounds: one statement cannot count what depends on the selected
    nodes. ``types`` must have the columns that are added up.

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
            f"user ({user!r}) of rollup takes a second statement. Leave user out, or pass a Spark "
            "DataFrame or a DuckDB relation to dp.rollup."
        )
    if (heavy := planning.get("heavy")) is not None:
        raise ParameterError(
            f"heavy ({heavy!r}) needs integers of 128 bits, which warehouses lack. Leave heavy "
            "out, or pass the rows to dp.rollup, as Parquet files."
        )
    return _question_statement(
        ROLLUP, {"by": by, "measures": measures, **planning}, table, dialect, types
    )


def _warehouse_vectors(question: Question[Any, Any], plan: Any) -> tuple[Vector, ...] | None:
    """Return the vectors that the statement adds up, None for questions that only count;
    ParameterError for a measure that depends on the selected nodes."""
    if question is not ROLLUP:
        return None
    for name, measure in plan.asked.measures.items():
        if measure.kind == "distinct" or measure.needs_search:
            why = "counts different values" if measure.kind == "distinct" else "has bounds 'auto'"
            raise ParameterError(
                f"measure {name!r} {why}, which takes a second statement. Leave it out, "
                f"{'' if measure.kind == 'distinct' else 'give its bounds, '}or pass a Spark "
                "DataFrame or a DuckDB relation to dp.rollup."
            )
    vectors: tuple[Vector, ...] = plan.vectors
    return vectors


def _question_statement(
    question: Question[Any, Any],
    arguments: Mapping[str, Any],
    table: str,
    dialect: str,
    types: Mapping[str, str] | None,
) -> RollupSql:
    """Check the arguments of a question, plan the release and write its statement."""
    plan, chosen = question.plan(arguments), dialect_from(dialect)
    if plan.unit.nodes is not None:
        raise ParameterError(
            "contribution='items' cannot run in a warehouse. Leave contribution out, or pass the "
            "rows themselves, as a frame, Parquet files or a Spark DataFrame."
        )
    period, vectors = as_period(arguments.get("period")), _warehouse_vectors(question, plan)
    if plan.unit.measured and chosen != DUCKDB:
        raise ParameterError(
            f"weight ({plan.unit.weight!r}) of hhh needs integers of 128 bits, which "
            f"dialect={chosen!r} lacks. Use dialect='duckdb', or pass the rows to dp.hhh."
        )
    values = [v.column for v in vectors or () if v.column is not None]
    belonging = WarehousePlan(
        plan=plan,
        table=warehouse_table(table),
        dialect=chosen,
        types=column_types(plan, chosen, types, list(dict.fromkeys(values)), period),
        question=question.name,
        vectors=vectors,
        period=period,
    )
    return warehouse_statement(belonging)
