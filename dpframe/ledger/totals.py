"""A ledger's totals, what is spent and what is left. Amounts in units of the store."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Literal

from dpframe._known_arguments import shown
from dpframe.budget import as_float
from dpframe.errors import BudgetError, LedgerError, ParameterTypeError
from dpframe.ledger.store import DAMAGED, DELTA_UNIT, EPSILON_UNIT, amount, units_down

Accountant = Literal["sum", "pld"]

Units = tuple[int, int]
"""Epsilon and delta in units of the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """An (epsilon, delta), spent or left."""

    epsilon: float
    delta: float


def spending(units: Units) -> Spending:
    return Spending(epsilon=amount(units[0], EPSILON_UNIT), delta=amount(units[1], DELTA_UNIT))


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
    def fixed(self) -> tuple[str, Accountant, int, int]:
        """What never changes after a ledger is made."""
        return self.ledger_id, self.accountant, self.epsilon, self.delta

    @property
    def spent_units(self) -> Units:
        return self.spent_epsilon, self.spent_delta

    @property
    def spent(self) -> Spending:
        return spending(self.spent_units)

    @property
    def left(self) -> Spending:
        return spending((self.epsilon - self.spent_epsilon, self.delta - self.spent_delta))


def totals(db: sqlite3.Connection) -> Totals:
    """The budget as it stands."""
    row = db.execute(
        "SELECT ledger_id, accountant, epsilon, delta, spent_epsilon, spent_delta FROM budget"
    ).fetchone()
    if row is None:
        raise LedgerError(f"the ledger is damaged, it has no totals: {DAMAGED}")
    if not all(isinstance(units, int) for units in row[2:]):
        raise LedgerError(f"the ledger is damaged, its totals are no numbers: {DAMAGED}")
    return Totals(
        ledger_id=row[0],
        accountant=row[1],
        epsilon=row[2],
        delta=row[3],
        spent_epsilon=row[4],
        spent_delta=row[5],
    )


def total_units(epsilon: object, delta: object) -> Units:
    """Totals that somebody asks for, in units, checked."""
    found: list[float] = []
    for name, value, high in (("epsilon", epsilon, 1e6), ("delta", delta, 1.0)):
        if value is None:
            raise BudgetError(f"a ledger needs both totals: pass {name}= too.")
        total = as_float(value)
        if total is None:
            raise ParameterTypeError(f"{name} must be a number; got {shown(value)}.")
        if not 0 < total < high:  # also refuses NaN
            raise BudgetError(
                f"{name} ({value!r}), a total, must be above 0 and below {high:g}: for example "
                "epsilon=3.0, delta=1e-5."
            )
        found.append(total)
    units = units_down(found[0], EPSILON_UNIT), units_down(found[1], DELTA_UNIT)
    if not all(units):
        raise BudgetError(f"epsilon ({epsilon!r}) or delta ({delta!r}) is too small to be a total.")
    return units
