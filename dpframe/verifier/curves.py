"""The cost of releases of one law, reserved together: docs/guarantees.md, "Several releases".

A law is a list of points (epsilon, delta) that every release of it keeps, in both directions. The
divergence D at t = e^epsilon is convex, D(0) = 1 and D(1 / t) = 1 - 1 / t + D'(t) / t, with D' the
divergence in the other direction. So the lower convex hull of all these points is above D. The hull
is itself the curve of two laws whose losses are at its corners (docs/decisions/0011): these two
dominate every release of the law, and their losses convolve.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise

from dpframe.verifier.composition import Grid, delta_at, losses_on_grid, repeat_losses
from dpframe.verifier.numbers import ONE, divide_up, exp_above, exp_below

Points = Sequence[tuple[Fraction, Fraction]]

BoundAt = Callable[[Fraction, Fraction], Fraction | None]
"""Takes an epsilon and a delta that would be enough, and gives an upper bound on delta, which need
not be below what would be enough; None where there is no bound."""

TRIMMED = 10**8
"""Ends of a convolution are raised if they weigh at most delta, divided by this and by the number
of releases."""


def is_law(law: Points) -> bool:
    """Whether a curve can go through the points: epsilons grow, and are from 0 to
    ``MOST_LAW_EPSILON``; deltas are from 0 to 1. The last point is the promise, whose epsilon may
    be anywhere in the range."""
    epsilons = [epsilon for epsilon, _ in law[:-1]]
    grow = all(less < more for less, more in pairwise(epsilons))
    within = all(0 <= epsilon <= MOST_LAW_EPSILON and 0 <= delta <= 1 for epsilon, delta in law)
    return grow and within


MOST_LAW_EPSILON = 1000
"""The largest epsilon of a law."""


def law_breach(law: Points, bound_at: BoundAt) -> str | None:
    """Why a release does not keep a law; None if it keeps every point."""
    for epsilon, delta in law:
        bound = bound_at(epsilon, delta)
        if bound is None or bound > delta:
            found = "nothing" if bound is None else f"{float(bound):.6g}"
            return f"{float(delta):.6g} is reserved at epsilon {float(epsilon):g}, proved {found}"
    return None


def reservation_bound(law: Points, times: int, epsilon: Fraction, delta: Fraction) -> Fraction:
    """Upper bound on delta, at an epsilon, of ``times`` releases that keep a law."""
    points = _law_hull(law)
    slopes = [(there[1] - here[1]) / (there[0] - here[0]) for here, there in pairwise(points)]
    second = [more - less for less, more in zip(slopes, [*slopes[1:], Fraction(0)], strict=True)]
    first = [q * t for q, (t, _) in zip(second, points[1:], strict=True)]
    step = max(float(law[-1][0]) / max(1, len(law) - 1), 1e-9)
    grid = Grid(exp_below(Fraction(step)))
    one = losses_on_grid(
        [divide_up(p.numerator * ONE, p.denominator) for p in first],
        [math.floor(q * ONE) for q in second],
        grid,
        divide_up(points[-1][1].numerator * ONE, points[-1][1].denominator),
    )
    ends = max(1, math.floor(delta * ONE) // (TRIMMED * times))
    whole = repeat_losses(one, times, ends)
    return Fraction(delta_at(whole, grid, exp_below(epsilon)), ONE)


def _law_hull(law: Points) -> list[tuple[Fraction, Fraction]]:
    """The lower convex hull of D(0) = 1, of the points, and of what they give below t = 1. Each t
    is rounded up, where D is no larger."""
    right = sorted((Fraction(exp_above(epsilon), ONE), delta) for epsilon, delta in law)
    left = [(1 / t, 1 - 1 / t + delta / t) for t, delta in reversed(right) if t > 1]
    found: list[tuple[Fraction, Fraction]] = []
    for point in [(Fraction(0), Fraction(1)), *left, *right]:
        while len(found) >= 2 and _is_above_chord(found[-2], found[-1], point):
            found.pop()
        found.append(point)
    return found


Point = tuple[Fraction, Fraction]


def _is_above_chord(a: Point, b: Point, c: Point) -> bool:
    """Whether b lies on or above the chord from a to c."""
    return (b[1] - a[1]) * (c[0] - a[0]) >= (c[1] - a[1]) * (b[0] - a[0])
