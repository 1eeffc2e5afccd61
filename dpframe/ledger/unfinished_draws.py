"""Files beside a ledger: of draws whose process died, and of noise that a series keeps.

A release that was charged but not stored, because its process died, is paid for only once.
"""

from __future__ import annotations

import copy
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from glob import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from dpframe.common.files import replace_file
from dpframe.errors import LedgerError
from dpframe.ledger import store
from dpframe.ledger.book import (
    Ledger,
    StoredResult,
    pack_result,
    read_result,
    unpack_result,
    write_result,
)
from dpframe.ledger.entries import Charge, Entry, cost_of_steps, entries
from dpframe.ledger.forecast import BUSY
from dpframe.ledger.history import prepaid_entries
from dpframe.ledger.reservations import (
    ReservablePlan,
    check_reserves,
    exact_price,
    price_reservation,
)
from dpframe.ledger.state import PaidCharge, write_reservation
from dpframe.ledger.store import read_totals

UNFINISHED = "-unfinished-"
"""In the name of a draw's file, between the name of the ledger and the id of the release."""

OF_A_DRAW = ("release_id", "time", "steps", "analyst", "group", "asked")
"""Facts in which two receipts of one plan can differ: ``steps`` depends on the ledger, and a
gateway notes who asked, and in which words."""


class ResumingLedger(Ledger):
    """A ledger whose charge pays for another draw, if its process died before the first was stored.

    While a release is drawn, the name of a file beside the ledger has the release's id. The file is
    empty until the draw is made. Then the draw is written to the file, and after that to the
    ledger. So a dead process leaves one of four states:

    * No file, or nothing charged: the next draw is charged, as ever.
    * An empty file: what was drawn, if anything, was in the memory of a process that is gone. The
      charge pays for one more draw of the very same plan and source under that name, whose result
      is stored with the number, time and id of the charge.
    * A whole draw in the file: this draw is stored, and nothing is drawn. It may have been seen,
      here or in pages of the ledger's file that were written when the process died.
    * A part of a draw: it is never shown, and another draw is charged.

    A process that ends a draw alive removes the file, with a result or with an error. An error can
    depend on the noise, for instance if a result is too large for the disk: its charge stays, and
    another draw is charged anew.

    Use this class where every charge and its result are made under :meth:`drawing`, as
    ``asking.release.make_release`` does with a name: whoever holds that lock is alone, and the
    holder before is done or dead.

    Privacy
    -------
    What anybody sees is one draw of the law that was paid for. This assumes that the *death* of a
    process (a kill, a loss of power, a restart) does not depend on the noise that it had drawn.
    """

    _here: Path | None = None
    """The file of the draw that this process makes."""
    _holder: str | None = None

    def of_series(self, holder: str) -> Self:
        """The ledger for releases of a series, which :meth:`reserve_once` paid for; those alone
        use it up, and they use nothing else."""
        view = copy.copy(self)
        view._holder = holder
        return view

    def noise_file(self, series: str) -> NoiseFile:
        """The file beside the ledger that keeps the noise of a series."""
        return NoiseFile(self._origin.with_name(f"{self._origin.name}{NOISE}{series}"))

    def reserve_once(
        self, holder: str, plan: ReservablePlan, delta: float, said: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Pay for ``said["releases"]`` releases of a series; return what was said when that was
        paid, now or before. A process that is killed has paid or has not.

        Raises OverBudgetError if the totals do not hold that much, and ParameterError if the ledger
        cannot reserve.
        """
        check_reserves(self.accountant)
        with self._reading() as db:
            known = _said_of(db, holder)
        if known is not None:
            return known
        releases, cost = price_reservation(plan, said["releases"], delta)
        exact = exact_price(plan, releases, delta, cost)
        with self._write_transaction() as db:
            known = _said_of(db, holder)
            if known is None:
                about = {"holder": holder, "said": said}
                write_reservation(db, plan, releases, cost, exact, about)
        return said if known is None else known

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """Allow one draw at a time; when it is over, its file beside the ledger is removed."""
        with super().drawing():
            mine, self._here = self._here, None  # of a draw that was charged in a block before
            self._tidy(mine)
            try:
                yield
            finally:
                if self._here is not None:
                    self._here.unlink(missing_ok=True)
                    self._here = None

    @property
    def _origin(self) -> Path:
        """The ledger beside which files of draws are."""
        return self.path

    def _file(self, release_id: str) -> Path:
        return self._origin.with_name(f"{self._origin.name}{UNFINISHED}{release_id}")

    def _tidy(self, mine: Path | None) -> None:
        """Store whole draws; remove all files except ``mine`` and empty ones of releases that are
        charged and not stored."""
        files = {name: file for name, file in _files(self.path).items() if file != mine}
        if not files:
            return
        with self._reading() as db:
            waiting = {release_id for release_id in files if _is_unstored(db, release_id)}
        for release_id, file in files.items():
            waits = release_id in waiting
            draw = file.read_bytes()
            found = unpack_result(draw) if draw and waits else None
            if found is not None and found.release_id == release_id:
                with self._write_transaction() as db:
                    if read_result(db, found.name) is None:
                        write_result(db, found)
            if draw or not waits:
                file.unlink(missing_ok=True)

    def keep(self, stored: StoredResult) -> None:
        """Store a charged result under its name, which must be free.

        SQLite writes pages into the ledger's file before a transaction is over. A copy of the file
        can have these pages though the transaction is undone later. So the draw is written to a
        file of its own before.
        """
        if self._here is not None and self._here.exists():
            try:
                with open(self._here, "wb") as file:
                    file.write(pack_result(stored))
                    file.flush()
                    os.fsync(file.fileno())
            except OSError:
                self._here.unlink()  # then nothing is resumed: another draw is charged
        super().keep(stored)

    def charge(self, charge: Charge) -> PaidCharge:
        """Spend, or go on with the charge of a draw that was cut off."""
        charge = replace(charge, holder=self._holder)
        found = self._cut_off(charge)
        if found is not None:
            self._here = self._file(found.release_id)
            with self._reading_state() as here:
                held = [h for h in here.held if h.reservation_id == found.under]
                return PaidCharge(
                    left=here.now.remainder,
                    there=here.left_in(charge.blocks),
                    reservation=next(iter(held), None),
                    reserved=False,
                    resumed=(found.release_id, found.time),
                    protects=None if here.now.protects == charge.unit else here.now.protects,
                    cost=cost_of_steps(found),
                )
        self._here = self._file(charge.release_id)
        with suppress(OSError):  # then it is not resumed
            self._here.touch(self.path.stat().st_mode & 0o777)  # first: no kill falls between
        return super().charge(charge)

    def check(self, charge: Charge) -> None:
        """Raise OverBudgetError if ``charge`` does not fit now and was not made before."""
        if self._cut_off(charge) is None:
            super().check(replace(charge, holder=self._holder))

    def _cut_off(self, charge: Charge) -> Entry | None:
        """The newest charge of this name and plan whose process died before the result was stored;
        None if there is none."""
        files = _files(self._origin)  # few, where entries are many
        if not files:
            return None
        with self._reading() as db:
            now, numbers = read_totals(db), []
            for release_id in files:
                numbers += db.execute(
                    "SELECT number FROM charges WHERE release_id = ? AND name = ? AND NOT EXISTS "
                    "(SELECT 1 FROM results WHERE results.release_id = charges.release_id)",
                    (release_id, charge.name),
                ).fetchall()
            for (number,) in sorted(numbers, reverse=True):
                for entry in entries(db, now, number, number):
                    if self._has_unfinished_draw(entry.release_id) and _is_same_draw(entry, charge):
                        return entry
        return None

    def _has_unfinished_draw(self, release_id: str) -> bool:
        """Whether a dead process left an empty file, so that a draw is to be made, or a whole draw,
        which only a rehearsal finds."""
        try:
            draw = self._file(release_id).read_bytes()
        except OSError:
            return False
        return not draw or unpack_result(draw) is not None


NOISE = "-noise-"
"""In the name of a file of noise, between the names of the ledger and of the series."""


@dataclass(frozen=True, slots=True)
class NoiseFile:
    """Noise that later periods of a series take back. As secret as the data: only the owner of the
    file may read it, and no message has any of it.

    ``rows`` is a digest of what the next period is drawn of: request, ledger, source and period.
    """

    path: Path
    rows: str = ""

    def read(self) -> dict[str, Any] | None:
        """What was written last; None without a file. LedgerError if it is no whole file."""
        try:
            kept = json.loads(self.path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            kept = None
        if not isinstance(kept, dict) or kept.get("format") != "dpframe noise, 1":
            raise LedgerError(f"{self.path.name!r} cannot be read as noise. {STILL_HOLDS}")
        return kept

    def check(self, series: str, noise: str, drawn: int) -> None:
        """Raise LedgerError unless the noise of this id and of ``drawn`` periods is there."""
        kept = self.read()
        if kept is None or kept["id"] != noise or kept["drawn"] < drawn:
            what = "is not there" if kept is None else "is not what the published periods have"
            raise LedgerError(
                f"the noise of series {series!r} is lost: {self.path.name!r} {what}. {STILL_HOLDS}"
            )

    def check_rows(self, series: str, number: int, beyond: int) -> None:
        """Raise LedgerError if the period of this number was drawn of other rows, or is more than
        ``beyond`` after those that are drawn: before it is charged."""
        kept = self.read()
        told = [] if kept is None else kept["rows"]
        if number < len(told) and told[number] != self.rows:
            raise LedgerError(
                f"the noise of series {series!r} is of another declaration, ledger or source: "
                f"{self.path.name!r} has period {number + 1} of it. {STILL_HOLDS}"
            )
        if number > len(told) + beyond:
            raise LedgerError(f"{self.path.name!r} lacks periods of {series!r}. {STILL_HOLDS}")

    def write(self, kept: Mapping[str, Any]) -> None:
        """Replace what is kept, in one step; on disk when it returns."""
        with replace_file(self.path, "the noise of a series", private=True) as file:
            file.write(json.dumps({"format": "dpframe noise, 1", **kept}).encode())


STILL_HOLDS = (
    "What is published stays true and private. No later period can follow it: give the report "
    "another name to begin anew."
)
"""What is told of a series that lost its noise."""


def _files(path: Path) -> dict[str, Path]:
    """The files of unfinished draws beside a ledger, by the ids of their releases."""
    start = f"{path.name}{UNFINISHED}"
    return {file.name.removeprefix(start): file for file in path.parent.glob(f"{escape(start)}*")}


def _said_of(db: sqlite3.Connection, holder: str) -> Mapping[str, Any] | None:
    """What was said of a series when its releases were reserved; None if they are not."""
    for entry in prepaid_entries(db):
        known = json.loads(entry.receipt)
        if known.get("holder") == holder:
            said: Mapping[str, Any] = known["said"]
            return said
    return None


def _is_unstored(db: sqlite3.Connection, release_id: str) -> bool:
    """Whether a release is charged but not stored."""
    (charged,) = db.execute(
        "SELECT count(*) FROM charges WHERE release_id = ? AND NOT EXISTS "
        "(SELECT 1 FROM results WHERE results.release_id = charges.release_id)",
        (release_id,),
    ).fetchone()
    return bool(charged)


def _is_same_draw(entry: Entry, charge: Charge) -> bool:
    """Whether an entry has the plan, source and blocks of a charge."""
    about = entry.source == charge.source and entry.blocks == charge.blocks
    return about and _receipt_plan(entry.receipt) == _receipt_plan(charge.receipt)


def _receipt_plan(receipt: str) -> dict[str, object]:
    """The facts of a receipt that follow from the plan, with budget, law and unit of privacy."""
    return {name: fact for name, fact in json.loads(receipt).items() if name not in OF_A_DRAW}


class _Rehearsal(ResumingLedger):
    """A copy of a ledger: knows the unfinished draws of the original, and adds no files to them."""

    original: Path

    @property
    def _origin(self) -> Path:
        return self.original

    def charge(self, charge: Charge) -> PaidCharge:
        if self._cut_off(charge) is not None:
            return super().charge(charge)
        return Ledger.charge(self, replace(charge, holder=self._holder))


@contextmanager
def rehearsal(ledger: Ledger) -> Iterator[ResumingLedger]:
    """A copy of a ledger, to see what charges would do; it is gone afterwards."""
    with TemporaryDirectory() as folder:
        file = Path(folder, "rehearsal.db")
        with (
            store.read_transaction(ledger.path, BUSY) as db,
            closing(sqlite3.connect(file)) as target,
        ):
            db.backup(target)
        made = _Rehearsal(file)
        made.original = ledger.path
        yield made
