"""A parent that has used everything, and its children: ``python -m tests.integration.forking``."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
from pathlib import Path

import duckdb
import pandas as pd

import dpframe as dp

FRAME = pd.DataFrame({"src": ["10.1.2.3"] * 900 + ["10.9.0.1"] * 300, "x": range(1200)})
BUDGET = {"epsilon": 0.01, "delta": 1e-9}


def everything(ledger: str, name: str) -> list[int]:
    """Numbers of rows of every kind of release, on databases and connections of this process."""
    with duckdb.connect() as con:
        con.execute("CREATE TABLE visits AS FROM range(2000) r(x)")
        con.execute("SET threads = 2")
        dp.register(con, ledger=ledger)
        sql = "FROM dp_hhh('visits', ['x'], epsilon := 0.01, delta := 1e-9)"
        releases = [
            dp.hhh(FRAME, "ip:src", **BUDGET, ledger=ledger),
            dp.hhh(FRAME, "ip:src", **BUDGET, ledger=ledger, release=name),
            dp.hhh(FRAME, "ip:src", **BUDGET, ledger=ledger, mechanism="streaming", counters=64),
            FRAME.dp.hhh("ip:src", **BUDGET, ledger=ledger),
            dp.synthesize(FRAME, {"x": (0, 1200)}, epsilon=0.01, depth=6, ledger=ledger).sample(10),
            con.execute(sql).fetchall(),
        ]
    return [len(release) for release in releases]


def job(task: tuple[str, int]) -> list[int]:
    ledger, number = task
    return everything(ledger, f"child {number % 2}")


def main(method: str, folder: str) -> None:
    ledger = str(Path(folder, "budget.db"))
    dp.Ledger(ledger, epsilon=100.0, delta=1e-4)
    if method != "nothing before":
        everything(ledger, "parent")
    if method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            found = pool.map(job, [(ledger, i) for i in range(4)])
    else:
        child = os.fork()
        if not child:
            everything(ledger, "child")
            sys.exit(0)  # the whole end of the interpreter
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        found = [[code]]
    after = everything(ledger, "parent")  # the parent goes on
    print(
        json.dumps({"found": found, "after": after, "charges": len(dp.Ledger(ledger).releases())})
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
