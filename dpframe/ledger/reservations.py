"""Reservations and filters: what pays for later releases.

**Reservations** are releases of one law that are paid for together, before the first is drawn.

Releases whose law and number are fixed beforehand compose by privacy loss distributions, whatever
else is asked in between (:mod:`dpframe.accounting.compose`). They are charged at once, as one
release of their joint (epsilon, delta) would be; so the totals of a ledger are plain sums
(docs/decisions/0011-what-a-ledger-adds-up.md).

**Privacy filters** are amounts that a ledger has paid for, which Gaussian releases of any cost use
up.

Whoever opens a filter need not know how many releases come, nor with which budgets: each release
may be chosen after looking at earlier answers (:mod:`dpframe.accounting.compose`). To the
ledger a filter, like a reservation, is one interactive mechanism that costs its (epsilon, delta).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol

from dpframe.accounting import compose as gaussian_filter
from dpframe.accounting.compose import Amounts, Profile, composed_epsilon
from dpframe.accounting.weighted_round_noise import GaussianLeakage
from dpframe.budget import Budget, as_float
from dpframe.common.calls import shown_value
from dpframe.errors import BudgetError, ParameterError, ParameterTypeError
from dpframe.ledger.entries import Entry, without_period
from dpframe.ledger.store import (
    DELTA_UNIT,
    EPSILON_UNIT,
    Accountant,
    Exact,
    Totals,
    Units,
    checked_total,
    damage_error,
    exact_amounts,
    float_amount,
    largest_sum,
    units_up,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Amounts that a ledger has paid for, and the part of them that is left.

    ``epsilon`` and ``delta`` are what all releases that use it up cost together, ``releases`` is
    how many have used it so far. ``left`` is the part from 0 to 1 that is left of the sum of
    squares, which is what Gaussian noise uses up: a release of twice the noise takes a quarter.
    ``ends_left`` is the part that is left of the delta for ends and rounding of noise tables, of
    which a release takes the more, the larger its own delta is.
    """

    filter_id: str
    time: str
    releases: int
    left: float
    ends_left: float
    epsilon: float
    delta: float
    neighbours: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFilter:
    """An open filter: its amounts, what is left of them, and the neighbours that it is for."""

    reservation_id: str
    epsilon: float
    whole: Amounts
    left: Amounts
    neighbours: str
    steps: int = 1
    holder: None = None

    def pay(
        self, profile: Profile, told: Callable[[], GaussianLeakage | None], neighbours: str | None
    ) -> OpenFilter | None:
        """The filter after a release that it pays for; None if it does not pay."""
        if without_period(neighbours) != self.neighbours:
            return None
        said = told()
        left = (
            None
            if said is None
            else gaussian_filter.amounts_left(self.left, self._use_leakage(said))
        )
        return None if left is None else replace(self, left=left)

    def fits(self, profile: Profile, told: GaussianLeakage | None, neighbours: str) -> int:
        """How many releases that reveal ``told`` the filter pays for."""
        if told is None or without_period(neighbours) != self.neighbours:
            return 0
        return gaussian_filter.releases_that_fit(self.left, self._use_leakage(told))

    def _use_leakage(self, told: GaussianLeakage) -> Amounts:
        return gaussian_filter.amounts_used(told, self.epsilon)

    @property
    def words(self) -> str:
        """The filter, and what is left of it, as text."""
        return f"a filter, of which {100 * self.part:.3g} % of the squares are left"

    @property
    def facts(self) -> dict[str, Any]:
        return {"id": self.reservation_id, "filter": True, "left": self.part}

    @property
    def part(self) -> float:
        """The part of the sum of squares that is left, rounded down."""
        return self.left[0] * 10**6 // self.whole[0] / 1e6

    @property
    def ends(self) -> float:
        """The part that is left of the delta for ends and rounding of tables, rounded down."""
        return self.left[1] * 10**6 // self.whole[1] / 1e6


def price_filter(epsilon: object, delta: object) -> tuple[tuple[float, float], Units, Amounts]:
    """The cost of a filter as checked numbers and in units, and its amounts; BudgetError if the
    cost is out of range or pays for nothing."""
    e, d = checked_total(epsilon, delta)
    if not gaussian_filter.SMALLEST <= e <= gaussian_filter.LARGEST:
        raise BudgetError(
            f"a filter's epsilon ({epsilon!r}) must be from {gaussian_filter.SMALLEST:g} to "
            f"{gaussian_filter.LARGEST:g}."
        )
    amounts = gaussian_filter.amounts_of(e, d)
    if not all(amounts):
        raise BudgetError(f"a filter's delta ({delta!r}) is too small for any release.")
    return (e, d), (units_up(e, EPSILON_UNIT), units_up(d, DELTA_UNIT)), amounts


def check_filter(
    plan: ReservablePlan,
    told: GaussianLeakage | None,
    epsilon: float,
    delta: float,
    amounts: Amounts,
) -> None:
    """Check that a filter holds at least one release of this plan: ParameterError if its noise is
    not Gaussian, BudgetError if the amounts are too small."""
    if told is None:
        raise ParameterError(
            "plan has other noise than mechanism='offline-gaussian', for which filters pay. "
            "Explain one with that mechanism, or reserve a number of releases of this law."
        )
    if gaussian_filter.amounts_left(amounts, gaussian_filter.amounts_used(told, epsilon)) is None:
        best, most = gaussian_filter.best_smaller_epsilon(told, epsilon, delta)
        instead = (
            f"A filter of epsilon {best:g} holds {most}: at a larger epsilon the rounding of "
            "64-bit tables counts for more"
            if most
            else "Give it more, or releases less: a release takes about half of its delta from a "
            "quarter of the filter's delta"
        )
        raise BudgetError(
            f"the filter would not hold a single release of ({plan.budget.epsilon:g}, "
            f"{plan.budget.delta:g}). {instead}."
        )


def filter_text(epsilon: float, amounts: Amounts) -> str:
    """The text that the entry of a filter has in the place of a law."""
    return json.dumps({"filter": list(amounts), "epsilon": epsilon})


def is_filter(profile: str) -> bool:
    """Whether the entry with this profile is a filter."""
    return profile.startswith("{")


def open_filter_of(
    reservation_id: str, profile: str, left: object, neighbours: str, steps: int = 1
) -> OpenFilter:
    """An open filter, from the columns of its entry."""
    said = json.loads(profile)
    whole = _amounts(said["filter"])
    there = _amounts(left)
    if not all(0 <= have <= of for have, of in zip(there, whole, strict=True)):
        raise damage_error("a filter holds more than it was opened with")
    return OpenFilter(
        reservation_id=reservation_id,
        epsilon=float(said["epsilon"]),
        whole=whole,
        left=there,
        neighbours=neighbours,
        steps=steps,
    )


def _amounts(value: object) -> Amounts:
    if not isinstance(value, list) or len(value) != 3 or not all(isinstance(n, int) for n in value):
        raise damage_error("the amounts of a filter are no numbers")
    return value[0], value[1], value[2]


def filter_of(entry: Entry, left: Amounts, drawn: int) -> Filter:
    """What callers see of a filter, from its entry."""
    neighbours = json.loads(entry.receipt)["neighbours"]
    held = open_filter_of(entry.release_id, entry.profile, list(left), neighbours)
    return Filter(
        filter_id=entry.release_id,
        time=entry.time,
        releases=drawn,
        left=held.part,
        ends_left=held.ends,
        epsilon=float_amount(entry.epsilon, EPSILON_UNIT),
        delta=float_amount(entry.delta, DELTA_UNIT),
        neighbours=neighbours,
    )


MOST = 100_000
"""Releases of one reservation, at most."""

SLACK = 1e-6, 2e-15
"""By how much two computations of one curve may differ at most, relative and absolute. Curves are
reserved with that much more delta; a curve that is lower by over five times as much is another law.
"""

ROUNDING = 1e-14
"""Delta kept back for each release of a composition: more than long convolutions round."""


class ReservablePlan(Protocol):
    """A plan of a release, as far as reservations need it."""

    @property
    def budget(self) -> Budget: ...

    @property
    def profile(self) -> Profile: ...

    @property
    def request(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Releases of one law that a ledger has paid for beforehand, and how many are left.

    ``epsilon`` and ``delta`` are what all of them cost together. ``release_epsilon`` and
    ``release_delta`` are the budget of each.
    """

    reservation_id: str
    time: str
    releases: int
    left: int
    epsilon: float
    delta: float
    release_epsilon: float
    release_delta: float
    neighbours: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenReservation:
    """A reservation with releases left: their law, and the neighbours that they are for."""

    reservation_id: str
    releases: int
    left: int
    profile: Profile
    neighbours: str | None
    steps: int = 1
    holder: str | None = None
    """The series whose releases alone it pays for; None: it pays for all but those of a series."""

    def pay(
        self, profile: Profile, told: Callable[[], GaussianLeakage | None], neighbours: str | None
    ) -> OpenReservation | None:
        """The reservation after a release that it pays for; None if it does not pay."""
        return replace(self, left=self.left - 1) if self.pays_for(profile, neighbours) else None

    def fits(self, profile: Profile, told: GaussianLeakage | None, neighbours: str) -> int:
        """How many releases of this law the reservation pays for."""
        return self.left if self.pays_for(profile, neighbours) else 0

    @property
    def words(self) -> str:
        """The reservation, and what is left of it, as text."""
        return f"a reservation of {self.releases} releases, of which {self.left} are left"

    @property
    def facts(self) -> dict[str, Any]:
        return {"id": self.reservation_id, "releases": self.releases, "left": self.left}

    def pays_for(self, profile: Profile, neighbours: str | None) -> bool:
        """Whether a release has the reserved law: its budget and, except for rounding, its curve.

        Where the reserved law is the budget alone, the budget is enough, because every release of
        that budget keeps it: earlier versions knew no more of some plans. A release of a period is
        paid for, too: a reservation is charged to every period, and its law is for users wherever
        their records lie.
        """
        if without_period(neighbours) != self.neighbours:
            return False
        if profile[-1] != self.profile[-1]:
            return False
        return len(self.profile) == 1 or (
            [e for e, _ in profile] == [e for e, _ in self.profile]
            and all(
                _least_reserved_delta(reserved) <= asked <= reserved
                for (_, asked), (_, reserved) in zip(profile[:-1], self.profile[:-1], strict=True)
            )
        )


def _least_reserved_delta(reserved: float) -> float:
    return reserved * (1 - 5 * SLACK[0]) - 5 * SLACK[1]


def reserved_law(profile: Profile) -> Profile:
    """The curve that is composed: not below what a later version may compute for the same plan."""
    return (*((e, min(1.0, d * (1 + SLACK[0]) + SLACK[1])) for e, d in profile[:-1]), profile[-1])


def neighbours_of(plan: Any) -> str:
    """What a release of a plan protects, as its receipt will say."""
    return str(getattr(plan, "neighbours", None) or plan.unit.sentence)


def facts_of(plan: Any) -> dict[str, Any]:
    """The receipt that a release of a plan will have. A plan without receipts only says what the
    release protects."""
    return (
        dict(plan.receipt(None))
        if hasattr(plan, "receipt")
        else {"neighbours": neighbours_of(plan)}
    )


def plan_gaussian_cost(plan: object) -> GaussianLeakage | None:
    """What a release with Gaussian noise reveals: its cost is a sum of squares. None for others."""
    found: GaussianLeakage | None = getattr(plan, "leakage", None)
    return found


def check_reserves(accountant: Accountant) -> None:
    """Raise ParameterError if a ledger with this accountant cannot reserve releases."""
    if accountant != "pld":
        raise ParameterError(
            "this ledger was made with accountant='sum', which cannot reserve releases. Make one "
            "with accountant='pld'."
        )


def reservable_plan(explained: Any) -> ReservablePlan:
    """The plan in what ``dp.explain`` and its kind return."""
    plan = getattr(explained, "plan", explained)
    if not all(hasattr(plan, part) for part in ("budget", "profile", "request", "unit")):
        raise ParameterTypeError(
            "plan must come from dp.explain, dp.explain_rollup or dp.plan_series; got "
            f"{type(explained).__name__}."
        )
    found: ReservablePlan = plan
    return found


def price_reservation(plan: ReservablePlan, releases: object, delta: object) -> tuple[int, Units]:
    """The checked number of releases, and what they cost together, in units.

    They cost the composed epsilon at ``delta``, or the plain sums where those are no more.
    """
    if isinstance(releases, bool) or not isinstance(releases, int):
        raise ParameterTypeError(f"releases must be a whole number; got {shown_value(releases)}.")
    if not 1 <= releases <= MOST:
        raise ParameterError(f"releases ({releases!r}) must be from 1 to {MOST}.")
    given, delta = delta, as_float(delta)
    if delta is None:
        raise ParameterTypeError(f"delta must be a number; got {shown_value(given)}.")
    plain = _plain_cost(plan, releases)
    parts = releases * Fraction(plan.budget.delta)
    if not 0 < delta < 1 or (  # or NaN
        units_up(delta, DELTA_UNIT) < plain[1] and (parts > largest_sum(delta) or not parts)
    ):
        raise BudgetError(
            f"delta ({delta!r}) must be below 1 and at least {releases} x {plan.budget.delta:g}, "
            "the sum of all releases. Twice that leaves room for a smaller epsilon."
        )
    usable = float(delta) - releases * ROUNDING
    together = composed_epsilon([(reserved_law(plan.profile), releases)], max(usable, 0.0))
    if math.isinf(together) or units_up(together, EPSILON_UNIT) >= plain[0]:
        return releases, plain
    return releases, (units_up(together, EPSILON_UNIT), units_up(float(delta), DELTA_UNIT))


def _plain_cost(plan: ReservablePlan, releases: int) -> Units:
    """The plain sum of the releases' budgets, in units."""
    epsilon = units_up(plan.budget.epsilon, EPSILON_UNIT)
    return releases * epsilon, releases * max(1, units_up(plan.budget.delta, DELTA_UNIT))


def exact_price(plan: ReservablePlan, releases: int, delta: object, cost: Units) -> Exact:
    """The exact cost of a reservation of this price: the plain sum, or the composed epsilon in
    units and the delta that was asked for."""
    if cost == _plain_cost(plan, releases) and plan.budget.delta:
        epsilon = releases * Fraction(plan.budget.epsilon)
        return epsilon, releases * Fraction(plan.budget.delta)
    together, asked = exact_amounts(cost), as_float(delta)
    if asked is not None and units_up(asked, DELTA_UNIT) == cost[1]:
        return together[0], Fraction(asked)
    return together


def restate_composed(now: Totals, plain: Units, profiles: Iterable[tuple[Profile, int]]) -> Units:
    """The cost of releases that a ledger composed before there were reservations.

    Their cost was stated at the total delta, which would leave no delta. Midway between the plain
    sum of their deltas and the total, their epsilon is a little larger: the same claim, under the
    same condition (their laws and number fixed beforehand), at another point of its curve.
    """
    if now.spent_units == plain or plain[1] >= now.delta:
        return now.spent_units
    middle = (plain[1] + now.delta) // 2
    together = composed_epsilon(profiles, float(middle * DELTA_UNIT))
    if math.isinf(together) or units_up(together, EPSILON_UNIT) > now.epsilon:
        return now.spent_units
    return max(units_up(together, EPSILON_UNIT), now.spent_epsilon), middle


def profile_of(text: str) -> Profile:
    """A law from the text in its entry."""
    return tuple((e, d) for e, d in json.loads(text))


def reservation_of(entry: Entry, left: int) -> Reservation:
    """What callers see of a reservation, from its entry."""
    e, d = profile_of(entry.profile)[-1]
    return Reservation(
        reservation_id=entry.release_id,
        time=entry.time,
        releases=entry.releases or 0,
        left=left,
        epsilon=float_amount(entry.epsilon, EPSILON_UNIT),
        delta=float_amount(entry.delta, DELTA_UNIT),
        release_epsilon=e,
        release_delta=d,
        neighbours=json.loads(entry.receipt)["neighbours"],
    )
