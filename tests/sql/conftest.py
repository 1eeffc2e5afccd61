"""A connection with a table, registered with a ledger."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import dpframe as dp
from tests.sql.visits import VISITS


@pytest.fixture(scope="session")
def empty_ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ledger") / "budget.db"
    return dp.Ledger(path, epsilon=1000.0, delta=1e-2).path


@pytest.fixture
def ledger(tmp_path: Path, empty_ledger: Path) -> dp.Ledger:
    """A copy of an empty one: making one anew waits for the disk."""
    return dp.Ledger(shutil.copy(empty_ledger, tmp_path))


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    """In memory, with the table ``visits``, not registered."""
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE visits AS {VISITS}")
    yield connection
    connection.close()


@pytest.fixture
def registered(request: pytest.FixtureRequest, con: duckdb.DuckDBPyConnection) -> None:
    """Registers ``con``; with the ledger in tests that look at it."""
    asked = "ledger" in request.fixturenames
    dp.register(con, ledger=request.getfixturevalue("ledger") if asked else None)
