"""Receipts that promise more than their proof shows: a verifier that is given one must not say
"proved", whatever was changed in the receipt, in the proof, or in both.

Each forgery leaves both well-formed. An attacker can compute digests, so there is none here.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import math
import os
import random
import time
from array import array
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpframe as dp
from dpframe.asking.level_plan import proof_text
from dpframe.doors import verify
from dpframe.questions.hhh.sketch_plans import partition_plan
from dpframe.verifier import receipt_facts, verdict, verify_proof, verify_receipt
from dpframe.verifier.facts import FREE

from .mutated_receipts import forged, mutated, other_proof, twice

Facts = dict[str, Any]
Change = Callable[[Facts, Facts], object]
"""Of a proof and its receipt."""

BUDGET: Facts = {"epsilon": 1.0, "delta": 1e-6}
SHARES: Facts = {"user": "u", "epsilon": 4.0, "delta": 1e-6}
GROUP: Facts = {"user": "u", "contribution": "records"}
ITEMS: Facts = {"user": "u", "contribution": "items"}
KEYS = pd.DataFrame({"a": ["x", "x", "y"], "b": ["p", "q", "p"]})
LISTED: Facts = {"keys": KEYS, **ITEMS}
ONE_USER = "adding or removing one user ('u') with all their records"


def hhh(about: Any = "path:p?depth=4", **asked: Any) -> Any:
    return dp.explain(about, **{**BUDGET, **asked}).plan


def tree(about: Any = "path:p?depth=4", **asked: Any) -> Any:
    return dp.explain_tree_counts(about, **{**BUDGET, **asked}).plan


def synthetic() -> Any:
    return dp.explain_synthesize("number:x?lower=0&upper=1", epsilon=1.0, k=64, rows=3).plan


def prefix(**asked: Any) -> Any:
    known = {"user": "u", "devices": 300_000, **BUDGET}
    return dp.explain_prefix_tree("word", **{**known, **asked}).plan


def rollup(**asked: Any) -> Any:
    measures = {"n": dp.count(), "s": dp.sum("x", lower=0, upper=10)}
    return dp.explain_rollup(["a", "b"], **{"measures": measures, **BUDGET, **asked}).plan


def common(**asked: Any) -> Any:
    return dp.explain_heavy_hitters("w", user="u", **BUDGET, **asked).plan


def sketch(sketch: Any, **asked: Any) -> pd.DataFrame:
    return sketch.release(**{**BUDGET, **asked})


def universe(sketch: Any) -> pd.DataFrame:
    return sketch.release(epsilon=1.0, delta=None, universe=["a", "b"])


def told_by(made: Any) -> tuple[Facts, Facts]:
    """Proof and receipt of a plan or a result."""
    if isinstance(made, pd.DataFrame):
        receipt = made.dp.receipt.to_dict()
        return json.loads(receipt["proof"]["text"]), receipt
    return json.loads(proof_text(made) or ""), copy.deepcopy(dict(made.receipt("one")))


ROWS = pd.DataFrame(
    {"a": ["x", "y"] * 500, "b": ["p", "q", "q", "q"] * 250, "x": [1.0, 2.5] * 500}
    | {"when": pd.Timestamp("2026-01-05"), "u": range(1000)}
)
MEASURES: Facts = {
    "n": dp.count(),
    "m": dp.mean("x", lower=0, upper=10),
    "s": dp.sum("x", lower=0, upper=10),
    "d": dp.distinct("b"),
    "auto": dp.sum("x", lower="auto", upper="auto"),
}
IN_BINS: Facts = {
    "m": dp.median("x", lower=0, upper=500),
    "h": dp.histogram("x", lower=0, upper=9, bins=[2, 5]),
}
BY_ROUNDS: Facts = {"user": "u", "contribution": "items", "epsilon": 6.0, "delta": 1e-6}
A_PERIOD: Facts = {"period": ("when", "2026-W02"), "data": "new"}


def partitions(**asked: Any) -> Any:
    known = {"mechanism": "streaming", "counters": 20, "remainder": False}
    return partition_plan(hhh(["a", "b"], **{**known, **asked}), 4)


def stream() -> Any:
    return dp.StreamingHHH(["a", "b"], counters=20)


def standard(k: int) -> Any:
    return dp.MisraGries(k, standard=True)


def bounded(of: Callable[[], Any]) -> Any:
    return dp.merge_sketches([of(), of()], method="bounded")


def added_up() -> Any:
    return dp.merge_sketches([dp.MisraGries(4), dp.MisraGries(4)], method="sum")


MADE: dict[str, Callable[[], Any]] = {
    "records": hhh,
    "groups": lambda: hhh(**GROUP, max_contributions=3, epsilon=2.0),
    "shares": lambda: hhh(contribution="share", **SHARES),
    "a measure": lambda: hhh(weight="w", max_weight=37.5, epsilon=4.0),
    "normal": lambda: hhh(mechanism="offline-gaussian", **GROUP, max_contributions=4),
    "histograms": lambda: hhh(mechanism="laplace"),
    "streams": lambda: hhh(mechanism="streaming"),
    "cells": lambda: hhh("a * b", totals=True),
    "tree": tree,
    "tree of shares": lambda: tree(**SHARES),
    "tree of weights": lambda: tree(weight="w", max_weight=3),
    "listed": lambda: tree(["a"], keys=["x", "y"]),
    "listed, pure": lambda: tree(["a"], keys=["x", "y"], delta=0.0, user="u"),
    "relative": lambda: tree(mechanism="relative", alpha=0.5, largest=10**9),
    "different users, listed": lambda: tree(["a", "b"], **LISTED),
    "different users": lambda: hhh(["a", "b"], **ITEMS),
    "synthetic": synthetic,
    "reports": lambda: prefix(devices=2_000, epsilon=6.0, iterations=3),
    "counts of devices": lambda: prefix(mechanism="laplace"),
    "rounds": common,
    "rollup": rollup,
    "rollup of users": lambda: rollup(user="u", contribution="share"),
    "rollup by rounds": lambda: rollup(user="u", contribution="items"),
    "sketch": lambda: sketch(dp.MisraGries(100)),
    "standard sketch": lambda: sketch(standard(100)),
    "merged": lambda: sketch(bounded(lambda: standard(8)), epsilon=2.0),
    "users' sets": lambda: sketch(dp.PrivacyAwareMisraGries(8, max_items=3)),
    "sum": lambda: sketch(added_up()),
    "between units": lambda: hhh(
        weight="w", max_weight=3, threshold=77.3, epsilon=4.0, remainder=False
    ),
    "a period": lambda: ROWS.dp.hhh(["a"], **A_PERIOD, **GROUP, max_contributions=1, **BUDGET),
    "whole counts": lambda: ROWS.dp.hhh("a * b", totals=True, **BUDGET),
    "measured": lambda: ROWS.dp.rollup(["a", "b"], measures=MEASURES, epsilon=8.0, delta=1e-6),
    "measured by rounds": lambda: ROWS.dp.rollup(
        ["a", "b"], measures={**MEASURES, "d": dp.distinct("b", at_most=1)}, **BY_ROUNDS
    ),
    "measured, heavy": lambda: rollup(heavy="s", threshold=300.5, epsilon=8.0),
    "measured, listed": lambda: ROWS.dp.rollup(
        ["a"], measures={"n": dp.count()}, keys=["x", "y"], epsilon=1.0
    ),
    "in bins": lambda: ROWS.dp.rollup(["a", "b"], measures=IN_BINS, epsilon=8.0, delta=1e-6),
    "in bins, users": lambda: ROWS.dp.rollup(
        ["a"], measures={"h": IN_BINS["h"]}, keys=["x", "y"], epsilon=1.0, user="u"
    ),
    "mean and sum": lambda: rollup(measures={"m": MEASURES["m"], "s": MEASURES["s"]}),
    "different values": lambda: hhh(mechanism="streaming", **ITEMS, max_contributions=2),
    "different values, few counters": lambda: hhh(
        mechanism="streaming", **ITEMS, max_contributions=8, counters=10
    ),
    "sums of partitions": partitions,
    "groups in partitions": lambda: partitions(**GROUP, max_contributions=3),
    "users in partitions": lambda: partitions(**ITEMS, max_contributions=8, counters=10),
    "merged streams": lambda: sketch(bounded(stream), threshold=300),
    "one stream": lambda: sketch(stream(), threshold=300),
    "threshold of a caller": lambda: tree(threshold=300),
    "counted": lambda: ROWS.dp.heavy_hitters("a", user="u", **BUDGET),
    "Gaussian histograms": lambda: hhh(mechanism="gaussian"),
    "one record, Gaussian": lambda: hhh(mechanism="offline-gaussian"),
    "tree of selections": lambda: tree(mechanism="hhh"),
    "tree of selections of users": lambda: tree(mechanism="hhh", **SHARES),
    "tree, Gaussian": lambda: tree(mechanism="gaussian"),
    "different users, Gaussian": lambda: tree(
        ["a", "b"], **LISTED, mechanism="gaussian", at_most=1
    ),
    "counts of devices, Gaussian": lambda: prefix(mechanism="gaussian"),
    "standard universe": lambda: universe(standard(8)),
    "sum universe": lambda: universe(added_up()),
    "merged universe": lambda: universe(bounded(lambda: standard(8))),
    "users' universe": lambda: universe(dp.PrivacyAwareMisraGries(8, max_items=3)),
    "universe": lambda: universe(dp.MisraGries(8)),
}
EXACT = ("records", "histograms", "tree, Gaussian", "listed, pure", "standard universe")
NAMES = [*MADE, *(f"{name}, exactly" for name in EXACT)]
"""The last ones with what every law is made of: halves or a scale."""


def halves_of(tables: list[Facts], law: Facts) -> list[list[Any]]:
    """The halves of the table whose ends a law has."""
    table = next(each for each in tables if each["lowest"] == law["lowest"] * law["grid"])
    weights = array("Q", base64.b64decode(table["weights"]))
    mode = weights.index(max(weights))
    gaussian = "Gaussian" in law["family"]
    halves = []
    for half in (weights[mode::-1], weights[mode:]):
        far = max((z for z, weight in enumerate(half) if weight > 2**50), default=1)
        rate = math.log(half[1] / half[far])
        scale = math.sqrt((far**2 - 1) / 2 / rate) if gaussian else (far - 1) / rate
        halves.append(["gaussian" if gaussian else "geometric", scale, len(half) - 1])
    return halves


@cache
def _made(name: str) -> tuple[Facts, Facts]:
    proof, receipt = told_by(MADE[name.removesuffix(", exactly")]())
    for law in _laws(receipt["noise"]) if name.endswith(", exactly") else ():
        if law["lowest"] is None:
            law["scale"] = proof["game"]["levels"][0]["scale"]
        else:
            law["halves"] = halves_of(proof["tables"], law)
    return proof, receipt


def made_of(name: str) -> tuple[Facts, Facts]:
    """A proof and its receipt, to be changed."""
    return copy.deepcopy(_made(name))


def game(**changes: Any) -> Change:
    return lambda proof, receipt: proof["game"].update(changes)


def said(**changes: Any) -> Change:
    return lambda proof, receipt: receipt.update(changes)


def without(name: str, **changes: Any) -> Change:
    """The receipt does not tell what the game is not of."""
    return lambda proof, receipt: (receipt.pop(name), proof["game"].update(changes))


def in_bins(proof: Facts, of: str) -> Facts:
    """The draw of a kind for the median."""
    drawn = proof["game"]["steps"][1]["game"]["drawn"]
    (found,) = (each for each in drawn if (each["measure"], each["of"]) == ("m", of))
    one: Facts = found
    return one


def undrawn(of: str) -> Change:
    """The proof is without a draw of the median."""

    def changed(proof: Facts, receipt: Facts) -> None:
        proof["game"]["steps"][1]["game"]["drawn"].remove(in_bins(proof, of))

    return changed


def half(side: int, place: int, change: Callable[[Any], object]) -> Change:
    """A half of the noise of tests is changed."""

    def changed(proof: Facts, receipt: Facts) -> None:
        half = receipt["noise"]["test"]["halves"][side]
        half[place] = change(half[place])

    return changed


def promised(neighbours: str, **facts: Any) -> Change:
    """The receipt names another unit of privacy."""

    def changed(proof: Facts, receipt: Facts) -> None:
        start = receipt["guarantee"].partition("adding")[0].partition("replacing")[0]
        receipt.update(guarantee=start + neighbours, neighbours=neighbours, **facts)

    return changed


def user_of_one_unit(proof: Facts, receipt: Facts) -> None:
    """All units of a user promised, and one of them proved."""
    kept = {name: proof["game"][name] for name in ("height", "threshold", "remainder")}
    proof["game"] = {**kept, "kind": "path", "test": 0, "release": 1, "units": 256}


def tree_of_one_unit(proof: Facts, receipt: Facts) -> None:
    levels = [{"table": each["table"], "least": each["least"]} for each in proof["game"]["levels"]]
    proof["game"].update(units=1, levels=levels)


def fewer_levels(proof: Facts, receipt: Facts) -> None:
    proof["game"]["levels"].pop()


def fewer_moved(proof: Facts, receipt: Facts) -> None:
    proof["game"]["levels"].pop()
    receipt["moved"] -= 1


def fewer_listed(proof: Facts, receipt: Facts) -> None:
    fewer_moved(proof, receipt)
    receipt["listed"] = None


def narrower(proof: Facts, receipt: Facts) -> None:
    """The receipt tells less noise than was proved."""
    for facts in _laws(receipt["noise"]):
        for name in ("sd", "lowest", "highest"):
            facts[name] = None if facts[name] is None else facts[name] / 2


def half_the_scales(proof: Facts, receipt: Facts) -> None:
    receipt["noise"].update(scales=[scale / 2 for scale in receipt["noise"]["scales"]])


def smaller_sd(proof: Facts, receipt: Facts) -> None:
    noise = receipt["noise"]
    (noise["levels"][0] if "levels" in noise else noise["release"])["sd"] *= 0.99


def threshold_for_the_total(proof: Facts, receipt: Facts) -> None:
    first, last = (proof["game"]["levels"][place] for place in (0, -1))
    first["least"], last["least"] = last["least"], first["least"]


def _laws(noise: Any) -> list[Facts]:
    if isinstance(noise, list):
        return [law for each in noise for law in _laws(each)]
    if isinstance(noise, dict) and "sd" not in noise:
        return [law for each in noise.values() for law in _laws(each)]
    return [noise] if isinstance(noise, dict) else []


def test_a_receipt_of_every_mechanism_and_game_is_made_here() -> None:
    """Law: what is forged and mutated below is all that the verifier may prove."""
    pairs = [made_of(name) for name in NAMES]
    made = {(receipt["mechanism"], proof["game"]["kind"]) for proof, receipt in pairs}
    assert made == {(name, kind) for name, kinds in receipt_facts.KINDS.items() for kind in kinds}


FORGED: dict[tuple[str, str], Change] = {
    ("records", "a user is promised"): promised(ONE_USER, user="u", contribution="share"),
    ("records", "a user is promised in words"): promised(ONE_USER),
    ("records", "a group is promised"): promised(
        f"{ONE_USER}, of which at most 9 are counted", **GROUP
    ),
    ("records", "no threshold"): said(threshold=None),
    ("records", "threshold as text"): said(threshold="1"),
    ("records", "no noise"): said(noise=None),
    ("records", "no height"): without("height", height=1),
    ("records", "no remainder"): without("remainder", remainder=False),
    ("records", "narrower"): narrower,
    ("records", "a measure that is none"): lambda p, r: r.update(max_weight=1.0, threshold=2),
    ("records", "fields of other games"): game(units=1),
    ("groups", "no number of records"): lambda p, r: (
        r.pop("max_contributions"),
        p["promise"].update(group=1),
    ),
    ("shares", "one unit for all"): user_of_one_unit,
    ("shares", "another grid"): lambda p, r: [
        facts.update(grid=1) for facts in r["noise"].values()
    ],
    ("a measure", "another threshold"): said(threshold=10),
    ("a measure", "narrower"): narrower,
    ("a measure", "worth more"): promised(
        "adding or removing one row, which counts for at most 40 of column 'w'", max_weight=40.0
    ),
    ("normal", "fewer records"): lambda p, r: (
        r.update(max_contributions=None),
        p["game"].update(moves=1),
    ),
    ("histograms", "another threshold"): said(threshold=2),
    ("histograms", "narrower"): narrower,
    ("histograms", "keys that are listed"): lambda p, r: (
        r.update(keys="x"),
        p["game"]["levels"].pop(),
    ),
    ("streams", "another value below which counters are hidden"): said(hidden_below=2),
    ("streams", "a threshold that is no number"): said(threshold="1"),
    ("sums of partitions", "another hidden value"): said(hidden_below=2.5),
    ("sums of partitions", "other counters"): said(counters=21),
    ("merged streams", "other levels"): said(height=3, levels=["a", "b", "c"]),
    ("groups in partitions", "one record of a user"): said(max_contributions=1),
    ("streams", "narrower"): narrower,
    ("streams", "height left out"): without("height", sketches=1),
    ("cells", "units of whole counts"): lambda p, r: p["game"]["steps"][1]["game"].update(units=2),
    ("tree", "another threshold"): said(threshold=2),
    ("tree", "narrower"): narrower,
    ("tree of shares", "one unit for all"): tree_of_one_unit,
    ("tree of weights", "a record for a row"): lambda p, r: p["promise"].update(group=1),
    ("listed", "a level is not paid for"): fewer_levels,
    ("listed", "narrower"): narrower,
    ("listed, pure", "a level is not paid for"): fewer_levels,
    ("listed, pure", "narrower"): narrower,
    ("relative", "a step is left out"): lambda p, r: p["game"]["steps"].pop(),
    ("relative", "a step is left out of both"): lambda p, r: (
        p["game"]["steps"].pop(),
        r["noise"].update(steps=r["noise"]["steps"] - 1),
    ),
    ("relative", "narrower"): half_the_scales,
    ("relative", "fewer answers"): lambda p, r: p["game"]["steps"][0].update(tops=1),
    ("different users, listed", "fewer counts"): fewer_moved,
    ("different users, listed", "nothing is said of the keys"): fewer_listed,
    ("different users", "keys that are listed"): lambda p, r: (
        fewer_moved(p, r),
        r.update(keys="x"),
        [level.update(least=None) for level in p["game"]["levels"]],
    ),
    ("synthetic", "a level is not paid for"): fewer_levels,
    ("synthetic", "rows paid for as one"): lambda p, r: [
        level.update(moves=1) for level in p["game"]["levels"]
    ],
    ("synthetic", "narrower"): half_the_scales,
    ("synthetic", "a huge height"): said(height=10**59),
    ("reports", "rounds that are not paid for"): said(rounds=5),
    ("reports", "other neighbours"): lambda p, r: r.update(
        guarantee="(6, 1e-06)-differential privacy for adding or removing whole towns"
    ),
    ("counts of devices", "narrower"): narrower,
    ("counts of devices", "fewer iterations"): lambda p, r: (
        r.update(reports=1),
        p["game"].update(levels=p["game"]["levels"][:1]),
    ),
    ("rollup", "a user is promised"): promised(ONE_USER, user="u"),
    ("rollup", "a user is promised in words"): promised(ONE_USER),
    ("rollup", "a measure is not paid for"): lambda p, r: p["game"]["steps"][1]["game"][
        "drawn"
    ].pop(),
    ("rollup", "higher bounds"): lambda p, r: r["measures"]["s"].update(upper=100),
    ("rollup", "another threshold"): said(threshold=2),
    ("rollup", "fields of other games"): lambda p, r: p["game"]["steps"][0]["game"].update(units=9),
    ("rollup", "segments of cells in both"): lambda p, r: (
        r.update(segments=True),
        p["game"]["steps"][1]["game"].update(segments=1),
    ),
    ("rollup of users", "one unit for all"): lambda p, r: (
        r["noise"].update(
            grid=1, lowest=256 * r["noise"]["lowest"], highest=256 * r["noise"]["highest"]
        ),
        r.update(threshold=256 * r["threshold"]),
        p["game"]["steps"][0]["game"].update(units=1),
    ),
    ("rollup of users", "more rows of each"): lambda p, r: r["measures"]["n"].update(
        spec="count(at_most=9)"
    ),
    ("in bins", "groups of bins that are not paid for"): undrawn("groups"),
    ("in bins", "numbers of values that are not paid for"): undrawn("values"),
    ("in bins", "bins that are not paid for"): undrawn("bins"),
    ("in bins", "a finer scale"): lambda p, r: in_bins(p, "bins").update(scale="1/8"),
    ("in bins", "a finer scale in both"): lambda p, r: (
        in_bins(p, "bins").update(scale="1/8"),
        r["measures"]["m"]["noise"][0]["scales"].update(parts=0.125),
    ),
    ("in bins", "a user in two bins"): lambda p, r: in_bins(p, "bins").update(at_most=2),
    ("in bins", "another unit"): lambda p, r: in_bins(p, "groups").update(unit=2),
    ("in bins", "edges that do not rise"): lambda p, r: r["measures"]["m"]["edges"].reverse(),
    ("in bins", "an edge twice"): lambda p, r: r["measures"]["m"]["edges"].insert(
        3, r["measures"]["m"]["edges"][3]
    ),
    ("in bins", "edges of texts"): lambda p, r: r["measures"]["m"].update(edges=["0", "1", "2"]),
    ("in bins", "no edges"): lambda p, r: r["measures"]["m"].pop("edges"),
    ("in bins", "two edges"): lambda p, r: r["measures"]["h"].update(edges=[0, 9]),
    ("in bins", "so few edges that no groups are drawn"): lambda p, r: r["measures"]["m"].update(
        edges=[0, 1, 500]
    ),
    ("in bins", "so many edges that groups are drawn"): lambda p, r: r["measures"]["h"].update(
        edges=[n / 6 for n in range(55)]
    ),
    ("in bins", "a lower bound beyond the edges"): lambda p, r: r["measures"]["m"].update(lower=-1),
    ("in bins", "an upper bound beyond the edges"): lambda p, r: r["measures"]["m"].update(
        upper=1000
    ),
    ("in bins", "a sum"): lambda p, r: r["measures"]["m"].update(spec="sum(x, 0, 500)"),
    ("in bins", "noise of groups left out"): lambda p, r: r["measures"]["m"]["noise"].pop(),
    ("in bins, users", "whole users"): lambda p, r: r["measures"]["h"]["noise"][0].update(unit=1),
    ("in bins, users", "a unit of all users"): lambda p, r: [
        each.update(unit=2 * each["unit"]) for each in p["game"]["drawn"]
    ],
    ("rounds", "another threshold"): said(threshold=2),
    ("rounds", "counts with less noise"): lambda p, r: r["noise"]["release"].update(highest=1.0),
    ("rounds", "rounds with less noise"): lambda p, r: r["noise"]["rounds"][0].update(sd=1.0),
    ("rounds", "more counts of a user"): said(at_most=5),
    ("sketch", "another threshold"): said(threshold=2.0),
    ("sketch", "narrower"): narrower,
    ("standard sketch", "of another kind"): game(standard=None),
    ("standard sketch", "of fewer counters"): game(standard=2),
    ("merged", "fewer counts move"): game(changed=1),
    ("merged", "another threshold"): said(threshold=2.0),
    ("users' sets", "fewer counts move"): game(changed=1),
    ("users' sets", "narrower"): narrower,
    ("sum", "narrower"): narrower,
    ("universe", "narrower"): narrower,
    ("universe", "a threshold"): said(threshold=5.0),
    ("universe", "no list"): said(universe=None),
    ("sketch", "a list"): said(universe=2),
    ("sketch", "a user's column"): said(user="u"),
    ("users' sets", "a number of records"): said(max_contributions=3),
    ("records", "no digits of delta"): said(computed_delta="1e-9"),
    ("records", "more delta than promised"): said(computed_delta=1e-5),
    ("records", "another guarantee on the card"): lambda p, r: r["card"][0].__setitem__(1, "none"),
    ("records", "two guarantees on the card"): lambda p, r: r["card"].append(["guarantee", "", ""]),
    ("records", "counters"): said(counters=8),
    ("records", "a way of users"): said(contribution="items"),
    ("records", "names of other levels"): said(levels=["part 1"]),
    ("records", "one as true"): lambda p, r: r["noise"]["test"].update(grid=True),
    ("shares", "a number of records"): said(max_contributions=3),
    ("histograms", "remainder as text"): said(remainder="yes"),
    ("streams", "one record for a user"): promised(
        ONE_USER, user="u", contribution="share", card=None
    ),
    ("relative", "one record for a user"): promised(
        ONE_USER, user="u", contribution="share", card=None
    ),
    ("streams", "a remainder"): said(remainder=True),
    ("streams", "a way of users"): said(contribution="share"),
    ("shares", "ends off by a part of a unit"): lambda p, r: r["noise"]["release"].update(
        highest=r["noise"]["release"]["highest"] - 1 / 1024
    ),
    ("tree", "no remainder"): said(remainder=None),
    ("tree of selections", "keys that are listed"): said(keys="x"),
    ("relative", "keys that are listed"): said(keys="x"),
    ("reports", "true for everybody"): said(participation=True),
    ("relative", "a small threshold"): said(threshold=2),
    ("relative", "no remainder"): said(remainder=False),
    ("relative", "another height"): said(height=9),
    ("different users", "it adds up"): said(adds_up=True),
    ("different users", "a remainder"): said(remainder=True),
    ("different users, listed", "a threshold"): said(threshold=9),
    ("synthetic", "a threshold"): said(threshold=9),
    ("reports", "another height"): said(height=2),
    ("reports", "noise beside reports"): said(noise={"sd": 1.0}),
    ("reports", "a smaller error"): said(standard_error=0.5),
    ("reports", "another local guarantee"): said(local_guarantee="0.1-differential privacy"),
    ("reports", "a threshold"): said(threshold=9),
    ("counts of devices", "a local guarantee"): said(local_guarantee="0.1-differential privacy"),
    ("counts of devices", "a smaller error"): said(standard_error=0.5),
    ("counts of devices", "fewer devices that report"): said(reporting=5),
    ("rounds", "another height"): said(height=4),
    ("rounds", "another lower end"): lambda p, r: r["noise"]["rounds"][0].update(lowest=-1.0),
    ("rounds", "another grid"): lambda p, r: r["noise"]["rounds"][0].update(grid=1),
    ("rounds", "another grid of sizes"): lambda p, r: r["noise"]["sizes"].update(grid=7),
    ("rounds", "a remainder"): said(remainder=True),
    ("records, exactly", "another scale"): half(0, 1, lambda scale: scale * 1.0001),
    ("records, exactly", "another half"): half(1, 0, lambda shape: "gaussian"),
    ("records, exactly", "no known shape"): half(1, 0, lambda shape: "round"),
    ("records, exactly", "another end"): half(1, 2, lambda end: end + 1),
    ("records, exactly", "a nearer end"): half(0, 2, lambda end: end - 1),
    ("records, exactly", "no scale"): half(0, 1, lambda scale: None),
    ("records, exactly", "halves that change places"): lambda p, r: r["noise"]["test"][
        "halves"
    ].reverse(),
    ("records, exactly", "one half"): lambda p, r: r["noise"]["test"]["halves"].pop(),
    ("tree, Gaussian, exactly", "another scale"): lambda p, r: r["noise"]["levels"][3]["halves"][
        0
    ].__setitem__(1, 9.0),
    ("listed, pure, exactly", "another scale"): lambda p, r: r["noise"]["levels"][1].update(
        scale="1024"
    ),
    ("listed, pure, exactly", "a scale that is no text"): lambda p, r: r["noise"]["levels"][
        1
    ].update(scale=512),
    ("rounds", "halves of another scale"): lambda p, r: r["noise"]["rounds"][0].update(
        halves=[["rounded gaussian", 1.0, p["game"]["rounds"][0]["end"]]] * 2
    ),
    ("rollup", "half a record more"): lambda p, r: r.update(threshold=r["threshold"] + 0.5),
    ("rollup", "a narrower law"): lambda p, r: r["noise"].update(sd=1.0),
    ("rollup", "no remainder"): said(remainder=False),
    ("rollup", "bounds of a count"): lambda p, r: r["measures"]["n"].update(lower=0.0, upper=1.0),
    ("rollup", "a bound off by half a step"): lambda p, r: r["measures"]["s"].update(
        upper=10.000000004
    ),
    ("measured", "more noise"): lambda p, r: r["measures"]["n"]["noise"][0]["scales"].update(
        parts=1e6
    ),
    ("measured", "other steps"): lambda p, r: r["measures"]["s"]["noise"][0].update(decimals=1),
    ("measured", "other units"): lambda p, r: r["measures"]["s"]["noise"][0].update(unit=9),
    ("measured, listed", "a threshold"): said(threshold=9),
    ("measured, listed", "noise of a selection"): said(noise={"sd": 1.0}),
    ("mean and sum", "of another column"): lambda p, r: r["measures"]["s"].update(
        spec="sum(salary, 0, 10)"
    ),
    ("mean and sum", "a specification and more"): lambda p, r: r["measures"]["s"].update(
        spec="sum(x, 0, 10)x"
    ),
    ("cells", "whole counts of less noise"): lambda p, r: r["whole_counts"]["noise"].update(sd=0.1),
    ("cells", "another grid"): lambda p, r: r["whole_counts"]["noise"].update(grid=2),
    ("cells", "another lower end"): lambda p, r: r["whole_counts"]["noise"].update(lowest=-1),
    ("tree", "a level's threshold for the total"): threshold_for_the_total,
    ("tree of shares", "no noise"): lambda p, r: p["game"]["levels"][0].update(scale=10**40),
    ("listed, pure", "too wide"): lambda p, r: p["game"]["levels"][0].update(scale="1" + "0" * 40),
    ("records", "true for a version"): lambda p, r: p.update(version=True),
    **{
        (name, "a smaller standard deviation"): smaller_sd
        for name in ("records", "shares", "streams", "tree", "different users")
    },
}


@pytest.mark.parametrize("made", NAMES)
def test_what_is_forged_here_is_proved_before(made: str) -> None:
    """Law: the honest receipt and proof of each forgery below are proved."""
    proof, receipt = made_of(made)
    receipt["proof"] = None
    found = verify_receipt(receipt, json.dumps(proof))
    assert found.outcome == "proved", found


@pytest.mark.parametrize(("made", "how"), FORGED)
def test_no_forgery_is_proved(made: str, how: str) -> None:
    """Law: what one of both says and the other does not show is a claim that fails."""
    proof, receipt = made_of(made)
    receipt["proof"] = None
    FORGED[made, how](proof, receipt)
    found = verify_receipt(receipt, json.dumps(proof))
    assert found.outcome == "failed", found


HUGE = 10**58

HOSTILE: dict[str, Callable[[Facts], object]] = {
    "epsilon": lambda p: p["promise"].update(epsilon=1e100),
    "a small epsilon": lambda p: p["promise"].update(epsilon=2.0**-59),
    "group": lambda p: p["promise"].update(group=HUGE),
    "a group and epsilon": lambda p: p["promise"].update(group=10**6, epsilon=1e-9),
    "lowest": lambda p: p["tables"][0].update(lowest=HUGE),
    "NaN": lambda p: p["promise"].update(epsilon=float("nan")),
    "infinity": lambda p: p["promise"].update(delta=float("inf")),
    "true": lambda p: p["promise"].update(epsilon=True),
    "no object": lambda p: p.update(game=[]),
    "steps in steps": lambda p: p.update(
        game={"kind": "steps", "steps": [{"epsilon": 1, "delta": 0, "game": STEPS}]}
    ),
}
STEPS: Facts = {"kind": "steps", "steps": []}
GAMES: list[tuple[str, Facts]] = [
    ("records", {"height": HUGE}),
    ("records", {"kind": ["path"]}),
    ("normal", {"test_sigma": 1e-90}),
    ("normal", {"test_sigma": 1e90}),
    ("normal", {"height": HUGE}),
    ("shares", {"left": 1e-90}),
    ("shares", {"units": HUGE}),
    ("streams", {"sketches": HUGE}),
    ("streams", {"standard": HUGE}),
    ("reports", {"reports": HUGE}),
    ("reports", {"devices": HUGE}),
    ("reports", {"spared": HUGE}),
    ("rounds", {"norm": HUGE}),
    ("rounds", {"items": HUGE}),
    ("rounds", {"count": {"sigma": 1e-90, "end": 10**50}}),
    ("sum", {"sketches": HUGE}),
    ("merged", {"changed": HUGE}),
    ("measured, listed", {"height": 10**9}),  # which nothing uses
]


WIDE = {"sigma": 1e9, "end": 10**10}
"""Noise that tells nothing, but often enough."""


@pytest.mark.parametrize(
    ("made", "change"),
    [
        *(pytest.param("records", change, id=name) for name, change in HOSTILE.items()),
        *((made, lambda p, to=to: p["game"].update(to)) for made, to in GAMES),
        (
            "rollup by rounds",
            lambda p: p["game"]["steps"][0]["game"].update(histograms=10**7, sizes=WIDE),
        ),
    ],
)
def test_hostile_numbers_take_no_time(made: str, change: Callable[[Facts], object]) -> None:
    """Law: a proof of numbers that nobody draws with is refused, and not worked on for days."""
    proof, _ = made_of(made)
    change(proof)
    assert verify_proof(json.dumps(proof)).outcome != "proved"


@pytest.mark.parametrize("change", [{"threshold": HUGE}, {"lowest": -HUGE}])
def test_a_test_that_nobody_passes_tells_nothing(change: Facts) -> None:
    """Law: numbers may be large where what they say is true."""
    proof, _ = made_of("records")
    (proof["game"] if "threshold" in change else proof["tables"][0]).update(change)
    assert verify_proof(json.dumps(proof)).outcome == "proved"


def test_a_field_that_is_told_twice_is_refused() -> None:
    """Law: no other reader of the same text can see another number."""
    text = json.dumps(made_of("records")[0])
    twice = text.replace('"height": 4', '"height": 9, "height": 4')
    assert twice != text
    assert verify_proof(twice).outcome == "failed"


@pytest.mark.parametrize("wrong", [None, 5, "x", [], {}, [None], {"x": None}, float("nan"), True])
def test_receipts_of_wrong_types_are_answered(wrong: Any) -> None:
    """Law: a fact of another type than it has fails, and raises nothing."""
    for made in ("records", "histograms", "sketch"):
        proof, receipt = made_of(made)
        receipt["proof"], text = None, json.dumps(proof)
        for name in ("threshold", "noise", "height", "guarantee", "epsilon", "neighbours"):
            if name in receipt and receipt[name] != wrong:
                found = verify_receipt({**receipt, name: wrong}, text)
                assert found.outcome == "failed", (made, name, found)


SLOW: dict[str, tuple[str, Facts]] = {
    "path": ("records", {"height": 10_000}),
    "sketches": ("streams", {"sketches": 1024}),
    "merged": ("merged", {"changed": 1024}),
    "sums": ("sum", {"sketches": 1000}),
    "reports": ("reports", {"reports": 100_000}),
}


@pytest.mark.parametrize("name", SLOW)
def test_a_proof_that_takes_long_is_left_after_a_time(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: a file of a few hundred bytes does not hold a verifier up."""
    monkeypatch.setattr(verdict, "LONGEST", 0.2)
    made, changes = SLOW[name]
    proof, _ = made_of(made)
    proof["game"].update(changes)
    found = verify_proof(json.dumps(proof))
    assert found.sentence.startswith("not verified: checking takes more than"), found.sentence


@pytest.mark.parametrize("epsilon", [1e-9, 1e-12, pytest.param(1e-15, marks=pytest.mark.evidence)])
def test_a_tiny_epsilon_takes_no_gigabytes(epsilon: float) -> None:
    """Law: the number of different losses is bounded before they are listed."""
    raw = [(2**at).to_bytes(8, "little") for at in (62, 63, 62)]
    weights = base64.b64encode(b"".join(raw)).decode()
    proof = {
        "format": "dpframe proof",
        "version": 1,
        "promise": {"epsilon": epsilon, "delta": 0.5, "group": 1},
        "game": {"kind": "counts", "units": 1, "levels": [{"table": 0, "least": None}]},
        "tables": [{"lowest": -1, "weights": weights}],
    }
    before = time.thread_time()
    assert "take too much memory" in verify_proof(json.dumps(proof)).sentence
    assert time.thread_time() - before < 5


def test_what_cannot_be_checked_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: an error inside of the verifier is one of ours, and the program exits with 2."""
    monkeypatch.setattr(verify, "verify_receipt", lambda *_: 1 / 0)
    with pytest.raises(dp.ParameterError, match=r"result cannot be checked .ZeroDivisionError"):
        dp.verify(made_of("records")[1])


def sealed(receipt: Facts, proof: Facts) -> Facts:
    """A receipt with a proof inside of it, and its digest: an attacker can compute that."""
    text = json.dumps(proof)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return {**receipt, "proof": {"version": 1, "sha256": digest, "text": text}}


def a_mutant(case: int) -> str | None:
    """What is wrong with the verdict on one receipt or proof that was changed at random; None if
    nothing is. It is proved only if nothing was changed but to what claims less."""
    r = random.Random(case)
    made = r.choice(NAMES)
    proof, receipt = made_of(made)
    if r.random() < 0.7:
        receipt = sealed(receipt, proof)
        changed, path, how = mutated(r, receipt)
        wrong: list[Any] = forged(receipt, changed)
    else:
        other, path, how = mutated(r, proof)
        wrong, changed = other_proof(receipt, proof, other), sealed(receipt, other)
    before = time.thread_time()
    found = verify_receipt(changed)
    slow = time.thread_time() - before > verdict.LONGEST + 10
    if slow or (wrong and found):
        return f"case {case}: {made}, {how} {path}: {found.sentence}, {wrong}"
    return None


def test_exact_laws_of_rounds_are_those_of_the_proof() -> None:
    proof, receipt = made_of("rounds")
    for law, drawn in zip(receipt["noise"]["rounds"], proof["game"]["rounds"], strict=True):
        half = ["rounded gaussian", drawn["sigma"]]  # weights of 0 are cut off after the end
        law["halves"] = [[*half, drawn["end"]], [*half, drawn["end"] * 9 // 8]]
    assert verify_receipt(sealed(receipt, proof)).outcome == "proved"
    changed, early = copy.deepcopy((receipt, proof))
    early["game"]["rounds"][2]["end"] = changed["noise"]["rounds"][2]["halves"][0][2] = 270_000
    changed["noise"]["rounds"][2].update(lowest=-270_000 / 4096, highest=270_000 / 4096)
    assert "rounds.2.halves" in verify_receipt(sealed(changed, early)).reason
    receipt["noise"]["rounds"][2]["scale"] = "3"
    assert "rounds.scale" in verify_receipt(sealed(receipt, proof)).reason


@pytest.mark.parametrize("name", ["guarantee", "promise"])
def test_a_measure_may_have_the_name_of_a_line_on_the_card(name: str) -> None:
    """Law: the promise on the card is still compared."""
    measures = {name: dp.sum("x", lower=0, upper=10)}
    result = ROWS.dp.rollup(["a"], measures=measures, epsilon=1.0, delta=1e-6)
    assert dp.verify(result).outcome == "proved"
    receipt = result.dp.receipt.to_dict()
    for number, line in enumerate(receipt["card"]):
        if line[0] == "guarantee":
            changed = copy.deepcopy(receipt)
            changed["card"][number][1] = "(0.1, 1e-06)-differential privacy for all"
            assert verify_receipt(changed).outcome == "failed"


def test_a_field_that_nobody_knows_is_not_verified() -> None:
    """Law: the verdict names it, wherever it stands, and the version of the receipt."""
    proof, receipt = made_of("records")
    for place in (receipt, receipt["noise"], receipt["noise"]["test"]):
        place["local_epsilon"] = 0.1
        found = verify_receipt(sealed(receipt, proof))
        assert found.outcome == "not verified"
        assert "local_epsilon', which this verifier does not know" in found.reason
        assert f"later version of dpframe than '{dp.__version__}'" in found.reason
        del place["local_epsilon"]
    assert verify_receipt(sealed(receipt, proof))


def test_a_receipt_that_does_not_say_whose_noise_it_is_is_not_verified() -> None:
    """Law: every receipt with a proof says so; one without either is older."""
    proof, receipt = made_of("records")
    del receipt["noise_source"]
    assert verify_receipt(sealed(receipt, proof)).outcome == "not verified"
    del receipt["proof"], receipt["card"]
    assert verify_receipt(receipt, json.dumps(proof)).outcome == "proved"


def test_a_key_that_is_told_twice_fails_wherever_it_stands(tmp_path: Path) -> None:
    """Law: in receipts and proofs no field has two values, of which readers take different ones."""
    file, r = tmp_path / "receipt.json", random.Random(7)
    for made in NAMES:
        proof, receipt = made_of(made)
        assert verify_proof(twice(r, proof)).outcome == "failed"
        for _ in range(3):
            file.write_text(twice(r, sealed(receipt, proof)), "utf-8")
            assert dp.verify(file).outcome == "failed", file.read_text("utf-8")


def test_a_comparison_that_is_left_out_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: without one comparison mutants are proved; without reading what is compared
    no genuine receipt is."""
    fields = ("grid", "lowest", "highest", "sd", "halves", "family")

    def same_noise(path: Any, *_: Any) -> Any:
        return [((*path, name), FREE) for name in fields]

    monkeypatch.setattr(receipt_facts, "table_facts", same_noise)
    assert any(told and "'noise'" in told for told in map(a_mutant, range(400)))
    monkeypatch.setattr(receipt_facts, "table_facts", lambda *_: [])
    proof, receipt = made_of("records")
    found = verify_receipt(sealed(receipt, proof))
    assert found.outcome == "not verified"
    assert "noise.test." in found.reason


def test_no_mutant_is_proved_that_claims_more() -> None:
    """Law: of 300 receipts and proofs with one leaf changed none is proved but those that, by a
    rule that knows nothing of the verifier, claim the same or less."""
    assert list(filter(None, map(a_mutant, range(300)))) == []


@pytest.mark.evidence
def test_no_mutant_of_a_receipt_or_a_proof_is_proved_raises_or_takes_long() -> None:
    """Law: the same of 40,000, from another place each time."""
    seed = int(os.environ.get("DPFRAME_FUZZ_SEED", random.SystemRandom().getrandbits(32)))
    print(f"DPFRAME_FUZZ_SEED={seed}")
    assert list(filter(None, map(a_mutant, range(seed, seed + 40_000)))) == []
