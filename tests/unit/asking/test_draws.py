"""Laws of the list of draws: receipt, card, proof, curve and delta of a plan follow from it."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dpframe as dp
from dpframe.asking.card import Draw, DrawList, counts_game
from dpframe.asking.level_plan import proof_text
from dpframe.budget import Budget
from dpframe.noise import UnboundedNoise, gaussian_table, laplace_table

PATHS = ["country", "city"]
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}

PLANS: dict[str, Any] = {
    "records": lambda: dp.explain(PATHS, **BUDGET),
    "shares": lambda: dp.explain(PATHS, user="who", contribution="share", **BUDGET),
    "Gaussian": lambda: dp.explain(PATHS, mechanism="offline-gaussian", **BUDGET),
    "baseline": lambda: dp.explain(PATHS, mechanism="laplace", **BUDGET),
    "streaming": lambda: dp.explain(PATHS, mechanism="streaming", counters=50, **BUDGET),
    "users at nodes": lambda: dp.explain(PATHS, user="who", contribution="items", **BUDGET),
    "whole counts": lambda: dp.explain("country * device", totals=True, **BUDGET),
    "tree": lambda: dp.explain_tree_counts(PATHS, **BUDGET),
    "listed, pure": lambda: dp.explain_tree_counts(PATHS, keys=[("fr", "paris")], epsilon=1.0),
    "rollup": lambda: dp.explain_rollup(PATHS, measures={"n": dp.count()}, **BUDGET),
    "central": lambda: dp.explain_prefix_tree(
        "word", user="who", devices=10_000, mechanism="gaussian", **BUDGET
    ),
}


def tables_of(proof: Any) -> set[tuple[int, bytes]]:
    return {(one["lowest"], base64.b64decode(one["weights"])) for one in proof["tables"]}


def other(law: Any) -> Any:
    """A law with one weight more at an end: another one, whatever is said of it."""
    weights = np.concatenate([[np.uint64(1)], law.weights])
    weights[1:] -= np.where(np.arange(len(law.weights)) == law.weights.argmax(), 1, 0).astype("u8")
    return replace(law, lowest=law.lowest - 1, weights=weights)


@pytest.mark.parametrize("name", PLANS)
def test_receipt_card_and_proof_tell_the_same_draws(name: str) -> None:
    """Law: each law of the receipt is that of a draw, and each table of the proof is one."""
    plan = PLANS[name]().plan
    draws: DrawList = plan.draws
    receipt = plan.receipt()
    text = json.dumps(receipt["noise"])
    for draw in draws.draws:
        if draw.names:
            assert json.dumps(draw.facts) in text
        if draw.label:
            assert draw.line.row in receipt["card"]
    bounded = [d.law for d in draws.draws if not isinstance(d.law, UnboundedNoise)]
    proved = tables_of(json.loads(proof_text(plan) or ""))
    assert {(int(law.lowest), law.weights.tobytes()) for law in bounded} <= proved
    assert receipt["computed_delta"] == draws.delta_spent(plan.budget) <= plan.budget.delta
    assert plan.profile[-1] == (plan.budget.epsilon, plan.budget.delta)


def test_another_draw_changes_receipt_card_and_proof_together() -> None:
    """Negative control: nothing tells the noise of a plan but its list."""
    plan = PLANS["records"]().plan
    test, release = plan.draws.draws
    planted = replace(release, law=other(release.law))
    facts = {**plan.draws.facts, "release": planted}
    changed = replace(plan)
    changed.__dict__["draws"] = replace(plan.draws, draws=(test, planted), facts=facts)
    before, after = plan.receipt(), changed.receipt()
    assert before["noise"]["test"] == after["noise"]["test"]
    assert before["noise"]["release"] != after["noise"]["release"]
    assert before["card"] != after["card"]
    assert before["proof"]["sha256"] != after["proof"]["sha256"]
    assert dp.verify(before)
    assert dp.verify({**before, "noise": after["noise"]}).outcome == "failed"


def test_a_table_is_written_once_and_numbered_in_order() -> None:
    """Law: levels that are always shown come first."""
    narrow, again, wide = laplace_table(2.0, 30), laplace_table(2.0, 30), gaussian_table(5.0, 40)
    draws = [Draw(law=wide, times=2), Draw(law=narrow, least=50), Draw(law=again)]
    game, tables = counts_game(draws, delta=1e-7, group=3).game()
    assert [table.weights.tolist() for table in tables] == [
        *(wide.weights.tolist(), narrow.weights.tolist())
    ]
    levels = [(0, None), (0, None), (1, None), (1, 50)]
    written = [{"table": table, "least": least} for table, least in levels]
    assert game == {"kind": "counts", "units": 1, "levels": written}


def test_unbounded_noise_is_told_by_its_exact_scale() -> None:
    draw = Draw(law=UnboundedNoise(Fraction(25, 2)), moves=3)
    assert draw.level == {"scale": "25/2", "moves": 3, "least": None}


def test_a_group_pays_for_each_of_its_records() -> None:
    """Law: the computed delta of a group is at most the budget, and no less than of one record."""
    budget = Budget(epsilon=1.0, delta=1e-6)
    law = laplace_table(2.0, 30)
    one, three = (counts_game([Draw(law=law)], delta=1e-8, group=group) for group in (1, 3))
    assert one.delta_spent(budget) == pytest.approx(1e-8)
    assert 1e-8 < three.delta_spent(budget) <= 1e-6
    assert one.profile(budget) == ((1.0, 1e-6),)
