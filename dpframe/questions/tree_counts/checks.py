"""Check the arguments of tree counts once. A message gives name, value, rule and next step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dpframe.asking.call_arguments import (
    DELTA,
    DELTA_ADVICE,
    CallArguments,
    Constraint,
    budget_amount,
    choice,
    column_name,
    optional_whole,
)
from dpframe.asking.user_nodes import nodes_unit_from, with_contribution_bound
from dpframe.budget import LARGEST_WEIGHT, Budget, PrivacyUnit, as_float
from dpframe.errors import ParameterError, ParameterTypeError
from dpframe.hierarchy import Hierarchy
from dpframe.questions.tree_counts.base_tree_plan import TreePlan
from dpframe.questions.tree_counts.plan import ADDITIVE, GOES_WITH, TREE_MECHANISMS, make_tree_plan
from dpframe.sources.keys import listed_nodes
from dpframe.tree import ListedNodes

CONSTRAINTS: Mapping[str, Constraint] = {
    "mechanism": choice(TREE_MECHANISMS),
    "threshold": optional_whole(1, 2**53),
}


def tree_plan(given: CallArguments) -> TreePlan[Any]:
    """A plan from arguments that ``CONSTRAINTS`` checked."""
    levels, kind = given.hierarchy, given["mechanism"]
    given.goes(GOES_WITH, kind)
    return make_tree_plan(
        hierarchy=levels,
        unit=_tree_unit(given),
        budget=Budget(epsilon=given["epsilon"], delta=_tree_delta(given["delta"], given["keys"])),
        mechanism=kind,
        listed=_listed_tree_nodes(given["keys"], levels),
        level_weights=_level_weights(given["level_weights"], levels),
        threshold=given["threshold"],
        consistent=given["consistent"],
        confidence=given["confidence"],
        alpha=given["alpha"],
        largest=given["largest"],
    )


def _listed_tree_nodes(keys: object, hierarchy: Hierarchy) -> ListedNodes | None:
    if keys is None or isinstance(keys, ListedNodes):
        return keys
    return listed_nodes(keys, hierarchy)


def _tree_delta(delta: object, keys: object) -> float:
    """Delta, 0 for a pure release. Without keys the plan refuses 0 and says what to do."""
    if delta is None or as_float(delta) == 0:
        return 0.0
    return budget_amount(
        "delta", delta, *DELTA, DELTA_ADVICE if keys is None else f"{DELTA_ADVICE}, or left out"
    )


def _tree_unit(given: CallArguments) -> PrivacyUnit:
    user, weight, max_weight = given["user"], given["weight"], given["max_weight"]
    if (by_nodes := nodes_unit_from(given, exact=given["mechanism"] in ADDITIVE)) is not None:
        return by_nodes
    if weight is None:
        if max_weight is not None:
            raise ParameterError(
                f"max_weight ({max_weight!r}) needs weight=. Name the column that says for how "
                "many records a row stands, or leave max_weight out."
            )
        refused = given["contribution"] == "items" and user is not None
        return with_contribution_bound(given).unit if refused else given.unit
    weight = column_name("weight", weight)
    if user is not None:
        # a row stands either for several records or for a part of a user
        raise ParameterError(f"weight ({weight!r}) excludes user ({user!r}). Leave one out.")
    given.unit  # noqa: B018  # what needs user= is refused
    bound = optional_whole(1, LARGEST_WEIGHT)("max_weight", max_weight)
    return PrivacyUnit(weight=weight, max_weight=bound)


def _level_weights(value: object, hierarchy: Hierarchy) -> tuple[float, ...] | None:
    if value is None:
        return None
    levels = hierarchy.height + 1
    rule = (
        f"level_weights must be {levels} positive numbers, one for each level, level 0 "
        "(everything) first"
    )
    given: Any = value
    weights = given.tolist() if hasattr(given, "tolist") else given
    if isinstance(weights, str | bytes) or not isinstance(weights, Sequence):
        raise ParameterTypeError(f"{rule}; got {type(value).__name__}.")
    for w in weights:
        if as_float(w) is None:
            raise ParameterTypeError(f"{rule}; got {w!r}.")
    if len(weights) != levels:
        raise ParameterError(f"{rule}; got {len(weights)}.")
    rule += ", the largest at most 1e6 times the smallest"
    numbers = tuple(as_float(w) or 0.0 for w in weights)
    if any(as_float(w) == math.inf != w for w in weights):
        raise ParameterError(f"{rule}; got a number beyond 1e308.")
    if not all(math.isfinite(w) and w > 0 for w in numbers) or max(numbers) > 1e6 * min(numbers):
        raise ParameterError(f"{rule}; got {list(weights)}.")
    return numbers
