"""The private step of a rollup: true counts and sums; bounded by user once parts are known."""

from __future__ import annotations

from dpframe._forking import no_fork
from dpframe.asking.plan import Counted
from dpframe.errors import ParameterError
from dpframe.hierarchy import Cells
from dpframe.mechanisms.rollup import Measurable
from dpframe.questions.rollup.plan import RollupPlan
from dpframe.sources.columns import require
from dpframe.sources.counting import check_readable
from dpframe.sources.frames import computed
from dpframe.sources.measured import check_value_type, check_values, measured
from dpframe.sources.relations import canonical
from dpframe.sources.spark import is_spark


def count(source: object, plan: RollupPlan, progress: bool) -> Counted[Measurable]:
    """True counts and sums. What is bounded by user is counted later, when the parts are known."""
    source = computed(source, columns(plan))
    _check_values(source, plan)
    several = plan.hierarchy
    if isinstance(several, Cells):
        with no_fork():
            from dpframe.sources.measured_cells import measured_cells

        found = measured_cells(
            source, several, plan.asked.selecting, plan.band, plan.vectors, progress=progress
        )
        return Counted(found, found.cells.types)
    private = measured(
        source,
        plan.hierarchy,
        plan.asked.selecting,
        plan.band,
        plan.vectors,
        listed=plan.listed,
        progress=progress,
    )
    return Counted(private, private.tree.types)


def columns(plan: RollupPlan) -> list[str]:
    """The columns that the rollup reads from a source."""
    adds_up, others = _columns(plan)
    users = [] if plan.unit.user is None else [plan.unit.user]
    return list(dict.fromkeys([*plan.hierarchy.source_columns, *users, *adds_up, *others]))


def checked(plan: RollupPlan, source: object) -> None:
    """Raise ColumnError for a column that a source lacks or that cannot be read."""
    check_readable(source, plan.hierarchy, plan.unit)
    _check_values(source, plan)


def result_types(plan: RollupPlan, stored: list[tuple[str, str]]) -> tuple[str, ...]:
    """The types of the level columns.

    Raises ColumnError for a column that the table lacks or whose type cannot be read.
    """
    with no_fork():
        from dpframe.sources.sql_tables import check_stored, level_types

    check_stored(plan.hierarchy, plan.unit, stored)
    adds_up, others = _columns(plan)
    require([*adds_up, *others], tuple(name for name, _ in stored))
    types = dict(stored)
    for column in adds_up:
        check_value_type(column, canonical(types[column]))
    return level_types(plan.hierarchy, stored)


def _check_values(source: object, plan: RollupPlan) -> None:
    heavy = plan.asked.heavy
    if heavy is not None and is_spark(source):
        raise ParameterError(
            f"heavy ({heavy!r}) needs whole numbers of 128 bits, which Spark lacks. Leave heavy "
            "out, or pass frame.toArrow(), if it fits into memory."
        )
    check_values(source, *_columns(plan))


def _columns(plan: RollupPlan) -> tuple[list[str], list[str]]:
    """The columns that are added up, and the columns whose different values are counted."""
    named = [m for m in plan.asked.measures.values() if m.column is not None]
    adds_up = [str(m.column) for m in named if m.kind != "distinct"]
    return adds_up, [str(m.column) for m in named if m.kind == "distinct"]
