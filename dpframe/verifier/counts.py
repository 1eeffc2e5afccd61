"""The game of noisy counts, one per level for every record: baselines and tree counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from dpframe.verifier import linear_losses
from dpframe.verifier.composition import composed_bound
from dpframe.verifier.proof import BrokenProofError, Proof, positive_number
from dpframe.verifier.verdict import DeltaBound, ProofStep, check_claim, check_loss

COUNTS = "docs/guarantees.md, Counts of every node"
PUBLIC = f"{COUNTS}, listed keys; Why it holds: cells, whole counts"
BASELINES = "docs/guarantees.md, Baselines"
ROUNDING = "docs/guarantees.md, Integer noise, exactly"


def bound_counts_game(proof: Proof, epsilon: Fraction, enough: Fraction) -> DeltaBound:
    """Bound delta where a record moves one count of each level by one, and a user of shares moves
    the counts of a level by one in all: docs/guarantees.md, "Counts of every node"."""
    levels, units = read_levels(proof), proof.whole_number("units", 1)
    hidden = ProofStep("a node that only one table has is never shown", BASELINES)
    if all(level.get("least") is None for level in levels):
        hidden = ProofStep("which nodes are shown is public, or was released before", PUBLIC)
    if all("scale" in level and "table" not in level for level in levels):
        return _bound_unbounded_noise(levels, units, epsilon)
    laws = [proof.table(level.get("table"), "table") for level in levels]
    for number, (level, law) in enumerate(zip(levels, laws, strict=True)):
        least = level.get("least")
        check_claim(
            least is None or law.highest + units < least,
            f"level {number} of the game shows counts from {least} on, and noise of {law.highest} "
            "could lift a node there that only one table has",
        )
    if all("scale" in level for level in levels):
        scales = [positive_number(level["scale"], "scale") for level in levels]
        loss = sum((1 / scale for scale in scales), Fraction(0))
        check_loss("levels", loss, epsilon)
        slips = {
            pair: linear_losses.slip_of_release(law, scale, units)
            for pair, law, scale in zip(_tables_and_scales(levels), laws, scales, strict=True)
        }
        return DeltaBound(
            sum((slips[pair] for pair in _tables_and_scales(levels)), Fraction(0)),
            hidden,
            ProofStep(f"{len(levels)} levels lose at most {float(loss):.9g} together", COUNTS),
            ProofStep(
                "slips of all levels, added", "docs/mechanism.md, Users as shares, steps 1 to 3"
            ),
        )
    check_claim(units == 1, "counts of shares need a scale for every level")
    times = Counter(level["table"] for level in levels)
    return DeltaBound(
        composed_bound([(proof.laws[n], k) for n, k in sorted(times.items())], epsilon, enough),
        hidden,
        ProofStep(f"losses of {len(levels)} counts that move by one, convolved", COUNTS),
    )


def read_levels(proof: Proof) -> list[Mapping[str, Any]]:
    """Read the levels of the game; BrokenProofError if they are malformed."""
    levels = proof.entries("levels")
    for level in levels:
        if not isinstance(level, dict) or not set(level) <= {"table", "scale", "least", "moves"}:
            raise BrokenProofError("a level can have table, scale, least and moves, and no more")
        least = level.get("least")
        moves = level.get("moves", 1)
        if type(moves) is not int or moves < 1 or (moves > 1 and "table" in level):
            raise BrokenProofError("'moves' must be a whole number from 1 on, and 1 with a table")
        if least is not None and type(least) is not int:
            raise BrokenProofError("'least' must be a whole number or null")
    return levels


def _tables_and_scales(levels: list[Mapping[str, Any]]) -> list[tuple[Any, Any]]:
    return [(level["table"], level["scale"]) for level in levels]


def _bound_unbounded_noise(
    levels: list[Mapping[str, Any]], units: int, epsilon: Fraction
) -> DeltaBound:
    """Bound delta, which is 0, of discrete Laplace noise over all integers; scales are in units."""
    check_claim(
        all(level.get("least") is None for level in levels),
        "noise without bounds can lift every node over a threshold",
    )
    scales = [positive_number(level["scale"], "scale") for level in levels]
    moves = [level.get("moves", 1) * units for level in levels]
    loss = sum((m / scale for m, scale in zip(moves, scales, strict=True)), Fraction(0))
    check_loss("levels", loss, epsilon)
    return DeltaBound(
        Fraction(0),
        ProofStep("every node of a public list is shown", COUNTS),
        ProofStep(f"{len(levels)} levels of noise without bounds lose {float(loss):.9g}", COUNTS),
    )
