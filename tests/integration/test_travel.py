"""Plans, receipts and results go to other processes and back."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpframe as dp
from dpframe.asking.release import Release
from dpframe.hierarchy import as_hierarchy
from dpframe.questions.prefix_tree.plan import PrefixPlan
from tests.releases import release

FRAME = pd.DataFrame({"who": range(900), "word": ["a"] * 900, "n": [7] * 900})
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
PREFIXES: dict[str, Any] = {"user": "who", "devices": 900, "epsilon": 4.0, "delta": 1e-6}
WAYS: list[Callable[[Any], Any]] = [
    copy.copy,
    copy.deepcopy,
    lambda thing: pickle.loads(pickle.dumps(thing)),
]

PLANS: dict[str, Callable[[], Any]] = {
    "hhh": lambda: dp.explain(["word"], **BUDGET),
    "streaming": lambda: dp.explain(["word"], mechanism="streaming", counters=50, **BUDGET),
    "tree counts": lambda: dp.explain_tree_counts(["word"], **BUDGET),
    "listed keys": lambda: dp.explain_tree_counts(["word"], epsilon=1.0, keys=["a", "b"]),
    "synthesize": lambda: dp.explain_synthesize({"n": (0, 9)}, epsilon=1.0),
    "prefix tree": lambda: dp.explain_prefix_tree("word", **PREFIXES, mechanism="laplace"),
    "reports": lambda: dp.explain_prefix_tree("word", **PREFIXES),
}


@cache
def planned(plan: str) -> Any:
    return PLANS[plan]()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "plan", [pytest.param(p, marks=[pytest.mark.evidence] * (p == "reports")) for p in PLANS]
)
def test_plans_travel(plan: str, way: Callable[[Any], Any]) -> None:
    """Law: a copy asks the same question at the same cost, and explains it in the same words."""
    made = planned(plan)
    arrived = way(made)
    assert str(arrived) == str(made)
    if not isinstance(made.plan, PrefixPlan):
        assert arrived.plan.request == made.plan.request
    assert arrived.plan.profile == made.plan.profile


def test_a_plan_that_travelled_runs() -> None:
    """Law: that of a prefix tree too, which is told whom to show its progress."""
    plan = pickle.loads(pickle.dumps(planned("reports").plan))
    assert plan.say("nothing") is None
    assert isinstance(release(FRAME, pickle.loads(pickle.dumps(planned("hhh").plan))), Release)


@pytest.mark.parametrize("way", WAYS)
def test_what_was_released_travels(way: Callable[[Any], Any]) -> None:
    """Law: frames with receipts, receipts with cards, generators, budgets, hierarchies, errors."""
    result = dp.hhh(FRAME, ["word"], **BUDGET)
    pd.testing.assert_frame_equal(way(result), result)
    assert way(result).dp.receipt["release_id"] == result.dp.receipt["release_id"]
    receipt = result.dp.receipt
    assert (dict(way(receipt)), str(way(receipt))) == (dict(receipt), str(receipt))
    generator = dp.synthesize(FRAME, {"n": (0, 9)}, epsilon=1.0, depth=4, k=4)
    assert way(generator).sample(20, seed=1).equals(generator.sample(20, seed=1))
    sql = dp.rollup_sql(["word"], table="t", dialect="duckdb", **BUDGET)
    assert way(sql).sql == sql.sql
    assert way(sql).plan.fingerprint == sql.plan.fingerprint
    for spec in (
        *("ip:src", "path:p", "columns:a,b", "domain:h", "date:d", "number:n?lower=0&upper=9"),
    ):
        assert way(as_hierarchy(spec)) == as_hierarchy(spec)
    assert str(way(dp.ReleaseNameError("words"))) == "words"
    assert np.array_equal(way(dp.MisraGries(counters=8)).counters, 8)
