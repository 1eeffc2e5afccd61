"""Rollups of Spark DataFrames: with the same noise, the frames that DuckDB's statements give."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

import dpframe as dp
from dpframe.errors import ColumnError, ParameterError
from dpframe.testing import seeded_noise
from tests.integration.test_measures_elsewhere import MEASURES, ROWS, SHAPES

pytestmark = pytest.mark.engines


@pytest.fixture(scope="module")
def frame(session: Any) -> Any:
    return session.createDataFrame(ROWS)


def same(frame: Any, by: Any, measures: Any, **more: Any) -> pd.DataFrame:
    found = []
    for source in (ROWS, frame):
        with seeded_noise(7):
            found.append(dp.rollup(source, by, measures, **more))
    pd.testing.assert_frame_equal(*found)
    return found[0]


OF_USERS: dict[str, Any] = {
    "n": "count",
    "rows": dp.count(at_most=2),
    "s": dp.sum("amount", lower=-10, upper=50, clipped=True),
    "m": dp.mean("amount", lower=-20, upper=100),
    "q": dp.sum("whole", lower=0, upper=9),
}

PATHS = ["a/1/1", "a/2/9", "a/3", "b"]
CITIES = [("FR", "c1"), ("FR", "c2"), ("DE", "c1"), ("ZZ", "c1")]
RATES = [("0.1", "0.005"), ("1e-05", "0.007"), ("3", "-1.000")]
SEARCHED = ["sum(whole, auto, auto)", "mean(cents, auto, auto)"]

CASES: list[Any] = [
    *((*shape, MEASURES) for shape in SHAPES),
    (["country", "city"], {"keys": CITIES, "user": "who"}, OF_USERS),
    ("path:path", {"keys": PATHS, "user": "who"}, OF_USERS),
    ("path:path", {"delta": 1e-6}, ["distinct(who)", "distinct(amount)"]),
    # of users with three rows each all pairs count, whatever the hash is
    ("path:path", {"keys": PATHS, "user": "who"}, dp.distinct("whole", at_most=3)),
    (["country"], {"delta": 1e-6}, SEARCHED),
    (["country"], {"keys": ["FR", "DE"], "user": "who"}, SEARCHED),
    # keys that Spark writes in its own way
    (["rate", "cents"], {"keys": RATES, "user": "who"}, OF_USERS),
    (["rate", "cents"], {"delta": 1e-6}, SEARCHED),
]
"""With users the keys are listed: how shares are rounded for a selection differs by engine."""


@pytest.mark.parametrize(("by", "more", "measures"), CASES)
def test_frames_are_those_of_duckdb(frame: Any, by: Any, more: Any, measures: Any) -> None:
    """Of records, of users, of different values and with bounds that are searched; selected or
    listed; and no view is left behind."""
    assert len(same(frame, by, measures, epsilon=9.0, **more)) >= 3
    assert frame.sparkSession.catalog.listTables() == []


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_ansi_mode_makes_no_difference(session: Any, frame: Any, ansi: str) -> None:
    session.conf.set("spark.sql.ansi.enabled", ansi)
    session.conf.set("spark.sql.decimalOperations.allowPrecisionLoss", ansi)
    try:
        same(frame, ["country"], OF_USERS, epsilon=9.0, keys=["FR", "DE"], user="who")
    finally:
        session.conf.unset("spark.sql.ansi.enabled")
        session.conf.unset("spark.sql.decimalOperations.allowPrecisionLoss")


def test_users_of_a_selection(frame: Any) -> None:
    with seeded_noise(7):
        found = dp.rollup(frame, "path:path", "count", epsilon=9.0, delta=1e-6, user="who")
    assert len(found) > 9
    assert found["count_lower"][0] <= len(ROWS) // 3 <= found["count_upper"][0]
    assert found["count_upper"][0] - found["count_lower"][0] < 20


def test_a_selection_of_nothing_leaves_the_root(frame: Any) -> None:
    measures = {**OF_USERS, "d": dp.distinct("whole", at_most=3)}
    more: dict[str, Any] = {"epsilon": 9.0, "delta": 1e-6, "threshold": 10**6, "user": "who"}
    assert len(same(frame, ["country"], measures, **more)) == 1


def test_what_cannot_be_measured_there(frame: Any) -> None:
    """Texts are no numbers; a measure that decides is not added up there. Told before it runs."""
    more: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
    with pytest.raises(ColumnError, match="'city' has type"):
        dp.rollup(frame, ["country"], "sum(city, 0, 1)", **more)
    paid = {"paid": dp.sum("amount", lower=0, upper=9)}
    for call in (dp.rollup, dp.explain_rollup):
        with pytest.raises(ParameterError, match=r"^heavy \('paid'\)"):
            call(frame, ["country"], paid, heavy="paid", **more)
