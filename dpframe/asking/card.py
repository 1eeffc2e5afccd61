"""Cards: lines as data and as text, notices on released numbers, and what a plan draws.

**What a plan draws** is one list, from which its proof, curve, receipt and card follow.

A plan states once which noise it adds to which numbers, what one protected record or user moves
there, and how the draws compose. ``asking/level_plan.py`` writes the proof from the list, the
ledger takes the curve, the receipt its facts on noise, and the card its lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpframe.accounting.compose import Profile, whole_profile
from dpframe.asking.measure_texts import bound_words
from dpframe.budget import Budget, PrivacyUnit, as_written, group_delta
from dpframe.common.texts import folded_html, visible
from dpframe.hierarchy import INVALID, OTHER, Hierarchy
from dpframe.noise import NoiseTable, UnboundedNoise, law_facts

if TYPE_CHECKING:
    import pandas as pd


def budget_claim(budget: Budget, neighbours: str) -> str:
    """Return what a budget promises for ``neighbours``."""
    return f"{kind_of_privacy(budget.epsilon, budget.delta)} for {neighbours}"


def kind_of_privacy(epsilon: float, delta: float) -> str:
    """Return the name of what a budget promises; without delta the promise is pure."""
    spent = f"({epsilon:g}, {delta:g})" if delta else f"{epsilon:g}"
    return f"{spent}-differential privacy"


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


def hierarchy_lines(
    hierarchy: Hierarchy, *, adds_up: bool = True, whole: bool = False
) -> list[Line]:
    """Return the line on one hierarchy, or the lines on the kinds of cells of several; of ``whole``
    kinds all cells are shown."""
    if not hierarchy.has_cells:
        return [hierarchy_line(hierarchy)]
    meaning, names = "{kinds} kinds of cells, besides the total", hierarchy.level_names
    order = "each row is of all of its cell, so that rows overlap and do not add up"
    if whole:
        order = "rows of one kind are disjoint, and add up to those of coarser kinds"
    elif adds_up:
        order = (
            "each record counts in the first of these that is reported, so that rows are of "
            "disjoint records and add up"
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

NOT_SHOWN_LINES = ("not shown", "shows more")
"""Ids of the lines on what a release does not show; a measure can have such a name."""

CUT_LINES = ("cut", "no user")
"""Ids of the lines on what bounds cut, and on rows without a user; a measure can have such a
name."""

NO_USER = "rows whose {user} is NULL are one user together"
"""What every release by user says of rows without one."""


def cut_lines(facts: Mapping[str, object]) -> list[Line]:
    """Return a line for each number of a receipt that bounds cut, and one on rows without a user,
    the same whether there are such rows or not."""
    meaning = "what is more is not in the number; the interval holds the noise alone"
    lines = [
        Line.of("cut", Text("{name}: {words}"), meaning, name=name, words=words)
        for name, words in bound_words(facts).items()
    ]
    return [*lines, *no_user_lines(facts.get("user"))]


def no_user_lines(user: object) -> list[Line]:
    """Return the line on rows without a user; none if no column of users is named."""
    return [] if user is None else [Line.of("no user", "one user", NO_USER, user=repr(user))]


def card_summary(lines: Sequence[Line]) -> list[str]:
    """Return a card in a few lines: warnings, the promise, one error, and the budget."""
    loud = [line for line in lines if line.name in WARNING_LINES]
    promise = [line for line in lines if line.name == "guarantee"]
    wide = next((q for name in ERROR_LINES for q in lines if q.name.startswith(name)), None)
    budget = [line for line in lines if line.name in ("budget", "in the ledger")]
    told = [f"{line.name}: {line.value_text}, {line.meaning_text}" for line in loud]
    told += [line.value_text for line in promise]
    told += [] if wide is None else [f"{wide.name}: {wide.value_text}, {wide.meaning_text}"]
    others = (*NOT_SHOWN_LINES, *CUT_LINES)
    unseen = [line for line in lines if line.id in others and line.values is not None]
    told += [f"{line.name}: {line.value_text}, {line.meaning_text}" for line in unseen]
    return told + [f"{line.name}: {line.value_text}, {line.meaning_text}" for line in budget]


def html_card(title: str, lines: list[Line], first: Iterable[str]) -> str:
    """Write a card as HTML: ``first`` in view, and all lines folded below."""
    rows = [(line.name, line.value_text, line.meaning_text) for line in lines]
    return folded_html(
        title, map(visible, first), "all of it", [[*map(visible, row)] for row in rows]
    )


Curve = Callable[[Sequence[float]], Iterable[tuple[float, float]]]
"""The points (epsilon, delta) of one record, for increasing epsilons."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Draw:
    """Noise of one law, and the numbers that it is added to.

    Parameters
    ----------
    names
        The names under which the receipt has the law; none where another draw tells it.
    law
        The noise, in units: ``grid`` units are ``worth`` records, users, or units of a measure.
    label, applies_to
        What a line of the card is about, and what the noise is added to: templates, filled with
        ``values``. Without a label the card has no line.
    moves
        Units by which one record or user moves each number; None for one record, or for the shares
        of one user on a level together.
    times
        How many numbers with this noise one record or user moves.
    least
        The smallest noisy number that is shown, in units; None where each is shown.
    scale
        The scale of a table of Laplace noise, in records, if the proof bounds losses by it.
    """

    law: NoiseTable | UnboundedNoise
    names: tuple[str, ...] = ()
    grid: int = 1
    worth: float = 1
    label: str = ""
    applies_to: str = ""
    moves: int | None = None
    times: int = 1
    least: int | None = None
    scale: float | None = None
    values: Mapping[str, object] = field(default_factory=dict)

    @property
    def facts(self) -> dict[str, Any]:
        """The law as the receipt has it."""
        return law_facts(self.law, self.grid, self.worth)

    @property
    def line(self) -> Line:
        """The line of the card."""
        grid = self.grid / self.worth
        return noise_line(self.label, self.law, grid, self.applies_to, **self.values)

    @property
    def level(self) -> dict[str, object]:
        """The draw as a level of a game of counts."""
        unbounded = isinstance(self.law, UnboundedNoise)
        scale = str(self.law.scale) if isinstance(self.law, UnboundedNoise) else self.scale
        return {
            **({} if unbounded else {"table": self}),
            **({} if scale is None else {"scale": scale}),
            **({} if self.moves is None else {"moves": self.moves}),
            "least": self.least,
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DrawList:
    """The draws of a plan, and how they compose.

    Parameters
    ----------
    kind
        The kind of game in the proof (docs/verifying.md); None where no proof is written yet.
    draws
        Each kind of noisy number once.
    facts
        The numbers of the game, with draws in the places of their tables.
    delta
        The delta that the accountant computed for one record, or for a whole user.
    group
        How many records of one user the promise is for; 1 where the accounting covers a user.
    curve
        The curve of one record; None where only the budget is known.
    """

    kind: str | None
    draws: tuple[Draw, ...]
    facts: Mapping[str, object] = field(default_factory=dict)
    delta: float = 0.0
    group: int = 1
    curve: Curve | None = None

    @property
    def noise(self) -> dict[str, Any]:
        """The laws by the names that receipts have for them."""
        return {name: draw.facts for draw in self.draws for name in draw.names}

    @property
    def lines(self) -> list[Line]:
        """The lines of the card on noise."""
        return [draw.line for draw in self.draws if draw.label]

    def profile(self, budget: Budget) -> Profile:
        """The points (epsilon, delta) that a release keeps, from which ledgers compose it."""
        if self.curve is None:
            return ((budget.epsilon, budget.delta),)
        return whole_profile(budget, self.group, self.curve)

    def delta_spent(self, budget: Budget) -> float:
        """The computed delta for the unit of privacy, at most the delta of the budget."""
        return group_delta(budget, self.group, self.delta)

    def game(self) -> tuple[dict[str, object], list[NoiseTable]]:
        """The game as plain JSON types, and the tables that it numbers, each different one once."""
        tables: dict[tuple[int, bytes], tuple[int, NoiseTable]] = {}
        return _game_facts(self, tables), [table for _, table in tables.values()]


def counts_game(
    draws: Sequence[Draw], *, units: int = 1, delta: float, group: int, curve: Curve | None = None
) -> DrawList:
    """Return the list of draws of noisy counts; each draw is for ``times`` counts in the game.

    One record or user moves each count by one, or all counts of a level together by the shares of
    one user. The game has the counts first that are always shown.
    """
    ordered = sorted(draws, key=lambda draw: draw.least is not None)
    return DrawList(
        kind="counts",
        draws=tuple(draws),
        facts={
            "units": units,
            "levels": [draw.level for draw in ordered for _ in range(draw.times)],
        },
        delta=delta,
        group=group,
        curve=curve,
    )


def _game_facts(value: Any, tables: dict[tuple[int, bytes], tuple[int, NoiseTable]]) -> Any:
    """Return a game with numbers of tables in the places of draws; new tables are added."""
    if isinstance(value, Draw):
        assert isinstance(value.law, NoiseTable)
        key = (value.law.lowest, value.law.weights.tobytes())
        return tables.setdefault(key, (len(tables), value.law))[0]
    if isinstance(value, DrawList):
        return {"kind": value.kind, **_game_facts(value.facts, tables)}
    if isinstance(value, Mapping):
        return {name: _game_facts(each, tables) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_game_facts(each, tables) for each in value]
    return value


def invalid_notices(frame: pd.DataFrame, hierarchy: Hierarchy) -> list[Line]:
    """Return a line for every column in which most of what was counted is <invalid>."""
    return [
        _mostly_invalid_line(column, hierarchy.kind)
        for column in _mostly_invalid_columns(frame, hierarchy)
    ]


ADDRESS = re.compile(r"\d{1,3}(\.\d{1,3}){3}|[0-9a-f:]*:[0-9a-f:]*:[0-9a-f:]*", re.IGNORECASE)
"""How addresses are written, roughly."""


def address_notices(frame: pd.DataFrame, hierarchy: Hierarchy) -> list[Line]:
    """Return a line if the released values of a single column are addresses."""
    if hierarchy.kind != "columns" or hierarchy.height != 1:
        return []
    values = [v for v in frame["prefix"].astype("str") if v not in ("*", INVALID, OTHER)]
    if not values or not all(map(ADDRESS.fullmatch, values)):
        return []
    meaning = (
        "{asked} shows their networks, too, and those of which no address reaches the threshold"
    )
    asked = f"hhh of 'ip:{hierarchy.source_columns[0]}'"
    return [Line.of("notice", "the values are addresses", meaning, asked=asked)]


def zero_weights_notices(frame: pd.DataFrame, column: str) -> list[Line]:
    """Return a line for a column of weights that are texts, unless the total is certainly above 0:
    texts that are no whole numbers count 0."""
    total = frame.loc[frame["level"] == 0, "lower"]
    if len(total) and total.min() > 0:
        return []
    return [
        Line.of(
            "notice",
            "weights may all be 0",
            (
                "the interval of the total holds 0, and texts that are no whole number, such "
                "as 12.50, count 0: does column {column!r} hold whole numbers?"
            ),
            column=column,
        )
    ]


def zero_measure_notices(frame: pd.DataFrame, unit: PrivacyUnit) -> list[Line]:
    """Return a line if the total of a measure may be 0.

    The reason stays open: a bound far above all rows looks the same as a column without numbers.
    """
    total = frame.loc[frame["level"] == 0, "lower"]
    if not len(total) or total.min() > 0:
        return []
    return [
        Line.of(
            "notice",
            "nothing may be there",
            (
                "the interval of the total holds 0: does column {weight!r} hold positive "
                "numbers, and is max_weight ({most}) not far above them?"
            ),
            weight=unit.weight,
            most=as_written(unit.worth),
        )
    ]


def as_floats(column: pd.Series[Any]) -> NDArray[np.float64]:
    """Return the numbers of a column; NaN for what is missing."""
    if isinstance(column.dtype, np.dtype):  # pandas is slow where numbers can be missing
        return column.to_numpy().astype(np.float64)
    return column.to_numpy(np.float64, na_value=np.nan)


def reported_node_rows(frame: pd.DataFrame) -> NDArray[np.bool_]:
    """Return which rows are nodes that were found or asked for, not the total, not ``<other>``."""
    rests = frame["prefix"].astype("str").str.endswith(OTHER).to_numpy(np.bool_)
    return (frame["level"].to_numpy() > 0) & ~rests


def wide_interval_notices(
    frame: pd.DataFrame, columns: Sequence[str] = ("count", "lower", "upper"), *, name: str = ""
) -> list[Line]:
    """Return a line if the interval of the total, or of most nodes, is wider than the number: such
    numbers are mostly noise.

    Parameters
    ----------
    frame
        Rows of a release.
    columns
        The columns of a number, whose true value is never below 0, and of its interval's ends.
    name
        The name of the measure, if there are several.
    """
    value, lower, upper = (as_floats(frame[name]) for name in columns)
    wide = upper - lower > np.abs(value)  # False where a number is missing
    if not wide.any():
        return []
    total, below = (frame["level"] == 0).to_numpy(), reported_node_rows(frame)
    if not wide[total].any() and 2 * wide[below].sum() <= below.sum():
        return []
    which = ["of the total"] if wide[total].any() else []
    if wide[below].any():
        which.append(f"of {int(wide[below].sum()):,} of {int(below.sum()):,} nodes")
    of = f" of {name}" if name else ""
    return [
        Line.of(
            "notice",
            Text("noise is most of the numbers{of}"),
            (
                "the interval {which} is wider than the number itself: ask for coarser or "
                "fewer levels, with a larger epsilon, or of more data, such as a longer period"
            ),
            of=of,
            which=" and ".join(which),
        )
    ]


EXPECTED_VALUES = {
    "ip": "IP addresses",
    "date": "dates or times",
    "number": "numbers",
    "domain": "host names",
    "path": "paths",
    "code": "codes",
    "columns": "values",
}
"""What a column of each kind should hold."""


def _mostly_invalid_columns(frame: pd.DataFrame, hierarchy: Hierarchy) -> list[str]:
    """Return the columns in which, by the released numbers, more than half is <invalid>."""
    import pyarrow as pa
    import pyarrow.compute as pc

    labels = pa.array(frame["prefix"], pa.large_string(), from_pandas=True)
    if not pc.any(pc.match_substring(labels, INVALID)).as_py():
        return []  # the usual case: an <invalid> node and all nodes below it have it in their label
    level, share = frame["level"], frame["residual"]  # residuals add up to all that is released
    found = []
    shown = hierarchy.label_columns or ("prefix",)
    for depth, (name, column) in enumerate(zip(shown, hierarchy.source_columns, strict=True), 1):
        of_text = frame[name].astype(object) == INVALID
        own = of_text | (frame[name].isna() & frame["prefix"].astype("str").str.endswith(INVALID))
        # a typed column has no text <invalid>, and no row is below <other>
        above = of_text | frame[name].isna()
        invalid = share[((level == depth) & own) | ((level > depth) & above)].sum()
        if 2 * invalid > max(share.sum(), 0):
            found.append(column)
    return found


def _mostly_invalid_line(column: str, kind: str) -> Line:
    return Line.of(
        "notice",
        Text("mostly {invalid}"),
        (
            "more than half of what was counted: does column {column!r} hold {values}, and "
            "in most rows?"
        ),
        invalid=INVALID,
        column=column,
        values=EXPECTED_VALUES[kind],
    )
