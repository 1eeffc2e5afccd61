"""Check that one count tells tables apart no better than another one, at every epsilon.

A curve of losses on a grid, as a function of u = e^epsilon, is linear between two points of the
grid, and beyond its ends. If the curve of one count is nowhere above the curve of another by more
than c, then delta of n counts like the first, even if each is chosen after looking at the ones
before, exceeds delta of n counts like the other by at most n c: the rest of a composition is convex
in the likelihood ratio of a count, with slopes from 0 to 1.
"""

from __future__ import annotations

from dpframe.verifier.composition import Grid, Losses
from dpframe.verifier.numbers import BITS, divide_up


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
