"""The games of offline heavy hitters: along a path, or by shares."""

from __future__ import annotations

from fractions import Fraction

from dpframe.verifier import linear_losses
from dpframe.verifier.path_game import PathGame, path_bound
from dpframe.verifier.proof import MOST_HEIGHT, Proof
from dpframe.verifier.verdict import DeltaBound, ProofStep, check_claim, check_loss

ONE_RECORD = "docs/guarantees.md, Why it holds: one record"


SHARES = "docs/mechanism.md, Users as shares"


def bound_path_game(proof: Proof, epsilon: Fraction, enough: Fraction) -> DeltaBound:
    """Bound delta of one record along one path: docs/guarantees.md, "Why it holds: one record"."""
    check_claim(
        proof.whole_number("height", 1) <= MOST_HEIGHT, f"there are more than {MOST_HEIGHT} tests"
    )
    game = PathGame(
        test=proof.law("test"),
        release=proof.law_or_none("release"),
        height=proof.whole_number("height", 1),
        threshold=proof.whole_number("threshold"),
        remainder=proof.flag("remainder"),
    )
    hidden = game.test.highest + 1 < game.threshold
    alone = "is never selected" if hidden else "can be selected, which is counted in full"
    return DeltaBound(
        path_bound(game, epsilon, enough),
        ProofStep("a node that only one table has " + alone, f"{ONE_RECORD}, after step 4"),
        ProofStep(
            f"the worst residuals of {game.height} tests, then "
            f"{'the remainder' if game.remainder else 'nothing'}: T_{game.height} from T_0",
            f"{ONE_RECORD}, steps 1 to 4",
        ),
    )


def bound_shares_game(proof: Proof, epsilon: Fraction, enough: Fraction) -> DeltaBound:
    """Bound delta of all units of a record or user, wherever they lie: docs/mechanism.md, "Users as
    shares"."""
    test, release = proof.law("test"), proof.law_or_none("release")
    height, units, threshold = (
        proof.whole_number("height", 1),
        proof.whole_number("units", 1),
        proof.whole_number("threshold"),
    )
    left, right = proof.scale("left"), proof.scale("right")
    scale = None if release is None else proof.scale("release_scale")
    check_claim(scale is not None or proof.game.get("release_scale") is None, "nothing is released")
    check_claim(
        test.highest + units < threshold,
        f"threshold {threshold} is no more than {units} units above {test.highest}, the most that "
        "the test noise adds: a node that only one table has could be selected",
    )
    loss = linear_losses.selection_loss(
        left=left, right=right, release=scale, height=height, remainder=proof.flag("remainder")
    )
    check_loss("the scales", loss, epsilon)
    bot, top = linear_losses.selection_slips(test, left=left, right=right, units=units)
    ends = Fraction(0)
    if release is not None and scale is not None:
        ends = linear_losses.slip_of_release(release, scale, units)
    return DeltaBound(
        height * max(bot, top) + ends,
        ProofStep("a node that only one table has is never selected", f"{SHARES}, after step 4"),
        ProofStep(f"a unit loses at most {float(loss):.9g} / {units}", f"{SHARES}, step 4"),
        ProofStep("slips of all levels and of what is released, added", f"{SHARES}, steps 1 to 3"),
    )
