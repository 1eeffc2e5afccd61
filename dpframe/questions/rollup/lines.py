"""What is known of a rollup before the data are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpframe.asking.quantities import Quantity, guarantee, hierarchy_line, rounded_up

if TYPE_CHECKING:
    from dpframe.measures import Measure
    from dpframe.questions.rollup.plan import RollupPlan


def lines(plan: RollupPlan) -> list[Quantity]:
    """Everything, for the card."""
    return [
        Quantity(
            "guarantee", guarantee(plan), "what is promised, against anybody who sees the result"
        ),
        Quantity("mechanism", "rollup", "several measures on the parts of one selection"),
        hierarchy_line(plan.hierarchy),
        *_selection(plan),
        *(line for name in plan.asked.measures for line in _measure(plan, name)),
        Quantity(
            "computed delta",
            rounded_up(plan.delta_spent) if plan.delta_spent else 0,
            "upper bound from the tables that are drawn from",
        ),
    ]


def _selection(plan: RollupPlan) -> list[Quantity]:
    selection = plan.selection
    if selection is None:
        return [Quantity("keys", "listed", "every listed node is shown, whatever is below it")]
    what = "users" if plan.unit.user is not None else "records"
    return [
        Quantity("counts", plan.unit.counts, "what decides which nodes are shown"),
        Quantity("threshold", selection.threshold, f"{what} of its own from which a node is shown"),
        Quantity(
            "epsilon of the selection", selection.budget.epsilon, "spent on which nodes are shown"
        ),
    ]


def _measure(plan: RollupPlan, name: str) -> list[Quantity]:
    measure = plan.asked.measures[name]
    epsilon = plan.epsilon_of(name)
    return [Quantity(name, measure.spec, f"epsilon {float(epsilon):.4g}; {_error(measure, plan)}")]


def _error(measure: Measure, plan: RollupPlan) -> str:
    return "noise"
