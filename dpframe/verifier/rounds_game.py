"""Rounds of weights and counts of users: docs/guarantees.md, "Why it holds: users"; the argument is
in the docstring of accounting/weighted_round_noise.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from dpframe.verifier.gaussian_paths import normal_bound, normal_tail, upper_root
from dpframe.verifier.numbers import ONE, exp_above
from dpframe.verifier.proof import BrokenProofError, Proof, positive_number
from dpframe.verifier.verdict import DeltaBound, ProofStep, check_claim

USERS = "docs/guarantees.md, Why it holds: users, Values in rounds"
ROUNDS = "docs/verifying.md, rounds"

OFF = Fraction(1, 10**11)
"""The part of a probability by which a 64-bit table may be off before it is rounded."""

FLOATS = Fraction(4, 10**16)
"""How far rounding in floats may move a table, all weights together. Rounding to whole weights
comes on top: half a unit for each weight, and for the mode as much as for all of them."""


@dataclass(frozen=True)
class CutGaussian:
    """Gaussian noise of scale ``sigma``, rounded to whole numbers and cut at ``end`` on both sides.
    It is added to ``values`` numbers, which one user moves by a vector of at most the norm
    ``norm``. A score counts these numbers ``part`` times."""

    sigma: Fraction
    end: int
    norm: int
    values: int
    part: int

    @property
    def outside(self) -> Fraction:
        """Mass beyond the ends."""
        return 2 * normal_tail((self.end + Fraction(1, 2)) / self.sigma)

    @property
    def ends(self) -> Fraction:
        """An upper bound on the mass of answers that only one neighbour can give. The mass of the
        last s values grows faster than s, and the moves of all ``values`` numbers add up to at most
        root(``values``) times the norm."""
        last = normal_tail((self.end + Fraction(1, 2) - self.norm) / self.sigma)
        return upper_root(Fraction(self.values)) * last / (1 - self.outside)

    @property
    def rounding(self) -> Fraction:
        """How far weights of 64 bits are from the cut law, beside ``OFF``."""
        return Fraction(2 * self.end + 1, 2**65) + FLOATS


def bound_rounds_game(proof: Proof, epsilon: Fraction, enough: Fraction) -> DeltaBound:
    """Bound delta where a user moves noisy weights by a vector of bounded norm in each round, and
    counts at the end."""
    items, threshold = proof.whole_number("items", 1), proof.whole_number("threshold", 1)
    unit = proof.whole_number("unit", 1)
    weighed = [read_gaussian(each, unit, items) for each in proof.entries("rounds")]
    norm = proof.whole_number("norm", 1)
    drawn = [*weighed, read_gaussian(proof.game.get("count"), norm, norm * norm)]
    if proof.game.get("sizes") is not None:
        drawn.append(read_gaussian(proof.game["sizes"], 1, 1))
    for one in drawn:
        check_claim(
            one.outside * 10**6 < 1, "noise is cut too near to be compared with what is not"
        )
        check_claim(
            one.end > one.norm, "a user can move a count from one end of its noise to the other"
        )
    moved = sum(one.values for one in drawn)
    shift = 2 * moved * OFF * Fraction(101, 100)
    check_claim(
        moved * OFF < Fraction(1, 1000), "tables of so many values are too far from their laws"
    )
    cut = 1 + 2 * sum((one.values * one.outside for one in drawn), Fraction(0))
    mu = upper_root(sum(((one.norm / one.sigma) ** 2 for one in drawn), Fraction(0)))
    curve = normal_bound(mu, max(Fraction(0), epsilon - shift))
    alone = items * _chance_of_finding(weighed, unit, threshold)
    ends = sum((one.ends for one in drawn), Fraction(0))
    rounding = sum((one.values * one.rounding for one in drawn), Fraction(0))
    bound = (curve * cut + ends + alone) * (1 + moved * OFF * Fraction(101, 100))
    bound += rounding * (1 + Fraction(exp_above(epsilon), ONE))
    return DeltaBound(
        bound,
        ProofStep(
            f"{len(drawn)} Gaussian answers tell what one moved by {float(mu):.6g} does", USERS
        ),
        ProofStep(
            f"a value of one user is found with a chance of at most {float(alone):.4g}", USERS
        ),
        ProofStep(f"tables are off by {float(rounding):.2g} together", ROUNDS),
    )


def _chance_of_finding(weighed: list[CutGaussian], unit: int, threshold: int) -> Fraction:
    """An upper bound on the chance that noise finds a value of one user after any round."""
    total, parts, square, cut = Fraction(0), 0, Fraction(0), Fraction(1)
    for one in weighed:
        parts += one.part
        square += (one.part * one.sigma) ** 2
        cut *= 1 - one.outside
        left = threshold - unit * parts - Fraction(parts, 2)
        check_claim(left > 0, f"one user alone reaches the threshold {threshold}")
        total += normal_tail(left / upper_root(square)) / cut
    return total


def read_gaussian(told: object, norm: int, values: int) -> CutGaussian:
    if not isinstance(told, Mapping) or not set(told) <= {"sigma", "end", "part"}:
        raise BrokenProofError("noise can have sigma, end and, in a round, part, and no more")
    end, part = told.get("end"), told.get("part", 1)
    if type(end) is not int or end < 1 or type(part) is not int or part < 1:
        raise BrokenProofError("'end' and 'part' of noise must be whole numbers from 1 on")
    return CutGaussian(positive_number(told.get("sigma"), "sigma"), end, norm, values, part)
