"""Privacy filters: amounts that a ledger has paid for, which Gaussian releases of any cost use up.

Whoever opens a filter need not know how many releases come, nor with which budgets: each release
may be chosen after looking at earlier answers (:mod:`dpframe.accounting.gaussian_filter`). To the
ledger a filter, like a reservation, is one interactive mechanism that costs its (epsilon, delta).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from dpframe.accounting import gaussian_filter
from dpframe.accounting.compose import Profile
from dpframe.accounting.gaussian_filter import Amounts
from dpframe.accounting.normal_noise import GaussianLeakage
from dpframe.errors import BudgetError, ParameterError
from dpframe.ledger.charge import without_period
from dpframe.ledger.entries import Entry
from dpframe.ledger.reservations import ReservablePlan
from dpframe.ledger.store import DELTA_UNIT, EPSILON_UNIT, damage_error, float_amount, units_up
from dpframe.ledger.totals import Units, checked_total


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
