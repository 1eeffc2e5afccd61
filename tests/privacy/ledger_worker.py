"""Processes that share, race for and die over a ledger: ``python -m tests.privacy.ledger_worker``.

One process imports the package and forks the others, so that hundreds of them take seconds. The
releases go through ``dpframe.asking.release.make_release``, the path of every front door, with a
true tree instead of a source. Each command prints one JSON document.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
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
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


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
    facts = PLAN.receipt()
    return Charge(
        release_id=facts["release_id"],
        time=facts["time"],
        epsilon=epsilon,
        delta=delta,
        profile=lambda: ((epsilon, delta),),
        source="a tree",
        receipt=facts.to_json(),
        blocks=None
        if day is None
        else Blocks(axis="when as written", first=86_400 * day, last=86_400 * (day + 2)),
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


def killed(folder: str, times: str, seed: str, bug: str = "") -> object:
    """Processes that make a ledger and release in a loop, each killed at a random moment."""
    chance, runs = random.Random(int(seed)), []
    for i in range(int(times)):
        path, out = Path(folder, f"budget-{i}.db"), Path(folder, f"said-{i}")

        def work(path: Path = path, out: Path = out) -> None:
            ledger = Ledger(path, **TOTALS)
            while True:
                if bug:
                    release_then_charge(ledger, lambda result: say(out, digest(result)))
                else:
                    say(out, digest(release(ledger)))

        pid = forked(work)
        listen(out, chance.randrange(4))
        time.sleep(chance.uniform(0.0, 0.02))  # about a release
        os.kill(pid, signal.SIGKILL)
        code = ended(pid)
        runs.append({"code": code, "released": len(said(out)), **standing(path)})
    return runs


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


def stopped_charges(folder: str, first: str, stride: str) -> object:
    """Charge overlapping days; killed at every ``stride``-th statement, until none is met."""
    runs, at = [], int(first)
    while not runs or runs[-1]["code"]:
        path, out = Path(folder, f"budget-{at}.db"), Path(folder, f"said-{at}")

        def work(at: int = at, path: Path = path, out: Path = out) -> None:
            connect = sqlite3.connect
            sqlite3.connect = lambda *a, **o: connect(*a, **o, factory=Stopping)  # type: ignore[assignment]
            Stopping.left, Stopping.steps = at, False
            ledger = Ledger(path, **TOTALS)
            for day in range(3):
                ledger.charge(charge(day=day))
                say(out, str(day))

        code, said_before = ended(forked(work)), len(said(out))
        ledger = Ledger(path, **TOTALS)
        ledger.verify()
        made = len(ledger.releases())
        fullest = ledger.spent.epsilon
        ledger.charge(charge(day=1))
        ledger.verify()
        runs.append({"code": code, "said": said_before, "charges": made, "fullest": fullest})
        at += int(stride)
    return runs


def stopped(folder: str, kind: str, first: str, stride: str, bug: str = "") -> object:
    """Release twice, once by name; killed at every ``stride``-th point in turn, until none is met.

    Points are "statements" of SQL, "steps" of SQLite's machine (both from the making of the ledger
    on), or "bytes": any write beyond that many kills, within a commit to the journal or the file.
    """
    runs, at = [], int(first)
    while not runs or runs[-1]["code"]:
        path, out = Path(folder, f"budget-{at}.db"), Path(folder, f"said-{at}")

        if kind == "bytes":
            Ledger(path, **TOTALS)

        def work(at: int = at, path: Path = path, out: Path = out) -> None:
            if kind == "bytes":
                signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
                resource.setrlimit(resource.RLIMIT_FSIZE, (at, resource.RLIM_INFINITY))
            else:
                connect = sqlite3.connect
                sqlite3.connect = lambda *a, **o: connect(*a, **o, factory=Stopping)  # type: ignore[assignment]
                Stopping.left, Stopping.steps = at, kind == "steps"
            ledger = Ledger(path, **TOTALS)
            if bug:
                release_then_charge(ledger, lambda result: say(out, digest(result)))
            else:
                say(out, digest(release(ledger)))
                say(out, digest(release(ledger, name="daily")))

        code = ended(forked(work))
        lines, now = said(out), standing(path)
        replay = digest(release(Ledger(path), name="daily"))
        again = digest(release(Ledger(path), name="daily"))
        runs.append(
            {
                "at": at,
                "code": code,
                "released": len(lines),
                "replayed": replay == again and (len(lines) < 2 or bool(bug) or replay == lines[1]),
                **now,
            }
        )
        at += int(stride)
    return runs


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


COMMANDS = (race, careless, killed, stopped, stopped_charges, same_name)

if __name__ == "__main__":
    command = {c.__name__: c for c in COMMANDS}[sys.argv[1]]
    print(json.dumps(command(*sys.argv[2:])))
