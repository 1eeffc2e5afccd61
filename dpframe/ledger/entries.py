"""Entries of a ledger, and the charge that makes one.

**The history** of a ledger is its charges, each with a seal over itself and all that came before.

Nothing written is ever changed or removed. A seal is a checksum: whoever may write the file can
forge it, but a flipped bit, a truncated page or a row edited by hand does not go unnoticed.

Whatever is read is checked. Every charge and every opening compares the totals with the last entry
and its seal; every listing checks the entries that it lists. Opening a long ledger checks its
newest entries and, in turn, a part of the older ones; ``check_history(whole=True)`` checks all.

**A charge** says what a release costs, also in a ledger that protects something else.

A guarantee holds for one step between neighbouring tables. Where a ledger protects something else,
its neighbours can be two steps apart, and the release costs what group privacy says: 2 epsilon, and
(1 + e^epsilon) delta (Vadhan, "The Complexity of Differential Privacy", 2017, Lemma 2.2).
docs/decisions/0036-units-in-one-ledger.md has the proofs; tests/privacy/test_units_in_one_ledger.py
enumerates them.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from dpframe.accounting.compose import Profile
from dpframe.accounting.weighted_round_noise import GaussianLeakage
from dpframe.common.calls import shown_value
from dpframe.errors import LedgerError, ParameterError, ParameterTypeError
from dpframe.ledger import store
from dpframe.ledger import store as schema
from dpframe.ledger.blocks import Blocks, Segments, tops_of
from dpframe.ledger.store import (
    DELTA_UNIT,
    EPSILON_UNIT,
    Exact,
    Totals,
    Units,
    damage_error,
    exact_amounts,
    read_totals,
    seal_values,
    units_rounded_up,
    units_up,
)
from dpframe.periods import USERS

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


@lru_cache(maxsize=8)
def receipt_facts(receipt: str) -> Mapping[str, Any]:
    """The facts of a receipt, which a charge looks at many times. Nobody changes them."""
    return MappingProxyType(json.loads(receipt))


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
    newest = f"SELECT {_entry_columns(db)} FROM charges ORDER BY number DESC NULLS LAST LIMIT 2"
    found = [Entry(*row) for row in db.execute(newest)]
    start = [_entry_before_first(now)] if len(found) < 2 else []
    entry, before = (found + 2 * start)[:2]
    if found and not entry.follows(before, now):
        raise damage_error("its history does not add up")
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
    said = receipt_facts(entry.receipt)
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
    two = entry.under is None and receipt_facts(entry.receipt).get("steps", 1) > 1
    return exact_cost_of(entry) if two else None


def neighbour_sentences(entry: Entry) -> list[str]:
    """What a release protects, in the words of its receipt: one sentence, or none."""
    said = receipt_facts(entry.receipt).get("neighbours")
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


RECORDS = "records"
"""One record is added or removed."""

USER, REPLACED, EMPTIED = "user:", "replace:", "remove:"
"""Prefixes of the name of a column of users. ``USER``: one user is added or removed. ``REPLACED``:
one user gets other records. ``EMPTIED``: one user gets or loses all items, and still reports.
Prefix trees protect the last two."""

ONE_RECORD = "adding or removing one record"

ITEMS = "adding or removing one user with all their items"

SEVERAL = "several"
"""The unit of a file of an earlier version whose releases protect different units."""


def checked_protection(value: object) -> str | None:
    """The argument ``protects`` in the form in which it is stored."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise ParameterTypeError(
            "protects must be 'records' or the name of a column of users; got "
            f"{shown_value(value)}."
        )
    if value in ("", USER, REPLACED, EMPTIED, SEVERAL):
        raise ParameterError(
            f"protects ({value!r}) must be 'records' or the name of a column of users. Write "
            "'user:NAME' for a column of that name."
        )
    return (
        value if value == RECORDS or value.startswith((USER, REPLACED, EMPTIED)) else USER + value
    )


def protection_words(unit: str | None) -> str:
    """What neighbouring tables of a stored unit differ by, in the words of receipts."""
    if unit is None:
        return "what the first release protects"
    if unit == SEVERAL:
        return "nothing, its releases protect different units"
    if unit.startswith(USER):
        name = unit.removeprefix(USER)
        return f"adding or removing one user ({name!r}) with all their records"
    if unit.startswith(REPLACED):
        return f"replacing all records of one user ({unit.removeprefix(REPLACED)!r}) by any others"
    if unit.startswith(EMPTIED):
        name = unit.removeprefix(EMPTIED)
        return f"adding or removing all items of one user ({name!r}), who still reports"
    return ONE_RECORD if unit == RECORDS else unit


def unit_of_receipt(receipt: Mapping[str, Any]) -> str:
    """The unit that a release protects, from its receipt. How many records of a user count is no
    part of the unit. A unit for which the ledger has no name is the sentence in the receipt."""
    sentence, user = str(receipt.get("neighbours")), receipt.get("user")
    if user is not None and sentence.startswith("adding or removing one user"):
        return f"{USER}{user}"
    if user is not None and sentence.startswith("replacing"):
        return f"{REPLACED}{user}"
    if user is not None and sentence.startswith("adding or removing all items"):
        return f"{EMPTIED}{user}"
    if user is not None or sentence == ITEMS:
        return sentence
    row = receipt.get("max_weight") is not None  # a row, whatever it weighs
    promised = receipt.get("max_contributions") is not None  # so many records of a user
    return RECORDS if row or promised or sentence == ONE_RECORD else sentence


def without_period(neighbours: str | None) -> str:
    """What a release protects, without the words that a period adds."""
    return (neighbours or "").removesuffix(USERS)


def is_of_period(neighbours: str) -> bool:
    """Whether a release holds for users whose records lie within one period."""
    return neighbours.endswith(USERS)


def receipt_steps(receipt: Mapping[str, Any], unit: str | None) -> int:
    """Steps of a release between neighbours of a ledger that protects ``unit``: 1 or 2.

    Raises LedgerError if there is no such number.
    """
    own = unit_of_receipt(receipt)
    if unit in (None, SEVERAL, own):
        return 1
    if unit == RECORDS and (own.startswith(USER) or own == ITEMS):
        return 2
    user = unit.partition(":")[2]
    if unit.startswith(EMPTIED) and own == REPLACED + user:
        return 1
    if unit.startswith((REPLACED, EMPTIED)) and own in (USER + user, EMPTIED + user):
        return 2
    raise LedgerError(
        f"the release protects {protection_words(own)}, but the ledger protects "
        f"{protection_words(unit)}. {_remedy(unit, own)}"
    )


def _remedy(unit: str, own: str) -> str:
    """What to do about a release that is refused."""
    if own.startswith(ONE_RECORD):  # a row stands for many records
        return "Give a max_weight, which protects whole rows, or charge another ledger."
    if unit.startswith(USER) and own == RECORDS:
        name = unit.removeprefix(USER)
        return f"Pass user={name!r}, or charge a ledger made with protects='records'."
    return "Charge another ledger: a total of both would hold for neither."


def unit_of_history(receipts: Iterable[Mapping[str, Any]]) -> str | None:
    """The unit for which every release of a file of an earlier version costs one step. ``SEVERAL``
    if there is none, None without releases."""
    known = [{**receipt.get("request", {}), **receipt} for receipt in receipts]
    known = [receipt for receipt in known if receipt.get("neighbours")]
    units = dict.fromkeys(map(unit_of_receipt, known))
    for unit in sorted(units, key=RECORDS.__ne__):
        with suppress(LedgerError):
            if all(receipt_steps(receipt, unit) == 1 for receipt in known):
                return unit
    return SEVERAL if units else None


def in_steps(units: Units, asked: Exact, steps: int) -> tuple[Units, Exact]:
    """A cost between tables that are ``steps`` steps apart: rounded up, and as it was asked for."""
    if steps == 1:
        return units, asked
    more = group_cost(asked, steps)
    return (steps * units[0], max(1, units_rounded_up(more)[1])), more


def group_cost(asked: Exact, steps: int) -> Exact:
    """What a release of (epsilon, delta) costs between tables one or two ``steps`` apart."""
    if steps == 1:
        return asked
    epsilon, delta = asked
    if epsilon > 700:  # exp would overflow, and no delta is above 1
        return 2 * epsilon, Fraction(delta > 0)
    above = math.nextafter(float(epsilon), math.inf)  # a sum of charges need not be a float
    growth = Fraction(math.exp(above)) * (1 + Fraction(1, 2**50))
    return 2 * epsilon, (1 + growth) * delta


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """What a release will cost, and for what; public, written into the history.

    ``blocks`` is the period that the release reads, if its source is restricted to that period;
    None: the release is charged to all blocks.
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
    told: Callable[[], GaussianLeakage | None] = lambda: None
    """What Gaussian noise reveals, for filters; None for other noise."""
    steps: int = 1
    """Steps of the release between neighbours of what the ledger protects: 1 or 2."""
    holder: str | None = None
    """The series that the release belongs to, if that has a reservation of its own."""

    def for_unit(self, unit: str | None) -> Charge:
        """The charge to a ledger that protects ``unit``; LedgerError if no price is known."""
        said = receipt_facts(self.receipt)
        steps = receipt_steps(said, unit)
        if steps == 1:
            return self
        return replace(self, steps=steps, receipt=json.dumps({**said, "steps": steps}))

    @property
    def unit(self) -> str:
        """What the release protects, as ledgers store units."""
        return unit_of_receipt(receipt_facts(self.receipt))

    @property
    def units(self) -> Units:
        """The cost in units of the store, rounded up."""
        units = units_up(self.epsilon, EPSILON_UNIT), units_up(self.delta, DELTA_UNIT)
        return in_steps(units, (Fraction(self.epsilon), Fraction(self.delta)), self.steps)[0]

    @property
    def exact_cost(self) -> Exact:
        """The cost as it was asked for, not rounded."""
        return group_cost((Fraction(self.epsilon), Fraction(self.delta)), self.steps)

    @property
    def neighbours(self) -> str | None:
        """What the release protects, in the words of its receipt."""
        said: str | None = receipt_facts(self.receipt).get("neighbours")
        return said
