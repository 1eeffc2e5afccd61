"""The selection of a rollup by rounds of weights, with what is measured along with it.

Rounds find nodes that many users have (:mod:`dpframe.mechanisms.weighted_rounds`). Users, and sums
whose bounds are for a user, are then measured with Gaussian noise, for a part of the same mu^2, so
that one bound on delta covers selection, counts and sums.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from dpframe.accounting.compose import Profile
from dpframe.accounting.weighted_round_noise import RoundLaws, round_laws
from dpframe.asking.call_arguments import add_advice
from dpframe.asking.card import Draw, DrawList, Line, Text
from dpframe.budget import Budget
from dpframe.measures import AUTO, Measure
from dpframe.mechanisms import weighted_rounds
from dpframe.mechanisms.weighted_rounds import FoundNodes, SumBounds
from dpframe.noise import law_facts
from dpframe.postprocess.joint_noise import half_width
from dpframe.questions.hhh.rounds_plan import (
    DEFAULT_ITEMS,
    ItemsUnit,
    group_shares,
    sigma_and_end,
)

SELECTION_SHARE = Fraction(1, 2)
"""Part of epsilon for the selection by rounds, and of its mu^2 where all is measured along with it:
with 0.7 a third more nodes are shown, whose sums and counts are off by a fifth more."""


def by_rounds(measure: Measure) -> bool:
    """Whether a measure of users is taken along with rounds: users, and what they add up to."""
    if measure.kind == "count":
        return measure.at_most is None
    return measure.kind == "sum" and not measure.clipped


def rounds_unit(user: str, height: int) -> ItemsUnit:
    """The unit of privacy: a user with all their records. The root is one more level."""
    return ItemsUnit(
        user=user,
        contribution="items",
        max_contributions=max(height, DEFAULT_ITEMS),
        height=height + 1,
    )


@dataclass(frozen=True, kw_only=True)
class RoundsSelection:
    """Rounds that decide which nodes are shown, and the measures that are taken along with them.

    ``measures`` have part of the budget of the selection. ``unit`` says who is protected.
    """

    unit: ItemsUnit
    budget: Budget
    height: int
    measures: Mapping[str, Measure]
    laws: RoundLaws

    @property
    def threshold(self) -> int:
        """How many users a shown node has at least, but for noise."""
        return self.laws.users

    @property
    def smallest_threshold(self) -> int:
        return self.laws.users

    @property
    def certainly_reported(self) -> None:
        """No number of users is enough for certain: it depends on how many nodes they have."""
        return None

    @property
    def band(self) -> int:
        """Every node takes part, whatever its weight."""
        return 1

    @property
    def shares(self) -> tuple[int, ...]:
        """How the square of a user's norm is divided when nodes are searched. One column has the
        root above it, which is not searched."""
        return group_shares(self.height) if self.height > 1 else (1, 0)

    @property
    def counts(self) -> tuple[str, ...]:
        """The names of measures that count users."""
        return tuple(name for name, m in self.measures.items() if m.kind == "count")

    @property
    def sums(self) -> dict[str, SumBounds]:
        """The bounds of sums, by the name of the measure."""
        columns = self.columns
        return {
            name: SumBounds(
                column=columns.index(str(m.column)),
                lower=None if m.lower == AUTO else m.lower,
                upper=None if m.upper == AUTO else m.upper,
            )
            for name, m in self.measures.items()
            if m.kind == "sum"
        }

    @property
    def columns(self) -> list[str]:
        """The columns that are added up."""
        sums = (m for m in self.measures.values() if m.kind == "sum")
        return list(dict.fromkeys(str(m.column) for m in sums))

    @property
    def sum_norms(self) -> tuple[tuple[int, ...], ...]:
        """For each sum the norms of a user at the lowest nodes, the root, and bands of levels."""
        return tuple(weighted_rounds.sum_norms(law, self.height) for law in self.laws.sums)

    @cached_property
    def draws(self) -> DrawList:
        """Gaussian noise on the weights of every round, on histograms, counts and sums.

        The game has the sigma and the end of each law, because the tables would be too long.
        """
        laws = self.laws
        measured = [
            (name, "sum", law, norms)
            for name, law, norms in zip(self.sums, laws.sums, self.sum_norms, strict=True)
        ]
        if laws.count is not None:
            norms = weighted_rounds.part_norms(laws.count, 2)
            measured = [(self.counts[0], "users", laws.count, norms), *measured]
        facts: dict[str, object] = {
            "items": laws.items,
            "unit": laws.unit,
            "threshold": laws.threshold,
            "rounds": [{**sigma_and_end(one), "part": one.part} for one in laws.rounds],
            "sizes": None if laws.sizes is None else sigma_and_end(laws.sizes),
            "histograms": laws.histograms if laws.sizes else 0,
            "measured": [
                {
                    "measure": name,
                    "of": of,
                    "values": law.values,
                    "norms": list(norms),
                    **sigma_and_end(law),
                }
                for name, of, law, norms in measured
            ],
        }
        test = Draw(
            law=laws.rounds[-1].noise,
            names=("test",),
            grid=laws.unit,
            label="test noise",
            applies_to="of the weights of the last round, in {counted}",
        )
        return DrawList(
            kind="rounds", draws=(test,), facts=facts, delta=laws.delta, curve=self._curve
        )

    def _curve(self, epsilons: Sequence[float]) -> Iterable[tuple[float, float]]:
        return tuple((e, weighted_rounds.cost(self.laws, epsilon=e)) for e in epsilons)

    @property
    def profile(self) -> Profile:
        """The points (epsilon, delta) that the selection keeps."""
        return self.draws.profile(self.budget)

    @property
    def delta_spent(self) -> float:
        return self.draws.delta_spent(self.budget)

    def lines(self, name: str) -> list[Line]:
        """The lines of the card on a measure, before the data are read."""
        measure = self.measures[name]
        if measure.kind == "count":
            return [
                Line.of(
                    "{name}",
                    measure.spec,
                    "different users at every node: they do not add up; a user with more nodes "
                    "than at_most, which is found privately, counts less at each",
                    name=name,
                ),
                Line.of(
                    "error of {name}",
                    Text("sd {sd:.3g} x root of at_most"),
                    "at lowest nodes, for the noise of a count, in users",
                    sd=self.laws.count_law.sigma
                    / weighted_rounds.part_norms(self.laws.count_law, 2)[0],
                    name=name,
                ),
            ]
        law, norms = self._law_and_norms(name)
        return [
            Line.of(
                "{name}",
                measure.spec,
                "adds up what users have at every node; what bounds cut is missing at each node on "
                "its own, so that parts do not add up to the whole",
                name=name,
            ),
            Line.of(
                "error of {name}",
                Text("sd {sd:.3g} x bound"),
                "at lowest nodes, for the noise of a sum",
                sd=law.sigma / norms[0],
                name=name,
            ),
            Line.of(
                "bounds of {name}",
                " to ".join(
                    str(b) if b == AUTO else f"{b:g}" for b in (measure.lower, measure.upper)
                ),
                "of what a user adds up to at one node, and of the root of the sum of their "
                "squares over all lowest nodes, and over nodes of upper levels; what is beyond is "
                "cut, a bias that no interval covers",
                name=name,
            ),
        ]

    @property
    def _count_sd(self) -> float:
        """The noise in counts of lowest nodes, for each root of ``at_most``."""
        law = self.laws.count_law
        return law.sigma / weighted_rounds.part_norms(law, 2)[0]

    def _law_and_norms(self, name: str) -> tuple[Any, tuple[int, ...]]:
        at = list(self.sums).index(name)
        return self.laws.sums[at], self.sum_norms[at]

    def known_unit(self, found: FoundNodes) -> ItemsUnit:
        """The unit of privacy, with what a release found for ``at_most``."""
        if not self.counts:
            return self.unit
        return replace(self.unit, at_most=found.at_most[0], above=found.at_most[1])

    def found_lines(self, found: FoundNodes, confidence: float) -> list[Line]:
        """The lines of the card on what a release found: ``at_most``, bounds and errors."""
        lines = []
        if self.counts:
            law = self.laws.count_law
            grids = weighted_rounds.full_user_weights(law, found.at_most)
            names, half = ("at_most", "at_most_above"), half_width(law.noise, 1, confidence)
            for name, of, most in zip(names, PARTS, found.at_most, strict=True):
                meaning = f"{of} of a user that count fully"
                lines.append(Line(name, most, f"{meaning}; of one with more, each counts less"))
            for name in self.counts:
                text = ", ".join(
                    f"+-{half / grid:.4g} at {of}" for of, grid in zip(PARTS, grids, strict=True)
                )
                lines.append(
                    Line(f"error of {name}", text, f"for its noise, with confidence {confidence:g}")
                )
        for name, law, norms, one in zip(
            self.sums, self.laws.sums, self.sum_norms, found.sums, strict=True
        ):
            half, places = half_width(law.noise, 1, confidence), self._places
            bounds = ", ".join(
                f"{bound:g} at {of}" for of, bound in zip(places, one.norms, strict=True)
            )
            errors = ", ".join(
                f"+-{half * bound / norm:.4g} at {of}"
                for of, bound, norm in zip(places, one.norms, norms, strict=True)
            )
            told = "found privately; " if self.measures[name].needs_search else ""
            lines += [
                Line(
                    f"bounds of {name}",
                    bounds,
                    f"{told}of what a user has at one node, and of the root of the sum of squares "
                    "of what they have at all of these; the rest is cut, a bias that no interval "
                    "covers",
                ),
                Line(f"error of {name}", errors, f"for its noise, with confidence {confidence:g}"),
            ]
        return lines

    def found_facts(self, found: FoundNodes) -> dict[str, list[dict[str, Any]]]:
        """By measure, the facts on the noise that was drawn in each part of the shown nodes, so
        that intervals of any confidence follow from the receipt. ``levels`` is None for lowest
        nodes."""
        out: dict[str, list[dict[str, Any]]] = {}
        if self.counts:
            law, levels = self.laws.count_law, (None, list(range(self.height)))
            grids = weighted_rounds.full_user_weights(law, found.at_most)
            for name in self.counts:
                out[name] = [
                    {"of": "users", "levels": at, "law": law_facts(law.noise, grid)}
                    for at, grid in zip(levels, grids, strict=True)
                ]
        for name, law, norms, one in zip(
            self.sums, self.laws.sums, self.sum_norms, found.sums, strict=True
        ):
            out[name] = [
                {
                    "of": "sum",
                    "levels": levels,
                    "bound": bound,
                    "norm": norm,
                    "law": law_facts(law.noise, 1),
                }
                for levels, bound, norm in zip([None, *self.bands], one.norms, norms, strict=True)
            ]
        return out

    @property
    def bands(self) -> list[list[int]]:
        """The levels of each part of the nodes above the lowest ones, for sums."""
        part = weighted_rounds.sum_bands(self.height).tolist()
        return [
            [level for level, own in enumerate(part) if own == at] for at in range(1, max(part) + 1)
        ]

    @property
    def _places(self) -> list[str]:
        """What these parts are called on cards, lowest nodes first."""
        return [PARTS[0], *map(_levels_text, self.bands)]


PARTS = ("lowest nodes", "nodes above")
"""What parts of the shown nodes are called on cards."""


def _levels_text(levels: list[int]) -> str:
    first, last = levels[0], levels[-1]
    return f"level {first}" if first == last else f"levels {first} to {last}"


def _bound_text(bound: object) -> str:
    return f"{bound:g}" if isinstance(bound, float) else str(bound)


def choose_rounds(
    *,
    unit: ItemsUnit,
    epsilon: Fraction,
    delta: float,
    height: int,
    measures: Mapping[str, Measure],
    release_share: Fraction,
    given: bool,
) -> RoundsSelection:
    """Choose the smallest noise within the budget, and the threshold.

    ``release_share`` is the part of mu^2 for ``measures``; ``given`` says whether the caller chose.
    """
    own = float(epsilon)
    while Fraction(own) > epsilon:
        own = math.nextafter(own, 0.0)
    sums = {n: m for n, m in measures.items() if m.kind == "sum"}
    shares = [m.share for m in measures.values() if m.kind == "count"]
    searches = sum(m.needs_search for m in sums.values())
    histograms = 2 * bool(measures) + searches * (2 + min(height - 1, weighted_rounds.SUM_BANDS))
    if not shares and not searches:
        histograms = 0
    with add_advice("raise selection_share", given=given):
        laws = round_laws(
            epsilon=own,
            delta=delta,
            release_share=float(release_share),
            items=max(height, DEFAULT_ITEMS),
            histograms=histograms,
            count_share=float(sum(shares)),
            sum_shares=tuple(float(m.share) for m in sums.values()),
        )
    return RoundsSelection(
        unit=unit,
        budget=Budget(epsilon=own, delta=delta),
        height=height,
        measures=measures,
        laws=laws,
    )
