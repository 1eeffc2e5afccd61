"""What a release will do and cost, decided from public parameters alone.

This module sees no data: it may import the mathematics, never a source (a test checks that).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

from dpframe.accounting.compose import Profile, whole_profile
from dpframe.accounting.gshm import GshmLaws
from dpframe.accounting.laws import Laws
from dpframe.accounting.levels import LevelLaws, level_profile
from dpframe.accounting.sketches import SketchLaws
from dpframe.budget import Budget, PrivacyUnit, group_delta
from dpframe.hierarchy import Hierarchy
from dpframe.mechanisms import (
    level_histograms,
    merged_streaming,
    offline_hhh,
    printed_hhh,
    streaming_hhh,
)
from dpframe.mechanisms.printed_hhh import PrintedLaws
from dpframe.noise import NoiseTable
from dpframe.postprocess.intervals import half_width
from dpframe.questions.hhh.laws import (
    DEFAULT_COUNTERS,
    MECHANISMS,
    AnyLaws,
    Mechanism,
    chosen_laws,
    default_release_share,
)
from dpframe.sketches import SketchState
from dpframe.tree import CountTree, NoisyNodes

__all__ = [
    "DEFAULT_COUNTERS",
    "MECHANISMS",
    "AnyLaws",
    "Counted",
    "Mechanism",
    "Plan",
    "default_release_share",
    "make_plan",
]

Counted = CountTree | tuple[SketchState, ...]
"""What a mechanism starts from: the true counts above a band, or one sketch a level. Private."""

_OneNoise = (LevelLaws, SketchLaws, GshmLaws)
"""Laws that decide and publish with one draw."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything about a release except the data and the draw.

    ``threshold`` is in records (or users); the laws count units of ``unit.grid``. ``counters`` is
    the size of a sketch, if the mechanism has any.
    """

    hierarchy: Hierarchy
    unit: PrivacyUnit
    budget: Budget
    mechanism: Mechanism
    threshold: int
    remainder: bool
    confidence: float
    laws: AnyLaws
    asked: dict[str, float | None]
    counters: int | None = None

    @property
    def request(self) -> dict[str, object]:
        """The arguments that this plan answers, as plain JSON types; what was left to dpframe is
        None, so that a later version of dpframe recognises them."""
        return {
            "hierarchy": self.hierarchy.spec,
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "user": self.unit.user,
            "contribution": self.unit.contribution if self.unit.user is not None else None,
            "max_contributions": self.unit.moves,
            "mechanism": self.mechanism,
            "remainder": self.remainder,
            "confidence": self.confidence,
            **({} if self.counters is None else {"counters": self.counters}),
            **self.asked,
        }

    @property
    def height(self) -> int:
        return self.hierarchy.height

    @property
    def grid(self) -> int:
        return self.unit.grid

    @cached_property
    def test(self) -> NoiseTable:
        """The test noise as drawn, centred for the threshold."""
        if isinstance(self.laws, Laws):
            return self.laws.centred(self.threshold)
        return self.laws.test if isinstance(self.laws, PrintedLaws) else self.laws.noise

    @property
    def release(self) -> NoiseTable:
        return self.laws.noise if isinstance(self.laws, _OneNoise) else self.laws.release

    @property
    def band(self) -> int:
        """Units below which a count can never be reported, so that it need not be fetched."""
        if isinstance(self.laws, LevelLaws):
            return self.laws.threshold - self.laws.noise.highest
        if isinstance(self.laws, SketchLaws):
            return max(1, self.laws.theta - self.laws.noise.highest - self.laws.shared.highest)
        if isinstance(self.laws, GshmLaws):
            return max(1, 1 + self.laws.t - self.laws.noise.highest)
        reach = self.test.highest
        if isinstance(self.laws, PrintedLaws):
            reach += self.laws.gamma.highest
        return max(1, self.threshold * self.grid - reach)

    @property
    def delta_spent(self) -> float:
        """Delta that the accountant computed for the unit of privacy, at most ``budget.delta``."""
        if isinstance(self.laws, GshmLaws):
            return self.laws.delta
        return group_delta(self.budget, self.unit.moves, self.laws.delta)

    @cached_property
    def profile(self) -> Profile:
        """What the release keeps at smaller epsilons too, for composing it with others.

        Exact curves for one histogram a level and for records; shares and tables that are too
        long for the recursion have the single point of the budget.
        """
        laws = self.laws
        if isinstance(laws, LevelLaws | SketchLaws) or (
            isinstance(laws, Laws) and offline_hhh.has_profile(laws)
        ):
            return whole_profile(self.budget, self.unit.moves, self._curve)
        return ((self.budget.epsilon, self.budget.delta),)

    def _curve(self, epsilons: list[float]) -> Profile:
        """Delta of one record at each of epsilons."""
        if isinstance(self.laws, LevelLaws):
            levels = self.height + self.remainder
            return level_profile(self.laws.noise, levels=levels, epsilons=epsilons)
        if isinstance(self.laws, SketchLaws):
            return tuple((e, streaming_hhh.cost(self.laws, epsilon=e)) for e in epsilons)
        assert isinstance(self.laws, Laws)
        cost = partial(offline_hhh.cost, self.laws, height=self.height, remainder=self.remainder)
        return tuple((e, cost(epsilon=e)) for e in epsilons)

    def run(self, counted: object) -> NoisyNodes:
        """The only noisy step."""
        threshold = self.threshold * self.grid
        if isinstance(self.laws, GshmLaws):
            assert isinstance(counted, tuple)
            return merged_streaming.run(
                counted, laws=self.laws, threshold=threshold, hierarchy=self.hierarchy
            )
        if isinstance(self.laws, SketchLaws):
            assert isinstance(counted, tuple)
            return streaming_hhh.run(
                counted,
                laws=self.laws,
                threshold=threshold,
                confidence=self.confidence,
                hierarchy=self.hierarchy,
            )
        assert isinstance(counted, CountTree)
        tree = counted
        if isinstance(self.laws, Laws):
            return offline_hhh.run(
                tree,
                test=self.test,
                release=self.laws.release,
                threshold=threshold,
                remainder=self.remainder,
            )
        if isinstance(self.laws, PrintedLaws):
            return printed_hhh.run(tree, laws=self.laws, threshold=threshold)
        return level_histograms.run(
            tree,
            noise=self.laws.noise,
            shown=self.laws.threshold,
            threshold=threshold,
            remainder=self.remainder,
        )

    @property
    def by_user_sets(self) -> bool:
        """Whether sketches take a user at a time, and nothing released bounds their error."""
        return isinstance(self.laws, GshmLaws)

    def half_width(self, terms: int) -> int:
        """Half width of the interval for a count of that many releases, in units."""
        return half_width(self.release, max(1, terms), self.confidence)

    @cached_property
    def chance_at_threshold(self) -> float:
        """P(a residual equal to the threshold is selected)."""
        if isinstance(self.laws, PrintedLaws):
            return printed_hhh.chance_at_threshold(self.laws)
        if isinstance(self.laws, SketchLaws | GshmLaws):
            return self.laws.chance(self.threshold)
        test = self.test
        return float(test.at_least()[max(0, -test.lowest)])

    @cached_property
    def certainly_reported(self) -> int:
        """Residuals from here on are always reported (records, rounded up)."""
        low = self.test.lowest
        if isinstance(self.laws, PrintedLaws):
            low += self.laws.gamma.lowest
        return self.threshold + -(low // self.grid)

    @cached_property
    def never_reported(self) -> int:
        """Residuals below this are never reported (records, rounded down)."""
        return max(1, self.band // self.grid)


def make_plan(
    *,
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    budget: Budget,
    mechanism: Mechanism = "offline",
    threshold: int | None = None,
    remainder: bool = True,
    release_share: float | None = None,
    confidence: float = 0.95,
    acknowledge: bool = False,
    counters: int | None = None,
) -> Plan:
    """Choose the noise for one release of heavy hitters. Pure: no data, no randomness."""
    asked = {"threshold": threshold, "release_share": release_share}
    laws, threshold = chosen_laws(
        mechanism,
        hierarchy=hierarchy,
        unit=unit,
        budget=budget,
        threshold=threshold,
        remainder=remainder,
        release_share=release_share,
        acknowledge=acknowledge,
        counters=counters,
    )
    return Plan(
        hierarchy=hierarchy,
        unit=unit,
        budget=budget,
        mechanism=mechanism,
        threshold=threshold,
        remainder=remainder,
        confidence=confidence,
        laws=laws,
        asked=asked,
        counters=counters,
    )
