"""Slow, obvious twins of the accountants: the definitions, without hulls, grids or chords."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from dpframe.noise import TOTAL, NoiseTable


def tail(law: NoiseTable, x: int) -> tuple[float, float]:
    """(P(W >= x), P(W < x)), each summed on its own side in exact integers."""
    first = min(max(x - law.lowest, 0), len(law.weights))
    above = sum(int(w) for w in law.weights[first:])
    return above / TOTAL, (TOTAL - above) / TOTAL


def release_divergence(release: NoiseTable, t: float, *, more_first: bool) -> float:
    """D(V || V + 1), or D(V + 1 || V), at t = e^epsilon: the sum of the definition."""
    p = [0.0, *release.pmf.tolist(), 0.0]
    moved_and_not = itertools.pairwise(p)  # P(V + 1 = v), P(V = v)
    pairs = moved_and_not if more_first else ((b, a) for a, b in moved_and_not)
    return math.fsum(max(a - t * b, 0.0) for a, b in pairs)


def path_divergence(
    test: NoiseTable,
    release: NoiseTable,
    *,
    height: int,
    epsilon: float,
    remainder: bool,
    more_first: bool,
    growing: bool = False,
) -> float:
    """T_h(epsilon) top-down over every residual, for thresholds that hide single records.

    With ``growing`` the residuals must not decrease towards the root, as on a real chain of
    nodes; the supremum over data sets is then attained, not only bounded.
    """
    threshold = test.highest + 2

    def cost(levels: int, t: float, least: int) -> float:
        if levels == 0:
            if remainder:
                return release_divergence(release, t, more_first=more_first)
            return max(1.0 - t, 0.0)
        best = 0.0 if growing else cost(levels - 1, t, least)
        for residual in range(least, threshold - test.lowest + 2):
            (q, bot), (q1, bot1) = (
                tail(test, threshold - residual),
                tail(test, threshold - residual - 1),
            )
            if more_first:
                (q, q1), (bot, bot1) = (q1, q), (bot1, bot)
            top = q * release_divergence(release, t * q1 / q, more_first=more_first) if q else 0.0
            rest = (
                bot * cost(levels - 1, t * bot1 / bot, residual if growing else 1) if bot else 0.0
            )
            best = max(best, top + rest)
        return best

    return cost(height, math.exp(epsilon), 0 if growing else 1)


def composed_divergence(noise: NoiseTable, *, levels: int, epsilon: float) -> float:
    """D of ``levels`` independent counts that all move by one: the sum over all outcomes."""
    p, q = np.array([1.0]), np.array([1.0])
    here = np.concatenate([noise.pmf, [0.0]])
    moved = np.concatenate([[0.0], noise.pmf])
    for _ in range(levels):
        p, q = np.multiply.outer(p, here).ravel(), np.multiply.outer(q, moved).ravel()
    return math.fsum(np.maximum(p - math.exp(epsilon) * q, 0.0).tolist())


def moved_divergence(moves: Sequence[tuple[NoiseTable, int]], epsilon: float) -> float:
    """The larger D of both directions of counts that move by so many units, signs included."""
    p = q = np.array([1.0])
    for noise, units in moves:
        gap = np.zeros(abs(units))
        here, there = np.concatenate([noise.pmf, gap]), np.concatenate([gap, noise.pmf])
        if units < 0:
            here, there = there, here
        p, q = np.multiply.outer(p, here).ravel(), np.multiply.outer(q, there).ravel()
    t = math.exp(epsilon)
    return max(float(np.maximum(p - t * q, 0).sum()), float(np.maximum(q - t * p, 0).sum()))


def divergence_by_sums(noise: NoiseTable, levels: int, epsilon: float) -> float:
    """D of Gaussian tables of one width, whose loss depends on the sum of all draws: the law of
    that sum, and what one side alone can draw. Of others a lower bound."""
    here, moved = noise.pmf[1:], noise.pmf[:-1]
    p = q = np.array([1.0])
    for _ in range(levels):
        p, q = np.convolve(p, here), np.convolve(q, moved)
    alone = -math.expm1(levels * math.log1p(-float(noise.pmf[0])))
    return alone + float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def chains(height: int, tallest: int) -> Iterator[tuple[int, ...]]:
    """Residuals along a chain, deepest first: all sequences that do not decrease."""
    if height == 0:
        yield ()
        return
    for shorter in chains(height - 1, tallest):
        for residual in range(shorter[-1] if shorter else 0, tallest + 1):
            yield (*shorter, residual)
