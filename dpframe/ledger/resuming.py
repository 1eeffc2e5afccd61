"""A release that was paid for and never drawn to its end, because its process died: paid once."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from dpframe.ledger import store
from dpframe.ledger.book import Ledger
from dpframe.ledger.entries import Charge, Entry, entries
from dpframe.ledger.opened import BUSY
from dpframe.ledger.standing import Paid, standing
from dpframe.ledger.totals import totals

OF_A_DRAW = ("release_id", "time")
"""What two receipts of one plan differ in."""


class ResumingLedger(Ledger):
    """A ledger whose charge pays for another draw, if nobody has seen the first.

    The charge of a name that stores nothing, for the very same plan and source, is that of a draw
    that was cut off: what it drew was in the memory of a process that is gone. It pays for one more
    draw under that name, of which the result is stored with the number, time and id of the charge.

    To be used where every charge and its result are made under :meth:`Ledger.drawing`, as
    ``released`` does with a name: whoever holds that lock is alone, and who held it before has
    stored a result or is gone.

    Privacy
    -------
    What anybody sees is one draw of the law that was paid for, if the end of the process that was
    cut off does not depend on the noise that it had drawn. A kill, a crash of the machine and a
    full disk do not.
    """

    def charge(self, charge: Charge) -> Paid:
        """Spend, or go on with the charge of a draw that was cut off."""
        with self._reading() as db:
            found = _cut_off(db, charge)
            if found is not None:
                here = standing(db)
                held = [h for h in here.held if h.reservation_id == found.under]
                return Paid(
                    left=here.now.left,
                    there=here.left_in(charge.blocks),
                    reservation=next(iter(held), None),
                    reserved=False,
                    resumed=(found.release_id, found.time),
                )
        return super().charge(charge)

    def check(self, charge: Charge) -> None:
        """Raise OverBudgetError if ``charge`` could not be made now, nor is made already."""
        with self._reading() as db:
            found = _cut_off(db, charge)
        if found is None:
            super().check(charge)


def _cut_off(db: sqlite3.Connection, charge: Charge) -> Entry | None:
    """The newest charge of the same name and plan that stores nothing."""
    now = totals(db)
    numbers = db.execute(
        "SELECT number FROM charges WHERE name = ? AND NOT EXISTS "
        "(SELECT 1 FROM results WHERE results.release_id = charges.release_id) "
        "ORDER BY number DESC NULLS LAST",
        (charge.name,),
    ).fetchall()
    for (number,) in numbers:
        for entry in entries(db, now, number, number):
            if entry.source == charge.source and _plan(entry.receipt) == _plan(charge.receipt):
                return entry
    return None


def _plan(receipt: str) -> dict[str, object]:
    """What a receipt says of a plan; budget, law and unit of privacy are in it."""
    return {name: fact for name, fact in json.loads(receipt).items() if name not in OF_A_DRAW}


@contextmanager
def rehearsal(ledger: Ledger) -> Iterator[Ledger]:
    """A copy of a ledger, to see what charges would do; it is gone afterwards."""
    with TemporaryDirectory() as folder:
        copy = Path(folder, "rehearsal.db")
        with store.reading(ledger.path, BUSY) as db, closing(sqlite3.connect(copy)) as target:
            db.backup(target)
        yield ResumingLedger(copy)
