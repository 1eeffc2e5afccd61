"""The private step of a rollup: true counts and sums, of users when the parts are known."""

from __future__ import annotations

from dpframe.asking.plan import Counted
from dpframe.mechanisms.rollup import Countable
from dpframe.questions.rollup.plan import RollupPlan
from dpframe.sources.counting import check_readable
from dpframe.sources.measured import check_values, measured


def count(source: object, plan: RollupPlan, progress: bool) -> Counted[Countable]:
    """True counts and sums; what is bounded by user is counted when the parts are known."""
    _check_values(source, plan)
    private = measured(
        source,
        plan.hierarchy,
        plan.unit,
        plan.band,
        plan.vectors,
        listed=plan.listed,
        progress=progress,
    )
    return Counted(private, private.tree.types)


def checked(plan: RollupPlan, source: object) -> None:
    """Raise ColumnError for a column that a source lacks or that cannot be read."""
    check_readable(source, plan.hierarchy, plan.unit)
    _check_values(source, plan)


def _check_values(source: object, plan: RollupPlan) -> None:
    measures = plan.asked.measures.values()
    of = {m.kind == "distinct": [] for m in measures}  # type: dict[bool, list[str]]
    for m in measures:
        if m.column is not None:
            of[m.kind == "distinct"].append(m.column)
    check_values(source, of.get(False, []), of.get(True, []))
