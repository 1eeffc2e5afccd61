"""Values found in rounds of weights: exact laws of tiny cases through the shipped code, and bugs.

All outcomes of the noise are enumerated at once: every combination is a copy of the data with users
and values of its own, which the shipped code weighs, adds up and compares as if it were one table.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import dpframe as dp
from dpframe.accounting import weighted_round_noise as accounting
from dpframe.accounting.weighted_round_noise import (
    SPARED,
    Law,
    RoundLaws,
    lone_value_chance,
    round_laws,
)
from dpframe.counts import CountTree
from dpframe.mechanisms import weighted_rounds
from dpframe.noise import NoiseTable, rounded_normal
from dpframe.questions.hhh.rounds_plan import group_shares
from dpframe.sources import user_nodes
from dpframe.sources.node_values import ceil_root, floor_root
from dpframe.sources.user_nodes import UserNodes, place_nodes
from tests.members import some

from .enumerate_outputs import worst

Data = Sequence[Sequence[int]]
"""The values of every user."""

EPSILONS = (0.0, 0.3, 1.0, 2.0)


def pairs(
    data: Data,
    values: int,
    copies: int = 1,
    items: int = 99,
    parents: Sequence[int] = (),
    shares: tuple[int, ...] = (),
) -> UserNodes:
    """So many copies of the data, each with users and values of its own. With ``parents`` values
    are nodes in preorder, and ``data`` has the finest nodes of users; -1 is the root."""
    above = np.array(parents or [-1] * values)
    level = np.ones(values, dtype=np.int64)
    for v, parent in enumerate(parents):
        level[v] += level[parent] if parent >= 0 else 0
    at = np.arange(copies)[:, None]
    nodes = 1 + values * at
    user = np.repeat(np.arange(len(data)), [len(held) for held in data])
    value = np.array([v for held in data for v in held], dtype=np.int64)
    first = np.array([i for held in data for i in range(len(held))], dtype=np.uint64)
    return place_nodes(
        CountTree(
            level=np.concatenate([[0], np.tile(level, copies)]),
            parent=np.concatenate([[-1], np.where(above < 0, 0, above + nodes).ravel()]),
            count=np.zeros(1 + values * copies, dtype=np.int64),
            keys=(pa.chunked_array([pa.nulls(1 + values * copies, pa.string())]),),
        ),
        int(level.max()),
        len(data) * copies,
        (user + len(data) * at).ravel(),
        (value + nodes).ravel(),
        np.tile(first, copies).__getitem__,  # those listed first take part
        items,
        shares or group_shares(int(level.max())),
        (int(level.max()),),
    )


@dataclass(frozen=True)
class Enumerated:
    """In the place of a table: draws that were written down."""

    drawn: NDArray[np.int64]

    def draw(self, n: int) -> NDArray[np.int64]:
        assert n == len(self.drawn)
        return self.drawn


Find = Callable[[UserNodes, RoundLaws], NDArray[np.bool_]]


def found_laws(
    data: Data,
    values: int,
    laws: RoundLaws,
    find: Find = weighted_rounds.find_nodes,
    parents: Sequence[int] = (),
) -> dict[tuple[int, ...], float]:
    """P(exactly these values are found); values that nobody has are never found."""
    tables = [one.noise for one in laws.rounds for _ in range(values)]
    grids = np.meshgrid(*(np.arange(len(t.weights)) for t in tables), indexing="ij")
    places = np.stack([g.ravel() for g in grids])  # (rounds * values, copies)
    chance = np.prod([t.pmf[p] for t, p in zip(tables, places, strict=True)], axis=0)
    copies = places.shape[1]
    by_round = zip(laws.rounds, np.split(places, len(laws.rounds)), strict=True)
    drawn = tuple(
        replace(one, noise=Enumerated((at.T + one.noise.lowest).ravel())) for one, at in by_round
    )
    found = find(pairs(data, values, copies, parents=parents), replace(laws, rounds=drawn))
    held = np.zeros(values, dtype=np.bool_)
    held[[v for user in data for v in user]] = True
    for v in range(len(parents) - 1, -1, -1):
        if held[v] and parents[v] >= 0:
            held[parents[v]] = True
    shown = found[1:].reshape(copies, values) & held  # what nobody has is not there
    codes = shown @ (1 << np.arange(values))
    total = np.bincount(codes, weights=chance, minlength=1 << values)
    return {
        tuple(v for v in range(values) if code >> v & 1): float(p)
        for code, p in enumerate(total)
        if p > 0
    }


def tiny(
    *,
    parts: Sequence[int],
    norm: int = 2,
    sigma: float = 2.4,
    bound: int = 9,
    items: int = 2,
    threshold: int,
) -> RoundLaws:
    """Laws whose outcomes can be written down."""
    table = rounded_normal(sigma, bound)
    rounds = [Law(noise=table, sigma=sigma, norm=norm, values=items, part=p) for p in parts]
    count = Law(noise=rounded_normal(1e6, 10), sigma=1e6, norm=1, values=1)
    return laws_of(*rounds, items=items, threshold=threshold, count=count)


def laws_of(*rounds: Law, items: int, threshold: int, count: Law) -> RoundLaws:
    known: Any = {"items": items, "threshold": threshold, "count": count}
    return RoundLaws(rounds=rounds, sizes=None, delta=1.0, **known)


QUIET = Law(noise=rounded_normal(1e3, 9500), sigma=1e3, norm=1, values=0)
"""Noise that tells nothing."""


def finding_cost(laws: RoundLaws, epsilon: float) -> float:
    """What rounds alone cost: counts are left out of what is enumerated."""
    told = accounting._rounds_leakage(replace(laws, count=QUIET))
    return min(1.0, told.delta(epsilon) + lone_value_chance(laws))


TWO_ROUNDS = tiny(parts=(1, 1), threshold=14, bound=8)
THREE = tiny(parts=(1,), items=3, threshold=9)
OTHERS = [[0, 1]] * 3 + [[0]] * 2
CASES: list[tuple[str, RoundLaws, Data, Sequence[int], int]] = [
    ("all values are new", TWO_ROUNDS, [], [0, 1], 2),
    ("one value is new", TWO_ROUNDS, [[0]] * 4, [0, 1], 2),
    ("nothing is new", TWO_ROUNDS, OTHERS, [0, 1], 2),
    ("one value of two", TWO_ROUNDS, OTHERS, [0], 2),
    ("the other value", TWO_ROUNDS, OTHERS, [1], 2),
    ("parts of different weight", tiny(parts=(1, 2), threshold=19, bound=8), OTHERS, [1], 2),
    ("one round, four new", tiny(parts=(1,), items=4, threshold=9), [], [0, 1, 2, 3], 4),
    ("one round, one of three new", THREE, [[0, 1]] * 4, [0, 2], 3),
    ("three rounds", tiny(parts=(1, 1, 1), threshold=15, bound=9), [[0]] * 3, [0], 1),
]


def apart(
    laws: RoundLaws,
    others: Data,
    user: Sequence[int],
    values: int,
    find: Find = weighted_rounds.find_nodes,
    parents: Sequence[int] = (),
) -> Callable[[float], float]:
    """The larger divergence of both directions, at any epsilon."""
    both = [found_laws(data, values, laws, find, parents) for data in (others, [*others, user])]
    assert all(sum(law.values()) == pytest.approx(1) for law in both)
    return lambda epsilon: worst(*both, math.exp(epsilon))


@pytest.mark.parametrize("case", [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_no_neighbours_are_told_apart_better_than_is_claimed(case: Any) -> None:
    """Law: exact divergences in both directions are at most the computed delta, at any epsilon."""
    exact = apart(*case)
    for epsilon in EPSILONS:
        assert exact(epsilon) <= finding_cost(case[0], epsilon)


# -- the same check with bugs ----------------------------------------------------------------------


def test_a_round_that_is_not_paid_for_is_found_out() -> None:
    """Bug: of two rounds one is left out of what they tell; the value that decides is near the
    threshold."""
    laws = tiny(parts=(1, 1), threshold=14, bound=9)
    unpaid = replace(laws, rounds=laws.rounds[:1])
    actual = max(apart(laws, [[0]] * n, [0], 1)(0.3) for n in (2, 3, 4))
    assert finding_cost(unpaid, 0.3) - lone_value_chance(unpaid) + lone_value_chance(laws) < actual
    assert actual <= finding_cost(laws, 0.3)


def by_true_weights(items: UserNodes, laws: RoundLaws) -> NDArray[np.bool_]:
    """Bug: users follow weights of which no noise was added."""
    importance = np.full(items.size, weighted_rounds.PLAIN, dtype=np.int64)
    score = np.zeros(items.size, dtype=np.int64)
    true = np.zeros(items.size, dtype=np.int64)
    for t, one in enumerate(laws.rounds):
        weights = items.weigh(importance, one.norm)
        true += one.part * weights
        score[1:] += one.part * (weights[1:] + one.noise.draw(items.size - 1))
        importance = weighted_rounds._importance(
            true, true >= laws.threshold, laws.rounds[: t + 1], laws.rounds[t + 1 :], laws
        )
    return np.asarray(score >= laws.threshold)


def test_users_that_follow_what_was_not_released_are_found_out() -> None:
    """Bug: whether a value is found already decides, without noise, what 6 users give another."""
    laws = tiny(parts=(1, 1), threshold=14, bound=8)
    others = [[0, 1]] * 6 + [[0]] * 3
    assert apart(laws, others, [0], 2, by_true_weights)(0.3) > finding_cost(laws, 0.3)
    assert apart(laws, others, [0], 2)(0.3) <= finding_cost(laws, 0.3)


def test_a_threshold_for_one_new_value_is_found_out() -> None:
    """Bug: of four new values of one user only one is thought of."""
    laws = tiny(parts=(1,), sigma=3.2, bound=12, items=4, threshold=11)
    shown = found_laws([[0, 1, 2, 3]], 4, laws)
    actual = 1 - shown[()]
    assert actual <= lone_value_chance(laws)
    assert actual > lone_value_chance(replace(laws, items=1))


def test_values_that_take_no_part_are_never_found() -> None:
    """Bug: of a user with many values only one takes part, and noise finds one of the others."""
    laws = tiny(parts=(1,), sigma=3.2, bound=12, items=1, threshold=9)
    data, copies = [[0, 1, 2, 3]], 25**4
    items = pairs(data, 4, copies, items=1)
    noise = laws.rounds[0].noise
    places = np.stack([g.ravel() for g in np.meshgrid(*[np.arange(25)] * 4, indexing="ij")])
    chance = np.prod(noise.pmf[places], axis=0)
    drawn = Enumerated((places.T + noise.lowest).ravel())
    one = replace(laws.rounds[0], noise=drawn)
    found = weighted_rounds.find_nodes(items, replace(laws, rounds=(one,)))[1:].reshape(copies, 4)
    assert not found[:, 1:].any()
    assert chance[found.any(axis=1)].sum() <= lone_value_chance(laws)
    scores = items.weigh(np.full(items.size, 512), 2)[1:] + drawn.drawn
    careless = (scores >= laws.threshold).reshape(copies, 4)
    assert chance[careless.any(axis=1)].sum() > lone_value_chance(laws)


def test_a_normal_table_for_noise_on_whole_numbers_is_found_out() -> None:
    """Bug: the chance that noise reaches the threshold is read off the continuous normal law."""
    laws = tiny(parts=(1,), items=1, threshold=10, bound=16)
    actual = 1 - found_laws([[0]], 1, laws)[()]
    assert actual <= lone_value_chance(laws) <= actual * 1.01  # one value, one round: exact
    x = laws.threshold - laws.unit
    assert actual > accounting.gaussian_tail_bound(x, laws.rounds[0].sigma) * 1.1


# -- counts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("at_most", [1, 2, 3])
def test_counts_of_found_values_are_within_their_claim(at_most: int) -> None:
    """Law: of one user the counts of all found values together, as they are drawn."""
    law = Law(noise=rounded_normal(6.0, 30), sigma=6.0, norm=4, values=16)
    laws = laws_of(QUIET, items=3, threshold=10**6, count=law)
    found, data = np.array([False, True, True]), [[0, 1]] * 3
    exact = [pairs(own, 2).count_users(found, law.norm, at_most) for own in (data[1:], data)]
    here, there = (_shifted(law.noise, each) for each in exact)
    for epsilon in EPSILONS:
        for one, other in ((here, there), (there, here)):
            actual = np.maximum(one - math.exp(epsilon) * other, 0).sum()
            assert actual <= accounting._rounds_leakage(laws).delta(epsilon)
    if at_most > 1:  # two values of norm 4 each would be too much for one count that moves by 4
        once, twice = (_shifted(law.noise, exact[0] + more) for more in (0, law.norm))
        assert np.maximum(twice - once, 0).sum() > accounting._rounds_leakage(laws).delta(0.0)


def _shifted(noise: NoiseTable, exact: NDArray[np.int64]) -> NDArray[np.float64]:
    """The joint law of two noisy counts."""
    out = []
    for n in exact:
        row = np.zeros(200)
        row[100 + noise.lowest + int(n) : 100 + noise.highest + int(n) + 1] = noise.pmf
        out.append(row)
    return np.outer(out[0], out[1])


def test_a_user_is_in_one_bin_of_the_histogram() -> None:
    """Law: 1, 2 to 3, 4 to 7 values, and so on; who has none of the found ones is in none."""
    held = [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3], [4]]
    sizes = pairs(held, 5).sizes(np.array([False, True, True, True, True, False]), 3)
    assert sizes.tolist() == [1, 2, 1]


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 5.0])
def test_the_bound_that_is_found_is_near_the_best_and_wastes_nothing(epsilon: float) -> None:
    """Law: of an exact histogram the bound has at most 1.05 times the least error of any bound, for
    values that differ as much as their users do; a larger one would have more noise."""
    laws = round_laws(epsilon=epsilon, delta=1e-6, release_share=0.2, items=500, histograms=1)
    many, users = 81, [572, 794, 554, 1053, 500, 340, 157, 60]
    sizes = np.repeat([1, 2, 5, 12, 20, 28, 40, 55], users)
    bins, law = many.bit_length(), laws.count_law
    exact = np.bincount(np.frexp(sizes.astype(float))[1] - 1, minlength=bins)

    def weight(at_most: int) -> int:
        return weighted_rounds.full_user_weights([law.norm], [at_most])[0]

    def error(at_most: int) -> float:
        lost = float((sizes * (1 - np.sqrt(np.minimum(1, at_most / sizes)))).sum()) / many
        return math.hypot(lost, law.sigma / weight(at_most))

    assert laws.sizes is not None
    seen = weighted_rounds.Sizes.of(exact, many, laws.sizes.sigma)
    best = weighted_rounds.best_at_most(seen, law, law.norm)
    assert error(best) <= 1.05 * min(map(error, range(1, many + 1)))
    whole, less = (weight(n) for n in (best, best + 1))
    assert best == many or less < whole


def test_bins_of_noise_alone_choose_no_bound() -> None:
    """Law: a bin that noise alone explains counts nothing, whatever its size."""
    laws = round_laws(epsilon=1.0, delta=1e-6, release_share=0.2, items=500, histograms=1)
    assert laws.sizes is not None
    noisy, law = np.array([4000, 0, 0, 0, 0, 0, math.floor(laws.sizes.sigma)]), laws.count_law
    for bins in (noisy, -noisy):
        seen = weighted_rounds.Sizes.of(bins, 100, laws.sizes.sigma)
        assert weighted_rounds.best_at_most(seen, law, law.norm) == 1


# -- what one user adds ----------------------------------------------------------------------------

HELD = st.lists(st.sets(st.integers(0, 9), min_size=1).map(sorted), min_size=1, max_size=5)
IMPORTANCE = st.lists(st.integers(0, 2000), min_size=10, max_size=10)


@given(HELD, IMPORTANCE, st.sampled_from([1, 2, 16, 4096]))
def test_what_a_user_adds_is_within_the_norm_and_their_own(
    held: Data, importance: list[int], norm: int
) -> None:
    """Law: the difference that a user makes has at most the norm, and does not depend on others."""
    weighed = np.array([7, *importance], dtype=np.int64)
    added = pairs(held, 10).weigh(weighed, norm) - pairs(held[1:] or [[]], 10).weigh(weighed, norm)
    assert (added >= 0).all()
    assert sum(int(a) ** 2 for a in added) <= norm**2
    assert (added == pairs(held[:1], 10).weigh(weighed, norm)).all()


@given(HELD, st.integers(1, 12), st.sampled_from([1, 4, 128]))
def test_what_a_user_counts_is_within_the_norm(held: Data, at_most: int, norm: int) -> None:
    """Law: as above, at the found values."""
    found = np.arange(11) % 3 != 1
    added = pairs(held[:1], 10).count_users(found, norm, at_most)
    assert sum(int(a) ** 2 for a in added) <= norm**2
    many = len([v for v in held[0] if found[v + 1]])
    if 0 < many <= at_most:
        assert set(added[added > 0].tolist()) <= {math.isqrt(norm**2 // at_most)}


@given(HELD, IMPORTANCE, st.integers(1, 6), st.integers(1, 6))
def test_compiled_loops_give_the_same_numbers(
    held: Data, importance: list[int], at_most: int, first: int
) -> None:
    """Law: tables of any length are weighed alike."""
    items, weighed = pairs(held, 10, items=first), np.array([7, *importance], dtype=np.int64)
    found = np.arange(11) % 3 != 1

    def numbers() -> list[list[int]]:
        return [
            items.weigh(weighed, 4096).tolist(),
            items.count_users(found, 128, at_most).tolist(),
            items.sizes(found, 4).tolist(),
            items.is_searched.tolist(),
        ]

    with pytest.MonkeyPatch.context() as patched:
        short = numbers()
        patched.setattr(user_nodes, "LONG", 0)
        assert numbers() == short


@given(st.integers(0, 2**50))
def test_roots_are_exact(n: int) -> None:
    squares = np.array([n])
    assert floor_root(squares)[0] == math.isqrt(n)
    assert ceil_root(squares)[0] == math.isqrt(n) + (math.isqrt(n) ** 2 < n)


# -- calibration -----------------------------------------------------------------------------------


@some(0, 2, 4)
@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-6), (1.0, 1e-8), (3.0, 1e-5), (10.0, 1e-6)]
)
def test_laws_keep_the_budget(epsilon: float, delta: float) -> None:
    """Law: strictly, computed again from the tables; a threshold less takes what is spared for the
    verifier, and a round more breaks it."""
    for histograms, items in itertools.product((0, 1, 2), (1, 500)):
        budget = {"epsilon": epsilon, "delta": delta}
        laws = round_laws(**budget, release_share=0.2, items=items, histograms=histograms)
        assert laws.cost(epsilon) == laws.delta <= delta
        lower = replace(laws, threshold=laws.threshold - laws.unit // 8)
        assert lower.cost(epsilon) > delta * (1 - SPARED) >= laws.delta
        longer = replace(laws, rounds=(*laws.rounds, laws.rounds[0]))
        assert longer.cost(epsilon) > delta
        assert laws.cost(0.0) >= laws.cost(epsilon / 2) >= laws.cost(epsilon)


def test_the_chance_of_a_new_value_is_that_of_sums_of_tables() -> None:
    """Law: the bound for several rounds is above the exact tail of the sums that are drawn, by
    convolution, and not by much."""
    laws = tiny(parts=(1, 2), sigma=5.0, bound=40, items=1, threshold=60)
    one, two = (law.noise.pmf for law in laws.rounds)
    spread = np.zeros(2 * len(two) - 1)
    spread[::2] = two
    total = np.convolve(one, spread)
    lowest = laws.rounds[0].noise.lowest + 2 * laws.rounds[1].noise.lowest
    least = laws.threshold - laws.unit * 3
    exact = total[least - lowest :].sum()
    bound = accounting._lone_score_chance(laws.rounds, laws.threshold, laws.unit)
    assert exact <= bound <= 2 * exact


# -- nodes of several levels -----------------------------------------------------------------------

TREE = (-1, 0, 0)
"""Node 0 is above the nodes 1 and 2."""

SHORT = tiny(parts=(1, 1), norm=4, bound=4, items=3, threshold=12)
ONCE = tiny(parts=(1,), norm=4, items=3, threshold=11)
NODES: list[tuple[str, RoundLaws, Data, Sequence[int]]] = [
    ("all nodes are new", ONCE, [], [1, 2]),
    ("one finest node is new", ONCE, [[1]] * 3, [1, 2]),
    ("only the node above is known", ONCE, [[2]] * 3, [1]),
    ("nothing is new", ONCE, [[1, 2]] * 2, [1]),
    ("a key above another key", ONCE, [[0, 1]] * 2, [0, 1]),
    ("two rounds, all new", SHORT, [], [1]),
    ("two rounds, what is found implies", SHORT, [[1]] * 2 + [[2]], [1]),
    ("two rounds, a key above another key", SHORT, [[0]] * 2 + [[1]], [0, 1]),
]


@pytest.mark.parametrize("case", [c[1:] for c in NODES], ids=[c[0] for c in NODES])
def test_no_neighbours_are_told_apart_by_nodes(case: Any) -> None:
    """Law: as for values, with nodes of two levels in one search."""
    laws, others, user = case
    exact = apart(laws, others, user, 3, parents=TREE)
    for epsilon in EPSILONS:
        assert exact(epsilon) <= finding_cost(laws, epsilon)


def by_what_is_there(nodes: UserNodes, laws: RoundLaws) -> NDArray[np.bool_]:
    """Bug: a node above one that anybody has gets no weight, found or not."""
    there = nodes.nodes.nodes_above(nodes.is_searched)
    weighed = nodes.weigh(np.where(there, 0, weighted_rounds.PLAIN), laws.unit)
    score = weighed
    score[1:] += laws.rounds[0].noise.draw(nodes.size - 1)
    return np.asarray(score >= laws.threshold)


def test_weights_that_look_at_nodes_that_were_not_released_are_found_out() -> None:
    """Bug: whether six users weigh a node depends on whether one user has a node below it."""
    laws = tiny(parts=(1,), norm=4, items=2, threshold=20)
    others = [[0]] * 6
    assert apart(laws, others, [1], 3, by_what_is_there, TREE)(0.3) > finding_cost(laws, 0.3)
    assert apart(laws, others, [1], 3, parents=TREE)(0.3) <= finding_cost(laws, 0.3)


LEAVES = st.lists(st.sets(st.integers(0, 9), min_size=1).map(sorted), min_size=1, max_size=5)
PARENTS = (-1, 0, 1, 1, 0, 4, -1, 6, 7, 6)
"""Ten nodes of three levels; users may have any of them as a finest node."""


@given(LEAVES, IMPORTANCE, st.sampled_from([2, 16, 4096]), st.integers(3, 12))
def test_what_a_user_adds_to_nodes_is_within_the_norm_and_their_own(
    held: Data, importance: list[int], norm: int, items: int
) -> None:
    """Law: as for values; a node is in one group of a user, once, and few enough take part."""
    weighed = np.array([7, *importance], dtype=np.int64)
    whole, rest, own = (
        pairs(data, 10, items=items, parents=PARENTS) for data in (held, held[1:] or [[]], held[:1])
    )
    added = whole.weigh(weighed, norm) - rest.weigh(weighed, norm)
    assert sum(int(a) ** 2 for a in added) <= norm**2
    assert (added == own.weigh(weighed, norm)).all()
    assert own.searched.sum() <= items
    assert len(set(own.node.tolist())) == len(own.node)
    with_ancestors = {0}
    for v in held[0]:
        while v >= 0:
            with_ancestors.add(v + 1)
            v = PARENTS[v]
    assert set(own.node.tolist()) == with_ancestors
    counted = own.count_users(np.ones(11, dtype=np.bool_), norm, 3)
    assert sum(int(a) ** 2 for a in counted) <= norm**2
    with pytest.MonkeyPatch.context() as patched:
        slow = whole.weigh(weighed, norm).tolist(), whole.is_searched.tolist()
        patched.setattr(user_nodes, "LONG", 0)
        assert (whole.weigh(weighed, norm).tolist(), whole.is_searched.tolist()) == slow


def test_counts_of_both_parts_are_within_one_norm() -> None:
    """Law: the lowest nodes and those above them divide the norm, whatever is found."""
    laws = round_laws(epsilon=1.0, delta=1e-6, release_share=0.2, items=500, histograms=2)
    low, above = weighted_rounds.part_norms(laws.count_law, parts=2)
    assert low**2 + above**2 <= laws.count_law.norm**2 < low**2 + (above + 1) ** 2


DEEP = "path:x?depth=16"


def deep_weights(rows: list[tuple[int, str]], height: int | None = None) -> dict[Any, int]:
    """What all users give to every node of a path of up to 16 parts, by its key and level."""
    plan = dp.explain(DEEP, user="u", mechanism="rounds", epsilon=1.0, delta=1e-6).plan
    frame = pd.DataFrame(rows, columns=["u", "x"])
    asked = (plan.hierarchy, plan.unit, plan.items, plan.shares)
    if height is None:
        nodes = user_nodes.user_nodes(frame, *asked)
    else:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(type(plan.hierarchy), "height", height)
            nodes = user_nodes.user_nodes(frame, *asked)
    given = nodes.weigh(np.full(nodes.size, weighted_rounds.PLAIN), 4096).tolist()
    keys = nodes.nodes.keys[0].to_pylist()
    return dict(zip(zip(keys, nodes.nodes.level.tolist(), strict=True), given, strict=True))


def distance(one: dict[Any, int], other: dict[Any, int]) -> float:
    return math.dist(*([each.get(node, 0) for node in {**one, **other}] for each in (one, other)))


def test_the_deepest_path_of_one_user_moves_no_weight_of_others() -> None:
    """Law: bands of levels follow the declared height. Bug: they follow the deepest node there is,
    so that one user moves what 200 others give."""
    others = [(u, f"a/b/{u}") for u in range(200)]
    more = [*others, (999, "/".join("zyxwvutsrqponmlk"))]
    assert distance(deep_weights(others), deep_weights(more)) <= 4096
    assert distance(deep_weights(others, 3), deep_weights(more, 16)) > 40_000
