"""What the release of a sketch will do and cost: what is released, and the choice among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from dpframe.budget import Budget
from dpframe.questions.sketches.base import SketchPlan
from dpframe.questions.sketches.lossy import SparsePlan, SumPlan, sparse_plan, sum_plan
from dpframe.questions.sketches.numbers import Asked, Structure
from dpframe.questions.sketches.single_stream import single_stream_plan
from dpframe.questions.sketches.universe import universe_plan

RELEASES: Mapping[Structure, Callable[[Asked], SketchPlan[Any, Any]]] = {
    "variant": single_stream_plan,
    "standard": single_stream_plan,
    "sum": sum_plan,
    "bounded": sparse_plan,
    "users": sparse_plan,
}
"""Without a universe."""


def make_sketch_plan(
    *, structure: Structure, unit: str, counters: int, budget: Budget, **options: Any
) -> SketchPlan[Any, Any]:
    """Choose noise and threshold; ``options`` are the rest of ``Asked``. BudgetError if nothing
    reaches the budget."""
    asked = Asked(structure=structure, unit=unit, counters=counters, budget=budget, **options)
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
    """As ``make_sketch_plan`` without a universe, for what can have a sketch a level."""
    asked = Asked(structure=structure, unit=unit, counters=counters, budget=budget, **options)
    return sum_plan(asked) if structure == "sum" else sparse_plan(asked)
