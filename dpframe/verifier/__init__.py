"""Check the proofs of receipts: a program of its own, which shares no code with the mechanisms."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

from dpframe.verifier.numbers import bound_text, exp_above, exp_below
from dpframe.verifier.path_game import bound_measures_game, bound_path_game, bound_shares_game
from dpframe.verifier.receipt_facts import check_receipt
from dpframe.verifier.reports import bound_relative_game, bound_reports_game
from dpframe.verifier.rounds_game import bound_normal_game, bound_periods, bound_rounds_game
from dpframe.verifier.sketch_games import (
    bound_counts_game,
    bound_merged_game,
    bound_sketches_game,
    bound_sums_game,
)
from dpframe.verifier.verdict import (
    BrokenProofError,
    DeltaBound,
    FailedClaimError,
    NotVerifiedError,
    Proof,
    ProofStep,
    Verdict,
    bound_steps_game,
    limited_time,
    read_proof,
)

SINGLE_GAMES: Mapping[str, Callable[[Proof, Fraction, Fraction], DeltaBound]] = {
    "path": bound_path_game,
    "measures": partial(bound_measures_game, bound_periods),
    "shares": bound_shares_game,
    "counts": bound_counts_game,
    "sketches": bound_sketches_game,
    "merged": bound_merged_game,
    "reports": bound_reports_game,
    "rounds": bound_rounds_game,
    "normal": bound_normal_game,
    "sums": bound_sums_game,
    "relative": bound_relative_game,
}
"""For each kind of game: the function that bounds delta for one record at an epsilon. Its last
argument is the delta that would be enough; a function may stop there, and may give more."""

GAMES: Mapping[str, Callable[[Proof, Fraction, Fraction], DeltaBound]] = {
    **SINGLE_GAMES,
    "steps": partial(bound_steps_game, SINGLE_GAMES),
}
"""The same functions, and the one for several games in sequence."""

GROUPS = "docs/guarantees.md, Why it holds: users; decision 0031"

NO_PROOF = (
    "the receipt carries no proof: it is older than proofs, or of a mechanism that has none yet "
    "(docs/verifying.md). For an older one plan the same release again: dp.explain(...).proof() is "
    "the text of what such a release draws from, and 'dpframe verify RECEIPT --proof FILE' checks "
    "it against this receipt."
)

LEFT_OUT = (
    "the proof is too long to be inside of the receipt, which has its digest, and could not be "
    "made again. dp.explain(...).proof(), with the same arguments, is its text: write that to a "
    "file, and pass it with --proof (proof= in Python)."
)


def verify_proof(text: str) -> Verdict:
    """The verdict on a proof alone."""
    try:
        return _judge_text(text)
    except BrokenProofError as error:
        return Verdict(outcome="failed", reason=str(error))


SECRET = "operating system"
"""The source in a receipt of noise that nobody can draw again."""

SEEDED = "the noise was drawn by a seeded generator, and is not private"


NO_SOURCE = "the receipt does not say where its noise is from"


def verify_receipt(receipt: Mapping[str, Any], text: str | None = None) -> Verdict:
    """The verdict on a receipt by the proof inside it, or by ``text``, a proof beside it."""
    if receipt.get("noise_source", SECRET) != SECRET:
        return Verdict(outcome="failed", reason=SEEDED)
    if receipt.get("frame_changed"):
        return Verdict(outcome="failed", reason=str(receipt.get("frame")))
    told = receipt.get("proof")
    if isinstance(told, Mapping) and "noise_source" not in receipt:  # old receipts carry no proof
        return Verdict(outcome="not verified", reason=NO_SOURCE)
    if text is None:
        if not isinstance(told, Mapping):
            return Verdict(outcome="not verified", reason=NO_PROOF)
        if told.get("text") is None:
            unknown = told.get("sha256") is None
            reason = str(told.get("why", NO_PROOF)) if unknown else LEFT_OUT
            return Verdict(outcome="not verified", reason=reason)
        text = str(told["text"])
    try:
        if isinstance(told, Mapping) and told.get("sha256") is not None:
            digest = hashlib.sha256(text.encode()).hexdigest()
            if digest != told["sha256"]:
                raise FailedClaimError("the proof is not the one whose digest is in the receipt")
        check_receipt(receipt, read_proof(text))
    except (BrokenProofError, FailedClaimError) as error:
        return Verdict(outcome="failed", reason=str(error))
    except NotVerifiedError as error:
        return Verdict(outcome="not verified", reason=str(error))
    return _judge_text(text)


@lru_cache(maxsize=32)  # many releases of a ledger have one proof
def _judge_text(text: str) -> Verdict:
    return _judge_proof(read_proof(text))


def _judge_proof(proof: Proof) -> Verdict:
    known: dict[str, Any] = {"epsilon": proof.epsilon, "delta": proof.delta}
    kind = proof.game.get("kind")
    game = GAMES.get(kind) if isinstance(kind, str) else None
    if game is None:
        reason = f"this verifier knows no game {kind!r}"
        return Verdict(outcome="not verified", reason=reason, **known)
    try:
        with limited_time():
            found = game(proof, proof.epsilon / proof.group, _record_delta(proof))
    except (BrokenProofError, FailedClaimError) as error:
        return Verdict(outcome="failed", reason=str(error), **known)
    except NotVerifiedError as error:
        return Verdict(outcome="not verified", reason=str(error), **known)
    bound = min(Fraction(1), _group_delta(proof.group, proof.epsilon, found.bound))
    steps = found.steps
    if proof.group > 1:
        steps += (ProofStep(f"{proof.group} records of one user, as a group", GROUPS),)
    if bound > proof.delta:
        return Verdict(
            outcome="failed",
            reason=f"the claim delta <= {float(proof.delta):g} at epsilon "
            f"{float(proof.epsilon):g}: what can be proved is delta <= {bound_text(bound)}",
            bound=bound,
            steps=steps,
            **known,
        )
    reason = f"promised: delta <= {float(proof.delta):g}"
    return Verdict(outcome="proved", reason=reason, bound=bound, steps=steps, **known)


@lru_cache(maxsize=4096)
def bound_at(text: str, epsilon: Fraction, enough: Fraction) -> Fraction | None:
    """An upper bound on delta at an epsilon other than the promised one; None where the game gives
    no bound there."""
    try:
        proof = read_proof(text)
        per_record = enough / max(Fraction(1), _group_delta(proof.group, epsilon, Fraction(1)))
        with limited_time():
            found = GAMES[proof.game["kind"]](proof, epsilon / proof.group, per_record)
    except (BrokenProofError, FailedClaimError, NotVerifiedError, KeyError):
        return None
    return min(Fraction(1), _group_delta(proof.group, epsilon, found.bound))


def _group_delta(group: int, epsilon: Fraction, delta: Fraction) -> Fraction:
    """Delta of ``group`` records: delta (e^epsilon - 1) / (e^(epsilon / group) - 1), rounded up."""
    if group == 1 or delta == 0:
        return delta
    if epsilon == 0:
        return group * delta
    one = exp_below(Fraction(0))
    return delta * (exp_above(epsilon) - one) / (exp_below(epsilon / group) - one)


def _record_delta(proof: Proof) -> Fraction:
    """The delta of one record that is enough for the promise."""
    return proof.delta / max(Fraction(1), _group_delta(proof.group, proof.epsilon, Fraction(1)))
