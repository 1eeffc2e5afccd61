"""The sum of the privacy losses of independent counts that each move by one.

docs/guarantees.md, "Counts of every node". An outcome of probability p under the first law and q
under the second has loss ln(p / q). Losses are put on multiples of ln(rho) for a fixed fraction
rho: an outcome between two multiples is divided into two outcomes, one at each, whose p and q add
up to those of the outcome. Whoever is told which of the two it was can only tell the tables apart
better. Then losses of independent counts are convolved, in whole numbers, and the divergence is a
sum over the grid. Any rho above 1 is sound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import pairwise

from dpframe.verifier.numbers import BITS, ONE, TABLE, divide_up, exp_below
from dpframe.verifier.proof import Law
from dpframe.verifier.verdict import NotVerifiedError, check_time, refine_bound

POINTS = (1_000, 4_000, 16_000, 64_000)
"""About how many points a grid has; the next number is tried only if the bound is not small enough
yet."""

TRIMMED = 10**8
"""Ends of a convolution are raised if they weigh at most the delta that would be enough, divided by
this."""

BYTES = (2 * BITS + 40) // 8
"""Bytes of one number in a product of two polynomials, with room for a sum of 2**40 products."""


@dataclass(frozen=True)
class Grid:
    """A grid of losses: the multiples of the logarithm of ``rho``, which is in parts of ONE."""

    rho: int

    @property
    def step(self) -> float:
        """The logarithm of ``rho``."""
        return math.log1p((self.rho - ONE) / ONE)

    def power(self, n: int) -> tuple[int, int]:
        """A lower and an upper bound on rho**n, in parts of ONE."""
        low = high = ONE
        square_low = square_high = self.rho
        left = abs(n)
        while left:
            if left & 1:
                low, high = low * square_low >> BITS, divide_up(high * square_high, ONE)
            square_low, square_high = (
                square_low * square_low >> BITS,
                divide_up(square_high * square_high, ONE),
            )
            left >>= 1
        return (low, high) if n >= 0 else (ONE * ONE // high, divide_up(ONE * ONE, low))


MOST_LOSSES = 2_000_000
"""The most losses of a convolution; each takes some dozen bytes."""


@dataclass(frozen=True)
class Losses:
    """Masses under the first law, in parts of ONE: at losses ``lowest``, ``lowest + 1``, ... of a
    grid, and at infinite losses."""

    lowest: int
    masses: list[int]
    infinite: int


def composed_bound(
    laws: Sequence[tuple[Law, int]], epsilon: Fraction, enough: Fraction = Fraction(0)
) -> Fraction:
    """Upper bound on delta, in both directions, of counts with these laws; each law comes with the
    number of counts that have it."""
    return divergence_bound(laws, exp_below(epsilon), enough)


def divergence_bound(
    laws: Sequence[tuple[Law, int]], start: int, enough: Fraction = Fraction(0)
) -> Fraction:
    """Upper bound as from `composed_bound`, with ``start``, in parts of ONE, in the place of
    e^epsilon."""
    epsilon, ends = math.log(max(start, 1) / ONE), int(enough * ONE) // TRIMMED

    def bound_on(points: int, more_first: bool) -> Fraction:
        grid, whole = loss_grid(laws, abs(epsilon) or 1.0, points), Losses(0, [ONE], 0)
        for law, times in laws:
            one = _count_losses(law, grid, more_first=more_first)
            whole = convolve_losses(whole, repeat_losses(one, times, ends), ends)
        return Fraction(delta_at(whole, grid, start), ONE)

    ways = (False,) if all(law.symmetric for law, _ in laws) else (False, True)
    bounds = (
        refine_bound(partial(bound_on, more_first=way), POINTS, POINTS[0], enough) for way in ways
    )
    return min(Fraction(1), max(bounds))


def loss_grid(laws: Sequence[tuple[Law, int]], epsilon: float, points: int) -> Grid:
    """A grid that is fine enough for the losses that matter, and that has the likeliest loss on
    it."""
    total, usual = 0.0, 0.0
    for law, times in laws:
        ratios = [abs(math.log(a / b)) for a, b in pairwise(law.weights) if a and b]
        total += times * max(ratios, default=1.0)
        mode = max(range(len(law.weights)), key=law.weights.__getitem__)
        usual = max(usual, ratios[min(mode, len(ratios) - 1)] if ratios else 0.0)
    span = min(total, 4 * epsilon) or 1.0
    step = 2 * span / points
    if usual > step:
        step = usual / math.ceil(usual / step)
    return Grid(exp_below(Fraction(step)))


def _count_losses(law: Law, grid: Grid, *, more_first: bool) -> Losses:
    """The losses of one count that moves by one."""
    parts = [weight * (ONE // TABLE) for weight in law.weights]
    still, moved = [*parts, 0], [0, *parts]
    return losses_on_grid(moved, still, grid) if more_first else losses_on_grid(still, moved, grid)


def losses_on_grid(
    first: Sequence[int], second: Sequence[int], grid: Grid, infinite: int = 0
) -> Losses:
    """The losses of one law against another, both in parts of ONE, on the grid: "connect the dots".
    The first may be an upper bound on a law, the second a lower bound; ``infinite`` is the mass of
    the first elsewhere."""
    step = grid.step
    at = dict[int, int]()
    powers: dict[int, int] = {}
    for p, q in zip(first, second, strict=True):
        if p == 0:
            continue
        if q == 0:
            infinite += p
            continue
        i = math.floor((math.log(p) - math.log(q)) / step)
        while True:
            if i not in powers:
                powers[i] = grid.power(i)[0]
            # p = a + b and q = a rho**-i + b rho**-(i + 1), solved for b, rounded up
            over = (p * ONE - q * powers[i]) * grid.rho
            b = max(0, divide_up(over, (grid.rho - ONE) * ONE))
            if b <= p:
                break
            i += 1  # the loss is above this cell: the float that chose it was too low
        at[i] = at.get(i, 0) + p - b
        at[i + 1] = at.get(i + 1, 0) + b
    lowest = min(at, default=0)
    if max(at, default=0) - lowest >= MOST_LOSSES:
        raise NotVerifiedError(f"more than {MOST_LOSSES} different losses take too much memory")
    masses = [at.get(i, 0) for i in range(lowest, max(at, default=0) + 1)]
    return Losses(lowest, masses, infinite)


def repeat_losses(losses: Losses, times: int, ends: int) -> Losses:
    """The losses of ``times`` independent counts together."""
    whole, square = Losses(0, [ONE], 0), losses
    while times:
        if times & 1:
            whole = convolve_losses(whole, square, ends)
        times >>= 1
        if times:
            square = convolve_losses(square, square, ends)
    return whole


def convolve_losses(one: Losses, other: Losses, ends: int) -> Losses:
    """The losses of two independent counts together: masses convolve, rounded up; a loss that is
    infinite in either is infinite."""
    if one.masses == [ONE] and one.infinite == 0:
        return Losses(one.lowest + other.lowest, other.masses, other.infinite)
    check_time()
    length = len(one.masses) + len(other.masses) - 1
    if length > MOST_LOSSES:
        raise NotVerifiedError(f"more than {MOST_LOSSES} different losses take too much memory")
    product = _pack_masses(one.masses) * _pack_masses(other.masses)
    raw = product.to_bytes((length + 1) * BYTES, "little")
    masses = [
        divide_up(int.from_bytes(raw[n : n + BYTES], "little"), ONE)
        for n in range(0, length * BYTES, BYTES)
    ]
    infinite = one.infinite + other.infinite
    return trim_losses(Losses(one.lowest + other.lowest, masses, infinite), ends)


def trim_losses(losses: Losses, ends: int) -> Losses:
    """Make the largest losses infinite, and raise the smallest losses to one loss. The mass that
    changes is at most ``ends`` on either side. Larger losses only make a bound larger."""
    masses, lowest, infinite = losses.masses, losses.lowest, losses.infinite
    top, mass = len(masses), 0
    while top > 1 and mass + masses[top - 1] <= ends:
        top -= 1
        mass += masses[top]
    infinite, bottom, mass = infinite + mass, 0, 0
    while bottom < top - 1 and mass + masses[bottom] <= ends:
        mass += masses[bottom]
        bottom += 1
    kept = masses[bottom:top]
    kept[0] += mass
    return Losses(lowest + bottom, kept, infinite)


def _pack_masses(masses: list[int]) -> int:
    """Masses side by side in one large number, so that one product convolves them."""
    return int.from_bytes(b"".join(mass.to_bytes(BYTES, "little") for mass in masses), "little")


def delta_at(losses: Losses, grid: Grid, start: int) -> int:
    """The sum of mass (1 - u / rho**i) where that is positive, rounded up; u is ``start``."""
    total, high = losses.infinite, None
    first = max(losses.lowest, math.floor(math.log(start / ONE) / grid.step) - 1)
    while first > losses.lowest and grid.power(first)[1] > start:
        first -= 1  # a float chose the first: no positive term may be left out
    for i in range(first, losses.lowest + len(losses.masses)):
        high = grid.power(i)[1] if high is None else divide_up(high * grid.rho, ONE)
        if high > start:
            total += divide_up(losses.masses[i - losses.lowest] * (high - start), high)
    return min(ONE, total)


# -- Check that one count tells tables apart no better than another one, at every epsilon ---------
#
# A curve of losses on a grid, as a function of u = e^epsilon, is linear between two points of the
# grid, and beyond its ends. If the curve of one count is nowhere above the curve of another by
# more than c, then delta of n counts like the first, even if each is chosen after looking at the
# ones before, exceeds delta of n counts like the other by at most n c: the rest of a composition
# is convex in the likelihood ratio of a count, with slopes from 0 to 1.


def is_below(one: Losses, other: Losses, grid: Grid, crossing: int) -> bool:
    """Whether the curve of ``one`` is nowhere above the curve of ``other`` by more than
    ``crossing``."""
    lowest = min(one.lowest, other.lowest) - 1
    highest = max(each.lowest + len(each.masses) for each in (one, other))
    above = _curve_bounds(other, grid, lowest, highest, more=False)
    below = _curve_bounds(one, grid, lowest, highest, more=True)
    return all(high <= low + crossing for high, low in zip(below, above, strict=True))


def _curve_bounds(
    losses: Losses, grid: Grid, lowest: int, highest: int, *, more: bool
) -> list[int]:
    """Bounds on delta at all powers of rho from the highest to the lowest, and at 0: from above if
    ``more``, else from below."""
    out, mass, moved = [losses.infinite], 0, 0
    for i in range(highest, lowest, -1):
        at = i - losses.lowest
        here = losses.masses[at] if 0 <= at < len(losses.masses) else 0
        mass, moved = mass + here, moved + here
        moved = (moved << BITS) // grid.rho if more else divide_up(moved << BITS, grid.rho)
        out.append(losses.infinite + mass - moved)
    return [*out, losses.infinite + mass]
