"""Different users at nodes: whole releases of tiny tables, enumerated for neighbours by one user.

Counts come from the shipped statement, under one secret seed for both neighbours (a release draws
the seed first, and what holds for every seed holds for their mixture). Every value of every draw
goes through the shipped mechanism. Planted bugs are rejected by the check that the shipped code
passes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import dpframe as dp
from dpframe.accounting.losses import composed_profile
from dpframe.accounting.tree_levels import NodeLaws, node_laws
from dpframe.budget import NodesUnit
from dpframe.counts import CountTree, ListedNodes
from dpframe.hierarchy import as_hierarchy
from dpframe.mechanisms import level_counts as mechanism
from dpframe.sources import exact_trees as source
from dpframe.sources.keys import listed_nodes
from dpframe.sources.user_rows import UserRows

from .enumerate_outputs import hockey_stick, law_of
from .tree_outputs import by_hand, composed, no_intervals, scripted, symmetric, tables

Rows = Sequence[tuple[str | None, str, str]]
"""User, and the values of two columns."""

TREE = as_hierarchy(["a", "b"])
NOISE = symmetric(2, 1)
EPSILONS = (0.4, 1.0, 2.0)
BEYOND = 10.0
"""An epsilon above every finite loss: what is left is what one neighbour alone can show."""

OTHERS: Rows = [*((u, "x", "1") for u in (*"qrs", None)), *((u, "y", "2") for u in "tuvw")]
"""Four users at either node, which are shown whatever the noise."""

NEW: dict[str, Rows] = {
    "one of theirs": [("n", "x", "1")],
    "often at one": [("n", "y", "2")] * 3,
    "both of theirs": [("n", "x", "1"), ("n", "y", "2")],
    "beside theirs": [("n", "x", "1"), ("n", "x", "9")],
    "many, some new": [("n", "x", "1"), ("n", "y", "3"), ("n", "z", "9")],
    "of their own": [("n", "z", "8"), ("n", "z", "9")],
}


def laws_of(at_most: int, *, listed: ListedNodes | None = None) -> NodeLaws:
    """By hand, as many counts as a user moves."""
    sizes = [1, at_most, at_most]
    if listed is not None:
        sizes = [min(at_most, n) for n in np.bincount(listed.level).tolist()]
    return NodeLaws(moved=by_hand(*[NOISE] * sum(sizes)), times=tuple(sizes))


def counted(
    rows: Rows, at_most: int, seed: int, listed: ListedNodes | None = None, band: int = 1
) -> CountTree:
    frame = pd.DataFrame(rows, columns=["user", "a", "b"])
    unit = NodesUnit(user="user", contribution="items", at_most=at_most)
    with mock.patch.object(source, "random_seed", return_value=seed):
        return source.node_users(frame, TREE, unit, band, listed=listed)


def named(tree: Any, counts: NDArray[np.int64]) -> dict[tuple[Any, ...], int]:
    keys = zip(tree.level.tolist(), *(key.to_pylist() for key in tree.keys), strict=True)
    return dict(zip(keys, counts.tolist(), strict=True))


Run = Callable[[CountTree, NodeLaws], Any]


def found(tree: CountTree, laws: NodeLaws) -> Any:
    thresholds = laws.levels.thresholds
    return mechanism.run_unlisted_users(tree, laws=laws, thresholds=thresholds, confidence=0.8)


def every_listed(tree: CountTree, laws: NodeLaws) -> Any:
    return mechanism.run_listed_users(tree, laws=laws, confidence=0.8)


def law(tree: CountTree, laws: NodeLaws, run: Run = found) -> dict[Any, Fraction]:
    """P(output), over every value of every draw."""
    with no_intervals():
        return law_of(
            lambda script: run(tree, replace(laws, moved=scripted(laws.moved, script))),
            lambda noisy: tuple(sorted(named(noisy, noisy.count).items(), key=str)),
        )


def furthest(
    at_most: int,
    run: Run = found,
    *,
    new: Rows,
    epsilon: float,
    listed: ListedNodes | None = None,
    others: Rows = OTHERS,
    band: int = 2,
) -> Fraction:
    """The larger hockey stick of both directions, of the worst seed."""
    laws, worst, t = laws_of(at_most, listed=listed), Fraction(0), math.exp(epsilon)
    for seed in (1, 2):
        one, other = (
            law(counted(rows, at_most, seed, listed, band), laws, run)
            for rows in (others, [*others, *new])
        )
        worst = max(worst, hockey_stick(one, other, t), hockey_stick(other, one, t))
    return worst


@pytest.mark.parametrize("at_most", [1, 2])
def test_no_user_is_further_than_the_counts_that_they_move(at_most: int) -> None:
    """Law: D(M(D) || M(D')) <= D of T counts that all move by one, exactly, <= composed_profile.

    Attained where a user moves nodes that are shown anyway: nothing smaller could be claimed.
    """
    moved, epsilon = tables(laws_of(at_most).moved), 1.0
    twin = composed(moved, epsilon)
    apart = {name: furthest(at_most, new=new, epsilon=epsilon) for name, new in NEW.items()}
    assert max(apart.values()) <= twin
    assert apart["both of theirs" if at_most == 2 else "one of theirs"] == twin
    (claimed,) = composed_profile(moved, epsilons=(epsilon,), step=1e-4)
    assert twin <= claimed[1] <= float(twin) + 1e-3


def test_nodes_that_are_never_shown_need_not_be_drawn_for() -> None:
    """Law: with noise on every node of anybody the divergence is the same as with the band."""
    for name in ("of their own", "beside theirs"):
        few, all_of_them = (furthest(1, new=NEW[name], epsilon=1.0, band=band) for band in (2, 1))
        assert few == all_of_them


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_of_listed_nodes_all_are_paid_for_and_nothing_else(epsilon: float) -> None:
    """Law: with listed keys the divergence of the worst user is that of T counts, exactly."""
    listed = listed_nodes([("x", "1"), ("y", "3")], TREE)
    twin = composed(tables(laws_of(1, listed=listed).moved), epsilon)
    new = NEW["many, some new"]
    assert furthest(1, every_listed, new=new, epsilon=epsilon, listed=listed, band=1) <= twin
    new = [("n", "x", "1")]
    assert furthest(1, every_listed, new=new, epsilon=epsilon, listed=listed, band=1) == twin


@pytest.mark.parametrize("listed", [None, listed_nodes([("x", "1"), ("x", "2"), ("z", "8")], TREE)])
@pytest.mark.parametrize("at_most", [1, 2, 5])
def test_what_a_user_adds_depends_on_this_user_alone(
    listed: ListedNodes | None, at_most: int
) -> None:
    """Law: counts of users together are the sums of counts of each alone, at every seed; one adds 1
    to the total and to at most ``at_most`` nodes of each level, to all of theirs if these are so
    few."""
    users: dict[str | None, list[Any]] = {}
    for row in [*OTHERS, *[("m", a, b) for a in "wxyz" for b in "128"]]:
        users.setdefault(row[0], []).append(row)
    for seed in (1, 2):
        alone = [counted(rows, at_most, seed, listed) for rows in users.values()]
        sums: dict[Any, int] = {}
        for tree, rows in zip(alone, users.values(), strict=True):
            own = named(tree, tree.count)
            assert set(own.values()) <= {0, 1}
            for level in (1, 2):
                n = sum(count for node, count in own.items() if node[0] == level)
                nodes = {row[1 : level + 1] for row in rows}
                if listed is not None:
                    nodes &= set(zip(*(k.to_pylist() for k in listed.keys), strict=True)) | {
                        (a,) for a in listed.keys[0].to_pylist()
                    }
                assert n == min(at_most, len(nodes))
            assert own[0, None, None] == 1
            for node, count in own.items():
                sums[node] = sums.get(node, 0) + count
        everybody = [row for rows in users.values() for row in rows]
        together = counted(everybody, at_most, seed, listed)
        assert named(together, together.count) == sums


def test_where_nobody_takes_part_there_is_no_node() -> None:
    """Law: no node of an exact count of 0 is ever drawn for: none is in the tree."""
    rows: Rows = [("m", a, "1") for a in "abcdefgh"]
    tree = counted(rows, 2, 1)
    assert tree.count.tolist() == [1] * 5
    assert len(counted(rows, 2, 1, band=2).count) == 1  # the total


def test_nodes_of_one_user_are_below_the_threshold_whatever_the_noise() -> None:
    """Law: 1 plus the highest noise is below the threshold of every level, and so is the band."""
    plan: Any = dp.explain(
        ["a", "b"], epsilon=1.0, delta=1e-6, user="u", contribution="items", at_most=3
    ).plan
    assert plan.threshold_units > 1 + plan.count_noise.highest
    assert plan.band == 2
    assert plan.laws.times == (1, 3, 3)
    assert plan.delta_spent <= 1e-6
    (claimed,) = composed_profile([plan.count_noise] * 7, epsilons=(1.0,), step=1e-4)
    assert claimed[1] <= plan.delta_spent * 1.01


# -- planted bugs ----------------------------------------------------------------------------------


def test_a_level_that_nobody_paid_for_is_rejected() -> None:
    apart = furthest(1, new=NEW["one of theirs"], epsilon=1.0)
    assert composed([NOISE] * 2, 1.0) < apart <= composed([NOISE] * 3, 1.0)


def test_users_bounded_at_each_node_in_place_of_each_level_are_rejected() -> None:
    listed = listed_nodes([("x", "1"), ("y", "3")], TREE)

    kept = UserRows.count

    def by_node(rows: UserRows, sizes: Sequence[int], most: int) -> Any:
        assert most == 1
        return kept(rows, sizes, None)

    def apart() -> Fraction:
        new = NEW["many, some new"]
        return furthest(1, every_listed, new=new, epsilon=1.0, listed=listed, band=1)

    paid = composed(tables(laws_of(1, listed=listed).moved), 1.0)
    assert apart() <= paid
    with mock.patch.object(UserRows, "count", by_node):
        assert apart() > paid


def with_threshold(threshold: int) -> Run:
    """The mechanism with a threshold so low that it costs delta."""

    def run(tree: CountTree, laws: NodeLaws) -> Any:
        return mechanism.run_unlisted_users(
            tree, laws=laws, thresholds=(threshold,) * 3, confidence=0.8
        )

    return run


LOW = NOISE.highest
"""A count of 1 reaches it with a chance of 3/4, one of 0 with 1/4."""


def paid_for(new_nodes: int) -> Fraction:
    """Delta beyond finite losses of the total, which moves, and of so many new nodes of one user,
    each of which may pass ``LOW``."""
    return 1 - Fraction(3, 4) * Fraction(1, 4) ** new_nodes


def test_a_threshold_that_pays_for_one_new_node_alone_is_rejected() -> None:
    """A user brings a new node on every level, and either may pass."""
    apart = furthest(
        1, with_threshold(LOW), new=NEW["of their own"], epsilon=BEYOND, others=(), band=1
    )
    assert paid_for(1) < apart <= paid_for(2)


def test_noise_on_nodes_where_a_user_takes_no_part_is_rejected() -> None:
    """The bug that rounds once had: a user with more nodes than take part has the others too, with
    a count of 0, where noise that nothing paid for shows them."""
    new: Rows = [("n", a, b) for a, b in ("w1", "w2", "z8")]
    theirs = [(1, "w", None), (1, "z", None), (2, "w", "1"), (2, "w", "2"), (2, "z", "8")]

    def all_there(tree: CountTree, laws: NodeLaws) -> Any:
        own = named(tree, tree.count)
        if len(own) > 1:
            own |= {node: own.get(node, 0) for node in theirs}
        level, *keys = zip(*own, strict=True)
        whole = CountTree(
            level=np.array(level),
            parent=np.full(len(own), -1),
            count=np.array(list(own.values())),
            keys=tuple(pa.chunked_array([pa.array(key, pa.string())]) for key in keys),
        )
        return with_threshold(LOW)(whole, laws)

    shipped, planted = (
        furthest(1, run, new=new, epsilon=BEYOND, others=(), band=1)
        for run in (with_threshold(LOW), all_there)
    )
    assert shipped <= paid_for(2) < planted


def test_the_laws_of_a_plan_cost_what_they_say() -> None:
    """Law: delta is that of T counts by the tables themselves."""
    for times in ((1, 2), (1, 8, 8)):
        laws = node_laws(
            times=times, weights=times, epsilon=0.7, delta=1e-6, listed=True, family=None
        )
        assert len(laws.moved.noises) == sum(times)
        assert laws.delta <= 1e-6
        assert mechanism.user_counts_cost(laws, epsilon=0.7) <= laws.delta * (1 + 1e-6)
        assert len(laws.levels.noises) == len(times)
