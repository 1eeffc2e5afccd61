"""What is known of the release of a sketch before it is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpframe.asking.card import Line, Text, claim

if TYPE_CHECKING:
    from dpframe.questions.sketches.base import SketchPlan

CHANCE = (
    "for a key fixed beforehand, the chance that it is published with an interval that misses "
    "the true count is at most one minus the confidence; given that a key near the threshold "
    "was published, the confidence is nominal"
)
"""What is promised of the intervals of every release."""


def guarantee(plan: SketchPlan[Any, Any]) -> str:
    """The privacy claim, as one sentence."""
    return claim(plan.budget, plan.neighbours)


def heading(plan: SketchPlan[Any, Any]) -> list[Line]:
    """The lines that every release starts with."""
    wide = -(-plan.above // plan.grid)
    return [
        Line("guarantee", guarantee(plan), "what is promised, against anybody who sees the result"),
        Line("mechanism", plan.mechanism, plan.paper),
        Line("counts", plan.counts, "what the numbers count"),
        Line.of(
            "counters",
            plan.counters,
            "of each of {sketches} sketches",
            sketches=plan.sketches,
        ),
        Line("sensitivity", plan.sensitivity, "what the noise has to cover"),
        Line("noise", _noise_text(plan), "in every count"),
        Line.of(
            "noise error",
            Text("+-{half_width} with confidence {confidence:g}"),
            "of a count, from the noise alone",
            half_width=wide,
            confidence=plan.confidence,
        ),
    ]


def again(number: int) -> list[Line]:
    """Of the ``number``-th release of the same sketch."""
    if number == 1:
        return []
    both = "both count" if number == 2 else "all count"
    return [
        Line.of(
            "releases",
            number,
            "release {number} of this sketch; {both}",
            number=number,
            both=both,
        )
    ]


def counts_move(plan: SketchPlan[Any, Any]) -> str:
    """How far whole counts move."""
    most = f"at most {plan.counters} counters by 1, all in one direction"
    return f"{_where(plan)}one {plan.unit} moves {most}"


def lattice_moves(plan: SketchPlan[Any, Any]) -> str:
    """How far post-processed counts move."""
    k = plan.counters
    return (
        f"{_where(plan)}one record moves the sum by at most {2 * k - 1}/{k + 1} (l1) and "
        f"sqrt({k * k + k - 1})/{k + 1} (l2), however many sketches are in it"
    )


def counts_meaning(plan: SketchPlan[Any, Any]) -> str:
    """What the intervals mean where nothing released tells what sketches lost."""
    if plan.records is None:
        return f"{CHANCE}. upper is missing: the number of records is private and was not declared"
    sketched = plan.records / (plan.counters + 1)
    return (
        f"{CHANCE}. lower allows for the noise, upper also for the sketch, which loses at most "
        f"{sketched:.6g} of a count if there were at most {plan.records} records"
    )


def _where(plan: SketchPlan[Any, Any]) -> str:
    return "" if plan.levels == 1 else f"on each of {plan.levels} levels "


def _noise_text(plan: SketchPlan[Any, Any]) -> str:
    law = plan.noise["count"]
    ends = "unbounded"
    if law["lowest"] is not None:
        ends = f"within [{law['lowest']:.4g}, {law['highest']:.4g}]"
    return f"{law['family']}, sd {law['sd']:.3g}, {ends}"
