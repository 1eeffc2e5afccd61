"""Least squares of marginals beside a dense twin, and the figures of the weights."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from dpframe.postprocess.strategy import Marginals

Rows = np.ndarray[Any, Any]


def product_of(sizes: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    return tuple(sorted(itertools.product((0, 1), repeat=len(sizes)), key=lambda kind: -sum(kind)))


def random_numbers(sizes: tuple[int, ...], kind: tuple[int, ...], draw: Any) -> Rows:
    shape = tuple(n if k else 1 for n, k in zip(sizes, kind, strict=True))
    found: Rows = draw.integers(-(10**6), 10**6, shape)
    return found


def matrix_of(sizes: tuple[int, ...], kind: tuple[int, ...]) -> Rows:
    """One row for each cell of a kind, with 1 at the finest cells in it."""
    out: Rows = np.ones((1, 1))
    for n, k in zip(sizes, kind, strict=True):
        out = np.kron(out, np.eye(n) if k else np.ones((1, n)))
    return out


SHAPES = [
    ((3, 2), product_of((3, 2))),
    ((2, 3, 4), product_of((2, 3, 4))),
    ((3, 1, 2), product_of((3, 1, 2))),
    ((3, 2, 4), ((1, 1, 0), (0, 1, 1), (0, 0, 0))),
]


@pytest.mark.parametrize(("sizes", "kinds"), SHAPES)
@pytest.mark.parametrize("some", [False, True])
def test_numbers_and_variances_are_those_of_dense_least_squares(
    sizes: tuple[int, ...], kinds: Any, some: bool
) -> None:
    """Law: what is shown is a generalised inverse of all measured rows, up to rounding, with its
    variances and its largest shares; and it adds up exactly."""
    shown, draw = Marginals(sizes, kinds), np.random.default_rng(5)
    precision = draw.uniform(0.5, 2.0, len(kinds)) * 1e-6
    if some:  # a kind that others tell is not measured
        precision[-1] = 0.0
    measured = {
        kind: random_numbers(sizes, kind, draw)
        for kind, p in zip(kinds, precision, strict=True)
        if p
    }
    rows = np.concatenate([matrix_of(sizes, kind) for kind in measured])
    values = np.concatenate([numbers.ravel() for numbers in measured.values()])
    known = dict(zip(kinds, precision, strict=True))
    weight = np.concatenate([np.full(m.size, known[kind]) for kind, m in measured.items()])
    root = np.sqrt(weight)[:, None]
    solve = np.linalg.pinv(root * rows) * root.T
    found = shown.consistent(measured, known)
    variances, shares = shown.variances(precision), shown.largest_shares(precision.tolist())
    for kind, variance, share in zip(kinds, variances, shares, strict=True):
        of_noise = matrix_of(sizes, kind) @ solve
        assert np.abs(found[kind].ravel() - of_noise @ values).max() <= 2.0 ** sum(kind) / 2 + 1e-3
        parts = of_noise**2 / weight
        assert np.allclose(parts.sum(axis=1), variance)
        assert np.allclose((parts / parts.sum(axis=1, keepdims=True)).max(), share)
        for other in kinds:
            if all(a >= b for a, b in zip(kind, other, strict=True)):
                axes = tuple(d for d in range(len(sizes)) if kind[d] > other[d])
                assert (found[kind].sum(axis=axes, keepdims=True) == found[other]).all()


def test_wrong_weights_are_noticed() -> None:
    """Control: with other precisions than those of the noise, the twin differs."""
    sizes, kinds = SHAPES[1]
    shown, draw = Marginals(sizes, kinds), np.random.default_rng(5)
    measured = {kind: random_numbers(sizes, kind, draw) for kind in kinds}
    even = shown.consistent(measured, dict.fromkeys(kinds, 1.0))
    other = shown.consistent(measured, {kind: 1.0 + sum(kind) for kind in kinds})
    assert any((even[kind] != other[kind]).any() for kind in kinds)


@pytest.mark.parametrize(
    ("sizes", "most", "even"),
    [((5, 12, 30), 2.5, 8), ((5, 12, 30, 3), 3.0, 16), ((5, 12, 30, 3, 2), 3.4, 32)],
)
def test_the_error_of_all_marginals(sizes: tuple[int, ...], most: float, even: int) -> None:
    """Law: the root mean square error over all marginals, in errors of one marginal that has the
    whole budget. An even split has the root of their number, or with Laplace noise their number."""
    squares = Marginals(sizes, product_of(sizes), power=1)
    weights = np.array([float(one) for one in squares.weights])
    assert weights.sum() == pytest.approx(1)
    assert squares.error(weights) < most < even**0.5
    shares = Marginals(sizes, product_of(sizes), power=2)
    assert sum(shares.weights) == 1
    split = shares.error(np.array([float(one) for one in shares.weights]))
    assert split < 0.82 * even
    assert split < shares.error(np.full(even, 1 / even))


def test_large_sums_are_exact() -> None:
    """Law: numbers beyond the digits of floats keep them all, and add up."""
    sizes, kinds = SHAPES[0]
    base = np.full(sizes, 2**61 + 1, dtype=object)
    measured = {
        kind: base.sum(axis=tuple(d for d in range(2) if not kind[d]), keepdims=True)
        for kind in kinds
    }
    found = Marginals(sizes, kinds).consistent(measured, dict.fromkeys(kinds, 1.0))
    assert all((found[kind] == measured[kind]).all() for kind in kinds)


def test_wide_noise_is_rounded_beyond_64_bits() -> None:
    """Law: least squares of noise so wide that running sums pass 64 bits still add up."""
    sizes, kinds = SHAPES[0]
    draw = np.random.default_rng(1)
    measured = {kind: random_numbers(sizes, kind, draw).astype(object) * 2**55 for kind in kinds}
    found = Marginals(sizes, kinds).consistent(measured, dict.fromkeys(kinds, 1.0))
    assert found[kinds[0]].sum() == found[kinds[-1]].sum() != 0


@pytest.mark.parametrize("apart", [0, 2**57])
def test_sums_of_wide_noise_do_not_overflow(apart: int) -> None:
    """Law: numbers of 64 bits, whose sums have more, are added up exactly."""
    sizes = (8, 8, 8)
    kinds = product_of(sizes)
    full, total = np.full(sizes, 2**58), np.full((1, 1, 1), 2**58 * 512 + apart, dtype=object)
    found = Marginals(sizes, kinds).consistent(
        {kinds[0]: full, kinds[-1]: total},
        dict.fromkeys(kinds, 0.0) | {kinds[0]: 1.0, kinds[-1]: 1.0},
    )
    assert abs(int(found[kinds[-1]].sum()) - 2**58 * 512 - apart * 512 // 513) <= 2**16
    assert {int(found[kind].astype(object).sum()) for kind in kinds} == {
        int(found[kinds[-1]].sum())
    }
