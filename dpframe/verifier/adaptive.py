"""Games in sequence, each of which may depend on what the games before it showed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from dpframe.verifier.laws import BrokenProofError
from dpframe.verifier.proof import Proof, check_game_fields, positive_number, zero_or_positive
from dpframe.verifier.verdict import DeltaBound, NotVerifiedError, ProofStep, check_loss

SEVERAL = "docs/guarantees.md, Several releases"

Game = Callable[[Proof, Fraction, Fraction], DeltaBound]


def games_of_proof(proof: Proof) -> list[tuple[Fraction, Fraction, Proof]]:
    """The games of a proof, each with its epsilon and delta: its only game, or its steps."""
    if proof.game.get("kind") != "steps":
        return [(proof.epsilon / proof.group, proof.delta, proof)]
    return [_read_step(proof, each) for each in proof.entries("steps")]


def _read_step(proof: Proof, told: Any) -> tuple[Fraction, Fraction, Proof]:
    if not isinstance(told, dict) or set(told) != {"epsilon", "delta", "game"}:
        raise BrokenProofError("a step must have epsilon, delta and game, and no more")
    if not isinstance(told["game"], dict):
        raise BrokenProofError("the game of a step must be an object")
    check_game_fields(told["game"])
    delta = zero_or_positive(told["delta"], "delta")
    return positive_number(told["epsilon"], "epsilon"), delta, proof.of(told["game"])


def bound_steps_game(
    games: Mapping[str, Game], proof: Proof, epsilon: Fraction, enough: Fraction
) -> DeltaBound:
    """Bound delta of all games of a proof by adaptive composition: their epsilons must add up to at
    most the promised epsilon, and the deltas that are found add up to the bound. The delta of a
    step says how finely that step is bounded."""
    each = games_of_proof(proof)
    spent = sum((own for own, _, _ in each), Fraction(0))
    check_loss("steps", spent, epsilon)
    bound, said = Fraction(0), list[ProofStep]()
    for own, delta, part in each:
        kind = part.game.get("kind")
        game = games.get(kind) if isinstance(kind, str) else None
        if game is None:
            raise NotVerifiedError(f"this verifier knows no game {kind!r} as a step")
        found = game(part, own, min(delta, enough))
        bound += found.bound
        said += found.steps
    whole = ProofStep(
        f"{len(each)} steps: epsilons add up to {float(spent):.9g}, deltas too", SEVERAL
    )
    return DeltaBound(bound, whole, *said)
