"""The mechanisms of tree counts, and the choice among them: what a release will do and cost.

This module sees no data. Listed keys are a parameter like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpframe._late_imports import load_name
from dpframe.asking.call_arguments import check_contribution
from dpframe.budget import Budget, Contribution, PrivacyUnit
from dpframe.errors import BudgetError, ParameterError
from dpframe.hierarchy import Hierarchy
from dpframe.questions.tree_counts.base_tree_plan import TreeMechanism, TreePlan, TreeRequest

MECHANISMS: Mapping[TreeMechanism, tuple[str, str]] = {
    "additive": ("dpframe.questions.tree_counts.tree_histograms", "histogram_plan"),
    "laplace": ("dpframe.questions.tree_counts.tree_histograms", "histogram_plan"),
    "gaussian": ("dpframe.questions.tree_counts.tree_histograms", "histogram_plan"),
    "hhh": ("dpframe.questions.tree_counts.hhh", "heavy_hitters_plan"),
    "relative": ("dpframe.questions.tree_counts.relative_plan", "relative_plan"),
}
"""For each mechanism: its module, loaded when it is first used, and the function that plans."""

TREE_MECHANISMS = tuple(MECHANISMS)

ADDITIVE = ("additive", "laplace", "gaussian")

GOES_WITH: Mapping[str, tuple[tuple[str, ...], str]] = {
    "level_weights": (ADDITIVE, "divides the budget over one histogram a level"),
    "alpha": (("relative",), "is the relative error that is accepted"),
    "largest": (("relative",), "is the largest number of records that the data could have"),
}
"""For each argument that only some mechanisms take: these mechanisms, and the argument's effect."""

CONTRIBUTIONS: Mapping[str, tuple[Contribution, ...]] = {
    "additive": ("share", "items"),
    "laplace": ("share", "items"),
    "gaussian": ("items",),
    "hhh": ("share",),
}
"""The ways in which each mechanism can count a user, besides "records". Shares need counts on a
grid."""


def make_tree_plan(
    *,
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    budget: Budget,
    mechanism: TreeMechanism = "additive",
    **options: Any,
) -> TreePlan[Any]:
    """Choose the noise for one release of tree counts; ``options`` are the rest of ``TreeRequest``.

    Pure: no data, no randomness.
    """
    asked = TreeRequest(
        hierarchy=hierarchy, unit=unit, budget=budget, mechanism=mechanism, **options
    )
    if unit.nodes is not None and asked.listed is None:
        raise ParameterError(
            "contribution='items' needs listed nodes. Pass keys=, or call hhh with the same "
            "arguments, which finds the nodes that many users have."
        )
    if asked.listed is None and budget.delta == 0:
        raise BudgetError(
            "delta is missing, and showing unknown keys needs delta > 0. Pass delta, well below "
            "one over the number of people, or list the keys: keys=[...] or keys='domain'."
        )
    if asked.listed is not None and mechanism not in ADDITIVE:
        raise ParameterError(
            f"mechanism={mechanism!r} finds keys by itself. Leave keys out, or use "
            "mechanism='additive', which counts every listed key."
        )
    if mechanism == "gaussian" and budget.delta == 0:
        raise BudgetError(
            "mechanism='gaussian' needs delta > 0. Pass delta, or use mechanism='laplace'."
        )
    check_contribution(unit, mechanism, CONTRIBUTIONS)
    if asked.listed is not None and unit.nodes is not None:
        from dpframe.questions.tree_counts.users_at_nodes import items_plan

        return items_plan(asked, asked.listed, unit.nodes)
    plan: TreePlan[Any] = load_name(*MECHANISMS[mechanism])(asked)
    return plan
