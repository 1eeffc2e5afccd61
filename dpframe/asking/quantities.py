"""What is known of a release before the data are read: numbers, and what they mean."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from fractions import Fraction
from typing import Protocol

from dpframe.budget import Budget, PrivacyUnit
from dpframe.hierarchy import Hierarchy
from dpframe.noise import NoiseTable, UnboundedNoise


class Promises(Protocol):
    """What has to be known of a plan."""

    @property
    def budget(self) -> Budget: ...

    @property
    def unit(self) -> PrivacyUnit: ...


def guarantee(plan: Promises) -> str:
    """The privacy claim, as one sentence; every document and card quotes this function."""
    return claim(plan.budget, plan.unit.sentence)


def claim(budget: Budget, neighbours: str) -> str:
    """What a budget promises for two tables that differ so; without delta it is pure."""
    epsilon, delta = budget.epsilon, budget.delta
    spent = f"({epsilon:g}, {delta:g})" if delta else f"{epsilon:g}"
    return f"{spent}-differential privacy for {neighbours}"


@dataclass(frozen=True, slots=True)
class Quantity:
    """One line of a plan: a number or text, and what it means."""

    name: str
    value: object
    meaning: str

    @property
    def shown(self) -> str:
        """The value as text."""
        return shown(self.value)


def rounded_up(x: float) -> str:
    """Four digits, never below ``x``."""
    mantissa, exponent = f"{x:.3e}".split("e")
    if float(f"{mantissa}e{exponent}") < x:
        mantissa = f"{float(mantissa) + 0.001:.3f}"
    return f"{mantissa}e{exponent}"


def hierarchy_line(hierarchy: Hierarchy) -> Quantity:
    """The columns and their levels, of many the first and the last."""
    names = hierarchy.level_names
    few = ", ".join(names if len(names) <= 6 else (*names[:3], "...", names[-1]))
    reading = f"; {hierarchy.reading}" if hierarchy.reading else ""
    return Quantity("hierarchy", hierarchy.spec, f"{hierarchy.height} levels: {few}{reading}")


def worth_of(units: int, unit: PrivacyUnit, *, up: bool) -> float:
    """Units of the grid as whole records or users, at least 1, or as what a unit measures to four
    digits."""
    if not unit.measured:
        return max(1, -(-units // unit.grid) if up else units // unit.grid)
    exact = Fraction(units) * Fraction(unit.worth) / unit.grid
    digits = Context(prec=4, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    near = digits.divide(exact.numerator, exact.denominator)
    return int(near) if near == near.to_integral_value() else float(near)


def noise_text(law: NoiseTable | UnboundedNoise, grid: float) -> str:
    """A law of noise as people read it, in records or users, or in a measure of which ``grid``
    units are 1."""
    if law.ends is None:
        return f"{law.family}, sd {law.sd / grid:.4g}"
    low, high = (end / grid for end in law.ends)
    return f"{law.family}, sd {law.sd / grid:.3g}, within [{low:.4g}, {high:.4g}]"


def shown(value: object) -> str:
    """A value as people read it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
