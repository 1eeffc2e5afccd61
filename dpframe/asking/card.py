"""Cards: lines that are known of a release before the data are read, as data and as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from fractions import Fraction
from typing import Protocol

from dpframe._html import folded
from dpframe._terminal import visible
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


class Text(str):
    """The value of a line as a template, which is filled when the line is shown."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a card: what it is about, its value, and what the value means.

    Code reads ``id``, ``value`` and ``values``; English is made when the line is shown.

    Parameters
    ----------
    id
        What the line is about: a template where it names a measure, such as ``error of {name}``.
    value
        A number, yes or no, a text, or a template (``Text``).
    meaning
        A template.
    values
        What stands in the templates, by name; None where the texts are those of a stored card.
    """

    id: str
    value: object
    meaning: str
    values: Mapping[str, object] | None = None

    @classmethod
    def of(cls, id: str, value: object, meaning: str, /, **values: object) -> Line:
        """A line with templates and what fills them."""
        return cls(id, value, meaning, values)

    def _fill(self, template: str) -> str:
        return template if self.values is None else template.format_map(self.values)

    @property
    def name(self) -> str:
        """The first column of a card."""
        return self._fill(self.id)

    @property
    def content(self) -> object:
        """The value, as a text where it is a template."""
        return self._fill(self.value) if isinstance(self.value, Text) else self.value

    @property
    def shown(self) -> str:
        """The second column of a card."""
        return shown(self.content)

    @property
    def said(self) -> str:
        """The third column of a card: what the value means."""
        return self._fill(self.meaning)

    @property
    def row(self) -> list[object]:
        """The line as receipts store it: name, value and meaning."""
        return [self.name, self.content, self.said]


def rounded_up(x: float) -> str:
    """Four digits, never below ``x``."""
    mantissa, exponent = f"{x:.3e}".split("e")
    if float(f"{mantissa}e{exponent}") < x:
        mantissa = f"{float(mantissa) + 0.001:.3f}"
    return f"{mantissa}e{exponent}"


def hierarchy_line(hierarchy: Hierarchy) -> Line:
    """The columns and their levels, of many the first and the last."""
    names = hierarchy.level_names
    few = ", ".join(names if len(names) <= 6 else (*names[:3], "...", names[-1]))
    reading = f"; {hierarchy.reading}" if hierarchy.reading else ""
    return Line.of(
        "hierarchy",
        hierarchy.spec,
        "{height} levels: {few}{reading}",
        height=hierarchy.height,
        few=few,
        reading=reading,
    )


def worth_of(units: int, unit: PrivacyUnit, *, up: bool) -> float:
    """Units of the grid as whole records or users, at least 1, or as what a unit measures to four
    digits."""
    if not unit.measured:
        return max(1, -(-units // unit.grid) if up else units // unit.grid)
    exact = Fraction(units) * Fraction(unit.worth) / unit.grid
    digits = Context(prec=4, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    near = digits.divide(exact.numerator, exact.denominator)
    return int(near) if near == near.to_integral_value() else float(near)


def noise_line(
    id: str, law: NoiseTable | UnboundedNoise, grid: float, meaning: str, /, **values: object
) -> Line:
    """A law of noise in records or users, or in a measure of which ``grid`` units are 1."""
    facts = {"family": law.family, "sd": law.sd / grid, **values}
    if law.ends is None:
        return Line.of(id, Text("{family}, sd {sd:.4g}"), meaning, **facts)
    low, high = (end / grid for end in law.ends)
    text = Text("{family}, sd {sd:.3g}, within [{lowest:.4g}, {highest:.4g}]")
    return Line.of(id, text, meaning, lowest=low, highest=high, **facts)


def shown(value: object) -> str:
    """A value as people read it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def card_text(title: str, lines: list[Line]) -> str:
    """Lines as text."""
    wide = max(len(line.name) for line in lines)
    rows = [visible(f"{line.name:<{wide}}  {line.shown}  ({line.said})") for line in lines]
    return "\n".join([title, "-" * len(title), *rows])


ERRORS = ("typical error", "error of", "standard error", "noise")
"""Lines that say how far numbers are off, by how they begin, the plainest first."""

LOUD = ("noise source", "frame", "notice", "replayed")
"""Lines that say something against a result, or what it is, before anything else."""


def said_first(lines: Sequence[Line]) -> list[str]:
    """What a card says in a few lines: what it has to say against itself, the promise, how far
    numbers are off, and the budget."""
    loud = [line for line in lines if line.name in LOUD]
    promise = [line for line in lines if line.name == "guarantee"]
    wide = next((q for name in ERRORS for q in lines if q.name.startswith(name)), None)
    budget = [line for line in lines if line.name in ("budget", "in the ledger")]
    told = [f"{line.name}: {line.shown}, {line.said}" for line in loud]
    told += [line.shown for line in promise]
    told += [] if wide is None else [f"{wide.name}: {wide.shown}, {wide.said}"]
    return told + [f"{line.name}: {line.shown}, {line.said}" for line in budget]


def html_card(title: str, lines: list[Line], first: Iterable[str]) -> str:
    """Lines as HTML: the first ones, and all of them folded below."""
    rows = [(line.name, line.shown, line.said) for line in lines]
    return folded(title, map(visible, first), "all of it", [[*map(visible, row)] for row in rows])
