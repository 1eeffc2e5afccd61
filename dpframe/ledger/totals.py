"""What is spent, what is left, and whether one more release fits. Amounts in units of the store."""

from __future__ import annotations

import json
import math
import sqlite3
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from dpframe.accounting.compose import Profile, composed_epsilon
from dpframe.errors import LedgerError, OverBudgetError
from dpframe.ledger.store import DELTA_UNIT, EPSILON_UNIT, amount, units_up

Accountant = Literal["sum", "pld"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """An (epsilon, delta), spent or left."""

    epsilon: float
    delta: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The one row of a ledger's budget."""

    ledger_id: str
    accountant: Accountant
    epsilon: int
    delta: int
    spent_epsilon: int
    spent_delta: int

    @property
    def spent(self) -> Spending:
        return _spending(self.spent_epsilon, self.spent_delta)

    @property
    def left(self) -> Spending:
        return _spending(self.epsilon - self.spent_epsilon, self.delta - self.spent_delta)


def _spending(epsilon: int, delta: int) -> Spending:
    return Spending(epsilon=amount(epsilon, EPSILON_UNIT), delta=amount(delta, DELTA_UNIT))


def totals(db: sqlite3.Connection) -> Totals:
    """The budget as it stands."""
    row = db.execute(
        "SELECT ledger_id, accountant, epsilon, delta, spent_epsilon, spent_delta FROM budget"
    ).fetchone()
    if row is None:
        raise LedgerError(
            "the ledger has no totals, making it was interrupted: open it with epsilon= and delta=."
        )
    return Totals(
        ledger_id=row[0],
        accountant=row[1],
        epsilon=row[2],
        delta=row[3],
        spent_epsilon=row[4],
        spent_delta=row[5],
    )


def check_history(db: sqlite3.Connection) -> None:
    """Raise LedgerError if the file is damaged or its history and its sums disagree."""
    fault = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    now = totals(db)
    epsilon, delta = _sums(db)
    if now.accountant == "pld":
        agree = now.spent_epsilon <= epsilon and now.spent_delta in (delta, now.delta)
    else:
        agree = (now.spent_epsilon, now.spent_delta) == (epsilon, delta)
    if fault != "ok" or not agree:
        raise LedgerError(
            "the ledger is damaged, its history does not add up: restore it from a copy; do not "
            "start a new one in its place."
        )


def _sums(db: sqlite3.Connection) -> tuple[int, int]:
    row = db.execute("SELECT coalesce(sum(epsilon), 0), coalesce(sum(delta), 0) FROM charges")
    epsilon, delta = row.fetchone()
    return epsilon, delta


def affordable(
    db: sqlite3.Connection, epsilon: float, delta: float, profile: Callable[[], Profile]
) -> tuple[int, int]:
    """Spent epsilon and delta after one more release; OverBudgetError if that is too much."""
    now = totals(db)
    plain = (
        now.spent_epsilon + units_up(epsilon, EPSILON_UNIT),
        now.spent_delta + units_up(delta, DELTA_UNIT),
    )
    after = plain if now.accountant == "sum" else _composed(db, now, epsilon, delta, profile())
    if after[0] > now.epsilon or after[1] > now.delta:
        raise OverBudgetError(_over(now, epsilon, delta, after))
    return after


def _composed(
    db: sqlite3.Connection, now: Totals, epsilon: float, delta: float, profile: Profile
) -> tuple[int, int]:
    """Epsilon of all releases at the total delta, or their plain sum where that is no more."""
    sums = _sums(db)
    plain = sums[0] + units_up(epsilon, EPSILON_UNIT), sums[1] + units_up(delta, DELTA_UNIT)
    counted = Counter(row[0] for row in db.execute("SELECT profile FROM charges"))
    counted[json.dumps(profile)] += 1
    profiles = [
        (tuple((e, d) for e, d in json.loads(text)), times) for text, times in counted.items()
    ]
    together = composed_epsilon(profiles, float(now.delta * DELTA_UNIT))
    composed = units_up(together, EPSILON_UNIT) if math.isfinite(together) else 0
    if (plain[1] <= now.delta and plain[0] <= composed) or math.isinf(together):
        return plain
    return composed, now.delta


def _over(now: Totals, epsilon: float, delta: float, after: tuple[int, int]) -> str:
    lines = []
    for name, asked, unit, total, spent, would in (
        ("epsilon", epsilon, EPSILON_UNIT, now.epsilon, now.spent_epsilon, after[0]),
        ("delta", delta, DELTA_UNIT, now.delta, now.spent_delta, after[1]),
    ):
        if would > total:
            lines.append(
                f"{name} requested {asked:g}, remaining {_plain(total - spent, unit)}, "
                f"over by {_plain(would - total, unit)}"
            )
    return (
        f"the ledger does not hold enough budget: {'; '.join(lines)}. Nothing was drawn or "
        "charged. Ask for less, or replay an earlier release by its name."
    )


def _plain(units: int, unit: Decimal) -> str:
    return f"{units * unit:.6g}"
