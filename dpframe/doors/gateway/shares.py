"""Shares of a budget, and the folder in which a gateway keeps its ledgers."""

from __future__ import annotations

import copy
import fcntl
import json
import math
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

from dpframe.common.files import replace_file
from dpframe.doors.gateway.policy import Analyst, DataSet
from dpframe.errors import DpframeError, LedgerError, OverBudgetError, SourceError
from dpframe.ledger.book import Ledger
from dpframe.ledger.entries import Charge, receipt_facts
from dpframe.ledger.forecast import ChargePreview
from dpframe.ledger.state import LedgerState, PaidCharge, write_charge
from dpframe.ledger.store import (
    DELTA_UNIT,
    EPSILON_UNIT,
    Spending,
    float_amount,
    read_totals,
    spending_of,
    units_up,
)
from dpframe.ledger.unfinished_draws import ResumingLedger

Interval = tuple[int, int, int, int]
"""First and last second of a period, and its cost in units."""


@dataclass(slots=True)
class ShareSpending:
    """What a holder of a share has spent: epsilon and delta in units, by axis of periods.

    As in a ledger, charges of disjoint periods do not add up: the fullest moment of an axis counts.
    """

    all_data: list[int] = field(default_factory=lambda: [0, 0])
    periods: dict[str, list[Interval]] = field(default_factory=dict)
    charges: int = 0

    def add(
        self, cost: tuple[int, int], axis: str | None, first: int | None, last: int | None
    ) -> None:
        """Add a charge."""
        self.charges += 1
        if axis is None or first is None or last is None:
            self.all_data[0] += cost[0]
            self.all_data[1] += cost[1]
        else:
            self.periods.setdefault(axis, []).append((first, last, *cost))

    def units(self) -> tuple[int, int]:
        """What is spent at the fullest moment of each axis, with what all moments share."""
        tops = [_fullest(charges) for charges in self.periods.values()]
        return (
            self.all_data[0] + sum(top[0] for top in tops),
            self.all_data[1] + sum(top[1] for top in tops),
        )

    def with_charge(
        self, cost: tuple[int, int], axis: str | None, first: int | None, last: int | None
    ) -> tuple[int, int]:
        """What would be spent with one more charge, in units."""
        if axis is None or first is None or last is None:
            now = self.units()
            return now[0] + cost[0], now[1] + cost[1]
        more = ShareSpending(
            [*self.all_data], {**self.periods, axis: [*self.periods.get(axis, ())]}
        )
        more.add(cost, axis, first, last)
        return more.units()


def _fullest(charges: Sequence[Interval]) -> tuple[int, int]:
    """The most epsilon and the most delta that charges share at a moment."""
    best, now = [0, 0], [0, 0]
    steps: dict[int, list[int]] = {}
    for first, last, epsilon, delta in charges:
        for moment, sign in ((first, 1), (last, -1)):
            step = steps.setdefault(moment, [0, 0])
            step[0] += sign * epsilon
            step[1] += sign * delta
    for moment in sorted(steps):
        for i in (0, 1):
            now[i] += steps[moment][i]
            best[i] = max(best[i], now[i])
    return best[0], best[1]


class Room(NamedTuple):
    """What a share has spent, has left, and would have left after a charge, if that fits."""

    of: str
    spent: Spending
    left: Spending
    after: Spending
    fits: bool


class _ChargesShares(Ledger):
    """A ledger whose charges must fit shares, too, in the same transaction as the total."""

    analyst: Analyst
    data: DataSet
    shares: Shares

    def charge(self, charge: Charge) -> PaidCharge:
        profile = self._law(charge)
        with self._writing_state() as (db, here):
            self.shares.check(db, here, self, charge, profile)
            return write_charge(db, charge, profile, here)


class PromptLedger(ResumingLedger):
    """A data set's ledger for one release, which is charged before rows are read, not between
    counting and drawing. The entry has what was asked.

    What budgets show then tells nothing of rows, not even how long they took. So a question that
    fails stays charged. A charge whose process died before the result was stored, or whose counting
    failed, pays for the same question's next draw, whoever asks
    (:class:`~dpframe.ledger.unfinished_draws.ResumingLedger`).
    """

    shares: Shares
    asked: Mapping[str, Any]
    is_charged: bool = False
    """Whether rows may have been read."""
    _paid: PaidCharge | None = None

    @classmethod
    def of(cls, ledger: Ledger, shares: Shares, asked: Mapping[str, Any]) -> Self:
        """A ledger for one question, ``asked``. Reads nothing."""
        view = cls.__new__(cls)
        view.__dict__.update(copy.copy(ledger).__dict__)
        view.shares, view.asked = shares, asked
        return view

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """Allow one draw at a time; what :meth:`check` charged is drawn here."""
        here = self._here
        with self.shares.turn, super().drawing():
            self._here = here
            yield

    def check(self, charge: Charge) -> None:
        """Charge: a release checks its cost before it reads rows."""
        with self.shares.turn, super().drawing():
            self._paid = super().charge(self._with_question(charge))
            self.is_charged = True
            here, self._here = self._here, None  # its file stays until the result is stored
        self._here = here

    def charge(self, charge: Charge) -> PaidCharge:
        """What :meth:`check` charged."""
        paid, self._paid = self._paid, None
        assert paid is not None
        return paid

    def _with_question(self, charge: Charge) -> Charge:
        facts = {**receipt_facts(charge.receipt), **self._question_facts()}
        return replace(charge, receipt=json.dumps(facts))

    def _question_facts(self) -> dict[str, Any]:
        """What the entry has beside the facts of the receipt."""
        return {"asked": self.asked}


class SharedLedger(PromptLedger, _ChargesShares):
    """A data set's ledger in the hands of one analyst: a charge must fit the shares, too.

    A share, the share of the group and the total hold in one transaction. The entry has the
    analyst. Shares are caps on plain sums of epsilon and of the delta that goes with it.
    """

    outlook: list[dict[str, Any]]
    """What the charge that was foreseen leaves of each share and of the total, in epsilon, and
    whether it fits."""

    def of_analyst(self, analyst: Analyst, data: DataSet) -> Self:
        """The ledger, after it was told whose it is."""
        self.analyst, self.data = analyst, data
        return self

    def foresee(self, charge: Charge) -> ChargePreview:
        """What a charge finds in the share or the total that it leaves least of, and whether it
        fits all; ``outlook`` has each."""
        seen = super().foresee(charge)
        with self._reading() as db:
            rooms = self.shares.rooms(db, self, charge.for_unit(read_totals(db).protects))
        after = min(self.left.epsilon, seen.after.epsilon)
        total = {"of": "the total", "after": after, "fits": seen.fits}
        self.outlook = [{"of": r.of, "after": r.after.epsilon, "fits": r.fits} for r in rooms]
        self.outlook.append(total)
        least = min(rooms, key=lambda room: room.after.epsilon)
        if charge.blocks is None and least.after.epsilon < after:
            seen = replace(seen, spent=least.spent, left=least.left, after=least.after)
        return replace(seen, fits=all(row["fits"] for row in self.outlook))

    def _question_facts(self) -> dict[str, Any]:
        group = {} if self.analyst.group is None else {"group": self.analyst.group}
        return {**super()._question_facts(), "analyst": self.analyst.name, **group}


def finish_draws(ledger: Ledger) -> None:
    """Store what a dead process has drawn and not stored."""
    with ResumingLedger(ledger.path).drawing():
        pass


class Shares:
    """What each holder has spent of a data set, read from the entries of its ledger.

    Whoever has ``turn`` draws: threads that wait for the lock of a file ask for it again and again.
    """

    def __init__(self) -> None:
        self.turn = threading.Lock()
        self._lock = threading.Lock()
        self._read = 0
        self._spent: dict[str, ShareSpending] = {}

    def check(
        self, db: Any, here: LedgerState, ledger: _ChargesShares, charge: Charge, profile: Any
    ) -> None:
        """Raise OverBudgetError if a charge fits the total and not the shares; or not the total."""
        entry, held = here.with_charge(charge, profile)
        if held is not None:
            return
        analyst, data = ledger.analyst, ledger.data
        cost = (entry.epsilon, entry.delta)
        with self._lock:
            self._refresh(db)
            for holder, share, words in holders(analyst, data):
                known = self._spent.get(holder, ShareSpending())
                after = known.with_charge(cost, entry.axis, entry.first, entry.last)
                if not _fits_share(after, share, data, known.charges + 1):
                    left = max(0.0, share - float_amount(known.units()[0], EPSILON_UNIT))
                    raise OverBudgetError(
                        f"{words} of {data.name!r} has epsilon {left:.4g} of {share:g} left. Ask "
                        "for less, or ask the owner."
                    )

    def rooms(self, db: Any, ledger: SharedLedger, charge: Charge) -> list[Room]:
        """What each share has, and would have after a charge."""
        blocks, rooms, data = charge.blocks, [], ledger.data
        axis, first, last = (
            (None,) * 3 if blocks is None else (blocks.axis, blocks.first, blocks.last)
        )
        with self._lock:
            self._refresh(db)
            for holder, share, words in holders(ledger.analyst, data):
                known = self._spent.get(holder, ShareSpending())
                units = known.units(), known.with_charge(charge.units, axis, first, last)
                room = (
                    units_up(share, EPSILON_UNIT),
                    units_up(data.share_of_delta(share), DELTA_UNIT),
                )
                left, after = (
                    spending_of((max(0, room[0] - one[0]), max(0, room[1] - one[1])))
                    for one in units
                )
                fits = _fits_share(units[1], share, data, known.charges + 1)
                rooms.append(Room(words, spending_of(units[0]), left, after, fits))
        return rooms

    def spending(self, db: Any, holder: str) -> tuple[float, float]:
        """What a holder has spent: epsilon and delta."""
        with self._lock:
            self._refresh(db)
            epsilon, delta = self._spent.get(holder, ShareSpending()).units()
        return float_amount(epsilon, EPSILON_UNIT), float_amount(delta, DELTA_UNIT)

    def _refresh(self, db: Any) -> None:
        rows = db.execute(
            "SELECT number, epsilon, delta, under, axis, first, last, "
            "json_extract(receipt, '$.analyst'), json_extract(receipt, '$.group') "
            "FROM charges WHERE number > ? ORDER BY number ASC NULLS FIRST",
            (self._read,),
        ).fetchall()
        for number, epsilon, delta, under, axis, first, last, analyst, group in rows:
            self._read = number
            for holder in [f"analyst {analyst}"] + [f"group {group}"] * (group is not None):
                if analyst is not None and under is None:
                    spent = self._spent.setdefault(holder, ShareSpending())
                    spent.add((epsilon, delta), axis, first, last)


def holders(analyst: Analyst, data: DataSet) -> list[tuple[str, float, str]]:
    """The shares that a charge must fit: whose, how much epsilon, and words for messages."""
    out = []
    if data.name in analyst.shares:
        out.append((f"analyst {analyst.name}", analyst.shares[data.name], "your share"))
    if data.name in analyst.group_shares:
        words = f"the share of group {analyst.group!r}"
        out.append((f"group {analyst.group}", analyst.group_shares[data.name], words))
    return out or [(f"analyst {analyst.name}", 0.0, "your share")]  # of an owner who has none


def _fits_share(spent: tuple[int, int], share: float, data: DataSet, charges: int) -> bool:
    """Whether units are within a share. Delta has the part of its total that epsilon has. Each
    charge was rounded up by less than a unit."""
    room = units_up(share, EPSILON_UNIT), units_up(data.share_of_delta(share), DELTA_UNIT)
    return spent[0] <= room[0] + charges and spent[1] <= room[1] + charges


# -- the folder ------------------------------------------------------------------------------------


@contextmanager
def hold_folder(folder: Path) -> Iterator[None]:
    """Make the folder of ledgers if it is missing, and hold it for this process.

    Raises LedgerError if others can read it, if another user owns it, or if it is held.
    """
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        check_private(folder, 0o700)
        held = os.open(folder / "held", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise LedgerError(f"folder {str(folder)!r} cannot be used: {error.strerror}.") from None
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise LedgerError(
                f"folder {str(folder)!r} is held by another gateway. Stop that one first."
            ) from None
        yield
    finally:
        os.close(held)


def check_private(path: Path, mode: int) -> None:
    """Raise LedgerError unless a file or folder is this user's, and nobody else may read it."""
    about = path.stat()
    if about.st_uid != os.geteuid():
        raise LedgerError(f"{str(path)!r} belongs to another user. Use a folder of your own.")
    if about.st_mode & 0o077:
        raise LedgerError(
            f"{str(path)!r} can be read by others. Run chmod {mode:o} on it; find out who read it."
        )
    if about.st_mode & mode != mode:
        raise LedgerError(f"{str(path)!r} cannot be written. Run chmod {mode:o} on it.")


class Memory:
    """What a gateway remembers beside its ledgers: states of rows, and failures."""

    def __init__(self, file: Path) -> None:
        self._file, self._lock = file, threading.Lock()
        self._known: dict[str, dict[str, Any]] = {"states": {}, "failures": {}, "ledgers": {}}
        self._closed: set[tuple[str, str]] = set()
        if file.exists():
            check_private(file, 0o600)
            try:
                self._known |= json.loads(file.read_text())
            except (ValueError, TypeError):
                raise LedgerError(
                    f"{str(file)!r} is damaged. Put back a copy; it says who is closed out."
                ) from None

    def check_state(self, data: DataSet) -> str:
        """Remember the fingerprint of a state; SourceError if the state had another one."""
        found = data.fingerprint()
        known = self._known["states"].setdefault(data.name, {})
        if known.setdefault(data.state, found) != found:
            raise SourceError(
                f"the rows of {data.name!r} changed, and are still called state {data.state!r}. "
                "Write another state in the policy: a new state is drawn and charged anew."
            )
        self._write()
        return found

    def check_ledger(self, name: str, ledger: Ledger) -> None:
        """Remember the ledger of a data set; LedgerError if it had another one, whose spending
        would be forgotten."""
        if self._known["ledgers"].setdefault(name, ledger.ledger_id) != ledger.ledger_id:
            raise LedgerError(
                f"{str(ledger.path)!r} is not the ledger that {name!r} had. Put it back: what "
                "it spent stays spent."
            )

    def failures(self, analyst: str, data: str) -> float:
        """How many questions of an analyst failed; infinity if not all of them could be noted."""
        if (analyst, data) in self._closed:
            return math.inf
        return int(self._known["failures"].get(analyst, {}).get(data, 0))

    def add_failure(self, analyst: str, data: str) -> None:
        """Count one more failure; it is on disk when this returns. Where that cannot be, nothing is
        forgotten, and the data set is closed for the analyst until the gateway starts again."""
        with self._lock:
            of = self._known["failures"].setdefault(analyst, {})
            of[data] = of.get(data, 0) + 1
            try:
                self._write()
            except (DpframeError, OSError):
                self._closed.add((analyst, data))

    def forget_failures(self, analyst: str, data: str) -> None:
        """Let an analyst begin anew."""
        with self._lock:
            self._known["failures"].get(analyst, {}).pop(data, None)
            self._write()
            self._closed.discard((analyst, data))

    def _write(self) -> None:
        with replace_file(self._file, "the memory of the gateway", private=True) as stream:
            stream.write(json.dumps(self._known).encode())
