"""The state of a ledger, and the room that is left in it."""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from dpframe.accounting.compose import Amounts, Profile
from dpframe.errors import OverBudgetError
from dpframe.ledger import store
from dpframe.ledger import store as schema
from dpframe.ledger.blocks import FARTHEST, Blocks, Segments, block_text, fullest_moment, tops_of
from dpframe.ledger.entries import (
    Charge,
    Entry,
    append_entry,
    cost_of_steps,
    entries,
    entry_of,
    exact_cost_of,
    in_steps,
    neighbour_sentences,
    newest_entry,
    protected_sentences,
    protection_words,
    receipt_steps,
    unit_of_receipt,
)
from dpframe.ledger.reservations import (
    Filter,
    OpenFilter,
    OpenReservation,
    ReservablePlan,
    Reservation,
    facts_of,
    filter_of,
    filter_text,
    is_filter,
    neighbours_of,
    open_filter_of,
    profile_of,
    reservation_of,
    reserved_law,
)
from dpframe.ledger.store import (
    DELTA_UNIT,
    EPSILON_UNIT,
    Exact,
    Spending,
    Totals,
    Units,
    damage_error,
    exact_amounts,
    float_amount,
    largest_sum,
    read_totals,
    spending_of,
)


def left_in(now: Totals, segments: Segments, blocks: Blocks | None) -> Units:
    """What is left, in units, for a release of these blocks; without blocks, for any release. The
    units can be below 0, as costs are rounded up."""
    left = now.epsilon - now.spent_epsilon, now.delta - now.spent_delta
    if blocks is None:
        return left
    there, top = segments.fullest(blocks), segments.top(blocks.axis)
    return left[0] + top[0] - there[0], left[1] + top[1] - there[1]


def left_in_unread(now: Totals, segments: Segments, axis: str) -> Units:
    """What is left for a period of an axis that no block charged so far touches."""
    left, top = left_in(now, segments, None), segments.top(axis)
    return left[0] + top[0], left[1] + top[1]


def spent_exactly(
    db: sqlite3.Connection | None, now: Totals, blocks: Blocks | None, unread: str | None = None
) -> Exact:
    """The exact sum of costs as they were asked for: of all charges without blocks, and for every
    axis of the most at any moment. On the axis of ``blocks`` only moments in these blocks count.
    Charges to blocks of the axis ``unread`` are left out."""
    if db is None:
        return exact_amounts(now.spent_units)
    total, axes = exact_amounts((0, 0)), dict[str, list[tuple[int, int, Exact]]]()
    for entry in entries(db, now):
        restated = entry.releases is not None and entry.profile == "[]"
        if now.accountant == "pld" and (entry.open is None or restated):
            total = exact_amounts(entry.sums)  # in the first format, which composed all up to here
        elif entry.under is None and entry.axis is None:
            total = _sum_costs(total, exact_cost_of(entry))
        elif entry.under is None and entry.axis != unread:
            first, last = int(entry.first or 0), int(entry.last or 0)
            if blocks is not None and blocks.axis == entry.axis:
                first, last = max(first, blocks.first), min(last, blocks.last)
            if first < last:
                axes.setdefault(str(entry.axis), []).append((first, last, exact_cost_of(entry)))
    for charges in axes.values():
        epsilon, delta = (
            fullest_moment((first, last, cost[which]) for first, last, cost in charges)
            for which in (0, 1)
        )
        total = _sum_costs(total, (epsilon, delta))
    return total


def _sum_costs(one: Exact, other: Exact) -> Exact:
    return one[0] + other[0], one[1] + other[1]


@dataclass(frozen=True, slots=True)
class Room:
    """What a release may cost. A cost fits if the ``units`` that are left hold it, or if the exact
    sum ``spent`` and the exact cost fit the ``total`` (docs/decisions/0036)."""

    units: Units
    spent: Exact
    total: tuple[float, float]

    def fits(self, cost: Units, asked: Exact) -> tuple[bool, bool]:
        """Whether epsilon fits, and whether delta fits."""
        epsilon, delta = (
            cost[which] <= self.units[which]
            or self.spent[which] + asked[which] <= largest_sum(self.total[which])
            for which in (0, 1)
        )
        return epsilon, delta

    def how_many(self, cost: Units, asked: Exact) -> int:
        """How many releases of this cost fit."""
        return max(0, min(self._times(cost[which], asked[which], which) for which in (0, 1)))

    def _times(self, cost: int, asked: Fraction, which: int) -> int:
        whole = self.units[which] // cost
        if not asked:
            return whole
        return max(whole, int((largest_sum(self.total[which]) - self.spent[which]) // asked))

    def remainder(self, which: int) -> Fraction:
        """What the exact sum leaves of the total."""
        return max(Fraction(0), Fraction(self.total[which]) - self.spent[which])


def room_in(
    db: sqlite3.Connection | None,
    now: Totals,
    segments: Segments,
    blocks: Blocks | None,
    unread: str | None = None,
) -> Room:
    """The room of a release of these blocks; without blocks, of any release; with ``unread``, of a
    period of that axis to which nothing was charged."""
    left = left_in_unread(now, segments, unread) if unread else left_in(now, segments, blocks)
    return Room(left, spent_exactly(db, now, blocks, unread), now.total)


def check_fits(
    db: sqlite3.Connection | None,
    now: Totals,
    segments: Segments,
    cost: Units,
    asked: Exact,
    blocks: Blocks | None,
) -> None:
    """Raise OverBudgetError if a cost does not fit. Its message names the fullest block, and says
    what is left there and for a new period. The exact sum is computed only if units do not fit and
    rounding could be why."""
    left = left_in(now, segments, blocks)
    above = max(cost[0] - left[0], cost[1] - left[1])
    if above <= 0:
        return
    spent = now.epsilon - left[0], now.delta - left[1]
    room = Room(left, exact_amounts(spent), now.total)
    if above <= _rounding_units(db):
        room = room_in(db, now, segments, blocks)
    lines = []
    for which, (name, unit) in enumerate((("epsilon", EPSILON_UNIT), ("delta", DELTA_UNIT))):
        if not room.fits(cost, asked)[which]:
            there = room.remainder(which)
            over = _as_decimal(asked[which]) - _as_decimal(there)
            if over <= 0:  # their decimals do not differ
                over = asked[which] - there
            lines.append(
                f"{name} requested {float(asked[which]):.6g}, "
                f"remaining {float(there):.6g}{_fullest_block_text(now, segments, blocks, which)}, "
                f"over by {float(over):.6g}"
                f"{_unread_room_text(now, segments, blocks, which, unit)}"
            )
    if lines:
        raise OverBudgetError(
            f"the ledger does not hold enough budget: {'; '.join(lines)}. Nothing was drawn or "
            "charged. Ask for less, or replay an earlier release by its name."
        )


def _rounding_units(db: sqlite3.Connection | None) -> int:
    """The most units that rounding can have added: two for each entry and for the cost, which can
    be for two steps, and one for the total."""
    last = 0
    if db is not None:
        (last,) = db.execute("SELECT max(number) FROM charges").fetchone()
    return 2 * (last or 0) + 3


def _as_decimal(number: Fraction) -> Fraction:
    """The shortest decimal of the nearest float, which messages show."""
    return Fraction(repr(float(number)))


def _fullest_block_text(now: Totals, segments: Segments, blocks: Blocks | None, which: int) -> str:
    """Words for the fullest block of every axis that the release reads."""
    axes = segments.tops if blocks is None else (blocks.axis,)
    full = []
    for axis in axes:
        first, last = (blocks.first, blocks.last) if blocks else (-FARTHEST, FARTHEST)
        found = segments.stretch(axis, first, last, which)
        full.append(f"{axis}: {block_text(*found)}")
    if not full:
        return ""
    return f" in the fullest block ({'; '.join(full)})"


def _unread_room_text(
    now: Totals, segments: Segments, blocks: Blocks | None, which: int, unit: Decimal
) -> str:
    """Words for what is left for a period that nothing was charged to; no words unless that is more
    than what is left for the release."""
    axes = list(segments.tops) if blocks is None else [blocks.axis]
    most = max((left_in_unread(now, segments, axis)[which] for axis in axes), default=0)
    if most <= max(0, left_in(now, segments, blocks)[which]):
        return ""
    return f" (a period that nothing was charged to has {_units_text(most, unit)} left)"


def _units_text(units: int, unit: Decimal) -> str:
    return f"{float_amount(units, unit):.6g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PaidCharge:
    """A charge that is on disk: what the totals leave, and the reservation or filter that paid.

    ``there`` is what is left in the blocks that the release reads, which can be more than what is
    left for any release. ``reservation`` is None if the totals paid. ``reserved`` says whether
    there were open reservations or filters, for this law or another. ``resumed`` is id and time of
    a charge that was made before, for a draw that was cut off.
    """

    left: Spending
    there: Spending
    reservation: OpenReservation | OpenFilter | None
    reserved: bool
    resumed: tuple[str, str] | None = None
    protects: str | None = None
    """The unit of the ledger, where the release protects another one."""
    cost: Exact | None = None
    """What was charged, if that is more than the release's own epsilon and delta."""

    @property
    def protection(self) -> str:
        """What the ledger protects, in words."""
        return protection_words(self.protects)


@dataclass(frozen=True, slots=True)
class LedgerState:
    """A ledger's totals and last entry, its reservations and filters that are not used up, what its
    blocks have spent, and what its releases protect."""

    now: Totals
    last: Entry
    held: tuple[OpenReservation | OpenFilter, ...]
    segments: Segments = field(default_factory=lambda: Segments(None, {}))
    protects: tuple[str, ...] = ()
    db: sqlite3.Connection | None = None

    def reservation_for(
        self, charge: Charge, profile: Profile
    ) -> OpenReservation | OpenFilter | None:
        """The oldest reservation that pays for a release, else the oldest filter that does, as it
        stands after paying; None if none pays."""
        for held in sorted(self.held, key=lambda one: isinstance(one, OpenFilter)):
            if charge.steps > held.steps or charge.holder != held.holder:
                continue
            after = held.pay(profile, charge.told, charge.neighbours)
            if after is not None:
                return after
        return None

    def with_charge(
        self, charge: Charge, profile: Profile
    ) -> tuple[Entry, OpenReservation | OpenFilter | None]:
        """The entry of one more release; OverBudgetError if neither a reservation pays for it nor
        the totals."""
        charge = charge.for_unit(self.now.protects)
        entry = self._with_axes(entry_of(charge, profile, self.now.spent_units))
        paid = self.reservation_for(charge, profile)
        if paid is not None:
            left = self._amounts_left(paid.reservation_id, paid.left)
            return entry._replace(under=paid.reservation_id, open=left), paid
        if charge.holder is not None:
            raise OverBudgetError(
                f"the total of {charge.holder!r} is used up, or was reserved for another law. "
                "Declare it anew under another name."
            )
        spent = self.plus(entry.cost, charge.exact_cost, charge.blocks)
        return entry._replace(
            spent_epsilon=spent[0], spent_delta=spent[1], open=self.last.open or "{}"
        ), None

    def with_reservation(
        self,
        plan: ReservablePlan,
        releases: int,
        cost: Units,
        asked: Exact | None = None,
        said: Mapping[str, Any] = MappingProxyType({}),
    ) -> Entry:
        """The entry of a reservation, which costs what is paid for all of its releases. ``said`` is
        of the series that it is for."""
        return self._paid_before(
            plan,
            cost,
            asked or exact_amounts(cost),
            releases=releases,
            source=f"a reservation of {releases} releases",
            profile=json.dumps(reserved_law(plan.profile)),
            left=releases,
            said=said,
        )

    def with_filter(
        self, plan: ReservablePlan, asked: Exact, cost: Units, amounts: Amounts
    ) -> Entry:
        """The entry of a filter, which costs as much as all releases together that use it up may
        cost."""
        return self._paid_before(
            plan,
            cost,
            asked,
            releases=1,
            source="a filter",
            profile=filter_text(float(asked[0]), amounts),
            left=amounts,
        )

    def _paid_before(
        self,
        plan: ReservablePlan,
        cost: Units,
        asked: Exact,
        *,
        releases: int,
        source: str,
        profile: str,
        left: int | Amounts,
        said: Mapping[str, Any] = MappingProxyType({}),
    ) -> Entry:
        receipt: dict[str, Any] = {"neighbours": neighbours_of(plan), "request": plan.request}
        receipt |= said
        receipt["cost"] = list(map(str, asked))
        steps = receipt_steps(facts_of(plan), self.now.protects)
        if steps > 1:
            receipt["steps"] = steps
        cost, asked = in_steps(cost, asked, steps)
        spent, reservation_id = self.plus(cost, asked), uuid.uuid4().hex
        entry = Entry(
            release_id=reservation_id,
            time=datetime.now(UTC).isoformat(timespec="seconds"),
            source=source,
            epsilon=cost[0],
            delta=cost[1],
            profile=profile,
            receipt=json.dumps(receipt),
            spent_epsilon=spent[0],
            spent_delta=spent[1],
            releases=releases,
            open=self._amounts_left(reservation_id, left),
        )
        return self._with_axes(entry)

    def plus(self, cost: Units, asked: Exact, blocks: Blocks | None = None) -> Units:
        """What is spent with one more cost; OverBudgetError if that is too much.

        Without blocks the cost is added to all that is spent. With blocks it is added to the most
        that these blocks have spent: only the rise of the fullest block of their axis counts.
        """
        rise = cost
        if blocks is not None:
            there, top = self.segments.fullest(blocks), self.segments.top(blocks.axis)
            rise = (
                max(0, there[0] + cost[0] - top[0]),
                max(0, there[1] + cost[1] - top[1]),
            )
        check_fits(self.db, self.now, self.segments, cost, asked, blocks)
        return self.now.spent_epsilon + rise[0], self.now.spent_delta + rise[1]

    def left_in(self, blocks: Blocks | None) -> Spending:
        """What is left for a release of these blocks."""
        left = left_in(self.now, self.segments, blocks)
        return spending_of((max(0, left[0]), max(0, left[1])))

    def _with_axes(self, entry: Entry) -> Entry:
        """The entry with what every axis has spent so far, and with all that releases protect, this
        one included."""
        known = dict.fromkeys((*self.protects, *neighbour_sentences(entry)))
        return entry._replace(tops=json.dumps(self.segments.tops), protects=json.dumps(list(known)))

    def _amounts_left(self, reservation_id: str, left: int | Amounts) -> str:
        counts: dict[str, int | Amounts] = {h.reservation_id: h.left for h in self.held}
        counts[reservation_id] = left
        return json.dumps({name: number for name, number in counts.items() if number})


def read_state(db: sqlite3.Connection, seen: tuple[Totals, Entry] | None = None) -> LedgerState:
    """The state that the next charge is added to; LedgerError if the file was changed. ``seen`` are
    totals and last entry, if this transaction has read them."""
    now = read_totals(db) if seen is None else seen[0]
    last = newest_entry(db, now) if seen is None else seen[1]
    left = json.loads(last.open or "{}")
    return LedgerState(
        now.with_spending(last.sums),  # can be some units above the totals
        last,
        tuple(_read_reservation(db, now, *one) for one in left.items()),
        Segments(db if store.file_format(db) >= schema.BLOCKS else None, tops_of(last.tops)),
        tuple(protected_sentences(db, now, last)),
        db,
    )


def _read_reservation(
    db: sqlite3.Connection, now: Totals, reservation_id: str, left: int | list[int]
) -> OpenReservation | OpenFilter:
    row = db.execute(
        "SELECT number FROM charges WHERE release_id = ?", (reservation_id,)
    ).fetchone()
    entry = next(entries(db, now, *row, *row)) if row else None
    if entry is None or entry.release_id != reservation_id:
        raise damage_error("a reservation is not what was reserved")
    said = json.loads(entry.receipt)
    neighbours, steps = said["neighbours"], said.get("steps", 1)
    if is_filter(entry.profile):
        return open_filter_of(reservation_id, entry.profile, left, neighbours, steps)
    if not isinstance(left, int) or not 0 < left <= (entry.releases or 0):
        raise damage_error("a reservation is not what was reserved")
    return OpenReservation(
        reservation_id=reservation_id,
        releases=entry.releases or 0,
        left=left,
        profile=profile_of(entry.profile),
        neighbours=neighbours,
        steps=steps,
        holder=said.get("holder"),
    )


def write_charge(
    db: sqlite3.Connection, charge: Charge, profile: Profile, here: LedgerState | None = None
) -> PaidCharge:
    """Write a charge, or raise OverBudgetError. ``here`` is the state, if this transaction has read
    it."""
    here = read_state(db) if here is None else here
    entry, held = here.with_charge(charge, profile)
    if charge.blocks is not None and held is None:
        entry = entry._replace(tops=here.segments.add(charge.blocks, entry.cost))
    unit = _append_to_history(db, here, entry, charge.unit)
    after = replace(here, now=here.now.with_spending(entry.sums))
    return PaidCharge(
        left=after.now.remainder,
        there=after.left_in(charge.blocks),
        reservation=held,
        reserved=any(held.holder == charge.holder for held in here.held),
        protects=None if unit == charge.unit else unit,
        cost=cost_of_steps(entry),
    )


def _append_to_history(db: sqlite3.Connection, here: LedgerState, entry: Entry, own: str) -> str:
    """Write an entry, and return what the ledger protects: ``own``, the unit of the entry's
    release, if nothing has fixed a unit before."""
    append_entry(db, here.last, entry)
    if here.now.protects is None:
        db.execute("UPDATE budget SET protects = ?", (own,))
    return here.now.protects or own


def write_reservation(
    db: sqlite3.Connection,
    plan: ReservablePlan,
    releases: int,
    cost: Units,
    asked: Exact,
    said: Mapping[str, Any] = MappingProxyType({}),
) -> Reservation:
    """Write a reservation, or raise OverBudgetError."""
    here = read_state(db)
    entry = here.with_reservation(plan, releases, cost, asked, said)
    _append_to_history(db, here, entry, unit_of_receipt(facts_of(plan)))
    return reservation_of(entry, releases)


def write_filter(
    db: sqlite3.Connection, plan: ReservablePlan, asked: Exact, cost: Units, amounts: Amounts
) -> Filter:
    """Write a filter, or raise OverBudgetError."""
    here = read_state(db)
    entry = here.with_filter(plan, asked, cost, amounts)
    _append_to_history(db, here, entry, unit_of_receipt(facts_of(plan)))
    return filter_of(entry, amounts, 0)
