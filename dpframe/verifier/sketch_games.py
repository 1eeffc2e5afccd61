"""Misra-Gries sketches of one stream: docs/guarantees.md, "Streams and sketches"."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from dpframe.verifier.composition import composed_bound, divergence_bound
from dpframe.verifier.numbers import BITS, ONE, TABLE, divide_up, exp_below
from dpframe.verifier.proof import Law, Proof
from dpframe.verifier.verdict import DeltaBound, NotVerifiedError, ProofStep, check_claim

SKETCHES = "docs/guarantees.md, Streams and sketches"
MOST_COUNTS = 1024
"""The most counts that move together: more would take minutes."""

MERGED = "docs/verifying.md, merged"
STRUCTURE = "docs/guarantees.md, Streams and sketches, One stream"


def bound_sketches_game(proof: Proof, epsilon: Fraction, enough: Fraction) -> DeltaBound:
    """Bound delta of one sketch per level. A record moves one number of each sketch by one: a
    counter U, or the error alpha. Keys that only one of two neighbouring sketches has may pass the
    threshold."""
    noise, shared = proof.law("noise"), proof.law("shared")
    number, theta = proof.whole_number("sketches", 1), proof.whole_number("theta")
    standard = None if proof.game.get("standard") is None else proof.whole_number("standard", 1)
    check_claim(number <= MOST_COUNTS, f"there are more than {MOST_COUNTS} sketches")
    if (noise.lowest, list(noise.weights)) != (shared.lowest, list(shared.weights)):
        raise NotVerifiedError("counters and errors have different noise, which has no proof here")
    unshared = ((1, 1), (0, 1)) if standard is None else ((1, standard),)
    chance = passing_chance(noise, shared, theta, unshared)
    rest = max(Fraction(0), enough - number * chance)
    return DeltaBound(
        composed_bound([(noise, number)], epsilon, rest) + number * chance,
        ProofStep("one number of each sketch moves by one, a counter or the error", STRUCTURE),
        ProofStep(f"losses of {number} sketches, convolved", SKETCHES),
        ProofStep(f"a key that only one sketch has passes {theta} or not, on each", SKETCHES),
    )


def bound_merged_game(proof: Proof, epsilon: Fraction, enough: Fraction) -> DeltaBound:
    """Bound delta where up to ``changed`` counts of a sketch move by one, all in one direction, and
    zeros are not stored: bounded merges, and sketches of users' sets. One record or user is in
    ``sketches`` sketches.

    If j of all counts are stored on both sides, the others are hidden with chance lone =
    Psi^(number of others), with Psi = P(noise < least - 1). D_j, the divergence of j counts that
    move by one, grows with j. So for all j of a run the largest D_j is a bound, with the least or
    the largest lone.
    """
    noise, number = proof.law("noise"), proof.whole_number("sketches", 1)
    total, least = number * proof.whole_number("changed", 1), proof.whole_number("least", 1)
    if total > MOST_COUNTS:
        raise NotVerifiedError(f"{total} counts that move together take too long: at most 1,024")
    psi = noise.cumulative(least - 1) * (ONE // TABLE)
    start = exp_below(epsilon)
    worst = ONE - _power_below(psi, total)
    for first, last in _count_runs(total):
        lone = _power_below(psi, total - first)
        most = min(
            ONE, _power_below(psi, total - last) + 4 * total
        )  # above all that was rounded down
        rest = max(Fraction(0), enough - Fraction(ONE - lone, ONE))
        silent = divergence_bound([(noise, last)], start * lone >> BITS, rest)
        if number > 1:  # counts of other sketches may move the other way
            worst = max(worst, ONE - lone + _parts_of_one(silent))
            continue
        seen = divergence_bound([(noise, last)], (start << BITS) // most, rest)
        worst = max(worst, ONE - lone + _parts_of_one(seen), _parts_of_one(silent))
    return DeltaBound(
        Fraction(worst, ONE),
        ProofStep(f"up to {total} counts move by one, in one direction a sketch", SKETCHES),
        ProofStep("a count of one is hidden or not, the others are compared", MERGED),
    )


def _count_runs(total: int) -> Iterator[tuple[int, int]]:
    """Runs (first, last) of j that go from ``total`` down to 1; the largest j have short runs."""
    last = total
    while last >= 1:
        first = max(1, last - max(0, (total - last) // 4 if total > 16 else 0))
        yield first, last
        last = first - 1


def _parts_of_one(bound: Fraction) -> int:
    return divide_up(bound.numerator * ONE, bound.denominator)


def passing_chance(
    noise: Law, shared: Law, theta: int, unshared: tuple[tuple[int, int], ...]
) -> Fraction:
    """P(value + Z >= theta + eta for any of the counters that only one sketch has), rounded up:
    ``unshared`` are pairs of a value and how many counters have it. All counters share one eta."""
    total = 0
    for i, weight in enumerate(shared.weights):
        eta = shared.lowest + i
        none = ONE
        for value, times in unshared:
            hidden = noise.cumulative(theta + eta - value) * (ONE // TABLE)
            none = none * _power_below(hidden, times) >> BITS
        total += weight * (ONE - none)
    return Fraction(total, TABLE * ONE)


def _power_below(base: int, times: int) -> int:
    """base ** times in parts of ONE, rounded down."""
    out = ONE
    while times:
        if times & 1:
            out = out * base >> BITS
        base, times = base * base >> BITS, times >> 1
    return out
