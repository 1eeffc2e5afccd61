"""What a rollup says about itself: notices by released numbers, and none where there is no need."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpframe as dp
from dpframe.testing import seeded_noise
from tests.members import some

ROWS = 4_000
FRAME = pd.DataFrame({"c": ["a"] * 2_500 + ["b"] * 1_500, "ip": "no address", "some": "10.0.0.1"})
FRAME = FRAME.assign(nan=np.nan, big=50.0, ok=3.0, who=np.arange(ROWS) % 2_000)
FRAME["signed"] = np.resize([-4.0, 4.0], ROWS)
MEASURES: dict[str, Any] = {
    "n": "count",
    "nan": dp.sum("nan", lower=0, upper=10),
    "mean of nan": dp.mean("nan", lower=0, upper=10),
    "kinds of nan": dp.distinct("nan"),
    "big": dp.sum("big", lower=0, upper=10, clipped=True),
    "ok": dp.sum("ok", lower=0, upper=10, clipped=True),
    "mean": dp.mean("ok", lower=0, upper=10),
    "signed": dp.sum("signed", lower=-10, upper=10),
}
MISSING = ["nan", "mean of nan", "kinds of nan"]


def said(*names: str, by: Any = "columns:c", frame: pd.DataFrame = FRAME, **more: Any) -> list[str]:
    chosen = {name: MEASURES[name] for name in names}
    with seeded_noise(6):
        result = dp.rollup(frame, by, chosen, epsilon=20.0, delta=1e-6, **more)
    return [line.partition(":")[0] for line in result.dp.receipt.get("notices", [])]


@some("nan", "kinds of nan")
@pytest.mark.parametrize("name", MISSING)
def test_a_column_without_values_is_noticed(name: str) -> None:
    wanted = [f"values of {name} may be missing"]
    assert said("n", name) == wanted
    assert said(name) == wanted


def test_bounds_that_cut_most_values_are_noticed() -> None:
    """By the count beside them, also of users; without a count nothing says how many there are."""
    wanted = ["values of big are mostly cut"]
    assert said("n", "big") == wanted
    assert said("n", "big", user="who") == wanted
    assert said("big") == []


@pytest.mark.parametrize("name", ["n", "ok"])
def test_keys_that_cannot_be_read_are_noticed(name: str) -> None:
    """By a count, else by a sum of what is not negative."""
    assert said(name, by="ip:ip") == ["mostly <invalid>"]
    assert said(name, by="ip:some") == []


def test_good_columns_are_not_noticed() -> None:
    """Negative control, and of few rows, where all intervals hold 0."""
    assert said("n", "ok", "mean", "signed") == []
    assert said("n", "ok", "mean", "signed", user="who") == []
    empty = said(*MEASURES, frame=FRAME.iloc[:0])
    assert empty[0] == "nothing was shown"
    assert {one.partition(" of ")[0] for one in empty[1:]} == {"noise is most"}


def test_notices_are_first_on_the_card_and_the_same_in_every_replay() -> None:
    with seeded_noise(6):
        result = dp.rollup(FRAME, ["c"], {"m": MEASURES["nan"]}, epsilon=20.0, delta=1e-6)
    first = result.dp.receipt["card"][0]
    assert first[:2] == ["notice", "values of m may be missing"]
    assert "does column 'nan' hold numbers" in first[2]
