"""Algorithm 1 of Biswas et al. (2024) as printed, for comparison: private up to height 4."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from dpframe.asking.draws import Draw, DrawList
from dpframe.budget import per_record
from dpframe.errors import ParameterError
from dpframe.noise import NoiseTable
from dpframe.papers import printed_hhh
from dpframe.papers.printed_hhh import PrintedLaws, printed_lower_bound
from dpframe.questions.hhh.checks import HhhArguments
from dpframe.questions.hhh.mechanism_plan import HhhPlan, test_and_release_draws
from dpframe.tree import CountTree, NoisyNodes


@dataclass(frozen=True, kw_only=True)
class PrintedPlan(HhhPlan[PrintedLaws, CountTree]):
    """One draw for all tests, besides the two draws of each node."""

    paper = "Biswas, Cormode, Kanza, Srivastava, Zhou (2024), Algorithm 1, as printed"

    @property
    def test_noise(self) -> NoiseTable:
        return self.laws.test

    @property
    def count_noise(self) -> NoiseTable:
        return self.laws.release

    @property
    def band(self) -> int:
        reach = self.test_noise.highest + self.laws.gamma.highest
        return max(1, self.threshold_units - reach)

    @cached_property
    def draws(self) -> DrawList:
        """One draw for all tests, then a test and noise for each node; no proof is written yet."""
        gamma = Draw(
            law=self.laws.gamma,
            names=("shared",),
            label="shared noise",
            applies_to="one gamma for all tests",
        )
        draws = (gamma, *test_and_release_draws(self.test_noise, self.count_noise))
        return DrawList(kind=None, draws=draws, delta=self.laws.delta, group=self.unit.moves)

    @cached_property
    def chance_at_threshold(self) -> float:
        return printed_hhh.chance_at_threshold(self.laws)

    @property
    def certainly_reported(self) -> float:
        low = self.test_noise.lowest + self.laws.gamma.lowest
        return self.threshold + -(low // self.grid)

    def remake(self, asked: HhhArguments) -> PrintedPlan:
        return printed_plan(asked)

    def run(self, counted: CountTree, /) -> NoisyNodes:
        return printed_hhh.run(counted, laws=self.laws, threshold=self.threshold_units)


def printed_plan(asked: HhhArguments) -> PrintedPlan:
    """Choose the noise, with exact delta; ParameterError where the algorithm is not private."""
    height, record = asked.hierarchy.height, per_record(asked.budget, asked.unit.moves)
    if height >= 5:
        bound = printed_lower_bound(record.epsilon, height)
        raise ParameterError(
            f"mechanism='paper' is refused at height {height}: from 5 on it is not private. Its "
            f"delta is at least {bound:.1e}, not {record.delta:g} (docs/soundness.md). Use "
            "mechanism='offline'."
        )
    if not asked.acknowledge:
        raise ParameterError(
            "mechanism='paper' is only for comparison. Pass acknowledge=True, or use "
            "mechanism='offline'."
        )
    if asked.remainder:
        raise ParameterError("mechanism='paper' releases no remainder. Pass remainder=False.")
    smallest = printed_hhh.printed_threshold(record.epsilon, record.delta, height)
    threshold = int(replace(asked, budget=record).at_least(smallest))
    laws = printed_hhh.printed_laws(record.epsilon, height, threshold)
    if laws.delta > record.delta:
        raise ParameterError(
            f"mechanism='paper' costs delta={laws.delta:.2g} at threshold {threshold}, not "
            f"{record.delta:g}. Raise threshold."
        )
    return PrintedPlan(asked=asked, threshold=threshold, laws=laws)
