"""The plan for a source in partitions, whose sketches are merged: noise and cost. Sees no data.

A record, or all rows of a user, enters one partition, chosen by its hash. There are two merges:

sum      sketches of single records, post-processed and added (Lebeda and Tetek, section 7). The sum
         has the sensitivity of one sketch, whatever the number of sketches. A user is a group of
         records.
bounded  sketches of users' sets, merged with k counters at any time. A user moves at most k
         counters by 1, in one direction, as in one sketch.

If a user counts once at a node, the merge with less noise is chosen, from parameters alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from dpframe.asking.card import Line
from dpframe.asking.draws import DrawList
from dpframe.asking.level_plan import ReleasePlan
from dpframe.asking.privacy_receipt import Receipt
from dpframe.budget import Budget, PrivacyUnit
from dpframe.errors import BudgetError
from dpframe.hierarchy import Hierarchy
from dpframe.questions.hhh.merged_streams import MergedStreamPlan
from dpframe.questions.hhh.sketch_plans import StreamingPlan, UserSetsPlan
from dpframe.questions.sketches.lossy import SparsePlan, SumPlan
from dpframe.questions.sketches.plan import make_level_plan
from dpframe.sketches import SketchState
from dpframe.tree import NoisyNodes

if TYPE_CHECKING:
    import pandas as pd


StreamPlan = StreamingPlan | UserSetsPlan


@dataclass(frozen=True, kw_only=True)
class PartitionPlan(ReleasePlan):
    """A streaming plan for a source in ``merged.sketch.sketches`` partitions."""

    streaming: StreamPlan
    merged: MergedStreamPlan

    @property
    def hierarchy(self) -> Hierarchy:
        return self.streaming.hierarchy

    @property
    def unit(self) -> PrivacyUnit:
        return self.streaming.unit

    @property
    def budget(self) -> Budget:
        return self.streaming.budget

    @property
    def request(self) -> dict[str, object]:
        return self.streaming.request

    @property
    def draws(self) -> DrawList:
        return self.merged.draws

    @property
    def mechanism_name(self) -> str:
        return self.merged.mechanism_name

    @property
    def paper(self) -> str:
        return self.merged.paper

    @property
    def intervals(self) -> str:
        return self.merged.intervals

    @property
    def noise(self) -> dict[str, Any]:
        return self.merged.noise

    @property
    def facts(self) -> dict[str, object]:
        unit, whole = self.unit, self.unit.user is not None
        return {
            **self.merged.facts,
            "max_contributions": unit.moves if whole else None,
            "method": self.method,
        }

    @property
    def partitions(self) -> int:
        return self.merged.sketch.sketches

    @property
    def counters(self) -> int:
        return self.merged.sketch.counters

    @property
    def method(self) -> Literal["sum", "bounded"]:
        return "bounded" if self.by_user_sets else "sum"

    @property
    def by_user_sets(self) -> bool:
        """Whether sketches take one user at a time."""
        return self.merged.sketch.structure == "users"

    @property
    def band(self) -> int:
        """The least merged counter, in units, that noise can lift over both thresholds.

        No counter below the sketch's threshold is published, and no node below the caller's
        threshold is shown.
        """
        sketch = self.merged.sketch
        least = max(sketch.threshold, self.merged.threshold * self.merged.grid)
        return max(1, least - sketch.laws.noise.highest)

    def run(self, counted: Sequence[SketchState], /) -> NoisyNodes:
        """The only noisy step."""
        return self.merged.run(counted)

    def lines(self) -> list[Line]:
        """What is known before the data are read."""
        whole = "users" if self.unit.user is not None else "records"
        merge = Line.of(
            "merge",
            self.method,
            (
                "{partitions} sketches a level, each of the {counted} of one partition, chosen "
                "by their hash"
            ),
            partitions=self.partitions,
            counted=whole,
        )
        counts = Line("counts", self.unit.counts, self.unit.what_counts)
        lines = self.merged.lines()
        return [self.guarantee_line, *lines[1:3], counts, lines[4], merge, *lines[5:]]

    def frame(self, noisy: NoisyNodes, types: tuple[str, ...] = (), /) -> pd.DataFrame:
        """The frame of merged streams, without ``upper``: what merged sketches lose is private."""
        return self.merged.frame(noisy, types)

    def finish_receipt(self, facts: Receipt, noisy: NoisyNodes, frame: pd.DataFrame, /) -> Receipt:
        """The receipt with notices."""
        return self.streaming.finish_receipt(facts, noisy, frame)


def partition_plan(asked: StreamPlan, partitions: int) -> PartitionPlan:
    """Return the plan that answers on partitions the request of a streaming plan."""
    sketch = _partition_sketch_plan(asked, partitions)
    threshold = -(-sketch.threshold // sketch.grid)
    if asked.asked.threshold is not None:
        threshold = asked.threshold_units
    merged = MergedStreamPlan(hierarchy=asked.hierarchy, sketch=sketch, threshold=threshold)
    return PartitionPlan(streaming=asked, merged=merged)


def _partition_sketch_plan(asked: StreamPlan, partitions: int) -> SumPlan | SparsePlan:
    """Return the plan of a sum of sketches; for items of users, of the merge with less noise."""
    if asked.unit.contribution != "items" or asked.unit.user is None:
        return _sketch_plan_for(asked, partitions, "sum")
    sets = _sketch_plan_for(asked, partitions, "users")
    try:
        groups = _sketch_plan_for(asked, partitions, "sum")
    except BudgetError:
        return sets
    return min(sets, groups, key=_sketch_noise)


def _sketch_noise(sketch: SumPlan | SparsePlan) -> tuple[float, float]:
    return sketch.threshold / sketch.grid, sketch.noise_sd


def _sketch_plan_for(
    asked: StreamPlan, partitions: int, structure: Literal["sum", "users"]
) -> SumPlan | SparsePlan:
    return make_level_plan(
        structure=structure,
        unit="user" if structure == "users" else "record",
        counters=asked.counters or 0,
        sketches=partitions,
        max_contributions=1 if structure == "users" else asked.unit.moves,
        budget=asked.budget,
        confidence=asked.confidence,
        levels=asked.height,
    )
