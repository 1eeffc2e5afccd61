"""The baselines ``laplace`` and ``gaussian``: one noisy histogram for each level, composed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from dpframe.accounting.compose import Profile
from dpframe.accounting.levels import LevelLaws, level_laws, level_profile
from dpframe.asking.draws import DrawList, counts_game
from dpframe.budget import per_record
from dpframe.mechanisms import level_histograms
from dpframe.noise import NoiseTable
from dpframe.questions.hhh.checks import HhhArguments
from dpframe.questions.hhh.mechanism_plan import HhhPlan, test_and_release_draws
from dpframe.tree import CountTree, NoisyNodes


@dataclass(frozen=True, kw_only=True)
class HistogramPlan(HhhPlan[LevelLaws, CountTree]):
    """One draw for each node: the draw decides whether the node is shown, and is in the count."""

    paper = "stability histogram a level, composed (Bun, Nissim, Stemmer 2019)"
    coverage = False
    held = (
        "lower and upper cover the noise of the count; the count was also selected upon, so "
        "the confidence is nominal near the threshold"
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

    def _curve(self, epsilons: Sequence[float]) -> Profile:
        levels = self.height + self.remainder
        return level_profile(self.laws.noise, levels=levels, epsilons=epsilons)

    def remake(self, asked: HhhArguments) -> HistogramPlan:
        return histogram_baseline_plan(asked)

    def run(self, counted: CountTree, /) -> NoisyNodes:
        return level_histograms.run(
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
