"""Gaussian noise in whole numbers: its law, and selections along paths with it.

docs/guarantees.md, "Why it holds: users".
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import accumulate, pairwise

from dpframe.verifier.numbers import BITS, ONE, TABLE, divide_up, exp_above, exp_below
from dpframe.verifier.proof import Law, Proof
from dpframe.verifier.verdict import DeltaBound, NotVerifiedError, ProofStep, check_claim

PI = Fraction(31415926535897932384626433832795028841971, 10**40)
"""A lower bound on pi, off by at most 1e-40."""

FINE = 512
"""Bits behind the point of numbers in `_distribution_series`."""

ROOT = (
    math.isqrt(math.floor(2 * PI * 4**FINE)),
    math.isqrt(math.floor(2 * (PI + Fraction(1, 10**40)) * 4**FINE)) + 1,
)
"""A lower and an upper bound on the square root of 2 pi, in parts of 2**FINE."""

COARSE = 1 << 128
"""Parts of 1 in an argument of the distribution function: the function grows, so that rounding the
argument down and up gives a lower and an upper bound."""

TAYLOR = 192
"""Bits behind the point of numbers in Taylor's series around a point."""

FAR = 12
"""From this x on, in standard deviations, a tail is below e^(-x^2 / 2), which is below 2^-96."""


def upper_root(x: Fraction) -> Fraction:
    """An upper bound on the square root, to 128 bits."""
    return Fraction(math.isqrt(math.ceil(x * COARSE * COARSE)) + 1, COARSE)


def normal_distribution(x: Fraction) -> tuple[int, int]:
    """A lower and an upper bound on P(standard Gaussian noise < x), in parts of ONE."""
    if x < 0:
        low, high = normal_distribution(-x)
        return ONE - high, ONE - low
    if x >= FAR:
        return ONE - exp_above(-x * x / 2), ONE
    return _distribution_series(math.floor(x * COARSE))[0], _distribution_series(
        math.ceil(x * COARSE)
    )[1]


def distribution_on_grid(sigma: Fraction, number: int) -> list[tuple[int, int]]:
    """Bounds as from `normal_distribution` at (k - 1/2) / sigma, k = 0, 1, ...: by Taylor's series
    around points that are an eighth apart, where the distribution function and its density are
    known.

    A derivative of order n is +- He_n times the density; this product is nowhere above
    0.44 root(n!) (Cramer). So what is left out of the series is below 2^-140, and its roundings are
    below 2^-120. The rounding of the density, at most twice 2^-96, adds less than 1/5 of 2^-96.
    """
    reach = math.floor(sigma / 16)
    if reach < 8:
        return [normal_distribution((k - Fraction(1, 2)) / sigma) for k in range(number)]
    out: list[tuple[int, int]] = []
    for middle in range(reach, number + reach, 2 * reach + 1):
        at = (middle - Fraction(1, 2)) / sigma
        points = range(middle - reach, min(middle + reach + 1, number))
        if at + Fraction(1, 16) >= FAR:
            out += [normal_distribution((k - Fraction(1, 2)) / sigma) for k in points]
            continue
        low, high = normal_distribution(at)
        terms = _taylor_terms(at)
        for k in points:
            move = ((k - middle) * sigma.denominator << TAYLOR) // sigma.numerator
            more = 0
            for term in terms:
                more = (more + term) * move >> TAYLOR
            more >>= TAYLOR - BITS
            out.append((max(0, low + more - 2), min(ONE, high + more + 3)))
    return out


def _taylor_terms(at: Fraction) -> list[int]:
    """Derivatives of the distribution function over factorials, the highest order first; the first
    derivative is the density."""
    x = math.floor(at * (1 << TAYLOR))
    density = (exp_below(-at * at / 2) << FINE + TAYLOR - BITS) // ROOT[1]
    before, now, out, factorial = 0, 1 << TAYLOR, list[int](), 1
    for n in range(24):
        factorial *= n + 1
        out.append((-1) ** n * (now * density >> TAYLOR) // factorial)
        before, now = now, (x * now >> TAYLOR) - n * before
    return out[::-1]


def normal_tail(x: Fraction) -> Fraction:
    """An upper bound on P(standard Gaussian noise >= x)."""
    if x >= FAR:
        return Fraction(exp_above(-x * x / 2), ONE)
    return Fraction(ONE - normal_distribution(x)[0], ONE)


def _distribution_series(parts: int) -> tuple[int, int]:
    """Bounds on 1/2 + (x - x^3/6 + x^5/40 - ...) / root(2 pi), in parts of ONE, for x = ``parts`` /
    COARSE >= 0: terms are x^(2n+1) (-1)^n over 2^n n! (2n + 1). A term is off by less than 2^-400,
    by all that was rounded before it; what is left out is less than the first term left out."""
    x = parts << FINE - 128
    square = x * x >> FINE
    power, total, n = x, 0, 0
    while power > 1 << FINE - 300 or n * COARSE * COARSE < parts * parts:
        total += (-power if n & 1 else power) // (2 * n + 1)
        n += 1
        power = (power * square >> FINE) // (2 * n)
    off = 1 << FINE - 200
    low = max(0, total - off) * ONE // ROOT[1]
    high = divide_up((total + off) * ONE, ROOT[0])
    return ONE // 2 + low, min(ONE, ONE // 2 + high)


def normal_bound(mu: Fraction, epsilon: Fraction) -> Fraction:
    """An upper bound on the divergence, at an epsilon, of Gaussian noise from itself moved by mu
    deviations: P(Z < mu/2 - epsilon/mu) - e^epsilon P(Z < -mu/2 - epsilon/mu). It grows with mu."""
    mine, other = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    low = normal_distribution(other)[0] * exp_below(epsilon) // ONE
    return Fraction(max(0, normal_distribution(mine)[1] - low), ONE)


# -------------------------------------------------------------------------------------------------
# The game of Gaussian noise in tests and releases: for users, and for groups of records.


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
