"""The private step of heavy hitters: exact counts, sketches of every level, or pairs of a user and
a value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dpframe._forking import no_fork
from dpframe.asking.plan import Counted
from dpframe.hierarchy import Cells
from dpframe.questions.hhh.base import HhhPlan
from dpframe.sources.counting import cell_counts, exact_counts
from dpframe.sources.spark import SparkFrame, is_spark, shuffle_partitions

if TYPE_CHECKING:
    from dpframe.questions.hhh.partitioned import PartitionPlan


def fitted(plan: Any, source: object) -> HhhPlan[Any, Any] | PartitionPlan:
    """Return the plan for a source: Spark keeps sketches of partitions."""
    if plan.counters is not None and is_spark(source):
        with no_fork():
            from dpframe.questions.hhh.partitioned import partition_plan

        return partition_plan(plan, shuffle_partitions(source))
    return plan  # type: ignore[no-any-return]


def rolled_up(plan: Any) -> HhhPlan[Any, Any] | None:
    """Return the plan if it starts from the counts of a tree; None if it needs rows."""
    if plan.unit.nodes is not None:
        return None
    return plan if plan.counters is None and plan.items is None else None


def columns(plan: Any) -> Sequence[str] | None:
    """Return the columns to hand over where values of users or users at nodes are counted; else
    None."""
    if plan.items is None and plan.unit.nodes is None:
        return None
    return list(dict.fromkeys([*plan.hierarchy.source_columns, plan.unit.user]))


SKETCHES = ("mechanism='streaming'", "by mechanism='offline'")
"""The mechanism that needs the rows of a table, and what to use without them."""


def count(source: object, plan: Any, progress: bool) -> Counted[Any]:
    """Count a source for the mechanism of a plan."""
    if plan.counters is None:
        if plan.items is not None:
            with no_fork():
                from dpframe.sources.user_items import user_items

            pairs = user_items(source, plan.hierarchy, plan.unit, plan.items, progress=progress)
            return Counted(pairs, pairs.types)
        if plan.unit.nodes is not None:
            with no_fork():
                from dpframe.sources.node_users import node_users

            users = node_users(source, plan.hierarchy, plan.unit, plan.band, progress=progress)
            return Counted(users, users.types)
        if isinstance(plan.hierarchy, Cells):
            cells = cell_counts(source, plan.hierarchy, plan.unit, plan.band, progress=progress)
            return Counted(cells, cells.types)
        tree = exact_counts(source, plan.hierarchy, plan.unit, plan.band, progress=progress)
        return Counted(tree, tree.types)
    if plan.partitions is None:
        with no_fork():
            from dpframe.sources.sketching import sketch_states

        return Counted(*sketch_states(source, plan, progress=progress))
    with no_fork():
        from dpframe.sources.spark_stream import partitioned_states

    types = SparkFrame(source, plan.hierarchy.source_columns).types
    return Counted(partitioned_states(source, plan), tuple(types.values()))
