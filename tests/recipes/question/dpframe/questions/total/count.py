"""The private step of a total: the rollup, which leaves the root alone."""

from __future__ import annotations

from dpframe.asking.level_plan import MechanismInput
from dpframe.counts import CountTree
from dpframe.questions.total.plan import TotalPlan
from dpframe.sources.exact_trees import exact_counts


def count(source: object, plan: TotalPlan, progress: bool) -> MechanismInput[CountTree]:
    """The true total."""
    tree = exact_counts(source, plan.hierarchy, plan.unit, plan.band, progress=progress)
    return MechanismInput(tree, tree.types)
