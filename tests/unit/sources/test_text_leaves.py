"""Records are counted by the places of their texts exactly as by the texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpframe as dp
from dpframe.sources import exact_trees
from dpframe.testing import seeded_noise

ROWS = 3 * exact_trees.FIRST_ROWS
TEXTS = ["a", "A", "a ", "é", "日本", "it's", 'say "so"', "\\", "%", "1", "\U0001f600", "\uffff"]
MEASURES = ("count", "sum(v, 0, 100)", "mean(v, -5, 50)")


def written(folder: Path, texts: list[Any], late: list[Any] | None = None) -> str:
    """A file; the ``late`` values come behind the rows that are looked at first."""
    draw = np.random.default_rng(2)
    column = [texts[i] for i in draw.integers(0, len(texts), ROWS)]
    column[ROWS - len(late or []) :] = late or []
    frame = pd.DataFrame({"k1": column, "n": draw.choice([f"x{i}" for i in range(9)], ROWS)})
    frame["v"] = np.where(draw.random(ROWS) < 0.1, np.nan, draw.normal(20, 60, ROWS))
    file = str(folder / "rows.parquet")
    frame.to_parquet(file)
    return file


def released(file: str, invalid: str = "count") -> list[pd.DataFrame]:
    by, budget = dp.columns("k1", "n", invalid=invalid), {"epsilon": 1.0, "delta": 1e-6}
    with seeded_noise(7):
        heavy = dp.hhh(file, by, threshold=90, **budget)
        sums = dp.rollup(file, by, MEASURES, threshold=90, **budget)
    return [heavy, sums]


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each call counted by places."""
    told, raw = list[bool](), exact_trees.text_leaves

    def asked(*args: Any, **given: Any) -> Any:
        leaves = raw(*args, **given)
        told.append(leaves is not None)
        return leaves

    monkeypatch.setattr(exact_trees, "text_leaves", asked)
    return told


CASES: dict[str, tuple[list[Any], list[Any] | None, bool]] = {
    "any signs": (TEXTS, None, True),
    "one text": (["a"], None, True),
    "late texts": (TEXTS, ["late", "later"] * 100, True),
    "missing": (TEXTS, [None], False),
    "empty": (TEXTS, [""], False),
    "missing at first": ([*TEXTS, None], None, False),
    "nothing but missing": ([None], None, False),
    "NUL": (TEXTS, ["a\0b"] * 200, False),
    "long": (TEXTS, ["b" * 2**15] * 200, False),
    "many": ([f"t{i}" for i in range(256)], None, False),
    "many late ones": (TEXTS, [f"t{i}" for i in range(256)], False),
}


@pytest.mark.parametrize("invalid", ["count", "drop"])
@pytest.mark.parametrize("case", CASES)
def test_places_count_what_texts_count(
    case: str, invalid: str, tmp_path: Path, found: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: one release under one seed, whichever counts, so that no record can choose its law."""
    texts, late, by_place = CASES[case]
    file = written(tmp_path, texts, late)
    ours = released(file, invalid)
    assert found == [by_place] * 2
    monkeypatch.setattr(exact_trees, "TEXTS", -1)
    for one, other in zip(ours, released(file, invalid), strict=True):
        pd.testing.assert_frame_equal(one, other)
        assert one.attrs["dp_digest"] == other.attrs["dp_digest"]
    assert found == [by_place] * 2 + [False] * 2


def test_a_wrong_place_is_noticed(
    tmp_path: Path, found: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: two texts change places."""
    file, raw = written(tmp_path, TEXTS), exact_trees._place_sql
    ours = released(file)

    def changed(column: str, texts: list[str]) -> str:
        return raw(column, [texts[1], texts[0], *texts[2:]])

    monkeypatch.setattr(exact_trees, "_place_sql", changed)
    assert not any(one.equals(other) for one, other in zip(ours, released(file), strict=True))
    assert all(found)


def test_a_text_that_comes_between_is_counted(
    tmp_path: Path, found: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: a text that has no place sends all rows to the count by texts."""
    file, raw = written(tmp_path, TEXTS), exact_trees._place_sql
    ours = released(file)
    monkeypatch.setattr(exact_trees, "_place_sql", lambda column, texts: raw(column, texts[1:]))
    for one, other in zip(ours, released(file), strict=True):
        pd.testing.assert_frame_equal(one, other)
    assert found == [True, True, False, False]


def test_only_columns_of_parquet_files_are_read_twice(tmp_path: Path, found: list[bool]) -> None:
    frame = pd.read_parquet(written(tmp_path, TEXTS))
    csv = str(tmp_path / "rows.csv")
    frame.to_csv(csv, index=False)
    released(csv)
    assert not any(found)
