"""Ctrl-C stops a release as KeyboardInterrupt, through every door, and says what it can cost."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pandas as pd
import pytest

import dpframe as dp
from dpframe.noise import NoiseTable

pytestmark = pytest.mark.engines

ROOT = Path(__file__).resolve().parents[2]
FRAME = pd.DataFrame({"a": [True] * 900})  # which DuckDB counts, however few the rows
BUDGET = {"epsilon": 0.5, "delta": 1e-6}

BY_DUCKDB = ("RuntimeError: Query interrupted", "InterruptException")
"""What a statement of the caller's own raises: DuckDB knows no KeyboardInterrupt."""


def all_heard(path: Path, times: int, seed: int) -> None:
    print(f"seed {seed}")
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration.interrupted", str(path), str(times), str(seed)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)
    assert run["works"]
    for door, outcomes in run["found"].items():
        for said in outcomes:
            ours = said == "KeyboardInterrupt"
            by_duckdb = said.startswith(BY_DUCKDB) or "UDF: KeyboardInterrupt" in said
            assert ours or (by_duckdb and door.startswith("SQL")), f"{door}: {said}"


def test_ctrl_c_is_heard_through_every_door(tmp_path: Path) -> None:
    """Law: SIGINT at any moment is KeyboardInterrupt, in a statement of the caller's DuckDB's own
    word for it, and the ledger and the connection work on."""
    all_heard(tmp_path / "budget.db", 1, random.randrange(2**32))


@pytest.mark.evidence
def test_ctrl_c_is_heard_at_100_moments_of_every_door(tmp_path: Path) -> None:
    all_heard(tmp_path / "budget.db", 100, random.randrange(2**32))


STOPPED = """
import os, signal, sys, threading
import duckdb
import dpframe as dp
from dpframe import _duck

signal.signal(signal.SIGINT, signal.default_int_handler)
numbers = "(SELECT range AS i FROM range(100000))"
rows = f"(SELECT a.i + b.i AS i FROM '{sys.argv[1]}' a, {numbers} b, {numbers} c)"
given = _duck.GivenRelation(duckdb.connect().sql(f"FROM {rows}"))
threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
with given if "given" in sys.argv[2] else _duck.scan(rows, "rows") as relation:
    try:
        if "batches" in sys.argv[2]:
            list(relation.batches("SELECT sum(hash(i)) AS s FROM dpframe_source"))
        else:
            relation.query("SELECT sum(hash(i)) AS s FROM dpframe_source", False)
    except KeyboardInterrupt:
        print("stopped")
"""


@pytest.mark.parametrize("how", ["query", "batches", "given query", "given batches"])
def test_ctrl_c_stops_all_threads_of_a_count(tmp_path: Path, how: str) -> None:
    """Law: a count of years ends at once, also in threads that hear no signal. Without an
    interrupt of its connection it ends when each thread has read its part."""
    file = tmp_path / "rows.parquet"
    duckdb.sql(f"COPY (SELECT range AS i FROM range(300000)) TO '{file}' (ROW_GROUP_SIZE 20000)")
    done = subprocess.run(
        [sys.executable, "-c", STOPPED, str(file), how],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "DPFRAME_THREADS": "2"},
    )
    assert done.stdout == "stopped\n", done.stderr


@pytest.mark.parametrize("name", [None, "daily"])
def test_ctrl_c_after_the_charge_says_that_it_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str | None
) -> None:
    """Law: who interrupts the draw is told that the release can be charged, and it is."""
    ledger = dp.Ledger(tmp_path / "budget.db", epsilon=3.0, delta=1e-5)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(NoiseTable, "draw", interrupt)
    with pytest.raises(KeyboardInterrupt) as caught:
        dp.hhh(FRAME, ["a"], **BUDGET, ledger=ledger, release=name)  # type: ignore[arg-type]
    (note,) = caught.value.__notes__
    (charged,) = ledger.releases()["release_id"]
    assert f"Release {charged} can be charged already" in note
    with pytest.raises(KeyboardInterrupt) as caught:
        dp.hhh(FRAME, ["a"], **BUDGET)  # type: ignore[arg-type]
    assert not hasattr(caught.value, "__notes__")  # nothing tracks it


def test_a_handler_of_the_caller_is_heard_and_stays() -> None:
    """Law: what the caller's own handler raises is what comes; another call leaves it in place."""

    class StopError(Exception):
        """Raised by a program's own handler."""

    def stop(*_: object) -> None:
        raise StopError

    rows = pd.DataFrame({"a": range(2_000_000)})
    before = signal.signal(signal.SIGINT, stop)
    try:
        dp.hhh(FRAME, ["a"], **BUDGET)  # type: ignore[arg-type]
        assert signal.getsignal(signal.SIGINT) is stop
        child = os.getpid()
        killer = f"import os, time; time.sleep(0.4); os.kill({child}, 2)"
        with subprocess.Popen([sys.executable, "-S", "-c", killer]), pytest.raises(StopError):  # noqa: PT012
            for _ in range(1000):
                dp.hhh(rows, ["a"], **BUDGET)  # type: ignore[arg-type]
        assert signal.getsignal(signal.SIGINT) is stop
    finally:
        signal.signal(signal.SIGINT, before)


RUN_TWICE = """
import signal, sys
from dpframe.doors.cli.main import main

signal.signal(signal.SIGINT, signal.default_int_handler)
folder, *words = sys.argv[1:]
first = [folder + "/first." + word.rsplit(".", 1)[-1] if word.endswith((".db", ".csv")) else word
         for word in words]
assert main(first) == 0
print("go", flush=True)
sys.exit(main(words))
"""
"""The command in a folder of its own, then the command. The first one loads the libraries: Python
drops a KeyboardInterrupt that comes while a thread gives back the lock of an import."""


@pytest.mark.parametrize("seconds", [0.3, pytest.param(1.0, marks=pytest.mark.evidence)])
def test_the_command_line_ends_with_130_and_writes_nothing(tmp_path: Path, seconds: float) -> None:
    """Law: a short message, the code that shells use, and no file."""
    file, out, ledger = (tmp_path / n for n in ("rows.parquet", "out.csv", "budget.db"))
    pd.DataFrame({"k": range(100)}).to_parquet(file)
    for path in (ledger, tmp_path / "first.db"):
        dp.Ledger(path, epsilon=3.0, delta=1e-5)
    ledger_lock = hold(ledger)
    with subprocess.Popen(
        [
            *(sys.executable, "-c", RUN_TWICE, str(tmp_path)),
            *("hhh", str(file), "columns:k", "--epsilon", "1", "--delta", "1e-6", "--quiet"),
            *("--ledger", str(ledger), "--output", str(out)),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "go\n"
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        ledger_lock.close()
    assert process.returncode == 130, errors
    assert errors.startswith("dpframe: interrupted.")
    assert "Traceback" not in errors
    assert not out.exists()
    assert dp.Ledger(ledger).spent.epsilon == 0.0


def hold(path: Path) -> sqlite3.Connection:
    """Keep a ledger locked, so that a release does not end before its interrupt."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("BEGIN EXCLUSIVE")
    return db
