"""Counts with a relative error: each step is a sparse vector, with a test after each of its
answers.

docs/guarantees.md, "Counts with a relative error". Between neighbours one count of each level of
one tree moves by one. Noise is discrete Laplace over all whole numbers; the noise of tests is that
law given that it is within a bound. Nothing is claimed here about how near to the true counts the
released counts are.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dpframe.verifier.numbers import ONE, exp_above, exp_between
from dpframe.verifier.proof import BrokenProofError, Proof
from dpframe.verifier.verdict import DeltaBound, ProofStep, check_claim, check_loss

RELATIVE = "docs/guarantees.md, Counts with a relative error"

SCALES = ("thresholds", "queries", "tests")


@dataclass(frozen=True, kw_only=True)
class RelativeStep:
    """One step: up to ``tops`` answers, each with a fresh threshold. Each answer is followed by
    tests against ``cut``, with noise within ``bound``. ``thresholds``, ``queries`` and ``tests``
    are the scales of noise."""

    tops: int
    thresholds: Fraction
    queries: Fraction
    tests: Fraction
    bound: int
    cut: int

    @property
    def loss(self) -> Fraction:
        """The epsilon of the step: a threshold that is 1 higher keeps all answers but the last,
        whose query is then 2 higher; the one count that a test compares moves by 1."""
        return self.tops * (1 / self.thresholds + 2 / self.queries + 1 / self.tests)

    @property
    def end(self) -> Fraction:
        """An upper bound on P(Z = R | |Z| <= R) = (1 - q) q^R / (1 + q - 2 q^(R + 1)), with q =
        e^(-1 / b) and R the bound: each of the two tables has one value, at an end, that the other
        one lacks; everywhere else their ratio is at most 1 / q."""
        low, high = exp_between(-1 / self.tests)
        last = exp_above(-self.bound / self.tests)
        under = (ONE + low) * ONE - 2 * high * last
        check_claim(under > 0, "the noise of tests has no width")
        return Fraction((ONE - low) * last, under)


def bound_relative_game(proof: Proof, epsilon: Fraction, enough: Fraction) -> DeltaBound:
    """Bound delta of all steps in sequence; what a step is asked may depend on the steps before
    it."""
    steps = relative_steps(proof)
    for number, one in enumerate(steps, 1):
        check_claim(
            one.cut - one.bound >= 2,
            f"step {number} can pass a node of one record, which only one table has: noise of "
            f"{one.bound}, and {one.cut} are needed",
        )
    loss = sum((one.loss for one in steps), Fraction(0))
    check_loss("steps", loss, epsilon)
    return DeltaBound(
        sum((one.tops * one.end for one in steps), Fraction(0)),
        ProofStep("a node that only one table has never passes a test", f"{RELATIVE}, point 4"),
        ProofStep(
            f"{len(steps)} steps, up to the last answer of each, lose at most {float(loss):.9g}",
            f"{RELATIVE}, points 2 and 3",
        ),
        ProofStep("ends of the noise of tests, one for each answer, added", f"{RELATIVE}, point 3"),
    )


def relative_steps(proof: Proof) -> list[RelativeStep]:
    """Read the steps of the game; BrokenProofError if they are malformed."""
    names = {"tops", "bound", "cut", *SCALES}
    out = []
    for each in proof.entries("steps"):
        if not isinstance(each, dict) or set(each) != names:
            raise BrokenProofError(f"a step must have {', '.join(sorted(names))}, and no more")
        part = proof.of(each)
        scales = {name: part.scale(name) for name in SCALES}
        whole = {name: part.whole_number(name, 1) for name in ("tops", "bound", "cut")}
        out.append(RelativeStep(**whole, **scales))  # type: ignore[arg-type]
    return out
