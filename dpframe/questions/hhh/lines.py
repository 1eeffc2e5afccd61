"""What is known of heavy hitters before the data are read, for plans that count exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpframe.asking.quantities import Quantity, guarantee, hierarchy_line, noise_text, rounded_up

if TYPE_CHECKING:
    from dpframe.questions.hhh.base import HhhPlan


def heading(plan: HhhPlan[Any, Any]) -> list[Quantity]:
    """The lines that every mechanism starts with."""
    return [
        Quantity(
            "guarantee", guarantee(plan), "what is promised, against anybody who sees the result"
        ),
        Quantity("mechanism", plan.mechanism, plan.paper),
        hierarchy_line(plan.hierarchy),
        Quantity("counts", plan.unit.counts, "what the numbers count"),
    ]


def ending(plan: HhhPlan[Any, Any]) -> list[Quantity]:
    """The lines that every mechanism ends with."""
    return [
        Quantity("remainder", plan.remainder, "whether the rest is released as level 0"),
        Quantity(
            "computed delta",
            rounded_up(plan.delta_spent),
            "upper bound from the tables that are drawn from",
        ),
    ]


def what_counts(plan: HhhPlan[Any, Any]) -> str:
    """What a unit of the counts is, in a word."""
    return "users" if plan.grid > 1 else "records"


def threshold_line(plan: HhhPlan[Any, Any]) -> Quantity:
    """From which residual a node is reported."""
    meaning = f"residual {what_counts(plan)} from which a node is reported"
    return Quantity("threshold", plan.threshold, meaning)


def coverage_lines(plan: HhhPlan[Any, Any]) -> list[Quantity]:
    """Which residuals are reported."""
    return [
        Quantity(
            "chance at threshold",
            round(plan.chance_at_threshold, 4),
            "probability that a residual equal to the threshold is reported",
        ),
        Quantity(
            "certainly reported", plan.certainly_reported, "every residual from here on is reported"
        ),
        Quantity("never reported", plan.never_reported, "no residual below this is reported"),
    ]


def noise_lines(plan: HhhPlan[Any, Any]) -> list[Quantity]:
    """The two draws."""
    return [
        Quantity("test noise", noise_text(plan.test_noise, plan.grid), "decides what is reported"),
        Quantity(
            "release noise", noise_text(plan.count_noise, plan.grid), "added to what is reported"
        ),
    ]


def error_lines(plan: HhhPlan[Any, Any]) -> list[Quantity]:
    """How far reported counts are from the truth."""
    what = what_counts(plan)
    # shares are rounded to whole users after the noise: up to half a user more
    bound = -(-(plan.count_noise.highest + plan.grid // 2) // plan.grid)
    wide = -(-plan.half_width(1) // plan.grid)
    sd = round(plan.count_noise.sd / plan.grid, 3)
    return [
        Quantity("standard error", sd, f"of a reported residual, in {what}"),
        Quantity(
            "typical error",
            f"+-{wide} with confidence {plan.confidence:g}",
            f"of a count that holds one reported residual, in {what}",
        ),
        Quantity(
            "largest error", bound, f"no reported residual is further from the truth, in {what}"
        ),
    ]
