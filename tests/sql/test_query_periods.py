"""Ranges of a column of times in WHERE as periods."""

from __future__ import annotations

import itertools
from pathlib import Path

import duckdb
import pandas as pd
import pytest

import dpframe as dp
from dpframe import testing
from dpframe.doors.sql import query_rows
from dpframe.doors.sql.query import Tables
from dpframe.doors.sql.query_rows import RowReader
from dpframe.doors.sql.query_tree import read_query

MOMENTS = [
    pd.Timestamp(day) + pd.Timedelta(microseconds=shift)
    for day in ("2025-10-01", "2025-10-02", "2025-10-31", "2025-11-01", "2025-11-02")
    for shift in (-1, 0, 1, 43_200_000_000)
]
TIMES = pd.DataFrame({"seen": pd.Series(MOMENTS).astype("datetime64[us]"), "k": "a"})
DAYS = TIMES.assign(seen=TIMES["seen"].dt.date.astype("date32[pyarrow]"))

LOWS = ("seen >= '2025-10-01'", "seen > '2025-10-01 12:00:00'", "DATE '2025-10-02' <= seen")
HIGHS = (
    "seen < '2025-11-01'",
    "seen <= DATE '2025-11-01'",
    "'2025-11-01 00:00:01' > seen",
    "seen < TIMESTAMP '2025-11-01 00:00:00.000001'",
)
RANGES = (
    *(" AND ".join(pair) for pair in itertools.product(LOWS, HIGHS)),
    "seen BETWEEN '2025-10-01' AND '2025-10-31'",
    "seen = '2025-10-31' AND k = 'a'",
    "s.seen BETWEEN '2025-10-01' AND '2025-11-30' AND seen < '2025-10-31'",
)


def days_of(where: str, rows: pd.DataFrame) -> tuple[pd.Timestamp, pd.Timestamp]:
    """The first moment of the days, and the first after them."""
    query = read_query(f"SELECT k, count(*) FROM s WHERE {where} GROUP BY k")
    reader = RowReader(query, *Tables.of({"s": rows}, None).columns())
    reader.kind_of_query(query.tree, {})
    first, _, last = reader.days_of("seen").partition("..")
    return pd.Timestamp(first), pd.Timestamp(last) + pd.Timedelta(days=1)


def rows_lie_in_days(where: str, rows: pd.DataFrame) -> bool:
    first, end = days_of(where, rows)
    s = rows  # noqa: F841  the name that the query reads
    passed = duckdb.sql(f"SELECT seen::TIMESTAMP FROM s WHERE {where}").fetchall()
    assert passed
    return all(first <= pd.Timestamp(seen) < end for (seen,) in passed)


@pytest.mark.parametrize("rows", [TIMES, DAYS], ids=["times", "days"])
@pytest.mark.parametrize("where", RANGES)
def test_rows_of_a_range_lie_in_its_days(where: str, rows: pd.DataFrame) -> None:
    """Law: a query that reads the days alone reads all rows that WHERE lets pass."""
    assert rows_lie_in_days(where, rows)


def test_days_that_are_too_few_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: an end that is read as if it were left out."""
    real = query_rows._moment
    later = lambda part: real(part) and real(part) + pd.Timedelta(days=1)  # noqa: E731
    monkeypatch.setattr(query_rows, "_moment", later)
    assert not rows_lie_in_days("seen BETWEEN '2025-10-01' AND '2025-10-31'", TIMES)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, count(*) FROM s WHERE seen >= '2025-10-01' GROUP BY k",
        "SELECT k, count(*) FROM s WHERE seen < '2025-10-01' AND seen > '2025-10-02' GROUP BY k",
        "SELECT k, count(*) FROM s WHERE seen >= '2025-10-01' OR seen < '2025-11-01' GROUP BY k",
        "SELECT k, count(*) FROM (SELECT k, seen + INTERVAL 1 YEAR AS seen FROM s) AS s "
        "WHERE seen BETWEEN '2025-10-01' AND '2025-10-31' GROUP BY k",
        "SELECT k, count(*) FROM s AS t(k, seen) "
        "WHERE seen BETWEEN '2025-10-01' AND '2025-10-31' GROUP BY k",
        "SELECT s.k, count(*) FROM s JOIN days p ON s.k = p.k "
        "WHERE p.seen BETWEEN '2025-10-01' AND '2025-10-31' GROUP BY s.k",
    ],
)
def test_other_ranges_are_no_period(query: str) -> None:
    public = {"days": DAYS.head(1)}
    with pytest.raises(dp.ParameterError, match="needs both ends in WHERE"):
        dp.explain_sql(query, {"s": TIMES}, public=public, period="seen", epsilon=1, delta=1e-6)


def test_months_that_share_no_rows_cost_what_one_costs(tmp_path: Path) -> None:
    rows = pd.concat([TIMES] * 100, ignore_index=True)
    ledger = dp.Ledger(tmp_path / "b.db", epsilon=1.0, delta=1e-5)
    for first, end in (("2025-10-01", "2025-11-01"), ("2025-11-01", "2025-12-01")):
        where = f"seen >= '{first}' AND seen < '{end}'"
        query = f"SELECT k, count(*) AS n FROM s WHERE {where} GROUP BY k"
        given = {"epsilon": 1.0, "delta": 1e-6, "progress": False}
        with testing.seeded_noise(7):
            asked = dp.sql(query, {"s": rows}, period="seen", ledger=ledger, **given)
        with testing.seeded_noise(7):
            assert dp.sql(query, {"s": rows}, **given)["n"].tolist() == asked["n"].tolist()
    assert ledger.spent.epsilon == 1.0
