"""Whole numbers in parts of 2**-96, and bounds on e^x; names say which way a rounding goes.

No float decides anything here. A probability is a whole number in parts of ``ONE``, and is rounded
up where that makes a bound larger.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TypeGuard

BITS = 96
ONE = 1 << BITS
"""Probability 1."""

TABLE = 1 << 64
"""The sum of the weights of a table of noise."""

NOTHING = 67
"""e^-67 is below one part of ``ONE``."""

EXTRA = 96
"""Bits beyond ``BITS`` while e^x is computed."""


def divide_up(over: int, under: int) -> int:
    """over / under, rounded up to a whole number; ``under`` is positive."""
    return -(-over // under)


def exp_between(x: Fraction) -> tuple[int, int]:
    """Two whole numbers, one at most and one at least ONE times e^x.

    The series of e^(x / 2**k), |x| / 2**k below 1/2, squared k times. For the lower number every
    term and product is rounded down, for the upper one up; the rest of the series is below its last
    term.
    """
    if x <= -NOTHING:
        return 0, 1
    if x < 0:
        low, high = exp_between(-x)
        return ONE * ONE // high, divide_up(ONE * ONE, low)
    halvings = max(0, int(2 * x).bit_length())
    bits = BITS + EXTRA + 2 * halvings
    one = 1 << bits
    small = x / 2**halvings
    low = high = term_low = term_high = one
    n = 0
    while term_high > 1:
        n += 1
        term_low = term_low * small.numerator // (small.denominator * n)
        term_high = divide_up(term_high * small.numerator, small.denominator * n)
        low, high = low + term_low, high + term_high
    high += 1
    for _ in range(halvings):
        low, high = low * low >> bits, divide_up(high * high, one)
    return low >> (bits - BITS), divide_up(high, 1 << (bits - BITS))


def exp_below(x: Fraction) -> int:
    """A lower bound on e^x, in parts of ONE."""
    return exp_between(x)[0]


def exp_above(x: Fraction) -> int:
    """An upper bound on e^x, in parts of ONE."""
    return exp_between(x)[1]


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value in a receipt is a finite number that can be computed with."""
    return type(value) in (int, float) and -1e100 < value < 1e100  # type: ignore[operator]


def bound_text(bound: Fraction) -> str:
    """The text of a bound: four digits, rounded up."""
    if bound <= 0:
        return "0"
    exponent = 0
    while bound >= 10:
        bound, exponent = bound / 10, exponent + 1
    while bound < 1:
        bound, exponent = bound * 10, exponent - 1
    digits = divide_up(bound.numerator * 1000, bound.denominator)
    if digits >= 10_000:
        digits, exponent = divide_up(digits, 10), exponent + 1
    return str(float(f"{digits}e{exponent - 3}"))
