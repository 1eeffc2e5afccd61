"""Whether a receipt says what its proof is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpframe.verifier.cell_receipts import beside_whole_counts
from dpframe.verifier.measure_receipts import check_rollup
from dpframe.verifier.node_receipts import check_nodes
from dpframe.verifier.numbers import is_number
from dpframe.verifier.proof import Proof
from dpframe.verifier.reports import check_reports
from dpframe.verifier.rounds import check_rounds
from dpframe.verifier.sums import check_sketches
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
    "items": ("counts",),
    "tree-items-laplace": ("counts",),
    "tree-items-gaussian": ("counts",),
    "offline-gaussian": ("path", "normal"),
    "streaming": ("sketches", "merged"),
    "merged-bounded": ("merged",),
    "privacy-aware-misra-gries": ("merged",),
    "misra-gries": ("sketches",),
    "misra-gries-standard": ("sketches",),
    "rounds": ("rounds",),
    "merged-sum": ("sums",),
    "misra-gries-universe": ("counts",),
    "misra-gries-standard-universe": ("counts",),
    "merged-sum-universe": ("counts",),
    "merged-bounded-universe": ("counts",),
    "privacy-aware-misra-gries-universe": ("counts",),
    "synthetic-privhp": ("counts",),
    "prefix-reports": ("reports",),
    "prefix-laplace": ("counts",),
    "prefix-gaussian": ("counts",),
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
        check_rollup(receipt, proof)
        return
    proof = beside_whole_counts(receipt, proof)
    claim(
        "release" not in proof.game or proof.game["release"] is not None,
        "the receipt has released counts, the proof none",
    )
    group = receipt.get("max_contributions")
    own = proof.whole("moves", 1) if kind == "normal" else proof.group
    claim(
        group is None or group == own or kind in ("merged", "rounds"),
        f"the receipt has {group!r} records of a user, the proof {own}",
    )
    if mechanism.startswith("prefix-"):
        check_reports(receipt, proof)
        return
    if mechanism == "rounds":
        check_rounds(receipt, proof)
        return
    if mechanism == "merged-sum" or mechanism.endswith("-universe"):
        check_sketches(receipt, proof)
        return
    if "items" in mechanism.split("-"):
        check_nodes(receipt, proof)
        return
    _same_levels(receipt, proof)
    _same(receipt, proof)


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
