"""Released counts of trees: a function of noisy counts alone, and intervals that hold what is true.

Intervals promise: given which nodes are shown, the true count is outside with probability at most
1 - confidence. Exactly, over every value of every draw, where tables are tiny; else by seeded draws
at level 1e-6, from many copies of the same few families. Plain intervals for nodes that are shown
because of their own count must fail the same checks.
"""

from __future__ import annotations

import copy
import math
from collections import defaultdict
from contextlib import nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from dpframe.accounting.path_recursion import Laws
from dpframe.accounting.tree_levels import TreeLaws
from dpframe.budget import PrivacyUnit
from dpframe.counts import CountTree, ListedNodes, NoisyTree
from dpframe.mechanisms import level_counts
from dpframe.mechanisms import offline_hhh as hhh_counts
from dpframe.noise import UnboundedNoise, laplace_table
from dpframe.postprocess.consistency import consistent_tree, tree_in_records
from dpframe.postprocess.selection_intervals import plain_interval
from dpframe.questions.tree_counts.ask import tree_counts
from dpframe.testing import seeded_noise
from tests.members import in_turn, tries

from .enumerate_outputs import Table, every_script, tree_of
from .test_tree_counts import plan_of
from .tree_outputs import GivenTable, Run, by_hand, made, pruned, scripted, symmetric, tables

LEVEL = 1e-6

# -- a function of what was drawn ----------------------------------------------------------------

PATHS = ["a", "aa", "ab", "b", "ba", "c"]
SMALL = by_hand(*(laplace_table(1.5, 6),) * 3)


@tries(25, 80, deadline=None, derandomize=True)
@given(
    table=st.dictionaries(st.sampled_from(PATHS), st.integers(1, 30), min_size=1),
    seed=st.integers(0, 10**6),
    grid=st.sampled_from([1, 4]),
)
def test_added_up_counts_add_up_and_are_held_by_their_intervals(
    table: dict[str, int], seed: int, grid: int
) -> None:
    """Law: the same in, the same out; parents are sums; 0 <= lower <= count <= upper."""
    laws = replace(SMALL, grid=grid)
    with seeded_noise(seed):
        noisy = level_counts.run_unknown_counts(
            tree_of(table), laws=laws, thresholds=laws.thresholds, confidence=0.9
        )
    before = copy.deepcopy(noisy)
    out, again = consistent_tree(noisy, grid), consistent_tree(before, grid)
    for name in ("level", "parent", "count", "lower", "upper", "other"):
        assert np.array_equal(getattr(out, name), getattr(again, name))
        assert np.array_equal(getattr(noisy, name), getattr(before, name))
    below = np.zeros_like(out.count)
    np.add.at(below, out.parent[1:], out.count[1:])
    inner = np.isin(np.arange(len(below)), out.parent)
    assert np.array_equal(below[inner], out.count[inner])
    assert (out.lower >= 0).all()
    assert (out.lower <= out.count).all()
    assert (out.count <= out.upper).all()
    expected = noisy.open & np.isin(np.arange(len(noisy.level)), noisy.parent)
    assert np.array_equal(np.flatnonzero(expected), out.parent[out.other])


SEEN = {("x", "p"): 60, ("x", "q"): 30, ("y", "p"): 50, ("z", "r"): 3, (None, "s"): 9}
VISITS = pd.DataFrame([pair for pair, n in SEEN.items() for _ in range(n)], columns=["a", "b"])
VISITS["u"] = [f"user {i % 40}" for i in range(len(VISITS))]


@pytest.mark.parametrize(
    "options",
    [
        {"delta": 1e-4},
        {"delta": 1e-4, "consistent": False},
        {"delta": 1e-4, "user": "u"},
        {"delta": 1e-4, "user": "u", "contribution": "records", "max_contributions": 2},
        {"delta": 1e-4, "mechanism": "hhh"},
        {"keys": [("x", "p"), ("y", "q")]},
        {"keys": [("x", "p"), ("y", "q")], "user": "u"},
    ],
    ids=str,
)
def test_rows_do_not_depend_on_the_order_of_the_input(options: dict[str, Any]) -> None:
    """Law: a shuffled table with the same noise gives the same frame, in the same order."""
    frames = []
    for order in (1, 2, 3):
        rows = VISITS.sample(frac=1, random_state=order).reset_index(drop=True)
        with seeded_noise(7):
            frames.append(tree_counts(rows, ["a", "b"], epsilon=8.0, **options))
    assert len(frames[0]) > 2
    for frame in frames[1:]:
        pd.testing.assert_frame_equal(frames[0], frame, check_flags=False)


# -- what is true --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Truth:
    """True counts by the place of a node in a tree whose first key is that place."""

    count: NDArray[np.int64]

    def of(self, noisy: NoisyTree) -> NDArray[np.int64]:
        """True counts of released rows; of ``<other>`` rows what no shown sibling holds."""
        at = noisy.keys[0].to_numpy().astype(np.int64)
        out = self.count[at].copy()
        covered = np.zeros_like(out)
        shown = np.flatnonzero(~noisy.other & (noisy.parent >= 0))
        np.add.at(covered, noisy.parent[shown], out[shown])
        others = np.flatnonzero(noisy.other)
        out[others] -= covered[noisy.parent[others]]
        return out


def numbered(level: Any, parent: Any, count: Any) -> CountTree:
    """A tree whose keys are the places of its nodes."""
    keys = (pa.chunked_array([pa.array(np.arange(len(level)))]),)
    level, parent, count = (np.array(each) for each in (level, parent, count))
    return CountTree(level=level, parent=parent, count=count, keys=keys)


def missed(noisy: NoisyTree, truth: NDArray[np.int64], grid: int = 1) -> NDArray[np.bool_]:
    """Truth in units, intervals in records."""
    return (truth < grid * noisy.lower) | (truth > grid * noisy.upper)


def plain_everywhere() -> Any:
    """Planted: nodes that are shown because of their own count get the intervals of the others."""

    def plain(noise: Any, threshold: Any, count: Any, confidence: float, least: Any) -> Any:
        return plain_interval(noise, count, confidence)

    return mock.patch.object(level_counts, "selected_interval", plain)


# -- exactly -------------------------------------------------------------------------------------

CONFIDENCE = 0.7


@cache
def coarse(levels: int, grid: int = 1) -> TreeLaws:
    laws = made((1.0,) * levels, (1.5 if grid == 1 else 3.0) * levels, 0.05, grid=grid)
    assert 5 <= max(len(n.weights) for n in tables(laws)) <= 11
    return laws


def worst_miss(table: Table, laws: TreeLaws, consistent: bool) -> Fraction:
    """``largest_miss`` of ``run_unknown_counts``, without the nodes that it could never show."""
    band = min(t - n.highest for t, n in zip(laws.thresholds, tables(laws), strict=True))

    def run(tree: CountTree, laws: TreeLaws) -> NoisyTree:
        return level_counts.run_unknown_counts(
            tree, laws=laws, thresholds=laws.thresholds, confidence=CONFIDENCE
        )

    return largest_miss(pruned(tree_of(table), band), laws, run, consistent)


def largest_miss(tree: CountTree, laws: TreeLaws, run: Run, consistent: bool) -> Fraction:
    """Largest P(a count is outside its interval | the nodes that are shown), over all rows."""
    tree = numbered(tree.level, tree.parent, tree.count)
    truth = Truth(tree.count)
    shown: dict[Any, Fraction] = defaultdict(Fraction)
    wrong: dict[Any, Fraction] = defaultdict(Fraction)
    for script, noisy in every_script(lambda script: run(tree, scripted(laws, script))):
        out = (consistent_tree if consistent else tree_in_records)(noisy, laws.grid)
        rows = tuple(zip(out.keys[0].to_pylist(), out.other.tolist(), strict=True))
        shown[rows] += script.probability
        for row, bad in zip(rows, missed(out, truth.of(out), laws.grid), strict=True):
            if bad:
                wrong[rows, row] += script.probability
    assert sum(shown.values()) == 1
    return max((p / shown[rows] for (rows, _), p in wrong.items()), default=Fraction(0))


def around(laws: TreeLaws) -> list[int]:
    """Counts that can be shown at the last level, from hardly ever to always."""
    threshold, highest = laws.thresholds[-1], tables(laws)[-1].highest
    return list(range(max(2, threshold - highest), threshold + highest + 2))


@pytest.mark.parametrize(
    ("grid", "consistent"),
    [
        *((1, True), (2, False)),
        pytest.param(2, True, marks=pytest.mark.evidence),
        pytest.param(1, False, marks=pytest.mark.evidence),
    ],
)
def test_given_what_is_shown_no_interval_misses_more_often_than_stated(
    consistent: bool, grid: int
) -> None:
    """Law: P(outside | shown) <= 1 - confidence, exactly, for every row, ``<other>`` rows too.

    In records, and in users who weigh several units. Planted bug beside it: plain intervals for
    nodes near the threshold.
    """
    laws, allowed = coarse(2, grid), Fraction(1 - CONFIDENCE)
    planted = Fraction(0)
    for table in ({}, {"y": 1}, dict.fromkeys("uvwxyz", 1)):  # the total alone
        assert worst_miss(table, laws, consistent) <= allowed, table
    for n in around(laws)[::grid]:
        for rest in ({}, {"y": 1, "z": 1}):
            table = {"a": n, **rest}
            assert worst_miss(table, laws, consistent) <= allowed, table
            with plain_everywhere():
                planted = max(planted, worst_miss(table, laws, consistent))
    assert planted > allowed


@pytest.mark.parametrize("consistent", [False, True])
def test_the_same_for_two_children_near_the_threshold_and_on_a_chain(consistent: bool) -> None:
    """Law: the same where ``<other>`` is what two shown children leave, and where a parent is shown
    because of its child."""
    two, three = coarse(2), coarse(3)
    t, u = two.thresholds[-1], three.thresholds[-1]
    for laws, table in (
        *((two, {"a": a, "b": b, "z": 1}) for a, b in ((t, t), (t - 2, t + 3))),
        *((three, {"aa": n, "ab": 1}) for n in (u - 2, u + 2)),
    ):
        assert worst_miss(table, laws, consistent) <= Fraction(1 - CONFIDENCE), table


CHAINS: list[Any] = [{}, {"aa": 9, "a": 3}, {"aa": 5, "ab": 1, "b": 1}]
CHAINS.append(pytest.param({"aa": 4, "a": 2, "b": 4}, marks=pytest.mark.evidence))


@in_turn(("table", CHAINS, str), ("consistent", [False, True]))
def test_heavy_hitters_that_are_added_up_miss_no_more_often_than_stated(
    table: Table, consistent: bool
) -> None:
    """Law: the same for heavy hitters, whatever hides in nodes that are not reported themselves."""
    laws = by_hand(symmetric(12, 2), symmetric(8, 3, 1))  # test and release noise

    def run(tree: CountTree, laws: TreeLaws) -> NoisyTree:
        test, release = tables(laws)
        return hhh_counts.run_hhh_counts(
            tree, test=test, release=release, threshold=4, confidence=CONFIDENCE, height=2
        )

    assert largest_miss(tree_of(table), laws, run, consistent) <= Fraction(1 - CONFIDENCE)


@pytest.mark.parametrize("family", ["laplace", "gaussian", None])
def test_realistic_tables_cover_every_count_exactly(family: str | None) -> None:
    """Law: the same over every value of the noise of one leaf, for counts all around the threshold.

    Planted bug beside it: plain intervals.
    """
    laws = made((1.0, 2.0, 1.0), 1.0, 1e-6, family)
    threshold, noise = laws.thresholds[1], tables(laws)[1]
    values = np.arange(noise.lowest, noise.highest + 1)
    size, worst = len(values), {True: 0.0, False: 0.0}
    step = max(1, noise.highest // 12)
    for n in range(threshold - noise.highest, threshold + 2 * noise.highest, step):
        tree = numbered([0, *[1] * size], [-1, *[0] * size], [n * size, *[n] * size])
        drawn = (GivenTable(tables(laws)[0], [0]), GivenTable(noise, values.tolist()))

        def out(tree: CountTree = tree, drawn: Any = drawn) -> NoisyTree:
            told = (*(GivenTable(d, *d.told) for d in drawn), GivenTable(tables(laws)[2], []))
            return level_counts.run_unknown_counts(
                tree, laws=replace(laws, noises=told), thresholds=laws.thresholds, confidence=0.95
            )

        for shipped in (True, False):
            with nullcontext() if shipped else plain_everywhere():
                noisy = out()
            seen = noisy.keys[0].to_numpy()[1:] - 1
            bad = missed(noisy, np.full(len(noisy.level), n))[1:]
            miss = float(noise.pmf[seen[bad]].sum() / noise.pmf[seen].sum())
            worst[shipped] = max(worst[shipped], miss)
    assert worst[True] <= 0.05 * (1 + 1e-9)
    assert worst[False] > 0.5


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(7, 5), Fraction(40)])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999999])
def test_intervals_of_unbounded_noise_are_the_shortest_that_hold(
    scale: Fraction, confidence: float
) -> None:
    """Law: P(|V| <= w) >= confidence, summed over the law itself, and w - 1 is too little."""
    w = UnboundedNoise(scale).half_width(confidence)
    q = math.exp(-1 / float(scale))
    mass = [(1 - q) / (1 + q) * q ** abs(z) for z in range(-w, w + 1)]
    assert math.fsum(mass) >= confidence - 1e-12
    if w:
        assert math.fsum(mass[1:-1]) < confidence


# -- by seeded draws -----------------------------------------------------------------------------


def families(threshold: int, spread: float, highest: int) -> list[tuple[list[int], int]]:
    """Counts of children, and what else their parent holds in children too small to be shown."""
    t, s = threshold, max(1, round(spread))
    return [
        ([t], 0),
        ([t - s], 7),
        ([t - 2 * s, t + s], 0),
        ([max(2, t - highest + 3)] * 3, 40),
        ([t + 3 * highest] * 4, 5),
        ([t - s, t, t + s, 5 * t], 11),
        ([t - s] * 10, 0),
    ]


def forest(kinds: list[tuple[list[int], int]], copies: int) -> tuple[CountTree, NDArray[np.int64]]:
    """``copies`` of every family below one root; nodes of one kind have equal laws."""
    level, parent, count, kind = [0], [-1], [0], [0]
    for i, (children, rest) in enumerate(kinds):
        for _ in range(copies):
            at = len(level)
            level.append(1)
            parent.append(0)
            count.append(sum(children) + rest)
            kind.append(100 * (i + 1))
            level += [2] * len(children)
            parent += [at] * len(children)
            count += children
            kind += [100 * (i + 1) + 1 + j for j in range(len(children))]
    count[0] = sum(c for c, depth in zip(count, level, strict=True) if depth == 1) + 50
    return numbered(level, parent, count), np.array(kind)


def least_p(
    noisy: NoisyTree, tree: CountTree, kind: NDArray[np.int64], allowed: float
) -> tuple[float, int]:
    """Least p-value of "outside with probability at most ``allowed``" over kinds of rows; how many.

    Rows of one kind are independent given what is shown, each with a chance of its own; the number
    of misses is then no larger, in the tail, than binomial up to what 1e-6 forgives.
    """
    bad = missed(noisy, Truth(tree.count).of(noisy))
    what = 2 * kind[noisy.keys[0].to_numpy()] + noisy.other
    ps = []
    for number in np.unique(what):
        here = bad[what == number]
        if len(here) > 1:
            ps.append(float(stats.binom.sf(here.sum() - 1, len(here), allowed)))
    return min(ps), len(ps)


def drawn(mechanism: str, copies: int, seed: int, confidence: float, consistent: bool) -> float:
    """The least p-value of one release."""
    asked: Any = {"mechanism": mechanism, "consistent": consistent, "confidence": confidence}
    plan = plan_of(PrivacyUnit(), epsilon=1.0, delta=1e-6, height=2, **asked)
    laws = plan.laws
    if isinstance(laws, TreeLaws):
        noise = tables(laws)[2]
        kinds = families(plan.thresholds[2], noise.sd, noise.highest)
    else:
        assert isinstance(laws, Laws)
        assert plan.threshold is not None
        test = laws.median_test(plan.threshold)
        kinds = families(plan.threshold, test.sd, test.highest)
    tree, kind = forest(kinds, copies)
    with seeded_noise(seed):
        noisy = plan.run(tree)
    out = consistent_tree(noisy, 1) if consistent else tree_in_records(noisy, 1)
    p, tests = least_p(out, tree, kind, 1 - confidence)
    assert tests > 10
    return p * tests


MANY = [pytest.param(8_000, seed, 0.9, marks=pytest.mark.evidence) for seed in range(5)]


@pytest.mark.parametrize("consistent", [False, True])
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian", "additive", "hhh"])
@pytest.mark.parametrize(("copies", "seed", "confidence"), [(800, 1, 0.8), (800, 1, 0.95), *MANY])
def test_realistic_families_are_covered(
    mechanism: str, copies: int, seed: int, confidence: float, consistent: bool
) -> None:
    """Law: no kind of row, shown near the threshold or far from it, misses more than stated."""
    assert drawn(mechanism, copies, seed, confidence, consistent) > LEVEL


@pytest.mark.parametrize("consistent", [False, True])
def test_plain_intervals_near_the_threshold_are_rejected(consistent: bool) -> None:
    """Planted bug: the intervals of nodes that were not selected, for nodes that were."""
    with plain_everywhere():
        assert drawn("laplace", 800, 1, 0.95, consistent) < LEVEL


def test_hidden_records_that_are_forgotten_are_rejected() -> None:
    """Planted bug: nodes above heavy hitters, not reported themselves, hold nothing else."""
    real = hhh_counts.sum_residuals

    def forgetful(*args: Any, hidden: int, **named: Any) -> NoisyTree:
        return real(*args, hidden=0, **named)

    with mock.patch.object(hhh_counts, "sum_residuals", forgetful):
        assert drawn("hhh", 800, 1, 0.95, False) < LEVEL


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("consistent", [False, True])
def test_listed_keys_are_covered(consistent: bool, delta: float) -> None:
    """Law: the same for listed keys, empty ones and ``<other>`` too, with and without bounds.

    Negative control: intervals of half the width.
    """
    copies = 1500
    n = 2 * copies + 1
    level = np.array([0, *[1, 2] * copies])
    parent = np.array([-1, *(v for i in range(copies) for v in (0, 2 * i + 1))])
    own = np.array([0, *(v for i in range(copies) for v in (3 + i % 2, 3 * (i % 2)))])
    own[0] = own[level == 1].sum() + 9
    tree, rest = numbered(level, parent, own), np.isin(np.arange(n), parent)
    listed = ListedNodes(level=level, parent=parent, keys=tree.keys, rest=rest, name="copies")
    laws = made((1.0, 1.0, 2.0), 1.0, delta, None, listed=True)
    with seeded_noise(5):
        noisy = level_counts.run_listed_counts(tree, laws=laws, listed=listed, confidence=0.9)
    kind = level * 10 + own * (level == 2)
    half = (noisy.upper - noisy.lower) // 4
    for narrow, private in ((0, True), (half, False)):
        cut = replace(noisy, lower=noisy.lower + narrow, upper=noisy.upper - narrow)
        if consistent and not private:
            continue
        out = consistent_tree(cut, 1) if consistent else tree_in_records(cut, 1)
        p, tests = least_p(out, tree, kind, 0.1)
        assert (p * tests > LEVEL) == private
