"""What is written into a ledger: charges and results, each under a seal over what came before.

Nothing written is ever changed or removed. A seal is a checksum: whoever may write the file can
forge it, but a flipped bit, a truncated page or a row edited by hand does not go unnoticed.

What is read is checked: every charge and every opening the totals against the last entry and its
seal, every listing the entries that it lists. Opening a long ledger looks at its newest entries and
at a part of the older ones, in turn; ``check_history(whole=True)`` at all of it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from dpframe import digest
from dpframe.accounting.compose import Profile
from dpframe.errors import LedgerError
from dpframe.ledger.blocks import Blocks
from dpframe.ledger.store import DAMAGED, DELTA_UNIT, EPSILON_UNIT, is_old, seal, units_up
from dpframe.ledger.totals import Totals, Units, totals

if TYPE_CHECKING:
    import pandas as pd

RECENT = 1000
"""Entries at the end, and as many older ones in turn, that are checked when a ledger is opened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """What a release will cost, and what it is; public, written into the history.

    ``blocks`` is the time that it reads, where its source is restricted to that; None touches all.
    """

    release_id: str
    time: str
    epsilon: float
    delta: float
    profile: Callable[[], Profile]
    source: str
    receipt: str
    name: str | None = None
    blocks: Blocks | None = None

    @property
    def neighbours(self) -> str | None:
        """What the release protects, in the words of its receipt."""
        said: str | None = json.loads(self.receipt).get("neighbours")
        return said


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
        return digest.seal(self.to_arrow().to_pandas(), json.loads(self.receipt))


CHARGE = (
    "release_id, time, name, source, epsilon, delta, profile, receipt, spent_epsilon, spent_delta"
)
RESERVING = "releases, under, open"
"""Columns that the first format did not have."""

RESULT = "name, release_id, request, receipt, frame"


class Entry(NamedTuple):
    """A row of the history: a release, or a reservation of several (``releases``)."""

    number: int
    release_id: str
    time: str
    name: str | None
    source: str
    epsilon: int
    delta: int
    profile: str
    receipt: str
    spent_epsilon: int  # of the whole ledger, with this entry
    spent_delta: int
    releases: int | None
    under: str | None  # the reservation that paid for it
    open: str | None  # releases left in every reservation, as JSON; None in the first format
    seal: str

    @property
    def spent(self) -> Units:
        return self.spent_epsilon, self.spent_delta

    def sealed(self, before: str) -> str:
        """The seal over this entry and those before it."""
        return seal(before, *(self[1:11] if self.open is None else self[1:14]))

    def follows(self, before: Entry, now: Totals) -> bool:
        """Whether the seal fits and the sums add up."""
        if self.sealed(before.seal) != self.seal:
            return False
        first_format = self.open is None
        if first_format and now.accountant == "pld":
            return True  # composed: not to be had from two entries
        if before.open is None and now.accountant == "pld":
            return self.spent == (self.epsilon, self.delta)  # all before, restated
        cost = (0, 0) if self.under is not None else (self.epsilon, self.delta)
        return self.spent == (before.spent_epsilon + cost[0], before.spent_delta + cost[1])


def _origin(now: Totals) -> Entry:
    """What the first entry follows."""
    first = seal(now.ledger_id, now.accountant, now.epsilon, now.delta)
    return Entry(0, "", "", None, "", 0, 0, "[]", "{}", 0, 0, None, None, "{}", first)


def _columns(db: sqlite3.Connection) -> str:
    new = "NULL, NULL, NULL" if is_old(db) else RESERVING
    return f"number, {CHARGE}, {new}, seal"


def entries(
    db: sqlite3.Connection, now: Totals, first: int = 1, last: int = 2**63 - 1
) -> Iterator[Entry]:
    """Entries with these numbers, oldest first; LedgerError at one that is not as written."""
    columns = _columns(db)
    row = db.execute(
        f"SELECT {columns} FROM charges WHERE number < ? ORDER BY number DESC NULLS LAST LIMIT 1",
        (first,),
    ).fetchone()
    before = Entry(*row) if row else _origin(now)
    for row in db.execute(
        f"SELECT {columns} FROM charges WHERE number BETWEEN ? AND ? "
        "ORDER BY number ASC NULLS FIRST",
        (first, last),
    ):
        entry = Entry(*row)
        if not entry.follows(before, now):
            raise damaged("its history does not add up")
        yield entry
        before = entry


def newest(db: sqlite3.Connection, now: Totals) -> Entry:
    """The last entry, after which is spent what the totals say; LedgerError if not."""
    (last,) = db.execute("SELECT max(number) FROM charges").fetchone()
    entry = _origin(now) if last is None else next(entries(db, now, last))
    if entry.spent != now.spent_units:
        raise damaged("what it has spent is not what its history says")
    return entry


def append(db: sqlite3.Connection, before: Entry, entry: Entry) -> None:
    """Write an entry after the last one; its number and seal are set here."""
    row = entry[1:14]
    db.execute(
        f"INSERT INTO charges ({CHARGE}, {RESERVING}, seal) VALUES ({', '.join('?' * 14)})",
        (*row, entry.sealed(before.seal)),
    )
    db.execute("UPDATE budget SET spent_epsilon = ?, spent_delta = ?", entry.spent)


def entry_of(charge: Charge, profile: Profile, spent: Units) -> Entry:
    """A charge that the totals pay for, as it will be written."""
    return Entry(
        number=0,
        release_id=charge.release_id,
        time=charge.time,
        name=charge.name,
        source=charge.source,
        epsilon=units_up(charge.epsilon, EPSILON_UNIT),
        delta=units_up(charge.delta, DELTA_UNIT),
        profile=json.dumps(profile),
        receipt=charge.receipt,
        spent_epsilon=spent[0],
        spent_delta=spent[1],
        releases=None,
        under=None,
        open="{}",
        seal="",
    )


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
        request=_without_ignored(json.loads(row[2])),
        receipt=row[3],
        frame=row[4],
    )


IGNORED = {"release_share": ("laplace", "gaussian", "paper")}
"""Arguments that were taken and ignored before they were refused; stored requests hold them."""


def _without_ignored(request: dict[str, Any]) -> dict[str, Any]:
    """A stored request without what had no part in its answer: whoever leaves it out replays."""
    mechanism = request.get("mechanism")
    unused = [name for name, ignoring in IGNORED.items() if mechanism in ignoring]
    return {**request, **{name: None for name in unused if name in request}}


def check_history(db: sqlite3.Connection, *, whole: bool = False) -> None:
    """Raise LedgerError if the file is damaged, or its totals, history and sums disagree."""
    now = totals(db)
    last = newest(db, now).number
    parts = [(1, last)]
    if not whole and last > 2 * RECENT:
        old = RECENT * (last % (last // RECENT))  # another part of it after every charge
        parts = [(old + 1, old + RECENT), (last - RECENT, last)]
    table = "(1)" if len(parts) == 1 else "(budget)"
    fault = db.execute(f"PRAGMA integrity_check{table}").fetchone()[0]
    if fault != "ok":
        raise damaged(fault)
    for part in parts:
        for _ in entries(db, now, *part):
            pass


def damaged(how: str) -> LedgerError:
    """The error for a file that is not as it was written."""
    return LedgerError(f"the ledger is damaged, {how}: {DAMAGED}")
