"""What is known of a rollup before the data are read."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from dpframe.asking.quantities import Quantity, guarantee, hierarchy_line, noise_text, rounded_up
from dpframe.measures import Measure
from dpframe.postprocess.above import PARTS, level_strategy

if TYPE_CHECKING:
    from dpframe.questions.rollup.plan import RollupPlan

MANY = 1000
"""Values of the mean whose error is told."""


def lines(plan: RollupPlan) -> list[Quantity]:
    """Everything, for the card."""
    return [
        Quantity(
            "guarantee", guarantee(plan), "what is promised, against anybody who sees the result"
        ),
        Quantity(
            "mechanism",
            "rollup",
            "measures on what each shown node has of its own; a node is what is below it and its "
            "own rest",
        ),
        hierarchy_line(plan.hierarchy),
        *_selection(plan),
        *_measured(plan),
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
    if plan.asked.heavy is not None:
        what = plan.asked.heavy
    grid = selection.grid / selection.unit.worth
    share = selection.budget.epsilon / plan.budget.epsilon
    return [
        Quantity(
            "selection",
            selection.budget.epsilon,
            f"epsilon that decides which nodes are shown, {share:.2g} of all",
        ),
        Quantity(
            "threshold",
            selection.threshold,
            f"{what} of its own from which a node is shown, and all nodes above it",
        ),
        Quantity("test noise", noise_text(selection.test_noise, grid), f"in units of {what}"),
    ]


def _measured(plan: RollupPlan) -> list[Quantity]:
    """What is measured of sums and counts: known where nodes are listed."""
    if not plan.paid and not plan.searching:
        return []
    if plan.listed is None:
        told = "by what is shown: what each node has of its own, and upper levels where that pays"
        return [Quantity("measured", "decided when nodes are shown", told)]
    by_user = plan.unit.user is not None
    weights = level_strategy(plan.listed.level, plan.listed.parent, by_user=by_user)
    return [measured_line(weights)]


def measured_line(weights: Mapping[int, Fraction]) -> Quantity:
    """Which levels are measured, and with which part of a measure's epsilon."""
    parts = [f"{float(weights[PARTS]):.3g} on what each node has of its own"]
    parts += [f"{float(w):.3g} on level {at}" for at, w in sorted(weights.items()) if at != PARTS]
    return Quantity(
        "measured",
        ", ".join(parts),
        "of the epsilon of each measure that adds up; made consistent by least squares",
    )


def _measure(plan: RollupPlan, name: str) -> list[Quantity]:
    """What a measure is, what it costs, and how far off it will be."""
    measure = plan.asked.measures[name]
    epsilon = float(plan.epsilon_of(name))
    drawn = f"; read from what {plan.read[name].of} draws for both" if name in plan.read else ""
    said = [Quantity(name, measure.spec, f"epsilon {epsilon:.4g}; {_counts(measure, plan)}{drawn}")]
    error = plan.errors.get(name)
    if measure.searched:
        said.append(
            Quantity(
                f"error of {name}",
                "not known yet",
                "bounds are found first, privately; the receipt says which",
            )
        )
    elif error is not None:
        confidence = f"with confidence {plan.confidence:g}"
        of = "at every node" if name in plan.counts else "of what one node has of its own"
        if measure.kind == "mean":
            of = f"over {MANY} values that one node has of its own, at most"
        said.append(Quantity(f"error of {name}", f"+-{error:.4g} {confidence}", of))
    if measure.lower is not None:
        said.append(Quantity(f"bounds of {name}", _bounds(measure), _clipping(measure, plan)))
    return said


def _bounds(measure: Measure) -> str:
    ends = (measure.lower, measure.upper)
    return " to ".join(
        end if isinstance(end, str) else f"{end:g}" for end in ends if end is not None
    )


def _clipping(measure: Measure, plan: RollupPlan) -> str:
    whose = "one value"
    if plan.unit.user is not None and measure.kind == "sum":
        whose = "everything that one user adds up to"
    return f"of {whose}; what is beyond is cut, a bias that no interval covers"


def _counts(measure: Measure, plan: RollupPlan) -> str:
    """What a measure counts or adds up."""
    by_user = plan.unit.user is not None
    if measure.kind == "count":
        if not by_user:
            return "counts records"
        if measure.at_most is None:
            return "counts users, each weighing 1 in total, divided evenly over their records"
        return f"counts records, at most {measure.at_most} of each user"
    if measure.kind == "distinct":
        of = f", at most {measure.at_most} pairs of node and value of a user a level"
        return f"different values at every node{of if by_user else ''}; they do not add up"
    if measure.kind == "mean":
        each = ", in which every user weighs 1" if by_user else ""
        return f"mean of the values that are not NULL{each}"
    return "adds up"
