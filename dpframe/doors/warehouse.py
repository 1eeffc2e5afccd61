"""``dp.rollup_sql``, ``dp.tree_rollup_sql`` and ``dp.measures_sql``: statements for a warehouse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

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
    from datetime import date

    import pandas as pd

    from dpframe.hierarchy import Hierarchy
    from dpframe.measures import Measure
    from dpframe.periods import Period


@known_arguments
def rollup_sql(
    hierarchy: str | Sequence[str] | Hierarchy,
    *,
    table: str,
    dialect: str,
    types: Mapping[str, str] | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    threshold: float | int | None = None,
    user: str | None = None,
    contribution: str | None = None,
    max_contributions: int | None = None,
    weight: str | None = None,
    max_weight: float | None = None,
    mechanism: str = "offline",
    remainder: bool | None = None,
    release_share: float | None = None,
    confidence: float = 0.95,
    acknowledge: bool = False,
    period: tuple[str | date | pd.Period | None, ...] | Period | None = None,
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
    if mechanism == "streaming":
        raise ParameterError(
            "mechanism='streaming' keeps sketches, which no SQL statement makes: use "
            "mechanism='offline'."
        )
    return _written(HHH, locals())


@known_arguments
def tree_rollup_sql(
    hierarchy: str | Sequence[str] | Hierarchy,
    *,
    table: str,
    dialect: str,
    types: Mapping[str, str] | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    keys: object = None,
    user: str | None = None,
    contribution: str | None = None,
    max_contributions: int | None = None,
    weight: str | None = None,
    max_weight: int | None = None,
    mechanism: str = "additive",
    level_weights: Sequence[float] | None = None,
    threshold: int | None = None,
    consistent: bool = True,
    confidence: float = 0.95,
    alpha: float | None = None,
    largest: int | None = None,
    period: tuple[str | date | pd.Period | None, ...] | Period | None = None,
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
    return _written(TREE_COUNTS, locals())


@known_arguments
def measures_sql(
    by: str | Sequence[str] | Hierarchy,
    measures: Mapping[str, Measure | str] | Sequence[Measure | str] | str,
    *,
    table: str,
    dialect: str,
    types: Mapping[str, str] | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    user: str | None = None,
    threshold: float | None = None,
    heavy: str | None = None,
    keys: object = None,
    selection_share: float | None = None,
    confidence: float = 0.95,
    period: tuple[str | date | pd.Period | None, ...] | Period | None = None,
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
    if user is not None:
        raise ParameterError(
            f"user ({user!r}): what users add to the selected nodes takes a second statement. "
            "Leave user out; or pass a Spark DataFrame or a DuckDB relation to dp.rollup, which "
            "run both."
        )
    if heavy is not None:
        raise ParameterError(
            f"heavy ({heavy!r}) selects by whole numbers of 128 bits, which warehouses lack: leave "
            "heavy out, and records decide; or pass the rows to dp.rollup, as Parquet files."
        )
    about, plan = as_period(period), ROLLUP.plan(locals())
    for name, measure in plan.asked.measures.items():
        if measure.kind == "distinct" or measure.searched:
            why = "counts different values" if measure.kind == "distinct" else "has bounds 'auto'"
            raise ParameterError(
                f"measure {name!r} {why}, which takes a second statement: leave it out, "
                f"{'' if measure.kind == 'distinct' else 'give its bounds, '}or pass a Spark "
                "DataFrame or a DuckDB relation to dp.rollup, which run both."
            )
    chosen = dialect_from(dialect)
    values = [v.column for v in plan.vectors if v.column is not None]
    belonging = WarehousePlan(
        plan=plan,
        table=source_from(table),
        dialect=chosen,
        types=column_types(plan, chosen, types, list(dict.fromkeys(values)), about),
        question=ROLLUP.name,
        vectors=plan.vectors,
        period=about,
    )
    return statement(belonging)


def _written(question: Question[Any, Any], arguments: Mapping[str, Any]) -> RollupSql:
    plan, chosen = question.plan(arguments), dialect_from(arguments["dialect"])
    period = as_period(arguments["period"])
    if plan.unit.measured and chosen != DUCKDB:
        raise ParameterError(
            f"weight ({plan.unit.weight!r}) of hhh is added up in whole numbers of 128 bits, which "
            f"dialect={chosen!r} lacks: use dialect='duckdb', or pass the rows themselves to "
            "dp.hhh, as a frame or as Parquet files."
        )
    belonging = WarehousePlan(
        plan=plan,
        table=source_from(arguments["table"]),
        dialect=chosen,
        types=column_types(plan, chosen, arguments["types"], period=period),
        question=question.name,
        period=period,
    )
    return statement(belonging)
