"""The history of a ledger: charges, each with a seal over itself and all that came before.

Nothing written is ever changed or removed. A seal is a checksum: whoever may write the file can
forge it, but a flipped bit, a truncated page or a row edited by hand does not go unnoticed.

Whatever is read is checked. Every charge and every opening compares the totals with the last entry
and its seal; every listing checks the entries that it lists. Opening a long ledger checks its
newest entries and, in turn, a part of the older ones; ``check_history(whole=True)`` checks all.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from dpframe.accounting.compose import Profile
from dpframe.ledger import schema, store
from dpframe.ledger.blocks import Blocks, Segments, tops_of
from dpframe.ledger.charge import Charge, group_cost
from dpframe.ledger.store import (
    DELTA_UNIT,
    EPSILON_UNIT,
    damage_error,
    seal_values,
    units_up,
)
from dpframe.ledger.totals import Exact, Totals, Units, exact_amounts, read_totals

RECENT = 1000
"""How many entries at the end, and how many older ones in turn, opening a ledger checks."""


CHARGE = (
    "release_id, time, name, source, epsilon, delta, profile, receipt, spent_epsilon, spent_delta"
)
RESERVING = "releases, under, open"
"""Columns that the first format did not have."""

BLOCKS = "axis, first, last, tops, protects"
"""Columns that the first two formats did not have."""


class Entry(NamedTuple):
    """A row of the history: a release (``releases`` is None), or a reservation or filter."""

    number: int = 0
    release_id: str = ""
    time: str = ""
    name: str | None = None
    source: str = ""
    epsilon: int = 0
    delta: int = 0
    profile: str = "[]"
    receipt: str = "{}"
    spent_epsilon: int = 0  # of the whole ledger, with this entry
    spent_delta: int = 0
    releases: int | None = None
    under: str | None = None  # the reservation or filter that paid for this release
    open: str | None = "{}"  # what is left of reservations and filters, as JSON; None in format 1
    axis: str | None = None  # of the blocks that the release reads; None for all
    first: int | None = None
    last: int | None = None
    tops: str | None = (
        "{}"  # what the fullest block of every axis has spent, as JSON; None before blocks
    )
    protects: str | None = "[]"  # all sentences of neighbours so far, as JSON; None before blocks
    seal: str = ""

    @property
    def sums(self) -> Units:
        return self.spent_epsilon, self.spent_delta

    @property
    def cost(self) -> Units:
        """What the entry adds to the blocks that it reads; nothing if a reservation paid."""
        return (0, 0) if self.under is not None else (self.epsilon, self.delta)

    @property
    def blocks(self) -> Blocks | None:
        """The blocks that the release reads; None for all."""
        if self.axis is None or self.first is None or self.last is None:
            return None
        return Blocks(axis=self.axis, first=self.first, last=self.last)

    def seal_after(self, before: str) -> str:
        """The seal over this entry and ``before``, the seal of the entry before."""
        columns = 11 if self.open is None else 14 if self.tops is None else 19
        return seal_values(before, *self[1:columns])

    def follows(self, before: Entry, now: Totals) -> bool:
        """Whether this entry fits the one before: its seal is right, and the sums add up."""
        if self.seal_after(before.seal) != self.seal:
            return False
        first_format = self.open is None
        if first_format and now.accountant == "pld":
            return True  # composed: two entries do not determine the sums
        if before.open is None and now.accountant == "pld":
            return self.sums == (self.epsilon, self.delta)  # this entry restates all before it
        rise: Units | None = self.cost
        if self.axis is not None and self.under is None:
            rise = self._rise(before)
        elif self.tops != before.tops and tops_of(self.tops) != tops_of(before.tops):
            return False
        return rise is not None and self.sums == (
            before.spent_epsilon + rise[0],
            before.spent_delta + rise[1],
        )

    def _rise(self, before: Entry) -> Units | None:
        """By how much the fullest block of the axis rose; None if the sums are impossible."""
        tops, were = tops_of(self.tops), tops_of(before.tops)
        now = tops.pop(self.axis or "", None)
        was = were.pop(self.axis or "", None) or (0, 0)
        if now is None or tops != were:
            return None
        rise = now[0] - was[0], now[1] - was[1]
        possible = all(
            0 <= more <= cost <= top
            for more, cost, top in zip(rise, self.cost, now[:2], strict=True)
        )
        return rise if possible else None


def _entry_before_first(now: Totals) -> Entry:
    """A stand-in for the entry before the first."""
    return Entry(seal=seal_values(now.ledger_id, now.accountant, now.epsilon, now.delta))


def _entry_columns(db: sqlite3.Connection) -> str:
    known = store.file_format(db)
    reserving = RESERVING if known >= schema.RESERVATIONS else "NULL, NULL, NULL"
    blocks = BLOCKS if known >= schema.BLOCKS else "NULL, NULL, NULL, NULL, NULL"
    return f"number, {CHARGE}, {reserving}, {blocks}, seal"


def entries(
    db: sqlite3.Connection, now: Totals, first: int = 1, last: int = 2**63 - 1
) -> Iterator[Entry]:
    """Entries with these numbers, oldest first; LedgerError at an entry that was changed."""
    columns = _entry_columns(db)
    row = db.execute(
        f"SELECT {columns} FROM charges WHERE number < ? ORDER BY number DESC NULLS LAST LIMIT 1",
        (first,),
    ).fetchone()
    before = Entry(*row) if row else _entry_before_first(now)
    for row in db.execute(
        f"SELECT {columns} FROM charges WHERE number BETWEEN ? AND ? "
        "ORDER BY number ASC NULLS FIRST",
        (first, last),
    ):
        entry = Entry(*row)
        if not entry.follows(before, now):
            raise damage_error("its history does not add up")
        yield entry
        before = entry


def newest_entry(db: sqlite3.Connection, now: Totals) -> Entry:
    """The last entry, or a stand-in with number 0; LedgerError if its sums are not what the totals
    say is spent."""
    (last,) = db.execute("SELECT max(number) FROM charges").fetchone()
    entry = _entry_before_first(now) if last is None else next(entries(db, now, last))
    if now.cap(entry.sums) != now.spent_units:
        raise damage_error("its spending differs from its history")
    return entry


def append_entry(db: sqlite3.Connection, before: Entry, entry: Entry) -> None:
    """Write an entry after the last one; its number and seal are set here."""
    row = entry[1:19]
    db.execute(
        f"INSERT INTO charges ({CHARGE}, {RESERVING}, {BLOCKS}, seal) "
        f"VALUES ({', '.join('?' * 19)})",
        (*row, entry.seal_after(before.seal)),
    )
    db.execute(
        "UPDATE budget SET spent_epsilon = min(?, epsilon), spent_delta = min(?, delta)",
        entry.sums,
    )


def entry_of(charge: Charge, profile: Profile, spent: Units) -> Entry:
    """The entry of a charge that the totals pay for. What the ledger holds of reservations, axes
    and protected units is left empty for the caller."""
    blocks = charge.blocks
    return Entry(
        release_id=charge.release_id,
        time=charge.time,
        name=charge.name,
        source=charge.source,
        epsilon=charge.units[0],
        delta=charge.units[1],
        profile=json.dumps(profile),
        receipt=charge.receipt,
        spent_epsilon=spent[0],
        spent_delta=spent[1],
        axis=blocks.axis if blocks else None,
        first=blocks.first if blocks else None,
        last=blocks.last if blocks else None,
    )


def exact_cost_of(entry: Entry, steps: int | None = None) -> Exact:
    """The cost of an entry as its receipt asks for it, or in units if the receipt does not round up
    to these. The cost is for ``steps``; without ``steps``, for the steps that were charged."""
    said = json.loads(entry.receipt)
    steps = steps or said.get("steps", 1)
    if "cost" in said:  # of a reservation or filter
        return group_cost((Fraction(said["cost"][0]), Fraction(said["cost"][1])), steps)
    if steps > 1:
        return group_cost((Fraction(said["epsilon"]), Fraction(said["delta"] or 0)), steps)
    amounts = list(exact_amounts((entry.epsilon, entry.delta)))
    for which, (name, unit) in enumerate((("epsilon", EPSILON_UNIT), ("delta", DELTA_UNIT))):
        asked = said.get(name)
        if isinstance(asked, float) and units_up(asked, unit) == entry[5 + which]:
            amounts[which] = Fraction(asked)
    return amounts[0], amounts[1]


def cost_of_steps(entry: Entry) -> Exact | None:
    """What was charged, if neighbours of what the ledger protects are two steps apart; None if they
    are one step apart, or if a reservation paid."""
    two = entry.under is None and json.loads(entry.receipt).get("steps", 1) > 1
    return exact_cost_of(entry) if two else None


def neighbour_sentences(entry: Entry) -> list[str]:
    """What a release protects, in the words of its receipt: one sentence, or none."""
    said = json.loads(entry.receipt).get("neighbours")
    return [str(said)] if said else []


def protected_sentences(db: sqlite3.Connection, now: Totals, last: Entry) -> list[str]:
    """What all releases so far protect: every sentence once, in the order they came."""
    if last.protects is not None:
        known: list[str] = json.loads(last.protects)
        return known
    return list(
        dict.fromkeys(said for entry in entries(db, now) for said in neighbour_sentences(entry))
    )


def check_history(db: sqlite3.Connection, *, whole: bool = False) -> None:
    """Raise LedgerError if the file is damaged, or its totals, history and sums disagree."""
    now = read_totals(db)
    last = newest_entry(db, now).number
    parts = [(1, last)]
    if not whole and last > 2 * RECENT:
        old = RECENT * (last % (last // RECENT))  # another part of the history after every charge
        parts = [(old + 1, old + RECENT), (last - RECENT, last)]
    table = "(1)" if len(parts) == 1 else "(budget)"
    fault = db.execute(f"PRAGMA integrity_check{table}").fetchone()[0]
    if fault != "ok":
        raise damage_error(fault)
    charges: dict[str, list[tuple[int, int, Units]]] = {}
    tops = tops_of(newest_entry(db, now).tops)
    for part in parts:
        for entry in entries(db, now, *part):
            if entry.axis is not None and entry.under is None:
                ends = int(entry.first or 0), int(entry.last or 0)
                charges.setdefault(entry.axis, []).append((*ends, entry.cost))
    if len(parts) == 1 and store.file_format(db) >= schema.BLOCKS:
        Segments(db, tops).check(charges)
