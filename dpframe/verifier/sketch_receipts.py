"""Compare the receipt of a sketch that an application keeps with its proof."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from dpframe.verifier.noise_receipts import same_noise, same_number, same_scale
from dpframe.verifier.proof import Proof, positive_number
from dpframe.verifier.verdict import check_claim

WHOLE_COUNTS = ("merged-bounded", "privacy-aware-misra-gries")
"""Mechanisms of sketches in which a record or user moves at most k counts by 1."""


def check_sketch(receipt: Mapping[str, Any], proof: Proof) -> None:
    """Compare counters, threshold and noise of one sketch, and how far a record moves its
    counts."""
    told, mechanism = receipt.get("counters"), str(receipt.get("mechanism"))
    check_claim(type(told) is int and told > 0, "the receipt has no number of counters")
    noise, game, k = receipt.get("noise"), proof.game, int(told or 0)
    facts = noise if isinstance(noise, Mapping) else {}
    keys = receipt.get("universe")
    listed = type(keys) is int and keys > 0 if mechanism.endswith("-universe") else keys is None
    check_claim(listed, f"the receipt of {mechanism!r} lists {keys!r} keys")
    if mechanism.endswith("-universe"):
        least = receipt.get("threshold")
        check_claim(least is None, f"the receipt has threshold {least!r}, and every key is shown")
        _check_universe(mechanism.removesuffix("-universe"), k, facts, proof)
        return
    check_claim(game.get("sketches") == 1, "the receipt is of one sketch, the proof of others")
    units, threshold = 1, "theta"
    if mechanism == "merged-sum":
        own, units = proof.whole("counters", 1), k + 1
        check_claim(own == k, f"the receipt has {k} counters, the proof {own}")
    elif mechanism in WHOLE_COUNTS:
        own, threshold = proof.whole("changed", 1), "least"
        check_claim(own == k, f"a record or user moves {k} counts, in the proof {own}")
    else:
        kept = k if mechanism == "misra-gries-standard" else None
        told = game.get("standard")
        check_claim(
            told == kept and type(told) is type(kept),
            f"a {mechanism} of {k} counters is {kept!r} as standard, in the proof {told!r}",
        )
        same_noise(facts.get("sketch_error"), proof.law("shared"), "error")
    least = Fraction(proof.whole(threshold), units)
    same_number(receipt.get("threshold"), least, "threshold")
    same_noise(facts.get("count"), proof.law("noise"), "count", units)


def _check_universe(mechanism: str, k: int, facts: Mapping[str, Any], proof: Proof) -> None:
    """Compare noise without bounds on every key of a list; keys move by whole counts, or in parts
    of 1 / (k + 1)."""
    most, units = (k, 1) if mechanism in WHOLE_COUNTS else (2 * k - 1, k + 1)
    told = proof.game.get("levels")
    levels = [each for each in told if isinstance(each, Mapping)] if isinstance(told, list) else []
    moved = [each.get("moves", 1) for each in levels]
    check_claim(
        moved == [most] and proof.game.get("units") == 1,
        f"a record of {mechanism} moves keys by {most}, in the proof {moved}",
    )
    same_scale(facts.get("count"), positive_number(levels[0].get("scale"), "scale"), "count", units)
