"""Which levels to measure beside the parts."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpframe.errors import ParameterError
from dpframe.postprocess import strategy
from dpframe.postprocess.strategy import (
    LEAST_IMPORTANT_PARTS,
    LEAST_PARTS,
    PARTS,
    STEEP,
    Importance,
    Strategy,
    best_strategy,
    consistent_totals,
    level_strategy,
    subtree_sums,
)
from dpframe.postprocess.tree_squares import checked_forest, least_squares
from tests.members import some

Whole = NDArray[np.int64]


def tree(n: int, levels: int, seed: int) -> tuple[Whole, Whole]:
    """Ancestors and levels of random nodes in preorder."""
    draw = np.random.default_rng(seed)
    ancestor, level = [-1], [0]
    while len(ancestor) < n:
        path, at = [len(ancestor) - 1], ancestor[-1]
        while at >= 0:
            path.append(at)
            at = ancestor[at]
        path = [node for node in path if level[node] < levels]
        above = path[int(draw.integers(len(path)))]
        ancestor.append(above)
        level.append(int(draw.integers(level[above] + 1, levels + 1)))
    return np.array(ancestor), np.array(level)


def variances_of(ancestor: Whole, level: Whole, parts: float, levels: dict[int, float]) -> Any:
    """Of totals, by the general way."""
    total = np.array([1 / levels[at] ** 2 if levels.get(at) else np.inf for at in level.tolist()])
    nothing, own = np.zeros(len(ancestor)), np.full(len(ancestor), 1 / parts**2)
    return least_squares(
        ancestor, part=nothing, part_variance=own, total=nothing, total_variance=total
    ).total_variance


def error(
    ancestor: Whole, level: Whole, parts: float, levels: dict[int, float], limit: float = math.inf
) -> float:
    """Root mean square of standard deviations, and what levels are above the limit."""
    spread = variances_of(ancestor, level, parts, levels)
    own_levels = [np.sqrt(spread[level == at].mean()) for at in np.unique(level)]
    beyond = sum(max(0.0, float(one) - limit) for one in own_levels)
    return float(np.sqrt(spread.mean())) + STEEP * beyond


CASES = [(1, 1), (2, 1), (5, 3), (40, 3), (300, 5), (200, 33)]


@some(0, 5, 13, 18, 26, 31, 34, 39, 47, 52, 60, 68)
@pytest.mark.parametrize(("nodes", "levels"), CASES)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("least", [Fraction(0), LEAST_PARTS])
@pytest.mark.parametrize("limit", [math.inf, 3.0])
def test_what_is_chosen_is_no_worse_than_either_alternative(
    nodes: int, levels: int, seed: int, least: Fraction, limit: float
) -> None:
    """Law: weights sum to 1, parts have at least what was asked for, the error is that of least
    squares, and never above that of parts alone or of equal weights that are allowed."""
    ancestor, level = tree(nodes, levels, seed)
    found = best_strategy(ancestor, level, least_parts=least, limit=limit)
    assert found.parts + sum(found.levels.values()) == 1
    assert found.parts >= least
    assert min([found.parts, *found.levels.values()]) > 0
    chosen = {at: float(weight) for at, weight in found.levels.items()}
    assert found.error == pytest.approx(error(ancestor, level, float(found.parts), chosen, limit))
    assert found.error <= error(ancestor, level, 1.0, {}, limit) + 1e-12
    present = np.unique(level)
    equal = 1 / (len(present) + 1)
    if equal >= least:
        # to the grid of weights, 1/1000
        alike = dict.fromkeys(present.tolist(), equal)
        assert found.error <= error(ancestor, level, equal, alike, limit) * 1.01


def test_a_star_gets_a_total_that_is_not_the_sum_of_its_parts() -> None:
    """Law: 360 parts alone leave the total off by 19 times the noise of one; now by 2."""
    star, level = np.array([-1] + [0] * 360), np.minimum(np.arange(361), 1)
    weights = level_strategy(level, star, by_user=False)
    assert set(weights) == {PARTS, 0}
    found = best_strategy(star, level, least_parts=LEAST_PARTS, limit=2.0)
    assert found.error < 2.1 < error(star, level, 1.0, {}, 2.0) / 4


def test_no_level_is_above_the_limit_where_that_can_be() -> None:
    """Law: with a limit the least error does not leave the few upper nodes to themselves."""
    ancestor = np.array([-1] + [0] * 6 + [1 + i // 60 for i in range(360)])
    level = np.array([0] + [1] * 6 + [2] * 360)

    def worst(limit: float) -> float:
        found = best_strategy(ancestor, level, least_parts=LEAST_PARTS, limit=limit)
        levels = {at: float(weight) for at, weight in found.levels.items()}
        spread = variances_of(ancestor, level, float(found.parts), levels)
        return max(float(np.sqrt(spread[level == at].mean())) for at in range(3))

    assert worst(4.0) < 4.05 < 5 < worst(math.inf)


@pytest.mark.parametrize(
    ("name", "value"),
    [*(("limit", x) for x in (0.0, -1.0, math.nan)),
     *(("least_parts", x) for x in (Fraction(-1, 2), Fraction(3, 2)))],
)  # fmt: skip
def test_limits_and_floors_that_are_none_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ParameterError, match=name):
        best_strategy(np.array([-1]), np.array([0]), **{name: value})


def test_totals_of_huge_numbers_add_up_exactly() -> None:
    """Law: every total is its part and the totals below it, in whole numbers beyond 64 bits; the
    estimates do not depend on how large they are."""
    ancestor, level = tree(60, 3, 1)
    draw = np.random.default_rng(3)
    huge = np.array([int(x) * 10**25 for x in draw.integers(-9, 9, 60)], dtype=object)
    noise = draw.integers(-1000, 1000, 60).astype(object)
    known = subtree_sums(huge, ancestor) + draw.integers(-100, 100, 60).astype(object)
    spread, variance = np.full(60, 1e6), np.where(level == 1, 1e4, np.inf)
    total, left = consistent_totals(ancestor, huge + noise, spread, known, variance)
    own = total.copy()
    np.subtract.at(own, ancestor[1:], total[1:])
    assert (subtree_sums(own, ancestor) == total).all()
    small, _ = consistent_totals(
        ancestor, noise, spread, known - subtree_sums(huge, ancestor), variance
    )
    assert (total - subtree_sums(huge, ancestor) == small).all()
    assert (left > 0).all()


@pytest.mark.parametrize("size", [1, 2**40, 2**57, 2**61, 2**62, 2**63, 10**30])
def test_sums_in_64_bits_are_those_of_any_size(size: int) -> None:
    """Law: totals are exact on both sides of what 64 bits hold, and Python's whole numbers."""
    ancestor, _ = tree(60, 3, 2)
    draw = np.random.default_rng(4)
    parts = np.array([int(x) * size + 1 for x in draw.integers(-3, 4, 60)], dtype=object)
    expected = parts.tolist()
    for v in range(59, 0, -1):
        expected[ancestor[v]] += expected[v]
    found = subtree_sums(parts, checked_forest(ancestor)).tolist()
    assert found == expected
    assert all(type(total) is int for total in found)


def error_of_nodes(
    ancestor: Whole, level: Whole, weights: NDArray[np.float64], limit: float
) -> float:
    """``_Tree.error`` node by node, in the same order of additions."""
    forest = checked_forest(ancestor)
    _, at = np.unique(level, return_inverse=True)
    at, steps = at[forest.order], list(forest.levels())
    vp, precision = np.full(len(at), weights[0] ** -2), weights[1:][at] ** 2
    terms, s = vp.copy(), vp / (1 + vp * precision)
    for top, here, group in reversed(steps):
        terms[top] += np.bincount(group, s[here], top.stop - top.start)
        s[top] = terms[top] / (1 + terms[top] * precision[top])
    for top, here, group in steps:
        share = s[here] / terms[top][group]
        s[here] = s[here] * (1 - share) + share * share * s[top][group]
    spread = np.sqrt(np.bincount(at, s) / np.bincount(at))
    return math.sqrt(s.sum() / len(s)) + STEEP * float(np.maximum(spread - limit, 0.0).sum())


def leafy_tree(seed: int) -> tuple[Whole, Whole]:
    """Parents with many leaves side by side, of one level or two, and with leaves beside others."""
    draw = np.random.default_rng(seed)
    ancestor, level = [-1], [0]
    for _ in range(int(draw.integers(1, 5))):
        above, mixed = len(ancestor), 0.1 * int(draw.integers(2))
        ancestor.append(0)
        level.append(int(draw.integers(1, 3)))
        for _ in range(int(draw.integers(0, 3))):
            leaves = int(draw.integers(1, 40))
            ancestor += [above] * leaves
            level += [level[above] + 1 + int(draw.random() < mixed) for _ in range(leaves)]
            if draw.random() < 0.4:
                ancestor += [len(ancestor) - 1] * 3
                level += [level[-1] + 1] * 3
    return np.array(ancestor), np.array(level)


@pytest.mark.parametrize("seed", range(12))
def test_errors_by_kinds_of_nodes_are_those_of_nodes_to_the_last_bit(seed: int) -> None:
    """Law: a last digit could decide between two strategies."""
    for ancestor, level in (leafy_tree(seed), tree(60, 4, seed)):
        made, draw = strategy._Tree.of(ancestor, level), np.random.default_rng(seed)
        for _ in range(5):
            weights = draw.random(len(made.levels) + 1) * np.append(
                1, draw.random(len(made.levels)) < 0.6
            )
            weights /= weights.sum()
            assert made.error(weights, 1.5) == error_of_nodes(ancestor, level, weights, 1.5)


def test_a_product_in_the_place_of_a_sum_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: many leaves of one kind, multiplied."""
    different = 0
    for seed in range(6):
        star = np.array([-1] + [0] * (3_000 + seed))
        made = strategy._Tree.of(star, np.minimum(np.arange(len(star)), 1))
        weights = np.random.default_rng(seed).dirichlet(np.ones(len(made.levels) + 1))
        true = made.error(weights, 1.5)
        with monkeypatch.context() as patch:
            patch.setattr(np, "cumsum", lambda one: one * np.arange(1, len(one) + 1))
            different += made.error(weights, 1.5) != true
    assert different


# -- levels that the caller calls important --------------------------------------------------------


def fans(*numbers: int) -> tuple[Whole, Whole]:
    """A tree whose nodes have so many children, level by level."""
    ancestor, level, above = [-1], [0], [0]
    for depth, number in enumerate(numbers, 1):
        first = len(ancestor)
        ancestor += [node for node in above for _ in range(number)]
        level += [depth] * (len(ancestor) - first)
        above = list(range(first, len(ancestor)))
    order = np.arange(len(ancestor))
    return np.array(ancestor)[order], np.array(level)


def mean_variances(ancestor: Whole, level: Whole, weights: Any) -> NDArray[np.float64]:
    """Of the totals of each level, by the general way; the weight of parts comes first."""
    own = {at: float(weight) for at, weight in enumerate(weights[1:])}
    spread = variances_of(ancestor, level, float(weights[0]), own)
    return np.array([spread[level == at].mean() for at in np.unique(level)])


def weights_of(found: Strategy, levels: int) -> list[float]:
    return [float(found.parts), *(float(found.levels.get(at, 0)) for at in range(levels))]


IMPORTANT: list[tuple[float, ...]] = [
    (0, 3, 1), (1, 0, 0), (1, 1, 1), (0, 1, 1), (9, 4, 1), (0, 0, 1), (1e-3, 1, 50), (5, 0, 2),
]  # fmt: skip


def aim(variance: NDArray[np.float64], importance: Importance) -> float:
    if importance == "even":
        return math.sqrt(variance.max())
    return math.sqrt(variance @ importance / sum(importance))


@cache
def on_a_grid(numbers: tuple[int, ...], step: int) -> tuple[list[Any], NDArray[np.float64]]:
    """All weights of parts and levels that are whole numbers of 1/step, and variances of levels."""
    ancestor, level = fans(*numbers)
    several = [
        np.array([1, *one]) + np.eye(len(numbers) + 2, dtype=int)[0] * (step - 1 - sum(one))
        for one in np.ndindex(*[step] * (len(numbers) + 1))
        if sum(one) < step
    ]
    return several, np.array([mean_variances(ancestor, level, w / step) for w in several])


def least_on_a_grid(numbers: tuple[int, ...], importance: Importance) -> float:
    """The slow twin: the least error of all weights on a coarse grid."""
    return min(aim(one, importance) for one in on_a_grid(numbers, 20)[1])


TREES = (4, 12), (30, 3), (2, 2)


@pytest.mark.parametrize("numbers", TREES)
def test_importance_finds_the_least_error_of_a_grid(numbers: tuple[int, ...]) -> None:
    """Law: weights sum to 1; the error is that of least squares, and at most that of any weights in
    twentieths; the parts have a twentieth. The scale of importance does not matter."""
    ancestor, level = fans(*numbers)
    for importance in [*IMPORTANT, "even"]:
        own: Any = importance
        found = best_strategy(ancestor, level, least_parts=LEAST_IMPORTANT_PARTS, importance=own)
        assert found.parts + sum(found.levels.values()) == 1
        assert found.parts >= LEAST_IMPORTANT_PARTS
        variance = mean_variances(ancestor, level, weights_of(found, 3))
        assert found.error == pytest.approx(aim(variance, own))
        assert found.error <= least_on_a_grid(numbers, own) * 1.002
        weights = level_strategy(level, ancestor, by_user=False, importance=own)
        assert weights == {PARTS: found.parts, **found.levels}
        if own != "even":
            wide = tuple(64 * one for one in own)
            assert level_strategy(level, ancestor, by_user=True, importance=wide) == weights


def test_a_search_without_every_two_levels_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: steps from what all levels together would be, where the least error has several
    minima."""
    ancestor, level = fans(4, 5, 5)
    monkeypatch.setattr(strategy, "_important_sets", lambda weights: [weights])
    monkeypatch.setattr(strategy, "_level_sets", lambda depth: [])
    poor = strategy._search_strategy.__wrapped__
    importance = (0.0, 1.0, 1.0, 1.0)
    tree_of = strategy._Tree.of(ancestor, level)
    planted = poor(tree_of, 50, math.inf, importance).error
    monkeypatch.undo()
    assert planted > 1.05 * poor(tree_of, 50, math.inf, importance).error


@pytest.mark.parametrize("seed", range(6))
def test_a_level_that_is_more_important_gets_no_larger_error(seed: int) -> None:
    """Law: with t more of importance the variance of a level can only fall, up to what a search
    within a hundredth of the least error leaves, divided by t."""
    draw = np.random.default_rng(seed)
    ancestor, level = fans(*draw.integers(2, 6, 3).tolist())
    importance = draw.random(4) * (draw.random(4) < 0.7) + 1e-3

    def variances(own: Any) -> NDArray[np.float64]:
        found = best_strategy(
            ancestor, level, least_parts=LEAST_IMPORTANT_PARTS, importance=tuple(own)
        )
        return mean_variances(ancestor, level, weights_of(found, 4))

    before = variances(importance)
    for at in range(4):
        more = importance + 10 * np.eye(4)[at]
        after = variances(more)
        left = 0.02 * (importance @ before + more @ after) / 10
        assert after[at] <= before[at] + left


def test_even_levels_have_the_least_worst_error() -> None:
    """Law: no strategy of these is better at its worst level; the usual one is a fifth worse."""
    ancestor, level = fans(5, 10, 10)

    def worst(weights: Any) -> float:
        own = [float(weights.get(at, 0)) for at in (PARTS, *range(4))]
        return float(np.sqrt(mean_variances(ancestor, level, own).max()))

    even = worst(level_strategy(level, ancestor, by_user=False, importance="even"))
    assert worst(level_strategy(level, ancestor, by_user=False)) > 1.2 * even
    for importance in [(1.0,) * 4, (4.0, 3, 2, 1), (1.0, 2, 3, 4), (0.0, 1, 1, 1)]:
        given = level_strategy(level, ancestor, by_user=False, importance=importance)
        assert even < 1.01 * worst(given)


def test_importance_of_levels_without_nodes_changes_nothing() -> None:
    """Law: what is not shown has no error; with nothing else important the usual strategy holds."""
    ancestor, level = fans(3, 4)
    usual = level_strategy(level, ancestor, by_user=False)
    assert level_strategy(level, ancestor, by_user=False, importance=(0, 0, 0, 1.0)) == usual
    both = [
        level_strategy(level, ancestor, by_user=False, importance=(0, 1.0, 0, x)) for x in (0, 9)
    ]
    assert both[0] == both[1] != usual


@pytest.mark.parametrize("importance", [(0.0, 0.0), (-1.0, 2.0), (math.nan, 1.0), (math.inf, 1.0)])
def test_importance_that_is_none_is_refused(importance: Any) -> None:
    with pytest.raises(ParameterError, match="importance"):
        best_strategy(np.array([-1, 0]), np.array([0, 1]), importance=importance)
