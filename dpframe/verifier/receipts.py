"""Compare a receipt with its proof."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from dpframe.verifier.cell_receipts import check_whole_counts
from dpframe.verifier.count_receipts import check_count_levels, check_level_sketches
from dpframe.verifier.leaves import Facts, check_leaves
from dpframe.verifier.measure_receipts import check_rollup
from dpframe.verifier.node_receipts import check_nodes
from dpframe.verifier.noise_receipts import same_noise
from dpframe.verifier.numbers import is_number
from dpframe.verifier.proof import MOST_HEIGHT, Proof
from dpframe.verifier.relative_game import check_relative
from dpframe.verifier.reports import check_reports
from dpframe.verifier.rounds_game import check_rounds
from dpframe.verifier.sketch_receipts import check_sketch
from dpframe.verifier.unit_receipts import (
    OF_SKETCHES,
    ProtectedUnit,
    check_division,
    check_unit,
)
from dpframe.verifier.verdict import check_claim

KINDS = {
    "offline": ("path", "shares", "steps"),
    "rollup": ("measures", "steps"),
    "laplace": ("counts",),
    "gaussian": ("counts",),
    "tree-laplace": ("counts",),
    "tree-gaussian": ("counts",),
    "tree-laplace-gaussian": ("counts",),
    "tree-hhh": ("path", "shares"),
    "tree-relative": ("relative",),
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
"""For each mechanism that a receipt can name: the kinds of games that belong to it."""


FIXED_FIELDS: Mapping[str, Mapping[str, object]] = {
    "offline": {"counters": None},
    "laplace": {"counters": None},
    "gaussian": {"counters": None},
    "streaming": {"remainder": False},
    "items": {"counters": None, "remainder": False, "adds_up": False},
    "rounds": {"counters": None, "remainder": False, "height": 1},
    "rollup": {"remainder": True},
    "tree-": {"remainder": True},
    "tree-items-": {"adds_up": False},
    "prefix-": {
        "height": 1,
        "threshold": None,
        "remainder": False,
        "contribution": None,
        "max_contributions": None,
    },
    "synthetic-": {"threshold": None, "remainder": None},
}
"""What receipts of a mechanism always say, by the beginning of the mechanism's name."""


def check_receipt(receipt: Mapping[str, Any], proof: Proof) -> None:
    """Check that every leaf of the receipt follows from the proof or is free: FailedClaimError
    names a leaf that says something else, NotVerifiedError a leaf that nobody knows."""
    facts = Facts(receipt)
    _check_claims(facts, proof)
    mechanism = str(facts.get("mechanism"))
    wanted = [known for of, known in FIXED_FIELDS.items() if mechanism.startswith(of)]
    for name, value in (fact for known in wanted for fact in known.items()):
        told = facts.get(name)
        check_claim(
            type(told) is type(value) and told == value,
            f"the receipt has {name} {told!r}; of {mechanism!r} it is {value!r}",
        )
    _check_labels(facts, proof)
    check_leaves(facts, mechanism)


def _check_labels(facts: Facts, proof: Proof) -> None:
    """Check that the height is the number of named levels, that the card has the guarantee of the
    receipt, and that the computed delta is within the promise."""
    names, height = facts.get("levels"), facts.get("height")
    check_claim(
        len(names) == height if isinstance(names, list) else names is height is None,
        f"the receipt has height {height!r}, and names other levels",
    )
    card, guarantee = facts.get("card"), facts.get("guarantee")
    lines = [line for line in card if isinstance(line, list)] if isinstance(card, list) else []
    told = [line[1:2] for line in lines if line[:1] == ["guarantee"]]
    check_claim(
        card is None or told == [[guarantee]], "the card has another guarantee than the receipt"
    )
    for name in ("ledger", "period"):
        check_claim(
            isinstance(facts.get(name), Facts | None), f"the receipt has no object as {name}"
        )
    mechanism, keys = str(facts.get("mechanism")), facts.get("keys")
    listed = isinstance(keys, str) and mechanism.startswith(("tree-", "rollup"))
    check_claim(
        keys is None or listed, f"the mechanism {mechanism!r} finds its keys, and lists {keys!r}"
    )
    computed = facts.get("computed_delta")
    check_claim(
        is_number(computed) and 0 <= computed <= proof.delta,
        f"the receipt has computed_delta {computed!r}, and promises {float(proof.delta):g}",
    )


def _check_claims(receipt: Facts, proof: Proof) -> None:
    for name, proved in (("epsilon", proof.epsilon), ("delta", proof.delta)):
        told = receipt.get(name)
        check_claim(
            type(told) in (int, float) and told == proved,
            f"the receipt promises {name} {told!r}, the proof is of {float(proved)!r}",
        )
    epsilon, delta = float(proof.epsilon), float(proof.delta)
    sentence = f"({epsilon:g}, {delta:g})-" if delta else f"{epsilon:g}-"
    check_claim(
        str(receipt.get("guarantee", "")).startswith(f"{sentence}differential privacy for "),
        f"the receipt's guarantee is not one of {sentence.removesuffix('-')}",
    )
    kind, mechanism = proof.game.get("kind"), str(receipt.get("mechanism"))
    check_claim(
        kind in KINDS.get(mechanism, ()),
        f"the mechanism {mechanism!r} is no game {kind!r}",
    )
    if mechanism.startswith("prefix-"):
        check_reports(receipt, proof)
        return
    if mechanism == "rollup":
        check_rollup(receipt, proof)
    unit = check_unit(receipt, proof)
    if mechanism == "rollup":
        return
    if mechanism.removesuffix("-universe") in OF_SKETCHES:
        check_sketch(receipt, proof)
        return
    height = receipt.get("height")
    known = type(height) is int and 0 < height <= MOST_HEIGHT
    check_claim(known, f"the receipt has height {height!r}")
    if mechanism == "rounds":
        check_rounds(receipt, proof)
    elif "items" in mechanism.split("-"):
        check_nodes(receipt, proof)
    elif kind in ("sketches", "merged"):
        check_level_sketches(receipt, proof)
    elif kind == "relative":
        check_relative(receipt, proof)
    elif kind == "counts":
        check_count_levels(receipt, proof, check_division(unit, proof))
    else:
        _check_selection(receipt, check_whole_counts(receipt, proof), unit)


def _check_selection(receipt: Mapping[str, Any], proof: Proof, unit: ProtectedUnit) -> None:
    """Compare what heavy hitters tell: height, remainder, threshold and noise."""
    game, units = proof.game, check_division(unit, proof)
    check_claim(game.get("release") is not None, "the receipt has released counts, the proof none")
    check_claim(
        receipt.get("keys") is None, "a selection finds its keys, and the receipt lists them"
    )
    for name in ("height", "remainder") if "remainder" in game else ("height",):
        told, proved = receipt.get(name), game.get(name)
        check_claim(
            type(told) is type(proved) and told == proved,
            f"the receipt has {name} {told!r}, the proof {proved!r}",
        )
    told, proved = receipt.get("threshold"), proof.whole("threshold")
    exact = Fraction(proved) * unit.worth / units
    room = exact / 1000 if unit.worth != 1 else Fraction(0)  # the receipt has it with four digits
    unit_below = exact - unit.worth / units  # counts are whole units
    check_claim(
        is_number(told) and unit_below < Fraction(told) <= (exact + room) * (1 + TOLD),
        f"the receipt has threshold {told!r}, the proof {float(exact):g}",
    )
    noise = receipt.get("noise")
    for name in ("test", "release"):
        facts = noise.get(name) if isinstance(noise, Mapping) else None
        same_noise(facts, proof.law(name), name, units, unit.worth)


TOLD = Fraction(1, 2**50)
"""Relative error that a double may have."""
