"""Counts with relative error: their parameters, a slow twin of the pseudocode, and accuracy."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpframe.accounting.relative_steps import (
    RelativeLaws,
    Step,
    end_mass,
    least_truncation_bound,
    relative_laws,
)
from dpframe.counts import CountTree, NoisyTree
from dpframe.errors import ParameterError
from dpframe.mechanisms import level_counts as relative_counts
from dpframe.mechanisms.level_counts import relative_counts_cost, run_relative_counts
from dpframe.noise import unbounded_laplace
from dpframe.papers import alpha_rmse
from dpframe.testing import seeded_noise
from tests.members import tries

BUDGETS = {
    "height": st.integers(1, 130),
    "alpha": st.floats(0.02, 0.99),
    "epsilon": st.floats(1e-3, 20),
    "delta": st.floats(1e-12, 0.1),
    "largest": st.integers(1, 10**15),
    "eta": st.floats(1e-9, 0.5),
}


@tries(25, 60, deadline=None, derandomize=True)
@given(st.fixed_dictionaries(BUDGETS))
def test_the_sequences_satisfy_the_equations_and_keep_the_budget(asked: dict[str, float]) -> None:
    """Law: CT equations (2) to (6), and what Lemma 23 needs for whole c, Delta and R; exact sums of
    epsilon, and of the delta of what is drawn, are within the budget."""
    try:
        laws = relative_laws(**asked)  # type: ignore[arg-type]
    except ParameterError:
        assume(False)
    alpha, d = laws.alpha, laws.height + 1
    steps = laws.steps
    for s in steps:
        log_delta = math.log1p(math.expm1(s.epsilon / 2) / s.delta)
        needed = max(math.sqrt(48 * math.log(2 * d / s.eta)), math.sqrt(6 * log_delta))
        assert s.threshold >= math.sqrt(2 * s.largest / (s.alpha * s.epsilon)) * needed  # (2)
        assert (1 - s.alpha) * s.threshold <= s.largest  # (5)
        assert s.largest <= (1 + alpha) * (1 - s.alpha) * s.threshold
    assert sum(Fraction(s.eta) for s in steps) <= Fraction(laws.eta)  # (3)
    nodes = [laws.lowest, *(s.largest for s in steps)]
    for most, above in zip(nodes, steps, strict=False):
        assert most >= (1 + above.alpha) * above.threshold  # (4)
    assert nodes[-1] >= laws.largest
    log_delta = math.log1p(2 * math.expm1(laws.epsilon / 4) / asked["delta"])
    printed = 324 * (1 + alpha) ** 2 / (alpha**4 * laws.epsilon)
    printed *= max(8 * math.log(4 * d / laws.eta), log_delta)
    assert 0 <= laws.lowest <= alpha * printed  # (6) with the tau_min of Corollary 27
    for s in steps:
        assert s.tops == math.floor(s.largest / ((1 - s.alpha) * s.threshold)) + 1 == 2
        assert s.slack + 2 * s.bound <= s.alpha * s.threshold
        assert s.slack >= 16 * s.tops / s.epsilon * math.log(2 * d / s.eta)
        assert s.bound + 1 < s.cut
        assert s.band >= (1 - s.alpha) * s.threshold
    assert sum(Fraction(s.epsilon) for s in steps) <= Fraction(asked["epsilon"])
    assert sum(2 * s.tops / s.scale for s in steps) <= Fraction(asked["epsilon"])
    assert relative_counts_cost(laws) == laws.delta <= asked["delta"]
    assert sum(s.tops * end_mass(s.scale, s.bound) for s in steps) <= laws.delta
    assert laws.epsilon == asked["epsilon"]
    assert steps[-1].scale.numerator * 4 < 2**62


def test_the_bound_is_the_least_and_below_the_printed_one() -> None:
    """Law: R is the least bound for delta; Lemma 16's formula, which is continuous, is no less."""
    for scale in (Fraction(2), Fraction(50), Fraction(4001, 2)):
        for delta in (1e-2, 1e-6, 1e-12):
            bound = least_truncation_bound(scale, delta)
            assert end_mass(scale, bound) <= delta < end_mass(scale, bound - 1)
            e = float(1 / scale)
            assert bound <= math.ceil(math.log1p(math.expm1(e) / (2 * delta)) / e)


def test_a_largest_count_below_any_use_is_refused_with_the_way_out() -> None:
    """Law: the message names the argument and the value from which on the mechanism is of use."""
    asked = {"height": 4, "alpha": 0.5, "epsilon": 1.0, "delta": 1e-6, "eta": 0.05}
    with pytest.raises(ParameterError, match="default mechanism") as caught:
        relative_laws(largest=1000, **asked)  # type: ignore[arg-type]
    for word in ("largest (1000)", "raise epsilon"):
        assert word in str(caught.value)
    least = int(str(caught.value).split("largest=")[1].split()[0])
    assert relative_laws(largest=least, **asked).smallest_threshold == least  # type: ignore[arg-type]
    with pytest.raises(ParameterError):
        relative_laws(largest=least - 1, **asked)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [
        *({"alpha": 0.0}, {"alpha": 1.0}, {"eta": 0.6}, {"delta": 0.0}, {"epsilon": math.inf}),
        *({"epsilon": math.nan}, {"height": 0}, {"largest": 10**16}),
    ],
)
def test_values_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    """Law: every rule of the docstring is checked."""
    right = {"height": 2, "alpha": 0.5, "epsilon": 1, "delta": 1e-6, "largest": 10**9, "eta": 0.1}
    relative_laws(**right)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        relative_laws(**{**right, **wrong})  # type: ignore[arg-type]


Noise = Callable[[Fraction], int]
"""One draw of the next value for a scale."""


def reduction(weights: dict[str, int], laws: RelativeLaws, noise: Noise) -> dict[str, int]:
    """Algorithm 2 over dictionaries: the step in which each node became top."""
    estimate: dict[str, int] = {}
    forest = [set(weights)]  # line 1
    for i in range(len(laws.steps), 0, -1):  # line 2
        step = laws.steps[i - 1]
        trees = [t for t in forest if weights[min(t)] >= step.band]  # the others stay bot
        tops = classification(trees, weights, step, laws.height, noise)  # line 4
        estimate |= dict.fromkeys(tops, i)  # line 7
        bot = set(weights) - set(estimate)
        roots = sorted(u for u in bot if u == "" or u[:-1] not in bot)
        forest = [{u for u in bot if u.startswith(r)} for r in roots]  # line 8
    return estimate


def classification(
    trees: list[set[str]], weights: dict[str, int], step: Step, height: int, noise: Noise
) -> set[str]:
    """Algorithm 1 for all trees in step: each line for one tree after the other."""
    tops: set[str] = set()
    threshold = [step.least + noise(2 * step.scale) for _ in trees]
    count = [0] * len(trees)
    for level in range(height, -1, -1):  # line 3
        asked = []
        for k, tree in enumerate(trees):
            s = sorted(u for u in tree if len(u) == level and u not in tops)
            root = min(tree)
            if count[k] == step.tops or level < len(root) or (level == len(root) and not s):
                continue  # line 4, or stopped
            f = max([step.band - 1] + [weights[u] for u in s])  # line 5
            if f + noise(4 * step.scale) >= threshold[k]:  # line 6
                asked.append((k, root, s))
        for _, root, s in asked:
            for u in s:  # line 10
                if weights[u] < step.band:
                    continue  # bot whatever the noise
                if weights[u] + noise(step.scale) >= step.cut:  # lines 11 and 12
                    tops |= {u[:n] for n in range(len(root), len(u) + 1)}  # line 13
        for k, _, _ in asked:
            count[k] += 1
            threshold[k] = step.least + noise(2 * step.scale)
    return tops


@cache
def stream(seed: int, scale: Fraction, part: int) -> list[int]:
    with seeded_noise(1000 * seed + part):
        return unbounded_laplace(scale, 100).tolist()


class Streams:
    """One stream of values a scale, the same for the twin and for ``run``."""

    def __init__(self, seed: int) -> None:
        self.seed, self.used = seed, Counter[Fraction]()

    def one(self, scale: Fraction) -> int:
        at, self.used[scale] = self.used[scale], self.used[scale] + 1
        return stream(self.seed, scale, at // 100)[at % 100]

    def many(self, scale: Fraction, n: int) -> NDArray[np.int64]:
        return np.array([self.one(scale) for _ in range(n)], dtype=np.int64)

    def bounded(self, scale: Fraction, bound: int, n: int) -> NDArray[np.int64]:
        return np.clip(self.many(scale, n), -bound, bound)


def tree_of(table: dict[str, int]) -> CountTree:
    """All nodes above the paths of a table, with their sums."""
    paths = sorted({path[:end] for path in table for end in range(len(path) + 1)} | {""})
    count = [sum(n for q, n in table.items() if q.startswith(p)) for p in paths]
    return CountTree.from_preorder(
        level=np.array([len(p) for p in paths], dtype=np.int64),
        count=np.array(count, dtype=np.int64),
        keys=(pa.chunked_array([paths], type=pa.string()),),
    )


WIDE = relative_laws(height=3, alpha=0.9, epsilon=4.0, delta=1e-3, largest=10**6, eta=0.1)
LEAVES = [a + b + c for a in "abc" for b in "ab" for c in ("", "a", "b")]


@tries(25, 80, deadline=None, derandomize=True)
@given(
    table=st.dictionaries(
        st.sampled_from(LEAVES),
        st.one_of(
            st.integers(WIDE.band, 3 * WIDE.steps[0].least),
            st.integers(0, 10**5),
            st.sampled_from([s.least for s in WIDE.steps]),
        ),
    ),
    seed=st.integers(0, 20),
    widen=st.sampled_from([1, 8]),
)
def test_run_is_the_pseudocode(table: dict[str, int], seed: int, widen: int) -> None:
    """Law: with the same noise ``run`` labels what the line by line twin labels.

    Noise eight times as wide makes false tops, so that trees stop at their c-th.
    """
    tree = tree_of(table)
    first, second = Streams(seed), Streams(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(relative_counts, "unbounded_laplace", lambda s, n: widen * first.many(s, n))
        patch.setattr(relative_counts, "truncated_laplace", first.bounded)
        noisy = run_relative_counts(tree, laws=WIDE)
    weights = dict(zip(tree.keys[0].to_pylist(), tree.count.tolist(), strict=True))

    def noise(scale: Fraction) -> int:
        tests = {s.scale: s.bound for s in WIDE.steps}
        if scale in tests:
            return int(second.bounded(scale, tests[scale], 1)[0])
        return widen * second.one(scale)

    step_of = reduction(weights, WIDE, noise)
    expected = {"": 0, **step_of}
    assert noisy.keys[0].to_pylist() == sorted(expected)
    answers = [math.floor(WIDE.lowest), *(math.floor(s.largest) for s in WIDE.steps)]
    assert noisy.count.tolist() == [
        min(answers[expected[p]], WIDE.largest) for p in sorted(expected)
    ]


def released(tree: CountTree, laws: RelativeLaws, seeds: int) -> Iterator[NoisyTree]:
    for seed in range(seeds):
        with seeded_noise(seed):
            yield run_relative_counts(tree, laws=laws)


@pytest.mark.parametrize("table", [{}, {"aaa": 5}, {"aaa": 10**5, "aab": 90_000, "b": 3_000}])
def test_what_comes_out_is_a_tree_with_intervals(table: dict[str, int]) -> None:
    """Law: the root always, ancestors of everything, counts within intervals and ``largest``."""
    for noisy in released(tree_of(table), WIDE, 5):
        assert noisy.level[0] == 0
        assert noisy.parent[0] == -1
        assert (noisy.level[noisy.parent[1:]] == noisy.level[1:] - 1).all()
        assert (noisy.count[1:] <= noisy.count[noisy.parent[1:]]).all()
        assert ((noisy.lower <= noisy.count) & (noisy.count <= noisy.upper)).all()
        assert (noisy.upper <= WIDE.largest).all()
        assert not noisy.other.any()
        assert noisy.open.tolist() == (noisy.level < 3).tolist()
        if not table:  # the root never was top
            assert noisy.lower.tolist() == [0]
            assert noisy.count.tolist() == noisy.upper.tolist() == [math.floor(WIDE.lowest)]


TABLE = {
    **{f"a{i}{j}": 2_600 * (1 + i) * (1 + j) for i in range(4) for j in range(4)},
    **{f"b{i}{j}": 40_000 + i + j for i in range(3) for j in range(3)},
    **{f"c{i}0": 30 * i for i in range(5)},
}


def misses(laws: RelativeLaws, seeds: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How often each node is off by more than alpha max(w, tau_min), or out of its interval."""
    tree = tree_of(TABLE)
    names, truth = tree.keys[0].to_pylist(), tree.count
    off, out = np.zeros(len(names)), np.zeros(len(names))
    for noisy in released(tree, laws, seeds):
        at = np.searchsorted(names, noisy.keys[0].to_pylist())
        estimate, lower, upper = (np.zeros(len(names)) for _ in range(3))
        estimate += math.floor(laws.lowest)
        upper += laws.smallest_threshold - 1
        estimate[at], lower[at], upper[at] = noisy.count, noisy.lower, noisy.upper
        tolerance = laws.alpha * np.maximum(truth, laws.lowest / laws.alpha)
        large = truth >= laws.smallest_threshold
        off += (np.abs(estimate - truth) > tolerance) | (large & (estimate > 1.9 * truth))
        out += (lower > truth) | (truth > upper)
    return off / seeds, out / seeds


def test_counts_are_as_near_as_promised() -> None:
    """Law: Problem 18 for every node, and intervals, with chance 1 - eta (here nearly 1).

    From ``smallest_threshold`` on the error is relative; a node below it is within M_0 of 0.
    Negative control: where the declared ``largest`` is false, the intervals are too.
    """
    off, out = misses(WIDE, 60)
    assert off.max() <= WIDE.eta
    assert out.max() <= WIDE.eta
    small = relative_laws(height=3, alpha=0.9, epsilon=4.0, delta=1e-3, largest=20_000, eta=0.1)
    off, out = misses(small, 20)
    assert out.max() > 0.9


def test_a_tree_with_too_many_tops_stops() -> None:
    """Law: after c answers top the rest of a tree is bot, however large its nodes are."""
    laws = relative_laws(height=3, alpha=0.9, epsilon=4.0, delta=1e-3, largest=8_000, eta=0.1)
    assert [s.tops for s in laws.steps] == [2] * len(laws.steps)
    # three large nodes that are no ancestors of each other, on levels 3, 2 and 1: false for M
    tree = tree_of({"aaa": 10**7, "bb": 10**7, "c": 10**7})
    with seeded_noise(1):
        top = relative_counts.classify_nodes(
            tree, np.zeros(len(tree.level), dtype=bool), step=laws.steps[-1], height=3
        )
    paths = np.array(tree.keys[0].to_pylist())
    assert sorted(paths[top]) == ["", "a", "aa", "aaa", "b", "bb"]


def test_alpha_rmse_forgives_a_relative_error() -> None:
    """Law: Definition 4; alpha = 0 is the ordinary error, and alpha >= 1 forgives an answer 0."""
    estimates = np.array([[90.0, 0.0, 12.0], [130.0, 0.0, 12.0]])
    truth = np.array([100.0, 7.0, 10.0])
    expected = [math.sqrt((0 + 20**2) / 2), 6.3, 1.0]
    assert alpha_rmse(estimates, truth, 0.1) == pytest.approx(expected)
    ordinary = np.sqrt(((estimates - truth) ** 2).mean(axis=0))
    assert alpha_rmse(estimates, truth, 0.0) == pytest.approx(ordinary)
    assert not alpha_rmse(np.zeros((2, 3)), truth, 1.0).any()
