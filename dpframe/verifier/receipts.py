"""Whether a receipt says what its proof is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpframe.verifier.adaptive import parts
from dpframe.verifier.measure_receipts import check_measures
from dpframe.verifier.numbers import is_number
from dpframe.verifier.proof import Proof
from dpframe.verifier.verdict import FailedClaimError, claim

KINDS = {
    "offline": ("path", "shares", "steps"),
    "rollup": ("measures", "steps"),
    "laplace": ("counts",),
    "gaussian": ("counts",),
    "tree-laplace": ("counts",),
    "tree-gaussian": ("counts",),
    "tree-laplace-gaussian": ("counts",),
    "tree-hhh": ("path", "shares"),
    "offline-gaussian": ("path",),
    "streaming": ("sketches", "merged"),
    "merged-bounded": ("merged",),
    "privacy-aware-misra-gries": ("merged",),
    "misra-gries": ("sketches",),
    "misra-gries-standard": ("sketches",),
    "synthetic-privhp": ("counts",),
}
"""The games that belong to the mechanism that a receipt names."""


def check_receipt(receipt: Mapping[str, Any], proof: Proof) -> None:
    """Every number that both have must be the same; FailedClaimError names one that is not."""
    for name, proved in (("epsilon", proof.epsilon), ("delta", proof.delta)):
        told = receipt.get(name)
        claim(
            type(told) in (int, float) and told == proved,
            f"the receipt promises {name} {told!r}, the proof is of {float(proved)!r}",
        )
    epsilon, delta = float(proof.epsilon), float(proof.delta)
    sentence = f"({epsilon:g}, {delta:g})-" if delta else f"{epsilon:g}-"
    claim(
        str(receipt.get("guarantee", "")).startswith(f"{sentence}differential privacy for "),
        f"the receipt's guarantee is not one of {sentence.removesuffix('-')}",
    )
    kind, mechanism = proof.game.get("kind"), str(receipt.get("mechanism"))
    claim(
        kind in KINDS.get(mechanism, ()),
        f"the mechanism {mechanism!r} is no game {kind!r}",
    )
    if mechanism == "rollup":
        _same_rollup(receipt, proof)
        return
    selection = _beside_whole_counts(receipt, proof)
    claim(
        "release" not in selection.game or selection.game["release"] is not None,
        "the receipt has released counts, the proof none",
    )
    group = receipt.get("max_contributions")
    claim(
        group is None or group == proof.group or kind == "merged",
        f"the receipt has {group!r} records of a user, the proof {proof.group}",
    )
    _same_levels(receipt, selection)
    _same(receipt, selection)


def _beside_whole_counts(receipt: Mapping[str, Any], proof: Proof) -> Proof:
    """The selection; with whole counts of cells the first of two steps, with one count of every
    kind and of the total in the second."""
    told = receipt.get("whole_counts")
    if not isinstance(told, Mapping):
        claim(told is None, "the receipt's whole counts are not understood")
        claim(proof.game.get("kind") != "steps", "the proof has whole counts, the receipt none")
        return proof
    kinds = [part.game.get("kind") for _, _, part in parts(proof)]
    claim(
        kinds in (["path", "counts"], ["shares", "counts"]),
        "the receipt has whole counts, whose noise is not in the proof",
    )
    (_, _, selection), (epsilon, delta, whole) = parts(proof)
    claim(
        told.get("epsilon") == epsilon and told.get("delta") == delta,
        "the receipt has whole counts of another budget than the proof",
    )
    levels, height = whole.game.get("levels"), receipt.get("height")
    claim(
        isinstance(levels, list) and isinstance(height, int) and len(levels) == height + 1,
        f"the receipt has whole counts of {height!r} kinds and the total, the proof has others",
    )
    facts = told.get("noise")
    ends = (facts.get("lowest"), facts.get("highest")) if isinstance(facts, Mapping) else None
    for level in levels or ():
        law = whole.table(level.get("table") if isinstance(level, Mapping) else None, "table")
        claim(
            ends == (law.lowest, law.highest),
            f"noise of whole counts goes from and to {ends} in the receipt, in the proof "
            f"{law.lowest} to {law.highest}",
        )
    return selection


def _same_rollup(receipt: Mapping[str, Any], proof: Proof) -> None:
    """One selection where keys are not listed, and one game of measures."""
    claim(proof.group == 1, f"the receipt has one record or user, the proof {proof.group}")
    each = [part for _, _, part in parts(proof)]
    measures = [part for part in each if part.game.get("kind") == "measures"]
    selections = [part for part in each if part.game.get("kind") in ("path", "shares")]
    listed = receipt.get("keys") is not None
    claim(
        (len(each), len(measures), len(selections)) == (2 - listed, 1, 1 - listed),
        f"a rollup {'of listed keys measures' if listed else 'selects once, then measures'}; the "
        f"proof has {len(selections)} selections and {len(measures)} games of measures",
    )
    check_measures(receipt, measures[0])
    for selection in selections:
        _same_selection(receipt, selection)


def _same_selection(receipt: Mapping[str, Any], proof: Proof) -> None:
    """Height, threshold, ends of the noise, in records or users, or in what a sum counts."""
    game, shares = proof.game, proof.game.get("kind") == "shares"
    units = proof.whole("units", 1) if shares else 1
    height, told = receipt.get("height"), receipt.get("threshold")
    claim(
        game.get("height") == height,
        f"the receipt has height {height!r}, the proof {game.get('height')!r}",
    )
    claim(shares or receipt.get("user") is None, "the receipt has users, the proof one record")
    facts, law = receipt.get("noise"), proof.law("test")
    grid = facts.get("grid") if isinstance(facts, Mapping) else None
    claim(grid == units, f"the receipt counts in units of 1/{grid}, the proof of 1/{units}")
    ends = (facts.get("lowest"), facts.get("highest")) if isinstance(facts, Mapping) else None
    measures = receipt["measures"].values()
    sums = [m.get("upper") for m in measures if str(m.get("spec")).startswith("sum(")]
    claim(is_number(told), "the receipt has no threshold")
    for worth in (1, *filter(is_number, sums)):
        threshold = told * units / worth if told is not None and worth else None
        near = threshold is not None and abs(threshold - proof.whole("threshold")) < 1
        if near and ends == (law.lowest / units * worth, law.highest / units * worth):
            return
    raise FailedClaimError(
        f"the receipt has threshold {told!r} and test noise {ends}, the proof "
        f"{proof.whole('threshold') / units:g} and {law.lowest / units:g} to "
        f"{law.highest / units:g}"
    )


def _same_levels(receipt: Mapping[str, Any], proof: Proof) -> None:
    """As many levels as the hierarchy has, and where keys are not listed a threshold on all of them
    but the total."""
    game, height = proof.game, receipt.get("height")
    if game.get("kind") in ("sketches", "merged") and height is not None:
        proved = game.get("sketches")
        claim(proved == height, f"the receipt has {height!r} levels, the proof {proved!r}")
    levels = game.get("levels")
    if not isinstance(levels, list) or receipt.get("mechanism") == "synthetic-privhp":
        return
    told = sum(not isinstance(each, Mapping) or each.get("least") is None for each in levels)
    total = bool(receipt.get("remainder"))
    if receipt.get("keys") is not None:
        return
    claim(
        (len(levels), told) == (height + total if isinstance(height, int) else None, total),
        f"the receipt has {height!r} levels {'and' if total else 'without'} a total, with "
        f"thresholds; the proof has {len(levels)} levels, {told} of them without one",
    )


def _same(receipt: Mapping[str, Any], proof: Proof) -> None:
    """What heavy hitters tell: height, remainder, threshold, ends of noise."""
    game = proof.game
    for name in ("height", "remainder"):
        if name in game and name in receipt:
            told, proved = receipt[name], game[name]
            claim(told == proved, f"the receipt has {name} {told!r}, the proof {proved!r}")
    worth = receipt.get("max_weight")
    units = game.get("units", 1)
    if worth is not None or "threshold" not in game:
        return
    told = receipt.get("threshold")
    if is_number(told):
        proved = proof.whole("threshold")
        claim(
            round(told * units) == proved,
            f"the receipt has threshold {told!r}, the proof {proved / units:g}",
        )
    noise = receipt.get("noise")
    for name in ("test", "release"):
        facts = noise.get(name) if isinstance(noise, Mapping) else None
        if name not in game or not isinstance(facts, Mapping):
            continue
        law = proof.law(name)
        if (facts.get("lowest"), facts.get("highest")) != (law.lowest / units, law.highest / units):
            raise FailedClaimError(
                f"the {name} noise of the receipt goes from {facts.get('lowest')} to "
                f"{facts.get('highest')}, that of the proof from {law.lowest / units:g} to "
                f"{law.highest / units:g}"
            )
