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
from dpframe.ledger.store import DAMAGED, DELTA_UNIT, EPSILON_UNIT, amount, units_up

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
        raise LedgerError(f"the ledger is damaged, it has no totals: {DAMAGED}")
    return Totals(
        ledger_id=row[0],
        accountant=row[1],
        epsilon=row[2],
        delta=row[3],
        spent_epsilon=row[4],
        spent_delta=row[5],
    )


@dataclass(frozen=True, slots=True)
class Standing:
    """A ledger's totals, the plain sums of its charges, and how often it holds each profile."""

    now: Totals
    plain: tuple[int, int]
    profiles: Counter[str]

    def after(
        self, epsilon: float, delta: float, profile: Callable[[], Profile]
    ) -> tuple[int, int]:
        """Spent epsilon and delta with one more release; OverBudgetError if that is too much."""
        plain = (
            self.plain[0] + units_up(epsilon, EPSILON_UNIT),
            self.plain[1] + units_up(delta, DELTA_UNIT),
        )
        pld = self.now.accountant == "pld"
        after = self._composed(plain, profile()) if pld else plain
        if after[0] > self.now.epsilon or after[1] > self.now.delta:
            raise OverBudgetError(_over(self.now, epsilon, delta, after))
        return after

    def _composed(self, plain: tuple[int, int], profile: Profile) -> tuple[int, int]:
        """Epsilon of all releases at the total delta, or their plain sum where that is no more."""
        profiles = [
            (tuple((e, d) for e, d in json.loads(text)), times)
            for text, times in (self.profiles + Counter([json.dumps(profile)])).items()
        ]
        together = composed_epsilon(profiles, float(self.now.delta * DELTA_UNIT))
        if math.isinf(together):
            return plain
        composed = max(units_up(together, EPSILON_UNIT), self.now.spent_epsilon)
        if plain[1] <= self.now.delta and plain[0] <= composed:
            return plain
        return composed, self.now.delta


def standing(db: sqlite3.Connection) -> Standing:
    """What the next charge is added to."""
    now = totals(db)
    epsilon, delta, profiles = now.spent_epsilon, now.spent_delta, Counter[str]()
    if now.accountant == "pld":
        row = db.execute("SELECT coalesce(sum(epsilon), 0), coalesce(sum(delta), 0) FROM charges")
        epsilon, delta = row.fetchone()
        profiles.update(text for (text,) in db.execute("SELECT profile FROM charges"))
    return Standing(now, (epsilon, delta), profiles)


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
    return f"{amount(units, unit):.6g}"
