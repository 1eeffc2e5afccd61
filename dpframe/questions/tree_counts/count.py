"""The private step of tree counts: exact counts of all nodes, or of listed nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dpframe.asking.plan_protocols import MechanismInput, RemoteSource
from dpframe.questions.tree_counts.base_tree_plan import TreePlan
from dpframe.sources.exact_trees import exact_counts
from dpframe.sources.source_relations import only_text
from dpframe.tree import CountTree


def fit_tree_plan(plan: TreePlan[Any], source: object) -> TreePlan[Any]:
    """Complete the plan by a fact of the source: whether all its columns are text, so that weights
    are read from texts."""
    if isinstance(source, RemoteSource):
        return replace(plan, text_weights=source.weights_are_text)
    return replace(plan, text_weights=only_text(source))


def tree_rollup_plan(plan: TreePlan[Any]) -> TreePlan[Any] | None:
    """The plan if it can start from the counts of a tree; None for counts of different users, which
    do not add up."""
    return plan if plan.unit.nodes is None else None


def columns(plan: TreePlan[Any]) -> Sequence[str] | None:
    """The columns that the count reads from rows, if it counts different users; else None."""
    unit = plan.unit
    if unit.nodes is None:
        return None
    return list(dict.fromkeys([*plan.hierarchy.source_columns, str(unit.user)]))


def count(source: object, plan: TreePlan[Any], progress: bool) -> MechanismInput[CountTree]:
    """True counts of the nodes that can be shown."""
    if plan.unit.nodes is not None:
        from dpframe.sources.node_user_counts import node_users

        users = node_users(
            source, plan.hierarchy, plan.unit, plan.band, listed=plan.listed_keys, progress=progress
        )
        return MechanismInput(users, users.types)
    counts = exact_counts(
        source, plan.hierarchy, plan.unit, plan.band, listed=plan.listed_keys, progress=progress
    )
    return MechanismInput(counts.axes[0], counts.types)
