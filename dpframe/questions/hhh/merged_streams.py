"""The plan that releases merged sketches of streams, one sketch for each level. Sees no data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from dpframe.asking.card import Line, hierarchy_line
from dpframe.asking.draws import DrawList
from dpframe.asking.frame_notices import invalid_notices
from dpframe.asking.level_plan import ReleasePlan
from dpframe.asking.privacy_receipt import Receipt
from dpframe.budget import Budget, PrivacyUnit
from dpframe.hierarchy import Hierarchy
from dpframe.mechanisms import merged_streaming
from dpframe.questions.sketches.lossy import SparsePlan, SumPlan
from dpframe.questions.sketches.plan import make_level_plan
from dpframe.sketches import SketchState
from dpframe.tree import NoisyNodes

if TYPE_CHECKING:
    import pandas as pd

SELECTION = "Biswas et al. (2024), Algorithm 3, corrected"


@dataclass(frozen=True, kw_only=True)
class MergedStreamPlan(ReleasePlan):
    """The plan that releases merged streams: laws for the sketches of all levels, and a selection.

    A node is reported if its residual reaches ``threshold``, in records.
    """

    hierarchy: Hierarchy
    sketch: SumPlan | SparsePlan
    threshold: int

    @property
    def unit(self) -> PrivacyUnit:
        return self.sketch.unit

    @property
    def draws(self) -> DrawList:
        return self.sketch.draws

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
    def noise(self) -> dict[str, Any]:
        return {"release": self.sketch.noise["count"]}

    @property
    def facts(self) -> dict[str, object]:
        return {
            **self.sketch.facts,
            "hierarchy": self.hierarchy.spec,
            "height": self.hierarchy.height,
            "levels": list(self.hierarchy.level_names),
            "method": self.sketch.structure,
            "threshold": self.threshold,
            "hidden_below": self.sketch.threshold / self.sketch.grid,
            "remainder": False,
        }

    @property
    def grid(self) -> int:
        return self.sketch.grid

    def half_width(self, terms: int) -> int:
        """Half width of the interval for the noise in a count, in units. Every count has one draw,
        whatever ``terms`` is."""
        return self.sketch.above

    def run(self, counted: Sequence[SketchState], /) -> NoisyNodes:
        """The only noisy step."""
        return merged_streaming.run(
            counted,
            laws=self.sketch.laws,
            threshold=self.threshold * self.grid,
            hierarchy=self.hierarchy,
        )

    @property
    def budget(self) -> Budget:
        return self.sketch.budget

    def finish_receipt(self, facts: Receipt, noisy: NoisyNodes, frame: pd.DataFrame, /) -> Receipt:
        """The receipt with notices."""
        said = facts.with_sketch_error(noisy.sketch_error)
        return said.with_notices(invalid_notices(frame, self.hierarchy))

    def lines(self) -> list[Line]:
        """What is known before sketches are released."""
        sketch, hierarchy = self.sketch, self.hierarchy
        lines = {q.name: q for q in sketch.lines()}
        lost = f"at most records / {sketch.counters + 1}"
        return [
            self.guarantee_line,
            Line("mechanism", self.mechanism_name, self.paper),
            hierarchy_line(hierarchy),
            Line("counts", self.unit.counts, self.unit.what_counts),
            Line.of(
                "counters",
                sketch.counters,
                "a level of each of {sketches} streams",
                sketches=sketch.sketches,
            ),
            lines["sensitivity"],
            Line("threshold", self.threshold, "residual records from which a node is reported"),
            Line(
                "hidden below",
                sketch.threshold / sketch.grid,
                "noisy counts below this are not even looked at",
            ),
            Line("sketch error", lost, "how far counts can be too low before noise; not released"),
            lines["noise"],
            lines["noise error"],
            Line("remainder", False, "whether the rest is released as level 0"),
            lines["computed delta"],
        ]

    def frame(self, noisy: NoisyNodes, types: tuple[str, ...] = (), /) -> pd.DataFrame:
        """The frame of ``tidy``. ``upper`` covers what sketches lose; it is missing if ``records``
        is not known."""
        import pandas as pd

        from dpframe.asking.node_frame import (
            tidy,  # loads pandas, which `import dpframe` does not
        )

        frame, records = tidy(noisy, self, types), self.sketch.records
        if records is None:
            frame["upper"] = pd.Series([pd.NA] * len(frame), index=frame.index, dtype="Int64")
        else:
            lost = records // (self.sketch.counters + 1)  # upper is rounded up already
            frame["upper"] = (frame["upper"] + lost).astype("Int64")
        return frame


def make_merged_stream_plan(
    *,
    hierarchy: Hierarchy,
    method: Literal["bounded", "sum"],
    counters: int,
    sketches: int,
    budget: Budget,
    threshold: int | None = None,
    records: int | None = None,
    confidence: float = 0.95,
) -> MergedStreamPlan:
    """Make a plan for ``sketches`` streams. The default threshold is the count, in records, below
    which noisy counters are hidden."""
    sketch = make_level_plan(
        structure=method,
        unit="record",
        counters=counters,
        sketches=sketches,
        budget=budget,
        records=records,
        confidence=confidence,
        levels=hierarchy.height,
    )
    if threshold is None:
        threshold = -(-sketch.threshold // sketch.grid)
    return MergedStreamPlan(hierarchy=hierarchy, sketch=sketch, threshold=threshold)
