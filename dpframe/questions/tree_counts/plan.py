"""What a release of the counts of all nodes will do and cost: the mechanisms, and the choice.

This module sees no data. Listed keys are a parameter like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpframe._forking import loaded, no_fork
from dpframe.asking.given import check_contribution
from dpframe.budget import Budget, Contribution, PrivacyUnit
from dpframe.errors import BudgetError, ParameterError
from dpframe.hierarchy import Hierarchy
from dpframe.questions.tree_counts.base import Asked, TreeMechanism, TreePlan

MECHANISMS: Mapping[TreeMechanism, tuple[str, str]] = {
    "additive": ("dpframe.questions.tree_counts.histograms", "histogram_plan"),
    "laplace": ("dpframe.questions.tree_counts.histograms", "histogram_plan"),
    "gaussian": ("dpframe.questions.tree_counts.histograms", "histogram_plan"),
    "hhh": ("dpframe.questions.tree_counts.hhh", "heavy_hitters_plan"),
    "relative": ("dpframe.questions.tree_counts.relative", "relative_plan"),
}
"""Where each makes its plan: a module that is loaded when it is first asked."""

TREE_MECHANISMS = tuple(MECHANISMS)

ADDITIVE = ("additive", "laplace", "gaussian")

GOES_WITH: Mapping[str, tuple[tuple[str, ...], str]] = {
    "level_weights": (ADDITIVE, "divides the budget over one histogram a level"),
    "alpha": (("relative",), "is the relative error that is accepted"),
    "largest": (("relative",), "is the largest number of records that the data could have"),
}
"""Arguments that only some mechanisms take, and what they do."""

CONTRIBUTIONS: Mapping[str, tuple[Contribution, ...]] = {
    "additive": ("share", "items"),
    "laplace": ("share", "items"),
    "gaussian": ("items",),
    "hhh": ("share",),
}
"""What mechanisms count of a user beside records: shares need a grid."""


def make_tree_plan(
    *,
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    budget: Budget,
    mechanism: TreeMechanism = "additive",
    **options: Any,
) -> TreePlan[Any]:
    """Choose the noise for one release of tree counts; ``options`` are the rest of ``Asked``.

    Pure: no data, no randomness.
    """
    asked = Asked(hierarchy=hierarchy, unit=unit, budget=budget, mechanism=mechanism, **options)
    if unit.nodes is not None and asked.listed is None:
        raise ParameterError(
            "contribution='items' counts the different users of listed nodes: pass keys=, or let "
            "hhh, asked the same way, find the nodes that many users have."
        )
    if asked.listed is None and budget.delta == 0:
        raise BudgetError(
            "delta is missing: which keys there are is private, and showing them needs delta > 0, "
            "well below one over the number of people. Or list the keys: keys=[...] or "
            "keys='domain'; then delta=0 is possible."
        )
    if asked.listed is not None and mechanism not in ADDITIVE:
        raise ParameterError(
            f"mechanism={mechanism!r} finds keys by itself: leave keys out, or use "
            "mechanism='additive', which gives every listed key a count."
        )
    if mechanism == "gaussian" and budget.delta == 0:
        raise BudgetError(
            "mechanism='gaussian' needs delta > 0: pass delta, or use mechanism='laplace'."
        )
    check_contribution(unit, mechanism, CONTRIBUTIONS)
    if asked.listed is not None and unit.nodes is not None:
        with no_fork():
            from dpframe.questions.tree_counts.items import items_plan

        return items_plan(asked, asked.listed, unit.nodes)
    plan: TreePlan[Any] = loaded(*MECHANISMS[mechanism])(asked)
    return plan
