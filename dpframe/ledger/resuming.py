"""A release that was paid for and never drawn to its end, because its process died: paid once."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from glob import escape
from pathlib import Path
from tempfile import TemporaryDirectory

from dpframe.ledger import store
from dpframe.ledger.book import Ledger
from dpframe.ledger.entries import Charge, Entry, entries
from dpframe.ledger.opened import BUSY
from dpframe.ledger.standing import Paid, standing
from dpframe.ledger.totals import totals

UNFINISHED = "-unfinished-"
"""In the name of the file of a draw, between those of the ledger and of the release."""

OF_A_DRAW = ("release_id", "time")
"""What two receipts of one plan differ in."""


class ResumingLedger(Ledger):
    """A ledger whose charge pays for another draw, if its process died before the first was stored.

    The charge of a name that stores nothing, for the very same plan and source, is that of a draw
    that was cut off: what it drew was in the memory of a process that is gone. It pays for one more
    draw under that name, of which the result is stored with the number, time and id of the charge.

    While a release is drawn a file beside the ledger has its id. Whoever ends the draw alive
    removes it, with a result or with an error; so only what a dead process left is resumed. An
    error can depend on the noise, as that of a result too large for the disk does: what was charged
    for it stays charged, and another draw is charged anew. Without the file so is a draw that was
    cut off.

    To be used where every charge and its result are made under :meth:`drawing`, as ``released``
    does with a name: whoever holds that lock is alone, and who held it before is done or gone.

    Privacy
    -------
    What anybody sees is one draw of the law that was paid for. Assumed is that the *death* of a
    process does not depend on the noise that it had drawn: a kill, a loss of power, a restart.
    """

    _here: Path | None = None
    """The file of the draw that this process makes."""

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """One draw at a time, of which a file says that it is not over."""
        with super().drawing():
            self._here = None
            self._forget()
            try:
                yield
            finally:
                if self._here is not None:
                    self._here.unlink(missing_ok=True)

    def _file(self, release_id: str) -> Path:
        return self.path.with_name(f"{self.path.name}{UNFINISHED}{release_id}")

    def _forget(self) -> None:
        """Remove files of draws that were never charged, or are stored."""
        for file in self.path.parent.glob(f"{escape(self.path.name)}{UNFINISHED}*"):
            release_id = file.name.removeprefix(f"{self.path.name}{UNFINISHED}")
            with self._reading() as db:
                (open_,) = db.execute(
                    "SELECT count(*) FROM charges WHERE release_id = ? AND NOT EXISTS "
                    "(SELECT 1 FROM results WHERE results.release_id = charges.release_id)",
                    (release_id,),
                ).fetchone()
            if not open_:
                file.unlink(missing_ok=True)

    def charge(self, charge: Charge) -> Paid:
        """Spend, or go on with the charge of a draw that was cut off."""
        with self._reading() as db:
            found = self._cut_off(db, charge)
            if found is not None:
                self._here = self._file(found.release_id)
                here = standing(db)
                held = [h for h in here.held if h.reservation_id == found.under]
                return Paid(
                    left=here.now.left,
                    there=here.left_in(charge.blocks),
                    reservation=next(iter(held), None),
                    reserved=False,
                    resumed=(found.release_id, found.time),
                )
        self._here = self._file(charge.release_id)
        with suppress(OSError):  # then it is not resumed
            self._here.touch()  # before it is charged, so that no kill falls between
        return super().charge(charge)

    def check(self, charge: Charge) -> None:
        """Raise OverBudgetError if ``charge`` could not be made now, nor is made already."""
        with self._reading() as db:
            found = self._cut_off(db, charge)
        if found is None:
            super().check(charge)

    def _cut_off(self, db: sqlite3.Connection, charge: Charge) -> Entry | None:
        """The newest charge of the same name and plan whose process died before it was stored."""
        now = totals(db)
        numbers = db.execute(
            "SELECT number FROM charges WHERE name = ? AND NOT EXISTS "
            "(SELECT 1 FROM results WHERE results.release_id = charges.release_id) "
            "ORDER BY number DESC NULLS LAST",
            (charge.name,),
        ).fetchall()
        for (number,) in numbers:
            for entry in entries(db, now, number, number):
                if self._file(entry.release_id).exists() and _same(entry, charge):
                    return entry
        return None


def _same(entry: Entry, charge: Charge) -> bool:
    """Whether an entry is of the same plan, source and blocks."""
    about = entry.source == charge.source and entry.blocks == charge.blocks
    return about and _plan(entry.receipt) == _plan(charge.receipt)


def _plan(receipt: str) -> dict[str, object]:
    """What a receipt says of a plan; budget, law and unit of privacy are in it."""
    return {name: fact for name, fact in json.loads(receipt).items() if name not in OF_A_DRAW}


class _Rehearsal(ResumingLedger):
    """A copy, which leaves no files beside the ledger."""

    original: Path

    def _file(self, release_id: str) -> Path:
        return self.original.with_name(f"{self.original.name}{UNFINISHED}{release_id}")

    def charge(self, charge: Charge) -> Paid:
        with self._reading() as db:
            resumed = self._cut_off(db, charge) is not None
        return super().charge(charge) if resumed else Ledger.charge(self, charge)


@contextmanager
def rehearsal(ledger: Ledger) -> Iterator[Ledger]:
    """A copy of a ledger, to see what charges would do; it is gone afterwards."""
    with TemporaryDirectory() as folder:
        copy = Path(folder, "rehearsal.db")
        with store.reading(ledger.path, BUSY) as db, closing(sqlite3.connect(copy)) as target:
            db.backup(target)
        made = _Rehearsal(copy)
        made.original = ledger.path
        yield made
