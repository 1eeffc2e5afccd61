"""What a plan draws: one list, from which its proof, curve, receipt and card follow.

A plan states once which noise it adds to which numbers, what one protected record or user moves
there, and how the draws compose. ``asking/proofs.py`` writes the proof from the list, the ledger
takes the curve, the receipt its facts on noise, and the card its lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dpframe.accounting.compose import Profile, whole_profile
from dpframe.asking.card import Line, noise_line
from dpframe.budget import Budget, group_delta
from dpframe.noise import NoiseTable, UnboundedNoise, law_facts

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
