"""Misra-Gries sketches of one stream: docs/guarantees.md, "Streams and sketches"."""

from __future__ import annotations

from fractions import Fraction

from dpframe.verifier.composition import composed_bound
from dpframe.verifier.laws import Law
from dpframe.verifier.numbers import BITS, ONE, TABLE
from dpframe.verifier.proof import Proof
from dpframe.verifier.verdict import Found, NotVerifiedError, Step

SKETCHES = "docs/guarantees.md, Streams and sketches"
STRUCTURE = "docs/guarantees.md, Streams and sketches, One stream"


def sketches(proof: Proof, epsilon: Fraction, enough: Fraction) -> Found:
    """One sketch a level: a record moves one of the numbers (U, alpha) of each by one, and keys
    that one sketch only has may pass."""
    noise, shared = proof.law("noise"), proof.law("shared")
    number, theta = proof.whole("sketches", 1), proof.whole("theta")
    standard = None if proof.game.get("standard") is None else proof.whole("standard", 1)
    if (noise.lowest, list(noise.weights)) != (shared.lowest, list(shared.weights)):
        raise NotVerifiedError("counters and errors have different noise, which is not known here")
    unshared = ((1, 1), (0, 1)) if standard is None else ((1, standard),)
    chance = passing(noise, shared, theta, unshared)
    rest = max(Fraction(0), enough - number * chance)
    return Found(
        composed_bound([(noise, number)], epsilon, rest) + number * chance,
        Step("one number of each sketch moves by one, a counter or the error", STRUCTURE),
        Step(f"losses of {number} sketches, convolved", SKETCHES),
        Step(f"a key that only one sketch has passes {theta} or not, on each", SKETCHES),
    )


def passing(noise: Law, shared: Law, theta: int, unshared: tuple[tuple[int, int], ...]) -> Fraction:
    """P(value + Z >= theta + eta for one of the counters that only one sketch has), rounded up:
    ``unshared`` are pairs of a value and how many counters have it; eta is one for all."""
    total = 0
    for i, weight in enumerate(shared.weights):
        eta = shared.lowest + i
        none = ONE
        for value, times in unshared:
            hidden = noise.below(theta + eta - value) * (ONE // TABLE)
            none = none * _power(hidden, times) >> BITS
        total += weight * (ONE - none)
    return Fraction(total, TABLE * ONE)


def _power(base: int, times: int) -> int:
    """base ** times in parts of ONE, rounded down."""
    out = ONE
    while times:
        if times & 1:
            out = out * base >> BITS
        base, times = base * base >> BITS, times >> 1
    return out
