"""``dp.plan_series``: the budget and the law of every release of a series, before the first."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dpframe._known_arguments import bind_arguments, known_arguments, shown_value
from dpframe._progress import step
from dpframe.asking.call_arguments import (
    DELTA,
    EPSILON,
    budget_amount,
    flag,
    known_choice,
    whole_number,
)
from dpframe.asking.question import RELEASE_ARGUMENTS, Question
from dpframe.asking.series_plan import SeriesPlan, series_ways
from dpframe.errors import BudgetError, ParameterError, ParameterTypeError
from dpframe.ledger import Spending
from dpframe.ledger.reservations import MOST
from dpframe.questions.question_list import QUESTIONS

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
    >>> year = dp.plan_series(52, "hhh", ["country", "city"], user="id", total=(3.0, 1e-6))
    >>> year.arguments["mechanism"], year.arguments["epsilon"] > 3 / 52
    ('offline-gaussian', True)
    """
    count = whole_number("releases", releases, 1, MOST)
    name = getattr(question, "__name__", question)
    asked = PLANNED[known_choice("question", name, tuple(PLANNED))]
    epsilon, delta = _series_total(total)
    given = _series_arguments(asked, about, arguments)
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
