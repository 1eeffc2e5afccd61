"""Plan a release of heavy hitters: the table of mechanisms, and the choice of a plan.

This module sees no data: it may import the mathematics, never a source (a test checks that).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpframe._forking import loaded, no_fork
from dpframe.asking.given import Given, check_contribution
from dpframe.budget import Budget, Contribution, PrivacyUnit
from dpframe.errors import ParameterError
from dpframe.hierarchy import Cells, Hierarchy
from dpframe.questions.hhh.base import HhhPlan
from dpframe.questions.hhh.checks import Asked, asked_for

MECHANISMS: Mapping[str, tuple[str, str]] = {
    "offline": ("dpframe.questions.hhh.offline", "offline_plan"),
    "offline-gaussian": ("dpframe.questions.hhh.normal", "normal_plan"),
    "streaming": ("dpframe.questions.hhh.streaming", "streaming_plan"),
    "laplace": ("dpframe.questions.hhh.histograms", "histogram_plan"),
    "gaussian": ("dpframe.questions.hhh.histograms", "histogram_plan"),
    "paper": ("dpframe.questions.hhh.printed", "printed_plan"),
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
"""For each argument that only some mechanisms take: these mechanisms, and what it does."""

CONTRIBUTIONS: Mapping[str, tuple[Contribution, ...]] = {
    "offline": ("share", "items"),
    "offline-gaussian": ("share",),
    "streaming": ("items",),
}
"""What mechanisms count of a user besides records: shares need a grid, items a set a user."""

MEASURES = "offline", "offline-gaussian"
"""Mechanisms that add up a weight."""


def hhh_plan(given: Given) -> HhhPlan[Any, Any]:
    """Make a plan from unchecked arguments."""
    mechanism = given.chosen("mechanism", tuple(MECHANISMS))
    given.flag("acknowledge")
    if given["remainder"] is not None:
        given.flag("remainder")
    own = (
        given.but(remainder=None) if mechanism == "paper" else given
    )  # its plan refuses a remainder itself
    own.goes(GOES_WITH, mechanism)
    return _plan(asked_for(given, mechanism))


def make_plan(
    *,
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    budget: Budget,
    mechanism: str = "offline",
    **options: Any,
) -> HhhPlan[Any, Any]:
    """Choose the noise for one release of heavy hitters; ``options`` are the rest of ``Asked``.

    Pure: no data, no randomness.
    """
    return _plan(
        Asked(hierarchy=hierarchy, unit=unit, budget=budget, mechanism=mechanism, **options)
    )


def _plan(asked: Asked) -> HhhPlan[Any, Any]:
    check_contribution(asked.unit, asked.mechanism, CONTRIBUTIONS)
    if asked.unit.nodes is not None:
        if isinstance(asked.hierarchy, Cells):
            raise ParameterError(
                "contribution='items' takes one hierarchy. Pass one, or leave contribution out."
            )
        with no_fork():
            from dpframe.questions.hhh.nodes import nodes_plan

        return nodes_plan(asked, asked.unit.nodes)
    if asked.unit.measured and asked.mechanism not in MEASURES:
        raise ParameterError(
            f"mechanism={asked.mechanism!r} adds up no weight ({asked.unit.weight!r}). Use "
            "mechanism='offline', or leave weight and max_weight out."
        )
    if isinstance(asked.hierarchy, Cells):
        with no_fork():
            from dpframe.questions.hhh.cells import cells_plan

        return cells_plan(asked)
    if asked.totals:
        raise ParameterError("totals (True) needs several hierarchies at once. Leave it out.")
    plan: HhhPlan[Any, Any] = loaded(*MECHANISMS[asked.mechanism])(asked)
    return plan
