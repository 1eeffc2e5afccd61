"""A privacy filter for Gaussian releases that are chosen, budgets included, after looking.

Gaussian answers that follow each other, each chosen after all earlier ones, are no worse than one
count that moves by mu in units of its noise, if on *every* history the squares of their moves add
up to at most mu^2 (Smith, Thakurta, "Fully Adaptive Composition for Gaussian Differential Privacy",
2022; Koskela, Tobaben, Honkela, "Individual Privacy Accounting with Gaussian Differential Privacy",
2023). One release, or a series of releases, consists of such answers
(:mod:`dpframe.accounting.normal_noise`). Beside the squares, the ends and the rounding of tables
add up, and so do the factors by which cutting makes a chance larger, and the errors of losses in
floats.

Therefore four amounts are fixed *beforehand*, and a release is paid for only if it exceeds none of
them; no amount makes up for another. A filter that asked only whether the delta of all releases
together still fits would be wrong: an analyst could take squares where answers have told much, and
ends where they have told little, and both are spent (tests/privacy/test_filter.py).
"""

from __future__ import annotations

import math
from fractions import Fraction

from dpframe.accounting.normal_noise import GaussianLeakage, largest_mu

CURVE_PART = 0.75
"""Part of delta that decides how much Gaussian releases may tell. The rest is for the ends and the
rounding of their tables, which cost a release about half of its delta."""

FACTOR, SHIFT = 1e-2, 1e-4
"""How much cutting may raise the logarithm of a chance, and how far a loss may be off, in all
releases together. A release of a hierarchy of eight levels uses 2e-5 and 2e-7."""

SQUARE_UNIT = Fraction(1, 10**15)
DELTA_UNIT = Fraction(1, 10**21)
PART_UNIT = Fraction(1, 10**12)
"""Units of mu^2, of delta, and of the larger of the used parts of ``FACTOR`` and of ``SHIFT``."""

SMALLEST, LARGEST = 0.01, 100.0
"""Smallest and largest epsilon of a filter."""

Amounts = tuple[int, int, int]
"""mu^2, delta of ends and rounding, and the part of factors and shifts, in whole units."""


def amounts_of(epsilon: float, delta: float) -> Amounts:
    """Return the amounts that (epsilon, delta) holds, rounded down; all zero where it holds
    nothing.

    ``epsilon`` from ``SMALLEST`` to ``LARGEST``, 0 < ``delta`` < 1.
    """
    curve = CURVE_PART * delta * (1 - 1e-6) * math.exp(-FACTOR)
    ends = (1 - CURVE_PART) * delta * (1 - 1e-6) - 1e-15
    if ends <= 0 or curve <= 1e-15:
        return 0, 0, 0
    mu = largest_mu(epsilon - SHIFT, curve) * (1 - 1e-9)
    return (
        math.floor(Fraction(mu) ** 2 / SQUARE_UNIT),
        math.floor(Fraction(ends) / DELTA_UNIT),
        math.floor(1 / PART_UNIT),
    )


def amounts_used(told: GaussianLeakage, epsilon: float) -> Amounts:
    """Return the amounts that one release takes from a filter with this epsilon, rounded up."""
    delta = told.ends + told.rounding * (1 + math.exp(epsilon))
    part = max(told.factor / FACTOR, told.shift / SHIFT)
    return (
        math.ceil(Fraction(told.squares * (1 + 1e-9)) / SQUARE_UNIT),
        math.ceil(Fraction(delta * (1 + 1e-9)) / DELTA_UNIT),
        math.ceil(Fraction(part * (1 + 1e-9)) / PART_UNIT),
    )


def best_smaller_epsilon(told: GaussianLeakage, epsilon: float, delta: float) -> tuple[float, int]:
    """Return the epsilon below ``epsilon`` whose filter holds most releases like ``told``, and how
    many; ``epsilon`` and 0 if no filter has a smaller epsilon."""
    tried = [float(f"{epsilon * part:.2g}") for part in (0.95**i for i in range(1, 80))]
    found = [
        (releases_that_fit(amounts_of(e, delta), amounts_used(told, e)), -e)
        for e in tried
        if SMALLEST <= e < epsilon
    ]
    most, least = max(found, default=(0, -epsilon))
    return -least, most


def amounts_left(left: Amounts, used: Amounts) -> Amounts | None:
    """Return the amounts left after a release; None if any amount does not suffice."""
    after = (left[0] - used[0], left[1] - used[1], left[2] - used[2])
    return after if min(after) >= 0 else None


def releases_that_fit(left: Amounts, used: Amounts) -> int:
    """Return how many releases fit into ``left`` if each takes ``used``."""
    return min(have // take for have, take in zip(left, used, strict=True) if take)
