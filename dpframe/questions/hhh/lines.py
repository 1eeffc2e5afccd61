"""Lines of the cards of heavy hitters: what is known before the data are read."""

from __future__ import annotations

from typing import Any

from dpframe.asking.card import (
    Line,
    Text,
    four_digits_up,
    hierarchy_line,
    noise_line,
    plan_guarantee,
    units_to_worth,
)
from dpframe.budget import PrivacyUnit, as_written
from dpframe.questions.hhh.mechanism_plan import HhhPlan


def hhh_heading_lines(plan: HhhPlan[Any, Any]) -> list[Line]:
    """Return the lines that the card of every mechanism starts with."""
    return [
        Line(
            "guarantee",
            plan_guarantee(plan),
            "what is promised, against anybody who sees the result",
        ),
        Line("mechanism", plan.mechanism, plan.paper),
        hierarchy_line(plan.hierarchy),
        Line("counts", plan.unit.counts, plan.unit.what_counts),
        *_weight_lines(plan.unit),
    ]


def _weight_lines(unit: PrivacyUnit) -> list[Line]:
    """Return the line on how weights are cut and rounded, as no exception may tell."""
    if not unit.measured:
        return []
    more = "larger ones count" if unit.user is None else "users with more in total count"
    return [
        Line.of(
            "weights",
            Text("up to {most} a {whose}"),
            (
                "{more} {most}: what is cut off makes counts too low, and intervals do not "
                "cover it; missing and negative ones, NaN and text that is no number count 0; "
                "rounded at random to multiples of {step:.4g}, right on average, with a "
                "standard deviation of about half of that at most times the square root of the "
                "number of {each}"
            ),
            most=as_written(unit.worth),
            whose="row" if unit.user is None else "user",
            more=more,
            step=unit.worth / unit.grid,
            each="finest nodes" if unit.user is None else "users",
        )
    ]


def hhh_ending_lines(plan: HhhPlan[Any, Any]) -> list[Line]:
    """Return the lines that the card of every mechanism ends with."""
    return [
        Line("remainder", plan.remainder, "whether the rest is released as level 0"),
        Line(
            "computed delta",
            four_digits_up(plan.delta_spent),
            "upper bound from the tables that are drawn from",
        ),
    ]


def threshold_line(plan: HhhPlan[Any, Any]) -> Line:
    """Return the line on the residual from which a node is reported."""
    return Line.of(
        "threshold",
        plan.shown_threshold,
        "residual {counted} from which a {node} is reported",
        counted=plan.counted,
        node=plan.node,
    )


def coverage_lines(plan: HhhPlan[Any, Any]) -> list[Line]:
    """Return the lines on which residuals are reported."""
    return [
        Line(
            "chance at threshold",
            round(plan.chance_at_threshold, 4),
            "probability that a residual equal to the threshold is reported",
        ),
        Line(
            "certainly reported", plan.certainly_reported, "every residual from here on is reported"
        ),
        Line("never reported", plan.never_reported, "no residual below this is reported"),
    ]


def noise_lines(plan: HhhPlan[Any, Any]) -> list[Line]:
    """Return the lines on the two draws of noise."""
    grid = plan.grid / plan.unit.worth
    return [
        noise_line("test noise", plan.test_noise, grid, "decides what is reported"),
        noise_line("release noise", plan.count_noise, grid, "added to what is reported"),
    ]


def error_lines(plan: HhhPlan[Any, Any]) -> list[Line]:
    """Return the lines on how far reported counts are from the truth."""
    what = plan.counted
    # shares are rounded to whole users after the noise: up to half a user more
    bound: float = -(-(plan.count_noise.highest + plan.grid // 2) // plan.grid)
    wide: float = -(-plan.half_width(1) // plan.grid)
    sd: float = round(plan.count_noise.sd / plan.grid, 3)
    if plan.unit.measured:
        bound = units_to_worth(plan.count_noise.highest, plan.unit, up=True)
        wide = units_to_worth(plan.half_width(1), plan.unit, up=True)
        sd = plan.count_noise.sd / plan.grid * plan.unit.worth
    return [
        Line.of(
            "standard error",
            sd,
            "of a reported residual, in {counted}",
            counted=what,
        ),
        Line.of(
            "typical error",
            Text("+-{half_width} with confidence {confidence:g}"),
            "{of}, in {counted}",
            of=plan.one_residual,
            half_width=wide,
            confidence=plan.confidence,
            counted=what,
        ),
        Line.of(
            "largest error",
            bound,
            "no reported residual is further from the truth, in {counted}",
            counted=what,
        ),
    ]
