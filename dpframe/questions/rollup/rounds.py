"""The selection of a rollup by rounds of weights, with what is measured along with it.

Rounds find nodes that many users have (:mod:`dpframe.mechanisms.weighted_rounds`). Users, and sums
whose bounds are for a user, are then measured with Gaussian noise, for a part of the same mu^2, so
that one bound on delta covers selection, counts and sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from dpframe.accounting.weighted_round_noise import Law, RoundLaws, round_laws
from dpframe.asking.call_arguments import add_advice
from dpframe.asking.card import Draw, DrawList, Line
from dpframe.asking.level_plan import SpendingPlan
from dpframe.asking.privacy_receipt import Sight
from dpframe.budget import Budget, ItemsUnit
from dpframe.errors import DpframeError
from dpframe.hierarchy import Hierarchy
from dpframe.measures.measure import AUTO, Measure
from dpframe.mechanisms import weighted_rounds
from dpframe.mechanisms.weighted_rounds import FoundNodes, LevelParts, SumBounds
from dpframe.noise import law_facts
from dpframe.postprocess.joint_noise import half_width
from dpframe.questions.hhh.rounds_plan import (
    DEFAULT_ITEMS,
    MANY_NODES,
    group_shares,
    level_parts,
    part_places,
    sigma_and_end,
    values_at_places,
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
    """The unit of privacy: a user with all their records."""
    return ItemsUnit(user=user, contribution="items", max_contributions=max(height, DEFAULT_ITEMS))


@dataclass(frozen=True, kw_only=True)
class RoundsSelection(SpendingPlan):
    """Rounds that decide which nodes are shown, and the measures that are taken along with them.

    ``measures`` have part of the budget of the selection, which has a ``part`` of that of the
    release. ``unit`` says who is protected.
    ``remake`` chooses the laws of another epsilon.
    """

    unit: ItemsUnit
    part: Budget
    hierarchy: Hierarchy
    measures: Mapping[str, Measure]
    laws: RoundLaws
    remake: Callable[[Fraction], RoundsSelection]

    @property
    def budget(self) -> Budget:
        return self.part

    @property
    def height(self) -> int:
        return self.hierarchy.height

    @property
    def parts(self) -> LevelParts:
        """The parts of shown nodes that are measured apart."""
        return level_parts(self.hierarchy)

    @property
    def threshold(self) -> int:
        """How many users a shown node has at least, but for noise."""
        return self.laws.users

    def sight(self, epsilon: float, *, node: str = "node") -> Sight:
        """From which number of users on a node is shown. ``epsilon`` is that of the whole release,
        of which the selection keeps its part."""

        def planned(larger: float) -> int | None:
            try:
                return self.remake(Fraction(self.part.epsilon / epsilon * larger)).threshold
            except DpframeError:
                return None

        weight = weighted_rounds.likely_weight(self.laws)
        finest = self.shares[0] / sum(self.shares)
        return Sight(
            below=self.threshold,
            counted="users",
            epsilon=epsilon,
            planned=planned,
            allowed=self.threshold,
            likely={n: math.ceil(weight * math.sqrt(n / finest)) for n in (1, MANY_NODES)},
            node=node,
        )

    @property
    def band(self) -> int:
        """Every node takes part, whatever its weight."""
        return 1

    @property
    def shares(self) -> tuple[int, ...]:
        """How the square of a user's norm is divided when nodes are searched. One column has the
        root above it, which is not searched."""
        finest = len(self.hierarchy.finest_levels)
        return group_shares(self.height, finest) if self.height > 1 else (1, 0)

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

    def _norms(self, law: Law) -> tuple[int, ...]:
        """The norms of a user at the lowest nodes, the root, and bands of levels."""
        return self.parts.norms(law)

    @cached_property
    def draws(self) -> DrawList:
        """Gaussian noise on the weights of every round, on histograms, counts and sums.

        The game has the sigma and the end of each law, because the tables would be too long.
        """
        laws = self.laws
        named = zip(self.sums, laws.sums, strict=True)
        measured = [(name, "sum", law) for name, law in named]
        if laws.count is not None:
            measured = [(self.counts[0], "users", laws.count), *measured]
        facts: dict[str, object] = {
            "height": self.height,
            "items": laws.items,
            "unit": laws.unit,
            "threshold": laws.threshold,
            "rounds": [{**sigma_and_end(one), "part": one.part} for one in laws.rounds],
            "sizes": None if laws.sizes is None else sigma_and_end(laws.sizes),
            "histograms": laws.histograms if laws.sizes else 0,
            "measured": [
                {"measure": name, "of": of, "values": law.values, "norms": list(self._norms(law))}
                | sigma_and_end(law)
                for name, of, law in measured
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

    def lines(self, name: str) -> list[Line]:
        """The lines of the card on a measure, before the data are read."""
        measure, error = self.measures[name], f"error of {name}"
        if measure.kind == "count":
            least = f"sd {self._count_sd:.3g} x root of at_most"
            return [
                Line(name, measure.spec, COUNT_MEANING),
                Line(error, least, "at lowest nodes, for the noise of a count, in users"),
            ]
        least = f"sd {self._sum_sd(name):.3g} x bound"
        return [
            Line(name, measure.spec, SUM_MEANING),
            Line(error, least, "at lowest nodes, for the noise of a sum"),
            Line(f"bounds of {name}", _written_bounds(measure), BOUND_MEANING),
        ]

    def sum_errors(self, confidence: float) -> dict[str, float]:
        """By sum whose bounds are known, the half width of the interval of a lowest node."""
        out = {}
        for (name, bounds), law in zip(self.sums.items(), self.laws.sums, strict=True):
            if bounds.largest is not None:
                half = half_width(law.noise, 1, confidence)
                out[name] = half * bounds.largest / self._norms(law)[0]
        return out

    def _sum_sd(self, name: str) -> float:
        """Standard deviation of the noise in a sum at a lowest node, if the bound is 1."""
        law = self.laws.sums[list(self.sums).index(name)]
        return law.sigma / self._norms(law)[0]

    @property
    def _count_sd(self) -> float:
        """Standard deviation of the noise in a count of a lowest node if ``at_most`` is 1."""
        law = self.laws.count_law
        return law.sigma / self._norms(law)[0]

    def known_unit(self, found: FoundNodes) -> ItemsUnit:
        """The unit of privacy, with what a release found for ``at_most``."""
        if not self.counts:
            return self.unit
        return replace(self.unit, at_most=found.at_most[0])

    def found_lines(self, found: FoundNodes, confidence: float) -> list[Line]:
        """The lines of the card on what a release found: ``at_most``, bounds and errors."""
        lines, places = [], self.places
        if self.counts:
            law, most = self.laws.count_law, found.at_most
            half = half_width(law.noise, 1, confidence)
            weights = weighted_rounds.full_user_weights(self._norms(law), most)
            errors = [f"+-{half / full:.4g}" for full in weights]
            meaning = "so many shown nodes of a user count fully; with more, each counts less"
            lines = [Line("at_most", values_at_places(most, places), meaning)]
            lines += [_error_line(name, errors, places, confidence) for name in self.counts]
        for name, law, one in zip(self.sums, self.laws.sums, found.sums, strict=True):
            half = half_width(law.noise, 1, confidence)
            norms = zip(one.norms, self._norms(law), strict=True)
            errors = [f"+-{half * bound / norm:.4g}" for bound, norm in norms]
            own = [_cut_text(*each) for each in zip(one.norms, one.beyond, strict=True)]
            told = "found privately; " * self.measures[name].needs_search + BOUND_MEANING
            lines.append(Line(f"bounds of {name}", values_at_places(own, places), told))
            lines.append(_error_line(name, errors, places, confidence))
        return lines

    def found_facts(self, found: FoundNodes) -> dict[str, list[dict[str, Any]]]:
        """By measure, the facts on the noise that was drawn in each part of the shown nodes, so
        that intervals of any confidence follow from the receipt. ``levels`` is None for lowest
        nodes."""
        out: dict[str, list[dict[str, Any]]] = {}
        levels = [None, *self.bands]
        if self.counts:
            law = self.laws.count_law
            weights = weighted_rounds.full_user_weights(self._norms(law), found.at_most)
            out[self.counts[0]] = [
                {"of": "users", "levels": at, "at_most": most, "law": law_facts(law.noise, full)}
                for at, most, full in zip(levels, found.at_most, weights, strict=True)
            ]
        for name, law, one in zip(self.sums, self.laws.sums, found.sums, strict=True):
            own = {"law": law_facts(law.noise, 1)}
            parts = zip(levels, one.norms, one.beyond, self._norms(law), strict=True)
            out[name] = [
                {"of": "sum", "levels": at, "bound": bound, "beyond": more, "norm": norm} | own
                for at, bound, more, norm in parts
            ]
        return out

    @property
    def bands(self) -> list[list[int]]:
        """The levels of each part of the nodes above the lowest ones, for sums."""
        return self.parts.levels_above

    @property
    def places(self) -> list[str]:
        """What these parts are called on cards, lowest nodes first."""
        return part_places(self.bands)


COUNT_MEANING = (
    "different users at every node, who do not add up; a user with more than at_most nodes counts "
    "less at each; at_most is found privately"
)
SUM_MEANING = (
    "what users have at every node; bounds cut it at each node on its own, so that parts do not "
    "add up to the whole"
)
BOUND_MEANING = (
    "for what a user has at one node, and for the root of the sum of its squares over these nodes; "
    "the rest is cut, and no interval covers that"
)


def _cut_text(bound: float, more: int | None) -> str:
    return f"{bound:g} (about {more} users have more)" if more and more > 1 else f"{bound:g}"


def _error_line(name: str, errors: Sequence[str], places: Sequence[str], confidence: float) -> Line:
    meaning = f"for the noise, with confidence {confidence:g}"
    return Line(f"error of {name}", values_at_places(errors, places), meaning)


def _written_bounds(measure: Measure) -> str:
    both = (measure.lower, measure.upper)
    return " to ".join(f"{b:g}" if isinstance(b, float) else str(b) for b in both)


def choose_rounds(
    *,
    unit: ItemsUnit,
    epsilon: Fraction,
    delta: float,
    hierarchy: Hierarchy,
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
    parts = 1 + len(level_parts(hierarchy).levels_above)
    histograms = parts * (bool(shares or searches) + searches)
    with add_advice("raise selection_share", given=given):
        laws = round_laws(
            epsilon=own,
            delta=delta,
            release_share=float(release_share),
            items=max(hierarchy.height, DEFAULT_ITEMS),
            histograms=histograms,
            count_share=float(sum(shares)),
            sum_shares=tuple(float(m.share) for m in sums.values()),
        )
    return RoundsSelection(
        unit=unit,
        part=Budget(epsilon=own, delta=delta),
        hierarchy=hierarchy,
        measures=measures,
        laws=laws,
        remake=lambda other: choose_rounds(
            unit=unit,
            epsilon=other,
            delta=delta,
            hierarchy=hierarchy,
            measures=measures,
            release_share=release_share,
            given=given,
        ),
    )
