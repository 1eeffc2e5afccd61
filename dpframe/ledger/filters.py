"""Privacy filters: amounts that a ledger has paid for, which Gaussian releases use up in any way.

Who opens one need not know how many releases come, nor with which budgets: each may be chosen after
looking at the answers before (:mod:`dpframe.accounting.filtering`). To the ledger a filter is one
interactive mechanism of its (epsilon, delta), as a reservation is, and costs that.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from dpframe.accounting import filtering
from dpframe.accounting.compose import Profile
from dpframe.accounting.filtering import Amounts
from dpframe.accounting.normal import Told
from dpframe.errors import BudgetError, ParameterError
from dpframe.ledger.entries import Entry
from dpframe.ledger.protection import without_period
from dpframe.ledger.reservations import Planned
from dpframe.ledger.store import DELTA_UNIT, EPSILON_UNIT, amount, damaged, units_up
from dpframe.ledger.totals import Units, checked_total


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Amounts that a ledger has paid for, and the part of them that is left.

    ``epsilon`` and ``delta`` are what all releases that use it up cost together, ``releases`` how
    many did so far. ``left`` is the part from 0 to 1 that is left of the sum of squares, which is
    what Gaussian noise uses up: a release of twice the noise takes a quarter. ``ends_left`` is that
    of what the ends of noise tables take, which follows the deltas of the releases.
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
class HeldFilter:
    """A filter, what is left of it, and for what neighbours."""

    reservation_id: str
    epsilon: float
    whole: Amounts
    left: Amounts
    neighbours: str
    steps: int = 1

    def after(
        self, profile: Profile, told: Callable[[], Told | None], neighbours: str | None
    ) -> HeldFilter | None:
        """What it is after a release that it pays for; None if it does not."""
        if without_period(neighbours) != self.neighbours:
            return None
        said = told()
        left = None if said is None else filtering.rest(self.left, self._used(said))
        return None if left is None else replace(self, left=left)

    def fits(self, profile: Profile, told: Told | None, neighbours: str) -> int:
        """How many such releases it pays for."""
        if told is None or without_period(neighbours) != self.neighbours:
            return 0
        return filtering.how_many(self.left, self._used(told))

    def _used(self, told: Told) -> Amounts:
        return filtering.uses(told, self.epsilon)

    @property
    def remaining(self) -> Amounts:
        """As entries have it."""
        return self.left

    @property
    def words(self) -> str:
        """For a receipt."""
        return f"a filter, of which {100 * self.part:.3g} % of the squares are left"

    @property
    def facts(self) -> dict[str, Any]:
        return {"id": self.reservation_id, "filter": True, "left": self.part}

    @property
    def part(self) -> float:
        """Of the sum of squares, what is left, rounded down."""
        return self.left[0] * 10**6 // self.whole[0] / 1e6

    @property
    def ends(self) -> float:
        """Of what the ends of tables take, what is left, rounded down."""
        return self.left[1] * 10**6 // self.whole[1] / 1e6


def priced(epsilon: object, delta: object) -> tuple[tuple[float, float], Units, Amounts]:
    """What a filter costs, also in units, and what it holds; BudgetError if that is nothing."""
    e, d = checked_total(epsilon, delta)
    if not filtering.SMALLEST <= e <= filtering.LARGEST:
        raise BudgetError(
            f"epsilon ({epsilon!r}) of a filter must be from {filtering.SMALLEST:g} to "
            f"{filtering.LARGEST:g}."
        )
    amounts = filtering.amounts_of(e, d)
    if not all(amounts):
        raise BudgetError(f"delta ({delta!r}) of a filter is too small to hold any release.")
    return (e, d), (units_up(e, EPSILON_UNIT), units_up(d, DELTA_UNIT)), amounts


def checked(
    plan: Planned, told: Told | None, epsilon: float, delta: float, amounts: Amounts
) -> None:
    """That a filter holds one release of this plan at least."""
    if told is None:
        raise ParameterError(
            "a filter pays for releases with mechanism='offline-gaussian' only, whose cost is a "
            "sum of squares; this plan has other noise. Explain one with that mechanism, or "
            "reserve a number of releases of this law."
        )
    if filtering.rest(amounts, filtering.uses(told, epsilon)) is None:
        best, most = filtering.best_below(told, epsilon, delta)
        instead = (
            f"one of epsilon {best:g} holds {most}, for at a larger epsilon the rounding of 64-bit "
            "tables counts for more"
            if most
            else "give it more, or releases less; about half of the delta of a release is taken "
            "from a quarter of that of the filter"
        )
        raise BudgetError(
            f"the filter would not hold a single release of ({plan.budget.epsilon:g}, "
            f"{plan.budget.delta:g}): {instead}."
        )


def text_of(epsilon: float, amounts: Amounts) -> str:
    """What an entry keeps in the place of a law."""
    return json.dumps({"filter": list(amounts), "epsilon": epsilon})


def is_filter(profile: str) -> bool:
    """Whether an entry is of a filter."""
    return profile.startswith("{")


def held_filter(
    reservation_id: str, profile: str, left: object, neighbours: str, steps: int = 1
) -> HeldFilter:
    """A filter as an entry has it."""
    said = json.loads(profile)
    whole = _amounts(said["filter"])
    there = _amounts(left)
    if not all(0 <= have <= of for have, of in zip(there, whole, strict=True)):
        raise damaged("a filter holds more than it was opened with")
    return HeldFilter(
        reservation_id=reservation_id,
        epsilon=float(said["epsilon"]),
        whole=whole,
        left=there,
        neighbours=neighbours,
        steps=steps,
    )


def _amounts(value: object) -> Amounts:
    if not isinstance(value, list) or len(value) != 3 or not all(isinstance(n, int) for n in value):
        raise damaged("the amounts of a filter are no numbers")
    return value[0], value[1], value[2]


def filter_of(entry: Entry, left: Amounts, drawn: int) -> Filter:
    """A filter as its entry has it."""
    neighbours = json.loads(entry.receipt)["neighbours"]
    held = held_filter(entry.release_id, entry.profile, list(left), neighbours)
    return Filter(
        filter_id=entry.release_id,
        time=entry.time,
        releases=drawn,
        left=held.part,
        ends_left=held.ends,
        epsilon=amount(entry.epsilon, EPSILON_UNIT),
        delta=amount(entry.delta, DELTA_UNIT),
        neighbours=neighbours,
    )
