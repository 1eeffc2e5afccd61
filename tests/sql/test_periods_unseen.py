"""Periods of what only the first connection sees: temporary tables, registered frames, queries."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

import dpframe as dp
from dpframe.testing import seeded_noise
from tests.members import some

TIMES = pd.date_range("2024-06-02", periods=4000, freq="7min")
FRAME = pa.table(
    {
        "a": [str(i // 40) for i in range(4000)],
        "n": range(4000),
        "day": pa.array(TIMES.date, pa.date32()),
        "time": pa.array(TIMES, pa.timestamp("us")),
        "coarse": pa.array(TIMES, pa.timestamp("s")),
        "fine": pa.array(TIMES, pa.timestamp("ns")),
        "zoned": pa.array(TIMES.tz_localize("UTC"), pa.timestamp("us", "UTC")),
        "text": [f"{t.isoformat()}" for t in TIMES],
    }
)
ASKED = "'columns:a', epsilon := 1.0, delta := 1e-6"
PERIODS = [
    ("day", "2024-06-03..2024-06-04"),
    ("time", "2024-06-05T13"),
    ("coarse", "2024-W23"),
    ("fine", "2024-06-05"),
    ("zoned", "2024-06-05", "Asia/Kathmandu"),
    ("text", "2024-06-05"),
    ("time", None),
]


def sql_of(period: tuple[str | None, ...]) -> str:
    return "[" + ", ".join("NULL" if p is None else f"'{p}'" for p in period) + "]"


@pytest.fixture
def ledger(tmp_path: Path) -> dp.Ledger:
    return dp.Ledger(tmp_path / "b.db", epsilon=50.0, delta=1e-2)


def asking(con: duckdb.DuckDBPyConnection, call: str) -> pd.DataFrame:
    with seeded_noise(7):
        return con.sql(f"FROM {call}").df()


@some("('day', '2024-06-03..2024-06-04')", "('coarse', '2024-W23')", "('text', '2024-06-05')")
@pytest.mark.parametrize("period", PERIODS, ids=map(str, PERIODS))
def test_what_only_this_connection_sees_is_restricted_as_a_table_is(
    ledger: dp.Ledger, tmp_path: Path, period: tuple[str | None, ...]
) -> None:
    """Law: rows, blocks and receipts of a registered frame and a temporary table are those of a
    table that others see, for every type of times."""
    with duckdb.connect(str(tmp_path / "t.db")) as con:
        con.register("frame", FRAME)
        con.sql("CREATE TABLE kept AS FROM frame")
        con.sql("CREATE TEMP TABLE own AS FROM frame")
        dp.register(con, ledger=ledger)
        found = {
            name: asking(con, f"dp_hhh('{name}', {ASKED}, period := {sql_of(period)})")
            for name in ("kept", "own", "frame")
        }
        for name in ("own", "frame"):
            pd.testing.assert_frame_equal(found[name], found["kept"])
        said = con.sql("SELECT receipt->>'period' AS p FROM dp_releases()").df()["p"]
        assert said.nunique() == 1
    if period[1] is not None:
        (blocks,) = ledger.blocks().to_dict("records")
        assert blocks["spent_epsilon"] == 3.0
        dp.hhh(FRAME, ["a"], epsilon=1.0, delta=1e-6, period=period, ledger=ledger)
        assert ledger.blocks()["spent_epsilon"].tolist() == [4.0]  # the same block in Python


def test_measures_and_a_query_of_a_temporary_table(ledger: dp.Ledger) -> None:
    """Law: a rollup of a temporary table, and counts of a query of it, read the period alone."""
    with duckdb.connect() as con:
        con.register("frame", FRAME)
        con.sql("CREATE TEMP TABLE own AS FROM frame")
        dp.register(con, ledger=ledger)
        period = "['time', '2024-06-05']"
        rolled = asking(
            con, f"dp_rollup('own', {ASKED}, measures := ['count AS orders'], period := {period})"
        )
        total = rolled.loc[rolled["level"] == 0]
        true = sum(t.date().isoformat() == "2024-06-05" for t in TIMES)
        assert total["orders_lower"].item() <= true <= total["orders_upper"].item()
        counted = asking(
            con, f"dp_hhh(NULL, {ASKED}, query := 'FROM own WHERE n > 0', period := {period})"
        )
        assert counted.loc[counted["level"] == 0, "count"].item() == pytest.approx(true, abs=80)
    assert ledger.spent.epsilon == 2.0
    assert ledger.blocks()["spent_epsilon"].tolist() == [2.0]


@pytest.mark.parametrize(
    ("period", "words"),
    [
        ("['n', '2024-06-05']", "period reads"),
        ("['day', '2024-06-05T13']", "which has no hours"),
        ("['time', '2024-06-05', 'Europe/Berlin']", "without a time zone"),
        ("['time', '9000']", "is not over"),
        ("['none', '2024']", "none"),
    ],
)
def test_a_column_that_the_period_does_not_fit_is_refused_before_the_charge(
    ledger: dp.Ledger, period: str, words: str
) -> None:
    """Law: what is found out when the statement runs costs nothing, and says what is wrong."""
    with duckdb.connect() as con:
        con.register("frame", FRAME)
        con.sql("CREATE TEMP TABLE own AS FROM frame")
        dp.register(con, ledger=ledger)
        for table in ("own", "frame"):
            with pytest.raises(duckdb.Error, match=words):
                asking(con, f"dp_hhh('{table}', {ASKED}, period := {period})")
    assert ledger.spent.epsilon == 0.0


def test_values_of_an_enum_are_not_told(ledger: dp.Ledger) -> None:
    """Law: an ENUM of times is text; an empty table is a table; nothing is read for its type."""
    with duckdb.connect() as con:
        con.sql("CREATE TEMP TABLE own (a VARCHAR, t ENUM('2024-06-05 10:00', '\"secret\"'))")
        dp.register(con, ledger=ledger)
        call = f"dp_hhh('own', {ASKED}, period := ['t', '2024-06-05'])"
        assert len(asking(con, call)) == 1
        con.sql("INSERT INTO own SELECT 'x', '2024-06-05 10:00' FROM range(300)")
        assert len(asking(con, call)) == 2
        assert "secret" not in con.sql("SELECT receipt FROM dp_releases()").df().to_string()
