"""What a bottom-up selection along one root path costs: the recursion, bounds for linear laws, and
geometric halves.

**The recursion** gives upper bounds.

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

**Linear laws** have log-likelihood ratios that are linear in the amount that moved.

Geometric halves lose at most ``s / b`` when a count moves by ``s`` records, plus a small mass
``slip`` where the bounded table leaves the geometric law (its cut ends, its rounding). A user
whose records weigh ``s_1, s_2, ...`` with sum at most 1 therefore loses the share-weighted mean
of the losses of their paths, never more than one record's path, and slips at most once a level
and once at the release (docs/guarantees.md gives the proof). One record is the special case
of a single share, so the same bound serves tables too long for the recursion.

**Geometric halves** have a closed form, pure up to the cut ends. Then they are trimmed.

Scales in records, V the release noise and W the test noise::

    b2 = 1 / (release_share * epsilon)          V: discrete Laplace
    bR = 1 / (epsilon - 1/b2)                   W: right half, paid once
    bL = h bR with remainder, else max(h/epsilon, (h - 1) bR)      W: left half, paid h times

Valid for one record and for the shares of one user, as for all linear laws.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpframe.accounting.losses import least_bound
from dpframe.errors import BudgetError
from dpframe.noise import TOTAL, NoiseTable, halves, laplace_table

Shape = Literal["geometric", "gaussian-left", "gaussian", "normal"]

SELECTED_AT_THRESHOLD = 1 / 4
"""Least chance with which a residual equal to the threshold is selected. Where the threshold leaves
room for it, the chance is 1/2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Laws:
    """A test law with its mode at 0, a release law, and the delta that both cost together.

    Values count units of ``1 / grid`` record. ``left``, ``right`` and ``release_scale`` are the
    scales of the halves of the test and of the release, in records. ``delta`` is the
    accountant's upper bound, the larger of the two directions, at the epsilon of the request.
    """

    shape: Shape
    test: NoiseTable
    release: NoiseTable
    grid: int
    left: float
    right: float
    release_scale: float
    delta: float

    def shift_for(self, chance: float) -> int:
        """Return the least shift of the test that makes P(W >= 0) at least ``chance``."""
        at_least = self.test.at_least()
        return -self.test.lowest - int(np.flatnonzero(at_least[:-1] >= chance)[-1])

    def smallest_threshold(self, chance: float) -> int:
        """Return the least threshold, in records, at which a residual equal to the threshold is
        selected with at least ``chance``.

        The threshold is two records above the reach of the noise, so that neither an empty node nor
        a node of one record can be selected.
        """
        reach = self.test.highest + self.shift_for(chance)
        return math.ceil(reach / self.grid) + 2

    def median_test(self, threshold: int | Fraction) -> NoiseTable:
        """Return the test law moved to its median: a residual equal to the threshold is a coin
        flip.

        The chance of selection is as near to 1/2 from above as integers allow. The move stops where
        the noise could reach a node of fewer than two records. Every shift has the same cost, so
        the shift may depend on the threshold freely. The threshold is a whole number of records, or
        with a measure a fraction.
        """
        room = math.floor((threshold - 2) * self.grid) - self.test.highest
        shift = min(self.shift_for(0.5), room)
        return replace(self.test, lowest=self.test.lowest + shift)

    def chance_at(self, threshold: int | Fraction) -> float:
        """Return P(a residual equal to the threshold is selected)."""
        test = self.median_test(threshold)
        return float(test.at_least()[max(0, -test.lowest)])


WIDEN = 1 + 1e-7
"""Scales are this much wider than the closed form: float rounding then never costs privacy."""

LONGEST_TABLE = 5_000
"""Entries beyond which the recursion gives way to the linear bound."""

RELEASE_PART = 1 / 30
"""Part of delta left to the cut ends of the release noise; the test noise has the rest."""

LEFT_PARTS = 64
"""The search for the shortest left half starts from a bound, and ends within one of this many parts
of it. The shortest right half, which thresholds follow, is found to a quarter of a record."""

ROUNDS = 24
"""Each half is trimmed while the other is fixed. Then a half is trimmed anew, or made longer, at
most this many times."""

LARGEST_TABLE = 8_000_000
"""Entries beyond which a table would not fit comfortably in memory."""


@lru_cache(maxsize=256)
def geometric_laws(
    *, height: int, epsilon: float, delta: float, remainder: bool, release_share: float, grid: int
) -> Laws:
    """Return the least geometric noise for the budget.

    The right half of the test noise is trimmed by delta of the neighbour with the record from the
    one without it, the left half by delta of the other direction.
    """
    release_scale = WIDEN / (release_share * epsilon)
    right = WIDEN / (epsilon - 1 / release_scale)
    left = WIDEN * (height * right if remainder else max(height / epsilon, (height - 1) * right))
    pure = linear_epsilon(
        right=right, left=left, release=release_scale, height=height, remainder=remainder
    )
    if pure > epsilon:
        raise path_budget_error(epsilon, delta, height)

    # what one record moves past the bound is (1 - exp(-1/b2))/2 exp((1 - bound)/b2), in records
    spill = -math.expm1(-1 / release_scale) / 2
    release_bound = math.ceil(
        grid * (1 + release_scale * max(1.0, math.log(spill / (RELEASE_PART * delta))))
    )
    tail = math.log(2 * height / delta)
    right_bound, left_bound = (math.ceil(b * grid * tail) + grid for b in (right, left))
    entries = right_bound + left_bound + 2 * release_bound
    if entries > LARGEST_TABLE:
        raise BudgetError(
            f"epsilon ({epsilon:g}{' per record' if grid == 1 else ''}) is too small for height "
            f"{height}{' and parts of records' if grid > 1 else ''}: tables get {entries:.0e} "
            "entries. Raise epsilon or lower the height."
        )
    release = laplace_table(release_scale * grid, release_bound)
    exact = grid == 1 and right_bound + left_bound < LONGEST_TABLE

    def test_law(right_bound: int, left_bound: int) -> NoiseTable:
        return halves(
            left=("geometric", left * grid, left_bound),
            right=("geometric", right * grid, right_bound),
            recentre=False,
        )

    def cost(right_bound: int, left_bound: int, more_first: bool) -> float:
        test = test_law(right_bound, left_bound)
        if exact:
            return one_direction(
                test,
                release,
                height=height,
                epsilon=epsilon,
                remainder=remainder,
                more_first=more_first,
            )
        both = linear_delta(
            test,
            release,
            right=right,
            left=left,
            release_scale=release_scale,
            height=height,
            grid=grid,
        )
        return both[more_first]

    if not exact and max(cost(right_bound, left_bound, m) for m in (False, True)) > delta:
        raise path_budget_error(
            epsilon, delta, height
        )  # the rounding of so long a table is too coarse
    step, wide_step = max(1, grid // 4), max(1, left_bound // LEFT_PARTS)
    widest = right_bound

    def least_right(left_bound: int) -> int:
        return least_bound(lambda b: cost(b, left_bound, True), widest, delta, step)

    right_bound = least_right(left_bound)
    left_bound = least_bound(lambda b: cost(right_bound, b, False), left_bound, delta, wide_step)
    for _ in range(ROUNDS):
        fewer, more = (cost(right_bound, left_bound, more_first) for more_first in (False, True))
        if max(fewer, more) <= delta:
            return Laws(
                shape="geometric",
                test=test_law(right_bound, left_bound),
                release=release,
                grid=grid,
                left=left,
                right=right,
                release_scale=release_scale,
                delta=max(fewer, more),
            )
        if more > delta:
            right_bound = least_right(left_bound)
        else:
            left_bound += wide_step
    raise path_budget_error(epsilon, delta, height)


def linear_epsilon(
    *, right: float, left: float, release: float, height: int, remainder: bool
) -> float:
    """Return the pure part of one record's loss; scales in records, as in docs/mechanism.md."""
    selected_first = 1 / right + 1 / release
    selected_last = (height - 1) / left + 1 / release
    never = height / left + (1 / release if remainder else 0.0)
    return max(selected_first, selected_last, never)


def linear_delta(
    test: NoiseTable,
    release: NoiseTable,
    *,
    right: float,
    left: float,
    release_scale: float,
    height: int,
    grid: int,
) -> tuple[float, float]:
    """Return upper bounds on delta, ``(D from D', D' from D)``; tables count 1/grid of a record."""
    bot, top = _test_slips(test, right=right, left=left, grid=grid)
    slip_release = _release_slip(release, release_scale, grid)
    slack = _slack(release_scale, height, grid)
    fewer = height * bot + slip_release + slack
    more = height * top + slip_release + slack
    return min(1.0, fewer * (1 + 1e-9)), min(1.0, more * (1 + 1e-9))


def linear_parts(
    test: NoiseTable,
    release: NoiseTable,
    *,
    right: float,
    left: float,
    release_scale: float,
    height: int,
    grid: int,
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return (epsilon, delta) of all tests, and (epsilon, delta) of all releases.

    The tests keep theirs whatever the releases answer, and the releases whatever the tests answer.
    For the tests, a unit of the grid pays at most (1 / right) / grid if it is selected, and
    (height / left) / grid in the other direction. For the releases it pays
    (1 / release_scale) / grid, once.
    """
    slack = _slack(release_scale, height, grid)
    tests = height * max(_test_slips(test, right=right, left=left, grid=grid)) + slack
    releases = _release_slip(release, release_scale, grid) + slack
    return (
        (max(1 / right, height / left), min(1.0, tests * (1 + 1e-9))),
        (1 / release_scale, min(1.0, releases * (1 + 1e-9))),
    )


def _test_slips(test: NoiseTable, *, right: float, left: float, grid: int) -> tuple[float, float]:
    """Return the slips of one level: of a node that is not selected, and of a selected node."""
    top = _tail_slip(test.pmf, test.at_least()[1:], 1 / (right * grid))
    bot = _tail_slip(test.pmf, test.cumulative_chances()[:-1], 1 / (left * grid))
    return _whole_record(bot, 1 / left, grid), _whole_record(top, 1 / right, grid)


def _slack(release_scale: float, height: int, grid: int) -> float:
    """Return a bound above the rounding of floats."""
    return (height + 1) * FLOAT_SLACK + math.exp(1 / release_scale) * grid * 2.0**-51


@lru_cache(maxsize=4)  # a search tries many tests with one release
def _release_slip(release: NoiseTable, scale: float, grid: int) -> float:
    return table_slip(release.pmf, scale=scale, grid=grid)


def table_slip(pmf: NDArray[np.float64], *, scale: float, grid: int) -> float:
    """Return the slip of a bounded Laplace table whose counts move by one record, in any shares.

    Moving by a unit of 1/grid record loses at most 1 / (scale grid), up to the mass by which the
    table leaves the Laplace law; ``scale`` is in records.
    """
    atoms = np.concatenate([[0.0], pmf, [0.0]])
    rate = math.exp(1 / (scale * grid))
    apart = max(
        float(np.maximum(atoms[1:] - rate * atoms[:-1], 0).sum()),
        float(np.maximum(atoms[:-1] - rate * atoms[1:], 0).sum()),
    )
    return _whole_record(apart, 1 / scale, grid)


def _tail_slip(atom: NDArray[np.float64], beyond: NDArray[np.float64], rate: float) -> float:
    """Return max over x of (atom(x) + beyond(x)) - e^rate beyond(x), which is 0 for the exact law.

    A tail that takes in one unit more gains an atom. The formula uses expm1, so that rounding stays
    far below one unit's slip.
    """
    return float(np.max(np.maximum(atom - math.expm1(rate) * beyond, 0.0)))


def _whole_record(slip: float, rate: float, grid: int) -> float:
    """Return the slip of one record, however it is spread: slip (e^rate - 1)/(e^(rate/grid) - 1).

    Moving by s units slips at most slip (1 + e^(rate/grid) + ... ) (s terms), which is convex in s.
    """
    return slip * math.expm1(rate) / math.expm1(rate / grid)


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


def path_budget_error(epsilon: float, delta: float, height: int) -> BudgetError:
    return BudgetError(
        f"no 64-bit noise reaches delta={delta:g} at epsilon={epsilon:g}, height={height}. "
        "Raise delta, or move epsilon towards 1."
    )
