"""Nodes below the band can never be reported, so leaving them out changes nothing.

The band comes from the plan alone. Both runs below get the same noise at the same node, with
values up to both ends of the tables; the outputs must be identical, not only equal in law.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import dpframe as dp
import dpframe.papers as printed_hhh
from dpframe.counts import CountTree, NoisyNodes
from dpframe.mechanisms import level_counts as level_histograms
from dpframe.mechanisms import offline_hhh
from dpframe.noise import NoiseTable
from dpframe.questions.hhh.mechanism_plan import HhhPlan
from tests.members import some, tries

from .enumerate_outputs import tree_of
from .tree_outputs import pruned


@cache
def plan_of(name: str) -> HhhPlan:
    mechanism, user, remainder, _ = RUNS[name]
    asked = {"user": "u" if user else None, "mechanism": mechanism, "remainder": remainder}
    asked |= {"epsilon": 2.0, "delta": 1e-3, "acknowledge": mechanism == "paper"}
    return dp.explain("path:p?depth=3", **asked).plan


class NodeNoise:
    """In place of a NoiseTable: the noise of a node is fixed by its path, not by its turn."""

    def __init__(self, law: NoiseTable, order: Iterator[list[str]], values: dict[str, int]) -> None:
        self.law, self.order, self.values = law, order, values

    def draw(self, n: int) -> NDArray[np.int64]:
        paths = next(self.order)
        assert len(paths) == n
        drawn = [min(max(self.values.get(p, 0), self.law.lowest), self.law.highest) for p in paths]
        return np.array(drawn, dtype=np.int64)


def level_by_level(tree: CountTree) -> Iterator[list[str]]:
    """The nodes in the order of the test draws: deepest level first, preorder within."""
    paths = tree.keys[0].to_pylist()
    for level in range(int(tree.level.max(initial=0)), 0, -1):
        yield [paths[i] for i in tree.at_level(level)]


class Stream:
    """Release noise in order of the reported nodes; equal selections get equal noise."""

    def draw(self, n: int) -> NDArray[np.int64]:
        return np.arange(1, n + 1, dtype=np.int64)


def offline(tree: CountTree, plan: HhhPlan, noise: dict[str, int]) -> NoisyNodes:
    return offline_hhh.run(
        tree,
        test=NodeNoise(plan.test_noise, level_by_level(tree), noise),  # type: ignore[arg-type]
        release=Stream(),  # type: ignore[arg-type]
        threshold=plan.threshold * plan.grid,
        remainder=plan.remainder,
    )


def paper(tree: CountTree, plan: HhhPlan, noise: dict[str, int]) -> NoisyNodes:
    gamma = NodeNoise(plan.laws.gamma, iter([["gamma"]]), noise)  # type: ignore[union-attr]
    laws = replace(
        plan.laws,  # type: ignore[type-var]
        gamma=gamma,
        test=NodeNoise(plan.test_noise, level_by_level(tree), noise),
        release=Stream(),
    )
    return printed_hhh.run(tree, laws=laws, threshold=plan.threshold)  # type: ignore[arg-type]


def histograms(tree: CountTree, plan: HhhPlan, noise: dict[str, int]) -> NoisyNodes:
    law = NodeNoise(plan.laws.noise, iter([tree.keys[0].to_pylist()]), noise)  # type: ignore[union-attr]
    return level_histograms.run_level_histograms(
        tree,
        noise=law,  # type: ignore[arg-type]
        shown=plan.laws.threshold,  # type: ignore[union-attr]
        threshold=plan.threshold,
        remainder=plan.remainder,
    )


RUNS = {
    "offline": ("offline", False, True, offline),
    "offline without remainder": ("offline", False, False, offline),
    "shares": ("offline", True, True, offline),
    "laplace": ("laplace", False, True, histograms),
    "gaussian": ("gaussian", False, False, histograms),
    "paper": ("paper", False, False, paper),
}
"""A mechanism, whether users are protected, whether there is a remainder, and what runs."""


def same(a: NoisyNodes, b: NoisyNodes) -> bool:
    return a.keys[0].to_pylist() == b.keys[0].to_pylist() and all(
        np.array_equal(getattr(a, name), getattr(b, name))
        for name in ("level", "ancestor", "residual", "count", "terms")
    )


PATHS = [a + b + c for a in "ab" for b in ("", "a", "b") for c in ("", "a", "b") if b or not c]


@some("offline", "shares", "paper")
@pytest.mark.parametrize("name", list(RUNS))
@tries(25, 60, deadline=None, derandomize=True)
@given(data=st.data())
def test_pruning_below_the_band_never_changes_the_release(name: str, data: st.DataObject) -> None:
    """Law: run(tree) == run(tree pruned to count >= band), for every noise in the tables."""
    plan, run = plan_of(name), RUNS[name][-1]
    far = 10**9  # clipped to the ends of the table
    spread = int(3 * plan.test_noise.sd)
    table = data.draw(
        st.dictionaries(
            st.sampled_from(PATHS),
            st.one_of(
                st.integers(0, 2 * plan.threshold * plan.grid),
                st.integers(max(0, plan.band - 2), plan.band + 2),
            ),
        )
    )
    values = st.one_of(st.sampled_from([-far, far]), st.integers(-spread, spread))
    noise = {path: data.draw(values) for path in ["", "gamma", *PATHS]}
    tree = tree_of(table)
    assert same(run(tree, plan, noise), run(pruned(tree, plan.band), plan, noise))


@pytest.mark.parametrize("name", list(RUNS))
def test_the_band_is_the_largest_that_is_safe(name: str) -> None:
    """Law: at the highest noise a node at the band is reported, one below it never.

    Negative control beside it: pruning one above the band does change the release.
    """
    plan, run = plan_of(name), RUNS[name][-1]
    highest = dict.fromkeys(["a", "gamma"], 10**9)
    reported = {}
    for units in (plan.band - 1, plan.band):
        tree = tree_of({"a": units})
        reported[units] = "a" in run(tree, plan, highest).keys[0].to_pylist()
    assert not reported[plan.band - 1]
    if plan.mechanism in ("laplace", "gaussian"):
        assert plan.threshold == plan.laws.threshold  # type: ignore[union-attr]
    assert reported[plan.band]
    tree = tree_of({"a": plan.band})
    assert not same(run(tree, plan, highest), run(pruned(tree, plan.band + 1), plan, highest))


@pytest.mark.parametrize("name", list(RUNS))
def test_the_band_is_above_every_node_that_one_neighbour_may_lack(name: str) -> None:
    """Law: a node that holds one record, or one user, is below the band of every plan."""
    plan = plan_of(name)
    if plan.mechanism != "paper":  # the printed tail bound is paid for in delta instead
        assert plan.band > plan.grid
