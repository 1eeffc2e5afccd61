"""Heavy hitters, added up: counts of the reported nodes, and of the rest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from dpframe.accounting.path_laws import Laws
from dpframe.asking.card import Line, Text
from dpframe.asking.draws import DrawList
from dpframe.mechanisms import hhh_counts
from dpframe.noise import NoiseTable
from dpframe.questions.hhh.checks import HhhArguments as HeavyHittersAsked
from dpframe.questions.hhh.offline import offline_laws, selection_draws
from dpframe.questions.tree_counts.base_tree_plan import TreePlan, TreeRequest
from dpframe.tree import CountTree, NoisyTree


@dataclass(frozen=True, kw_only=True)
class HeavyHittersPlan(TreePlan[Laws]):
    """Two kinds of draws: test noise decides whether a node is reported, and release noise is added
    to the residual of each reported node. Counts are sums of these noisy residuals."""

    smallest: int
    """Residual from which a node is reported, in records or users."""

    paper = "Biswas, Cormode, Kanza, Srivastava, Zhou (2024), Algorithm 1, corrected; added up"

    @property
    def threshold(self) -> int:
        return self.smallest

    @property
    def least_shown(self) -> int:
        return self.smallest

    @cached_property
    def test_noise(self) -> NoiseTable:
        """The noise that decides what is reported, centred for the threshold."""
        return self.laws.median_test(self.threshold)

    @cached_property
    def draws(self) -> DrawList:
        """The draws of heavy hitters with a remainder."""
        draws = selection_draws(
            self.laws,
            self.test_noise,
            height=self.height,
            threshold=self.threshold * self.grid,
            remainder=True,
            budget=self.budget,
            unit=self.unit,
        )
        test, release = draws.draws
        test = replace(test, applies_to="decides what is shown")
        return replace(
            draws, draws=(test, replace(release, applies_to="added to reported residuals"))
        )

    @property
    def band(self) -> int:
        return max(1, self.threshold * self.grid - self.test_noise.highest)

    def own_lines(self) -> list[Line]:
        grid, what, release = self.grid, self.unit_name, self.laws.release
        most = self.threshold + -(self.test_noise.lowest // grid) - 1
        return [
            Line.of(
                "threshold",
                self.threshold,
                "residual {counted} from which a node is reported",
                counted=what,
            ),
            Line.of(
                "hidden at most",
                most,
                "{counted} of a node that is not reported, beyond others",
                counted=what,
            ),
            *self.draws.lines,
            Line.of(
                "standard error",
                Text("{sd:.4g}"),
                "of a reported residual, in {counted}",
                sd=release.sd / grid,
                counted=what,
            ),
        ]

    def run(self, counted: CountTree, /) -> NoisyTree:
        return hhh_counts.run(
            counted,
            test=self.test_noise,
            release=self.laws.release,
            threshold=self.threshold * self.grid,
            confidence=self.confidence,
            height=self.height,
        )


def heavy_hitters_plan(asked: TreeRequest) -> HeavyHittersPlan:
    """Choose the noise of heavy hitters with a remainder."""
    laws, threshold = offline_laws(
        HeavyHittersAsked(
            hierarchy=asked.hierarchy,
            unit=asked.unit,
            budget=asked.budget,
            threshold=asked.threshold,
        )
    )
    return HeavyHittersPlan(asked=asked, laws=laws, smallest=int(threshold))
