"""The private step of heavy hitters: exact counts, sketches of every level, or pairs of a user and
a value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpframe.asking.plan_protocols import MechanismInput
from dpframe.questions.hhh.mechanism_plan import HhhPlan
from dpframe.sources.exact_trees import exact_counts
from dpframe.sources.spark import SparkFrame, is_spark, shuffle_partitions


def hhh_for_source(plan: Any, source: object) -> HhhPlan[Any, Any]:
    """Return the plan for a source: on Spark, sketches are kept for each partition."""
    if plan.counters is not None and is_spark(source):
        from dpframe.questions.hhh.sketch_plans import partition_plan

        return partition_plan(plan, shuffle_partitions(source))
    return plan  # type: ignore[no-any-return]


def hhh_rollup_plan(plan: Any) -> HhhPlan[Any, Any] | None:
    """Return the plan if it starts from the counts of a tree; None if it needs rows."""
    if plan.unit.nodes is not None:
        return None
    return plan if plan.counters is None and plan.items is None else None


def hhh_columns(plan: Any) -> Sequence[str] | None:
    """Return the columns that the count reads, if it counts values of users or users at nodes; else
    None."""
    if plan.items is None and plan.unit.nodes is None:
        return None
    return list(dict.fromkeys([*plan.hierarchy.source_columns, plan.unit.user]))


SKETCH_MECHANISM = ("mechanism='streaming'", "by mechanism='offline'")
"""The mechanism that needs the rows of a table, and what to use without them."""


def count(source: object, plan: Any, progress: bool) -> MechanismInput[Any]:
    """Count a source for the mechanism of a plan."""
    if plan.counters is None:
        if plan.items is not None:
            from dpframe.sources.user_item_rows import user_items

            pairs = user_items(source, plan.hierarchy, plan.unit, plan.items, progress=progress)
            return MechanismInput(pairs, pairs.types)
        if plan.unit.nodes is not None:
            from dpframe.sources.node_user_counts import node_users

            users = node_users(source, plan.hierarchy, plan.unit, plan.band, progress=progress)
            return MechanismInput(users, users.types)
        counts = exact_counts(source, plan.hierarchy, plan.unit, plan.band, progress=progress)
        return MechanismInput(counts, counts.types)
    if plan.partitions is None:
        from dpframe.sources.sketch_states import sketch_states

        return MechanismInput(*sketch_states(source, plan, progress=progress))
    from dpframe.sources.spark_stream import partitioned_states

    types = SparkFrame(source, plan.hierarchy.source_columns).types
    return MechanismInput(partitioned_states(source, plan), tuple(types.values()))
