"""Whole parts and totals: they add up exactly and stay within 1 of their estimates, at any size."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dpframe.errors import ParameterError
from dpframe.postprocess.tree_squares import (
    checked_forest,
    least_squares,
    rounded_parts,
    totals_of,
    whole_estimates,
)
from tests.naive import covered_matrix

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


def test_parts_alone_come_back_as_they_are() -> None:
    part = np.arange(11) * 2**50
    none = np.full(11, np.inf)
    tree = TREES["not preorder"]
    found = whole_estimates(
        tree, part=part, part_variance=np.ones(11), total=part, total_variance=none
    )
    assert found.part.tolist() == part.tolist()
    assert found.total.tolist() == exact(tree, part)


def test_sums_that_leave_int64_are_refused() -> None:
    part, none = np.array([2**61, 2**61]), np.full(2, np.inf)
    with pytest.raises(ParameterError, match=r"less than 2\*\*62"):
        whole_estimates(
            np.array([-1, 0]), part=part, part_variance=np.ones(2), total=part, total_variance=none
        )
