"""The plans with one sketch for each level: of one stream, of merged streams, of partitions.

One stream has the sketches of its records, or the sketches that take one user at a time if these
have less noise. Several streams, or the partitions of a source, are merged level by level. A
record, or all rows of a user, enters one of them; a partition is chosen by a hash. There are two
merges:

sum      sketches of single records, post-processed and added (Lebeda and Tetek, section 7). The sum
         has the sensitivity of one sketch, whatever the number of sketches. A user is a group of
         records.
bounded  sketches merged with k counters at any time. A record, or a user of sketches that take one
         user at a time, moves at most k counters by 1, in one direction, as in one sketch.

If a user counts once at a node, partitions get the merge with less noise, chosen from parameters
alone.

**A StreamingHHH** finds hierarchical heavy hitters of a stream that comes in pieces.

:mod:`dpframe.sources.stream_batches` counts; here the private release is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from dpframe.accounting.sketch_stream import GshmLaws, better_user_laws, sketch_laws
from dpframe.asking.card import DrawList, Line, Text, hierarchy_line, invalid_notices
from dpframe.asking.privacy_receipt import Receipt, Sight
from dpframe.budget import per_record
from dpframe.counts import NoisyNodes
from dpframe.errors import BudgetError
from dpframe.mechanisms import streaming_hhh
from dpframe.mechanisms.streaming_hhh import SketchedLaws
from dpframe.noise import NoiseTable
from dpframe.questions.hhh.checks import HhhArguments
from dpframe.questions.hhh.mechanism_plan import HhhPlan
from dpframe.questions.sketches.plan import (
    SketchPlan,
    SketchRequest,
    Structure,
    sketch_draws,
    table_plan,
)
from dpframe.sketches import SketchState

if TYPE_CHECKING:
    import pandas as pd


States = Sequence[SketchState]

SELECTION = "Biswas et al. (2024), Algorithm 3, corrected"


@dataclass(frozen=True, kw_only=True)
class StreamingPlan(HhhPlan[SketchedLaws, States]):
    """One draw for each counter: it decides whether a node is reported, and is in the count."""

    @property
    def paper(self) -> str:
        return (
            f"Lebeda, Tetek (2023), Algorithms 1 and 2, a sketch a level; selection of {SELECTION}"
        )

    @property
    def by_user_sets(self) -> bool:
        return isinstance(self.laws, GshmLaws)

    @property
    def intervals(self) -> str:
        if self.by_user_sets:
            return (
                "lower holds the noise; nothing released says how far a count is too low, so upper "
                "is missing"
            )
        return (
            "lower and upper hold the sketch error and the noise together; the confidence is of "
            "the noise, before selection"
        )

    @property
    def test_noise(self) -> NoiseTable:
        return self.laws.noise

    @property
    def count_noise(self) -> NoiseTable:
        return self.laws.noise

    @property
    def chance_at_threshold(self) -> float:
        return self.laws.chance(self.threshold_units)

    @property
    def band(self) -> int:
        return max(1, self.laws.least - self.laws.lift)

    @cached_property
    def draws(self) -> DrawList:
        """One sketch of the stream for each level. The accounting of users' sets covers a user."""
        group = 1 if self.by_user_sets else self.unit.moves
        return sketch_draws(self.laws, by_level=True, group=group)

    @property
    def facts(self) -> dict[str, object]:
        return {**super().facts, "hidden_below": self.laws.least}

    @staticmethod
    def remake(asked: HhhArguments) -> HhhPlan[Any, Any]:
        return streaming_plan(asked)

    @property
    def smallest_threshold(self) -> float:
        """The least threshold, which hides nothing that the sketches show."""
        return _threshold(replace(self.asked, threshold=None), self.laws)

    @property
    def sight(self) -> Sight:
        """No number is certain: a sketch can lose a part of all records."""
        return replace(super().sight, certain=None, is_own=False, is_divided=False)

    def run(self, counted: States, /) -> NoisyNodes:
        return streaming_hhh.run(
            counted,
            laws=self.laws,
            threshold=self.threshold_units * self.laws.unit,
            confidence=self.confidence,
            hierarchy=self.hierarchy,
        )

    def lines(self) -> list[Line]:
        counters, users = self.counters or 0, self.unit.user is not None
        if self.by_user_sets:
            sketch, how = (
                "privacy-aware Misra-Gries",
                "one user at a time, which has the least noise",
            )
            error = "how far a count can be too low before noise; not released, so upper is missing"
        else:
            groups = f"groups of {self.unit.moves} records, which have the least noise"
            sketch, how = "Misra-Gries", groups if users else "one record at a time"
            error = "how far a count can be too high before noise; released a level as sketch_error"
        return [
            *self.heading_lines(),
            Line("sketch", sketch, how),
            Line.of(
                "counters",
                counters,
                "of each of {height} sketches, one a level",
                height=self.height,
            ),
            self.threshold_line(),
            Line(
                "hidden below", self.laws.least, "noisy counters below this are not even looked at"
            ),
            Line.of(
                "sketch error", Text("at most records / {counters}"), error, counters=counters + 1
            ),
            *self.draws.lines,
            Line(
                "standard error", round(self.laws.noise.sd, 3), "of the noise in a reported count"
            ),
            *self.ending_lines(),
        ]

    def frame(self, noisy: NoisyNodes, types: tuple[str, ...] = (), /) -> pd.DataFrame:
        """The frame of released nodes. Where the sketch error is private, ``upper`` covers what
        sketches lose if the number of records was declared, else it is missing."""
        frame = super().frame(noisy, types)
        if noisy.sketch_error is not None:
            return frame
        import pandas as pd

        lost = pd.NA if self.most_lost is None else self.most_lost
        frame["upper"] = frame["upper"].astype("Int64") + lost
        return frame

    @property
    def most_lost(self) -> int | None:
        """How far sketches are too low, in counts; None if the number of records is private."""
        return None


@dataclass(frozen=True, kw_only=True)
class MergedStreamPlan(StreamingPlan):
    """The plan for streams that are merged level by level, or for a source in partitions."""

    question = None
    sketch: SketchPlan
    partitioned: bool = False

    @property
    def request(self) -> Any:
        """The request of a source in partitions; None of merged streams, whose releases are
        numbered."""
        return self.asked.request if self.partitioned else None

    @property
    def partitions(self) -> int | None:
        return self.sketch.asked.sketches if self.partitioned else None

    @property
    def by_user_sets(self) -> bool:
        return self.sketch.asked.structure == "users"

    @property
    def method(self) -> Literal["sum", "bounded"]:
        return "sum" if self.sketch.asked.structure == "sum" else "bounded"

    @property
    def mechanism_name(self) -> str:
        return f"streaming-{self.sketch.mechanism_name}"

    @property
    def paper(self) -> str:
        return f"{self.sketch.paper}, a sketch a level; selection of {SELECTION}"

    @property
    def intervals(self) -> str:
        return self.sketch.intervals

    @property
    def draws(self) -> DrawList:
        return self.sketch.draws

    @property
    def noise(self) -> dict[str, Any]:
        return {"release": self.sketch.noise["count"]}

    @property
    def grid(self) -> int:
        return self.laws.unit

    @property
    def count_noun(self) -> str:
        return "records"

    @property
    def band(self) -> int:
        """The least merged counter, in units, that noise can lift over both thresholds."""
        least = max(self.laws.least, self.threshold_units * self.laws.unit)
        return max(1, least - self.laws.lift)

    def planned_threshold(self, epsilon: float) -> float | None:
        """None: the sketches of other streams have laws of their own."""
        return None

    @property
    def most_lost(self) -> int | None:
        records = self.sketch.asked.records
        return None if records is None else records // (self.sketch.asked.counters + 1)

    def half_width(self, terms: int) -> int:
        """Half width of the interval for the noise in a count, in units. Every count has one draw,
        whatever ``terms`` is."""
        return self.sketch.noise_above

    @property
    def facts(self) -> dict[str, object]:
        return {
            **self.sketch.facts,
            "max_contributions": self.unit.moves if self.unit.user is not None else None,
            "hierarchy": self.hierarchy.spec,
            "height": self.height,
            "levels": list(self.hierarchy.level_names),
            "method": self.method,
            "threshold": self.threshold,
            "hidden_below": self.laws.least / self.laws.unit,
            "remainder": False,
        }

    def finish_receipt(self, facts: Receipt, noisy: NoisyNodes, frame: pd.DataFrame, /) -> Receipt:
        if self.partitioned:
            return super().finish_receipt(facts, noisy, frame)
        return facts.with_notices(invalid_notices(frame, self.hierarchy))

    def lines(self) -> list[Line]:
        asked, own = self.sketch.asked, {line.name: line for line in self.sketch.lines()}
        merge = Line.of(
            "merge",
            self.method,
            (
                "{partitions} sketches a level, each of the {counted} of one partition, chosen "
                "by their hash"
            ),
            partitions=asked.sketches,
            counted="users" if self.unit.user is not None else "records",
        )
        lost = f"at most records / {asked.counters + 1}"
        hidden = self.laws.least / self.laws.unit
        return [
            self.guarantee_line,
            Line("mechanism", self.mechanism_name, self.paper),
            hierarchy_line(self.hierarchy),
            Line("counts", self.unit.counts, self.unit.what_counts),
            Line.of(
                "counters",
                asked.counters,
                "a level of each of {sketches} streams",
                sketches=asked.sketches,
            ),
            *([merge] if self.partitioned else []),
            own["sensitivity"],
            self.threshold_line(),
            Line("hidden below", hidden, "noisy counts below this are not even looked at"),
            Line("sketch error", lost, "how far counts can be too low before noise; not released"),
            own["noise"],
            own["noise error"],
            *self.ending_lines(),
        ]


def _threshold(asked: HhhArguments, laws: SketchedLaws) -> float:
    """The threshold; by default the count from which noisy counters are not hidden."""
    return -(-laws.least // laws.unit) if asked.threshold is None else asked.threshold


def streaming_plan(asked: HhhArguments) -> StreamingPlan:
    """Choose the noise of one sketch a level; for items of users, of the sketch that shows smaller
    counters."""
    height, unit, budget = asked.hierarchy.height, asked.unit, asked.budget
    laws: SketchedLaws
    if unit.contribution == "items":
        laws = better_user_laws(
            counters=asked.counters or 0,
            sketches=height,
            max_contributions=unit.max_contributions,
            epsilon=budget.epsilon,
            delta=budget.delta,
        )
    else:
        record = per_record(budget, unit.moves)
        laws = sketch_laws(sketches=height, epsilon=record.epsilon, delta=record.delta)
    return StreamingPlan(asked=asked, threshold=_threshold(asked, laws), laws=laws)


def merged_stream_plan(
    asked: HhhArguments, structure: Structure, streams: int, **options: Any
) -> MergedStreamPlan:
    """The plan for ``streams`` streams; ``options`` are the rest of ``SketchRequest``, and whether
    the streams are partitions."""
    partitioned = options.pop("partitioned", False)
    sketch = table_plan(
        SketchRequest(
            structure=structure,
            unit="user" if structure == "users" else "record",
            counters=asked.counters or 0,
            sketches=streams,
            max_contributions=1 if structure == "users" else asked.unit.moves,
            budget=asked.budget,
            confidence=asked.confidence,
            levels=asked.hierarchy.height,
            **options,
        )
    )
    laws = sketch.laws
    return MergedStreamPlan(
        asked=asked,
        sketch=sketch,
        laws=laws,
        threshold=_threshold(asked, laws),
        partitioned=partitioned,
    )


def partition_plan(plan: StreamingPlan, partitions: int) -> MergedStreamPlan:
    """The plan that answers on partitions the request of a streaming plan: of a sum of sketches;
    for items of users, of the merge with less noise."""

    def merged(structure: Structure) -> MergedStreamPlan:
        return merged_stream_plan(plan.asked, structure, partitions, partitioned=True)

    if plan.unit.contribution != "items" or plan.unit.user is None:
        return merged("sum")
    sets = merged("users")
    try:
        groups = merged("sum")
    except BudgetError:
        return sets
    return min(sets, groups, key=lambda p: (p.laws.least / p.grid, p.laws.noise.sd / p.grid))
