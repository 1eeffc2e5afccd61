"""Releases that Ctrl-C stops at random moments: ``python -m tests.integration.interrupted``."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
from collections.abc import Callable

import duckdb

import dpframe as dp

BUDGET = {"epsilon": 0.01, "delta": 1e-9}


def outcome(work: Callable[[], object], seconds: float) -> str:
    """Run again and again until SIGINT comes; what the caller gets then."""
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        while True:
            work()
    except KeyboardInterrupt:
        return "KeyboardInterrupt"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def main(path: str, times: str, seed: str) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by what runs in background
    ledger = dp.Ledger(path, epsilon=1e5, delta=0.5)
    con = duckdb.connect()
    con.execute("CREATE TABLE visits AS SELECT hash(range) % 10000 AS x FROM range(1000000)")
    frame = con.sql("FROM visits").df()
    dp.register(con, ledger=ledger)
    names = iter(range(10**9))
    sql = "FROM dp_hhh('visits', ['x'], epsilon := 0.01, delta := 1e-9"
    sketch = ", mechanism := 'streaming', counters := 99"

    def hhh(source: object, **more: object) -> object:
        return dp.hhh(source, ["x"], **BUDGET, ledger=ledger, **more)  # type: ignore[arg-type]

    doors: dict[str, Callable[[], object]] = {
        "frame": lambda: hhh(frame),
        "relation": lambda: hhh(con.table("visits")),
        "name": lambda: frame.dp.hhh(["x"], **BUDGET, ledger=ledger, release=f"{next(names)}"),
        "streaming": lambda: hhh(frame, mechanism="streaming", counters=99),
        "synthesize": lambda: dp.synthesize(
            frame, {"x": (0, 10000)}, epsilon=0.01, depth=9, ledger=ledger
        ),
        "SQL": lambda: con.execute(f"{sql})").fetchall(),
        "SQL streaming": lambda: con.execute(f"{sql}{sketch})").fetchall(),
    }
    chance, found = random.Random(int(seed)), {}
    for door, work in doors.items():
        work()  # what is imported and compiled first
        found[door] = [outcome(work, chance.uniform(0.0, 0.6)) for _ in range(int(times))]
    count = len(ledger.releases())
    hhh(frame)
    works = len(dp.Ledger(path).releases()) == count + 1
    print(json.dumps({"found": found, "works": works}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
