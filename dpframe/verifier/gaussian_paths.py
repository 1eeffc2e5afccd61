"""The game of Gaussian noise in tests and releases: for users, and for groups of records.

docs/guarantees.md, "Why it holds: users".
"""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate, pairwise

from dpframe.verifier.gaussian_bounds import distribution_on_grid, normal_bound, upper_root
from dpframe.verifier.laws import Law
from dpframe.verifier.numbers import ONE, TABLE, exp_above
from dpframe.verifier.proof import Proof
from dpframe.verifier.verdict import DeltaBound, NotVerifiedError, ProofStep, check_claim

GAUSSIAN = "docs/guarantees.md, Why it holds: users, Gaussian noise"
NORMAL = "docs/verifying.md, normal"

OFF = Fraction(1, 10**11)
"""The part of a probability by which a table may be off at the cost of some epsilon."""

MOST_ENTRIES = 4_000_000
"""The most entries of a table that are compared with its law."""


def bound_normal_game(proof: Proof, epsilon: Fraction, enough: Fraction) -> DeltaBound:
    """Bound delta for all units of a user, or of a group of records, wherever they lie and whatever
    was answered: the squares of what moves add up."""
    test, release = proof.law("test"), proof.law("release")
    height, units = (
        proof.whole_number("height", 1),
        proof.whole_number("units", 1) * proof.whole_number("moves", 1),
    )
    threshold = proof.whole_number("threshold")
    scales = proof.scale("test_sigma"), proof.scale("release_sigma")
    check_claim(
        test.highest < threshold,
        f"threshold {threshold} is within the test noise, which goes to {test.highest}: a node "
        "that has no record could be selected, and is not tested",
    )
    drawn = ((test, scales[0], height), (release, scales[1], 1))
    mu = upper_root(units**2 * sum((times / sigma**2 for _, sigma, times in drawn), Fraction(0)))
    ends, cut, moved = Fraction(0), Fraction(0), units * (height + 1)
    check_claim(
        moved * OFF < Fraction(1, 1000), "tables of so many counts are too far from their laws"
    )
    added, beside = Fraction(0), Fraction(0)
    for law, sigma, times in drawn:
        whole, more, outside = _compare_with_gaussian(law, sigma)
        ends += times * _end_mass(law, units)
        added += times * units * whole
        beside += times * units * more
        cut += times * units * outside / (1 - outside)
    check_claim(cut < 1, "the tables hold too little of their laws")
    factor, both = Fraction(exp_above(cut), ONE), 1 + Fraction(exp_above(epsilon), ONE)
    slack = moved * OFF * Fraction(101, 100)
    shifted = factor * normal_bound(mu, max(Fraction(0), epsilon - 2 * slack))
    bound = min(
        ends + factor * normal_bound(mu, epsilon) + added * both,
        (ends + shifted) * (1 + slack) + beside * both,
    )
    return DeltaBound(
        bound,
        ProofStep(
            f"{height} levels and a release tell what a move by {float(mu):.6g} does", GAUSSIAN
        ),
        ProofStep(f"answers that one side alone can give have at most {float(ends):.4g}", NORMAL),
        ProofStep(f"tables are off by {float(added):.2g} together, entry by entry", NORMAL),
    )


def _end_mass(law: Law, units: int) -> Fraction:
    """An upper bound on the mass of answers that a neighbour cannot give, where the moves of counts
    add up to ``units``: the largest mass per unit of any move, times ``units``."""
    sums = list(accumulate(law.weights[::-1][:units], initial=0))[1:]
    most = max(Fraction(mass, number) for number, mass in enumerate(sums, 1))
    return units * most / TABLE


def _compare_with_gaussian(law: Law, sigma: Fraction) -> tuple[Fraction, Fraction, Fraction]:
    """Compare a table with a rounded Gaussian that is cut at the ends of the table. Return upper
    bounds on their total variation, on the same if each probability may be off by ``OFF`` of
    itself, and on the mass of the Gaussian beyond the ends."""
    check_claim(law.symmetric, "Gaussian noise must be symmetric")
    if len(law.weights) > MOST_ENTRIES:
        raise NotVerifiedError(f"a table of {len(law.weights)} entries takes too long to compare")
    points = distribution_on_grid(sigma, law.highest + 2)
    outside = 2 * Fraction(ONE - points[-1][0], ONE)
    check_claim(outside * 2 < 1, "the table holds less than half of its law")
    inside = ONE - 2 * (ONE - points[-1][0]), ONE - 2 * (ONE - points[-1][1])
    far = over = under = 0
    for k, (one, other) in enumerate(pairwise(points)):
        low = (other[0] - one[1]) * ONE // inside[1]
        high = -(-(other[1] - one[0]) * ONE // inside[0])
        weight, sides = law.weights[k - law.lowest] * (ONE // TABLE), 1 if k == 0 else 2
        far += sides * max(high - weight, weight - low, 0)
        part = low * OFF.numerator // OFF.denominator
        over += sides * max(weight - low - part, 0)
        under += sides * max(high - weight - part, 0)
    return Fraction(far, 2 * ONE), Fraction(max(over, under), ONE), outside
