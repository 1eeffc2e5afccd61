"""Open the file of a ledger, of earlier formats too; and what a release would cost there."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from pathlib import Path

from dpframe.accounting.compose import Profile
from dpframe.common.calls import known_arguments, shown_value
from dpframe.errors import (
    BudgetError,
    LedgerError,
    OverBudgetError,
    ParameterError,
    ParameterTypeError,
)
from dpframe.ledger import store
from dpframe.ledger.entries import (
    Charge,
    Entry,
    append_entry,
    check_history,
    entries,
    in_steps,
    newest_entry,
    protected_sentences,
    protection_words,
    receipt_steps,
    unit_of_history,
)
from dpframe.ledger.reservations import (
    MOST,
    OpenFilter,
    OpenReservation,
    ReservablePlan,
    facts_of,
    neighbours_of,
    plan_gaussian_cost,
    price_reservation,
    profile_of,
    reservable_plan,
    restate_composed,
)
from dpframe.ledger.state import LedgerState, Room, left_in, read_state, room_in
from dpframe.ledger.store import (
    DELTA_UNIT,
    EPSILON_UNIT,
    FORMAT,
    RESERVATIONS,
    Accountant,
    Spending,
    Totals,
    Units,
    damage_error,
    float_amount,
    read_totals,
    spending_of,
    units_up,
)

BUSY = 30.0
"""Seconds to wait for another process that is writing."""


class OpenedFile:
    """The file of a ledger, the totals that it was made with, and transactions on it."""

    _path: Path
    _made: Totals
    _last: int  # number of the newest entry when it was opened

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @property
    def ledger_id(self) -> str:
        """A random name that the file was given when it was made."""
        return self._made.ledger_id

    @property
    def epsilon(self) -> float:
        """Total epsilon."""
        return self._made.total[0]

    @property
    def delta(self) -> float:
        """Total delta."""
        return self._made.total[1]

    @property
    def accountant(self) -> Accountant:
        """How releases add up: "sum" or "pld"."""
        return self._made.accountant

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with store.read_transaction(self._path, BUSY) as db:
            self._check_same_file(db)
            yield db

    @contextmanager
    def _reading_state(self) -> Iterator[LedgerState]:
        with store.read_transaction(self._path, BUSY) as db:
            yield read_state(db, self._check_same_file(db))

    @contextmanager
    def _write_transaction(self) -> Iterator[sqlite3.Connection]:
        with self._checked_transaction() as (db, _):
            yield db

    @contextmanager
    def _writing_state(self) -> Iterator[tuple[sqlite3.Connection, LedgerState]]:
        """A transaction that may write, and the state that a charge is added to."""
        with self._checked_transaction() as (db, seen):
            yield db, read_state(db, seen)

    @contextmanager
    def _checked_transaction(
        self,
    ) -> Iterator[tuple[sqlite3.Connection, tuple[Totals, Entry] | None]]:
        """A transaction, and totals and last entry unless an upgrade has just changed these."""
        with store.write_transaction(self._path, BUSY) as db:
            seen = self._check_same_file(db)
            if store.file_format(db) == FORMAT:
                yield db, seen
            else:
                upgrade_file(db, self._path)
                yield db, None

    def _check_same_file(self, db: sqlite3.Connection) -> tuple[Totals, Entry]:
        """The totals and the last entry; LedgerError unless the file is the one that was opened:
        same totals, no less history."""
        now = read_totals(db)
        if now.ledger_id != self.ledger_id:
            raise LedgerError(
                f"ledger {str(self._path)!r} was replaced by another file since it was opened. "
                "Find out why before releasing anything, then open it anew."
            )
        if now.constants != self._made.constants:
            raise damage_error("its totals or accountant have changed")
        last = newest_entry(db, now)
        if last.number < self._last:
            raise damage_error("it holds less than when it was opened")
        return now, last


def upgrade_file(db: sqlite3.Connection, path: Path) -> None:
    """Bring a file to the present format, within the transaction of a write.

    The whole file is checked first, and copied to ``FILE-format-N`` beside it. Earlier releases
    without blocks keep their cost, for all blocks. LedgerError if the copy cannot be written.
    """
    check_history(db, whole=True)
    known = store.file_format(db)
    try:
        _copy(db, path, known)
    except OSError as error:
        raise LedgerError(
            f"ledger {str(path)!r} of format {known} cannot be upgraded: no copy can be written "
            f"beside it ({error.strerror}). Make room, or allow writing the folder; until then it "
            "can only be read."
        ) from error
    _upgrade_format(db, known)


def _upgrade_format(db: sqlite3.Connection, known: int) -> None:
    unit = unit_of_history(json.loads(entry.receipt) for entry in entries(db, read_totals(db)))
    if known < RESERVATIONS:
        _upgrade_first_format(db)
    else:
        store.upgrade_tables(db)
    db.execute("UPDATE budget SET protects = ?", (unit,))


def _copy(db: sqlite3.Connection, path: Path, known: int) -> None:
    """Copy the file, before the upgrade, to a new one beside it. If a file with the same bytes has
    the name of the copy, it is the copy; if another file has it, the name gets a number."""
    image = db.serialize()
    copy, number = path.with_name(f"{path.name}-format-{known}"), 1
    while copy.exists():
        if copy.is_file() and copy.read_bytes() == image:
            return
        number += 1
        copy = path.with_name(f"{path.name}-format-{known}-{number}")
    part = copy.with_name(f"{copy.name}-{uuid.uuid4().hex[:8]}")
    try:
        with part.open("xb") as file:
            file.write(image)
            file.flush()
            os.fsync(file.fileno())
        shutil.copymode(path, part)
        os.replace(part, copy)
    finally:
        part.unlink(missing_ok=True)


def _upgrade_first_format(db: sqlite3.Connection) -> None:
    """Upgrade a file of the first format, which knew no reservations.

    One more entry restates the cost of all releases that "pld" composed; later charges add up.
    """
    now = read_totals(db)
    last, plain, laws, releases = newest_entry(db, now), (0, 0), Counter[str](), 0
    if now.accountant == "pld":
        for entry in entries(db, now):
            plain = plain[0] + entry.epsilon, plain[1] + entry.delta
            laws[entry.profile] += 1
            releases += 1
    said = protected_sentences(db, now, last)
    store.upgrade_tables(db)
    if releases:
        profiles = [(profile_of(law), times) for law, times in laws.items()]
        epsilon, delta = restate_composed(now, plain, profiles)
        whole = Entry(
            release_id=uuid.uuid4().hex,
            time=datetime.now(UTC).isoformat(timespec="seconds"),
            source=f"{releases} releases with laws fixed beforehand, composed",
            epsilon=epsilon,
            delta=delta,
            spent_epsilon=epsilon,
            spent_delta=delta,
            releases=releases,
            protects=json.dumps(said),
        )
        append_entry(db, last, whole)


DAYS = {"hour": 1 / 24, "day": 1.0, "week": 7.0, "month": 365.25 / 12, "quarter": 365.25 / 4}
DAYS |= {"year": 365.25}
"""Lengths of what ``every`` can name, in days, on average."""

FARTHEST = timedelta(days=365_250)
"""Dates further away are left out."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Forecast:
    """How many more releases fit, and the day of the first that does not.

    ``reserved`` releases are paid for already. ``added_up`` more fit one by one, ``reserving`` more
    if they are reserved now (None where the ledger composes nothing); both stop at 100,000. ``out``
    and ``out_reserving`` are dates, None without ``every`` or beyond a thousand years. All these
    are for releases of any period; ``elsewhere`` is how many fit in each period that overlaps no
    period charged so far, None where no period was charged yet. ``protects`` is the unit of the
    ledger, and ``steps`` of the release lie between neighbours of that unit.
    """

    epsilon: float
    delta: float
    reserved: int
    added_up: int
    reserving: int | None
    out: date | None = None
    out_reserving: date | None = None
    elsewhere: int | None = None
    protects: str | None = None
    steps: int = 1

    def __str__(self) -> str:
        paid = f"{self.reserved} are paid for, and " if self.reserved else ""
        any_time = "" if self.elsewhere is None else " whatever period they read"
        lines = [
            f"{paid}{_count_text(self.added_up)} of ({self.epsilon:g}, {self.delta:g}) more fit "
            "one by "
            f"one{any_time}{_until(self.out)}"
        ]
        if self.reserving is not None:
            lines.append(
                f"{_count_text(self.reserving)} more fit if they are reserved now"
                f"{_until(self.out_reserving)}"
            )
        if self.elsewhere is not None:
            lines.append(
                f"{_count_text(self.elsewhere)} fit in each new period, one that overlaps no other"
            )
        if self.steps > 1:
            told = protection_words(self.protects)
            lines.append(f"each costs two steps, as the totals hold for {told}")
        return "; ".join(lines) + "."

    __repr__ = __str__


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargePreview:
    """What a charge finds in the blocks that its release reads: what is spent, left, and left
    ``after`` the charge, if the totals pay and the charge ``fits``. ``paid_by`` says which
    reservation or filter pays instead, None if none does. ``steps`` of the release lie between
    neighbours of what the ledger ``protects``."""

    spent: Spending
    left: Spending
    after: Spending
    fits: bool
    paid_by: str | None
    steps: int
    protects: str


@known_arguments
class LedgerForecasts(OpenedFile):
    """The methods of a ledger that forecast releases to come."""

    def foresee(self, charge: Charge) -> ChargePreview:
        """What a charge would do now; nothing is charged."""
        profile = charge.profile() if self._made.accountant == "pld" else ()
        with self._reading_state() as here:
            charge = charge.for_unit(here.now.protects)
            return preview_charge(here, charge, here.reservation_for(charge, profile))

    def forecast(self, plan: object, *, every: object = None) -> Forecast:
        """How many more releases of a law fit, and when the budget runs out; spends nothing.

        Parameters
        ----------
        plan
            What ``dp.explain`` and its kind return for one of the releases, or a series of
            :func:`plan_series`.
        every
            How often: "hour", "day", "week", "month", "quarter", "year" or a timedelta, the next
            release being today. The forecast has dates then, too.

        Returns
        -------
        Forecast
            Prints as a sentence; ``reserved``, ``added_up``, ``reserving``, ``out``,
            ``out_reserving`` and ``elsewhere``.

        Raises
        ------
        ParameterError, ParameterTypeError
            ``plan`` is no plan of a release, or ``every`` no length of time.
        LedgerError
            The ledger protects a unit for which the release has no price.

        Examples
        --------
        >>> import tempfile, pathlib, dpframe as dp
        >>> file = pathlib.Path(tempfile.mkdtemp(), "budget.db")
        >>> ledger = dp.Ledger(file, epsilon=3.0, delta=1e-5)
        >>> ledger.forecast(dp.explain(["origin"], epsilon=0.2, delta=1e-8, user="id"))
        15 of (0.2, 1e-08) more fit one by one.
        """
        law = reservable_plan(plan)
        profile = law.profile if self._made.accountant == "pld" else ()
        with self._reading() as db:
            here = read_state(db)
            rooms = [
                room_in(db, here.now, here.segments, None, unread)
                for unread in (None, *here.segments.tops)
            ]
        return forecast(here, rooms, law, profile, every)


def preview_charge(
    here: LedgerState, charge: Charge, paid: OpenReservation | OpenFilter | None
) -> ChargePreview:
    """What a charge would do. ``paid`` is the reservation or filter that pays for it, as it stands
    after paying; None if none pays."""
    there, cost = left_in(here.now, here.segments, charge.blocks), charge.units
    left = max(0, there[0]), max(0, there[1])
    after = left[0] - cost[0], left[1] - cost[1]
    return ChargePreview(
        spent=spending_of((here.now.epsilon - left[0], here.now.delta - left[1])),
        left=spending_of(left),
        after=spending_of((max(0, after[0]), max(0, after[1]))),
        fits=_charge_fits(here, charge),
        paid_by=None if paid is None else paid.words,
        steps=charge.steps,
        protects=protection_words(here.now.protects),
    )


def _charge_fits(here: LedgerState, charge: Charge) -> bool:
    try:
        here.plus(charge.units, charge.exact_cost, charge.blocks)
    except OverBudgetError:
        return False
    return True


def _count_text(number: int) -> str:
    return f"{number} or more" if number >= MOST else str(number)


def _until(day: date | None) -> str:
    return "" if day is None else f" (out on {day.isoformat()})"


def forecast(
    here: LedgerState, rooms: Sequence[Room], plan: ReservablePlan, profile: Profile, every: object
) -> Forecast:
    """How many more releases of ``plan`` the totals have room for. ``rooms`` starts with the room
    of any release; then for every axis comes the room of a period that nothing has read."""
    now, told = here.now, neighbours_of(plan)
    steps = receipt_steps(facts_of(plan), now.protects)
    left = left_in(now, here.segments, None)
    paying = [one for one in here.held if steps <= one.steps and one.holder is None]
    reserved = sum(one.fits(profile, plan_gaussian_cost(plan), told) for one in paying)
    added = _count_one_by_one(plan, rooms[0], steps)
    reserving = added if now.accountant == "pld" else None
    if reserving is not None and steps == 1:  # two steps multiply a composed delta
        reserving = max(added, _largest_reservation(plan, left))
    step = _release_interval(every)
    return Forecast(
        epsilon=plan.budget.epsilon,
        delta=plan.budget.delta,
        reserved=reserved,
        added_up=added,
        reserving=reserving,
        out=_first_day_out(reserved + added, step),
        out_reserving=None if reserving is None else _first_day_out(reserved + reserving, step),
        elsewhere=min((_count_one_by_one(plan, room, steps) for room in rooms[1:]), default=None),
        protects=now.protects,
        steps=steps,
    )


def _count_one_by_one(plan: ReservablePlan, room: Room, steps: int) -> int:
    """How many more fit one by one; each costs at least one unit of epsilon and one of delta."""
    epsilon = max(1, units_up(plan.budget.epsilon, EPSILON_UNIT))
    delta = max(1, units_up(plan.budget.delta, DELTA_UNIT))
    asked = Fraction(plan.budget.epsilon), Fraction(plan.budget.delta)
    return min(MOST, room.how_many(*in_steps((epsilon, delta), asked, steps)))


def _largest_reservation(plan: ReservablePlan, left: Units) -> int:
    """How many releases the largest reservation has that ``left`` pays for, if it takes all of the
    delta left."""
    delta = float_amount(left[1], DELTA_UNIT)
    low = 0
    high = min(MOST, left[1] // max(1, units_up(plan.budget.delta, DELTA_UNIT)))
    reach = 1
    while low < high:
        middle = min(high, reach) if reach else (low + high + 1) // 2
        if _reservation_fits(plan, middle, delta, left):
            low, reach = middle, 2 * reach
        else:
            high, reach = middle - 1, 0
    return low


def _reservation_fits(plan: ReservablePlan, releases: int, delta: float, left: Units) -> bool:
    """Whether a reservation of ``releases`` releases costs no more than ``left``."""
    try:
        cost = price_reservation(plan, releases, delta)[1]
    except BudgetError:  # delta as a float is below the units that are left
        return False
    return cost[0] <= left[0] and cost[1] <= left[1]


def _release_interval(every: object) -> timedelta | None:
    if every is None:
        return None
    if isinstance(every, timedelta):
        if every <= timedelta(0):
            raise ParameterError(f"every ({every!r}) must be a positive length of time.")
        return every
    if not isinstance(every, str):
        raise ParameterTypeError(
            f"every must be one of {', '.join(DAYS)} or a timedelta; got {shown_value(every)}."
        )
    if every not in DAYS:
        raise ParameterError(f"every ({every!r}) must be one of {', '.join(DAYS)}.")
    return timedelta(days=DAYS[every])


def _first_day_out(releases: int, step: timedelta | None) -> date | None:
    """The day of the first release that does not fit, if the next release is today; None without a
    ``step``, or beyond ``FARTHEST``."""
    if step is None or releases > FARTHEST / step:
        return None
    return (datetime.now() + releases * step).date()
