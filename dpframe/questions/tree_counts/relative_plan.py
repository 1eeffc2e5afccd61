"""Counts with a relative error: each step's threshold classifies the nodes that are left over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from dpframe.accounting.relative_steps import RelativeLaws, relative_laws
from dpframe.asking.card import Line
from dpframe.asking.draws import DrawList
from dpframe.budget import per_record
from dpframe.errors import ParameterError
from dpframe.mechanisms import relative_counts
from dpframe.questions.tree_counts.base_tree_plan import SOURCE, TreePlan, TreeRequest
from dpframe.tree import CountTree, NoisyTree

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class RelativePlan(TreePlan[RelativeLaws]):
    """One step for each threshold, the largest threshold first."""

    paper = f"{SOURCE}, Algorithms 1 and 2, with integer noise"

    @property
    def least_shown(self) -> int:
        return self.laws.smallest_threshold

    @property
    def band(self) -> int:
        return self.laws.band

    @property
    def noise(self) -> dict[str, Any]:
        steps = self.laws.steps[::-1]
        return {
            "steps": len(steps),
            "tops": [step.tops for step in steps],
            "scales": [float(step.scale) for step in steps],
            "bounds": [step.bound for step in steps],
        }

    @property
    def draws(self) -> DrawList:
        """The steps, largest threshold first, with the scales of their noise in records."""
        steps = [
            {
                "tops": step.tops,
                "thresholds": str(2 * step.scale),
                "queries": str(4 * step.scale),
                "tests": str(step.scale),
                "bound": step.bound,
                "cut": step.cut,
            }
            for step in self.laws.steps[::-1]
        ]
        return DrawList(
            kind="relative",
            draws=(),
            facts={"steps": steps},
            delta=self.laws.delta,
            group=self.unit.moves,
        )

    @property
    def coverage(self) -> str:
        return (
            "lower and upper hold the true count of a node with the stated confidence if the data "
            f"have no more than {self.laws.largest} records"
        )

    def own_lines(self) -> list[Line]:
        laws = self.laws
        failing = f"{laws.eta:.4g}"
        return [
            Line("relative error", laws.alpha, "that counts are within, from the least count on"),
            Line("least count", laws.smallest_threshold, "smaller nodes are not told from empty"),
            Line("largest", laws.largest, "records that the caller says the data have at most"),
            Line("steps", len(laws.steps), "thresholds, each classifies the nodes left over"),
            Line("chance of failure", failing, "that a count is not within its interval"),
        ]

    def run(self, counted: CountTree, /) -> NoisyTree:
        return relative_counts.run(counted, laws=self.laws)


def relative_plan(asked: TreeRequest) -> RelativePlan:
    """Choose the steps; ParameterError if ``alpha`` or ``largest`` is missing."""
    if asked.threshold is not None:
        raise ParameterError(
            f"threshold ({asked.threshold!r}) does not go with mechanism='relative'. Leave it out."
        )
    alpha = _require_argument(
        "alpha", asked.alpha, "the relative error that is accepted, for example 0.5"
    )
    most = "the largest number of records that the data could have, known publicly"
    largest = _require_argument("largest", asked.largest, most)
    record = per_record(asked.budget, asked.unit.moves)
    laws = relative_laws(
        height=asked.hierarchy.height,
        alpha=alpha,
        epsilon=record.epsilon,
        delta=record.delta,
        largest=largest,
        eta=1 - asked.confidence,
    )
    return RelativePlan(asked=asked, laws=laws)


def _require_argument(name: str, value: T | None, meaning: str) -> T:
    if value is None:
        raise ParameterError(f"mechanism='relative' needs {name}=, {meaning}.")
    return value
