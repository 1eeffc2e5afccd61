"""Rollups and periods of Spark DataFrames: with one noise, the frames that DuckDB gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
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
IN_BINS: dict[str, Any] = {
    "med": "median(amount, -10, 60)",
    "q": "quantiles(whole, -5, 49, at=[0.1, 0.9], bins=whole)",
    "h": "histogram(cents, -2, 8, bins=[0, 0.5, 1, 4.999])",
    "y": "quantile(single, 0.9, 0, 1, bins=200)",
}
OF_EACH = {
    "total": "median(amount, -10, 100, each=total)",
    "mean": "quantiles(whole, 0, 30, at=[0.5, 0.9], each=mean)",
    "parts": "histogram(cents, -2, 8, each=mean, bins=[0, 0.5, 1, 4.999])",
}
SEARCHED = ["sum(whole, auto, auto)", "mean(cents, auto, auto)"]

CASES: list[Any] = [
    *((*shape, MEASURES) for shape in SHAPES),
    (["country", "city"], {"keys": CITIES, "user": "who"}, OF_USERS),
    ("path:path", {"keys": PATHS, "user": "who"}, OF_USERS),
    ("path:path", {"delta": 1e-6}, ["distinct(who)", "distinct(amount)"]),
    # of users with three rows each all pairs count, whatever the hash is
    ("path:path", {"keys": PATHS, "user": "who"}, dp.distinct("whole", at_most=3)),
    (["country", "city"], {"delta": 1e-6}, IN_BINS),
    ("path:path", {"keys": PATHS, "user": "who"}, IN_BINS),
    (["country", "city"], {"keys": CITIES, "user": "who"}, OF_EACH),
    (["country", "path:path"], {"delta": 1e-6}, {"m": IN_BINS["med"], "n": "count"}),
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


# -- periods -------------------------------------------------------------------------------------


WEEKLY: dict[str, Any] = {"epsilon": 4.0, "delta": 1e-5}


def _rows() -> pa.Table:
    """Half hours about the bounds of a month and a change of clocks."""
    generator = np.random.default_rng(4)
    times = pd.Timestamp("2023-10-28") + pd.to_timedelta(
        30 * generator.integers(0, 48 * 6, 4_000), unit="min"
    )
    when = pd.Series(times.as_unit("us"))
    when[::40] = pd.NaT
    table = {
        "place": [f"p{i}" for i in generator.integers(0, 4, 4_000)],
        "who": generator.integers(0, 700, 4_000),
        "ntz": pa.array(when, pa.timestamp("us")),
        "utc": pa.array(when, pa.timestamp("us", "UTC")),
        "day": pa.array(when.dt.date.where(when.notna(), None), pa.date32()),
        "text": [None if pd.isna(t) else str(t) for t in when],
    }
    return pa.table(table)


PERIODS: list[Any] = [
    ("ntz", "2023-10"),
    ("ntz", "2023-W43..2023-W44"),
    ("ntz", "2023-10-29T02"),
    ("ntz", None),
    ("utc", "2023-10-29T02", "Europe/Berlin"),
    ("utc", "2023-10-29", "Europe/Berlin"),
    ("utc", "2023-10-29"),
    ("day", "2023-W44"),
    ("day", None),
]

ASKED: dict[str, Any] = {
    "offline": lambda source, **more: dp.hhh(source, ["place"], **WEEKLY, **more),
    "rollup by user": lambda source, **more: dp.rollup(
        source, ["place"], "count", user="who", **WEEKLY, **more
    ),
}


@pytest.fixture(scope="module")
def timed(session: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    import pyarrow.parquet as pq

    path = tmp_path_factory.mktemp("periods") / "rows.parquet"
    pq.write_table(_rows(), path)
    return session.read.parquet(str(path))


@pytest.mark.parametrize("period", PERIODS, ids=str)
def test_spark_reads_the_same_records(session: Any, timed: Any, period: Any) -> None:
    """Law: with the same noise it is the frame of DuckDB, in any zone of the session."""
    zones = {"offline": "America/New_York", "rollup by user": "Asia/Kathmandu"}
    for name, ask in ASKED.items():
        session.conf.set("spark.sql.session.timeZone", zones[name])
        found = []
        for source in (_rows(), timed):
            with seeded_noise(3):
                found.append(ask(source, period=period))
        pd.testing.assert_frame_equal(*found, obj=name)
        assert found[0]["count"].max() > 10


TIMES: dict[str, Any] = {
    "day": "median(day, 2023-10-28, 2023-11-03)",
    "ntz": "quantile(ntz, 0.3, 2023-10-28, 2023-11-03, bins=7)",
    "utc": "quantiles(utc, 2023-10-28 00:00:00.25, 2023-11-02, at=[0.5, 0.9], bins=33)",
    "h": "histogram(ntz, 2023-10-29, 2023-10-30, bins=[2023-10-29 02:00, 2023-10-29 02:30])",
}


@pytest.mark.parametrize("more", [{"user": "who"}, {}], ids=str)
def test_spark_puts_times_into_the_same_bins(session: Any, timed: Any, more: Any) -> None:
    """Law: hours that a zone has twice are apart, in any zone of the session."""
    for zone in ("America/New_York", "Europe/Berlin"):
        session.conf.set("spark.sql.session.timeZone", zone)
        found = []
        for source in (_rows(), timed):
            with seeded_noise(3):
                found.append(dp.rollup(source, ["place"], TIMES, **WEEKLY, **more))
        pd.testing.assert_frame_equal(*found)
        assert found[0]["h"].max() > 50


def test_a_stream_of_a_period_counts_its_records(timed: Any) -> None:
    """Law: with far more counters than places, and a large epsilon, it is close to the truth."""
    result = dp.hhh(
        timed,
        ["place"],
        mechanism="streaming",
        counters=64,
        epsilon=20.0,
        delta=1e-5,
        period=("ntz", "2023-10"),
    )
    rows = _rows().to_pandas()
    truth = rows[rows["ntz"] < "2023-11-01"]["place"].value_counts()
    assert len(truth) == 4
    for place, count in zip(result["place"], result["count"], strict=True):
        assert abs(count - truth[place]) < 60


def test_what_is_read_in_other_ways_there_is_refused(timed: Any, tmp_path: Path) -> None:
    ledger = dp.Ledger(tmp_path / "ledger.db", epsilon=9.0, delta=1e-3)
    with pytest.raises(ColumnError, match=r"(?i)cast it to a date or timestamp"):
        dp.hhh(timed, ["place"], period=("text", "2023-10"), ledger=ledger, **WEEKLY)
    with pytest.raises(ColumnError, match="period reads dates"):
        dp.hhh(timed, ["place"], period=("who", "2023-10"), ledger=ledger, **WEEKLY)
    with pytest.raises(ColumnError, match="does not exist"):
        dp.hhh(timed, ["place"], period=("whn", "2023-10"), ledger=ledger, **WEEKLY)
    with pytest.raises(ParameterError, match="is not over"):
        dp.hhh(timed, ["place"], period=("utc", "9000"), ledger=ledger, **WEEKLY)
    assert len(ledger.releases()) == 0


def test_disjoint_periods_of_a_frame_cost_one(timed: Any, tmp_path: Path) -> None:
    ledger = dp.Ledger(tmp_path / "ledger.db", epsilon=9.0, delta=1e-3)
    for day in ("2023-10-28", "2023-10-29"):
        dp.hhh(timed, ["place"], period=("ntz", day), ledger=ledger, **WEEKLY)
    assert ledger.summary()["spent_epsilon"][0] == 4.0
