"""The largest share of one noise in an estimate, against weights that are found one by one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpframe.postprocess.tree_squares import checked_forest, largest_shares, least_squares

Reals = NDArray[np.float64]


def naive(above: NDArray[np.int64], vp: Reals, vt: Reals) -> Reals:
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
        assert np.allclose(found, naive(above, vp, vt), rtol=1e-12)


def test_the_share_of_the_own_part_alone_is_not_it() -> None:
    """Planted bug: what one node has of its own over its variance is not the largest share."""
    wrong = 0
    for above, vp, vt in trees(50):
        wanted = naive(above, vp, vt)
        wrong += int((np.abs(vp / vp.max() - wanted) > 1e-3).any())
    assert wrong > 40


def test_shares_do_not_depend_on_the_order_of_siblings() -> None:
    """Law: to the last bit, as intervals are recomputed from frames that were sorted."""
    rng, n = np.random.default_rng(7), 400
    above = np.array([-1, *(int(rng.integers(0, max(1, i // 4))) for i in range(1, n))])
    measured = np.where(rng.random(n) < 0.3, 0.37, np.inf)
    depth = np.zeros(n, dtype=np.int64)
    for i in range(1, n):
        depth[i] = depth[above[i]] + 1
    places = np.append(0, 1 + rng.permutation(n - 1))
    order = places[np.argsort(depth[places], kind="stable")]
    place = np.argsort(order)
    moved = np.where(above[order] >= 0, place[above[order]], -1)
    own = np.full(n, 1.1)
    first = largest_shares(checked_forest(above), own, measured)
    second = largest_shares(checked_forest(moved), own, measured[order])
    assert (first[order] == second).all()
    assert len(np.unique(first)) > 30
