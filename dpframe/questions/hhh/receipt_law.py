"""Find the law of a release's tests from its receipt: make the plan again, and compare."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from dpframe.errors import DpframeError
from dpframe.noise import NoiseTable, law_facts
from dpframe.postprocess.legacy import selection_epsilon
from dpframe.questions.hhh.ask import HHH
from dpframe.questions.hhh.mechanism_plan import HhhPlan

PLAN_MECHANISMS = {
    "offline": "offline",
    "offline-gaussian": "offline-gaussian",
    "tree-hhh": "offline",
    "rollup": "offline",
}
"""Mechanisms that test residuals, with the mechanism of ``hhh`` whose plan has the law."""

SELECTION_RELEASE_SHARE = 0.02
"""``release_share`` of the selection of a rollup, whose counts are not released."""


def law_of_tests(receipt: Mapping[str, Any]) -> NoiseTable | None:
    """Return the table of the release's tests, or None if the receipt does not say enough.

    A receipt has the family, spread and ends of the law, and the arguments that chose it. The law
    that they choose now is the law of the release if all these facts agree, to the last digit.
    They do not after another ``release_share``, or in a version that chooses otherwise.
    """
    noise, other = receipt.get("noise"), dict[str, Any]()
    mechanism = PLAN_MECHANISMS.get(receipt["mechanism"])
    if not noise or mechanism is None or receipt.get("weight") is not None:
        return None
    told = noise
    if receipt["mechanism"] == "rollup":
        other = {
            "epsilon": selection_epsilon(receipt),
            "remainder": False,
            "release_share": SELECTION_RELEASE_SHARE,
        }
        told = {"test": noise}
    plan = _plan_from_json(
        json.dumps({**_receipt_arguments(receipt), **other, "mechanism": mechanism})
    )
    if plan is None:
        return None
    made = {
        "test": law_facts(plan.test_noise, plan.grid),
        "release": law_facts(plan.count_noise, plan.grid),
    }
    same = all(facts.items() <= made[name].items() for name, facts in told.items())
    return plan.test_noise if same else None


def _receipt_arguments(receipt: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of ``hhh`` that a receipt holds, except the period: it is no part of a
    law."""
    told = {name: receipt.get(name) for name in HHH.planning if name != "period"}
    return {name: value for name, value in told.items() if value is not None}


@lru_cache(maxsize=64)
def _plan_from_json(arguments: str) -> HhhPlan[Any, Any] | None:
    try:
        plan: HhhPlan[Any, Any] = HHH.plan(json.loads(arguments))
    except DpframeError:
        return None
    return plan
