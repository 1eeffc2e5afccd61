"""Arguments of tree counts, checked once: name, value, rule, next step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any, cast

from dpframe.asking.given import (
    DELTA,
    EPSILON,
    amount,
    chosen,
    column_name,
    flag,
    number,
    unit_from,
    whole,
)
from dpframe.budget import LARGEST_WEIGHT, Budget, PrivacyUnit
from dpframe.errors import ParameterError, ParameterTypeError
from dpframe.hierarchy import Hierarchy, as_hierarchy
from dpframe.questions.tree_counts.plan import (
    TREE_MECHANISMS,
    TreeMechanism,
    TreePlan,
    make_tree_plan,
)
from dpframe.sources.keys import listed_nodes
from dpframe.tree import ListedNodes


def tree_plan_from(
    hierarchy: object,
    *,
    epsilon: object,
    delta: object,
    keys: object,
    user: object,
    contribution: object,
    max_contributions: object,
    weight: object,
    max_weight: object,
    mechanism: object,
    level_weights: object,
    threshold: object,
    consistent: object,
    confidence: object,
    alpha: object,
    largest: object,
) -> TreePlan:
    """A plan from unchecked arguments."""
    levels = as_hierarchy(hierarchy)
    kind = cast(TreeMechanism, chosen("mechanism", mechanism, TREE_MECHANISMS))
    return make_tree_plan(
        hierarchy=levels,
        unit=_unit(user, contribution, max_contributions, weight, max_weight),
        budget=Budget(
            epsilon=amount("epsilon", epsilon, *EPSILON, "for example 1.0"),
            delta=_delta(delta, keys),
        ),
        mechanism=kind,
        listed=_listed(keys, levels),
        level_weights=_level_weights(level_weights, levels),
        threshold=None if threshold is None else whole("threshold", threshold, 1, 2**53),
        consistent=flag("consistent", consistent),
        confidence=number("confidence", confidence, 0.5, 0.999999),
        alpha=None if alpha is None else number("alpha", alpha, 0.01, 0.99),
        largest=None if largest is None else whole("largest", largest, 1, 2**53),
    )


def _listed(keys: object, hierarchy: Hierarchy) -> ListedNodes | None:
    if keys is None or isinstance(keys, ListedNodes):
        return keys
    return listed_nodes(keys, hierarchy)


def _delta(delta: object, keys: object) -> float:
    """0 stands for a pure release; without keys the plan refuses it and says what to do."""
    if delta is None or (not isinstance(delta, bool) and isinstance(delta, Real) and delta == 0):
        return 0.0
    advice = "well below one over the number of people"
    return amount("delta", delta, *DELTA, advice if keys is None else f"{advice}, or left out")


def _unit(
    user: object,
    contribution: object,
    max_contributions: object,
    weight: object,
    max_weight: object,
) -> PrivacyUnit:
    if weight is None:
        if max_weight is not None:
            raise ParameterError(
                f"max_weight ({max_weight!r}) needs weight=: name the column that says for how "
                "many records a row stands, or leave max_weight out."
            )
        unit = unit_from(user, contribution, max_contributions)
        if unit.contribution == "items":
            raise ParameterError(
                "contribution='items' is for mechanism='streaming' of hhh: use 'share' or "
                "'records'."
            )
        return unit
    weight = column_name("weight", weight)
    if user is not None:
        raise ParameterError(
            f"weight ({weight!r}) and user ({user!r}) do not go together: a row stands either for "
            "several records or for a part of a user. Leave one out."
        )
    unit_from(user, contribution, max_contributions)
    bound = None if max_weight is None else whole("max_weight", max_weight, 1, LARGEST_WEIGHT)
    return PrivacyUnit(weight=weight, max_weight=bound)


def _level_weights(value: object, hierarchy: Hierarchy) -> tuple[float, ...] | None:
    if value is None:
        return None
    levels = hierarchy.height + 1
    rule = (
        f"level_weights must be {levels} positive numbers, one a level of this hierarchy, level 0 "
        "(everything) first"
    )
    given: Any = value
    weights = given.tolist() if hasattr(given, "tolist") else given
    if isinstance(weights, str | bytes) or not isinstance(weights, Sequence):
        raise ParameterTypeError(f"{rule}; got {type(value).__name__}.")
    for w in weights:
        if isinstance(w, bool) or not isinstance(w, Real):
            raise ParameterTypeError(f"{rule}; got {w!r}.")
    if len(weights) != levels:
        raise ParameterError(f"{rule}; got {len(weights)}.")
    rule += ", the largest at most 1e6 times the smallest"
    try:
        numbers = tuple(float(w) for w in weights)
    except OverflowError:
        raise ParameterError(f"{rule}; got a number beyond 1e308.") from None
    if not all(math.isfinite(w) and w > 0 for w in numbers) or max(numbers) > 1e6 * min(numbers):
        raise ParameterError(f"{rule}; got {list(weights)}.")
    return numbers
