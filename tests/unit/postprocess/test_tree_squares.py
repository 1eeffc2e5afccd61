"""Parts and totals that add up, and their variances, against the normal equations."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpframe.errors import ParameterError
from dpframe.postprocess.tree_squares import checked_forest, least_squares, variances
from tests.members import some
from tests.naive import covered_matrix, normal_equations

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


@some(
    0,
    5,
    13,
    18,
    26,
    31,
    34,
    39,
    47,
    52,
    60,
    68,
    73,
    81,
    86,
    89,
    94,
    102,
    107,
    115,
    120,
    123,
    128,
    136,
    141,
    149,
    157,
    162,
    170,
    175,
    178,
    183,
    191,
    196,
    204,
    212,
    217,
    225,
    230,
    233,
    238,
)
@pytest.mark.parametrize("missing", [0.0, 0.2, 0.6])
@pytest.mark.parametrize("seed", range(80))
def test_estimates_and_variances_are_those_of_the_normal_equations(
    seed: int, missing: float
) -> None:
    """Also which values cannot be told apart from others."""
    fitted(random_tree(np.random.default_rng(seed)), seed, missing)


@pytest.mark.parametrize("tree", [CHAIN, STAR, ONE], ids=["chain", "star", "one"])
def test_chains_stars_and_one_node_too(tree: NDArray[np.int64]) -> None:
    for seed in range(20):
        fitted(tree, seed, 0.1 * (seed % 5))


@pytest.mark.parametrize("seed", range(50))
def test_no_variance_exceeds_that_of_the_measurement_or_of_the_sum_of_parts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tree = random_tree(rng)
    vp, vt = random_variances(rng, len(tree), 0.0), random_variances(rng, len(tree), 0.5)
    of_parts, of_totals = variances(checked_forest(tree), vp, vt)
    assert (of_parts <= vp * (1 + 1e-12)).all()
    assert (of_totals <= vt * (1 + 1e-12)).all()
    assert (of_totals <= covered_matrix(tree) @ vp * (1 + 1e-12)).all()


def test_without_totals_it_is_the_sum_of_parts() -> None:
    """Nothing is to be merged, so parts come back as they were measured."""
    part, n = np.arange(13.0), 13
    found = least_squares(
        STAR, part=part, part_variance=np.ones(n), total=part, total_variance=np.full(n, np.inf)
    )
    assert (found.part == part).all()
    assert (found.total[0], found.total_variance[0]) == (part.sum(), n)


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
