"""The private step of heavy hitters: exact counts, or sketches of every level."""

from __future__ import annotations

from typing import Any

from dpframe.asking.plan import Counted
from dpframe.hierarchy import Cells
from dpframe.questions.hhh.base import HhhPlan
from dpframe.questions.hhh.partitioned import PartitionPlan, partition_plan
from dpframe.sources.counting import cell_counts, exact_counts
from dpframe.sources.sketching import sketch_states
from dpframe.sources.spark import SparkFrame, is_spark, shuffle_partitions
from dpframe.sources.spark_stream import partitioned_states


def fitted(plan: Any, source: object) -> HhhPlan[Any, Any] | PartitionPlan:
    """The plan for a source: Spark keeps sketches of partitions."""
    if plan.counters is not None and is_spark(source):
        return partition_plan(plan, shuffle_partitions(source))
    return plan  # type: ignore[no-any-return]


def rolled_up(plan: Any) -> HhhPlan[Any, Any] | None:
    """A plan that starts from exact counts; sketches are made of rows."""
    return plan if plan.counters is None else None


SKETCHES = ("mechanism='streaming'", "by mechanism='offline'")
"""What reads the rows of a table, and what counts them instead."""


def count(source: object, plan: Any, progress: bool) -> Counted[Any]:
    """What the mechanism of a plan starts from."""
    if isinstance(plan.hierarchy, Cells):
        cells = cell_counts(source, plan.hierarchy, plan.unit, plan.band, progress=progress)
        return Counted(cells, cells.types)
    if plan.counters is None:
        tree = exact_counts(source, plan.hierarchy, plan.unit, plan.band, progress=progress)
        return Counted(tree, tree.types)
    if plan.partitions is None:
        return Counted(*sketch_states(source, plan, progress=progress))
    types = SparkFrame(source, plan.hierarchy.source_columns).types
    return Counted(partitioned_states(source, plan), tuple(types.values()))
