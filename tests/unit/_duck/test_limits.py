"""The limits of our own database, as a user sets them in the environment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

import dpframe as dp
from dpframe._duck import connections as process_database

FRAME = pd.DataFrame({"a": ["x", "y"] * 500, "b": range(1000)})


@pytest.fixture(autouse=True)
def a_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_database, "_databases", {})


def setting(name: str) -> str:
    found = (
        process_database.process_database()
        .connection.execute(f"SELECT current_setting('{name}')")
        .fetchone()
    )
    assert found is not None
    return str(found[0])


def test_limits_are_those_of_the_environment_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: a limit holds from the next call on, and is gone when it is unset."""
    before = setting("memory_limit"), setting("threads")
    monkeypatch.setenv("DPFRAME_MEMORY_LIMIT", "512MB")
    monkeypatch.setenv("DPFRAME_THREADS", "1")
    assert (setting("memory_limit"), setting("threads")) == ("488.2 MiB", "1")
    monkeypatch.setenv("DPFRAME_MEMORY_LIMIT", "")
    monkeypatch.delenv("DPFRAME_THREADS")
    assert (setting("memory_limit"), setting("threads")) == before


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("DPFRAME_MEMORY_LIMIT", "much", "Give a size such as 4GB, or unset it"),
        ("DPFRAME_THREADS", "0", "Give a number such as 2, or unset it"),
        ("DPFRAME_THREADS", "2'; SELECT 1", "Give a number such as 2, or unset it"),
    ],
)
def test_a_limit_that_is_none_is_refused(
    monkeypatch: Any, name: str, value: str, told: str
) -> None:
    before = setting("memory_limit"), setting("threads")
    monkeypatch.setenv("DPFRAME_MEMORY_LIMIT", "512MB")
    monkeypatch.setenv(name, value)
    for _ in range(2):
        with pytest.raises(dp.ParameterError, match=told):
            FRAME.dp.hhh(["a", "b"], epsilon=1.0, delta=1e-6)
    monkeypatch.delenv("DPFRAME_MEMORY_LIMIT")
    monkeypatch.delenv(name, raising=False)
    assert (setting("memory_limit"), setting("threads")) == before


def test_a_file_is_counted_within_a_limit_and_what_is_too_little_says_so(tmp_path: Path) -> None:
    """Law: a limit spills or refuses, and what it is asked by command line is the same."""
    file = tmp_path / "rows.parquet"
    duckdb.sql(f"COPY (SELECT range AS i FROM range(1000000)) TO '{file}'")
    call = [sys.executable, "-m", "dpframe", "hhh", str(file), "i", "--epsilon", "1"]
    call += ["--delta", "1e-6", "--threshold", "500"]
    refused, enough = (
        subprocess.run(
            call, capture_output=True, text=True, env={"DPFRAME_MEMORY_LIMIT": limit}, check=False
        )
        for limit in ("1MB", "100MB")
    )
    assert refused.returncode == 2
    assert "DPFRAME_MEMORY_LIMIT" in refused.stderr
    assert enough.returncode == 0, enough.stderr
