"""Parts and totals that add up, against the normal equations; shares of noise, and whole parts."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpframe.errors import ParameterError
from dpframe.postprocess import tree_squares
from dpframe.postprocess.tree_squares import (
    checked_forest,
    largest_shares,
    least_squares,
    rounded_parts,
    totals_of,
    variances,
    whole_estimates,
)  # fmt: skip
from tests.members import some
from tests.naive import covered_matrix, normal_equations

Reals = NDArray[np.float64]
CHAIN = np.arange(-1, 7)
STAR = np.array([-1, *[0] * 12])
ONE = np.array([-1])


def random_tree(rng: np.random.Generator) -> NDArray[np.int64]:
    """From chains to stars, 1 to 14 nodes, every node after its ancestor."""
    n, pull = int(rng.integers(1, 15)), rng.random()
    return np.array(
        [-1] + [i - 1 if rng.random() < pull else int(rng.integers(0, i)) for i in range(1, n)]
    )


def random_variances(rng: np.random.Generator, n: int, missing: float) -> NDArray[np.float64]:
    return np.where(rng.random(n) < missing, np.inf, np.exp(rng.normal(0, 2, n)))


def fitted(ancestor: NDArray[np.int64], seed: int, missing: float) -> None:
    rng, n = np.random.default_rng(seed), len(ancestor)
    vp, vt = random_variances(rng, n, missing), random_variances(rng, n, max(missing, 0.3))
    part, total = rng.normal(0, 9, n), rng.normal(0, 9, n)
    part[np.isinf(vp)] = np.nan
    found = least_squares(ancestor, part=part, part_variance=vp, total=total, total_variance=vt)
    x, v = normal_equations(ancestor, part, vp, total, vt)
    got = np.concatenate([found.part, found.total])
    var = np.concatenate([found.part_variance, found.total_variance])
    assert (np.isinf(var) == np.isinf(v)).all()
    known = np.isfinite(v)
    np.testing.assert_allclose(var[known], v[known], rtol=1e-6)
    np.testing.assert_allclose(got[known], x[known], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(covered_matrix(ancestor) @ found.part, found.total, atol=1e-8)
    again = variances(checked_forest(ancestor), vp, vt)
    assert (np.concatenate(again) == var).all()


@some(*range(0, 240, 6))
@pytest.mark.parametrize("missing", [0.0, 0.2, 0.6])
@pytest.mark.parametrize("seed", range(80))
def test_estimates_and_variances_are_of_the_normal_equations(seed: int, missing: float) -> None:
    """Also which values cannot be told apart from others."""
    fitted(random_tree(np.random.default_rng(seed)), seed, missing)


@pytest.mark.parametrize("tree", [CHAIN, STAR, ONE], ids=["chain", "star", "one"])
def test_chains_stars_and_one_node_too(tree: NDArray[np.int64]) -> None:
    for seed in range(20):
        fitted(tree, seed, 0.1 * (seed % 5))


def test_a_tree_of_twenty_thousand_nodes_adds_up_in_any_order_of_siblings() -> None:
    rng, n = np.random.default_rng(5), 20_000
    tree = np.array([-1] + [int(rng.integers(max(0, i - 200), i)) for i in range(1, n)])
    part, total = rng.normal(0, 5, n), rng.normal(0, 50, n)
    found = least_squares(
        tree, part=part, part_variance=np.ones(n), total=total, total_variance=np.full(n, 7.0)
    )
    below = np.zeros(n)
    np.add.at(below, tree[1:], found.total[1:])
    np.testing.assert_allclose(found.part + below, found.total, atol=1e-7)
    assert (found.total_variance < 7).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ancestor": np.array([-1, 1])}, "after its ancestor"),
        ({"ancestor": np.array([], dtype=np.int64)}, "one a node"),
        ({"part": [1.0]}, "part must hold one number a node"),
        ({"part": [np.nan, 1.0]}, "finite"),
        ({"part_variance": [0.0, 1.0]}, "part_variance must hold"),
        ({"total_variance": [-1.0, np.nan]}, "total_variance must hold"),
    ],
)
def test_what_breaks_a_rule_is_refused(change: dict[str, object], message: str) -> None:
    good = {
        "ancestor": np.array([-1, 0]), "part": [1.0, 2.0], "part_variance": [1.0, 1.0],
        "total": [3, 2], "total_variance": [1.0, np.inf],
    }  # fmt: skip
    least_squares(**good)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=message):
        least_squares(**{**good, **change})  # type: ignore[arg-type]


def naive_shares(above: NDArray[np.int64], vp: Reals, vt: Reals) -> Reals:
    """By the estimates of measurements that are 1 in one place and 0 elsewhere."""
    n, columns = len(above), []
    for place in range(2 * n):
        unit = np.zeros(2 * n)
        unit[place] = 1.0
        total = np.where(np.isfinite(vt), unit[n:], 0.0)
        columns.append(
            least_squares(
                above, part=unit[:n], part_variance=vp, total=total, total_variance=vt
            ).total
        )
    weighed = np.array(columns).T ** 2 * np.concatenate([vp, np.where(np.isfinite(vt), vt, 0.0)])
    return np.asarray(weighed.max(axis=1) / weighed.sum(axis=1))


def trees(number: int) -> list[tuple[NDArray[np.int64], Reals, Reals]]:
    rng, found = np.random.default_rng(11), []
    for _ in range(number):
        n = int(rng.integers(1, 14))
        above = np.array([-1, *(int(rng.integers(0, i)) for i in range(1, n))])
        vt = np.where(rng.random(n) < 0.4, rng.choice([0.5, 1.0, 4.0], n), np.inf)
        found.append((above, rng.choice([1.0, 1.0, 3.0], n), vt))
    return found


def test_shares_are_those_of_the_weights_of_least_squares() -> None:
    """Law: whatever the tree, and whichever totals are measured."""
    for above, vp, vt in trees(200):
        found = largest_shares(checked_forest(above), vp, vt)
        assert np.allclose(found, naive_shares(above, vp, vt), rtol=1e-12)


def test_the_share_of_the_own_part_alone_is_not_it() -> None:
    """Planted bug: what one node has of its own over its variance is not the largest share."""
    wrong = 0
    for above, vp, vt in trees(50):
        wanted = naive_shares(above, vp, vt)
        wrong += int((np.abs(vp / vp.max() - wanted) > 1e-3).any())
    assert wrong > 40


@pytest.mark.parametrize(
    "found", [lambda *given: variances(*given)[1], largest_shares], ids=["variances", "shares"]
)
def test_siblings_in_another_order_have_the_same_numbers(found: Callable[..., Any]) -> None:
    """Law: to the last bit, as frames are sorted; sums in the order of nodes are not."""
    rng, n = np.random.default_rng(7), 400
    above = np.array([-1, *(int(rng.integers(0, max(1, i // 4))) for i in range(1, n))])
    measured = np.where(rng.random(n) < 0.3, 0.37, np.inf)
    depth = np.zeros(n, dtype=np.int64)
    for i in range(1, n):
        depth[i] = depth[above[i]] + 1
    places = np.append(0, 1 + rng.permutation(n - 1))
    order = places[np.argsort(depth[places], kind="stable")]
    moved = np.where(above[order] >= 0, np.argsort(order)[above[order]], -1)
    own, values = np.full(n, 1.1), rng.random(n)
    first = found(checked_forest(above), own, measured)
    second = found(checked_forest(moved), own, measured[order])
    assert (first[order] == second).all()
    assert len(np.unique(first)) > 30
    alone = np.zeros(n, int)
    assert np.bincount(alone, values)[0] != np.bincount(alone, values[::-1])[0]


TREES = {
    "one": np.array([-1]),
    "chain": np.arange(-1, 128),
    "star": np.array([-1, *[0] * 300]),
    "not preorder": np.array([-1, 0, 0, 1, 2, 1, 2, 3, 4, 0, 3]),
    "random": np.floor(np.random.default_rng(2).random(200) * np.arange(200) - 1e-9).astype(int),
}  # fmt: skip


def exact(tree: NDArray[np.int64], part: NDArray[np.int64]) -> list[int]:
    """Totals in Python's integers."""
    totals = [int(x) for x in part]
    for v in range(len(tree) - 1, 0, -1):
        totals[int(tree[v])] += totals[v]
    return totals


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
def test_parts_and_totals_are_less_than_one_from_what_they_were(tree: NDArray[np.int64]) -> None:
    """At every depth: errors do not add up along a path."""
    forest = checked_forest(tree)
    for seed in range(40):
        rng = np.random.default_rng(seed)
        part = np.round(rng.normal(0, 10.0 ** (seed % 5), len(tree)), 1 + seed % 3)
        whole = rounded_parts(forest, part)
        totals = totals_of(forest, whole)
        assert totals.tolist() == exact(tree, whole)
        assert (np.abs(whole - part) < 1).all()
        assert (np.abs(totals - covered_matrix(tree) @ part) < 1 + 1e-6).all()


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
def test_rows_of_parts_have_the_totals_of_each_column(
    tree: NDArray[np.int64], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many nodes are added up at once."""
    monkeypatch.setattr(tree_squares, "AT_ONCE", 3)
    part = np.random.default_rng(1).integers(-(10**9), 10**9, (len(tree), 4))
    kept = part.copy()
    totals = totals_of(checked_forest(tree), part)
    assert totals.T.tolist() == [exact(tree, column) for column in part.T]
    assert (part == kept).all()


def test_rounding_each_part_alone_is_rejected_by_the_same_check() -> None:
    """Planted bug: 300 parts of 0.4 become 0."""
    part = np.full(301, 0.4)
    forest = checked_forest(TREES["star"])
    alone = totals_of(forest, np.floor(part + 0.5).astype(np.int64))
    assert abs(alone[0] - part.sum()) > 100
    assert abs(totals_of(forest, rounded_parts(forest, part))[0] - part.sum()) < 1


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_huge_values_lose_no_digit(tree: NDArray[np.int64], missing: float) -> None:
    """Values near 2**60 with noise near 2**20: the same as for small values, moved by them."""
    n, rng = len(tree), np.random.default_rng(7)
    big = rng.integers(-(2**61) // (n + 1), 2**61 // (n + 1), n)
    vp = np.where(rng.random(n) < missing, np.inf, 4.0**20)
    vt = np.where(rng.random(n) < 0.5, np.inf, 16.0**9)
    part, total = rng.integers(-(2**20), 2**20, n), rng.integers(-(2**20), 2**20, n)
    small = least_squares(tree, part=part, part_variance=vp, total=total, total_variance=vt)
    moved = np.array(exact(tree, big))
    found = whole_estimates(
        tree, part=part + big, part_variance=vp, total=total + moved, total_variance=vt
    )
    assert found.total.tolist() == exact(tree, found.part)
    known = np.isfinite(found.total_variance)
    gaps = [
        abs(Fraction(int(found.total[i]) - int(moved[i])) - Fraction(float(small.total[i])))
        for i in np.flatnonzero(known)
    ]
    assert max(gaps, default=0) < 1 + Fraction(1, 10**5)
    assert (found.total_variance == small.total_variance).all()


def test_without_totals_parts_come_back_as_they_are() -> None:
    """Nothing is to be merged: to the last bit, and in whole numbers of any size."""
    tree = TREES["not preorder"]
    part, one, none = np.arange(11) * 2**50, np.ones(11), np.full(11, np.inf)
    for fit in (least_squares, whole_estimates):
        found: Any = fit(tree, part=part, part_variance=one, total=part, total_variance=none)
        assert found.part.tolist() == part.tolist()
        assert found.total.tolist() == exact(tree, part)
        assert found.total_variance[0] == 11


def test_sums_that_leave_int64_are_refused() -> None:
    large, one, none = np.array([2**61, 2**61]), np.ones(2), np.full(2, np.inf)
    with pytest.raises(ParameterError, match=r"less than 2\*\*62"):
        whole_estimates(
            np.array([-1, 0]), part=large, part_variance=one, total=large, total_variance=none
        )


def test_what_is_kept_of_a_forest_is_of_its_variances_alone() -> None:
    """Law: a forest that has seen other variances gives what a new one gives."""
    rng = np.random.default_rng(0)
    ancestor = np.array([-1, 0, 0, 1, 1, 1, 2, -1])
    used, n = checked_forest(ancestor), len(ancestor)
    part, total = rng.normal(size=n), rng.normal(size=n)
    first = rng.integers(1, 9, n).astype(float), rng.integers(1, 9, n).astype(float)
    second = first[0], np.where(np.arange(n) == 1, np.inf, first[1])
    third = np.where(np.arange(n) == 3, 7.5, first[0]), second[1]
    for vp, vt in (first, first, second, third, first):
        given = {"part": part, "part_variance": vp, "total": total, "total_variance": vt}
        kept, new = least_squares(used, **given), least_squares(ancestor, **given)
        assert all((getattr(kept, f) == getattr(new, f)).all() for f in kept.__slots__)
        fresh = checked_forest(ancestor)
        assert (largest_shares(used, vp, vt) == largest_shares(fresh, vp, vt)).all()
        assert rounded_parts(used, kept.part).tolist() == rounded_parts(fresh, new.part).tolist()


def test_equal_values_have_the_largest_that_sorting_finds() -> None:
    group = np.array([0, 0, 2, 3, 3, 3])
    equal = tree_squares._two_largest(group, np.full(6, 0.1), 5)
    nearly = tree_squares._two_largest(group, np.array([0.1, 0.1, 0.1, 0.1, 0.1, 0.05]), 5)
    for one, other in zip(equal, nearly, strict=True):
        assert one.tolist() == other.tolist()
