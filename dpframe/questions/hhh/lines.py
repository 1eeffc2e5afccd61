"""What is known of heavy hitters before the data are read, for plans that count exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpframe.asking.quantities import (
    Quantity,
    guarantee,
    hierarchy_line,
    noise_text,
    rounded_up,
    worth_of,
)
from dpframe.budget import PrivacyUnit, as_written

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
        Quantity("counts", plan.unit.counts, plan.unit.what_counts),
        *_measure(plan.unit),
    ]


def _measure(unit: PrivacyUnit) -> list[Quantity]:
    """What becomes of weights that are not counted as they are: no error may tell of one."""
    if not unit.measured:
        return []
    more = "larger ones count" if unit.user is None else "users with more in total count"
    return [
        Quantity(
            "weights",
            f"up to {as_written(unit.worth)} a {'row' if unit.user is None else 'user'}",
            f"{more} {as_written(unit.worth)}: what is cut off makes counts too low, and intervals "
            "do not cover it; missing and negative ones, NaN and text that is no number count 0; "
            f"rounded at random to multiples of {unit.worth / unit.grid:.4g}, right on average, "
            "with a standard deviation of about half of that at most times the square root of the "
            f"number of {'finest nodes' if unit.user is None else 'users'}",
        )
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
    if plan.unit.measured:
        return repr(plan.unit.weight)
    return "users" if plan.grid > 1 or plan.unit.nodes is not None else "records"


def threshold_shown(plan: HhhPlan[Any, Any]) -> float:
    """The threshold as a whole number, where it is one, of a measure too."""
    whole = float(plan.threshold).is_integer()
    return int(plan.threshold) if whole else plan.threshold


def threshold_line(plan: HhhPlan[Any, Any]) -> Quantity:
    """From which residual a node is reported."""
    meaning = f"residual {what_counts(plan)} from which a node is reported"
    return Quantity("threshold", threshold_shown(plan), meaning)


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
    grid = plan.grid / plan.unit.worth
    return [
        Quantity("test noise", noise_text(plan.test_noise, grid), "decides what is reported"),
        Quantity("release noise", noise_text(plan.count_noise, grid), "added to what is reported"),
    ]


def error_lines(plan: HhhPlan[Any, Any]) -> list[Quantity]:
    """How far reported counts are from the truth."""
    what = what_counts(plan)
    # shares are rounded to whole users after the noise: up to half a user more
    bound: float = -(-(plan.count_noise.highest + plan.grid // 2) // plan.grid)
    wide: float = -(-plan.half_width(1) // plan.grid)
    sd: float = round(plan.count_noise.sd / plan.grid, 3)
    if plan.unit.measured:
        bound = worth_of(plan.count_noise.highest, plan.unit, up=True)
        wide = worth_of(plan.half_width(1), plan.unit, up=True)
        sd = plan.count_noise.sd / plan.grid * plan.unit.worth
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
