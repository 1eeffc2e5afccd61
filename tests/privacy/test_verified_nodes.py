"""Different users at nodes, verified: as many counts as one user moves, with their noise."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

import dpframe as dp
from dpframe.asking.level_plan import proof_text
from dpframe.verifier.judge import verify_proof, verify_receipt

BY = ["a", "b"]
ITEMS: dict[str, Any] = {"user": "u", "contribution": "items", "epsilon": 1.0, "delta": 1e-6}
KEYS = pd.DataFrame({"a": ["x", "x", "y"], "b": ["p", "q", "p"]})

ASKED: dict[str, dict[str, Any]] = {
    "found": {},
    "one node a level": {"at_most": 1},
    "a higher threshold": {"at_most": 3, "threshold": 500},
    "listed": {"keys": KEYS},
    "listed, pure": {"keys": KEYS, "delta": None, "at_most": 2},
    "listed, gaussian": {"keys": KEYS, "mechanism": "gaussian"},
    "listed, by level": {"keys": KEYS, "level_weights": [1, 2, 3]},
}


def planned(**asked: Any) -> Any:
    explain = dp.explain_tree_counts if "keys" in asked else dp.explain
    return explain(BY, **{**ITEMS, **asked}).plan


@pytest.mark.parametrize("name", ASKED)
def test_every_release_of_different_users_is_proved(name: str) -> None:
    plan = planned(**ASKED[name])
    verdict = verify_receipt(plan.receipt("one"), proof_text(plan))
    assert verdict.outcome == "proved", verdict
    assert verdict.bound is not None
    assert verdict.bound <= ITEMS["delta"]


@pytest.mark.engines
def test_a_long_proof_is_made_again_of_the_receipt() -> None:
    """Law: a proof of many counts is too long for a receipt, whose arguments make it again."""
    frame = pd.DataFrame({"a": ["x"] * 3000, "b": "p", "u": range(3000)})
    found = frame.dp.hhh(BY, **ITEMS, at_most=700)
    assert found.dp.receipt["proof"]["text"] is None
    assert dp.verify(found).outcome == "proved"


Change = Callable[[dict[str, Any], dict[str, Any]], object]

TAMPERED: dict[str, Change] = {
    "a count is not paid for": lambda proof, receipt: proof["game"]["levels"].pop(),
    "nor told": lambda proof, receipt: (
        proof["game"]["levels"].pop(),
        receipt.update(moved=receipt["moved"] - 1),
    ),
    "fewer nodes of a user": lambda proof, receipt: receipt.update(at_most=15),
    "another threshold": lambda proof, receipt: receipt.update(threshold=receipt["threshold"] - 1),
    "a node is always shown": lambda proof, receipt: proof["game"]["levels"][5].update(least=None),
    "other noise": lambda proof, receipt: receipt["noise"]["release"].update(highest=40.0),
    "more moves": lambda proof, receipt: (
        proof["game"]["levels"].append(proof["game"]["levels"][-1]),
        receipt.update(moved=receipt["moved"] + 1),
    ),
    "noise over the threshold": lambda proof, receipt: [
        level.update(least=level["least"] - 2) for level in proof["game"]["levels"][1:]
    ],
}


@pytest.mark.parametrize("name", TAMPERED)
def test_what_was_changed_fails(name: str) -> None:
    plan = planned()
    proof, receipt = json.loads(proof_text(plan) or ""), copy.deepcopy(dict(plan.receipt("one")))
    receipt["proof"] = None
    assert verify_receipt(receipt, json.dumps(proof)).outcome == "proved"
    TAMPERED[name](proof, receipt)
    assert verify_receipt(receipt, json.dumps(proof)).outcome == "failed"


def test_noise_for_fewer_counts_fails() -> None:
    """A planted bug: a user pays for one node a level, and counts at three."""
    little, much = planned(at_most=1), planned(at_most=3)
    proof = json.loads(proof_text(little) or "")
    wanted = json.loads(proof_text(much) or "")["game"]["levels"]
    level = proof["game"]["levels"][-1]
    proof["game"]["levels"] += [level] * (len(wanted) - len(proof["game"]["levels"]))
    assert verify_proof(json.dumps(proof)).outcome == "failed"
    assert verify_receipt(much.receipt("one"), proof_text(little)).outcome == "failed"
