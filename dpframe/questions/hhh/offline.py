"""The plans of the offline mechanism, with geometric or Gaussian noise, and of the histogram
baselines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from dpframe.accounting import weighted_round_noise as normal_noise
from dpframe.accounting.compose import Profile
from dpframe.accounting.losses import LevelLaws, level_laws, level_profile
from dpframe.accounting.path_recursion import Laws
from dpframe.asking.call_arguments import add_advice
from dpframe.asking.card import DrawList, counts_game
from dpframe.asking.privacy_receipt import Sight
from dpframe.budget import per_record
from dpframe.counts import Counts, CountTree, NoisyNodes
from dpframe.mechanisms import level_counts as level_histograms
from dpframe.mechanisms import offline_hhh
from dpframe.noise import NoiseTable
from dpframe.questions.hhh.checks import HhhArguments, threshold_in_records
from dpframe.questions.hhh.mechanism_plan import HhhPlan
from dpframe.questions.hhh.selection import (
    Selection,
    choose_selection,
    is_divided,
    test_and_release_draws,
)


@dataclass(frozen=True, kw_only=True)
class OfflinePlan(HhhPlan[Laws, Counts]):
    """Two kinds of draws: test noise decides whether a node is reported, and release noise is added
    to the residual of each reported node. Counts are sums of these noisy residuals."""

    paper = "Biswas, Cormode, Kanza, Srivastava, Zhou (2024), Algorithm 1, corrected"

    @cached_property
    def selection(self) -> Selection:
        """The tests that decide which nodes are reported."""
        return Selection(asked=self.asked, threshold=self.threshold, laws=self.laws)

    @property
    def test_noise(self) -> NoiseTable:
        return self.selection.test_noise

    @property
    def count_noise(self) -> NoiseTable:
        return self.laws.release

    @property
    def band(self) -> int:
        return self.selection.band

    @cached_property
    def draws(self) -> DrawList:
        return self.selection.draws

    @property
    def errors(self) -> dict[str, float]:
        return {"count": self.half_width(1) * self.unit.worth / self.grid}

    @property
    def sight(self) -> Sight:
        by_rounds = is_divided(self.unit) and not self.hierarchy.has_cells
        return replace(super().sight, instead=BY_ROUNDS if by_rounds else "")

    @staticmethod
    def remake(asked: HhhArguments) -> OfflinePlan:
        return offline_plan(asked)

    @property
    def whole_noise(self) -> NoiseTable | None:
        """The noise of whole counts; None where none are released."""
        return None

    def run(self, counted: Counts, /) -> NoisyNodes:
        return offline_hhh.run(
            counted,
            kinds=self.hierarchy.kind_order,
            test=self.test_noise,
            release=self.count_noise,
            threshold=self.threshold_units,
            remainder=self.remainder,
            band=self.band,
            totals=self.whole_noise,
        )


def offline_plan(asked: HhhArguments) -> OfflinePlan:
    """Choose the noise of the default mechanism."""
    chosen = choose_selection(asked)
    return OfflinePlan(asked=asked, threshold=chosen.threshold, laws=chosen.laws)


BY_ROUNDS = "contribution='items' with mechanism='rounds'"
"""The other way to protect users, whose counts do not add up."""

RELEASE_SHARE = 1 / 3
"""Part of mu^2 for the released counts; the tests share the rest."""


@dataclass(frozen=True, kw_only=True)
class NormalPlan(OfflinePlan):
    """The offline mechanism with Gaussian noise.

    The cost grows with the squares of the moves that noise hides. So a series of n releases needs
    sqrt(n) times the noise of one release, not n times that noise.
    """

    paper = "Biswas, Cormode, Kanza, Srivastava, Zhou (2024), Algorithm 1, corrected; Gaussian"

    @staticmethod
    def remake(asked: HhhArguments) -> NormalPlan:
        return normal_plan(asked)

    @cached_property
    def draws(self) -> DrawList:
        """The draws of the offline mechanism; the accounting covers what the unit moves.

        For one record the game is a path, however long the tables are. Otherwise the squares of the
        moves add up.
        """
        offline, units, moves = super().draws, self.grid, self.unit.moves
        names = ["height", "threshold", "test", "release"]
        facts: dict[str, object] = {"units": units, "moves": moves}
        if units == moves == 1:
            names, facts = ["height", "threshold", "remainder", "test", "release"], {}
        else:
            facts |= {
                "test_sigma": self.laws.left * units,
                "release_sigma": self.laws.release_scale * units,
            }
        return replace(
            offline,
            kind="normal" if facts else "path",
            facts={**{name: offline.facts[name] for name in names}, **facts},
            group=1,
            curve=self._curve,
        )

    @cached_property
    def leakage(self) -> normal_noise.GaussianLeakage:
        """Bounds on what a release tells of a unit of privacy; privacy filters add these up."""
        return normal_noise.gaussian_leakage(self.laws, height=self.height, moves=self.unit.moves)

    def _curve(self, epsilons: Sequence[float]) -> Profile:
        height, moves = self.height, self.unit.moves
        return tuple(
            (e, normal_noise.normal_cost(self.laws, height=height, moves=moves, epsilon=e))
            for e in epsilons
        )


def normal_plan(asked: HhhArguments) -> NormalPlan:
    """Choose the smallest Gaussian noise within the budget, for records and users alike."""
    share = asked.release_share
    with add_advice("move release_share towards the middle", given=share is not None):
        laws = normal_noise.normal_laws(
            height=asked.hierarchy.height,
            epsilon=asked.budget.epsilon,
            delta=asked.budget.delta,
            release_share=share or RELEASE_SHARE,
            grid=asked.unit.grid,
            moves=asked.unit.moves,
        )
    threshold = asked.at_least(laws.smallest_threshold(0.5))
    assert threshold_in_records(threshold, asked.unit) * laws.grid > laws.test.highest
    return NormalPlan(asked=asked, threshold=threshold, laws=laws)


@dataclass(frozen=True, kw_only=True)
class HistogramPlan(HhhPlan[LevelLaws, CountTree]):
    """One draw for each node: the draw decides whether the node is shown, and is in the count."""

    paper = "stability histogram a level, composed (Bun, Nissim, Stemmer 2019)"
    coverage = False
    held = (
        "lower and upper cover the noise of the count; the same noise decided what is shown, so "
        "near the threshold intervals miss more often than they say"
    )

    @property
    def test_noise(self) -> NoiseTable:
        return self.laws.noise

    @property
    def count_noise(self) -> NoiseTable:
        return self.laws.noise

    @property
    def band(self) -> int:
        return self.laws.threshold - self.laws.noise.highest

    @cached_property
    def draws(self) -> DrawList:
        """On each level one count moves by 1. The total is always shown if there is a remainder."""
        test, total = test_and_release_draws(self.laws.noise, self.laws.noise)
        test = replace(test, times=self.height, least=self.laws.threshold)
        total = replace(total, times=int(self.remainder))
        return counts_game(
            [test, total], delta=self.laws.delta, group=self.unit.moves, curve=self._curve
        )

    @property
    def sight(self) -> Sight:
        """Of several levels no number is certain: what is shown further down is taken off with its
        noise."""
        return replace(super().sight, certain=self.certainly_reported if self.height == 1 else None)

    def _curve(self, epsilons: Sequence[float]) -> Profile:
        levels = self.height + self.remainder
        return level_profile(self.laws.noise, levels=levels, epsilons=epsilons)

    @staticmethod
    def remake(asked: HhhArguments) -> HistogramPlan:
        return histogram_baseline_plan(asked)

    def run(self, counted: CountTree, /) -> NoisyNodes:
        return level_histograms.run_level_histograms(
            counted,
            noise=self.laws.noise,
            shown=self.laws.threshold,
            threshold=self.threshold_units,
            remainder=self.remainder,
        )


def histogram_baseline_plan(asked: HhhArguments) -> HistogramPlan:
    """Choose the noise of a baseline, whose family is the name of the mechanism."""
    record = per_record(asked.budget, asked.unit.moves)
    laws = level_laws(
        asked.mechanism,
        levels=asked.hierarchy.height + asked.remainder,
        epsilon=record.epsilon,
        delta=record.delta,
    )
    return HistogramPlan(asked=asked, threshold=asked.at_least(laws.threshold), laws=laws)
