"""A parent that has used everything, and its children: ``python -m tests.integration.forking``."""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import pandas as pd

import dpframe as dp
from dpframe import _forks

FRAME = pd.DataFrame({"src": ["10.1.2.3"] * 900 + ["10.9.0.1 "] * 300, "x": range(1200)})
"""With texts that DuckDB reads, however few the rows."""

BUDGET = {"epsilon": 0.01, "delta": 1e-9}


def everything(ledger: str, name: str) -> list[int]:
    """Numbers of rows of every kind of release, on databases and connections of this process."""
    with duckdb.connect() as con:
        con.execute("CREATE TABLE visits AS FROM range(2000) r(x)")
        dp.register(con, ledger=ledger)
        query = "query := 'FROM visits'"  # is parsed by a connection of ours
        sql = f"FROM dp_hhh(NULL, ['x'], epsilon := 0.01, delta := 1e-9, {query})"
        releases = [
            dp.hhh(FRAME, "ip:src", **BUDGET, ledger=ledger),  # type: ignore[arg-type]
            dp.hhh(FRAME, "ip:src", **BUDGET, ledger=ledger, release=name),  # type: ignore[arg-type]
            FRAME.dp.hhh("ip:src", **BUDGET, ledger=ledger, mechanism="streaming", counters=64),
            dp.synthesize(FRAME, {"x": (0, 1200)}, epsilon=0.01, depth=4, ledger=ledger).sample(10),
            con.execute(sql).fetchall(),
        ]
    return [len(release) for release in releases]


def job(task: tuple[str, int]) -> list[int]:
    ledger, number = task
    return everything(ledger, f"child {number % 2}")


def children(method: str, ledger: str) -> object:
    """What a pool of this kind finds, or how a child ends that runs the whole end of Python."""
    if method != "exit":
        with multiprocessing.get_context(method).Pool(2) as pool:
            return pool.map(job, [(ledger, i) for i in range(2)], chunksize=1)
    child = os.fork()
    if not child:
        everything(ledger, "child")
        sys.exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def used(folder: str, *methods: str) -> object:
    """A parent with a registered connection that has released in all ways, its children, itself."""
    ledger = str(Path(folder, "budget.db"))
    dp.Ledger(ledger, epsilon=100.0, delta=1e-4)
    with duckdb.connect() as con:
        dp.register(con, ledger=ledger)
        con.execute("SELECT sum(range) FROM range(1000000)").fetchall()
        before = everything(ledger, "parent")
        found = [children(method, ledger) for method in methods if method != "exit"]
    found += [children(method, ledger) for method in methods if method == "exit"]
    after = everything(ledger, "parent")
    charged = len(dp.Ledger(ledger).releases())
    return {"before": before, "found": found, "after": after, "charges": charged}


def beside(folder: str, times: str) -> object:
    """Forks while other threads count, charge, and draw by name; how the children end."""
    ledger = dp.Ledger(Path(folder, "budget.db"), epsilon=100.0, delta=1e-4)
    over, numbers = threading.Event(), iter(range(10**6))
    rows = pd.DataFrame({"x": map(float, range(10_000))})  # which DuckDB counts

    def work(named: bool) -> None:
        while not over.is_set():
            name = f"thread {next(numbers)}" if named else None
            dp.hhh(rows, ["x"], **BUDGET, ledger=ledger, release=name)  # type: ignore[arg-type]

    threads = [threading.Thread(target=work, args=(named,)) for named in (True, True, False)]
    for thread in threads:
        thread.start()
    codes = []
    for i in range(int(times)):
        time.sleep(0.1)
        child = os.fork()
        if not child:
            for name in (None, f"child {i}"):
                dp.hhh(FRAME, "ip:src", **BUDGET, ledger=ledger, release=name)  # type: ignore[arg-type]
            sys.exit(0)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    over.set()
    for thread in threads:
        thread.join()
    names = dp.Ledger(ledger.path).names()
    return {"codes": codes, "children": sum(name.startswith("child") for name in names)}


def loading(folder: str, planted: str = "") -> object:
    """A child that needs a module which another thread loads when it is forked: how it ends."""
    if planted:
        _forks._others_load = lambda: False
    Path(folder, "slow_to_load.py").write_text("import time\ntime.sleep(0.5)\nready = True\n")
    sys.path.insert(0, folder)
    thread = threading.Thread(target=importlib.import_module, args=("slow_to_load",))
    thread.start()
    time.sleep(0.2)
    child = os.fork()
    if not child:
        signal.alarm(2)
        os._exit(0 if importlib.import_module("slow_to_load").ready else 1)
    thread.join()
    return {"code": os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}


def late() -> object:
    """What is called around a fork of something that registers while the fork waits."""
    called: list[str] = []

    def register() -> None:
        with _forks.no_fork():
            time.sleep(0.3)
            _forks.at_fork(*(lambda name=name: called.append(name) for name in NAMES))

    thread = threading.Thread(target=register)
    thread.start()
    time.sleep(0.1)
    child = os.fork()
    if not child:
        os._exit(0 if called == ["before", "in child"] else 1)
    thread.join()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return {"code": code, "called": called}


NAMES = ("before", "in parent", "in child")


if __name__ == "__main__":
    ways: list[Callable[..., object]] = [used, beside, loading, late]
    runs = {way.__name__: way for way in ways}
    print(json.dumps(runs[sys.argv[1]](*sys.argv[2:])))
