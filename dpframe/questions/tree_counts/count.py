"""The private step of tree counts: exact counts, of all nodes or of listed ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dpframe.asking.plan import Counted
from dpframe.asking.warehouse_plan import WarehousePlan
from dpframe.questions.tree_counts.base import TreePlan
from dpframe.sources.counting import exact_counts
from dpframe.sources.relations import only_text
from dpframe.tree import CountTree


def fitted(plan: TreePlan[Any], source: object) -> TreePlan[Any]:
    """The plan, which knows whether the weights of a source are texts."""
    if isinstance(source, WarehousePlan):
        return replace(plan, text_weights=source.weights_are_text)
    return replace(plan, text_weights=only_text(source))


def count(source: object, plan: TreePlan[Any], progress: bool) -> Counted[CountTree]:
    """True counts of the nodes that can be shown."""
    tree = exact_counts(
        source, plan.hierarchy, plan.unit, plan.band, listed=plan.listed, progress=progress
    )
    return Counted(tree, tree.types)
