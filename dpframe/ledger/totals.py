"""A ledger's totals, what is spent and what is left. Amounts in units of the store."""

from __future__ import annotations

import json
import math
import sqlite3
import uuid
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from dpframe.budget import as_float
from dpframe.common.calls import shown_value
from dpframe.errors import BudgetError, LedgerError, ParameterTypeError
from dpframe.ledger import store as schema
from dpframe.ledger.store import (
    DAMAGED,
    DELTA_UNIT,
    EPSILON_UNIT,
    damage_error,
    file_format,
    float_amount,
    units_down,
)

Accountant = Literal["sum", "pld"]

Units = tuple[int, int]
"""Epsilon and delta in units of the store."""

Exact = tuple[Fraction, Fraction]
"""Epsilon and delta as they were asked for, without what rounding up to units adds."""

HALF_ULP = Fraction(1, 2**53)
"""The most that rounding to a float adds to a number, relative to the number."""


def largest_sum(total: float) -> Fraction:
    """The most that parts of a total may add up to: n times total / n, where the division is
    rounded to a float."""
    return Fraction(total) * (1 + HALF_ULP)


def exact_amounts(units: Units) -> Exact:
    """Units of the store as fractions."""
    return units[0] * Fraction(EPSILON_UNIT), units[1] * Fraction(DELTA_UNIT)


def units_rounded_up(amounts: Exact) -> Units:
    """Fractions in units of the store, rounded up."""
    return (
        math.ceil(amounts[0] / Fraction(EPSILON_UNIT)),
        math.ceil(amounts[1] / Fraction(DELTA_UNIT)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """An (epsilon, delta), spent or left."""

    epsilon: float
    delta: float


def spending_of(units: Units) -> Spending:
    return Spending(
        epsilon=float_amount(units[0], EPSILON_UNIT), delta=float_amount(units[1], DELTA_UNIT)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The one row of the table ``budget``. In a ``LedgerState`` the spent amounts are sums of costs
    that were rounded up, and can be some units above the totals."""

    ledger_id: str
    accountant: Accountant
    epsilon: int
    delta: int
    spent_epsilon: int
    spent_delta: int
    asked: tuple[float, float] | None = None
    protects: str | None = None
    """What the totals hold for. None until the first charge, unless the caller said it."""

    @property
    def total(self) -> tuple[float, float]:
        """The totals as they were asked for, which need not be multiples of a unit."""
        return self.asked or (
            float_amount(self.epsilon, EPSILON_UNIT),
            float_amount(self.delta, DELTA_UNIT),
        )

    @staticmethod
    def first_row(
        asked: tuple[float, float], accountant: Accountant, protects: str | None
    ) -> tuple[object, ...]:
        """The row of ``budget`` that a new ledger begins with."""
        return uuid.uuid4().hex, accountant, *units_of(asked), json.dumps(asked), protects

    def is_of(self, asked: tuple[float, float]) -> bool:
        """Whether ``asked``, rounded down to units, are these totals."""
        return units_of(asked) == (self.epsilon, self.delta)

    @property
    def constants(self) -> tuple[object, ...]:
        """What never changes after a ledger is made."""
        return self.ledger_id, self.accountant, self.epsilon, self.delta, self.asked

    @property
    def spent_units(self) -> Units:
        return self.spent_epsilon, self.spent_delta

    @property
    def spending(self) -> Spending:
        return spending_of(self.cap(self.spent_units))

    @property
    def remainder(self) -> Spending:
        spent = self.cap(self.spent_units)
        return spending_of((self.epsilon - spent[0], self.delta - spent[1]))

    def with_spending(self, spent: Units) -> Totals:
        """The same totals with another amount spent."""
        return replace(self, spent_epsilon=spent[0], spent_delta=spent[1])

    def cap(self, spent: Units) -> Units:
        """What is spent, without the units that rounding up adds above the totals."""
        return min(spent[0], self.epsilon), min(spent[1], self.delta)


def read_totals(db: sqlite3.Connection) -> Totals:
    """The totals of a ledger, and what is spent now."""
    asked = "asked, protects" if file_format(db) >= schema.ASKED else "NULL, NULL"
    row = db.execute(
        f"SELECT ledger_id, accountant, epsilon, delta, spent_epsilon, spent_delta, {asked} "
        "FROM budget"
    ).fetchone()
    if row is None:
        raise LedgerError(f"the ledger is damaged, it has no totals. {DAMAGED}")
    if not all(isinstance(units, int) for units in row[2:6]):
        raise LedgerError(f"the ledger is damaged, its totals are no numbers. {DAMAGED}")
    return Totals(
        ledger_id=row[0],
        accountant=row[1],
        epsilon=row[2],
        delta=row[3],
        spent_epsilon=row[4],
        spent_delta=row[5],
        asked=_read_total(row[6], row[2:4]),
        protects=row[7],
    )


def _read_total(text: str | None, units: Units) -> tuple[float, float] | None:
    """The totals as they were asked for, None in formats without them; LedgerError if they do not
    round down to ``units``."""
    if text is None:
        return None
    try:
        epsilon, delta = map(float, json.loads(text))
        same = units_of((epsilon, delta)) == units
    except (TypeError, ValueError, ArithmeticError):
        same = False
    if not same:
        raise damage_error("its totals have changed")
    return epsilon, delta


def units_of(total: tuple[float, float]) -> Units:
    """A total in units, rounded down."""
    return units_down(total[0], EPSILON_UNIT), units_down(total[1], DELTA_UNIT)


def checked_total(epsilon: object, delta: object) -> tuple[float, float]:
    """Check the totals of a ledger or the cost of a filter; BudgetError, or ParameterTypeError for
    what is no number."""
    found: list[float] = []
    for name, value, high in (("epsilon", epsilon, 1e6), ("delta", delta, 1.0)):
        if value is None:
            raise BudgetError(f"a ledger needs both totals. Pass {name}= too.")
        total = as_float(value)
        if total is None:
            raise ParameterTypeError(f"{name} must be a number; got {shown_value(value)}.")
        if not 0 < total < high:  # also refuses NaN
            raise BudgetError(
                f"{name} ({value!r}), a total, must be above 0 and below {high:g}. For example: "
                "epsilon=3.0, delta=1e-5."
            )
        found.append(total)
    if not all(units_of((found[0], found[1]))):
        raise BudgetError(f"epsilon ({epsilon!r}) or delta ({delta!r}) is too small to be a total.")
    return found[0], found[1]
