"""Users as shares, enumerated: however a user's unit is spread, the claim of one record holds.

A user weighs ``grid`` units, divided over their records. The tables of the shipped calibration
(``path_recursion.geometric_laws``) run through the shipped ``run`` on a tree of two branches; the
exact divergence of tables with and without one user, for every way to divide the units over the
leaves, is compared with what ``linear_delta`` claims at ``linear_epsilon``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import cache

import pytest

from dpframe.accounting.path_recursion import Laws, geometric_laws, linear_epsilon
from dpframe.noise import NoiseTable, halves
from tests.members import in_turn

from .enumerate_outputs import Table, claimed, divergence, every_selection

EPSILON, DELTA, HEIGHT = 2.0, 1e-3, 2
LEAVES = ("aa", "ab", "ba")


@cache
def laws_of(grid: int, remainder: bool) -> Laws:
    known = {"height": HEIGHT, "epsilon": EPSILON, "delta": DELTA, "release_share": 1 / 3}
    return geometric_laws(**known, remainder=remainder, grid=grid)


def bases(laws: Laws, threshold: int) -> Iterator[dict[str, int]]:
    """Tables, in units, whose residuals sit where each half of the test noise decides."""
    near = (0, threshold - 2, threshold + laws.grid, threshold - laws.test.lowest // 2)
    for first, second in itertools.combinations_with_replacement(near, 2):
        for beside in (0, 2 * laws.grid):
            yield {"aa": first, "ab": beside, "ba": second, "b": beside}


def divided(grid: int) -> Iterator[dict[str, int]]:
    """Every way to divide one user's units over the leaves."""
    for units in itertools.product(range(grid + 1), repeat=len(LEAVES)):
        if sum(units) == grid:
            yield dict(zip(LEAVES, units, strict=True))


def plus(table: Table, user: Table) -> dict[str, int]:
    return {path: table.get(path, 0) + user.get(path, 0) for path in {*table, *user}}


def furthest(
    laws: Laws, test: NoiseTable, *, remainder: bool, users: list[dict[str, int]]
) -> tuple[float, float]:
    """Largest exact divergence over all bases and users: (D from D', D' from D)."""
    t = math.exp(EPSILON)
    threshold = laws.smallest_threshold(0.5) * laws.grid
    fewer = more = 0.0
    for base in bases(laws, threshold):
        p = every_selection(base, test=test, threshold=threshold, remainder=remainder)
        for user in users:
            q = every_selection(
                plus(base, user), test=test, threshold=threshold, remainder=remainder
            )
            fewer = max(fewer, divergence(p, q, laws.release, t))
            more = max(more, divergence(q, p, laws.release, t))
    return fewer, more


@in_turn(("grid", [2, 3]), ("remainder", [True, False]))
def test_no_division_of_a_users_units_costs_more_than_claimed(grid: int, remainder: bool) -> None:
    """Law: delta of a user's shares <= linear_delta, whatever leaves the units go to."""
    laws = laws_of(grid, remainder)
    scales = {"right": laws.right, "left": laws.left, "release": laws.release_scale}
    assert linear_epsilon(**scales, height=HEIGHT, remainder=remainder) <= EPSILON
    fewer, more = claimed(laws, height=HEIGHT, grid=grid)
    assert max(fewer, more) <= DELTA
    exact = furthest(laws, laws.test, remainder=remainder, users=list(divided(grid)))
    assert exact[0] <= fewer
    assert exact[1] <= more
    assert max(exact) > 0  # the cut ends are seen: the comparison is not vacuous


@pytest.mark.parametrize("remainder", [True, False])
@pytest.mark.parametrize(("left", "right"), [(0.85, 1.0), (1.0, 0.8)], ids=["left", "right"])
def test_a_scale_15_or_20_percent_too_small_is_rejected(
    left: float, right: float, remainder: bool
) -> None:
    """Planted bugs: the half that is paid on every level, or that which is paid once, is drawn too
    narrow: the one shows where a user is missing, the other where one is there."""
    laws = laws_of(2, remainder)
    narrow = halves(
        left=("geometric", left * laws.left * 2, -laws.test.lowest),
        right=("geometric", right * laws.right * 2, laws.test.highest),
        recentre=False,
    )
    exact = furthest(laws, narrow, remainder=remainder, users=[{"aa": 1, "ba": 1}, {"aa": 2}])
    assert exact[right < 1] > 2 * DELTA


def test_a_user_who_weighs_two_is_rejected() -> None:
    """Planted bug: shares that add up to twice the grid exceed the claim."""
    laws = laws_of(2, True)
    exact = furthest(laws, laws.test, remainder=True, users=[{"aa": 2, "ba": 2}])
    assert max(exact) > 2 * DELTA
