"""Cards: lines on a release that are known before the data are read, as data and as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from fractions import Fraction

from dpframe._html import folded_html
from dpframe._terminal import visible
from dpframe.budget import Budget, PrivacyUnit
from dpframe.hierarchy import Hierarchy
from dpframe.noise import NoiseTable, UnboundedNoise


def budget_claim(budget: Budget, neighbours: str) -> str:
    """Return what a budget promises for ``neighbours``; without delta the promise is pure."""
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
        What fills the templates, by name; None if the texts come from a stored card.
    """

    id: str
    value: object
    meaning: str
    values: Mapping[str, object] | None = None

    @classmethod
    def of(cls, id: str, value: object, meaning: str, /, **values: object) -> Line:
        """Return a line with templates and the values that fill them."""
        return cls(id, value, meaning, values)

    def _fill(self, template: str) -> str:
        return template if self.values is None else template.format_map(self.values)

    @property
    def name(self) -> str:
        """The first column of a card."""
        return self._fill(self.id)

    @property
    def content(self) -> object:
        """The value; a template is filled."""
        return self._fill(self.value) if isinstance(self.value, Text) else self.value

    @property
    def value_text(self) -> str:
        """The second column of a card."""
        return format_value(self.content)

    @property
    def meaning_text(self) -> str:
        """The third column of a card: what the value means."""
        return self._fill(self.meaning)

    @property
    def row(self) -> list[object]:
        """The line as receipts store it: name, value and meaning."""
        return [self.name, self.content, self.meaning_text]


def four_digits_up(x: float) -> str:
    """Return ``x`` with four digits, rounded up."""
    mantissa, exponent = f"{x:.3e}".split("e")
    if float(f"{mantissa}e{exponent}") < x:
        mantissa = f"{float(mantissa) + 0.001:.3f}"
    return f"{mantissa}e{exponent}"


def hierarchy_line(hierarchy: Hierarchy) -> Line:
    """Return the line on the columns and their levels; of more than six levels, the first three
    and the last are named."""
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


def hierarchy_lines(hierarchy: Hierarchy) -> list[Line]:
    """Return the line on one hierarchy, or the lines on the kinds of cells of several."""
    if not hierarchy.has_cells:
        return [hierarchy_line(hierarchy)]
    meaning, names = "{kinds} kinds of cells, besides the total", hierarchy.level_names
    order = (
        "each record counts in the first of these that is reported, so that rows are of disjoint "
        "records and add up"
    )
    return [
        Line.of("hierarchies", hierarchy.spec, meaning, kinds=len(names)),
        Line("order", "; ".join(reversed(names)), order),
    ]


def units_to_worth(units: int, unit: PrivacyUnit, *, up: bool) -> float:
    """Convert units of the grid to whole records or users, at least 1; to four digits if the unit
    is a measure. ``up`` is the direction of rounding."""
    if not unit.measured:
        return max(1, -(-units // unit.grid) if up else units // unit.grid)
    exact = Fraction(units) * Fraction(unit.worth) / unit.grid
    digits = Context(prec=4, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    near = digits.divide(exact.numerator, exact.denominator)
    return int(near) if near == near.to_integral_value() else float(near)


def noise_line(
    id: str, law: NoiseTable | UnboundedNoise, grid: float, meaning: str, /, **values: object
) -> Line:
    """Return the line on a law of noise, in records, users or a measure, of which ``grid`` units
    are 1."""
    facts = {"family": law.family, "sd": law.sd / grid, **values}
    if law.ends is None:
        return Line.of(id, Text("{family}, sd {sd:.4g}"), meaning, **facts)
    low, high = (end / grid for end in law.ends)
    text = Text("{family}, sd {sd:.3g}, within [{lowest:.4g}, {highest:.4g}]")
    return Line.of(id, text, meaning, lowest=low, highest=high, **facts)


def typical_error_line(
    half_width: float, confidence: float, meaning: str, /, **values: object
) -> Line:
    """Return the line on half the width of intervals."""
    text = Text("+-{half_width} with confidence {confidence:g}")
    return Line.of(
        "typical error", text, meaning, half_width=half_width, confidence=confidence, **values
    )


def format_value(value: object) -> str:
    """Write a value as people read it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def card_text(title: str, lines: list[Line]) -> str:
    """Write a title and lines as text."""
    wide = max(len(line.name) for line in lines)
    rows = [
        visible(f"{line.name:<{wide}}  {line.value_text}  ({line.meaning_text})") for line in lines
    ]
    return "\n".join([title, "-" * len(title), *rows])


ERROR_LINES = ("typical error", "error of", "standard error", "noise")
"""How the names of lines on errors begin, the plainest first."""

WARNING_LINES = ("noise source", "frame", "notice", "replayed")
"""Names of lines that come first: they warn of a result, or say what it is."""


def card_summary(lines: Sequence[Line]) -> list[str]:
    """Return a card in a few lines: warnings, the promise, one error, and the budget."""
    loud = [line for line in lines if line.name in WARNING_LINES]
    promise = [line for line in lines if line.name == "guarantee"]
    wide = next((q for name in ERROR_LINES for q in lines if q.name.startswith(name)), None)
    budget = [line for line in lines if line.name in ("budget", "in the ledger")]
    told = [f"{line.name}: {line.value_text}, {line.meaning_text}" for line in loud]
    told += [line.value_text for line in promise]
    told += [] if wide is None else [f"{wide.name}: {wide.value_text}, {wide.meaning_text}"]
    return told + [f"{line.name}: {line.value_text}, {line.meaning_text}" for line in budget]


def html_card(title: str, lines: list[Line], first: Iterable[str]) -> str:
    """Write a card as HTML: ``first`` in view, and all lines folded below."""
    rows = [(line.name, line.value_text, line.meaning_text) for line in lines]
    return folded_html(
        title, map(visible, first), "all of it", [[*map(visible, row)] for row in rows]
    )
