"""Periods of Spark DataFrames: the records that DuckDB reads, whatever the zone of the session."""

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

pytestmark = pytest.mark.engines

BUDGET: dict[str, Any] = {"epsilon": 4.0, "delta": 1e-5}


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

CALLS: dict[str, Any] = {
    "offline": lambda source, **more: dp.hhh(source, ["place"], **BUDGET, **more),
    "rollup by user": lambda source, **more: dp.rollup(
        source, ["place"], "count", user="who", **BUDGET, **more
    ),
}


@pytest.fixture(scope="module")
def frame(session: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    import pyarrow.parquet as pq

    path = tmp_path_factory.mktemp("periods") / "rows.parquet"
    pq.write_table(_rows(), path)
    return session.read.parquet(str(path))


@pytest.mark.parametrize("period", PERIODS, ids=str)
def test_spark_reads_the_same_records(session: Any, frame: Any, period: Any) -> None:
    """Law: with the same noise it is the frame of DuckDB, in any zone of the session."""
    zones = {"offline": "America/New_York", "rollup by user": "Asia/Kathmandu"}
    for name, ask in CALLS.items():
        session.conf.set("spark.sql.session.timeZone", zones[name])
        found = []
        for source in (_rows(), frame):
            with seeded_noise(3):
                found.append(ask(source, period=period))
        pd.testing.assert_frame_equal(*found, obj=name)
        assert found[0]["count"].max() > 10


def test_a_stream_of_a_period_counts_its_records(frame: Any) -> None:
    """Law: with far more counters than places, and a large epsilon, it is close to the truth."""
    result = dp.hhh(
        frame,
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


def test_what_is_read_in_other_ways_there_is_refused(frame: Any, tmp_path: Path) -> None:
    ledger = dp.Ledger(tmp_path / "ledger.db", epsilon=9.0, delta=1e-3)
    with pytest.raises(ColumnError, match=r"(?i)cast it to a date or timestamp"):
        dp.hhh(frame, ["place"], period=("text", "2023-10"), ledger=ledger, **BUDGET)
    with pytest.raises(ColumnError, match="period reads dates"):
        dp.hhh(frame, ["place"], period=("who", "2023-10"), ledger=ledger, **BUDGET)
    with pytest.raises(ColumnError, match="does not exist"):
        dp.hhh(frame, ["place"], period=("whn", "2023-10"), ledger=ledger, **BUDGET)
    with pytest.raises(ParameterError, match="is not over"):
        dp.hhh(frame, ["place"], period=("utc", "9000"), ledger=ledger, **BUDGET)
    assert len(ledger.releases()) == 0


def test_disjoint_periods_of_a_frame_cost_one(frame: Any, tmp_path: Path) -> None:
    ledger = dp.Ledger(tmp_path / "ledger.db", epsilon=9.0, delta=1e-3)
    for day in ("2023-10-28", "2023-10-29"):
        dp.hhh(frame, ["place"], period=("ntz", day), ledger=ledger, **BUDGET)
    assert ledger.summary()["spent_epsilon"][0] == 4.0
