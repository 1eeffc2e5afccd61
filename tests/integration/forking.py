"""A parent that has used everything, and its children: ``python -m tests.integration.forking``."""

from __future__ import annotations

import builtins
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
from dpframe import testing
from dpframe.common import calls as _forks
from dpframe.common import calls as _late_imports
from dpframe.ledger import Charge, PaidCharge

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


def forked(work: Callable[[], object]) -> int:
    """Start a child that works and ends: with code 0, or TOLD if it is told to be spawned."""
    child = os.fork()
    if child:
        return child
    signal.alarm(SHORT)  # ends a child that hangs
    try:
        work()
    except dp.DpframeError as error:
        os._exit(TOLD if "Start it with spawn" in str(error) else 1)
    sys.exit(0)


def ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


SHORT, TOLD = 20, 3


def beside(folder: str, times: str) -> object:
    """Forks while other threads count, charge, and draw by name; how the children end."""
    ledger = dp.Ledger(Path(folder, "budget.db"), epsilon=100.0, delta=1e-4)
    over, numbers = threading.Event(), iter(range(10**6))
    rows = pd.DataFrame({"x": map(float, range(10_000))})  # which DuckDB counts

    def work(named: bool) -> None:
        while not over.is_set():
            name = f"thread {next(numbers)}" if named else None
            dp.hhh(rows, ["x"], **BUDGET, ledger=ledger, release=name)  # type: ignore[arg-type]

    def draw(child: str) -> None:
        for name in (None, child):
            dp.hhh(FRAME, "ip:src", **BUDGET, ledger=ledger, release=name)  # type: ignore[arg-type]

    threads = [threading.Thread(target=work, args=(named,)) for named in (True, True, False)]
    for thread in threads:
        thread.start()
    codes = []
    for i in range(int(times)):
        time.sleep(0.1)
        codes.append(ended(forked(lambda i=i: draw(f"child {i}"))))  # type: ignore[misc]
    over.set()
    for thread in threads:
        thread.join()
    codes.append(ended(forked(lambda: draw("child at the end"))))
    names = dp.Ledger(ledger.path).names()
    return {"codes": codes, "children": sum(name.startswith("child") for name in names)}


def inside(folder: str, where: str, planted: str = "") -> object:
    """How a child ends that is forked while another thread is inside a call, which draws by name
    and waits for its charge, or loads a module; what the parent has charged then."""
    ledger = CallingLedger(Path(folder, "budget.db"), epsilon=100.0, delta=1e-4)
    _forks.others_inside = (lambda: False) if planted else _forks.others_inside
    entered, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        entered.set()
        go_on.wait()

    def draw(name: str, meanwhile: Callable[[], object]) -> None:
        ledger.meanwhile = meanwhile
        dp.hhh(FRAME, "ip:src", **BUDGET, ledger=ledger, release=name)  # type: ignore[arg-type]

    def load() -> None:
        Path(folder, "slow_to_load.py").write_text("import builtins\nbuiltins.wait()\nready = 1\n")
        sys.path.insert(0, folder)
        vars(builtins)["wait"] = wait
        _late_imports.load_name("slow_to_load", "ready")

    def need_module() -> None:
        _late_imports.load_name("slow_to_load", "ready")

    draws = where == "drawing"
    thread = threading.Thread(target=(lambda: draw("parent", wait)) if draws else load)
    thread.start()
    entered.wait()
    child = forked((lambda: draw("child", lambda: None)) if draws else need_module)
    if planted:
        time.sleep(3)
        os.kill(child, signal.SIGTERM)
    code = ended(child)
    go_on.set()
    thread.join()
    return {"code": code, "charges": len(ledger.releases())}


class CallingLedger(dp.Ledger):
    """A ledger that calls something before it charges, when it is locked for a draw."""

    meanwhile: Callable[[], object]

    def charge(self, charge: Charge) -> PaidCharge:
        self.meanwhile()
        return super().charge(charge)


def within(folder: str) -> object:
    """A thread that forks inside its own call, with the lock of its ledger: its child draws."""
    ledger = CallingLedger(Path(folder, "budget.db"), epsilon=100.0, delta=1e-4)
    codes: list[int] = []

    def draw(name: str, meanwhile: Callable[[], object]) -> None:
        ledger.meanwhile = meanwhile
        dp.hhh(FRAME, "ip:src", **BUDGET, ledger=ledger, release=name)  # type: ignore[arg-type]

    def fork() -> None:
        draws = lambda: (draw("child", lambda: None), os._exit(0))  # noqa: E731
        codes.append(forked(draws))

    draw("parent", fork)
    return {"codes": [ended(child) for child in codes], "names": sorted(ledger.names())}


def noise(planted: str = "") -> object:
    """Sums with noise of one parent and two children: how many differ."""

    def draw() -> list[int]:
        frame = dp.tree_counts(
            FRAME, dp.number("x", lower=0, upper=1200, depth=4), epsilon=0.01, keys="domain"
        )
        return [int(count) for count in frame["count"]]

    def run() -> set[tuple[int, ...]]:
        draw()  # the parent has drawn before
        found = []
        for _ in range(2):
            read, write = os.pipe()
            child = forked(lambda end=write: os.write(end, json.dumps(draw()).encode()))  # type: ignore[misc]
            found.append(json.loads(os.read(read, 10**5)))
            assert ended(child) == 0
        return {tuple(one) for one in [*found, draw()]}

    if not planted:
        return len(run())
    with testing.seeded_noise(1):
        return len(run())


if __name__ == "__main__":
    ways: list[Callable[..., object]] = [used, beside, inside, within, noise]
    runs = {way.__name__: way for way in ways}
    print(json.dumps(runs[sys.argv[1]](*sys.argv[2:])))
