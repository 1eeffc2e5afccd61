"""Gaussian noise in whole numbers: its distribution function, and the divergence of a move by
mu."""

from __future__ import annotations

import math
from fractions import Fraction

from dpframe.verifier.numbers import BITS, ONE, divide_up, exp_above, exp_below

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
