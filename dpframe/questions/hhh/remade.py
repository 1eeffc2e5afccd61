"""The law of the tests of a release, from its receipt: the plan is made again and compared."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from dpframe.asking.receipt import law_facts
from dpframe.budget import Budget, PrivacyUnit
from dpframe.errors import DpframeError
from dpframe.hierarchy import as_hierarchy
from dpframe.noise import NoiseTable
from dpframe.questions.hhh.checks import Asked
from dpframe.questions.hhh.offline import OfflinePlan, offline_plan

RELEASED = ("offline", "tree-hhh")
"""Mechanisms whose tests and released counts are both told."""

UNSHOWN = 0.02
"""``release_share`` of the selection of a rollup, whose counts are not released."""


def law_of_tests(receipt: Mapping[str, Any]) -> NoiseTable | None:
    """The table that this release was tested with, or None where the receipt does not say enough.

    A receipt tells family, spread and ends of the law, and the arguments that it was chosen by. The
    law that they choose now is the one if all that is told of it agrees, to the last digit; after
    another ``release_share``, or in another version that chooses otherwise, it does not.
    """
    if receipt["mechanism"] == "rollup":
        return _of_rollup(receipt)
    if receipt["mechanism"] not in RELEASED or receipt.get("weight") is not None:
        return None
    plan = _plan(*_asked(receipt), receipt["epsilon"], receipt["remainder"], None)
    if plan is None:
        return None
    noise = receipt["noise"]
    same = law_facts(plan.test_noise, plan.grid) == noise["test"]
    same &= law_facts(plan.count_noise, plan.grid) == noise["release"]
    return plan.test_noise if same else None


def _of_rollup(receipt: Mapping[str, Any]) -> NoiseTable | None:
    """Where records or users decide what is shown, and nothing else has a part of delta."""
    spent = next((line[1] for line in receipt["card"] if line[0] == "selection"), None)
    if receipt.get("noise") is None or spent is None:
        return None
    plan = _plan(*_asked(receipt), float(spent), False, UNSHOWN)
    if plan is None or law_facts(plan.test_noise, plan.grid) != receipt["noise"]:
        return None
    return plan.test_noise


def _asked(receipt: Mapping[str, Any]) -> tuple[Any, ...]:
    names = ("hierarchy", "user", "contribution", "max_contributions", "delta", "threshold")
    return tuple(receipt.get(name) for name in names)


@lru_cache(maxsize=64)
def _plan(
    hierarchy: str,
    user: str | None,
    contribution: Any,
    max_contributions: int | None,
    delta: float,
    threshold: float,
    epsilon: float,
    remainder: bool,
    release_share: float | None,
) -> OfflinePlan | None:
    unit = PrivacyUnit(
        user=user,
        contribution=contribution or "share",
        max_contributions=max_contributions or 1,
    )
    try:
        return offline_plan(
            Asked(
                hierarchy=as_hierarchy(hierarchy),
                unit=unit,
                budget=Budget(epsilon=epsilon, delta=delta),
                threshold=threshold,
                remainder=remainder,
                release_share=release_share,
            )
        )
    except DpframeError:
        return None
