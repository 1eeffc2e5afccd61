"""The sketch of users against the pseudocode."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpframe.errors import DpframeError, ParameterError, ParameterTypeError
from dpframe.sketches import MisraGries, PrivacyAwareMisraGries
from tests import naive
from tests.members import tries


def content(sketch: PrivacyAwareMisraGries) -> tuple[dict[Any, int], int]:
    state = sketch._state()
    counts = dict(zip(state.keys.to_pylist(), state.counts.tolist(), strict=True))
    return counts, sketch.decrements


def sketched(sets: list[list[Any]], counters: int, most: int) -> PrivacyAwareMisraGries:
    sketch = PrivacyAwareMisraGries(counters, most)
    for items in sets:
        sketch.update(items)
    return sketch


def rows(sets: list[list[Any]]) -> tuple[list[int], list[Any]]:
    """Users in ascending order, from their number in the list, and their items."""
    pairs = [(3 * user, item) for user, items in enumerate(sets) for item in items]
    return [user for user, _ in pairs], [item for _, item in pairs]


SETS = st.lists(st.lists(st.integers(0, 11), max_size=9), max_size=25)
TEXTS = [str, lambda x: "an item with a long name, " + "x" * x, lambda x: bytes([x] * 20)]


@tries(25, 100, deadline=None)
@given(SETS, st.integers(2, 7), st.integers(1, 6), st.sampled_from([int, *TEXTS]))
def test_the_state_is_that_of_the_pseudocode(
    sets: list[list[int]], counters: int, most: int, spelling: Any
) -> None:
    """Law: Algorithm 4 a user at a time, and the same for all users in one table; C <= f <= C +
    decrements for every key if no user is cut, and decrements <= n / (k + 1)."""
    users = [[spelling(x) for x in items] for items in sets]
    expected = naive.privacy_aware(users, counters, most)
    assert content(sketched(users, counters, most)) == expected
    whole = PrivacyAwareMisraGries(counters, most)
    whole.update_users(*rows(users))
    assert content(whole) == expected
    assert whole.total == sum(len(sorted(set(items))[:most]) for items in users)
    assert whole.decrements * (counters + 1) <= whole.total
    uncut = sketched(users, counters, 12)
    true = Counter(item for items in users for item in set(items))
    for key in true:
        assert uncut.estimate(key) <= true[key] <= uncut.estimate(key) + uncut.decrements


@tries(25, 100, deadline=None)
@given(SETS, st.integers(2, 7), st.integers(0, 25))
def test_tables_may_be_cut_between_users(sets: list[list[int]], counters: int, cut: int) -> None:
    """Law: how many users come in one call means nothing."""
    users, items = rows(sets)
    first = sum(user < 3 * cut for user in users)
    sketch = PrivacyAwareMisraGries(counters, 9)
    sketch.update_users(users[:first], items[:first])
    sketch.update_users(users[first:], items[first:])
    assert content(sketch) == naive.privacy_aware(sets, counters, 9)


def test_many_users_with_long_names_agree_too() -> None:
    """Law: calls that are worked off in several parts, with keys in the arena, change nothing."""
    rng = np.random.default_rng(3)
    sets = [[f"item number {x}, spelled out" for x in rng.zipf(1.3, 8) % 300] for _ in range(6000)]
    sketch = PrivacyAwareMisraGries(20, 8)
    sketch.update_users(*rows(sets))
    assert content(sketch) == naive.privacy_aware(sets, 20, 8)


@tries(25, 100, deadline=None)
@given(st.lists(st.integers(0, 6), max_size=60), st.integers(2, 5))
def test_users_with_one_item_make_the_standard_sketch(stream: list[int], counters: int) -> None:
    """Law: with one item a user this is Misra-Gries, as the paper says."""
    plain = MisraGries(counters, standard=True)
    plain.update(stream)
    users = sketched([[x] for x in stream], counters, 1)
    assert users._state().keys.to_pylist() == plain._state().keys.to_pylist()
    assert users._state().counts.tolist() == plain._state().counts.tolist()
    assert users.decrements == plain.decrements


@pytest.mark.parametrize(
    "form", [set, frozenset, np.array, pd.Series, pl.Series, pa.array, iter, pd.Categorical]
)
def test_the_items_of_a_user_come_in_any_form(form: Any) -> None:
    """Law: sets are welcome here, a user's items have no order."""
    sketch = PrivacyAwareMisraGries(3, 2)
    if form is pd.Categorical:
        form = lambda x: pd.Series(pd.Categorical(x, categories=["c", "b", "a"]))  # noqa: E731
    sketch.update(form(["c", "a", "b"]))
    assert sketch.top() == [("a", 1), ("b", 1)]


def test_users_of_any_kind_are_in_the_order_of_their_bytes() -> None:
    """Law: text is sorted as Arrow and DuckDB sort it."""
    sketch = PrivacyAwareMisraGries(3, 2)
    sketch.update_users(["B", "a", "a", "é"], [1, 1, 2, 1])
    assert sketch.top() == [(1, 3), (2, 1)]
    sketch.update_users(pa.array(["日本"]), np.array([2]))
    with pytest.raises(ParameterError, match="users must"):
        sketch.update_users(["z"], [1])
    numbers = PrivacyAwareMisraGries(3, 2)
    numbers.update_users([-1, 0], [1, 1])
    numbers.update_users(np.array([5], dtype=np.uint64), [1])
    assert numbers.estimate(1) == 3


@pytest.mark.parametrize(
    ("users", "items", "rule"),
    [
        ([5, 4], ["a", "b"], "users must"),
        ([1, 2, 1], ["a", "b", "c"], "users must"),
        ([0], ["a"], "users must"),  # seen before
        ([-1], ["a"], "users must"),
        ([7, 8], ["a"], "users and items"),
        ([], ["a"], "users and items"),
        ([7, None], ["a", "b"], "NULL"),
        ([7, 8], ["a", None], "NULL"),
        ([7, 8], ["a", 1], "mixed"),
        ([7, 8], [1, 2], "holds text and the batch integers"),
        (["x", "y"], ["a", "b"], "holds integers and the batch text"),
    ],
)
def test_a_refused_call_leaves_the_sketch_as_it_was(users: Any, items: Any, rule: str) -> None:
    """Law: after an error the sketch is as before."""
    sketch = PrivacyAwareMisraGries(2, 2)
    sketch.update_users([0, 0], ["a", "b"])
    before = content(sketch)
    with pytest.raises(DpframeError, match=rule):
        sketch.update_users(users, items)
    assert content(sketch) == before
    sketch.update_users([1], ["a"])
    assert sketch.estimate("a") == 2


@pytest.mark.parametrize("wrong", [0, -1, 2.5, None, True])
@pytest.mark.parametrize("name", ["counters", "max_items"])
def test_counters_and_max_items_are_whole_numbers(name: str, wrong: Any) -> None:
    given = {"counters": 3, "max_items": 3, name: wrong}
    with pytest.raises((ParameterError, ParameterTypeError), match=name):
        PrivacyAwareMisraGries(given["counters"], given["max_items"])


def test_repr_depends_on_parameters_only() -> None:
    """Law: what a sketch shows of itself is equal for all data."""
    shown = {repr(sketched(sets, 3, 2)) for sets in ([], [[1]], [["a", "b"], ["c"]])}
    assert shown == {"PrivacyAwareMisraGries(counters=3, max_items=2, <private>)"}
