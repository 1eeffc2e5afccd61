"""Plan a series of releases, and say what one release would cost in the ledger."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dpframe.asking.card import Line, Text, format_value
from dpframe.asking.level_plan import Plan
from dpframe.asking.release import LEAST_CHARGE, DataScope
from dpframe.common.calls import shorten_errors
from dpframe.errors import BudgetError, ParameterError, ThresholdError
from dpframe.ledger import Charge, Ledger, chosen_ledger
from dpframe.ledger.reservations import plan_gaussian_cost, price_reservation
from dpframe.ledger.store import Spending, spending_of

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from dpframe.ledger.reservations import Reservation

DELTA_PART = 0.25
"""Part of the total delta for the single releases where they are composed; the rest buys a smaller
epsilon for all together."""

LEAST_USED_PART = 0.99
"""Part of the total epsilon from which on the search ends: a series that uses it is good enough."""

MOST_TRIES = 24
"""Most epsilons that the search tries."""

WAY_MEANINGS = {
    "sum": "equal parts of the total, added up",
    "pld": "the same law, reserved: composed by privacy loss distributions",
    "chosen": "the law with the least error, reserved",
    "disjoint": "each may cost the total: for periods that share no record, and a user within one",
    "apart": "each period has noise of its own, and totals are sums",
    "laplace": "running totals: Laplace noise of blocks of periods, without delta",
    "gaussian": "running totals: Gaussian noise that later periods take back",
}
"""The ways to divide a total, and what they mean."""


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way to divide a total over releases: the plan of each, and what all cost together.

    Where no plan is possible, ``plan`` and ``together`` are None and ``why`` gives the reason.
    """

    name: str
    arguments: Mapping[str, object]
    plan: Any = None
    together: Spending | None = None
    why: str = ""

    @property
    def errors(self) -> Mapping[str, float]:
        """Half widths of intervals by measure, for what one node has of its own, or what any listed
        node has."""
        return {} if self.plan is None else self.plan.errors

    @property
    def errors_so_far(self) -> Mapping[str, float]:
        """As ``errors``, for running totals at the end; empty for releases without them."""
        found: Mapping[str, float] = getattr(self.plan, "errors_so_far", {})
        return found

    @property
    def shown_from(self) -> float | None:
        """The count from which a node is certain to be shown; None if all are shown.

        If nothing is certain, the count from which a node is shown.
        """
        return None if self.plan is None else _shown_threshold(self.plan)

    @property
    def badness(self) -> float:
        """The number by which ways are ranked, the smaller the better.

        It is the geometric mean of the half widths and of ``shown_from``. Both shrink alike with
        the noise, and neither alone says how good a release is.
        """
        numbers = [*self.errors.values()]
        if self.shown_from is not None:
            numbers.append(float(self.shown_from))
        if not numbers:
            return math.inf
        return math.exp(sum(map(math.log, map(float, numbers))) / len(numbers))

    def row(self) -> dict[str, object]:
        """The way as a row of a table for people."""
        plan, totals = self.plan, self.errors_so_far
        errors = [own for name, own in self.errors.items() if name not in totals]
        return {
            "way": self.name,
            "mechanism": None if plan is None else plan.mechanism,
            "epsilon": None if plan is None else plan.budget.epsilon,
            "delta": None if plan is None else plan.budget.delta,
            "threshold": None if plan is None else getattr(plan, "threshold", None),
            "half_width": max(errors) if errors else None,
            "half_width_so_far": max(totals.values()) if totals else None,
            "shown_from": self.shown_from,
            "epsilon_together": None if self.together is None else self.together.epsilon,
            "delta_together": None if self.together is None else self.together.delta,
            "meaning": self.why or WAY_MEANINGS[self.name],
        }


@dataclass(frozen=True, kw_only=True, repr=False)
class SeriesPlan:
    """Ways to make a number of releases within a total, and the way to take.

    Prints as a table. ``arguments`` go to the question, for every release of the series;
    ``reserve(ledger)`` pays for all of them. ``to_frame()`` has one row per way: the ``mechanism``,
    ``epsilon``, ``delta`` and ``threshold`` of one release; the ``half_width`` of the interval for
    what one node has of its own, or what any listed node has (the widest of several measures), with
    ``cumulative`` also that of a running total at the end; the count from which a node is certain
    to be shown; and the epsilon and delta of all releases together.
    """

    question: str
    releases: int
    total: Spending
    ways: tuple[Way, ...]
    chosen: Way

    @property
    def arguments(self) -> dict[str, object]:
        """The arguments of every release of the series."""
        return dict(self.chosen.arguments)

    @property
    def plan(self) -> Any:
        """The plan of one release."""
        return self.chosen.plan

    @shorten_errors
    def reserve(self, ledger: Ledger | str | Path | None = None) -> Reservation | None:
        """Pay for all releases of the series now, in ``ledger`` or the ledger of ``use_ledger``.

        Returns None if nothing has to be reserved: equal parts and disjoint periods are charged one
        by one. Raises ParameterError if something has, and there is no ledger.
        """
        if self.chosen.name in ("sum", "disjoint") or self.chosen.errors_so_far:
            return None
        known = chosen_ledger(ledger)
        if known is None:
            raise ParameterError(
                "reserve needs a ledger with accountant='pld'. Pass ledger=, or call dp.use_ledger "
                "first."
            )
        return known.reserve(self.plan, releases=self.releases, delta=self.total.delta)

    def to_frame(self) -> pd.DataFrame:
        """One row per way; the class says what the columns hold."""
        import pandas as pd

        return pd.DataFrame([way.row() for way in self.ways])

    def __str__(self) -> str:
        head = (
            f"{self.releases} releases of {self.question} within "
            f"({format_value(self.total.epsilon)}, {format_value(self.total.delta)}) (nothing "
            "spent)"
        )
        names = ("way", "mechanism", "epsilon", "delta", "half width", "so far", "shown from",
                 "all together")  # fmt: skip
        lines = [names, *(_way_cells(way, way is self.chosen) for way in self.ways)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(names))]
        text = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        ]
        asked = ", ".join(
            f"{name}={self.arguments[name]!r}"
            for name in ("mechanism", "epsilon", "delta", "cumulative", "periods", "law")
            if name in self.arguments
        )
        told = [f"  {way.name}: {way.why or WAY_MEANINGS[way.name]}" for way in self.ways]
        return "\n".join([head, *(f"  {line}" for line in text), *told, f"  take: {asked}"])

    __repr__ = __str__


def _way_cells(way: Way, chosen: bool) -> tuple[str, ...]:
    row = way.row()

    def number(name: str, digits: str = ".4g") -> str:
        return "-" if row[name] is None else format(row[name], digits)

    together = "-"
    if way.together is not None:
        together = f"({way.together.epsilon:.4g}, {way.together.delta:.3g})"
    return (
        f"{way.name}{' *' if chosen else ''}",
        str(row["mechanism"] or "-"),
        number("epsilon"),
        number("delta", ".3g"),
        number("half_width"),
        number("half_width_so_far"),
        number("shown_from"),
        together,
    )


def _shown_threshold(plan: Any) -> float | None:
    """Return ``Way.shown_from`` of a plan, or of its selection if it has one."""
    own = getattr(plan, "selection", None) or plan
    for name in ("certainly_reported", "least_shown"):
        if (found := getattr(own, name, None)) is not None:
            return float(found)
    return None


PlanOfArguments = Callable[[Mapping[str, object]], Any]
"""A function that returns the plan of a call's arguments, and raises if there is none."""


def series_ways(
    planned: PlanOfArguments,
    arguments: Mapping[str, object],
    laws: Sequence[Mapping[str, object]],
    *,
    releases: int,
    total: Spending,
) -> tuple[Way, ...]:
    """Return all ways in the order of ``WAY_MEANINGS``.

    ``laws`` are the arguments that choose a law, the usual law first.
    """
    usual = {**arguments, **laws[0]}
    part = _four_digits_down(total.epsilon / releases), _four_digits_down(total.delta / releases)
    laws = [
        laws[0],
        *(law for law in laws[1:] if _law_applies(planned, {**arguments, **law}, part)),
    ]
    summed = _budget_way("sum", planned, usual, part, None)
    composed = [_composed_way(planned, {**arguments, **law}, releases, total) for law in laws]
    disjoint = [
        _budget_way("disjoint", planned, {**arguments, **law}, (total.epsilon, total.delta), total)
        for law in laws
    ]
    if summed.plan is not None:
        budget = summed.plan.budget
        both = Spending(epsilon=releases * budget.epsilon, delta=releases * budget.delta)
        summed = replace(summed, together=both)
    best = min([summed, *composed], key=_way_rank)
    return (
        summed,
        composed[0] if composed[0].plan is not None else replace(summed, name="pld"),
        replace(best, name="chosen"),
        min(disjoint, key=_way_rank),
    )


def _law_applies(
    planned: PlanOfArguments, arguments: Mapping[str, object], budget: tuple[float, float]
) -> bool:
    """Return whether a law that the caller did not name goes with the other arguments.

    For example, Gaussian noise of a selection counts no cells and no different users.
    """
    try:
        planned({**arguments, "epsilon": budget[0], "delta": budget[1]})
    except ParameterError as error:
        return isinstance(error, BudgetError | ThresholdError)  # reported by the way itself
    return True


def _way_rank(way: Way) -> float:
    return math.inf if way.plan is None else way.badness


def _budget_way(
    name: str,
    planned: PlanOfArguments,
    arguments: Mapping[str, object],
    budget: tuple[float, float],
    together: Spending | None,
) -> Way:
    """Return the way in which every release has the same budget."""
    epsilon, delta = budget
    asked = {**arguments, "epsilon": epsilon, "delta": delta}
    try:
        return Way(name=name, arguments=asked, plan=planned(asked), together=together)
    except (BudgetError, ThresholdError) as error:
        return Way(name=name, arguments=asked, why=str(error))


def _composed_way(
    planned: PlanOfArguments, arguments: Mapping[str, object], releases: int, total: Spending
) -> Way:
    """Search the largest epsilon of one release at which a reservation of all releases stays within
    the total."""
    delta = _four_digits_down(DELTA_PART * total.delta / releases)
    low, high = total.epsilon / releases, 2 * total.epsilon
    guess = _four_digits_down(total.epsilon / math.sqrt(releases))
    found = Way(name="pld", arguments=arguments, why="no epsilon keeps the total")
    for _ in range(MOST_TRIES):
        way, used = _reserved_way(planned, arguments, (guess, delta), releases, total)
        if used > 1:
            high = guess
        else:  # epsilon is too small, or so small that no known noise would do
            low = guess
        if (way.plan is None and found.plan is None) or (used <= 1 and way.plan is not None):
            found = way
        if LEAST_USED_PART <= used <= 1 or high / low < 2 - LEAST_USED_PART:
            break
        following = _four_digits_down(guess / used**0.9) if used else 0.0
        guess = following if low < following < high else _four_digits_down(math.sqrt(low * high))
    return found


def _reserved_way(
    planned: PlanOfArguments,
    arguments: Mapping[str, object],
    budget: tuple[float, float],
    releases: int,
    total: Spending,
) -> tuple[Way, float]:
    """Return the way that reserves releases with this budget, and its part of the total epsilon.

    The part is 0 if there is no plan.
    """
    way = _budget_way("pld", planned, arguments, budget, None)
    if way.plan is None:
        return way, 0.0
    together = spending_of(price_reservation(way.plan, releases, total.delta)[1])
    return replace(way, together=together), together.epsilon / total.epsilon


def _four_digits_down(number: float) -> float:
    """Round down to four digits."""
    unit = 10.0 ** (math.floor(math.log10(number)) - 3)
    found = float(f"{math.floor(number / unit * (1 + 1e-12)) * unit:.4g}")
    return found if found <= number else float(f"{found - unit:.4g}")


if TYPE_CHECKING:
    pass


def ledger_fit_lines(
    plan: Plan[object, object], about: DataScope, ledger: Ledger | None, name: str | None = None
) -> list[Line]:
    """Return one line for the card of an explanation; [] without a ledger. Charges nothing."""
    if ledger is None:
        return []
    if name is not None and ledger.find(name) is not None:
        meaning = f"release {name!r} is stored: the call that it answered is replayed for nothing"
        return [Line("in the ledger", "nothing to pay", meaning)]
    receipt = plan.receipt(name)
    facts = receipt.with_facts(about.facts(receipt))
    seen = ledger.foresee(
        Charge(
            release_id=facts["release_id"],
            time=facts["time"],
            epsilon=plan.budget.epsilon,
            delta=plan.budget.delta or LEAST_CHARGE,
            profile=lambda: plan.profile,
            source="",
            receipt=facts.to_json(),
            blocks=about.blocks,
            told=lambda: plan_gaussian_cost(plan),
        )
    )
    where = "for any release"
    if about.period is not None and about.reading is not None:
        where = f"for {about.period.column} {about.period.text or 'NULL'}, which has spent "
        where += f"{_spending_text(seen.spent)}"
    elif about.period is not None:
        where = "for any release; a period has that or more, which its source tells"
    if seen.steps > 1:
        where += f"; it costs two steps, as the totals hold for {seen.protects}"
    if seen.paid_by is not None:
        return [
            Line.of(
                "in the ledger",
                "paid for already",
                "by {paid_by}",
                paid_by=seen.paid_by,
            )
        ]
    if not seen.fits:
        value = f"does not fit: {_spending_text(seen.left)} left"
        return [
            Line.of(
                "in the ledger",
                value,
                "{where}; it would be refused",
                where=where,
            )
        ]
    after = f"{where}; {_spending_text(seen.after)} would be left there"
    return [
        Line.of(
            "in the ledger",
            Text("fits: {left} left"),
            "{after}",
            left=_spending_text(seen.left),
            after=after,
        )
    ]


def _spending_text(amount: Spending) -> str:
    return f"({format_value(amount.epsilon)}, {format_value(amount.delta)})"
