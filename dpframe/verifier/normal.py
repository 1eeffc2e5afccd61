"""Gaussian noise in whole numbers: its distribution function, and what a move of mu tells."""

from __future__ import annotations

import math
from fractions import Fraction

from dpframe.verifier.numbers import ONE, exp_above, exp_below, rounded_up

PI = Fraction(31415926535897932384626433832795028841971, 10**40)
"""At most pi, which is at most 1e-40 above it."""

FINE = 512
"""Bits of a series."""

ROOT = (
    math.isqrt(math.floor(2 * PI * 4**FINE)),
    math.isqrt(math.floor(2 * (PI + Fraction(1, 10**40)) * 4**FINE)) + 1,
)
"""Around the root of 2 pi, in parts of 2**FINE."""

COARSE = 1 << 128
"""Parts of an argument: the function grows, so that it may be rounded either way."""

FAR = 12
"""From here on a tail is below e^(-x^2 / 2), which is below 2^-96."""


def root_above(x: Fraction) -> Fraction:
    """At least the square root, to 128 bits."""
    return Fraction(math.isqrt(math.ceil(x * COARSE * COARSE)) + 1, COARSE)


def below(x: Fraction) -> tuple[int, int]:
    """Two numbers in parts of ONE with P(standard Gaussian noise < x) between them."""
    if x < 0:
        low, high = below(-x)
        return ONE - high, ONE - low
    if x >= FAR:
        return ONE - exp_above(-x * x / 2), ONE
    return _series(math.floor(x * COARSE))[0], _series(math.ceil(x * COARSE))[1]


def beyond(x: Fraction) -> Fraction:
    """At least P(standard Gaussian noise >= x)."""
    if x >= FAR:
        return Fraction(exp_above(-x * x / 2), ONE)
    return Fraction(ONE - below(x)[0], ONE)


def _series(parts: int) -> tuple[int, int]:
    """1/2 + (x - x^3/6 + x^5/40 - ...) / root(2 pi), in parts of ONE: terms x^(2n+1) (-1)^n over
    2^n n! (2n + 1). A term is off by less than 2^-400, by all that was rounded before it; what is
    left out is less than the first term left out."""
    x = parts << FINE - 128
    square = x * x >> FINE
    power, total, n = x, 0, 0
    while power > 1 << FINE - 300 or n * COARSE * COARSE < parts * parts:
        total += (-power if n & 1 else power) // (2 * n + 1)
        n += 1
        power = (power * square >> FINE) // (2 * n)
    off = 1 << FINE - 200
    low = max(0, total - off) * ONE // ROOT[1]
    high = rounded_up((total + off) * ONE, ROOT[0])
    return ONE // 2 + low, min(ONE, ONE // 2 + high)


def normal_bound(mu: Fraction, epsilon: Fraction) -> Fraction:
    """At least the divergence, at an epsilon, of Gaussian noise from itself moved by mu deviations:
    P(Z < mu/2 - epsilon/mu) - e^epsilon P(Z < -mu/2 - epsilon/mu). It grows with mu."""
    mine, other = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    low = below(other)[0] * exp_below(epsilon) // ONE
    return Fraction(max(0, below(mine)[1] - low), ONE)
