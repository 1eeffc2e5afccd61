"""Processes that share, race for and die over a ledger: ``python -m tests.privacy.ledger_worker``.

One process imports the package and forks the others, so that hundreds of them take seconds. The
releases go through ``dpframe.asking.release.make_release``, the path of every front door, with a
true tree instead of a source. Each command prints one JSON document.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from dpframe.asking.level_plan import MechanismInput
from dpframe.asking.release import Release, make_release
from dpframe.budget import Budget, PrivacyUnit
from dpframe.errors import LedgerError, OverBudgetError
from dpframe.hierarchy import columns
from dpframe.ledger import Blocks, Charge, Ledger
from dpframe.questions.hhh.plan import make_plan

from .enumerate_outputs import tree_of

EPSILON, DELTA = 0.01, 1e-9
TOTALS = {"epsilon": 1000.0, "delta": 1e-3}
PLAN = make_plan(
    hierarchy=columns("a"),
    unit=PrivacyUnit(),
    budget=Budget(epsilon=EPSILON, delta=DELTA),
    remainder=True,
)
TREE = MechanismInput(tree_of({"a": 10_000, "b": 20_000}))
LAW = SimpleNamespace(
    budget=PLAN.budget, profile=((EPSILON, DELTA),), request=PLAN.request, unit=PLAN.unit
)
"""What ``charge`` charges, for a reservation."""

ROOT = Path(__file__).resolve().parents[2]


def worker(
    command: str, *arguments: object, module: str = "ledger_worker", timeout: int = 900
) -> Any:
    """What a command of such a module prints, in a process of its own."""
    words = [sys.executable, "-m", f"tests.privacy.{module}", command, *map(str, arguments)]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(words, cwd=ROOT, start_new_session=True, **pipes)
    try:
        out, errors = process.communicate(timeout=timeout)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # what it left behind, if it fails
    assert process.returncode == 0, errors
    return json.loads(out)


def release(
    ledger: Ledger, name: str | None = None, meanwhile: Callable[[], object] = lambda: None
) -> Release:
    """One release of the tree, as shipped; something happens when it is counted."""

    def counted() -> Any:
        meanwhile()
        return TREE

    return make_release(counted, PLAN, source="a tree", ledger=ledger, name=name)


def release_then_charge(ledger: Ledger, out: Callable[[Release], None]) -> None:
    """Planted bug: the charge follows the release that it pays for."""
    new = make_release(lambda: TREE, PLAN, source="a tree", ledger=None, name=None)
    out(new)
    ledger.charge(charge())


def charge(epsilon: float = EPSILON, delta: float = DELTA, day: int | None = None) -> Charge:
    """A charge for all, or for one day and the next."""
    facts, seconds = PLAN.receipt(), 86_400
    days = {} if day is None else {"first": seconds * day, "last": seconds * (day + 2)}
    return Charge(
        release_id=facts["release_id"],
        time=facts["time"],
        epsilon=epsilon,
        delta=delta,
        profile=lambda: ((epsilon, delta),),
        source="a tree",
        receipt=facts.to_json(),
        blocks=Blocks(axis="when as written", **days) if days else None,
    )


def digest(result: Release) -> str:
    return hashlib.sha256(result.frame.to_json().encode()).hexdigest()


def forked(work: Callable[[], object]) -> int:
    """A process that does ``work`` and ends; its number."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return pid


def ended(pid: int) -> int:
    """Wait for a process: its exit code, or minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def say(file: Path, text: str) -> None:
    """A line that is on disk when this returns: what the outside world has seen."""
    with file.open("a") as out:
        out.write(text + "\n")
        out.flush()
        os.fsync(out.fileno())


def said(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def wait_for(event: Callable[[], object]) -> None:
    """Until something has happened, however busy the machine is."""
    until = time.monotonic() + 300
    while not event():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.001)


def listen(file: Path, lines: int) -> None:
    """Until so many lines were said."""
    wait_for(lambda: len(said(file)) >= lines)


def standing(path: Path) -> dict[str, Any]:
    """What the ledger says, opened anew (which checks its history) and charged once more."""
    ledger = Ledger(path, **TOTALS)
    spent, number = ledger.spent.epsilon, len(ledger.releases())
    ledger.charge(charge())
    again = Ledger(path)
    return {
        "charged": spent,
        "charges": number,
        "works": len(again.releases()) == number + 1 and again.spent.epsilon > spent,
    }


# -- commands --------------------------------------------------------------------------------------


def race(path: str, processes: str, times: str, days: str = "0") -> object:
    """Many processes charge one ledger; what happened to each attempt, and how long it took.

    With ``days`` each of their charges reads two days, of so many pairs in turn.
    """
    file, gate = Path(path), os.pipe()
    outputs = [file.with_name(f"said-{i}") for i in range(int(processes))]

    def work(out: Path) -> None:
        os.close(gate[1])
        os.read(gate[0], 1)  # all start when the gate closes
        ledger, lines = Ledger(file), []
        for i in range(int(times)):
            day = 2 * (i % int(days)) if int(days) else None
            cost, start = charge(day=day), time.perf_counter()
            try:
                ledger.charge(cost)
                outcome = "charged"
            except OverBudgetError:
                outcome = "over"
            lines.append(f"{outcome} {1e3 * (time.perf_counter() - start):.3f}")
        say(out, "\n".join(lines))

    pids = [forked(lambda out=out: work(out)) for out in outputs]
    start = time.perf_counter()
    os.close(gate[1])
    codes = [ended(pid) for pid in pids]
    seconds = time.perf_counter() - start
    lines = [line.split() for out in outputs for line in said(out)]
    return {
        "codes": codes,
        "charged": sum(outcome == "charged" for outcome, _ in lines),
        "over": sum(outcome == "over" for outcome, _ in lines),
        "milliseconds": [float(ms) for _, ms in lines],
        "seconds": seconds,
    }


def careless(path: str, processes: str, times: str) -> object:
    """Planted bug: a sum that is read in one transaction and written in another."""

    def work() -> None:
        for _ in range(int(times)):
            with contextlib.closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as db:
                (spent,) = db.execute("SELECT spent FROM budget").fetchone()
                time.sleep(0.001)
                db.execute("UPDATE budget SET spent = ?", (spent + 1,))

    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE budget AS SELECT 0 AS spent")
        db.execute("PRAGMA synchronous = OFF")
    codes = [ended(pid) for pid in [forked(work) for _ in range(int(processes))]]
    with contextlib.closing(sqlite3.connect(path)) as db:
        return {"codes": codes, "charged": db.execute("SELECT spent FROM budget").fetchone()[0]}


class Stopping(sqlite3.Connection):
    """A connection whose process is killed at a given statement, or step of SQLite's machine."""

    left = 0
    steps = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        if Stopping.steps:
            self.set_progress_handler(stop, 1)

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        if not Stopping.steps:
            stop()
        return super().execute(*arguments)


def stop() -> int:
    Stopping.left -= 1
    if Stopping.left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return 0


def stop_at(left: int, steps: bool = False) -> None:
    """Kill this process at a statement or step to come."""
    connect = sqlite3.connect
    sqlite3.connect = lambda *a, **o: connect(*a, **{**o, "factory": Stopping})  # type: ignore[assignment]
    Stopping.left, Stopping.steps = left, steps


def every(
    folder: str,
    first: str,
    stride: str,
    work: Callable[[int, Path, Path], None],
    look: Callable[[Path, list[str]], dict[str, Any]],
) -> list[dict[str, Any]]:
    """Processes that work with a new ledger, each killed at a later point, until none is met; their
    exit codes, and how the ledger looks then."""
    runs: list[dict[str, Any]] = []
    for at in itertools.count(int(first), int(stride)):
        path, out = Path(folder, f"budget-{at}.db"), Path(folder, f"said-{at}")
        code = ended(forked(partial(work, at, path, out)))
        runs.append({"at": at, "code": code, **look(path, said(out))})
        if not code:
            break
    return runs


def stopped_charges(folder: str, first: str, stride: str) -> object:
    """Charge overlapping days; killed at every ``stride``-th statement in turn."""

    def work(at: int, path: Path, out: Path) -> None:
        stop_at(at)
        ledger = Ledger(path, **TOTALS)
        for day in range(3):
            ledger.charge(charge(day=day))
            say(out, str(day))

    def look(path: Path, lines: list[str]) -> dict[str, Any]:
        ledger = Ledger(path, **TOTALS)
        ledger.verify()
        made, fullest = len(ledger.releases()), ledger.spent.epsilon
        ledger.charge(charge(day=1))
        ledger.verify()
        return {"said": len(lines), "charges": made, "fullest": fullest}

    return every(folder, first, stride, work, look)


def stopped(folder: str, kind: str, first: str, stride: str, bug: str = "") -> object:
    """Release twice, once by name; killed at every ``stride``-th point in turn.

    Points are "statements" of SQL, "steps" of SQLite's machine (both from the making of the ledger
    on), or "bytes": any write beyond that many kills, within a commit to the journal or the file.
    """

    def work(at: int, path: Path, out: Path) -> None:
        if kind == "bytes":
            Ledger(path, **TOTALS)
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_FSIZE, (at, resource.RLIM_INFINITY))
        else:
            stop_at(at, kind == "steps")
        ledger = Ledger(path, **TOTALS)
        if bug:
            release_then_charge(ledger, lambda result: say(out, digest(result)))
        else:
            say(out, digest(release(ledger)))
            say(out, digest(release(ledger, name="daily")))

    def look(path: Path, lines: list[str]) -> dict[str, Any]:
        now = standing(path)
        replay, again = (digest(release(Ledger(path), name="daily")) for _ in range(2))
        same = replay == again and (len(lines) < 2 or bool(bug) or replay == lines[1])
        return {"released": len(lines), "replayed": same, **now}

    return every(folder, first, stride, work, look)


def same_name(path: str, processes: str, bug: str = "") -> object:
    """Processes that ask for the same new name at once: what each got."""
    file, gate = Path(path), os.pipe()
    if bug:  # planted: nobody waits for the other's draw
        Ledger.drawing = lambda self: contextlib.nullcontext()  # type: ignore[method-assign]

    def meanwhile(out: Path) -> None:
        if bug:  # all are drawing
            out.with_name(f"{out.name}-counts").touch()
            wait_for(lambda: len([*file.parent.glob("said-*-counts")]) == int(processes))
        else:
            time.sleep(0.2)  # the others ask

    def work(out: Path) -> None:
        os.close(gate[1])
        os.read(gate[0], 1)
        try:
            say(out, digest(release(Ledger(file), "daily", lambda: meanwhile(out))))
        except LedgerError as error:
            say(out, f"error {error}")

    outputs = [file.with_name(f"said-{i}") for i in range(int(processes))]
    pids = [forked(lambda out=out: work(out)) for out in outputs]
    os.close(gate[1])
    codes = [ended(pid) for pid in pids]
    return {
        "codes": codes,
        "got": [line for out in outputs for line in said(out)],
        "charges": len(Ledger(file).releases()),
    }


COMMANDS = (race, careless, stopped, stopped_charges, same_name)

if __name__ == "__main__":
    command = {c.__name__: c for c in COMMANDS}[sys.argv[1]]
    print(json.dumps(command(*sys.argv[2:])))
