"""``dp.plan_series``: the budget and the law of every release of a series, before the first."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dpframe._known_arguments import bound, known_arguments, shown
from dpframe._progress import step
from dpframe.asking.given import DELTA, EPSILON, amount, chosen, flag, whole
from dpframe.asking.question import OF_RELEASE, Question
from dpframe.asking.series_plan import SeriesPlan, series_ways
from dpframe.errors import BudgetError, ParameterError, ParameterTypeError
from dpframe.ledger import Spending
from dpframe.ledger.reservations import MOST
from dpframe.questions.listed import QUESTIONS

PLANNED = {
    question.name: question
    for question in QUESTIONS
    if {"epsilon", "delta"} <= set(question.planning)
}
"""Questions whose releases have an epsilon and a delta."""


@known_arguments
def plan_series(
    releases: int,
    question: str | Callable[..., Any],
    *about: Any,
    total: tuple[float, float],
    disjoint: bool = False,
    **arguments: Any,
) -> SeriesPlan:
    """Which law, epsilon and delta each release of a series should have, for the least error.

    Tries the ways to divide a total over releases of one question: equal parts that add up; one law
    whose releases are reserved and compose; the same with the law that has the least error then,
    such as Gaussian noise; and, for periods that share no record, the whole total for each. Every
    number is that of ``dp.explain`` and of :meth:`Ledger.cost_of`. Reads no data, spends nothing.

    Parameters
    ----------
    releases
        How many, from 1 to 100,000.
    question
        A question or its name, such as ``dp.hhh`` or "rollup".
    about, arguments
        Of the question, as every release will have them, without source, epsilon and delta. With
        ``mechanism`` only that one is tried.
    total
        (epsilon, delta) of all releases together.
    disjoint
        Whether every release may cost the whole total, because no record is in two of them. The
        promise is then for one record, or one user within one period.

    Returns
    -------
    SeriesPlan
        Prints as a table. ``arguments`` are those of every release, ``reserve(ledger)`` pays for
        all of them, ``to_frame()`` has a row a way.

    Raises
    ------
    ParameterError, ParameterTypeError
        An argument breaks its rule, or no way keeps the total (BudgetError).

    Examples
    --------
    >>> import dpframe as dp
    >>> year = dp.plan_series(52, "hhh", ["country", "city"], user="id", total=(3.0, 1e-6))
    >>> year.arguments["mechanism"], year.arguments["epsilon"] > 3 / 52
    ('offline-gaussian', True)
    """
    count, asked, epsilon, delta = (
        whole("releases", releases, 1, MOST),
        _asked(question),
        *_total(total),
    )
    given = _given(asked, about, arguments)
    laws = _laws(asked, given)
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
            f"no way is known to make {count} releases within total=({epsilon:g}, {delta:g}): "
            f"{take.why} Plan fewer releases, or a larger total."
        )
    return SeriesPlan(
        question=asked.name,
        releases=count,
        total=Spending(epsilon=epsilon, delta=delta),
        ways=ways,
        chosen=take,
    )


def _asked(question: object) -> Question[Any, Any]:
    name = getattr(question, "__name__", question)
    return PLANNED[chosen("question", name, tuple(PLANNED))]


def _laws(asked: Question[Any, Any], given: Mapping[str, object]) -> Sequence[Mapping[str, object]]:
    """What chooses a law."""
    if given.get("mechanism") is not None:
        return ({"mechanism": given["mechanism"]},)
    if asked.name == "heavy_hitters" and given.get("contribution") == "items":
        raise ParameterError(
            "contribution='items' of heavy_hitters finds values in rounds, and no series of them "
            "is planned: plan one of hhh, asked the same way with the column as a list, or of "
            "shares (leave contribution out)."
        )
    return asked.laws


def _total(total: object) -> tuple[float, float]:
    if not isinstance(total, tuple | list) or len(total) != 2:
        raise ParameterTypeError(
            f"total must be a pair (epsilon, delta), such as (3.0, 1e-6); got {shown(total)}."
        )
    return (
        float(amount("epsilon of total", total[0], *EPSILON, "of all releases together")),
        float(amount("delta of total", total[1], *DELTA, "of all releases together")),
    )


def _given(
    question: Question[Any, Any], about: Sequence[object], arguments: Mapping[str, object]
) -> dict[str, object]:
    """The arguments of a release, by name, checked for being arguments of the question."""
    for name in ("epsilon", "delta"):
        if arguments.get(name) is not None:
            raise ParameterError(
                f"{name} ({arguments[name]!r}) must be left out: it is found for every release "
                "from total=."
            )
    _, *rest = question.call.parameters.values()  # the source
    signature = inspect.Signature([p for p in rest if p.name not in OF_RELEASE])
    named = bound(plan_series, signature, about, arguments)
    return {name: value for name, value in named.items() if value is not None}
