"""What a release will do and cost, decided from public parameters alone.

This module sees no data: it may import the mathematics, never a source (a test checks that).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

from dpframe.accounting.calibrate import choose_laws, law_options, smallest_threshold
from dpframe.accounting.compose import Profile, group_profile
from dpframe.accounting.laws import Laws
from dpframe.accounting.levels import LevelLaws, level_laws, level_profile
from dpframe.accounting.printed import printed_lower_bound
from dpframe.accounting.sketches import SketchLaws, sketch_laws
from dpframe.budget import Budget, PrivacyUnit, per_record
from dpframe.errors import ParameterError, ThresholdError
from dpframe.hierarchy import Hierarchy
from dpframe.mechanisms import level_histograms, offline_hhh, printed_hhh, streaming_hhh
from dpframe.mechanisms.printed_hhh import PrintedLaws
from dpframe.noise import NoiseTable
from dpframe.postprocess.intervals import half_width
from dpframe.sketches import SketchState
from dpframe.tree import CountTree, NoisyNodes

Mechanism = Literal["offline", "streaming", "laplace", "gaussian", "paper"]
MECHANISMS: tuple[str, ...] = get_args(Mechanism)

Counted = CountTree | tuple[SketchState, ...]
"""What a mechanism starts from: the true counts above a band, or one sketch a level. Private."""

DEFAULT_COUNTERS = 2000
"""Counters of a sketch, if nobody says how many."""

PROFILE_POINTS = 40
"""Steps of the privacy profile, from epsilon 0 to that of one record."""


AnyLaws = Laws | LevelLaws | PrintedLaws | SketchLaws
_OneNoise = (LevelLaws, SketchLaws)
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
        reach = self.test.highest
        if isinstance(self.laws, PrintedLaws):
            reach += self.laws.gamma.highest
        return max(1, self.threshold * self.grid - reach)

    @property
    def delta_spent(self) -> float:
        """Delta that the accountant computed for the unit of privacy, at most ``budget.delta``."""
        record = per_record(self.budget, self.unit.moves)
        return self.budget.delta * min(1.0, self.laws.delta / record.delta)

    @cached_property
    def profile(self) -> Profile:
        """What the release keeps at smaller epsilons too, for composing it with others.

        Exact curves for one histogram a level and for records; shares and tables that are too
        long for the recursion have the single point of the budget.
        """
        whole: Profile = ((self.budget.epsilon, self.budget.delta),)
        record = per_record(self.budget, self.unit.moves)
        epsilons = [record.epsilon * i / PROFILE_POINTS for i in range(PROFILE_POINTS + 1)]
        if isinstance(self.laws, LevelLaws):
            levels = self.height + self.remainder
            points = level_profile(self.laws.noise, levels=levels, epsilons=epsilons)
        elif isinstance(self.laws, Laws) and offline_hhh.has_profile(self.laws):
            points = tuple(
                (
                    e,
                    offline_hhh.cost(
                        self.laws, height=self.height, epsilon=e, remainder=self.remainder
                    ),
                )
                for e in epsilons
            )
        else:
            return whole
        return (*group_profile(points[:-1], self.unit.moves), *whole)

    def run(self, counted: Counted) -> NoisyNodes:
        """The only noisy step."""
        threshold = self.threshold * self.grid
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

    def half_width(self, terms: int) -> int:
        """Half width of the interval for a count of that many releases, in units."""
        return half_width(self.release, max(1, terms), self.confidence)

    @cached_property
    def chance_at_threshold(self) -> float:
        """P(a residual equal to the threshold is selected)."""
        if isinstance(self.laws, PrintedLaws):
            return printed_hhh.chance_at_threshold(self.laws)
        if isinstance(self.laws, SketchLaws):
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
    record = per_record(budget, unit.moves)
    laws: AnyLaws
    if mechanism == "offline":
        options = law_options(
            height=hierarchy.height,
            epsilon=record.epsilon,
            delta=record.delta,
            remainder=remainder,
            release_share=release_share or default_release_share(hierarchy.height, remainder),
            grid=unit.grid,
            threshold=threshold,
        )
        smallest = smallest_threshold(options)
        threshold = _at_least(threshold, smallest, budget, hierarchy.height)
        laws = choose_laws(options, threshold)
    elif unit.grid > 1:
        raise ParameterError(
            f"mechanism={mechanism!r} counts records, not shares of users: pass "
            "contribution='records' with max_contributions=, or use mechanism='offline'."
        )
    elif mechanism == "streaming":
        _check_streaming(unit, release_share)
        laws = sketch_laws(sketches=hierarchy.height, epsilon=record.epsilon, delta=record.delta)
        threshold = laws.theta if threshold is None else threshold
    elif mechanism == "paper":
        laws, threshold = _printed(hierarchy.height, record, threshold, remainder, acknowledge)
    else:
        laws = level_laws(
            mechanism,
            levels=hierarchy.height + remainder,
            epsilon=record.epsilon,
            delta=record.delta,
        )
        threshold = _at_least(threshold, laws.threshold, budget, hierarchy.height)
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


def default_release_share(height: int, remainder: bool) -> float:
    """Part of epsilon that the released count gets; a third from three paid nodes on."""
    return 1 / min(3, max(2, height + remainder))


def _at_least(threshold: int | None, smallest: int, budget: Budget, height: int) -> int:
    if threshold is not None and threshold < smallest:
        raise ThresholdError(
            f"threshold ({threshold}) is below the smallest private threshold {smallest} for "
            f"epsilon={budget.epsilon:g}, delta={budget.delta:g}, height={height}: "
            "raise threshold, epsilon or delta."
        )
    return smallest if threshold is None else threshold


def _check_streaming(unit: PrivacyUnit, release_share: float | None) -> None:
    if unit.user is not None:
        raise ParameterError(
            "mechanism='streaming' protects single records: to bound what users contribute, all "
            "their rows must be at hand. Use mechanism='offline' with user=, or feed a "
            "dp.PrivacyAwareMisraGries with one user at a time."
        )
    if release_share is not None:
        raise ParameterError(
            f"release_share ({release_share!r}) divides epsilon between two draws; "
            "mechanism='streaming' has one draw for both. Leave it out."
        )


def _printed(
    height: int, record: Budget, threshold: int | None, remainder: bool, acknowledge: bool
) -> tuple[PrintedLaws, int]:
    if height >= 5:
        bound = printed_lower_bound(record.epsilon, height)
        raise ParameterError(
            f"mechanism='paper' is refused at height {height}: the printed algorithm is not "
            f"private from height 5 on; at epsilon={record.epsilon:g} its delta is at least "
            f"{bound:.1e}, not the requested {record.delta:g} (docs/soundness.md). "
            "Use mechanism='offline'."
        )
    if not acknowledge:
        raise ParameterError(
            "mechanism='paper' is the algorithm as printed, kept for comparison: pass "
            "acknowledge=True to run it, or use mechanism='offline', which has less noise."
        )
    if remainder:
        raise ParameterError(
            "mechanism='paper' releases no remainder, and adding one is not private at height 4: "
            "pass remainder=False."
        )
    smallest = printed_hhh.smallest_threshold(record.epsilon, record.delta, height)
    threshold = _at_least(threshold, smallest, record, height)
    laws = printed_hhh.printed_laws(record.epsilon, height, threshold)
    if laws.delta > record.delta:
        raise ParameterError(
            f"mechanism='paper' costs delta={laws.delta:.2g} at threshold {threshold}, more than "
            f"the requested {record.delta:g}: raise threshold."
        )
    return laws, threshold
