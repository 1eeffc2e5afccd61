"""Choose the plan of a sketch's release by the structure of the sketch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from dpframe.budget import Budget
from dpframe.questions.sketches.base_sketch_plan import SketchPlan
from dpframe.questions.sketches.lossy import SparsePlan, SumPlan, sparse_plan, sum_plan
from dpframe.questions.sketches.single_stream import single_stream_plan
from dpframe.questions.sketches.sketch_request import SketchRequest, Structure
from dpframe.questions.sketches.universe import universe_plan

RELEASES: Mapping[Structure, Callable[[SketchRequest], SketchPlan[Any, Any]]] = {
    "variant": single_stream_plan,
    "standard": single_stream_plan,
    "sum": sum_plan,
    "bounded": sparse_plan,
    "users": sparse_plan,
}
"""For each structure, the function that plans a release without a universe."""


def make_sketch_plan(
    *, structure: Structure, unit: str, counters: int, budget: Budget, **options: Any
) -> SketchPlan[Any, Any]:
    """Choose noise and threshold; ``options`` are the remaining fields of ``SketchRequest``.

    Raises BudgetError if no noise reaches the budget."""
    asked = SketchRequest(
        structure=structure, unit=unit, counters=counters, budget=budget, **options
    )
    if asked.universe is not None:
        return universe_plan(asked, asked.universe)
    return RELEASES[structure](asked)


def make_level_plan(
    *,
    structure: Literal["sum", "bounded", "users"],
    unit: str,
    counters: int,
    budget: Budget,
    **options: Any,
) -> SumPlan | SparsePlan:
    """Like ``make_sketch_plan`` without a universe, for structures with a sketch per level."""
    asked = SketchRequest(
        structure=structure, unit=unit, counters=counters, budget=budget, **options
    )
    return sum_plan(asked) if structure == "sum" else sparse_plan(asked)
