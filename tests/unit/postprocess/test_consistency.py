"""Counts that add up: against dense least squares, exact fractions, and laws of their own."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpframe.errors import ParameterError
from dpframe.postprocess.consistency import (
    _BINDS,
    _largest_remainder,
    consistent_counts,
    consistent_variance,
    consistent_whole_counts,
)
from tests.members import tries

Tree = NDArray[np.int64]

SHAPES = {
    "empty": np.zeros(0, dtype=np.int64),
    "one node": np.array([-1]),
    "chain": np.arange(-1, 11),
    "star": np.array([-1] + [0] * 30),
    "binary, by level": (np.arange(31) - 1) // 2,
    "ragged": np.array([-1, 0, 1, 2, 3, 1, 0, 6, 6, 6, 0, 0, 11]),
    "forest": np.array([-1, -1, 1, 1, -1, 0, 4, 5]),
}
"""Positions of parents."""


def random_tree(rng: np.random.Generator, n: int) -> Tree:
    return np.array([-1] + [int(rng.integers(max(0, i - 9), i)) for i in range(1, n)])[:n]


def trees() -> list[Tree]:
    rng = np.random.default_rng(20)
    return [*SHAPES.values(), *(random_tree(rng, n) for n in (2, 3, 8, 20, 40, 60) * 8)]


def children(parent: Tree) -> list[list[int]]:
    return [[c for c in range(len(parent)) if parent[c] == v] for v in range(len(parent))]


# -- slow twins ----------------------------------------------------------------------------------


def free_nodes(parent: Tree, complete: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Matrix A, shape (n, k): every count as a sum of those that no equation determines."""
    kin = children(parent)
    free = [v for v in range(len(parent)) if not (complete[v] and kin[v])]
    matrix = np.zeros((len(parent), len(free)))
    matrix[free, range(len(free))] = 1
    for v in reversed(range(len(parent))):
        if complete[v] and kin[v]:
            matrix[v] = matrix[kin[v]].sum(axis=0)
    return matrix


def naive_equations(parent: Tree, noisy: Any, variance: Any, complete: Any) -> NDArray[np.float64]:
    """Equations of complete nodes eliminated, then one dense least squares problem."""
    a = free_nodes(parent, complete)
    weight = 1 / np.sqrt(variance)
    free = np.linalg.lstsq(a * weight[:, None], noisy * weight, rcond=None)[0]
    return np.asarray(a @ free)


def remainders(parent: Tree, x: Any) -> NDArray[np.float64]:
    """What every node with children has beside them; 0 for the others."""
    return np.array(
        [x[v] - sum(x[c] for c in kin) if kin else 0.0 for v, kin in enumerate(children(parent))]
    )


def naive_consistent(parent: Tree, noisy: Any, variance: Any, complete: Any) -> NDArray[np.float64]:
    """Every set of incomplete nodes in turn is tied; the best of those that break no rule."""
    open_ = [v for v, kin in enumerate(children(parent)) if kin and not complete[v]]
    best, least = np.zeros(len(parent)), math.inf
    for chosen in itertools.product([False, True], repeat=len(open_)):
        tied = complete.copy()
        tied[open_] = chosen
        x = naive_equations(parent, noisy, variance, tied)
        cost = float(((x - noisy) ** 2 / variance).sum())
        if cost < least and (remainders(parent, x) > -1e-9).all():
            best, least = x, cost
    return best


def assert_optimal(
    parent: Tree, x: Any, noisy: Any, variance: Any, complete: Any, atol: float
) -> None:
    """The conditions of Karush, Kuhn and Tucker, which only the optimum satisfies.

    (x - noisy)/variance of a node is its multiplier minus that of its parent.
    """
    kin, left = children(parent), remainders(parent, x)
    multiplier = np.zeros(len(parent))
    for v in range(len(parent)):
        above = multiplier[parent[v]] if parent[v] >= 0 else 0.0
        multiplier[v] = (x[v] - noisy[v]) / variance[v] + above
        if not kin[v] or left[v] > atol:
            assert abs(multiplier[v]) < atol
        if kin[v] and complete[v]:
            assert abs(left[v]) < atol
        elif kin[v]:
            assert left[v] > -atol
            assert multiplier[v] > -atol


def exact_consistent(parent: Tree, noisy: Any, variance: Any, complete: Any) -> list[Fraction]:
    """The normal equations in fractions, by Gauss and Jordan: for any ratio of variances."""
    a = [[Fraction(int(e)) for e in row] for row in free_nodes(parent, complete)]
    size = len(a[0])
    rows = [[Fraction(0)] * (size + 1) for _ in range(size)]
    for entries, y, v in zip(a, noisy, variance, strict=True):
        for i in range(size):
            for j, e in enumerate([*entries, Fraction(y)]):
                rows[i][j] += entries[i] * e / Fraction(v)
    for i in range(size):  # positive definite: no pivoting
        rows[i] = [e / rows[i][i] for e in rows[i]]
        for j in range(size):
            if j != i:
                rows[j] = [e - rows[j][i] * p for e, p in zip(rows[j], rows[i], strict=True)]
    return [sum((e * r[-1] for e, r in zip(x, rows, strict=True)), Fraction(0)) for x in a]


def subtree_variance(v: int, kin: list[list[int]], variance: Any, tied: Any) -> Fraction:
    own = Fraction(variance[v])
    if not (tied[v] and kin[v]):
        return own
    below = sum(subtree_variance(c, kin, variance, tied) for c in kin[v])
    return 1 / (1 / own + 1 / below)


def naive_whole(parent: Tree, values: Any, variance: Any, complete: Any) -> list[int]:
    """Node by node in fractions: project the children by sorting, then largest remainder."""
    kin, half = children(parent), Fraction(1, 2)
    x = [math.floor(max(Fraction(v), Fraction(0)) + half) for v in values]
    tied = complete | (remainders(parent, values) < _BINDS)
    for v in range(len(parent)):
        z = {c: Fraction(values[c]) for c in kin[v]}
        s = {c: subtree_variance(c, kin, variance, tied) for c in kin[v]}
        order = sorted(kin[v], key=lambda c: -z[c] / s[c])
        heads = [order[: k + 1] for k in range(len(order))]
        shifts = [(sum(z[c] for c in h) - x[v]) / sum(s[c] for c in h) for h in heads]
        u = max(shifts if complete[v] else [*shifts, Fraction(0)], default=Fraction(0))
        share = {c: max(z[c] - u * s[c], Fraction(0)) for c in kin[v]}
        total = math.floor(sum(share.values(), Fraction(0)) + half)
        floors = {c: math.floor(share[c]) for c in kin[v]}
        up = sorted(kin[v], key=lambda c: floors[c] - share[c])[: total - sum(floors.values())]
        for c in kin[v]:
            x[c] = floors[c] + (c in up)
    return x


def assert_whole(parent: Tree, x: NDArray[np.int64], complete: NDArray[np.bool_]) -> None:
    assert x.dtype == np.int64
    assert (x >= 0).all()
    for v, kin in enumerate(children(parent)):
        below = int(x[kin].sum())
        assert below <= x[v]
        assert below == x[v] or not (complete[v] and kin)


def drawn(rng: np.random.Generator, n: int, spread: float) -> tuple[Any, Any, Any]:
    """Noisy counts, variances that range over exp(+- 2 spread), complete nodes."""
    return rng.normal(20, 30, n), np.exp(rng.normal(0, spread, n)), rng.random(n) < 0.7


def test_inequalities_agree_with_every_active_set_tried() -> None:
    """Small trees: no choice of binding nodes that breaks no rule is closer to the noisy counts."""
    rng = np.random.default_rng(11)
    for _ in range(300):
        parent = random_tree(rng, int(rng.integers(1, 11)))
        noisy, variance, complete = drawn(rng, len(parent), 1.0)
        for flags in (complete, np.zeros_like(complete)):
            x = consistent_counts(parent, noisy, variance, complete=flags)
            expected = naive_consistent(parent, noisy, variance, flags)
            np.testing.assert_allclose(x, expected, rtol=0, atol=1e-9)


def test_inequalities_are_solved_to_the_optimum() -> None:
    """Every shape, larger trees, and long chains that tie one node a pass: the conditions of the
    optimum, for nodes that are complete, that are not, and for some of both."""
    rng = np.random.default_rng(12)
    for parent in [tree for tree in trees() * 3 if len(tree)]:
        noisy, variance, complete = drawn(rng, len(parent), 1.0)
        for flags in (complete, np.zeros_like(complete), np.ones_like(complete)):
            x = consistent_counts(parent, noisy, variance, complete=flags)
            assert_optimal(parent, x, noisy, variance, flags, 1e-9)
            moved = x + np.where(parent < 0, 1e-3, 0)  # the check is not empty
            with pytest.raises(AssertionError):
                assert_optimal(parent, moved, noisy, variance, flags, 1e-9)
    chain, none = np.arange(-1, 99), np.zeros(100, dtype=np.bool_)
    falling = np.append(-1e6, np.arange(99.0, 0, -1))
    x = consistent_counts(chain, falling, np.ones(100), complete=none)
    np.testing.assert_allclose(x, falling.mean(), rtol=0, atol=1e-9)


def test_top_down_is_no_optimum() -> None:
    """The planted bug: without the joint solution a total with too little is not raised."""
    parent, noisy, none = np.array([-1, 0, 0]), np.array([6.0, 4.0, 6.0]), np.zeros(3, np.bool_)
    with pytest.raises(AssertionError):
        assert_optimal(parent, np.array([6.0, 2.0, 4.0]), noisy, np.ones(3), none, 1e-9)


def test_spread_is_the_dense_covariance() -> None:
    """The variance of every count of the linear estimate, and that of `consistent` if complete."""
    rng = np.random.default_rng(14)
    for parent in trees():
        _, variance, some = drawn(rng, len(parent), 1.0)
        for complete in (some, np.ones_like(some), np.zeros_like(some)):
            a = free_nodes(parent, complete)
            best = np.diag(a @ np.linalg.inv(a.T @ (a / variance[:, None])) @ a.T)
            found = consistent_variance(parent, variance, complete=complete)
            np.testing.assert_allclose(found, best, rtol=1e-9, atol=0)
        columns, every = np.eye(len(parent)) * np.sqrt(variance), some | True
        reached = [consistent_counts(parent, e, variance, complete=every) for e in columns]
        found = consistent_variance(parent, variance, complete=every)
        np.testing.assert_allclose(found, np.sum(np.square(reached), axis=0), rtol=1e-9, atol=0)


@pytest.mark.parametrize("size", [1, 10, 60])
def test_huge_variance_ratios(size: int) -> None:
    """Variances from 1e-100 to 1e100 lose no digits against exact fractions."""
    rng = np.random.default_rng(2)
    for n in [1, 2, 3, 5, 8, 12] * 3:
        parent = random_tree(rng, n)
        noisy, variance, _ = drawn(rng, n, size)
        variance, complete = variance.clip(1e-100, 1e100), np.ones(n, dtype=np.bool_)
        x = consistent_counts(parent, noisy, variance, complete=complete)
        exact = [float(e) for e in exact_consistent(parent, noisy, variance, complete)]
        np.testing.assert_allclose(x, exact, rtol=0, atol=1e-9)


def _mean_and_variance(weights: NDArray[np.float64]) -> tuple[Any, Any]:
    """20,000 trees of one shape in one call; normal noise, not in the ratio of the weights."""
    parent, truth, true_variance = PLANTED
    n, trials = len(parent), 20_000
    rng = np.random.default_rng(4)
    noisy = truth + np.sqrt(true_variance) * rng.standard_normal((trials, n))
    forest = np.where(parent < 0, -1, parent + n * np.arange(trials)[:, None]).ravel()
    complete = np.ones(n * trials, dtype=np.bool_)
    x = consistent_counts(forest, noisy.ravel(), np.tile(weights, trials), complete=complete)
    errors = x.reshape(trials, n) - truth
    return errors.mean(axis=0) / (errors.std(axis=0) / math.sqrt(trials)), errors.var(axis=0)


PLANTED = (
    np.array([-1, 0, 1, 1, 0, 4, 4, 4]),
    np.array([60.0, 25, 5, 20, 35, 0, 15, 20]),
    np.array([100.0, 4, 9, 1, 25, 1, 16, 2]),
)


def test_unbiased_and_of_the_least_variance() -> None:
    """Means are true (5 sigma), variances those of Gauss-Markov, below those of the noise."""
    parent, _, variance = PLANTED
    a = free_nodes(parent, np.ones(len(parent), dtype=np.bool_))
    best = np.diag(a @ np.linalg.inv(a.T @ (a / variance[:, None])) @ a.T)
    z, measured = _mean_and_variance(variance)
    assert (np.abs(z) < 5).all()
    np.testing.assert_allclose(measured, best, rtol=0.05)
    assert (measured < variance).all()
    _, ignored = _mean_and_variance(np.ones(len(parent)))  # the planted bug
    assert (ignored > 1.2 * best).any()
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(ignored, best, rtol=0.05)


def test_whole_agrees_with_its_slow_twin() -> None:
    """Projection and rounding are what exact fractions give, negative and wild values included."""
    rng = np.random.default_rng(5)
    for parent in trees():
        values, variance, some = drawn(rng, len(parent), 1.0)
        for complete in (some, np.ones_like(some), np.zeros_like(some)):
            x = consistent_whole_counts(parent, values, variance, complete=complete)
            assert_whole(parent, x, complete)
            assert x.tolist() == naive_whole(parent, values, variance, complete)


@tries(40, 150, deadline=None)
@given(st.data())
def test_whole_numbers_add_up_whatever_comes_in(data: st.DataObject) -> None:
    """Sums are exact and nothing is negative, for extreme values and variances too."""
    n = data.draw(st.integers(1, 12))
    parent = np.array([data.draw(st.integers(-1, i - 1)) for i in range(n)])
    reals = st.floats(-(2.0**57), 2.0**57) | st.floats(-3, 3) | st.sampled_from([-(2.0**49), 0.5])
    values = np.array([data.draw(reals) for _ in range(n)])
    variance = np.array([data.draw(st.floats(1e-100, 1e100)) for _ in range(n)])
    complete = np.array([data.draw(st.booleans()) for _ in range(n)])
    solved = consistent_counts(parent, values, variance, complete=complete)
    for one in (values, solved) if np.abs(solved).sum() < 2.0**61 else (values,):
        whole = consistent_whole_counts(parent, one, variance, complete=complete)
        assert_whole(parent, whole, complete)


def counts_that_add_up(rng: np.random.Generator, parent: Tree, complete: Any) -> Tree:
    x = rng.integers(0, 2**40, len(parent)) * (rng.random(len(parent)) < 0.6)
    for v, kin in reversed(list(enumerate(children(parent)))):
        if kin:
            x[v] = x[kin].sum() + (0 if complete[v] else x[v])
    return np.asarray(x)


def test_consistent_counts_are_left_alone() -> None:
    """Both steps return true counts exactly as they are, and repeating them changes nothing."""
    rng = np.random.default_rng(6)
    for parent in trees():
        noisy, variance, complete = drawn(rng, len(parent), 1.0)
        counts = counts_that_add_up(rng, parent, complete)
        for same in (consistent_counts, consistent_whole_counts):
            found = same(parent, counts, variance, complete=complete)  # type: ignore[operator]
            np.testing.assert_array_equal(found, counts)
        once = consistent_whole_counts(parent, noisy, variance, complete=complete)
        again = consistent_whole_counts(parent, once, variance, complete=complete)
        np.testing.assert_array_equal(again, once)


def test_distance_is_below_the_depth_and_a_half() -> None:
    """Values that add up and are not negative move by less than d + 1/2 at depth d."""
    rng = np.random.default_rng(7)
    for parent in trees():
        _, variance, complete = drawn(rng, len(parent), 1.0)
        values = counts_that_add_up(rng, parent, complete) / 2.0**37
        whole = consistent_whole_counts(parent, values, variance, complete=complete)
        for i, far in enumerate(np.abs(whole - values)):
            depth, v = 0, i
            while (v := int(parent[v])) >= 0:
                depth += 1
            assert far <= 0.5 if depth == 0 else far < depth + 0.5


@pytest.mark.parametrize(
    ("exact", "values", "expected"),
    [
        (True, [6.0, 1.5, 1.5, 1.5, 1.5], [6, 2, 2, 1, 1]),  # ties: the first listed
        (False, [9.0, 3.6, 2.8], [9, 3, 3]),  # a remainder takes what is left
        (False, [4.0, 3.0, 3.0], [4, 2, 2]),  # and is never negative
    ],
)
def test_small_families(exact: bool, values: list[float], expected: list[int]) -> None:
    """A root and its children, worked by hand."""
    n = len(values)
    star, flags = np.array([-1] + [0] * (n - 1)), np.full(n, exact)
    found = consistent_whole_counts(star, np.array(values), np.ones(n), complete=flags)
    assert found.tolist() == expected


@pytest.mark.parametrize("exact", [True, False])
def test_sums_hold_where_float64_runs_out_of_digits(exact: bool) -> None:
    """Counts of 2**42 under a total of 1: shares sum to 66, whole numbers still fit."""
    parent, values = np.array([-1] + [0] * 1000), np.array([1.0] + [2.0**52 / 1000 + 0.1] * 1000)
    x = consistent_whole_counts(parent, values, np.ones(1001), complete=np.full(1001, exact))
    assert_whole(parent, x, np.full(1001, exact))


@pytest.mark.parametrize("total", [0, 1, 3, 4, 5, 6, 9, 10])
def test_rounding_gives_the_total_though_shares_are_off(total: int) -> None:
    """Lost digits in the shares never show in a sum: whole units move, from and to anyone."""
    share, family = np.array([1.25, 0.0, 2.5, 7.0]), np.array([1, 1, 1, 2])
    totals = np.array([0, total, 7])  # the first family has no children
    x = _largest_remainder(totals, family, share)
    assert (x >= 0).all()
    assert np.bincount(family, x, 3).tolist() == [0, total, 7]


WRONG: dict[str, list[Any]] = {
    "noisy": [[1.0, np.nan], [np.inf, 1.0], [-np.inf, 1.0], [2.0**61, 0.0], ["1", "2"], [1.0]],
    "variance": [[1.0, 0.0], [1.0, -1.0], [np.nan, 1.0], [np.inf, 1.0], [1e-101, 1.0]],
    "parent": [[-1, 1], [-2, 0], [1, -1], [-1.0, 0.0]],
    "complete": [[1, 0], [[True, False]]],
}


@pytest.mark.parametrize("step", [consistent_counts, consistent_whole_counts])
@pytest.mark.parametrize(("name", "value"), [(name, v) for name in WRONG for v in WRONG[name]])
def test_wrong_arguments_are_refused(step: Any, name: str, value: Any) -> None:
    """NaN, infinity, no variance, no tree: ParameterError."""
    right = {"parent": [-1, 0], "noisy": [3.0, 2.0], "variance": [1, 1], "complete": [True, True]}
    arrays = {key: np.array(v) for key, v in (right | {name: value}).items()}
    with pytest.raises(ParameterError):
        step(arrays.pop("parent"), arrays.pop("noisy"), arrays.pop("variance"), **arrays)
