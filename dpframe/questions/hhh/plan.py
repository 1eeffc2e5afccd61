"""Plan a release of heavy hitters: the table of mechanisms, and the choice of a plan.

This module sees no data: it may import the mathematics, never a source (a test checks that).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpframe._late_imports import load_name
from dpframe.asking.call_arguments import (
    CallArguments,
    Constraint,
    check_contribution,
    choice,
    delta_amount,
    flag,
    none_or,
)
from dpframe.budget import Budget, Contribution, PrivacyUnit
from dpframe.errors import ParameterError
from dpframe.hierarchy import Hierarchy
from dpframe.questions.hhh.checks import HhhArguments, check_hhh_arguments
from dpframe.questions.hhh.mechanism_plan import HhhPlan

MECHANISMS: Mapping[str, tuple[str, str]] = {
    "offline": ("dpframe.questions.hhh.offline", "offline_plan"),
    "offline-gaussian": ("dpframe.questions.hhh.offline_gaussian", "normal_plan"),
    "streaming": ("dpframe.questions.hhh.sketch_plans", "streaming_plan"),
    "laplace": ("dpframe.questions.hhh.histogram_baselines", "histogram_baseline_plan"),
    "gaussian": ("dpframe.questions.hhh.histogram_baselines", "histogram_baseline_plan"),
    "paper": ("dpframe.questions.hhh.printed_plan", "printed_plan"),
}
"""For each mechanism: its module, loaded when it is first used, and the function that plans."""

GOES_WITH: Mapping[str, tuple[tuple[str, ...], str]] = {
    "release_share": (("offline", "offline-gaussian"), "divides epsilon between two draws"),
    "counters": (("streaming",), "is the size of a sketch"),
    "acknowledge": (("paper",), "lets the algorithm run as it is printed"),
    "remainder": (
        ("offline", "offline-gaussian", "laplace", "gaussian"),
        "releases what no reported node covers",
    ),
}
"""For each argument that only some mechanisms take: these mechanisms, and the argument's effect."""

CONTRIBUTIONS: Mapping[str, tuple[Contribution, ...]] = {
    "offline": ("share", "items"),
    "offline-gaussian": ("share",),
    "streaming": ("items",),
}
"""The ways in which each mechanism can count a user, besides "records". Shares need counts on a
grid; items need the set of each user's values."""

MEASURES = "offline", "offline-gaussian"
"""Mechanisms that add up a weight."""


CONSTRAINTS: Mapping[str, Constraint] = {
    "mechanism": choice(tuple(MECHANISMS)),
    "remainder": none_or(flag),
    "delta": delta_amount,
}


def hhh_plan(given: CallArguments) -> HhhPlan[Any, Any]:
    """Make a plan from arguments that ``CONSTRAINTS`` checked."""
    mechanism = given["mechanism"]
    own = (
        given.but(remainder=None) if mechanism == "paper" else given
    )  # the plan of "paper" refuses a remainder itself
    own.goes(GOES_WITH, mechanism)
    return _plan_of_mechanism(check_hhh_arguments(given, mechanism))


def make_plan(
    *,
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    budget: Budget,
    mechanism: str = "offline",
    **options: Any,
) -> HhhPlan[Any, Any]:
    """Choose the noise for one release of heavy hitters; ``options`` are the rest of
    ``HhhArguments``.

    Pure: no data, no randomness.
    """
    return _plan_of_mechanism(
        HhhArguments(hierarchy=hierarchy, unit=unit, budget=budget, mechanism=mechanism, **options)
    )


def _plan_of_mechanism(asked: HhhArguments) -> HhhPlan[Any, Any]:
    check_contribution(asked.unit, asked.mechanism, CONTRIBUTIONS)
    if asked.unit.nodes is not None:
        if asked.hierarchy.has_cells:
            raise ParameterError(
                "contribution='items' takes one hierarchy. Pass one, or leave contribution out."
            )
        from dpframe.questions.hhh.nodes import nodes_plan

        return nodes_plan(asked, asked.unit.nodes)
    if asked.unit.measured and asked.mechanism not in MEASURES:
        raise ParameterError(
            f"mechanism={asked.mechanism!r} adds up no weight ({asked.unit.weight!r}). Use "
            "mechanism='offline', or leave weight and max_weight out."
        )
    if asked.hierarchy.has_cells:
        from dpframe.questions.hhh.cells_plan import cells_plan

        return cells_plan(asked)
    if asked.totals:
        raise ParameterError("totals (True) needs several hierarchies at once. Leave it out.")
    plan: HhhPlan[Any, Any] = load_name(*MECHANISMS[asked.mechanism])(asked)
    return plan
