"""What a release of the number of records will do and cost. Sees no data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from dpframe.accounting.losses import level_laws
from dpframe.asking.call_arguments import CallArguments
from dpframe.asking.card import Draw, DrawList, Line, hierarchy_line
from dpframe.asking.level_plan import ReleasePlan
from dpframe.asking.privacy_receipt import Receipt
from dpframe.budget import Budget, PrivacyUnit
from dpframe.counts import CountTree, NoisyNodes
from dpframe.hierarchy import Hierarchy
from dpframe.mechanisms import total
from dpframe.noise import NoiseTable
from dpframe.postprocess.joint_noise import half_width

if TYPE_CHECKING:
    import pandas as pd

PAPER = "Laplace mechanism (Dwork, McSherry, Nissim, Smith, 2006), bounded"


@dataclass(frozen=True, kw_only=True)
class TotalPlan(ReleasePlan):
    """Everything about the release of a total except the data and the draw."""

    hierarchy: Hierarchy
    asked: Budget
    confidence: float
    law: NoiseTable

    question = "total"
    mechanism_name = "total"
    paper = PAPER
    intervals = "lower and upper hold the true count with the stated confidence"

    grid = 1
    listed_keys = None
    band = 2**62
    """Only the root is counted: no other node can be shown."""

    @property
    def budget(self) -> Budget:
        return self.asked

    @property
    def unit(self) -> PrivacyUnit:
        """One record."""
        return PrivacyUnit()

    @property
    def request(self) -> dict[str, object]:
        """The arguments that this plan answers, as plain JSON types."""
        return {
            "counts": "total",
            "hierarchy": self.hierarchy.spec,
            **self.budget.request,
            "confidence": self.confidence,
        }

    @cached_property
    def draws(self) -> DrawList:
        """Noise in the total; no proof is written yet."""
        noise = Draw(law=self.law, names=("count",), label="noise", applies_to="added to the total")
        delta = total.cost(self.law, epsilon=self.budget.epsilon)
        return DrawList(kind=None, draws=(noise,), delta=delta)

    def half_width(self, terms: int) -> int:
        """Of the interval for a count."""
        return half_width(self.law, terms, self.confidence)

    def run(self, counted: CountTree, /) -> NoisyNodes:
        """The only noisy step."""
        return total.run(counted, noise=self.law)

    def lines(self) -> list[Line]:
        """What is known before the data are read."""
        return [
            self.guarantee_line,
            Line("mechanism", "total", PAPER),
            hierarchy_line(self.hierarchy),
            *self.draws.lines,
            self.delta_line,
        ]

    @property
    def facts(self) -> dict[str, object]:
        """What the receipt says besides the promise and the noise."""
        return {
            "hierarchy": self.hierarchy.spec,
            "height": self.hierarchy.height,
            "levels": list(self.hierarchy.level_names),
            "threshold": None,
            "remainder": True,
            "confidence": self.confidence,
        }

    def frame(self, noisy: NoisyNodes, types: tuple[str, ...] = (), /) -> pd.DataFrame:
        """One row: level, prefix, residual, count, lower and upper."""
        from dpframe.asking.node_frame import tidy  # loads pandas, which `import dpframe` does not

        return tidy(noisy, self, types)

    def finish_receipt(self, facts: Receipt, noisy: NoisyNodes, frame: pd.DataFrame, /) -> Receipt:
        """The numbers themselves say nothing more."""
        return facts


def total_plan(given: CallArguments) -> TotalPlan:
    """A plan from unchecked arguments."""
    budget = given.budget
    laws = level_laws("laplace", levels=1, epsilon=budget.epsilon, delta=budget.delta)
    return TotalPlan(
        hierarchy=given.hierarchy,
        asked=budget,
        confidence=given["confidence"],
        law=laws.noise,
    )
