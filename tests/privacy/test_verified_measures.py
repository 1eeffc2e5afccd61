"""Rollups, whole counts of cells and different users at nodes, verified: every plan, every release,
and nothing else."""

from __future__ import annotations

import copy
import itertools
import json
import math
import random
import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpframe as dp
from dpframe.asking.level_plan import proof_text
from dpframe.mechanisms import rollup as mechanism
from dpframe.noise import laplace_table
from dpframe.verifier import verify_proof, verify_receipt
from dpframe.verifier.path_game import PathGame, path_bound
from tests.privacy.test_verified_plans import cases, confirmed, drawn_rollup
from tests.privacy.test_verifier import fails, of, proved
from tests.releases import made_once

DELTA: dict[str, Any] = {"delta": 1e-6}
BOUNDS: dict[str, Any] = {"lower": 0, "upper": 500}
OF_USER: dict[str, Any] = {**DELTA, "user": "u", "epsilon": 6.0, "contribution": "share"}
BY_ROUNDS: dict[str, Any] = {**OF_USER, "contribution": "items"}

ROLLUPS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a count and a sum": ({"n": "count", "s": dp.sum("x", **BOUNDS)}, DELTA),
    "listed": ({"n": "count", "s": dp.sum("x", lower=-10, upper=500)}, {"keys": ["x", "y"]}),
    "important levels": (
        {"n": "count", "s": dp.sum("x", **BOUNDS)},
        {**DELTA, "level_importance": {"a": 3, "b": 1}},
    ),
    "listed, even": ({"n": "count"}, {"keys": ["x", "y"], "level_importance": "even"}),
    "cut values": ({"s": dp.sum("x", lower=-0.5, upper=0.1, clipped=True)}, DELTA),
    "a mean, and a sum that is read": (
        {"m": dp.mean("x", **BOUNDS), "s": dp.sum("x", **BOUNDS, clipped=True)},
        DELTA,
    ),
    "different values": ({"d": dp.distinct("c")}, DELTA),
    "different values, many": ({"d": dp.distinct("u", at_most=30), "n": "count"}, OF_USER),
    "values of users": ({"d": dp.distinct('c "q"', at_most=3), "e": "count"}, OF_USER),
    "rows of users": ({"n": dp.count(at_most=5, share=2), "m": dp.mean("x", **BOUNDS)}, OF_USER),
    "totals of users": ({"s": dp.sum("x", lower=-3, upper=700)}, OF_USER),
    "found bounds": (
        {"s": dp.sum("x", lower="auto", upper="auto", clipped=True, share=0.5)},
        DELTA,
    ),
    "found bounds of a mean": ({"m": dp.mean("x", lower=0, upper="auto")}, OF_USER),
    "rounds": ({"n": "count", "s": dp.sum("x", lower=-3, upper=700)}, BY_ROUNDS),
    "rounds, found bounds": (
        {"s": dp.sum("x", lower=0, upper="auto"), "t": dp.sum("c", lower="auto", upper="auto")},
        BY_ROUNDS,
    ),
    "rounds, known bounds": ({"s": dp.sum("x", lower=-3, upper=700)}, BY_ROUNDS),
    "rounds, then others": (
        {"n": "count", "m": dp.mean("x", **BOUNDS), "d": dp.distinct("c", at_most=2)},
        BY_ROUNDS,
    ),
    "rounds alone": ({"m": dp.mean("x", lower=0, upper="auto")}, BY_ROUNDS),
    "a median": ({"m": dp.median("x", **BOUNDS), "n": "count"}, DELTA),
    "quantiles of users": (
        {"q": dp.quantiles("x", at=[0.5, 0.95], bins=10, **BOUNDS)},
        OF_USER,
    ),
    "rounds, then a quantile": ({"n": "count", "q": dp.quantile("x", 0.9, **BOUNDS)}, BY_ROUNDS),
    "totals of users in bins": ({"m": dp.median("x", each="total", **BOUNDS)}, OF_USER),
    "means of users in bins": (
        {"n": "count", "m": dp.quantiles("x", at=[0.5], each="mean", bins=9, **BOUNDS)},
        BY_ROUNDS,
    ),
    "cells of keys": (
        {"n": "count", "m": dp.mean("x", **BOUNDS)},
        {"by": "a * b", "keys": [["x", "y"], [*"pqr"]]},
    ),
    "cells of keys, Gaussian": (
        {"n": "count", "s": dp.sum("x", **BOUNDS)},
        {"by": "sets:a,b;c,b;a,c", "keys": [["x", "y"], [*"pqr"], [*range(50)]], "delta": 1e-2},
    ),
    "a histogram, listed": (
        {"h": dp.histogram("x", bins=[5, 50], share=2, **BOUNDS)},
        {"keys": ["x", "y"]},
    ),
    "heavy by a sum": ({"s": dp.sum("x", **BOUNDS), "n": "count"}, {**DELTA, "heavy": "s"}),
}
"""Measures, and how they are asked for."""
READ, MANY, FOUND = "a mean, and a sum that is read", "different values, many", "found bounds"
ROUNDS, SEARCHED = "rounds", "rounds, found bounds"
QUANTILES = "quantiles of users"


@cache
def planned(name: str) -> Any:
    measures, arguments = ROLLUPS[name]
    by = ["a"] if "keys" in arguments else ["a", "b"]
    return dp.explain_rollup(measures=measures, **{"by": by, "epsilon": 1.0, **arguments}).plan


@made_once
def released(sales: pd.DataFrame, name: str, by: Any = ("a", "b")) -> Any:
    measures, arguments = ROLLUPS[name]
    by = ["a"] if "keys" in arguments else list(by)
    return dp.rollup(sales, measures=measures, **{"by": by, "epsilon": 1.0, **arguments})


@pytest.fixture(scope="module")
def sales() -> pd.DataFrame:
    rng, n = np.random.default_rng(1), 4000
    return pd.DataFrame(
        {
            "a": rng.choice(["x", "y"], n),
            "b": rng.choice(list("pqr"), n),
            "x": rng.uniform(-20, 600, n),
            "c": rng.integers(0, 50, n),
            'c "q"': rng.integers(0, 50, n),
            "u": rng.integers(0, 3000, n),
        }
    )


@pytest.mark.parametrize("name", ROLLUPS)
def test_every_rollup_is_proved(name: str) -> None:
    """Law: what a plan promises is proved, by a proof of the schema that the receipt belongs to."""
    receipt, text, verdict = proved(planned(name))
    assert (receipt["proof"]["text"] is None) is (len(text or "") > 40_000)
    assert all("docs/" in step.where for step in verdict.steps)


@pytest.mark.parametrize("name", ROLLUPS)
def test_every_release_is_proved_with_its_scales(name: str, sales: pd.DataFrame) -> None:
    """Law: so is a release, whose receipt says which scales were drawn with and which bounds were
    found; with a hundredth less noise, or by the receipt of another plan, it fails."""
    result = released(sales, name)
    assert dp.verify(result), dp.verify(result)
    text = proof_text(planned(name))
    facts = result.dp.receipt.to_dict()
    assert verify_receipt(facts, text)
    for measure, told in facts["measures"].items():
        for number, estimate in enumerate(told["noise"]):
            for at in estimate.get("scales", {}):
                less = copy.deepcopy(facts)
                less["measures"][measure]["noise"][number]["scales"][at] *= 0.99
                fails(verify_receipt(less, text), "scales in the receipt lose")


def test_noise_that_is_drawn_too_small_is_in_the_receipt(sales: Any, monkeypatch: Any) -> None:
    """Planted bug: parts and levels that have all of epsilon each; the receipt says so."""
    scales_for = mechanism.scales_for

    def each(weights: Any, *, most: int, epsilon: Fraction) -> Any:
        return scales_for(dict.fromkeys(weights, Fraction(1)), most=most, epsilon=epsilon)

    monkeypatch.setattr(mechanism, "scales_for", each)
    monkeypatch.setattr(mechanism, "measured_parts_cost", lambda scales, most: Fraction(0))
    result = dp.rollup(sales, ["c"], "count", epsilon=1.0, keys=[str(n) for n in range(50)])
    assert len(result.dp.receipt["measures"]["count"]["noise"][0]["scales"]) > 1
    fails(dp.verify(result), "scales in the receipt lose")


def test_a_proof_is_the_same_for_other_data(sales: pd.DataFrame) -> None:
    """Law: no number of a proof is from data, found bounds included."""
    for name in ("a count and a sum", "found bounds", "different values"):
        both = (released(frame, name, ["a"]) for frame in (sales, sales.iloc[:7]))
        found = [result.dp.receipt["proof"] for result in both]
        assert found[0] == found[1]
        assert found[0]["text"] is not None


HUNDRED = pytest.param(100, {"seed": 1}, marks=pytest.mark.evidence)


@pytest.mark.parametrize(
    ("number", "known"), [(12, {"seed": 5, "most": 12, "least": 0.2}), HUNDRED], ids=["some", "100"]
)
def test_random_rollups_are_proved(number: int, known: dict[str, Any]) -> None:
    """Law: of rollups drawn from all there are every one is confirmed."""
    for case in cases(number, **known, draw=drawn_rollup):
        confirmed(case)


Change = Callable[[dict[str, Any]], Any]


def measured(told: dict[str, Any]) -> Any:
    return told["game"]["steps"][1]["game"]


def drawn_of(told: dict[str, Any]) -> Any:
    return measured(told)["drawn"]


def entry(told: dict[str, Any], n: int) -> Any:
    return drawn_of(told)[n]


TAMPERED: dict[str, tuple[Change, str]] = {
    "scale": (lambda t: entry(t, 0).update(scale="1"), "measures lose"),
    "bound": (lambda t: entry(t, 1).update(high=6_000_000_000), "measures lose"),
    "rows": (lambda t: entry(t, 0).update(at_most=2), "measures lose"),
    "another": (lambda t: drawn_of(t).append({**entry(t, 0), "measure": "z"}), "measures lose"),
    "steps": (lambda t: t["game"]["steps"][0].update(epsilon=1.0), "steps lose"),
    "selection": (lambda t: t["game"]["steps"][0].update(epsilon=0.1), "the claim delta"),
    "threshold": (lambda t: t["game"]["steps"][0]["game"].update(threshold=9), "the claim delta"),
    "delta": (lambda t: t["promise"].update(delta=1e-9), "the claim delta"),
    "more": (lambda t: entry(t, 0).update(moves=1), "lacks fields, or has others"),
    "less": (lambda t: entry(t, 0).pop("unit"), "or more than that|whole number"),
    "kind": (lambda t: entry(t, 0).update(of="rest"), "'of' one of"),
    "bounds": (lambda t: entry(t, 1).update(low=2**60), "lower bound"),
    "no bounds": (lambda t: entry(t, 1).update(low=None), "'low' must be a whole number"),
    "found bounds": (
        lambda t: entry(t, 1).update(low=None, high=None, decimals=None, epsilon="1"),
        "lacks fields, or has others",
    ),
    "read": (lambda t: measured(t).update(read={"s": "m"}), "not drawn"),
    "nothing": (lambda t: measured(t).update(drawn=[]), "list of what is drawn"),
    "no steps": (lambda t: t["game"].update(steps=[]), "list of steps"),
    "steps of steps": (
        lambda t: t["game"]["steps"][0].update(game=copy.deepcopy(t["game"])),
        "as a step",
    ),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_tampered_proofs_fail(name: str) -> None:
    """Law: what moves more, draws less or is not paid for fails, and says which claim does."""
    change, said = TAMPERED[name]
    told = json.loads(proof_text(planned("a count and a sum")) or "")
    assert verify_proof(json.dumps(told))
    change(told)
    verdict = verify_proof(json.dumps(told))
    assert verdict.outcome == ("not verified" if name == "steps of steps" else "failed")
    assert re.search(said, verdict.reason), verdict.reason


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda r: r["measures"].update(z={"spec": "count"}), "the proof n, s"),
        (lambda r: r["measures"].pop("s"), "the proof n, s"),
        (lambda r: r["measures"]["s"].update(upper=501.0), "s.upper 501"),
        (lambda r: r["measures"]["s"].update(spec="mean(x, 0, 500)"), "draws mean"),
        (lambda r: r["measures"]["s"].update(spec="sum(x, 0, auto)"), "draws search; sum"),
        (lambda r: r["measures"]["s"].update(spec="sum(x, 0, 500, clipped=true)"), "outside"),
        (lambda r: r["measures"]["s"].update(spec="mode(x)"), "is not known"),
        (lambda r: r["measures"]["s"].update(spec="median(x, 0, 500)"), "edges None"),
        (lambda r: r["measures"]["n"].update(spec="count(at_most=7)"), "draws rows, at most 7"),
        (lambda r: r["measures"]["s"].update(epsilon=0.41), "the receipt says less"),
        (lambda r: r.update(user="u"), "draws users"),
        (lambda r: r.update(height=3), "has levels"),
        (lambda r: r.update(keys="k"), "of listed keys"),
        (lambda r: r.update(threshold=60.0), "threshold 60"),
        (lambda r: r["noise"].update(highest=9), "noise.highest 9"),
        (lambda r: r.update(epsilon=0.9), "has epsilon 0.9"),
        (lambda r: r.update(mechanism="offline"), "the proof is of"),
    ],
)
def test_a_receipt_of_another_rollup_fails(change: Change, said: str) -> None:
    """Law: a proof does not serve a receipt that measures something else."""
    receipt = planned("a count and a sum").receipt().to_dict()
    assert verify_receipt(receipt)
    change(receipt)
    fails(verify_receipt(receipt), said)


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        (READ, lambda m: m["s"].update(upper=400.0), "s.upper 400"),
        (READ, lambda m: m["m"].update(epsilon=0.1), "says less"),
        (READ, lambda m: m["s"]["noise"].pop(), "has noise of sum"),
        (READ, lambda m: m["m"]["noise"].pop(), "has noise of above"),
        (MANY, lambda m: m["d"].update(spec="distinct(c, at_most=30)"), "singly False"),
        (MANY, lambda m: m["d"].update(spec="distinct(u, at_most=3)"), "draws distinct, at most 3"),
        (MANY, lambda m: m["d"]["noise"][0]["law"].update(highest=3), "law.highest 3"),
        (MANY, lambda m: m["n"]["noise"][0].update(unit=1), "unit 1, the proof 1048576"),
        (FOUND, lambda m: m["s"].update(upper=2.0**40), "scales in the receipt lose"),
        (FOUND, lambda m: m["s"].update(spec="sum(x, 0, auto, clipped=true)"), "draws"),
        (FOUND, lambda m: m["s"]["noise"][0]["scales"].pop("parts"), "not understood"),
        (ROUNDS, lambda m: m["s"]["noise"][0].update(bound=800.0), "bound 800"),
        (ROUNDS, lambda m: m["s"]["noise"][1].update(bound=69.0), "bound 69"),
        (ROUNDS, lambda m: m["s"]["noise"][0].update(norm=2000), "norm 2000"),
        (ROUNDS, lambda m: m["s"]["noise"].pop(), "has not the noise of 3 parts"),
        (ROUNDS, lambda m: m["s"]["noise"][2]["law"].update(highest=3.0), "law.highest 3"),
        (ROUNDS, lambda m: m["s"]["noise"][2]["law"].update(sd=3.0), "law.sd 3"),
        (ROUNDS, lambda m: m["s"]["noise"][2]["law"].update(grid=7), "law.grid 7"),
        (ROUNDS, lambda m: m["n"]["noise"][0].update(of="sum"), "of 'sum'"),
        (ROUNDS, lambda m: m["n"]["noise"][0]["law"].update(grid=127), "law.grid 127"),
        (ROUNDS, lambda m: m["s"].update(spec="sum(x, -3, 900)"), "s.upper 700"),
        (ROUNDS, lambda m: m["s"].update(spec="mean(x, -3, 700)"), "is not taken along"),
        (ROUNDS, lambda m: m["s"].update(spec="sum(x, -3, 700, clipped=true)"), "not taken along"),
        (ROUNDS, lambda m: m["n"].update(spec="count(at_most=3)"), "is not taken along"),
        (ROUNDS, lambda m: m["n"].update(adds_up=True), "adds_up True"),
        (ROUNDS, lambda m: m["s"].update(spec="sum(x, -3, auto)", upper=None), "histograms"),
        (ROUNDS, lambda m: m["s"].update(epsilon=0.1), "epsilon 0.1"),
        (ROUNDS, lambda m: m.update(z=m["n"]), "the proof n, s"),
        (ROUNDS, lambda m: m.pop("s"), "the proof n, s"),
        (SEARCHED, lambda m: m["s"]["noise"][0].update(bound=-1.0), "bound -1"),
        (SEARCHED, lambda m: m["t"]["noise"][1]["law"].update(lowest=-3.0), "law.lowest -3"),
        ("rounds, then others", lambda m: m["m"]["noise"].pop(), "has noise of"),
        ("a median", lambda m: m["m"]["edges"].reverse(), "a list of rising numbers"),
        ("a median", lambda m: m["m"].update(edges=[0, 2, 500]), "draws bins, at most 1, the"),
        ("a median", lambda m: m["m"].update(lower=-5.0), "m.lower -5"),
        ("a median", lambda m: m["m"].update(upper=600.0), "the last edge"),
        ("a median", lambda m: m["m"].update(spec="mean(x, 0, 500)"), "draws mean"),
        ("a median", lambda m: m["m"]["noise"].pop(), "has noise of bins, the proof of bins, gr"),
        ("a median", lambda m: m["m"]["noise"].pop(0), "has noise of groups"),
        ("a median", lambda m: m["m"]["noise"][1].update(unit=2), "unit 2, the proof 1"),
        ("a median", lambda m: m["m"].update(epsilon=0.1), "says less"),
        (QUANTILES, lambda m: m["q"]["noise"][0].update(unit=1), "unit 1, the proof 1048576"),
        (QUANTILES, lambda m: m["q"].update(edges=[*range(60)], lower=0, upper=59), "groups, at"),
        (QUANTILES, lambda m: m["q"]["noise"][0]["scales"].update({"1": 2**30}), "scales in the"),
    ],
)
def test_a_receipt_of_another_release_fails(name: str, change: Any, said: str, sales: Any) -> None:
    """Law: so it is with what a release says of its noise, its found bounds and its sharing."""
    facts, text = released(sales, name).dp.receipt.to_dict(), proof_text(planned(name))
    assert verify_receipt(facts, text)
    change(facts["measures"])
    fails(verify_receipt(facts, text), said)


def rounds_game(told: dict[str, Any]) -> Any:
    return told["game"]["steps"][0]["game"]


def _less(of: Any) -> None:
    of["sigma"] *= 0.99


NOT_PAID: dict[str, tuple[str, Change, str]] = {
    "wider norms": (ROUNDS, lambda g: g["measured"][1]["norms"].append(512), "the claim delta"),
    "no norms": (ROUNDS, lambda g: g["measured"][1].update(norms=[]), "'norms' must be"),
    "a norm of 0": (ROUNDS, lambda g: g["measured"][1].update(norms=[886, 0]), "from 1 on"),
    "less noise of a sum": (ROUNDS, lambda g: _less(g["measured"][1]), "the claim delta"),
    "less noise of users": (ROUNDS, lambda g: _less(g["measured"][0]), "the claim delta"),
    "less noise of histograms": (SEARCHED, lambda g: _less(g["sizes"]), "the claim delta"),
    "values": (ROUNDS, lambda g: g["measured"][1].update(values=2**40), "too far|claim delta"),
    "no values": (ROUNDS, lambda g: g["measured"][1].update(values=0), "whole number 'values'"),
    "another measure": (
        ROUNDS,
        lambda g: g["measured"].append({**g["measured"][1], "measure": "z"}),
        "the claim delta",
    ),
    "of nothing": (ROUNDS, lambda g: g["measured"][0].update(of="rows"), "of users or a sum"),
    "more fields": (ROUNDS, lambda g: g["measured"][0].update(part=1), "a measure must have"),
    "histograms": (SEARCHED, lambda g: g.update(histograms=60), "the claim delta"),
    "no number of histograms": (SEARCHED, lambda g: g.pop("histograms"), "histograms"),
    "no list": (ROUNDS, lambda g: g.update(measured={}), "must be a list"),
}


@pytest.mark.parametrize("name", NOT_PAID)
def test_rounds_that_tell_more_than_is_paid_for_fail(name: str) -> None:
    """Law: what is measured along with rounds is in the same bound, with every histogram."""
    of, change, said = NOT_PAID[name]
    told = json.loads(proof_text(planned(of)) or "")
    assert verify_proof(json.dumps(told))
    change(rounds_game(told))
    verdict = verify_proof(json.dumps(told))
    assert verdict.outcome == "failed"
    assert re.search(said, verdict.reason), verdict.reason


UNTOLD: dict[str, tuple[str, Change, str]] = {
    "sums missing": (ROUNDS, lambda g: g["measured"].pop(), "the proof n"),
    "users missing": (ROUNDS, lambda g: g["measured"].pop(0), "the proof s"),
    "nothing measured": (SEARCHED, lambda g: g.update(measured=[]), "the proof "),
    "taken twice": (ROUNDS, lambda g: g["measured"][1].update(measure="n"), "taken twice"),
    "no histogram for auto": (SEARCHED, lambda g: g.update(sizes=None), "histograms have no noise"),
    "no histogram for users": (ROUNDS, lambda g: g.update(sizes=None), "histograms have no noise"),
    "a histogram less": (
        SEARCHED,
        lambda g: g.update(histograms=g["histograms"] - 1),
        "9 histograms are looked at, and 8 are paid for",
    ),
    "fewer counts than a user moves": (
        ROUNDS,
        lambda g: g["measured"][0].update(values=1),
        "the proof has 1",
    ),
    "no histograms": (
        ROUNDS,
        lambda g: g.update(histograms=0),
        "3 histograms are looked at, and 0 are",
    ),
    "users for a sum": (ROUNDS, lambda g: g["measured"][1].update(of="users"), "has 4096"),
    "two norms of users": (
        ROUNDS,
        lambda g: g["measured"][0].update(norms=[100, 40]),
        "norms in 2 parts of 3",
    ),
    "one norm of a sum": (
        ROUNDS,
        lambda g: g["measured"][1].update(norms=[886]),
        "norms in 1 parts of 3",
    ),
    "other norms": (ROUNDS, lambda g: g["measured"][1].update(norms=[500, 500, 500]), "norm 8"),
}


@pytest.mark.parametrize("name", UNTOLD)
def test_a_proof_of_other_measures_along_with_rounds_fails(name: str, sales: Any) -> None:
    """Law: a proof of less than the receipt tells, which may hold by itself, is none of it."""
    of, change, said = UNTOLD[name]
    facts, text = released(sales, of).dp.receipt.to_dict(), proof_text(planned(of))
    assert verify_receipt(facts, text)
    facts.pop("proof")
    told = json.loads(text or "")
    change(rounds_game(told))
    fails(verify_receipt(facts, json.dumps(told)), said)


def test_a_selection_of_records_is_none_of_users() -> None:
    """Law: sums of records and of users are drawn alike; who is protected, the selection shows."""
    totals = {"s": dp.sum("x", **BOUNDS)}
    receipt = dp.explain_rollup(["a"], totals, epsilon=1.0, **DELTA).plan.receipt().to_dict()
    assert verify_receipt(receipt)
    said = "the receipt has users, the proof one record"
    fails(verify_receipt({**receipt, "user": "u"}), said)


def test_a_proof_of_the_selection_alone_is_none_of_a_rollup() -> None:
    """Law: what is measured has to be in the proof, whatever else is."""
    receipt = planned("a count and a sum").receipt().to_dict()
    told = json.loads(receipt.pop("proof")["text"])
    for kept in ([0], [1], [0, 0, 1]):
        steps = {"kind": "steps", "steps": [told["game"]["steps"][n] for n in kept]}
        found = verify_receipt(receipt, json.dumps({**told, "game": steps}))
        fails(found, "a rollup selects once, then measures")
    alone = json.dumps({**told, "game": told["game"]["steps"][0]["game"]})
    fails(verify_receipt(receipt, alone), "is no game 'path'")


OF_SEGMENTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "records": ({"d": dp.distinct("c"), "s": dp.sum("x", **BOUNDS)}, DELTA),
    "users": ({"d": dp.distinct("u", at_most=3), "m": dp.mean("x", **BOUNDS)}, OF_USER),
    "values of users": ({"d": dp.distinct("c", at_most=3)}, OF_USER),
}


@pytest.mark.parametrize("name", OF_SEGMENTS)
def test_rollups_of_cells_are_proved_as_segments(name: str) -> None:
    """Law: a record is in one segment, so that different values move by what a user adds to one
    level; the same numbers for nodes of a hierarchy would be too little noise, and fail."""
    measures, arguments = OF_SEGMENTS[name]
    plan = dp.explain_rollup("a * b", measures, **{"epsilon": 1.0, **arguments}).plan
    receipt, text, _ = proved(plan)
    proof = json.loads(text)
    assert receipt["segments"] is True
    as_nodes = {key: value for key, value in receipt.items() if key != "segments"}
    fails(verify_receipt(as_nodes, json.dumps(proof)))
    del proof["game"]["steps"][1]["game"]["segments"]
    fails(verify_proof(json.dumps(proof)), "lose")


@pytest.mark.parametrize("height", [1, 2, 3])
def test_selections_without_numbers_are_bounded_by_the_definition(height: int) -> None:
    """Law: where nothing is released the bound is the largest divergence of which node, if any, of
    a path is selected, over all residuals; never below it, and hardly above."""
    test, epsilon = laplace_table(1.5, 5), 0.4
    threshold, tails = test.highest + 2, test.at_least()

    def chance(records: int) -> float:
        return float(tails[min(max(threshold - records - test.lowest, 0), len(tails) - 1)])

    worst = 0.0
    records = range(threshold + test.highest + 2)
    for residuals in itertools.combinations_with_replacement(records, height):  # upwards
        more = [each + 1 for each in residuals]
        seen, more = ([*selected(map(chance, each))] for each in (residuals, more))
        for p, q in ((seen, more), (more, seen)):
            apart = sum(max(a - math.exp(epsilon) * b, 0) for a, b in zip(p, q, strict=True))
            worst = max(worst, apart)
    facts = {"height": height, "threshold": threshold, "remainder": False}
    game = PathGame(test=of(test), release=None, **facts)
    bound = float(path_bound(game, Fraction(epsilon)))
    assert worst * (1 - 1e-12) <= bound <= worst * 1.01


def selected(chances: Any) -> Any:
    """The chances that each node is the first one that is selected, and that none is."""
    left = 1.0
    for chance in chances:
        yield left * chance
        left *= 1 - chance
    yield left


# -- whole counts of cells -------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [{}, {"remainder": False}, {"epsilon": 0.01}])
def test_whole_counts_of_cells_are_proved(arguments: dict[str, Any]) -> None:
    """Law: the selection by half of the budget and the whole counts by the other half."""
    proved(dp.explain("a * b", totals=True, **{"epsilon": 1.0, **DELTA, **arguments}).plan)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t["game"]["steps"].pop(), "whole_counts"),
        (lambda t: t["game"]["steps"].reverse(), "whole_counts"),
        (lambda t: t["game"]["steps"][1]["game"]["levels"].pop(), "height 3, the proof 2"),
        (lambda t: t["tables"].reverse(), "whole_counts.noise"),
        (lambda t: t["game"]["steps"][0].update(epsilon=0.6), "steps lose"),
        (lambda t: t["game"]["steps"][0]["game"].update(height=2), "height 3"),
        (lambda t: t["game"]["steps"][1].update(epsilon=0.4), "whole_counts.epsilon"),
        (lambda t: t["game"]["steps"][1]["game"].update(levels=None), "a list of levels"),
    ],
)
def test_other_proofs_of_whole_counts_fail(change: Change, said: str) -> None:
    """Law: whole counts that are not in the proof, are fewer, or are not paid for, are refused."""
    receipt = dp.explain("a * b", totals=True, epsilon=1.0, **DELTA).plan.receipt().to_dict()
    told = json.loads(receipt.pop("proof")["text"])
    assert verify_receipt(receipt, json.dumps(told))
    change(told)
    fails(verify_receipt(receipt, json.dumps(told)), said)


def test_a_selection_alone_is_not_proved_by_whole_counts() -> None:
    """Law: nor are they proved by a selection, wherever its proof comes from."""
    alone, whole = (dp.explain("a * b", totals=t, epsilon=1.0, **DELTA).plan for t in (False, True))
    assert verify_receipt(alone.receipt())
    for plan, text in (
        (alone, proof_text(whole)),
        (whole, proof_text(replace(whole, totals=None))),
    ):
        facts = {name: value for name, value in plan.receipt().to_dict().items() if name != "proof"}
        fails(verify_receipt(facts, text), "whole_counts")


# -- different users at nodes: as many counts as one user moves, with their noise -----------------

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


def users_planned(**asked: Any) -> Any:
    explain = dp.explain_tree_counts if "keys" in asked else dp.explain
    return explain(BY, **{**ITEMS, **asked}).plan


@pytest.mark.parametrize("name", ASKED)
def test_every_release_of_different_users_is_proved(name: str) -> None:
    plan = users_planned(**ASKED[name])
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


OF_NODES: dict[str, Callable[[Any, Any], object]] = {
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


@pytest.mark.parametrize("name", OF_NODES)
def test_what_was_changed_fails(name: str) -> None:
    plan = users_planned()
    proof, receipt = json.loads(proof_text(plan) or ""), copy.deepcopy(dict(plan.receipt("one")))
    receipt["proof"] = None
    assert verify_receipt(receipt, json.dumps(proof)).outcome == "proved"
    OF_NODES[name](proof, receipt)
    fails(verify_receipt(receipt, json.dumps(proof)))


def test_noise_for_fewer_counts_fails() -> None:
    """A planted bug: a user pays for one node a level, and counts at three."""
    little, much = users_planned(at_most=1), users_planned(at_most=3)
    proof = json.loads(proof_text(little) or "")
    wanted = json.loads(proof_text(much) or "")["game"]["levels"]
    level = proof["game"]["levels"][-1]
    proof["game"]["levels"] += [level] * (len(wanted) - len(proof["game"]["levels"]))
    fails(verify_proof(json.dumps(proof)))
    fails(verify_receipt(much.receipt("one"), proof_text(little)))


# -- what is broken --------------------------------------------------------------------------------

ODD: tuple[Any, ...] = (None, True, 0, -1, 1e308, math.nan, 10**400, 10**50, "", "1/3", "x", [], {})


def places(told: Any, place: tuple[Any, ...] = ()) -> Any:
    """Of everything in a JSON object."""
    inside = told if isinstance(told, dict) else dict(enumerate(told))
    for name, value in inside.items():
        yield (*place, name)
        if isinstance(value, dict | list):
            yield from places(value, (*place, name))


def broken(told: dict[str, Any], generator: random.Random) -> Any:
    """Copies with something odd, or nothing, at each place, and these places."""
    for place in list(places(told)):
        for value in generator.sample(ODD, 3):
            other = copy.deepcopy(told)
            within = other
            for name in place[:-1]:
                within = within[name]
            within[place[-1]] = value
            yield place, other


@pytest.mark.parametrize("kind", ["rollup", "cells"])
def test_whatever_is_broken_has_a_verdict(kind: str, sales: pd.DataFrame) -> None:
    """Law: odd values anywhere in a proof or receipt give a verdict, never an error; and none of
    those that say less noise or more than is drawn is proved."""
    if kind == "rollup":
        wanted = {"n": "count", "m": "mean(x, 0, 5)", "s": "sum(x, 0, 5)", "z": "sum(x, auto, 3)"}
        result = dp.rollup(sales, ["a"], wanted, epsilon=1.0, delta=1e-6)
    else:
        result = sales.dp.hhh("a * b", epsilon=1.0, delta=1e-6, totals=True)
    facts = result.dp.receipt.to_dict()
    text = facts.pop("proof")["text"]
    del facts["card"]
    generator = random.Random(3)
    for place, other in broken(json.loads(text), generator):
        verdict = verify_receipt(facts, json.dumps(other))
        kept = place[0] in ("promise", "tables") or place[-1] in ("game", "drawn", "scale", "low")
        assert not (kept and verdict and other != json.loads(text)), (place, other)
    for place, other in broken(facts, generator):
        verdict = verify_receipt(other, text)
        kept = place[0] in ("epsilon", "delta", "guarantee", "height", "mechanism")
        kept |= place[-1] in ("spec", "of", "scales", "lowest", "highest")
        assert not (kept and verdict and other != facts), place
