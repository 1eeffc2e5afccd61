"""What is written into a ledger: charges and results, each under a seal over what came before.

Nothing written is ever changed or removed. A seal is a checksum: whoever may write the file can
forge it, but a flipped bit, a truncated page or a row edited by hand does not go unnoticed.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpframe.accounting.compose import Profile
from dpframe.errors import LedgerError
from dpframe.ledger.store import DAMAGED, DELTA_UNIT, EPSILON_UNIT, seal, units_up
from dpframe.ledger.totals import Totals, totals

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """What a release will cost, and what it is; public, written into the history."""

    release_id: str
    time: str
    epsilon: float
    delta: float
    profile: Callable[[], Profile]
    source: str
    receipt: str
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A result released under a name: its receipt as JSON, its frame as Arrow IPC bytes."""

    name: str
    release_id: str
    request: dict[str, Any]
    receipt: str
    frame: bytes

    def to_arrow(self) -> pa.Table:
        """The frame, with the receipt in its schema metadata."""
        return pa.ipc.open_file(pa.BufferReader(self.frame)).read_all()

    def to_frame(self) -> pd.DataFrame:
        """The frame, with the receipt in ``attrs["dp"]``."""
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        frame.attrs["dp"] = json.loads(self.receipt)
        return frame


CHARGE = (
    "release_id, time, name, source, epsilon, delta, profile, receipt, spent_epsilon, spent_delta"
)
RESULT = "name, release_id, request, receipt, frame"


def write_charge(db: sqlite3.Connection, charge: Charge, after: tuple[int, int]) -> None:
    """Append a charge; ``after`` is what the ledger has spent with it."""
    now = totals(db)
    last = db.execute(
        "SELECT seal, spent_epsilon, spent_delta FROM charges "
        "ORDER BY number DESC NULLS LAST LIMIT 1"
    ).fetchone() or (_first_seal(now), 0, 0)
    if last[1:] != (now.spent_epsilon, now.spent_delta):
        raise damaged("what it has spent is not what its history says")
    row = (
        charge.release_id,
        charge.time,
        charge.name,
        charge.source,
        units_up(charge.epsilon, EPSILON_UNIT),
        units_up(charge.delta, DELTA_UNIT),
        json.dumps(charge.profile() if now.accountant == "pld" else []),
        charge.receipt,
        *after,
    )
    db.execute(
        f"INSERT INTO charges ({CHARGE}, seal) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*row, seal(last[0], *row)),
    )
    db.execute("UPDATE budget SET spent_epsilon = ?, spent_delta = ?", after)


def write_result(db: sqlite3.Connection, stored: Stored) -> None:
    """Store a charged result under its name, which must be free."""
    row = (
        stored.name,
        stored.release_id,
        json.dumps(stored.request),
        stored.receipt,
        stored.frame,
    )
    db.execute(
        f"INSERT INTO results ({RESULT}, seal) VALUES (?, ?, ?, ?, ?, ?)", (*row, seal(*row))
    )


def read_result(db: sqlite3.Connection, name: str) -> Stored | None:
    """The result stored under a name, if any."""
    row = db.execute(f"SELECT {RESULT}, seal FROM results WHERE name = ?", (name,)).fetchone()
    if row is None:
        return None
    if seal(*row[:-1]) != row[-1]:
        raise damaged(f"the stored release {name!r} is not what was stored")
    return Stored(
        name=row[0],
        release_id=row[1],
        request=json.loads(row[2]),
        receipt=row[3],
        frame=row[4],
    )


def check_history(db: sqlite3.Connection) -> None:
    """Raise LedgerError if the file is damaged, or its totals, history and sums disagree."""
    fault = db.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if fault != "ok":
        raise damaged(fault)
    now = totals(db)
    last, spent, plain = _first_seal(now), (0, 0), (0, 0)
    for *row, sealed in db.execute(
        f"SELECT {CHARGE}, seal FROM charges ORDER BY number ASC NULLS FIRST"
    ):
        plain = plain[0] + row[4], plain[1] + row[5]
        last, spent = seal(last, *row), (row[8], row[9])
        if last != sealed or (now.accountant == "sum" and spent != plain):
            raise damaged("its history does not add up")
    if spent != (now.spent_epsilon, now.spent_delta):
        raise damaged("what it has spent is not what its history says")


def _first_seal(made: Totals) -> str:
    return seal(made.ledger_id, made.accountant, made.epsilon, made.delta)


def damaged(how: str) -> LedgerError:
    """The error for a file that is not as it was written."""
    return LedgerError(f"the ledger is damaged, {how}: {DAMAGED}")
