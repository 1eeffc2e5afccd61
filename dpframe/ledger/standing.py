"""What the next charge of a ledger is added to, and whether it fits."""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal

from dpframe.accounting.compose import Profile
from dpframe.errors import OverBudgetError
from dpframe.ledger import store
from dpframe.ledger.entries import Charge, Entry, append, damaged, entries, entry_of, newest
from dpframe.ledger.reservations import (
    Held,
    Planned,
    Reservation,
    neighbours_of,
    reserved_law,
    restated,
)
from dpframe.ledger.store import DELTA_UNIT, EPSILON_UNIT, amount
from dpframe.ledger.totals import Spending, Totals, Units, totals


@dataclass(frozen=True, slots=True, kw_only=True)
class Paid:
    """A charge that is on disk: what the totals leave, and the reservation that paid, if one did.

    ``reserved`` says that there are reservations, for this law or another.
    """

    left: Spending
    reservation: Held | None
    reserved: bool


@dataclass(frozen=True, slots=True)
class Standing:
    """A ledger's totals and last entry, and its reservations that have releases left."""

    now: Totals
    last: Entry
    held: tuple[Held, ...]

    def reservation_for(self, charge: Charge, profile: Profile) -> Held | None:
        """The oldest reservation that pays for a release."""
        for held in self.held:
            if held.pays_for(profile, charge.neighbours):
                return replace(held, left=held.left - 1)
        return None

    def with_charge(self, charge: Charge, profile: Profile) -> tuple[Entry, Held | None]:
        """The entry of one more release; OverBudgetError if neither a reservation pays for it nor
        the totals."""
        entry = entry_of(charge, profile, self.now.spent_units)
        paid = self.reservation_for(charge, profile)
        if paid is not None:
            left = self._left(paid.reservation_id, paid.left)
            return entry._replace(under=paid.reservation_id, open=left), paid
        spent = self.plus((entry.epsilon, entry.delta))
        return entry._replace(
            spent_epsilon=spent[0], spent_delta=spent[1], open=self.last.open
        ), None

    def with_reservation(self, plan: Planned, releases: int, cost: Units) -> Entry:
        """The entry of a reservation, which costs what is paid for all of its releases."""
        spent, reservation_id = self.plus(cost), uuid.uuid4().hex
        return self.last._replace(
            release_id=reservation_id,
            time=datetime.now(UTC).isoformat(timespec="seconds"),
            name=None,
            source=f"a reservation of {releases} releases",
            epsilon=cost[0],
            delta=cost[1],
            profile=json.dumps(reserved_law(plan.profile)),
            receipt=json.dumps({"neighbours": neighbours_of(plan), "request": plan.request}),
            spent_epsilon=spent[0],
            spent_delta=spent[1],
            releases=releases,
            under=None,
            open=self._left(reservation_id, releases),
        )

    def plus(self, cost: Units) -> Units:
        """Spent with one cost more; OverBudgetError if that is too much."""
        after = self.now.spent_epsilon + cost[0], self.now.spent_delta + cost[1]
        if after[0] > self.now.epsilon or after[1] > self.now.delta:
            raise OverBudgetError(_over(self.now, cost, after))
        return after

    def _left(self, reservation_id: str, left: int) -> str:
        counts = {held.reservation_id: held.left for held in self.held} | {reservation_id: left}
        return json.dumps({name: number for name, number in counts.items() if number})


def standing(db: sqlite3.Connection) -> Standing:
    """What the next charge is added to; LedgerError where the file is not as it was written."""
    now = totals(db)
    last = newest(db, now)
    left = json.loads(last.open or "{}")
    return Standing(now, last, tuple(_held(db, now, *one) for one in left.items()))


def _held(db: sqlite3.Connection, now: Totals, reservation_id: str, left: int) -> Held:
    row = db.execute(
        "SELECT number FROM charges WHERE release_id = ?", (reservation_id,)
    ).fetchone()
    entry = next(entries(db, now, *row, *row)) if row else None
    if entry is None or entry.release_id != reservation_id or not 0 < left <= (entry.releases or 0):
        raise damaged("a reservation is not what was reserved")
    return Held(
        reservation_id=reservation_id,
        releases=entry.releases or 0,
        left=left,
        profile=_profile(entry.profile),
        neighbours=json.loads(entry.receipt)["neighbours"],
    )


def _profile(text: str) -> Profile:
    return tuple((e, d) for e, d in json.loads(text))


def charged(db: sqlite3.Connection, charge: Charge, profile: Profile) -> Paid:
    """Write a charge, or raise OverBudgetError."""
    here = standing(db)
    entry, held = here.with_charge(charge, profile)
    append(db, here.last, entry)
    return Paid(left=totals(db).left, reservation=held, reserved=bool(here.held))


def reserved(db: sqlite3.Connection, plan: Planned, releases: int, cost: Units) -> Reservation:
    """Write a reservation, or raise OverBudgetError."""
    here = standing(db)
    entry = here.with_reservation(plan, releases, cost)
    append(db, here.last, entry)
    return _reservation(entry, releases)


def reservations(db: sqlite3.Connection) -> Iterator[Reservation]:
    """All that was reserved, oldest first."""
    if store.is_old(db):
        return
    here = standing(db)
    left = {held.reservation_id: held.left for held in here.held}
    numbers = db.execute(
        "SELECT number FROM charges WHERE releases > 0 "  # by their index:
        "ORDER BY +number ASC NULLS FIRST"
    ).fetchall()
    for (number,) in numbers:
        for entry in entries(db, here.now, number, number):
            if entry.profile != "[]":  # not the releases of the first format
                yield _reservation(entry, left.get(entry.release_id, 0))


def _reservation(entry: Entry, left: int) -> Reservation:
    e, d = _profile(entry.profile)[-1]
    return Reservation(
        reservation_id=entry.release_id,
        time=entry.time,
        releases=entry.releases or 0,
        left=left,
        epsilon=amount(entry.epsilon, EPSILON_UNIT),
        delta=amount(entry.delta, DELTA_UNIT),
        release_epsilon=e,
        release_delta=d,
        neighbours=json.loads(entry.receipt)["neighbours"],
    )


def upgrade(db: sqlite3.Connection) -> None:
    """Bring a file of the first format to the present one, within the transaction of a write.

    What "pld" composed becomes one entry, with all of its releases drawn; from there on, sums.
    """
    now = totals(db)
    last, plain, laws, releases = newest(db, now), (0, 0), Counter[str](), 0
    if now.accountant == "pld":
        for entry in entries(db, now):
            plain = plain[0] + entry.epsilon, plain[1] + entry.delta
            laws[entry.profile] += 1
            releases += 1
    store.upgrade(db)
    if releases:
        profiles = [(_profile(law), times) for law, times in laws.items()]
        epsilon, delta = restated(now, plain, profiles)
        whole = last._replace(
            release_id=uuid.uuid4().hex,
            time=datetime.now(UTC).isoformat(timespec="seconds"),
            name=None,
            source=f"{releases} releases with laws fixed beforehand, composed",
            epsilon=epsilon,
            delta=delta,
            profile="[]",
            receipt="{}",
            spent_epsilon=epsilon,
            spent_delta=delta,
            releases=releases,
            under=None,
            open="{}",
        )
        append(db, last, whole)


def _over(now: Totals, cost: Units, after: Units) -> str:
    lines = []
    for name, asked, unit, total, spent, would in (
        ("epsilon", cost[0], EPSILON_UNIT, now.epsilon, now.spent_epsilon, after[0]),
        ("delta", cost[1], DELTA_UNIT, now.delta, now.spent_delta, after[1]),
    ):
        if would > total:
            lines.append(
                f"{name} requested {_plain(asked, unit)}, remaining {_plain(total - spent, unit)}, "
                f"over by {_plain(would - total, unit)}"
            )
    return (
        f"the ledger does not hold enough budget: {'; '.join(lines)}. Nothing was drawn or "
        "charged. Ask for less, or replay an earlier release by its name."
    )


def _plain(units: int, unit: Decimal) -> str:
    return f"{amount(units, unit):.6g}"
