"""A connection with a table, registered with a ledger."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import dpframe as dp
from tests.sql.visits import VISITS, Lasting


@pytest.fixture(scope="session")
def empty_ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ledger") / "budget.db"
    return dp.Ledger(path, epsilon=1000.0, delta=1e-2).path


@pytest.fixture
def ledger(tmp_path: Path, empty_ledger: Path) -> dp.Ledger:
    """A copy of an empty one: making one anew waits for the disk."""
    return dp.Ledger(shutil.copy(empty_ledger, tmp_path))


def with_visits() -> duckdb.DuckDBPyConnection:
    """In memory; so few rows are one task, so that other threads would only wait."""
    connection = duckdb.connect(config={"threads": 1})
    connection.execute(f"CREATE TABLE visits AS {VISITS}")
    return connection


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    """With the table ``visits``, not registered."""
    connection = with_visits()
    yield connection
    connection.close()


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory, empty_ledger: Path) -> Iterator[Lasting]:
    """Registered once for all calls of a module that are refused."""
    connection = with_visits()
    ledger = dp.Ledger(shutil.copy(empty_ledger, tmp_path_factory.mktemp("lasting")))
    dp.register(connection, ledger=ledger)
    yield connection, ledger
    connection.close()


@pytest.fixture
def registered(request: pytest.FixtureRequest) -> None:
    """Registers ``con``; with the ledger in tests that look at it."""
    if "lasting" not in request.fixturenames:
        asked = "ledger" in request.fixturenames
        ledger = request.getfixturevalue("ledger") if asked else None
        dp.register(request.getfixturevalue("con"), ledger=ledger)
