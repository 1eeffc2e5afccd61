"""The plan that finds nodes with many different users, and counts the users of each node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from dpframe.accounting.compose import Profile
from dpframe.accounting.node_user_laws import NodeLaws, node_laws
from dpframe.asking.card import Line, typical_error_line
from dpframe.asking.draws import Draw, DrawList, counts_game
from dpframe.asking.frame_notices import empty_result_notices, wide_interval_notices
from dpframe.asking.privacy_receipt import Receipt
from dpframe.asking.user_nodes import moved_count_lines
from dpframe.errors import ParameterError
from dpframe.mechanisms import user_counts
from dpframe.noise import NoiseTable
from dpframe.questions.hhh.checks import HhhArguments
from dpframe.questions.hhh.mechanism_plan import HhhPlan
from dpframe.tree import CountTree, NoisyNodes

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True)
class NodesPlan(HhhPlan[NodeLaws, CountTree]):
    """One draw for each node: the draw decides whether the node is shown, and is in the count."""

    paper = (
        "a noisy number of users at every node, and a threshold (stability histograms: Bun, "
        "Nissim, Stemmer 2019), of each level as many nodes of one user as at_most says"
    )
    held = (
        "lower and upper hold the number of users as they are counted, with the stated "
        "confidence, given what is shown: they do not cover what at_most takes away, which makes "
        "counts too low"
    )

    @property
    def mechanism(self) -> str:
        """The name in receipts; the caller asks for "offline" with ``contribution="items"``."""
        return "items"

    @property
    def test_noise(self) -> NoiseTable:
        return self.count_noise

    @cached_property
    def count_noise(self) -> NoiseTable:
        """The noise of the counts of all levels."""
        return self.laws.tables[0]

    @cached_property
    def draws(self) -> DrawList:
        """One draw for each count that a user moves. The total is always shown."""
        moved = self.laws.moved
        scale = moved.scales[0] if moved.family == "laplace" else None
        total = Draw(law=self.count_noise, scale=scale)
        nodes = Draw(
            law=self.count_noise,
            names=("release",),
            label="noise",
            applies_to="added to every count, and decides",
            times=sum(self.laws.times) - 1,
            least=self.threshold_units,
            scale=scale,
        )
        return counts_game([total, nodes], delta=self.laws.delta, group=1, curve=self._curve)

    @property
    def band(self) -> int:
        return self.threshold_units - self.count_noise.highest

    def _curve(self, epsilons: Sequence[float]) -> Profile:
        return self.laws.profile(epsilons, self.budget.epsilon)

    @property
    def errors(self) -> dict[str, float]:
        return {"count": self.half_width(1)}

    def remake(self, asked: HhhArguments) -> NodesPlan:
        assert self.unit.nodes is not None
        return nodes_plan(asked, self.unit.nodes)

    def run(self, counted: CountTree, /) -> NoisyNodes:
        thresholds = (self.threshold_units,) * (self.height + 1)
        return user_counts.run_unlisted_users(
            counted, laws=self.laws, thresholds=thresholds, confidence=self.confidence
        )

    @property
    def facts(self) -> dict[str, object]:
        return {**super().facts, "moved": sum(self.laws.times)}

    def finish_receipt(self, facts: Receipt, noisy: NoisyNodes, frame: pd.DataFrame, /) -> Receipt:
        nothing = empty_result_notices(
            frame,
            threshold=self.threshold,
            smallest=_smallest_node_threshold(self.laws),
            what="users",
            certain=self.certainly_reported,
        )
        return facts.with_notices([*nothing, *wide_interval_notices(frame)])

    def lines(self) -> list[Line]:
        noise, shown = self.count_noise, self.shown_threshold
        return [
            *self.heading_lines(),
            Line("threshold", shown, "noisy number of users from which a node is shown"),
            Line(
                "certainly reported",
                self.certainly_reported,
                "every node that so many users count at is shown",
            ),
            Line("never reported", self.never_reported, "no node of fewer users is shown"),
            *moved_count_lines(self.laws, self.unit.nodes),
            *self.draws.lines,
            Line("standard error", round(noise.sd, 3), "of a count, in users"),
            typical_error_line(
                self.half_width(1),
                self.confidence,
                "of a count for its noise, in users; wider near the threshold",
            ),
            Line("largest error", noise.highest, "the noise of no count is larger, in users"),
            Line("adds up", False, "level 0 is the number of all users, and no sum"),
            self.delta_line,
        ]


def _smallest_node_threshold(laws: NodeLaws) -> int:
    return max(laws.moved.thresholds)


def nodes_plan(asked: HhhArguments, at_most: int) -> NodesPlan:
    """Choose the smallest noise and threshold within the budget."""
    for name in ("release_share", "totals"):
        if value := getattr(asked, name):
            raise ParameterError(
                f"{name} ({value!r}) does not go with contribution='items'. Leave it out."
            )
    times = (1, *[at_most] * asked.hierarchy.height)
    laws = node_laws(
        times=times,
        weights=times,
        epsilon=asked.budget.epsilon,
        delta=asked.budget.delta,
        listed=False,
        family=None,
    )
    own = replace(asked, remainder=False)
    return NodesPlan(asked=own, threshold=own.at_least(_smallest_node_threshold(laws)), laws=laws)
