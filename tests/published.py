"""A ledger with releases, and published results as a reader finds them."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import sqlalchemy as sa
from pandas.testing import assert_frame_equal
from sqlalchemy.pool import NullPool

import dpframe as dp
from dpframe.publishing.chart_columns import CHART_COLUMNS

BUDGET: dict[str, Any] = {"epsilon": 0.5, "delta": 1e-6}
VISITS = pd.DataFrame(
    {
        "src": ["10.1.2.3"] * 400 + ["10.9.0.1"] * 300,
        "Level": ["a'b"] * 400 + ["<invalid>"] * 300,
        "city": ["São Paulo"] * 700,
        "who": range(700),
    }
)
OCTOBER, NOVEMBER, SALES = "ips-2026-10", "ips-2026-11", "größe 2026-Q3"


@lru_cache(maxsize=1)
def _drawn() -> bytes:
    """Three named releases and one without a name; columns differ in a family."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = dp.Ledger(Path(folder, "budget.db"), epsilon=3.0, delta=1e-4)
        dp.hhh(VISITS, "ip:src", **BUDGET, ledger=ledger, release=OCTOBER)
        by_user = {"user": "who", "contribution": "share"}
        dp.hhh(VISITS, ["city", "src"], **by_user, **BUDGET, ledger=ledger, release=SALES)
        dp.hhh(VISITS, ["Level", "city"], **BUDGET, ledger=ledger, release=NOVEMBER, confidence=0.9)
        dp.hhh(VISITS, "ip:src", **BUDGET, ledger=ledger)
        return ledger.path.read_bytes()


def ledger_in(folder: Path) -> dp.Ledger:
    (folder / "budget.db").write_bytes(_drawn())
    return dp.Ledger(folder / "budget.db")


def engine_of(results: Path) -> sa.Engine:
    return sa.create_engine(
        f"duckdb:///{results}", connect_args={"read_only": True}, poolclass=NullPool
    )


def rows(results: Path, statement: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(results, read_only=True) as con:
        return con.execute(statement).fetchall()


def run(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def content(results: Path) -> dict[str, pd.DataFrame]:
    """Every table and view by name."""
    with duckdb.connect(results, read_only=True) as con:
        names = [name for (name,) in con.execute("SHOW TABLES").fetchall()]
        return {name: con.table(name).df() for name in names}


def as_released(frame: pd.DataFrame) -> pd.DataFrame:
    """The columns of a published table that are those of the release."""
    return frame.drop(columns=[name for name in CHART_COLUMNS if name in frame.columns])


def assert_whole(found: dict[str, pd.DataFrame]) -> int:
    """One state: the tables and views are those that ``dp_releases`` lists, with their rows."""
    listed = found["dp_releases"]
    names = {"dp_releases", "dp_budget"}
    names |= {*listed["table_name"], *listed["latest_view"], *listed["all_table"]}
    assert set(found) == names
    for row in listed.itertuples():
        assert len(found[row.table_name]) == row.row_count
        if row.is_latest:
            assert_frame_equal(found[row.latest_view], found[row.table_name])
    for whole, members in listed.groupby("all_table"):
        assert found[whole]["release"].unique().tolist() == members["release"].tolist()
        assert len(found[whole]) == members["row_count"].sum()
    assert found["dp_budget"]["releases"][0] >= listed["charge"].max()
    return len(listed)
