"""Whatever is killed when: nothing is seen that was not charged, and nothing is left behind.

Forked and spawned processes draw from one ledger and are killed at random moments:
``python -m tests.privacy.test_killed_children``.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpframe as dp
from dpframe._duck.connections import PREFIX, SpillFolder
from dpframe.asking.release import Release
from dpframe.ledger import Ledger
from tests.members import often

from .ledger_worker import DELTA, EPSILON, TOTALS, charge, digest, forked, listen, said, say, worker

pytestmark = pytest.mark.engines  # kills processes of its own

FRAME = pd.DataFrame({"a": [True] * 9000 + [False] * 8000})
"""Of a type that DuckDB counts, however few the rows."""

NAMES = 300
"""Names that children draw from: often new, often drawn by several at once."""


def result(ledger: Ledger | None, name: str | None) -> tuple[str, str]:
    """A release from a source, as shipped: its number and what it shows."""
    frame = dp.hhh(FRAME, ["a"], epsilon=EPSILON, delta=DELTA, ledger=ledger, release=name)
    receipt = frame.dp.receipt
    return receipt["release_id"], digest(Release(frame, receipt))


def draw(ledger: Ledger, out: Path, seed: int, bug: str) -> None:
    """Release without end; every line that is said has left the process."""
    chance = random.Random(seed)
    say(out, "ready - -")
    while True:
        name = f"name-{chance.randrange(NAMES)}" if chance.random() < 0.7 else None
        if bug:  # planted: the charge follows the release that it pays for
            say(out, " ".join(["-", *result(None, None)]))
            time.sleep(0.2)  # most of its time
            ledger.charge(charge())
        else:
            say(out, " ".join([name or "-", *result(ledger, name)]))


@dataclass
class Child:
    """A process, how it was made, and what it said."""

    pid: int
    out: Path
    spawned: subprocess.Popen[bytes] | None

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        if self.spawned is None:
            os.waitpid(self.pid, 0)
        else:
            self.spawned.wait()


def child(ledger: Ledger, out: Path, seed: int, spawn: bool, bug: str) -> Child:
    if not spawn:
        return Child(forked(lambda: draw(ledger, out, seed, bug)), out, None)
    words = ["-m", "tests.privacy.test_killed_children", "draw", ledger.path, out, seed, bug]
    process = subprocess.Popen([sys.executable, *map(str, words)])
    return Child(process.pid, out, process)


def killed(folder: str, times: str, seed: str, bug: str = "") -> dict[str, Any]:
    """Four children at a time, one of them spawned; ``times`` of them are killed in turn."""
    chance, root = random.Random(int(seed)), Path(folder)
    os.environ["TMPDIR"] = tempfile.tempdir = str(root / "tmp")
    os.mkdir(root / "tmp")
    ledger = Ledger(root / "budget.db", **TOTALS)
    result(None, None)  # the parent of forked children has used DuckDB
    outs = (root / f"said-{i}" for i in range(10**9))

    def another(spawn: bool) -> Child:
        return child(ledger, next(outs), chance.randrange(2**32), spawn, bug)

    children = [another(i == 0) for i in range(4)]
    dead: list[Child] = []
    while len(dead) < int(times):
        i = chance.randrange(4)
        spawned = children[i].spawned is not None
        listen(children[i].out, chance.randrange(spawned, 5))
        time.sleep(chance.uniform(0.0, 0.1))  # about a release
        children[i].kill()
        dead.append(children[i])
        children[i] = another(spawned)
    for last in children:
        last.kill()
    return found(ledger, [c.out for c in dead + children], root / "tmp")


def found(ledger: Ledger, outs: list[Path], temporary: Path) -> dict[str, Any]:
    """What is left: of what was seen, of the ledger, of locks and of folders."""
    lines = [line.split() for out in outs for line in said(out)]
    seen = [line for line in lines if len(line) == 3 and line[0] != "ready"]
    again = Ledger(ledger.path)  # its history is checked
    charged = set(again.releases()["release_id"])
    shown = defaultdict(set)
    for name, _, what in seen:
        if name != "-":
            shown[name].add(what)
    same = [{result(again, name)[1]} == whats for name, whats in shown.items()]
    start = time.monotonic()
    result(again, None)
    result(again, "after all")
    left = len(list(temporary.glob(f"{PREFIX}*")))
    SpillFolder().remove()  # as the next process starts
    return {
        "seen": len(seen),
        "not charged": sum(number not in charged for _, number, _ in seen),
        "names": len(shown),
        "replayed": all(same),
        "seconds": time.monotonic() - start,
        "left by killed": left - 1,  # one is of this process
        "left later": len(list(temporary.glob(f"{PREFIX}*"))) - 1,
    }


def kills(folder: Path, times: int, bug: str = "") -> dict[str, Any]:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    words = [folder, times, seed, *([bug] if bug else [])]
    return worker("killed", *words, module="test_killed_children", timeout=1200)  # type: ignore[no-any-return]


@often(10, 1000, "times")
def test_killed_children_leave_enough_charged_and_nothing_else(tmp_path: Path, times: int) -> None:
    """Law: forked and spawned children draw from one ledger, by name and without, and are killed
    at random: all that was seen is charged, the ledger opens, no lock stays, names replay what
    was seen, and the next start finds and removes their folders."""
    run = kills(tmp_path, times)
    assert run["seen"] > 0
    assert run["not charged"] == 0
    assert run["replayed"]
    assert run["seconds"] < 20  # no lock stays
    assert run["left later"] == 0
    if times == 1000:
        assert run["names"] > 100
        assert run["left by killed"] > 0


def test_children_that_charge_after_the_draw_are_caught(tmp_path: Path) -> None:
    """Planted bug: the same kills see releases that nobody was charged for."""
    assert kills(tmp_path, 4, "bug")["not charged"] > 0


if __name__ == "__main__":
    if sys.argv[1] == "draw":
        draw(Ledger(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
    print(json.dumps(killed(*sys.argv[2:])))
