"""Geometric halves: a closed form, pure up to the cut ends, then trimmed.

Scales in records, V the release noise and W the test noise::

    b2 = 1 / (release_share * epsilon)          V: discrete Laplace
    bR = 1 / (epsilon - 1/b2)                   W: right half, paid once
    bL = h bR with remainder, else max(h/epsilon, (h - 1) bR)      W: left half, paid h times

Valid for one record and for the shares of one user (:mod:`dpframe.accounting.linear_slips`).
"""

from __future__ import annotations

import math
from functools import lru_cache

from dpframe.accounting.linear_slips import linear_delta, linear_epsilon
from dpframe.accounting.path_laws import Laws
from dpframe.accounting.path_recursion import one_direction
from dpframe.accounting.search import least_bound, path_budget_error
from dpframe.errors import BudgetError
from dpframe.noise import NoiseTable, halves, laplace_table

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
