"""Sums of post-processed sketches: docs/guarantees.md, "Streams and sketches", merged sketches."""

from __future__ import annotations

import math
from fractions import Fraction

from dpframe.verifier.composition import (
    Grid,
    Losses,
    convolve_losses,
    delta_at,
    is_below,
    loss_grid,
    losses_on_grid,
    repeat_losses,
    trim_losses,
)
from dpframe.verifier.numbers import BITS, ONE, TABLE, exp_below
from dpframe.verifier.proof import Law, Proof
from dpframe.verifier.verdict import (
    DeltaBound,
    NotVerifiedError,
    ProofStep,
    check_claim,
    refine_bound,
)

SKETCHES = "docs/guarantees.md, Streams and sketches, merged sketches"
SUMS = "docs/verifying.md, sums"

POINTS = (1_000, 4_000, 16_000)
"""About how many points a grid has; the next number is tried only if the bound is not small enough
yet."""

MOST_MOVES = 3_000_000
"""The most sketches times counters times entries of the table: every smaller move is compared with
the largest one."""

SUMS_CROSSING_PART = 10**5
"""Curves may cross by delta divided by this, and by the number of sketches; ends of convolutions
are raised up to a hundredth of that."""


def bound_sums_game(proof: Proof, epsilon: Fraction, enough: Fraction) -> DeltaBound:
    """Bound delta of sums of sketches with k = ``counters``. In units of 1 / (k + 1) of a count, a
    record moves one value of a sketch by up to k, and up to k - 1 others by up to 1. One key of
    value k, or k keys of value 1, may be stored on one side alone."""
    noise, counters = proof.law("noise"), proof.whole_number("counters", 1)
    number, theta = proof.whole_number("sketches", 1), proof.whole_number("theta")
    check_claim(noise.symmetric, "the noise must be symmetric: values move up and down")
    if number * counters * len(noise.weights) > MOST_MOVES:
        raise NotVerifiedError(f"moves of {counters} counters take too long to compare")
    chance = number * (1 - _hidden_chance(noise, theta, counters))
    rest = max(Fraction(0), enough - chance)
    bound = _sums_delta(noise, counters, number, epsilon, rest)
    return DeltaBound(
        bound + chance,
        ProofStep(
            f"a value of each of {number} sketches moves by {counters}, others by 1", SKETCHES
        ),
        ProofStep(f"moves by less than {counters} tell less, at every epsilon", SUMS),
        ProofStep(f"losses of {number * counters} values, convolved", SKETCHES),
        ProofStep(f"a key that only one sketch has passes {theta} or not, on each", SKETCHES),
    )


def _hidden_chance(noise: Law, theta: int, counters: int) -> Fraction:
    """A lower bound on the chance that value + Z < theta for all of k + 1 keys: one of value k, and
    k of value 1, with k = ``counters``."""
    out = noise.cumulative(theta - counters) * (ONE // TABLE)
    one = noise.cumulative(theta - 1) * (ONE // TABLE)
    for _ in range(counters):
        out = out * one >> BITS
    return Fraction(out, ONE)


def _sums_delta(
    noise: Law, counters: int, number: int, epsilon: Fraction, enough: Fraction
) -> Fraction:
    """An upper bound on delta of all moves, in both directions, which symmetric noise makes equal.
    FailedClaimError if a smaller move tells more."""
    crossing = max(1, math.floor(enough * ONE) // (SUMS_CROSSING_PART * number))
    start, ends, last = exp_below(epsilon), max(1, crossing // 100), list[tuple[Grid, Losses]]()

    def bound_on(points: int) -> Fraction:
        grid = loss_grid([(noise, number * counters)], float(epsilon), points)
        one = far = _moved_losses(noise, counters, grid, ends)
        last[:] = [(grid, far)]
        if counters > 1:
            near = repeat_losses(_moved_losses(noise, 1, grid, ends), counters - 1, ends)
            one = convolve_losses(far, near, ends)
        delta = delta_at(repeat_losses(one, number, ends), grid, start)
        return Fraction(delta + number * crossing, ONE)

    bound = refine_bound(bound_on, POINTS, POINTS[0], enough)
    ((grid, far),) = last
    for less in range(1, counters):
        check_claim(
            is_below(_moved_losses(noise, less, grid, ends), far, grid, crossing),
            f"a value that moves by {less} tells more than one that moves by {counters}",
        )
    return min(Fraction(1), bound)


def _moved_losses(noise: Law, by: int, grid: Grid, ends: int) -> Losses:
    weights = [weight * (ONE // TABLE) for weight in noise.weights]
    nothing = [0] * by
    return trim_losses(losses_on_grid([*weights, *nothing], [*nothing, *weights], grid), ends)
