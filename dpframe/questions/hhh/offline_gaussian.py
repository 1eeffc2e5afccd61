"""The offline mechanism with Gaussian noise in tests and counts, for many releases together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from dpframe.accounting import normal_noise
from dpframe.accounting.compose import Profile
from dpframe.asking.draws import DrawList
from dpframe.errors import add_advice
from dpframe.questions.hhh.checks import HhhArguments, threshold_in_records
from dpframe.questions.hhh.offline import OfflinePlan

RELEASE_SHARE = 1 / 3
"""Part of mu^2 for the released counts; the tests share the rest."""


@dataclass(frozen=True, kw_only=True)
class NormalPlan(OfflinePlan):
    """The offline mechanism with Gaussian noise.

    The cost grows with the squares of the moves that noise hides. So a series of n releases needs
    sqrt(n) times the noise of one release, not n times that noise.
    """

    paper = "Biswas, Cormode, Kanza, Srivastava, Zhou (2024), Algorithm 1, corrected; Gaussian"

    def remake(self, asked: HhhArguments) -> NormalPlan:
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
