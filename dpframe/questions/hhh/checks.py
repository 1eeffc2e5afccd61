"""Arguments of heavy hitters, checked once: name, value, rule, next step."""

from __future__ import annotations

from typing import Any, cast

from dpframe.asking.given import Given
from dpframe.questions.hhh.base import HhhPlan, Mechanism
from dpframe.questions.hhh.plan import GOES_WITH, MECHANISMS, make_plan
from dpframe.sketches import DEFAULT_COUNTERS, LARGEST


def hhh_plan(given: Given) -> HhhPlan[Any, Any]:
    """A plan from unchecked arguments."""
    mechanism = cast(Mechanism, given.chosen("mechanism", tuple(MECHANISMS)))
    given.flag("acknowledge")
    if given["remainder"] is not None:
        given.flag("remainder")
    own = (
        given.but(remainder=None) if mechanism == "paper" else given
    )  # it says itself what it lacks
    own.goes(GOES_WITH, mechanism)
    streaming = mechanism == "streaming"
    counters = given.whole("counters", 2, LARGEST)
    return make_plan(
        hierarchy=given.hierarchy,
        unit=given.unit,
        budget=given.budget,
        mechanism=mechanism,
        threshold=given.whole("threshold", 1, 2**53),
        remainder=not streaming if given["remainder"] is None else given.flag("remainder"),
        release_share=given.number("release_share", 0.01, 0.99),
        confidence=given.confidence,
        acknowledge=given.flag("acknowledge"),
        counters=DEFAULT_COUNTERS if streaming and counters is None else counters,
    )
