"""Users in streams: what of their rows enters the sketches, and how far one user moves them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpframe as dp
from dpframe._duck import relations
from dpframe.questions.hhh.ask import explain
from dpframe.questions.hhh.mechanism_plan import HhhPlan
from dpframe.sketches import SketchState
from dpframe.sources.spark_stream import sketch_states
from dpframe.testing import seeded_noise
from tests.members import few

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}


def count(source: object, plan: HhhPlan) -> Any:
    """One sketch a level, without the types of the source."""
    return sketch_states(source, plan)[0]


def rows(seed: int = 1, n: int = 400) -> pd.DataFrame:
    generator = np.random.default_rng(seed)
    leaf = generator.zipf(1.4, n) % 30
    who = [None if i == 7 else f"u{i}" for i in generator.integers(0, 40, n)]
    path = [None if i == 5 else f"{i % 3}/{i % 7}/{i}" for i in leaf]
    return pd.DataFrame({"who": who, "path": path})


def plan_of(contribution: str, most: int, counters: int) -> HhhPlan:
    unit = {"user": "who", "contribution": contribution, "max_contributions": most}
    stream = {"mechanism": "streaming", "counters": counters}
    return explain("path:path?depth=3", **unit, **stream, **BUDGET).plan


def counts(state: SketchState) -> dict[str, int]:
    keys, values = state.positive()
    return dict(zip(keys.to_pylist(), values.tolist(), strict=True))


@pytest.mark.parametrize("most", [1000, 5000])
def test_items_count_the_users_of_a_node(most: int) -> None:
    """With room for everything: the exact number of users at every node, by either sketch."""
    frame = rows()
    plan = plan_of("items", most, counters=100)
    assert plan.by_user_sets
    found = count(frame, plan)
    for level, state in enumerate(found, 1):
        paths = frame["path"].fillna("!")
        node = ["!" if p == "!" else "=" + "/".join(p.split("/")[:level]) for p in paths]
        kept = [v != "!" or level == 1 for v in node]
        kept = [
            k and (p == "!" or p.count("/") + 1 >= level) for k, p in zip(kept, paths, strict=True)
        ]
        users = frame.assign(node=node)[kept].fillna({"who": "nobody"})
        expected = users.groupby("node")["who"].nunique().to_dict()
        assert counts(state) == expected


def test_both_sketches_of_items_count_the_same() -> None:
    """What the plain sketch is fed has the meaning of the sketch of sets."""
    frame = rows()
    few, many = plan_of("items", 1, 100), plan_of("items", 1000, 100)
    assert (few.by_user_sets, many.by_user_sets) == (False, True)
    sets = count(frame, many)
    plain = count(frame, replace(few, asked=replace(few.asked, unit=many.unit)))
    assert [counts(a) for a in sets] == [counts(b) for b in plain]


def test_records_are_a_sample_of_each_user() -> None:
    frame = rows()
    sizes = frame.fillna({"who": "nobody"}).groupby("who").size()
    for most in (1, 3, 30):
        found = count(frame, plan_of("records", most, counters=100))
        assert found[0].total == sizes.clip(upper=most).sum()


@pytest.mark.parametrize("rows_at_once", [1, 7, 10**6])
def test_batches_never_divide_a_user(rows_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = rows()
    with seeded_noise(1):
        expected = count(frame, plan_of("items", 1000, counters=4))
    monkeypatch.setattr(relations, "BATCH_ROWS", rows_at_once)
    with seeded_noise(1):
        found = count(frame, plan_of("items", 1000, counters=4))
    assert [counts(a) for a in found] == [counts(b) for b in expected]


@few(3, "seed", range(8))
def test_one_user_moves_counters_by_one_in_one_direction(seed: int) -> None:
    """Of the sketches of sets, whatever user is left out; the sample is that of the same seed."""
    frame = rows(seed, 150)
    plan = plan_of("items", 1000, counters=3)
    with seeded_noise(2):
        whole = count(frame, plan)
    for who in frame["who"].dropna().unique()[:4]:
        with seeded_noise(2):
            without = count(frame[frame["who"] != who], plan)
        for a, b in zip(whole, without, strict=True):
            x, y = counts(a), counts(b)
            moves = {x.get(key, 0) - y.get(key, 0) for key in x.keys() | y.keys()} - {0}
            assert moves in (set(), {1}, {-1})


def test_shuffled_rows_give_the_same_sketches() -> None:
    frame = rows()
    for contribution, most in (("items", 1000), ("items", 2), ("records", 3)):
        plan = plan_of(contribution, most, counters=4)
        with seeded_noise(5):
            one = count(frame, plan)
        with seeded_noise(5):
            other = count(frame.sample(frac=1, random_state=3), plan)
        assert [counts(a) for a in one] == [counts(b) for b in other]


@pytest.mark.parametrize("mechanism", ["offline-gaussian", "laplace", "gaussian"])
def test_items_are_for_streams_and_exact_counts(mechanism: str) -> None:
    refused = f"contribution='items' does not go with mechanism='{mechanism}'"
    items = {"user": "who", "contribution": "items", "max_contributions": 3}
    with pytest.raises(dp.ParameterError, match=refused):
        dp.explain("path:path?depth=3", **items, mechanism=mechanism, **BUDGET)
