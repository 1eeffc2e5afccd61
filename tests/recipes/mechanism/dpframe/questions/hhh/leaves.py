"""The mechanism ``leaves``: a noisy histogram of the finest level."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from dpframe.accounting.losses import LevelLaws, level_laws
from dpframe.asking.card import DrawList, counts_game
from dpframe.budget import per_record
from dpframe.counts import CountTree, NoisyNodes
from dpframe.mechanisms import leaf_histogram
from dpframe.noise import NoiseTable
from dpframe.questions.hhh.checks import HhhArguments
from dpframe.questions.hhh.mechanism_plan import HhhPlan, test_and_release_draws


@dataclass(frozen=True, kw_only=True)
class LeavesPlan(HhhPlan[LevelLaws, CountTree]):
    """One draw for a node of the finest level, which decides and is in the count."""

    paper = "stability histogram (Bun, Nissim, Stemmer 2019)"

    @property
    def test_noise(self) -> NoiseTable:
        return self.laws.noise

    @property
    def count_noise(self) -> NoiseTable:
        return self.laws.noise

    @property
    def band(self) -> int:
        return max(1, self.threshold_units - self.laws.noise.highest)

    @cached_property
    def draws(self) -> DrawList:
        """A count of one leaf that moves by one, and the total, which is always shown."""
        test, total = test_and_release_draws(self.laws.noise, self.laws.noise)
        test = replace(test, least=self.laws.threshold)
        total = replace(total, times=int(self.remainder))
        record = per_record(self.budget, self.unit.moves)
        delta = leaf_histogram.cost(self.laws, epsilon=record.epsilon, remainder=self.remainder)
        return counts_game([test, total], delta=delta, group=self.unit.moves)

    @cached_property
    def chance_at_threshold(self) -> float:
        return float(self.test_noise.at_least()[-self.test_noise.lowest])

    @staticmethod
    def remake(asked: HhhArguments) -> LeavesPlan:
        return leaves_plan(asked)

    def run(self, counted: CountTree, /) -> NoisyNodes:
        return leaf_histogram.run(
            counted,
            height=self.height,
            noise=self.laws.noise,
            threshold=self.threshold_units,
            remainder=self.remainder,
        )


def leaves_plan(asked: HhhArguments) -> LeavesPlan:
    """The least noise for the finest level, and the total."""
    record = per_record(asked.budget, asked.unit.moves)
    laws = level_laws(
        "laplace", levels=1 + asked.remainder, epsilon=record.epsilon, delta=record.delta
    )
    return LeavesPlan(asked=asked, threshold=asked.at_least(laws.threshold), laws=laws)
