"""The shipped selection, enumerated: for all neighbours, divergence <= the claimed delta.

Every output of ``offline_hhh.run`` on a tiny tree is produced with its exact probability (see
``enumerate_outputs``); the hockey-stick divergence of neighbouring tables is then a finite sum,
compared in both directions with what ``path_delta`` claims. No sampling and no tolerance.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

from dpframe.accounting.path_recursion import path_delta
from dpframe.mechanisms import offline_hhh
from dpframe.noise import NoiseTable, halves, laplace_table
from tests.members import in_turn, some

from .enumerate_outputs import (
    ScriptedCoins,
    ScriptedValues,
    divergence,
    every_release,
    every_script,
    every_selection,
    hockey_stick,
    more,
    released,
    tree_of,
    worst,
    worst_selection,
)
from .naive_accounting import chains, path_divergence

LAWS = {
    "skewed": halves(left=("geometric", 2.0, 3), right=("geometric", 1.0, 2), recentre=False),
    "symmetric": laplace_table(1.5, 2),
    "gaussian-left": halves(left=("gaussian", 2.0, 3), right=("geometric", 1.2, 2), recentre=False),
    "three values": laplace_table(3.0, 1),
    "four values": halves(left=("geometric", 2.0, 2), right=("geometric", 1.0, 1), recentre=False),
}
"""Test laws of a few atoms: small enough to enumerate, large enough to cost something."""

RELEASE = laplace_table(1.5, 2)
FEW = laplace_table(1.5, 1)
EPSILONS = (0.4, 1.0, 2.0)

CLEAR = 4
"""A threshold above highest + 1 of every law: no node of one record can be selected."""

TABLES = {
    "empty": {},
    "one record": {"a": 1},
    "at the threshold": {"a": 4},
    "chain": {"ab": 3, "a": 1},
    "siblings": {"a": 3, "b": 4},
    "cousins": {"aa": 3, "b": 3},
    "ragged": {"a": 2, "ab": 3},
    "isolated leaf": {"aa": 4, "b": 1},
    "two children": {"aa": 2, "ab": 3},
}
ENUMERATED_WHOLE = ("empty", "one record", "at the threshold", "chain", "siblings", "ragged")


def neighbours(table: dict[str, int], height: int) -> list[dict[str, int]]:
    """One more record at every node that exists, and at every kind of node that does not."""
    nodes = {path[:end] for path in table for end in range(1, len(path) + 1)}
    new = {node + "z" for node in nodes if len(node) < height} | {"zzz"[:height], "z"}
    return [more(table, path) for path in sorted(nodes | new)]


@cache
def whole_law(items: tuple[tuple[str, int], ...], law: str, threshold: int, remainder: bool):
    return every_release(
        dict(items), test=LAWS[law], release=FEW, threshold=threshold, remainder=remainder
    )


@cache
def selection_law(items: tuple[tuple[str, int], ...], law: str, threshold: int, remainder: bool):
    return every_selection(dict(items), test=LAWS[law], threshold=threshold, remainder=remainder)


@cache
def claimed(
    law: str,
    height: int,
    remainder: bool,
    epsilon: float,
    threshold: int,
    release: NoiseTable = RELEASE,
) -> float:
    options = {"epsilon": epsilon, "remainder": remainder, "threshold": threshold}
    return path_delta(LAWS[law], release, height=height, **options)


def key(table: dict[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(table.items()))


@some("three values-True-2", "four values-False-2")
@in_turn(
    (
        ("law", "remainder"),
        [
            *(("three values", True), ("three values", False), ("four values", False)),
            pytest.param("four values", True, marks=pytest.mark.evidence),
        ],
    ),
    ("threshold", [2, CLEAR]),
)
def test_no_neighbour_is_further_than_claimed_over_every_value_of_every_draw(
    law: str, threshold: int, remainder: bool
) -> None:
    """Law: D(M(D) || M(D')) <= delta(epsilon) in both directions, for complete outputs.

    Nothing is assumed about how the noise is used. Threshold 2 lets a node of one record be
    selected (also one that exists on one side only), threshold 4 does not.
    """
    for table in (TABLES[name] for name in ENUMERATED_WHOLE):
        for neighbour in neighbours(table, 2):
            p = whole_law(key(table), law, threshold, remainder)
            q = whole_law(key(neighbour), law, threshold, remainder)
            for epsilon in EPSILONS:
                delta = claimed(law, 2, remainder, epsilon, threshold, FEW)
                assert worst(p, q, math.exp(epsilon)) <= delta, (table, neighbour, epsilon)


@pytest.mark.parametrize("table", [{"ab": 3, "a": 1}, {"a": 3, "b": 1}], ids=["chain", "siblings"])
def test_coins_and_values_enumerate_the_same_law(table: dict[str, int]) -> None:
    """Law: replacing comparisons by exact coins and adding release noise afterwards is exact."""
    law, neighbour = LAWS["skewed"], more(table, "a")
    options = {"test": law, "threshold": CLEAR, "remainder": True}
    whole = [every_release(t, release=FEW, **options) for t in (table, neighbour)]
    coins = [every_selection(t, **options) for t in (table, neighbour)]
    for (p, q), (a, b) in zip((whole, whole[::-1]), (coins, coins[::-1]), strict=True):
        for epsilon in EPSILONS:
            t = math.exp(epsilon)
            assert float(hockey_stick(p, q, t)) == pytest.approx(
                divergence(a, b, FEW, t), rel=1e-12, abs=1e-15
            )


def test_released_numbers_are_the_residual_plus_exactly_one_fresh_draw() -> None:
    """Law: every reported residual carries its own draw, and no draw is used twice."""
    tree = tree_of({"ab": 4, "a": 4, "c": 4})
    always = laplace_table(1.0, 1)
    for script, noisy in every_script(
        lambda script: offline_hhh.run(
            tree,
            test=ScriptedCoins(always, script),
            release=_Recorded(FEW, script),
            threshold=2,
            remainder=True,
        )
    ):
        true = {"": 0, "a": 4, "ab": 4, "c": 4}
        drawn = [value - true[path] for path, value in released(noisy)]
        assert drawn == script.recorded  # type: ignore[attr-defined]


class _Recorded(ScriptedValues):
    def draw(self, n: int):
        values = super().draw(n)
        self.script.recorded = values.tolist()  # type: ignore[attr-defined]
        return values


def test_the_rest_of_the_output_is_a_function_of_the_released_residuals() -> None:
    """Law: levels, ancestors, counts and terms add nothing to (path, released residual)."""
    seen: dict[object, object] = {}
    for table in ({"ab": 3, "a": 1}, {"ab": 2, "a": 3}, {"ab": 3, "a": 1, "c": 9}):
        tree = tree_of(table)
        for _, noisy in every_script(
            lambda script, tree=tree: offline_hhh.run(
                tree,
                test=ScriptedCoins(LAWS["skewed"], script),
                release=ScriptedValues(FEW, script),
                threshold=CLEAR,
                remainder=True,
            )
        ):
            rest = [x.tolist() for x in (noisy.level, noisy.ancestor, noisy.count, noisy.terms)]
            assert seen.setdefault(released(noisy), rest) == rest


@in_turn(
    (
        "law",
        [
            *("skewed", "symmetric", "gaussian-left"),
            pytest.param("three values", marks=pytest.mark.evidence),  # with every draw, above
            pytest.param("four values", marks=pytest.mark.evidence),
        ],
    ),
    ("threshold", [1, pytest.param(3, marks=pytest.mark.evidence), CLEAR]),
    ("remainder", [True, False]),
)
def test_no_neighbour_of_a_small_tree_is_further_than_claimed(
    law: str, threshold: int, remainder: bool
) -> None:
    """Law: the claim bounds ragged, branching, empty and growing trees at heights 2 and 3."""
    tables = [
        *TABLES.values(),
        {"abc": 3, "ab": 1, "a": 1},
        {"abc": 2, "abd": 2, "ac": 1, "b": 5},
        {"aaa": 4, "bbb": 1},
    ]
    for table in tables:
        for height in (2, 3):
            if max(map(len, table), default=0) > height:
                continue
            for neighbour in neighbours(table, height):
                p = selection_law(key(table), law, threshold, remainder)
                q = selection_law(key(neighbour), law, threshold, remainder)
                for epsilon in EPSILONS:
                    exact = worst_selection(p, q, RELEASE, math.exp(epsilon))
                    delta = claimed(law, height, remainder, epsilon, threshold)
                    assert exact <= delta, (table, neighbour, height, epsilon)


@in_turn(("law", list(LAWS)), ("height", [1, 2, 3]), ("remainder", [True, False]))
def test_the_claim_is_attained_by_some_chain_and_exceeded_by_none(
    law: str, height: int, remainder: bool
) -> None:
    """Law: delta(epsilon) is the supremum over data sets, not only a bound.

    All chains of residuals that do not decrease towards the root, one more record at the
    deepest node; the naive recursion over all residuals gives the same number.
    """
    paths = ["abc"[:end] for end in range(height, 0, -1)]
    closest = dict.fromkeys(EPSILONS, 0.0)
    for counts in chains(height, CLEAR - LAWS[law].lowest + 1):
        own = [b - a for a, b in zip((0, *counts), counts, strict=False)]
        table = dict(zip(paths, own, strict=True))
        p = selection_law(key(table), law, CLEAR, remainder)
        q = selection_law(key(more(table, paths[0])), law, CLEAR, remainder)
        for epsilon in EPSILONS:
            exact = worst_selection(p, q, RELEASE, math.exp(epsilon))
            assert exact <= claimed(law, height, remainder, epsilon, CLEAR), (table, epsilon)
            closest[epsilon] = max(closest[epsilon], exact)
    for epsilon in EPSILONS:
        point = {"height": height, "epsilon": epsilon, "remainder": remainder}
        ways = (path_divergence(LAWS[law], RELEASE, **point, more_first=m) for m in (False, True))
        delta = claimed(law, height, remainder, epsilon, CLEAR)
        assert closest[epsilon] == pytest.approx(delta, rel=1e-8, abs=1e-13)
        assert max(ways) == pytest.approx(delta, rel=1e-8, abs=1e-13)


def test_a_claim_for_a_lower_tree_is_rejected() -> None:
    """Negative control: some chain exceeds the claim that leaves one level of it unpaid."""
    exact = 0.0
    for low, middle, high in chains(3, 8):
        table = {"abc": low, "ab": middle - low, "a": high - middle}
        p = selection_law(key(table), "skewed", CLEAR, True)
        q = selection_law(key(more(table, "abc")), "skewed", CLEAR, True)
        exact = max(exact, worst_selection(p, q, RELEASE, math.exp(1.0)))
    assert claimed("skewed", 2, True, 1.0, CLEAR) < exact <= claimed("skewed", 3, True, 1.0, CLEAR)


def test_a_node_that_appears_is_charged_when_the_threshold_lets_it() -> None:
    """Law: with threshold <= highest + 1 a node that only one side has is paid for in full.

    Negative control: the claim that assumes a clear threshold is too small for it.
    """
    law = LAWS["skewed"]
    p = every_selection({}, test=law, threshold=1, remainder=False)
    q = every_selection({"a": 1}, test=law, threshold=1, remainder=False)
    exact = worst_selection(p, q, RELEASE, math.exp(1.0))
    assert exact == pytest.approx(float(law.at_least()[-law.lowest]), rel=1e-12)
    assert exact <= claimed("skewed", 1, False, 1.0, 1)
    assert exact > claimed("skewed", 1, False, 1.0, CLEAR)


def test_the_remainder_is_released_also_when_nothing_is_there() -> None:
    """Law: whether the root is reported depends on the plan alone, not on the table."""
    for table in ({}, {"a": 1}, {"a": 9}):
        for remainder in (True, False):
            law = every_selection(table, test=LAWS["skewed"], threshold=CLEAR, remainder=remainder)
            assert all(("" in dict(out)) == remainder for out in law)


def test_pairs_beyond_one_record_are_not_what_is_claimed() -> None:
    """Negative control: two records apart exceed the claim for one."""
    p = every_selection({"a": 3}, test=LAWS["skewed"], threshold=CLEAR, remainder=True)
    q = every_selection({"a": 5}, test=LAWS["skewed"], threshold=CLEAR, remainder=True)
    assert worst_selection(p, q, RELEASE, math.exp(1.0)) > claimed("skewed", 1, True, 1.0, CLEAR)


def test_enumeration_itself_sees_a_table_that_does_not_sum_to_one() -> None:
    """Negative control: the enumeration asserts that the probabilities of all outputs add to 1."""
    short = NoiseTable("broken", 0, np.array([2**62, 2**62], dtype=np.uint64))
    with pytest.raises(AssertionError):
        every_release({"a": 2}, test=short, release=FEW, threshold=2, remainder=False)
