"""The private step of a rollup: true counts and sums of the parts, before noise."""

from __future__ import annotations

from dpframe.asking.plan_protocols import MechanismInput
from dpframe.errors import ParameterError
from dpframe.mechanisms.rollup import Measurable
from dpframe.questions.rollup.plan import RollupPlan
from dpframe.sources.columns import require_columns
from dpframe.sources.exact_trees import check_readable
from dpframe.sources.frames import collect_lazy
from dpframe.sources.rollup_parts import check_value_columns, check_value_type, measure_parts
from dpframe.sources.source_relations import canonical
from dpframe.sources.spark import is_spark


def count(source: object, plan: RollupPlan, progress: bool) -> MechanismInput[Measurable]:
    """True counts and sums. Measures bounded by user are counted later, once parts are known."""
    source = collect_lazy(source, columns(plan))
    _check_rollup_values(source, plan)
    private = measure_parts(
        source,
        plan.hierarchy,
        plan.asked.selection_unit,
        plan.band,
        plan.vectors,
        listed=plan.listed_keys,
        progress=progress,
    )
    return MechanismInput(private, private.counts.types)


def columns(plan: RollupPlan) -> list[str]:
    """The columns that the rollup reads from a source."""
    adds_up, others = _measure_columns(plan)
    users = [] if plan.unit.user is None else [plan.unit.user]
    return list(dict.fromkeys([*plan.hierarchy.source_columns, *users, *adds_up, *others]))


def check_rollup_source(plan: RollupPlan, source: object) -> None:
    """Raise ColumnError for a column that a source lacks or that cannot be read, and ParameterError
    for ``heavy`` on Spark."""
    check_readable(source, plan.hierarchy, plan.unit)
    _check_rollup_values(source, plan)


def rollup_result_types(plan: RollupPlan, stored: list[tuple[str, str]]) -> tuple[str, ...]:
    """The types of the level columns.

    Raises ColumnError for a column that the table lacks or whose type cannot be read.
    """
    from dpframe.sources.sql_tables import check_stored, level_types

    check_stored(plan.hierarchy, plan.unit, stored)
    adds_up, others = _measure_columns(plan)
    require_columns([*adds_up, *others], tuple(name for name, _ in stored))
    types = dict(stored)
    for column in adds_up:
        check_value_type(column, canonical(types[column]))
    return level_types(plan.hierarchy, stored)


def _check_rollup_values(source: object, plan: RollupPlan) -> None:
    heavy = plan.asked.heavy
    if heavy is not None and is_spark(source):
        raise ParameterError(
            f"heavy ({heavy!r}) needs whole numbers of 128 bits, which Spark lacks. Leave heavy "
            "out, or pass frame.toArrow(), if it fits into memory."
        )
    check_value_columns(source, *_measure_columns(plan))


def _measure_columns(plan: RollupPlan) -> tuple[list[str], list[str]]:
    """The columns that are added up, and the columns whose different values are counted."""
    named = [m for m in plan.asked.measures.values() if m.column is not None]
    adds_up = [str(m.column) for m in named if m.kind != "distinct"]
    return adds_up, [str(m.column) for m in named if m.kind == "distinct"]
