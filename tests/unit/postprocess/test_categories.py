"""Levels that were categories come back as such, and tell of no category that was not released."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

import dpframe as dp
from dpframe.postprocess.level_values import TEXT

BUDGET: dict[str, Any] = {"epsilon": 4.0, "delta": 1e-6}
SIZES = ["small", "mid", "large", "secret"]
FRAME = pd.DataFrame(
    {
        "size": pd.Categorical(["small", "large", "mid"] * 400, SIZES, ordered=True),
        "code": pd.Categorical([1, 2, 3] * 400, [3, 2, 1, 77]),
        "x": [1.0, 2.0, 3.0] * 400,
    }
)

CALLS = {
    "hhh": lambda frame, **more: frame.dp.hhh(["size", "code"], **BUDGET, **more),
    "tree_counts": lambda frame, **more: frame.dp.tree_counts(["size", "code"], **BUDGET, **more),
    "rollup": lambda frame, **more: frame.dp.rollup(
        ["size", "code"], {"x": dp.sum("x", lower=0, upper=5)}, **BUDGET, **more
    ),
    "heavy_hitters": lambda frame, **more: frame.dp.heavy_hitters("size", **BUDGET, **more),
}


@pytest.mark.parametrize("question", CALLS)
def test_categories_come_back_without_those_that_were_not_released(question: str) -> None:
    """Law: an order that was declared stays, for what is shown; other categories are sorted."""
    found = CALLS[question](FRAME)
    size = found["size"].dtype
    assert size.ordered
    assert [name for name in size.categories if name in SIZES] == ["small", "mid", "large"]
    assert found["size"].max() in ("large", "<other>")
    if "code" in found:
        assert not found["code"].dtype.ordered
        assert found["code"].dtype.categories.tolist() == [1, 2, 3]
    texts = CALLS[question](FRAME.astype({"size": "str", "code": "int64"}))
    assert texts["size"].dtype == TEXT
    assert sorted(texts["size"].dropna()) == sorted(found["size"].dropna().astype("str"))


@pytest.mark.parametrize("question", CALLS)
def test_what_follows_takes_them(question: str, tmp_path: Path) -> None:
    found = CALLS[question](FRAME)
    assert "frame" not in found.dp.receipt.to_dict()
    found.dp.report(tmp_path / "page.html")
    found.dp.to_arrow()
    found.dp.top(2)
    if question != "heavy_hitters":
        assert len(found.dp.share()) == len(found)
        assert found.dp.below("mid")["size"].dropna().unique().tolist() == ["mid"]
    assert found.iloc[1:].dp.receipt["frame"].startswith("an extract")


def test_a_name_replays_them(tmp_path: Path) -> None:
    """Law: stored is text, which other sources replay as their types say."""
    ledger = dp.Ledger(tmp_path / "budget.db", epsilon=9.0, delta=1e-4)
    drawn = CALLS["hhh"](FRAME, ledger=ledger, release="sizes")
    with pytest.warns(dp.ReplayedNotice):
        again = CALLS["hhh"](FRAME, ledger=ledger, release="sizes")
    pd.testing.assert_frame_equal(drawn, again)
    assert ledger.recall("sizes")["size"].dtype == TEXT


def test_polars_has_them_too() -> None:
    kinds = {"size": pl.Enum(SIZES), "code": pl.Categorical}
    frame = pl.DataFrame({"size": ["small", "mid"] * 600, "code": ["b", "a"] * 600}, schema=kinds)
    found = frame.dp.hhh(["size", "code"], **BUDGET)  # type: ignore[attr-defined]
    assert isinstance(found.schema["size"], pl.Categorical | pl.Enum)
    assert set(found["size"].drop_nulls()) == {"small", "mid"}
    if isinstance(found.schema["size"], pl.Enum):
        assert "secret" not in found.schema["size"].categories
