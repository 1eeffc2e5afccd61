"""Many connections at once: every draw is charged, no name is drawn twice, nothing hangs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

import dpframe as dp
from tests.sql.visits import HHH, LABELS, VISITS, Con, charges, hhh, labels

LONG = 60.0
"""Seconds after which a test has hung."""


def at_once(jobs: list[Callable[[], object]]) -> list[object]:
    """Run jobs in threads that start together; their results or exceptions."""
    start = threading.Barrier(len(jobs))
    found: list[object] = [None] * len(jobs)

    def run(i: int) -> None:
        start.wait(LONG)
        try:
            found[i] = jobs[i]()
        except Exception as error:
            found[i] = error

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
        assert not thread.is_alive()
    return found


def test_cursors_register_and_release_side_by_side(con: Con, ledger: dp.Ledger) -> None:

    def job() -> list[list[str]]:
        with con.cursor() as cursor:
            dp.register(cursor, ledger=ledger)
            return [labels(cursor) for _ in range(5)]

    assert at_once([job] * 6) == [[LABELS] * 5] * 6
    assert charges(ledger) == 30


def test_a_name_is_drawn_once(con: Con, ledger: dp.Ledger) -> None:

    def job() -> list[tuple[object, ...]]:
        with con.cursor() as cursor:
            dp.register(cursor, ledger=ledger)
            return cursor.execute(f"FROM {hhh(release='ks')}").fetchall()

    found = at_once([job] * 6)
    assert all(rows == found[0] for rows in found)
    assert [row[1] for row in found[0]] == LABELS  # type: ignore[attr-defined]
    assert charges(ledger) == 1


def test_draws_of_one_statement_side_by_side(con: Con, ledger: dp.Ledger) -> None:
    dp.register(con, ledger=ledger)
    con.execute("SET threads = 8")
    calls = " UNION ALL ".join([f"SELECT prefix FROM {HHH}"] * 6)
    assert len(con.execute(calls).fetchall()) == 6 * len(LABELS)
    assert charges(ledger) == 6


def test_a_budget_is_not_overspent_side_by_side(con: Con, tmp_path: Path) -> None:
    """Law: of eight releases at once, as many are drawn as the ledger can pay."""
    ledger = dp.Ledger(tmp_path / "small.db", epsilon=3.0, delta=1e-4)

    def job() -> list[str]:
        with con.cursor() as cursor:
            dp.register(cursor, ledger=ledger)
            return labels(cursor)

    found = at_once([job] * 8)
    assert sum(result == LABELS for result in found) == charges(ledger) == 3
    assert sum("OverBudgetError" in str(result) for result in found) == 5


def test_databases_do_not_meet() -> None:

    def job(i: int) -> list[str]:
        with duckdb.connect() as con:
            con.execute(f"CREATE TABLE visits AS SELECT 'in {i}' AS k FROM range(500)")
            dp.register(con)
            return labels(con)

    found = at_once([lambda i=i: job(i) for i in range(6)])  # type: ignore[misc]
    assert found == [["*", f"in {i}"] for i in range(6)]


def test_an_interrupted_statement_ends(con: Con, ledger: dp.Ledger) -> None:
    dp.register(con, ledger=ledger)
    con.execute("CREATE VIEW endless AS SELECT 'x' || i AS k FROM range(20000000000) r(i)")
    timer = threading.Timer(0.5, con.interrupt)
    timer.start()
    with pytest.raises(duckdb.InterruptException):
        con.execute(f"FROM {hhh('endless')}").fetchall()
    timer.join()
    assert charges(ledger) == 0
    assert labels(con) == LABELS


def test_too_little_memory_is_an_error_without_values(con: Con, ledger: dp.Ledger) -> None:
    """Law: a statement that runs out of memory fails, charges nothing and quotes nothing."""
    dp.register(con, ledger=ledger)
    con.execute(f"CREATE TABLE t AS SELECT 'SECRET' || r.i AS k FROM ({VISITS}), range(2000) r(i)")
    con.execute("SET max_temp_directory_size = '0B'")
    con.execute("SET memory_limit = '30MB'")
    with pytest.raises(duckdb.OutOfMemoryException) as caught:
        con.execute(f"FROM {hhh('t', 'path:k')}").fetchall()
    assert "SECRET" not in str(caught.value)
    con.execute("RESET memory_limit")
    assert charges(ledger) == 0
