"""Frequent values of a flat column: a hierarchy of one level, largest counts first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpframe as dp
from dpframe.postprocess.shown_nodes import flat_frame
from dpframe.testing import seeded_noise
from tests.unit.refusals import Wrong, assert_refused, refusals

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}

TYPED = ["fix"] * 900 + ["add"] * 500 + ["é"] * 300 + [None] * 200 + ["rare"] * 2
WORDS = pd.DataFrame({"word": TYPED, "count": [1] * 1000 + [2] * 902})
WORDS["who"] = WORDS.index // 2


@pytest.mark.parametrize("mechanism", ["offline", "streaming", "laplace", "gaussian"])
def test_the_rows_are_those_of_a_hierarchy_of_one_level(mechanism: str) -> None:
    with seeded_noise(7):
        flat = dp.heavy_hitters(WORDS, "word", mechanism=mechanism, **BUDGET)
    with seeded_noise(7):
        whole = dp.hhh(WORDS, ["word"], mechanism=mechanism, remainder=False, **BUDGET)
    expected = whole.sort_values("count", ascending=False)[["word", "count", "lower", "upper"]]
    pd.testing.assert_frame_equal(flat, expected.reset_index(drop=True))
    assert set(flat["word"]) == {"fix", "add", "é", "<invalid>"}
    assert flat.dp.receipt["hierarchy"] == "columns:word"
    assert flat.dp.receipt["mechanism"] == mechanism


def test_k_takes_the_largest_of_what_is_released() -> None:
    """Choosing among released values changes no number and costs nothing."""
    with seeded_noise(7):
        everything = dp.heavy_hitters(WORDS, "word", **BUDGET)
    for k in (1, 3, 100):
        with seeded_noise(7):
            some = WORDS.dp.heavy_hitters("word", k=k, **BUDGET)
        pd.testing.assert_frame_equal(some, everything.head(k))
        assert some.dp.receipt["epsilon"] == 1.0


@pytest.mark.parametrize("mechanism", ["offline", "offline-gaussian"])
def test_the_largest_by_noise_are_said_to_be(mechanism: str) -> None:
    """Law: of close counts k takes those of large noise, and the receipt says so."""
    close = pd.DataFrame({"word": [f"w{i % 200:03}" for i in range(200_000)]})
    with seeded_noise(3):
        few = dp.heavy_hitters(close, "word", k=3, mechanism=mechanism, **BUDGET)
    assert not few["lower"].le(1000).all()
    assert "3 shown are the largest of 200" in few.dp.receipt["intervals"]
    assert "nominal" in str(few.dp.receipt)
    assert "nominal" in few.dp.intervals(0.99).dp.receipt["intervals"]
    every = dp.heavy_hitters(close, "word", k=200, mechanism=mechanism, **BUDGET)
    assert "nominal" not in str(every.dp.receipt)


def test_equal_counts_are_sorted_by_value() -> None:
    rows = pd.DataFrame({"level": [0, 1, 1, 1], "x": [None, "b", "c", "a"], "count": [9, 3, 5, 3]})
    rows = rows.assign(lower=0, upper=9)
    assert flat_frame(rows, "x", None)["x"].tolist() == ["c", "a", "b"]
    assert flat_frame(rows, "x", 2)["x"].tolist() == ["c", "a"]


def test_users_a_ledger_and_a_name(tmp_path: Path) -> None:
    """Charged once under a name; ``hhh`` with the same request replays the same release."""
    ledger = dp.Ledger(tmp_path / "budget.db", epsilon=10.0, delta=1e-4)
    named: dict[str, Any] = {**BUDGET, "user": "who", "ledger": ledger, "release": "words"}
    named["contribution"] = "share"
    first = dp.heavy_hitters(WORDS, "word", k=2, **named)
    again = dp.heavy_hitters(WORDS, "word", **named)
    pd.testing.assert_frame_equal(first, again.head(2))
    replayed = dp.hhh(WORDS, ["word"], remainder=False, **named)
    assert sorted(replayed["count"]) == sorted(again["count"])
    assert ledger.spent.epsilon == pytest.approx(1.0)


def test_a_column_of_the_result_keeps_its_name() -> None:
    found = dp.heavy_hitters(WORDS, "count", **BUDGET)
    assert list(found.columns) == ["count_", "count", "lower", "upper"]


@refusals(
    [
        ({"column": ["word"]}, dp.ParameterTypeError, ("column must be text",)),
        ({"column": None}, dp.ParameterTypeError, ("column must be text",)),
        ({"column": "wrd"}, dp.ColumnError, ("Did you mean 'word'?",)),
        ({"k": 0}, dp.ParameterError, ("k (0)",)),
        ({"k": 2.5}, dp.ParameterTypeError, ("k must be a whole number",)),
        ({"counters": 5}, dp.ParameterError, ("mechanism='streaming'",)),
    ]
)
def test_wrong_arguments(case: Wrong) -> None:
    assert_refused(WORDS.dp.heavy_hitters, case, column="word", **BUDGET)
