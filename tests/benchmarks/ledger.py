"""What a charge costs: one process alone, 8 processes that charge one ledger 200 times each, and
ledgers of up to 100,000 releases.

Run with ``python -m tests.benchmarks.ledger [--folder F] [--processes 8] [--times 200]``. Every
charge waits for the disk, so beside it stands what a bare SQLite transaction of the same size takes
in the same folder, with the same settings, in turns. The total is checked to be exactly right.
"""

from __future__ import annotations

import argparse
import sqlite3
import statistics
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from dpframe.ledger import Ledger
from dpframe.ledger.entries import append, entry_of, newest
from dpframe.ledger.totals import totals
from tests.privacy.ledger_worker import DELTA, EPSILON, LAW, TOTALS, charge, race


def bare(path: Path, text: str) -> None:
    """The least that a durable row costs: open, write, wait for the disk, close."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA synchronous = EXTRA")
        db.execute("CREATE TABLE IF NOT EXISTS t (x)")
        db.execute("BEGIN IMMEDIATE")
        db.execute("INSERT INTO t VALUES (?)", (text,))
        db.execute("COMMIT")


def alone(folder: Path, accountant: Any, times: int) -> None:
    ledger = Ledger(folder / f"{accountant}.db", **TOTALS, accountant=accountant)
    bare(folder / "bare.db", "")
    ledger.charge(charge())  # loads what it needs
    ours, floor = [], []
    for _ in range(times):
        cost = charge()
        start = time.perf_counter()
        ledger.charge(cost)
        middle = time.perf_counter()
        bare(folder / "bare.db", cost.receipt)
        ours.append(1e3 * (middle - start))
        floor.append(1e3 * (time.perf_counter() - middle))
    print(
        f"one process, {accountant}: {statistics.median(ours):.2f} ms a charge (median of {times}, "
        f"mean {statistics.mean(ours):.2f}); bare SQLite {statistics.median(floor):.2f} ms"
    )


def together(folder: Path, processes: int, times: int) -> None:
    ledger = Ledger(folder / "race.db", **TOTALS)
    run: Any = race(str(ledger.path), str(processes), str(times))
    ms = sorted(run["milliseconds"])
    number = processes * times
    print(
        f"{processes} processes x {times}: {number / run['seconds']:.0f} charges a second; "
        f"a charge takes {statistics.median(ms):.2f} ms (median), "
        f"{ms[int(0.99 * number)]:.0f} ms (99 %), {ms[-1]:.0f} ms (longest)"
    )
    start = time.perf_counter()
    again = Ledger(ledger.path)
    print(f"opening a ledger of {number} charges: {1e3 * (time.perf_counter() - start):.0f} ms")
    right = again.spent.epsilon == round(number * EPSILON, 9) and len(again.releases()) == number
    print(f"total {again.spent.epsilon} of {number} x {EPSILON}: {'exact' if right else 'WRONG'}")


def long(folder: Path, accountant: Any, releases: int) -> None:
    """A ledger with a reservation and so many releases before: what each use of it takes."""
    held = {"epsilon": 2000.0, "delta": 1e-2}
    ledger = Ledger(folder / f"{accountant}-{releases}.db", **held, accountant=accountant)
    if accountant == "pld":
        ledger.reserve(LAW, releases=10, delta=1e-7)
    with ledger._writing() as db:
        last = newest(db, totals(db))
        for _ in range(releases):
            cost = entry_of(charge(), ((EPSILON, DELTA),), (0, 0))
            before = last
            last = cost._replace(
                number=last.number + 1,
                spent_epsilon=before.spent_epsilon + cost.epsilon,
                spent_delta=before.spent_delta + cost.delta,
                open=before.open,
            )
            last = last._replace(seal=last.sealed(before.seal))
            append(db, before, last)
    uses: dict[str, Any] = {
        "charge": lambda: ledger.charge(charge()),
        "left": lambda: ledger.left,
        "open": lambda: Ledger(ledger.path),
        "summary": ledger.summary,
        "releases(100)": lambda: ledger.releases(100),
        "releases()": ledger.releases,
        "verify": ledger.verify,
    }
    took = []
    for name, use in uses.items():
        start = time.perf_counter()
        use()
        took.append(f"{name} {1e3 * (time.perf_counter() - start):.0f} ms")
    print(f"{accountant}, {releases} releases: {', '.join(took)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="on the disk to measure; default: temporary")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--times", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for accountant in ("sum", "pld"):
            alone(Path(folder), accountant, 200)
        together(Path(folder), options.processes, options.times)
        for releases in (10, 1_000, 10_000, 100_000):
            for accountant in ("sum", "pld"):
                long(Path(folder), accountant, releases)


if __name__ == "__main__":
    main()
