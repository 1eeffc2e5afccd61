"""``dp.rollup_sql`` and others for warehouses, and ``dp.plan_series``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from dpframe.asking.call_arguments import (
    DELTA,
    EPSILON,
    budget_amount,
    flag,
    known_choice,
    whole_number,
)
from dpframe.asking.question import RELEASE_ARGUMENTS, Question
from dpframe.asking.series_plan import SeriesPlan, Way, series_ways
from dpframe.asking.warehouse_plan import (
    DUCKDB,
    RollupSql,
    WarehousePlan,
    column_types,
    dialect_from,
    warehouse_statement,
    warehouse_table,
)
from dpframe.common.calls import bind_arguments, known_arguments, shown_value
from dpframe.common.progress import step
from dpframe.errors import BudgetError, ParameterError, ParameterTypeError
from dpframe.hierarchy import as_hierarchies
from dpframe.ledger import Spending
from dpframe.ledger.reservations import MOST
from dpframe.mechanisms.running_totals import LOOKS, least_error
from dpframe.periods import as_period
from dpframe.questions.hhh.ask import HHH
from dpframe.questions.question_list import QUESTIONS
from dpframe.questions.rollup.ask import ROLLUP
from dpframe.questions.rollup.series_totals import (
    LAWS,
    RunningPlan,
    running_look,
    running_plan,
)
from dpframe.questions.tree_counts.ask import TREE_COUNTS

if TYPE_CHECKING:
    from dpframe.hierarchy import Hierarchy
    from dpframe.measures.measure import Measure, Vector

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
    if planning.get("keys") is not None and as_hierarchies(by, "by").has_cells:
        raise ParameterError("warehouses do not count listed cells. Pass rows to dp.rollup.")
    return _question_statement(
        ROLLUP, {"by": by, "measures": measures, **planning}, table, dialect, types
    )


def _warehouse_vectors(question: Question[Any, Any], plan: Any) -> tuple[Vector, ...] | None:
    """Return the vectors that the statement adds up, None for questions that only count;
    ParameterError for a measure that depends on the selected nodes."""
    if question is not ROLLUP:
        return None
    for name, measure in plan.asked.measures.items():
        if measure.kind == "distinct" or measure.needs_search or measure.is_binned:
            why, instead = "has bounds 'auto'", "give its bounds, "
            if not measure.needs_search:
                why, instead = "counts different values", ""
            if measure.is_binned:
                why = "counts values in bins"
            raise ParameterError(
                f"measure {name!r} {why}, which takes a second statement. Leave it out, "
                f"{instead}or pass a Spark DataFrame or a DuckDB relation to dp.rollup."
            )
    vectors: tuple[Vector, ...] = plan.vectors
    return vectors


ONE_STATEMENT = "one statement of a warehouse cannot answer rounds"
"""Why a call that names no way is answered by shares."""


def _question_statement(
    question: Question[Any, Any],
    arguments: Mapping[str, Any],
    table: str,
    dialect: str,
    types: Mapping[str, str] | None,
) -> RollupSql:
    """Check the arguments of a question, plan the release and write its statement."""
    plan = question.by_shares(question.plan(arguments), ONE_STATEMENT)
    chosen = dialect_from(dialect)
    if plan.unit.nodes is not None:
        raise ParameterError(
            "contribution='items' cannot run in a warehouse. Leave contribution out, or pass the "
            "rows themselves, as a frame, Parquet files or a Spark DataFrame."
        )
    if getattr(plan, "items", None) is not None:
        raise ParameterError(
            "a warehouse cannot answer rounds (mechanism='rounds', or contribution='items' without "
            "keys). Leave these, at_most and max_contributions out, or pass the rows themselves."
        )
    given, vectors = arguments.get("period"), _warehouse_vectors(question, plan)
    period = None if given is None else as_period(given)
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


PLANNED = {
    question.name: question
    for question in QUESTIONS
    if {"epsilon", "delta"} <= set(question.plan_arguments)
}
"""Questions, by name, whose plans take both epsilon and delta."""


@known_arguments
def plan_series(
    releases: int,
    question: str | Callable[..., Any],
    *about: Any,
    total: tuple[float, float],
    disjoint: bool = False,
    cumulative: bool | str | None = None,
    law: str | None = None,
    **arguments: Any,
) -> SeriesPlan:
    """Find the law, epsilon and delta for each release of a series that give the least error.

    Tries the ways to divide a total over releases of one question: equal parts that add up; the
    usual law, with all releases reserved together; a reservation of the law with the least error,
    such as Gaussian noise; and, for periods that share no record, the whole total for each.
    All numbers are from ``dp.explain`` and :meth:`Ledger.cost_of`. Reads no data, spends nothing.

    Parameters
    ----------
    releases
        Number of releases, from 1 to 100,000.
    question
        A question or its name, such as ``dp.hhh`` or "rollup".
    about, arguments
        Arguments of the question, as every release will have them, without source, epsilon and
        delta. With ``mechanism`` only that mechanism is tried.
    total
        (epsilon, delta) of all releases together.
    disjoint
        Whether every release may cost the whole total, because no record is in two releases. The
        promise is then for one record, or one user within one period.
    cumulative
        For a rollup of listed ``keys``: what its reader looks at, running totals ("totals" or
        True), single periods ("weeks") or "both". The promise is for one record, or one user within
        one period, in everything that is released of all periods. ``law`` names the noise,
        "laplace" or "gaussian"; else the one with the least error is taken.

    Returns
    -------
    SeriesPlan
        Prints as a table. ``arguments`` are the arguments of every release, ``reserve(ledger)``
        pays for all releases, ``to_frame()`` has a row for each way.

    Raises
    ------
    ParameterError, ParameterTypeError
        An argument breaks its rule; BudgetError if no way keeps the total.

    Examples
    --------
    >>> import dpframe as dp
    >>> year = dp.plan_series(12, "hhh", ["country", "city"], user="id", total=(3.0, 1e-6))
    >>> year.arguments["mechanism"], year.arguments["epsilon"] > 3 / 12
    ('offline-gaussian', True)
    """
    count = whole_number("releases", releases, 1, MOST)
    name = getattr(question, "__name__", question)
    asked = PLANNED[known_choice("question", name, tuple(PLANNED))]
    epsilon, delta = _series_total(total)
    given = _series_arguments(asked, about, arguments)
    if cumulative is not None and cumulative is not False:
        if flag("disjoint", disjoint):
            raise ParameterError(
                "cumulative holds for periods that share no record already. Leave disjoint out."
            )
        spending = Spending(epsilon=epsilon, delta=delta)
        return _plan_of_totals(asked, given, count, spending, running_look(cumulative), law)
    if law is not None:
        raise ParameterError("law needs cumulative. Add cumulative=True.")
    laws = _laws_to_try(asked, given)
    with step("planning the series"):
        ways = series_ways(
            lambda call: asked.declared(asked.plan(call)),
            given,
            laws,
            releases=count,
            total=Spending(epsilon=epsilon, delta=delta),
        )
    take = ways[-1] if flag("disjoint", disjoint) else ways[-2]
    if take.plan is None:
        raise BudgetError(
            f"no known way fits {count} releases into total=({epsilon:g}, {delta:g}): "
            f"{take.why} Plan fewer releases, or a larger total."
        )
    return SeriesPlan(
        question=asked.name,
        releases=count,
        total=Spending(epsilon=epsilon, delta=delta),
        ways=ways,
        chosen=take,
    )


def _check_rollup(question: Question[Any, Any]) -> None:
    if question is not ROLLUP:
        raise ParameterError(
            f"cumulative adds up numbers of a rollup; question is {question.name!r}. Take "
            "question = 'rollup', or leave cumulative out."
        )


def _plan_of_totals(
    question: Question[Any, Any],
    arguments: Mapping[str, object],
    periods: int,
    total: Spending,
    look: str,
    law: str | None,
) -> SeriesPlan:
    """The ways to release running totals, and the one with the least error."""
    _check_rollup(question)
    plan = question.plan({**arguments, "epsilon": total.epsilon, "delta": total.delta})
    ways = []
    for name in ("apart", *LAWS):
        asked: dict[str, Any] = {"periods": periods, "look": look, "law": name}
        if name == "apart":
            asked |= {"look": "weeks", "law": "laplace"}
        made, why = None, ""
        try:
            made = running_plan(plan, delta=total.delta, **asked)
        except BudgetError as error:
            why = str(error)
        told = {"epsilon": total.epsilon, "periods": periods, "cumulative": asked["look"]}
        told |= {"law": asked["law"]}
        if made is not None and made.budget.delta:
            told["delta"] = total.delta
        spent = None if made is None else Spending(epsilon=total.epsilon, delta=made.budget.delta)
        ways.append(
            Way(name=name, arguments={**arguments, **told}, plan=made, together=spent, why=why)
        )
    able = [way for way in ways if way.plan is not None and law in (None, way.name)]
    if not able:
        known_choice("law", law, LAWS)
        raise BudgetError(f"no noise fits: {next(way.why for way in ways if way.name == law)}")
    beside = [
        running_plan(plan, delta=0, periods=periods, look=one, law="laplace").mean_errors
        for one in LOOKS
    ]
    best = able[least_error([way.plan.mean_errors for way in able], look, beside)]
    return SeriesPlan(
        question=question.name, releases=periods, total=total, ways=tuple(ways), chosen=best
    )


def running_report(
    question: Question[Any, Any], table: Mapping[str, Any], arguments: Mapping[str, Any]
) -> RunningPlan:
    """The plan of a report with running totals.

    Raises ParameterError for a question without sums, and for one total for the same people in all
    periods, which shared noise would not keep.
    """
    look = running_look(table["cumulative"])
    _check_rollup(question)
    if "total" in table:
        raise ParameterError(
            "cumulative protects a record, or a user within one period. For the same people in "
            "all periods (total) leave cumulative out; else give epsilon."
        )
    return running_plan(
        question.plan(arguments),
        delta=arguments.get("delta"),
        periods=table.get("periods"),
        look=look,
        law=table.get("law"),
    )


def _laws_to_try(
    asked: Question[Any, Any], given: Mapping[str, object]
) -> Sequence[Mapping[str, object]]:
    """Return the arguments of each law to try: the call's ``mechanism`` alone, if it has one."""
    if given.get("mechanism") is not None:
        return ({"mechanism": given["mechanism"]},)
    if asked.name == "heavy_hitters" and given.get("contribution") == "items":
        raise ParameterError(
            "contribution='items' of heavy_hitters cannot be planned as a series. Plan hhh with "
            "the column as a list, or leave contribution out, for shares."
        )
    return asked.laws


def _series_total(total: object) -> tuple[float, float]:
    if not isinstance(total, tuple | list) or len(total) != 2:
        raise ParameterTypeError(
            f"total must be a pair such as (3.0, 1e-6); got {shown_value(total)}."
        )
    return (
        float(budget_amount("epsilon of total", total[0], *EPSILON, "of all releases together")),
        float(budget_amount("delta of total", total[1], *DELTA, "of all releases together")),
    )


def _series_arguments(
    question: Question[Any, Any], about: Sequence[object], arguments: Mapping[str, object]
) -> dict[str, object]:
    """Return the arguments of a release by name, without None. Raises ParameterError or
    ParameterTypeError for arguments that a series does not take."""
    for name in ("epsilon", "delta"):
        if arguments.get(name) is not None:
            raise ParameterError(
                f"{name} ({arguments[name]!r}) must be left out. It follows from total=."
            )
    _, *rest = question.call.parameters.values()  # the source
    signature = inspect.Signature([p for p in rest if p.name not in RELEASE_ARGUMENTS])
    named = bind_arguments(plan_series, signature, about, arguments)
    return {name: value for name, value in named.items() if value is not None}
