"""What a bottom-up selection along one root path costs: the recursion, in upper bounds.

A node is selected iff ``F + W >= threshold``; the first selected node on the path of the
record releases ``F + V`` and ends the path; with ``remainder`` a path without a selected
node ends in the release of the root's residual. ``T_t(eps)`` bounds the hockey-stick
divergence of the outputs on a path of t tested nodes for neighbours that differ in one
record (mechanism notes in docs/mechanism.md, derivation in docs/guarantees.md).

Two facts make it cheap and keep it rigorous.

* The cost of one node is convex in the pair ``(q, q') = (P(top | F), P(top | F + 1))`` (a
  perspective function of a convex curve), so the worst residual F is a vertex of the convex
  hull of all pairs. The hull is taken in exact integers.
* Hockey-stick curves are convex in ``t = e^eps``, so a chord between two grid points is an
  upper bound. At t = 0 the curve is 1 exactly; above the grid the last value bounds it.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpframe.noise import TOTAL, NoiseTable

MOST_CORNERS = 64
"""Corners of the polygon around the pairs (q, q'); more corners only tighten the bound."""

GRID_POINTS = 800
"""About how many points the grid of chords has; more points only tighten the bound."""

FLOAT_SLACK = 2e-15
"""Bound on the rounding error of one level of the recursion (a few ulps of probability 1)."""

Curve = tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class StepPoints:
    """Worst pairs of selection probabilities on neighbours, each with its complement."""

    top: NDArray[np.float64]  # q:  selected, without the record
    top_more: NDArray[np.float64]  # q': selected, with the record
    bot: NDArray[np.float64]  # 1 - q, never computed by subtraction
    bot_more: NDArray[np.float64]  # 1 - q'


def path_delta(
    test: NoiseTable,
    release: NoiseTable,
    *,
    height: int,
    epsilon: float,
    remainder: bool,
    threshold: int | None = None,
) -> float:
    """Return the least delta, rounded up, for which a path of ``height`` tests is private at
    epsilon.

    ``threshold=None`` stands for any threshold above ``test.highest + 1``.
    """
    return max(
        one_direction(
            test,
            release,
            height=height,
            epsilon=epsilon,
            remainder=remainder,
            threshold=threshold,
            more_first=more_first,
        )
        for more_first in (False, True)
    )


def one_direction(
    test: NoiseTable,
    release: NoiseTable,
    *,
    height: int,
    epsilon: float,
    remainder: bool,
    more_first: bool,
    threshold: int | None = None,
) -> float:
    """Return an upper bound on the divergence of D' = D + record from D (``more_first``), or of D
    from D'."""
    points = step_points(test, threshold)
    if more_first:
        p, other = (points.top_more, points.bot_more), (points.top, points.bot)
    else:
        p, other = (points.top, points.bot), (points.top_more, points.bot_more)
    curve = _curve_of(release)
    ln_t, step = _log_ratio_grid(points, height, epsilon, more_first)
    t = np.exp(ln_t)
    values = curve(t) if remainder else np.maximum(1.0 - t, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio_top = np.where(p[0] > 0, other[0] / p[0], 0.0)
        ratio_bot = np.where(p[1] > 0, other[1] / p[1], 0.0)
    tops = p[0][:, None] * curve(t * ratio_top[:, None])
    bots = _Chords(t, step, ratio_bot)
    for _ in range(height):
        paths = bots.at(values)
        paths *= p[1][:, None]
        paths += tops
        values = np.maximum(values, paths.max(axis=0))
    delta = float(values[-1] if not more_first else values[0])
    return min(1.0, delta * (1 + 1e-9) + (height + 1) * FLOAT_SLACK)


class _Chords:
    """Upper bounds on a curve at ``ratio * t`` for every grid point t and some ratios, by chords.

    The grid is uniform in ln t, so a ratio is one shift and one pair of chord weights. Left of
    the grid the chord starts at the exact point (0, 1), which is the bound for a ratio of 0. Right
    of the grid the last value holds.
    """

    def __init__(self, t: NDArray[np.float64], step: float, ratios: NDArray[np.float64]) -> None:
        n, some = len(t), ratios > 0
        shift = np.log(np.where(some, ratios, 1.0)) / step
        whole = np.floor(shift)
        weight = np.expm1((shift - whole) * step) / math.expm1(step)  # weight of the right end
        self._right = np.repeat(weight[:, None], n, axis=1)
        place = np.arange(n) + np.clip(whole, -n - 1, n).astype(np.int64)[:, None]
        beyond = place >= n - 1
        self._right[beyond] = 1.0  # the last value, at both ends
        self._left = 1 - self._right
        self._place = np.clip(place, 0, n - 2)
        self._before = np.nonzero((place < 0) | ~some[:, None])
        corner, point = self._before
        near = np.exp(step * point) * np.where(some, ratios, 0.0)[corner]
        self._near = np.minimum(near, 1.0)  # how far along from 0 to the first point

    def at(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the bounds, shape (ratios, points), of the curve with ``values`` on the grid."""
        found: NDArray[np.float64] = values.take(self._place)
        found *= self._left
        right = values[1:].take(self._place)
        right *= self._right
        found += right
        found[self._before] = 1.0 + (values[0] - 1.0) * self._near
        return found


@lru_cache(maxsize=8)  # the same table at every epsilon of a curve
def step_points(test: NoiseTable, threshold: int | None) -> StepPoints:
    """Return the hull of the pairs (q, q') of all residuals F >= 1 and of a node that appears."""
    up = [0, *np.cumsum(test.weights[::-1], dtype=np.uint64)[:-1].tolist(), TOTAL]
    n = len(test.weights)
    # up[j] = 2**64 P(W >= highest + 1 - j); x = threshold - F runs down from threshold - 1
    first = 0 if threshold is None else max(0, test.highest + 2 - threshold)
    # the two points (0, 0), absent everywhere, and (0, q0), the node that appears
    pairs = [(0, 0)]
    if first > 0:
        pairs.append((0, up[min(first, n)]))
    pairs += [(up[j], up[min(j + 1, n)]) for j in range(first, n + 1)]
    vertices = _outer_polygon(_integer_hull(sorted(set(pairs))))
    q = np.array([float(x) for x, _ in vertices])
    more = np.array([float(y) for _, y in vertices])
    bot = np.array([float(1 - x) for x, _ in vertices])
    bot_more = np.array([float(1 - y) for _, y in vertices])
    return StepPoints(q, more, bot, bot_more)


def _outer_polygon(hull: list[tuple[int, int]]) -> list[tuple[Fraction, Fraction]]:
    """Return a polygon of fewer corners around the hull, hence an upper bound: drop some edges and
    extend the others until they meet.

    The pairs (q, q') of a log-concave law lie on one concave chain; curved laws make every pair
    a corner. Both ends of the chain, where the tails are, keep all their edges.
    """
    corners = [(Fraction(x, TOTAL), Fraction(y, TOTAL)) for x, y in hull]
    skip = len(corners) // MOST_CORNERS
    if skip < 2:
        return corners
    edges = list(zip(corners, corners[1:] + corners[:1], strict=True))
    ends = MOST_CORNERS // 8
    kept = [e for i, e in enumerate(edges) if i < ends or i >= len(edges) - ends or i % skip == 0]
    return [_meet(a, b) for a, b in zip(kept, kept[1:] + kept[:1], strict=True)]


Edge = tuple[tuple[Fraction, Fraction], tuple[Fraction, Fraction]]


def _meet(a: Edge, b: Edge) -> tuple[Fraction, Fraction]:
    """Return where the lines of two edges of a convex polygon cross."""
    if a[1] == b[0]:
        return a[1]
    (ax, ay), (bx, by) = a
    (cx, cy), (dx, dy) = b
    cross = (bx - ax) * (dy - cy) - (by - ay) * (dx - cx)
    along = ((cx - ax) * (dy - cy) - (cy - ay) * (dx - cx)) / cross
    return ax + along * (bx - ax), ay + along * (by - ay)


def _integer_hull(points: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the convex hull: Andrew's monotone chain in exact integers."""
    if len(points) < 3:
        return points

    def chain(order: list[tuple[int, int]]) -> list[tuple[int, int]]:
        out: list[tuple[int, int]] = []
        for x, y in order:
            while len(out) > 1:
                (ax, ay), (bx, by) = out[-2], out[-1]
                if (bx - ax) * (y - ay) - (by - ay) * (x - ax) > 0:
                    break
                out.pop()
            out.append((x, y))
        return out

    return chain(points)[:-1] + chain(points[::-1])[:-1]


def _prefix_sums(weights: list[int], order: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return prefix sums in exact integers, each rounded once."""
    sums = itertools.accumulate((weights[i] for i in order.tolist()), initial=0)
    return np.array([total / TOTAL for total in sums])


class ReleaseCurve:
    """Exact hockey-stick curve of ``V`` against ``V + 1`` as a function of t = e^eps."""

    def __init__(self, release: NoiseTable) -> None:
        if not np.array_equal(release.weights, release.weights[::-1]):
            raise ValueError("release must be symmetric: one curve serves both directions.")
        p = [*release.weights.tolist(), 0]
        shifted = [0, *release.weights.tolist()]
        kinks = np.array([a / b if b else math.inf for a, b in zip(p, shifted, strict=True)])
        order = np.argsort(kinks)[::-1]
        self._kinks = kinks[order][::-1]  # ascending
        self._p, self._shifted = _prefix_sums(p, order), _prefix_sums(shifted, order)

    def __call__(self, t: NDArray[np.float64]) -> NDArray[np.float64]:
        above = len(self._kinks) - np.searchsorted(self._kinks, t, side="right")
        apart: NDArray[np.float64] = np.maximum(self._p[above] - t * self._shifted[above], 0.0)
        return apart


_curve_of = lru_cache(maxsize=8)(ReleaseCurve)


def _log_ratio_grid(
    points: StepPoints, height: int, epsilon: float, more_first: bool
) -> tuple[NDArray[np.float64], float]:
    """Return a uniform grid of ln t, and its step.

    The step divides the usual shift of one unselected node, so kinks stay on the grid.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = np.log(points.bot / points.bot_more)
    mode = int(np.argmax(points.top_more - points.top))  # the likeliest value of the noise
    usual = float(shift[mode]) if np.isfinite(shift[mode]) and shift[mode] > 0 else epsilon
    most = float(np.max(shift[np.isfinite(shift) & (points.bot > 1e-4)], initial=usual))
    reach = min(most * height, 4.0 + 2 * epsilon) + usual
    step = usual / max(1, math.ceil(GRID_POINTS * usual / reach))
    n = math.ceil(reach / step) + 1
    offsets: NDArray[np.float64] = step * np.arange(n, dtype=np.float64)
    return (epsilon + offsets if more_first else epsilon - offsets[::-1]), step
