"""The verifier: what it proves is what definitions give, and what is tampered with it refuses."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import math
import re
from collections.abc import Callable
from fractions import Fraction
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import dpframe as dp
from dpframe.accounting.aggregate import binomial
from dpframe.accounting.losses import normal_delta
from dpframe.asking.level_plan import proof_text
from dpframe.noise import NoiseTable, laplace_table, rounded_normal
from dpframe.papers import printed_laws
from dpframe.verifier import verify_proof, verify_receipt
from dpframe.verifier.numbers import ONE, TABLE
from dpframe.verifier.path_game import PathGame, path_bound
from dpframe.verifier.reports import binomial_law
from dpframe.verifier.rounds_game import distribution_on_grid, normal_bound, normal_distribution
from dpframe.verifier.verdict import Law
from tests.privacy.naive_accounting import path_divergence
from tests.privacy.told import told

PROOFS = Path(__file__).parents[2] / "docs" / "proofs"

SCHEMA = json.loads(resources.files("dpframe.verifier").joinpath("proof.schema.json").read_text())

OF_USERS = {"user": "u", "contribution": "records"}
RELATIVE = {"mechanism": "relative", "alpha": 0.5}

PLANS: dict[str, dict[str, Any]] = {
    "records": {},
    "no remainder": {"remainder": False},
    "threshold": {"threshold": 100},
    "one level": {"hierarchy": ["a"], "epsilon": 3.0, "delta": 1e-9},
    "curved": {"hierarchy": "path:p?depth=7", "threshold": 300},
    "shares": {"user": "u", "contribution": "share", "epsilon": 4.0},
    "groups": {"user": "u", "contribution": "records", "max_contributions": 3},
    "long": {"epsilon": 0.005},
    "a measure": {"weight": "w", "max_weight": 37.5, "epsilon": 4.0},
    "histograms": {"mechanism": "gaussian"},
    "histograms of groups": {"mechanism": "laplace", **OF_USERS, "max_contributions": 3},
    "streams": {"mechanism": "streaming"},
    "normal": {"mechanism": "offline-gaussian"},
    "normal, groups": {"mechanism": "offline-gaussian", **OF_USERS, "max_contributions": 4},
    "normal, shares": {"mechanism": "offline-gaussian", "user": "u", "epsilon": 5.0, "delta": 1e-3},
}
"""Arguments of heavy hitters that are proved in different ways."""

TREES: dict[str, dict[str, Any]] = {
    "between": {},
    "gaussian": {"mechanism": "gaussian", "level_weights": [1, 2, 2, 2, 3]},
    "laplace": {"mechanism": "laplace", **OF_USERS, "max_contributions": 5},
    "shares": {"user": "u", "epsilon": 4.0},
    "heavy": {"mechanism": "hhh"},
    "weights": {"weight": "w", "max_weight": 3},
    "relative": {**RELATIVE, "largest": 10**9},
    "relative, groups": {**RELATIVE, "largest": 10**11, **OF_USERS, "max_contributions": 3},
    "listed": {"hierarchy": ["a"], "keys": ["x", "y"]},
    "listed, pure": {"hierarchy": ["a"], "keys": ["x", "y"], "delta": 0.0, "user": "u"},
}
"""Arguments of tree counts."""


def planned(explain: Any = dp.explain, **arguments: Any) -> Any:
    known = {"hierarchy": "path:p?depth=4", "epsilon": 1.0, "delta": 1e-6}
    return explain(**{**known, **arguments}).plan


def tree_planned(**arguments: Any) -> Any:
    return planned(dp.explain_tree_counts, **arguments)


def fails(verdict: Any, said: str = "") -> None:
    """The verdict is that the claim fails, and why."""
    assert verdict.outcome == "failed", verdict
    assert re.search(said, verdict.reason), verdict.reason


def of(table: NoiseTable) -> Law:
    return Law(table.lowest, table.weights.tolist())


@pytest.mark.parametrize("name", [*PLANS, *(f"tree: {name}" for name in TREES)])
def test_every_plan_is_proved(name: str) -> None:
    """Law: what a plan promises is proved, by a proof of the schema that the receipt belongs to."""
    tree = name.removeprefix("tree: ")
    plan = tree_planned(**TREES[tree]) if tree != name else planned(**PLANS[name])
    proved(plan)


def test_synthetic_rows_and_sketches_are_proved() -> None:
    """Law: the same of what has no hierarchy."""
    proved(dp.explain_synthesize("number:x?lower=0&upper=1", epsilon=1.0, k=64, rows=3).plan)
    for standard in (False, True):
        sketch = dp.MisraGries(100, standard=standard)
        sketch.update(["a"] * 900 + ["b"])
        found = sketch.release(epsilon=1.0, delta=1e-6, max_contributions=2)
        assert dp.verify(found), dp.verify(found)
    standards, variants = ([dp.MisraGries(8, standard=s) for _ in "ab"] for s in (True, False))
    merged = dp.merge_sketches(standards, method="bounded")
    added = dp.merge_sketches(variants, method="sum")
    several = (dp.PrivacyAwareMisraGries(8, max_items=3), merged, added)
    for made in several:
        assert dp.verify(made.release(epsilon=1.0, delta=1e-6))
    for made in (*several, standards[0], variants[0]):
        listed = made.release(epsilon=1.0, universe=["a", "b"])
        assert dp.verify(listed), dp.verify(listed)
        fails(verify_receipt({**listed.dp.receipt.to_dict(), "counters": 9}))


def test_sums_of_sketches_are_proved_by_all_their_moves() -> None:
    """Law: groups and few counters too; a proof of other counters or thresholds is of something
    else, and where the receipt says the same it fails."""
    for counters, most in ((2, 1), (16, 3)):
        sketches = [dp.MisraGries(counters), dp.MisraGries(counters)]
        release = dp.merge_sketches(sketches, method="sum").release
        receipt = release(epsilon=2.0, delta=1e-7, max_contributions=most).dp.receipt.to_dict()
        text = receipt["proof"]["text"]
        jsonschema.validate(json.loads(text), SCHEMA)
        verdict = verify_receipt(receipt)
        assert verdict, verdict
        assert verdict.bound is not None
        assert verdict.bound <= Fraction(receipt["computed_delta"]) * Fraction(11, 10)
        for change in ({"counters": counters + 1}, {"threshold": receipt["threshold"] - 1}):
            fails(verify_receipt({**receipt, **change}))
        told = json.loads(text)
        told["game"]["counters"] *= 2
        fails(verify_proof(json.dumps(told)))


PREFIX_TREES: dict[str, dict[str, Any]] = {
    "replaced": {},
    "removed": {"neighbours": "remove"},
    "some take part": {"participation": 0.3, "rounds": 2},
    "few devices": {"devices": 2_000, "epsilon": 6.0, "iterations": 3},
    "gaussian": {"mechanism": "gaussian"},
    "laplace": {"mechanism": "laplace", "neighbours": "remove"},
    "shuffled": {"accountant": "shuffle"},
}
"""Arguments of prefix trees."""


def prefix_planned(**arguments: Any) -> Any:
    known = {"user": "u", "devices": 300_000, "epsilon": 1.0, "delta": 1e-6}
    return dp.explain_prefix_tree("word", **{**known, **arguments}).plan


@pytest.mark.parametrize("name", PREFIX_TREES)
def test_prefix_trees_are_proved(name: str) -> None:
    """Law: reports and counts of devices are, and not of fewer iterations or of other devices."""
    plan = prefix_planned(**PREFIX_TREES[name])
    proved(plan)
    receipt = plan.receipt().to_dict()
    text = receipt.pop("proof")["text"] or proof_text(plan)
    others: list[dict[str, Any]] = [{"reports": 1}, {"neighbours": "adding a row"}]
    if plan.noise is None:
        others += [{"devices": 10**9}, {"local_epsilon": 1.0}, {"participation": 0.9}]
    for change in others:
        fails(verify_receipt({**receipt, **change}, text))


def test_gaussian_noise_of_groups_is_that_of_so_many_records() -> None:
    """Law: a proof of fewer records of a user, or of a threshold inside of the noise, fails."""
    plan = planned(**PLANS["normal, groups"])
    receipt, text = plan.receipt().to_dict(), proof_text(plan) or ""
    receipt.pop("proof")
    fails(verify_receipt({**receipt, "max_contributions": 3}, text))
    told = json.loads(text)
    told["game"]["moves"] = 3
    fails(verify_receipt(receipt, json.dumps(told)))
    told["game"]["moves"] = 5
    fails(verify_proof(json.dumps(told)))
    told["game"].update(moves=4, threshold=plan.laws.test.highest)
    fails(verify_proof(json.dumps(told)), "within the test noise")


@pytest.mark.parametrize(
    "arguments", [{}, {"at_most": 5, "epsilon": 0.2}, {"max_contributions": 20, "delta": 1e-9}]
)
def test_rounds_are_proved(arguments: dict[str, Any]) -> None:
    """Law: values that many users have, and not of more values of a user or of other noise."""
    budget = {"epsilon": 1.0, "delta": 1e-6, **arguments}
    plan: Any = dp.explain_heavy_hitters("w", user="u", **budget).plan
    proved(plan)
    receipt = plan.receipt().to_dict()
    noise = {**receipt["noise"], "sizes": {"highest": 1}}
    rounds = {**receipt["noise"], "rounds": receipt["noise"]["rounds"][::-1]}
    for change in ({"max_contributions": 7}, {"noise": noise}, {"noise": rounds}, {"delta": 1e-5}):
        fails(verify_receipt({**receipt, **change}))


def test_the_normal_law_is_between_its_bounds() -> None:
    """Law: whole numbers hold what scipy knows of Gaussian noise, and of its moves."""
    for x in np.linspace(-11.9, 11.9, 41).tolist():
        low, high = normal_distribution(Fraction(x))
        assert 0 <= high - low <= 2
        assert math.isclose(low / ONE, norm.cdf(x), rel_tol=1e-12, abs_tol=1e-28)
    for x in (12.0, 30.0):
        assert normal_distribution(Fraction(x)) == (ONE - 1, ONE)
        assert normal_distribution(Fraction(-x)) == (0, 1)
    for mu, epsilon in ((0.2, 1.0), (1.0, 0.0), (0.05, 0.3), (3.0, 10.0)):
        found = float(normal_bound(Fraction(mu), Fraction(epsilon)))
        assert math.isclose(found, normal_delta(mu, epsilon), rel_tol=1e-9)


@pytest.mark.parametrize("sigma", [3.0, 130.7, 2000.3])
def test_a_series_around_points_holds_the_normal_law(sigma: float) -> None:
    """Law: between its bounds is what each point has by itself, and they are as close."""
    found = distribution_on_grid(Fraction(sigma), round(13 * sigma))
    for k in range(0, len(found), max(1, len(found) // 300)):
        low, high = normal_distribution((k - Fraction(1, 2)) / Fraction(sigma))
        assert found[k][0] <= low <= high <= found[k][1]
        assert found[k][1] - found[k][0] <= max(6, high - low)


@pytest.mark.parametrize(("sigma", "end"), [(2.5, 24), (40.3, 350), (160.7, 1400)])
def test_tables_of_rounds_are_as_far_from_their_laws_as_proofs_say(sigma: float, end: int) -> None:
    """Law: each weight but the likeliest is within half a unit, and 1e-11 of itself, of a rounded
    Gaussian law cut at its ends; all are off together by what is counted, half a unit each."""
    drawn = rounded_normal(sigma, end)
    halves = (k - Fraction(1, 2) for k in range(1, drawn.highest + 2))
    ends = [normal_distribution(half / Fraction(sigma)) for half in halves]
    inside = 1 - 2 * (1 - Fraction(ends[-1][0], ONE))
    off = Fraction(0)
    for k, (one, other) in enumerate(pairwise(ends), 1):
        law = Fraction(other[0] - one[0], ONE) / inside
        apart = abs(Fraction(int(drawn.weights[k - drawn.lowest]), TABLE) - law)
        assert apart <= Fraction(51, 100 * TABLE) + law / 10**11
        off += 2 * max(Fraction(0), apart - law / 10**11)
    assert off <= Fraction(2 * drawn.highest + 1, 2**65) + Fraction(4, 10**16)


@pytest.mark.parametrize(("n", "chance"), [(40, 0.5), (300_000, 1e-4), (5_000, 0.3), (7, 0.9)])
def test_tables_of_sums_are_as_far_from_their_laws_as_proofs_say(n: int, chance: float) -> None:
    """Law: each weight but the likeliest is within one unit, and 1e-12 of itself, of the law that
    the verifier computes; the law's bounds are close and hold all there is."""
    found, drawn = binomial_law(n, Fraction(chance)), binomial(n, chance)
    assert sum(found.low) <= ONE <= sum(found.high) + found.rest
    assert max(high - low for low, high in zip(found.low, found.high, strict=True)) < 2**20
    weights = dict(enumerate(drawn.weights.tolist(), drawn.lowest))
    mode = max(weights, key=weights.__getitem__)
    for k, (low, high) in enumerate(zip(found.low, found.high, strict=True), found.lowest):
        weight = weights.pop(k, 0) * (ONE // TABLE)
        off = high * Fraction(1, 10**12) + ONE // TABLE
        assert k == mode or low - off <= weight <= high + off
    assert not weights
    assert len(drawn.weights) <= 10 * math.isqrt(n) + 92


def proved(plan: Any) -> Any:
    """Receipt, text and verdict: the promise is proved, by a proof of the schema that is as close
    as the accountant."""
    text, receipt = proof_text(plan), plan.receipt()
    jsonschema.validate(json.loads(text or ""), SCHEMA)
    verdict = verify_receipt(receipt, text)
    assert verdict, verdict
    assert verdict.bound is not None
    assert verdict.bound <= Fraction(plan.budget.delta)
    assert verdict.bound <= Fraction(receipt["computed_delta"]) * Fraction(11, 10)
    return receipt, text, verdict


def game(test: NoiseTable, release: NoiseTable, **facts: Any) -> PathGame:
    return PathGame(test=of(test), release=of(release), **facts)


@pytest.mark.parametrize("remainder", [False, True])
@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_the_bound_is_that_of_the_definition(epsilon: float, remainder: bool) -> None:
    """Law: never below the divergence over all residuals, and within a thousandth of it."""
    test, release = laplace_table(2.0, 6), laplace_table(2.0, 7)
    played = game(test, release, height=3, threshold=test.highest + 2, remainder=remainder)
    facts = {"height": 3, "epsilon": epsilon, "remainder": remainder}
    defined = max(path_divergence(test, release, **facts, more_first=m) for m in (False, True))
    bound = float(path_bound(played, Fraction(epsilon)))
    assert defined * (1 - 1e-12) <= bound <= defined * 1.001


def test_low_thresholds_are_counted_in_full() -> None:
    """Law: where a node of one record can be selected, its whole chance is in the bound."""
    test, release = laplace_table(2.0, 20), laplace_table(2.0, 40)
    low = game(test, release, height=2, threshold=5, remainder=False)
    alone = float(test.at_least()[4 - test.lowest])
    assert alone > 0.01
    assert float(path_bound(low, Fraction(20))) >= alone


def test_printed_algorithms_are_not_proved() -> None:
    """Law: the proofs of what is printed fail; of four levels the first one holds."""
    laws = printed_laws(1.0, 8, 200)
    facts = {"kind": "path", "height": 8, "threshold": 200, "remainder": False}
    made = told({**facts, "test": 0, "release": 1}, laws.test, laws.release, delta=1e-6)
    assert (PROOFS / "printed_algorithm_1.json").read_text() == made
    page = (PROOFS.parent / "verifying.md").read_text()
    for name in ("printed_algorithm_1.json", "printed_algorithm_3.json"):
        text = (PROOFS / name).read_text()
        jsonschema.validate(json.loads(text), SCHEMA)
        assert f"{name} --quiet\n# {verify_proof(text).sentence}\n" in page
        assert verify_proof(text).outcome == "failed"
    assert verify_proof(made.replace('"height": 8', '"height": 4'))


# -- tampering -------------------------------------------------------------------------------------

Change = Callable[[dict[str, Any]], None]


def _weights(told: dict[str, Any], number: int, change: Callable[[Any], Any]) -> None:
    table = told["tables"][number]
    weights = change(np.frombuffer(base64.b64decode(table["weights"]), dtype="<u8").copy())
    table["weights"] = base64.b64encode(weights.tobytes()).decode()


def _one_more(weights: Any) -> Any:
    weights[3] += np.uint64(1)
    return weights


def _cut(weights: Any) -> Any:
    """The last ten values on the left come to the mode."""
    mode = int(np.argmax(weights))
    weights[mode] += weights[:10].sum()
    return weights[10:]


def _shorter(told: dict[str, Any]) -> None:
    _weights(told, 0, _cut)
    told["tables"][0]["lowest"] += 10


TAMPERED: dict[str, tuple[Change, str]] = {
    "a weight": (lambda t: _weights(t, 0, _one_more), "do not sum to 2\\*\\*64"),
    "a cut table": (_shorter, "the claim delta <= 1e-06 at epsilon 1"),
    "threshold": (lambda t: t["game"].update(threshold=15), "the claim delta"),
    "height": (lambda t: t["game"].update(height=6), "the claim delta"),
    "epsilon": (lambda t: t["promise"].update(epsilon=0.9), "the claim delta"),
    "delta": (lambda t: t["promise"].update(delta=8e-7), "the claim delta <= 8e-07"),
    "group": (lambda t: t["promise"].update(group=2), "the claim delta"),
    "tables": (lambda t: t["tables"].reverse(), "the claim delta"),
    "more": (lambda t: t.update(comment="x"), "and no more"),
    "version": (lambda t: t.update(version=2), "version 2"),
    "no table": (lambda t: t["game"].update(test=7), "number of a table"),
    "text": (lambda t: t["tables"][0].update(weights="&"), "no base64"),
    "no delta": (lambda t: t["promise"].update(delta="x"), "positive number"),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_tampered_proofs_fail(name: str) -> None:
    """Law: a proof of other tables, thresholds, heights and budgets fails, and says which claim."""
    change, said = TAMPERED[name]
    told = json.loads(proof_text(planned()) or "")
    assert verify_proof(json.dumps(told))
    change(told)
    fails(verify_proof(json.dumps(told)), said)


OTHERS: dict[str, Callable[[Any], Any]] = {
    "left narrower": lambda g: g.update(left=g["left"] * 0.99),
    "left wider": lambda g: g.update(left=g["left"] * 1.01),
    "right wider": lambda g: g.update(right=g["right"] * 1.01),
    "release wider": lambda g: g.update(release_scale=g["release_scale"] * 1.01),
    "release narrower": lambda g: g.update(release_scale=g["release_scale"] * 0.99),
    "threshold": lambda g: g.update(threshold=g["threshold"] * 3 // 4),
    "height": lambda g: g.update(height=g["height"] + 1),
    "units": lambda g: g.update(units=g["units"] * 2),
}


@pytest.mark.parametrize("name", ["shares", "long"])
@pytest.mark.parametrize("change", OTHERS)
def test_tampered_proofs_of_shares_fail(name: str, change: str) -> None:
    """Law: scales that are not those of the tables, and all else that is paid for, are refused."""
    told = json.loads(proof_text(planned(**PLANS[name])) or "")
    OTHERS[change](told["game"])
    fails(verify_proof(json.dumps(told)))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"epsilon": 0.5}, "has epsilon 0.5"),
        ({"delta": 1e-7}, "has delta 1e-07"),
        ({"guarantee": "(0.1, 1e-06)-differential privacy for x"}, "guarantee"),
        ({"threshold": 21}, "threshold"),
        ({"height": 3}, "has levels"),
        ({"remainder": False}, "remainder"),
        ({"max_contributions": 9}, "max_contributions 9"),
        ({"mechanism": "gaussian"}, "no game"),
    ],
)
def test_a_receipt_that_says_otherwise_fails(change: dict[str, Any], said: str) -> None:
    """Law: a proof does not serve a receipt that promises something else."""
    receipt = planned().receipt().to_dict()
    assert verify_receipt(receipt)
    fails(verify_receipt({**receipt, **change}), said)


def test_levels_of_a_proof_are_those_of_the_receipt() -> None:
    """Law: a proof of fewer levels, or of nodes that are shown without a threshold, is of something
    else."""
    for plan in (planned(mechanism="laplace"), tree_planned()):
        receipt = plan.receipt().to_dict()
        text = receipt.pop("proof")["text"]
        assert verify_receipt(receipt, text)
        for change in (lambda levels: levels.pop(), lambda levels: levels[-1].update(least=None)):
            told = json.loads(text)
            change(told["game"]["levels"])
            fails(verify_receipt(receipt, json.dumps(told)), "levels|height")
    plan = planned(mechanism="streaming")
    receipt = plan.receipt().to_dict()
    text = receipt.pop("proof")["text"].replace('"sketches": 4', '"sketches": 3')
    fails(verify_receipt(receipt, text), "height 4, the proof 3")


def test_a_proof_beside_is_the_one_of_the_digest() -> None:
    """Law: of a proof in a file the digest must be that in the receipt."""
    receipt = planned().receipt()
    other = proof_text(planned(threshold=200))
    assert "digest" in verify_receipt(receipt, other).reason
    assert verify_receipt(receipt, proof_text(planned()))


def test_what_is_not_known_is_not_proved() -> None:
    """Law: a receipt without a proof, and one of a mechanism without proofs, say what to do."""
    receipt = planned().receipt().to_dict()
    old = {name: value for name, value in receipt.items() if name != "proof"}
    assert verify_receipt(old).outcome == "not verified"
    assert "carries no proof" in verify_receipt(old).reason
    assert "dp.explain" in verify_receipt(old).reason
    assert verify_receipt(old, proof_text(planned()))
    told = json.loads(receipt["proof"]["text"])
    told["game"]["kind"] = "chess"
    assert verify_proof(json.dumps(told)).outcome == "not verified"


def test_no_number_of_a_proof_is_from_data() -> None:
    """Law: two tables, equal proofs, at every way of proving."""
    first = pd.DataFrame({"a": ["x"] * 500 + ["y"] * 300, "u": range(800), "w": 5.0})
    second = pd.DataFrame({"a": ["z"] * 70, "u": [1] * 70, "w": 2.5})
    for arguments in PLANS.values():
        if "hierarchy" in arguments:
            continue
        budget = {"epsilon": 1.0, "delta": 1e-6, **arguments}
        proofs = [frame.dp.hhh(["a"], **budget).dp.receipt["proof"] for frame in (first, second)]
        assert proofs[0] == proofs[1]
        assert proofs[0]["sha256"] is not None


def test_what_is_not_proved_is_said_every_time() -> None:
    """Law: proved or not, the text ends with what no receipt proves."""
    receipt = planned().receipt().to_dict()
    for facts in (receipt, {**receipt, "epsilon": 2.0}, {}):
        text = str(verify_receipt(copy.deepcopy(facts)))
        assert "not proved, here or by any receipt:" in text
        assert "random" in text
    assert math.isclose(float(verify_receipt(receipt).bound or 0), 8.818e-7, rel_tol=1e-3)


def rounds_of_levels(**asked: Any) -> tuple[dict[str, Any], Any]:
    """The proof and the plan of rounds of four levels."""
    plan = dp.explain("path:p?depth=4", **LEVELS, **asked).plan
    return json.loads(proof_text(plan) or ""), plan


LEVELS: dict[str, Any] = {"user": "u", "mechanism": "rounds", "epsilon": 1.0, "delta": 1e-6}


@pytest.mark.parametrize("at_most", [None, 5])
@pytest.mark.parametrize(
    "norms", [[10**6, 10**6], [118, 60], [100, 40, 30], [], [118], "ab", [True, True], [118.0, 49]]
)
def test_norms_of_both_parts_are_checked(norms: object, at_most: int | None) -> None:
    """Law: two whole numbers whose squares add up to at most the square of the norm; more of them
    are of cells, which the receipt names."""
    proof, plan = rounds_of_levels(at_most=at_most)
    assert verify_proof(json.dumps(proof))
    proof["game"]["norms"] = norms
    assert bool(verify_proof(json.dumps(proof))) == (norms == [100, 40, 30] and at_most == 5)
    assert not verify_receipt(receipt_of(plan, proof))


def receipt_of(plan: Any, proof: dict[str, Any], **facts: Any) -> dict[str, Any]:
    text = json.dumps(proof)
    digest = hashlib.sha256(text.encode()).hexdigest()
    told = {"version": 1, "sha256": digest, "text": text}
    return {**plan.receipt("one").to_dict(), "proof": told, **facts}


def test_receipts_of_rounds_say_what_their_proof_says_of_levels() -> None:
    """Law: two parts are of two levels or more, each with a bound; what is to be found has a
    histogram."""
    proof, plan = rounds_of_levels()
    assert verify_receipt(receipt_of(plan, proof))
    assert not verify_receipt(receipt_of(plan, proof, height=1, levels=["p"]))
    lacking = receipt_of(plan, proof)
    del lacking["at_most_above"]
    assert not verify_receipt(lacking)
    proof["game"]["sizes"] = None
    noise = {**plan.receipt("one")["noise"], "sizes": None}
    assert not verify_receipt(receipt_of(plan, proof, noise=noise))
