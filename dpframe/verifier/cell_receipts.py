"""Compare the receipt of cells with whole counts with its proof."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpframe.verifier.adaptive import games_of_proof
from dpframe.verifier.noise_receipts import same_noise
from dpframe.verifier.proof import Proof
from dpframe.verifier.verdict import check_claim


def check_whole_counts(receipt: Mapping[str, Any], proof: Proof) -> Proof:
    """The proof of the selection. With whole counts of cells it is the first of two steps; the
    second has one count for every kind of cells and one for the total."""
    told = receipt.get("whole_counts")
    if not isinstance(told, Mapping):
        check_claim(told is None, "the receipt's whole counts are not understood")
        check_claim(
            proof.game.get("kind") != "steps", "the proof has whole counts, the receipt none"
        )
        return proof
    kinds = [part.game.get("kind") for _, _, part in games_of_proof(proof)]
    check_claim(
        kinds in (["path", "counts"], ["shares", "counts"]),
        "the receipt has whole counts, whose noise is not in the proof",
    )
    (_, _, selection), (epsilon, delta, whole) = games_of_proof(proof)
    check_claim(
        told.get("epsilon") == epsilon and told.get("delta") == delta,
        "the receipt has whole counts of another budget than the proof",
    )
    levels, height = whole.game.get("levels"), receipt.get("height")
    check_claim(
        isinstance(levels, list) and isinstance(height, int) and len(levels) == height + 1,
        f"the receipt has whole counts of {height!r} kinds and the total, the proof has others",
    )
    check_claim(whole.game.get("units") == 1, "whole counts are not divided")
    for level in levels or ():
        facts = level if isinstance(level, Mapping) else {}
        check_claim(facts.get("least") is None, "whole counts are of cells that are found already")
        law = whole.table(facts.get("table"), "table")
        same_noise(told.get("noise"), law, "whole count")
    return selection
