"""A series pays once for every release, whenever its runs are killed, and ends as if they were not.

Its runs are processes, each killed at a random moment or statement: ``python -m
tests.privacy.test_killed_series``. Noise is that of the name of a release, so that a draw that is
made again is the same draw. Next to the check stand planted bugs that the same check must reject.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

from dpframe.asking import answer
from dpframe.doors.cli.main import main
from dpframe.doors.series import series as series_module
from dpframe.ledger import Ledger, PaidCharge, book, unfinished_draws
from dpframe.ledger import book as results
from dpframe.ledger.book import StoredResult, pack_result
from dpframe.ledger.unfinished_draws import ResumingLedger
from dpframe.testing import seeded_noise
from tests.members import often

from . import ledger_worker
from .ledger_worker import ended, forked, stop_at

pytestmark = pytest.mark.engines  # kills processes of its own

LAWS = {"again", "charged", "done", "equal", "once", "paid", "whole"}
worker = partial(ledger_worker.worker, module="test_killed_series", timeout=7200)

WEEKS = [f"2026-W{week}" for week in range(31, 39)]
EPSILON = {"visits": 0.1, "cities": 0.05}
DECLARED = f"""
publish = "results.duckdb"
pages = "pages"
source = "visits.parquet"
ledger = {{ path = "budget.db", epsilon = 3.0, delta = 1e-4 }}
period = {{ column = "when", unit = "week", first = "{WEEKS[0]}" }}

[[report]]
name = "visits"
question = "hhh"
hierarchy = ["country", "city"]
epsilon = {EPSILON["visits"]}
delta = 1e-7

[[report]]
name = "cities"
question = "tree_counts"
hierarchy = ["city"]
epsilon = {EPSILON["cities"]}
delta = 1e-7
"""
OF_A_RUN = ("time", "release_id", "ledger_id", "id")
"""What two runs differ in."""


def made(folder: Path) -> Path:
    """A folder with a declaration and eight weeks of visits."""
    folder.mkdir(parents=True)
    (folder / "reports.toml").write_text(DECLARED)
    when = pd.date_range("2026-07-27", periods=8 * 7 * 240, freq="6min")
    n = range(len(when))
    visits = {"when": when, "country": [f"c{i % 2}" for i in n], "city": [f"t{i % 5}" for i in n]}
    pd.DataFrame(visits).to_parquet(folder / "visits.parquet")
    return folder


def run(folder: Path, bug: str = "") -> int:
    """``dpframe run`` with noise that the name of a release decides."""
    real = answer.make_release

    def released(counted: Any, plan: Any, **kept: Any) -> Any:
        with seeded_noise(sum(map(ord, kept["name"]))):
            return real(counted, plan, **kept)

    answer.make_release = released  # type: ignore[assignment]
    if bug == "forgets":  # planted: a charge that was cut off is made again
        series_module.ResumingLedger = Ledger  # type: ignore[misc, assignment]
    if bug == "free":  # planted: nothing is charged

        def charge(self: Ledger, charge: Any) -> PaidCharge:
            return PaidCharge(left=self.left, there=self.left, reservation=None, reserved=False)

        ResumingLedger.charge = charge  # type: ignore[method-assign]
    with contextlib.redirect_stdout(open(os.devnull, "w")):
        return main(["run", str(folder / "reports.toml"), "--until", WEEKS[-1]])


def spawned(folder: Path) -> subprocess.Popen[bytes]:
    words = ["-m", "tests.privacy.test_killed_series", "run", str(folder)]
    return subprocess.Popen([sys.executable, *words])


# -- what is left ----------------------------------------------------------------------------------


def tables_of(folder: Path) -> set[str]:
    """Of the ledger, which may not be made yet."""
    if not (folder / "budget.db").exists():
        return set()
    with contextlib.closing(sqlite3.connect(folder / "budget.db", timeout=30)) as db:
        return {name for (name,) in db.execute("SELECT name FROM sqlite_schema")}


def charged(folder: Path) -> list[tuple[str, str]]:
    """Name and id of every charge."""
    if "charges" not in tables_of(folder):
        return []
    with contextlib.closing(sqlite3.connect(folder / "budget.db", timeout=30)) as db:
        return db.execute("SELECT name, release_id FROM charges").fetchall()


def seen(folder: Path) -> set[str]:
    """Ids of releases that anybody can see: stored, published, on a page."""
    out: set[str] = set()
    if (folder / "results.duckdb").exists():
        with duckdb.connect(folder / "results.duckdb", read_only=True) as con:
            out |= {r for (r,) in con.execute("SELECT release_id FROM dp_releases").fetchall()}
    if "results" in tables_of(folder):
        with contextlib.closing(sqlite3.connect(folder / "budget.db", timeout=30)) as db:
            out |= {r for (r,) in db.execute("SELECT release_id FROM results")}
    return out


def standing(folder: Path) -> dict[str, bool]:
    """What holds after any kill: all that is seen is charged, and no name is charged twice.

    What is seen is looked at first: others may go on.
    """
    shown, paid = seen(folder), charged(folder)
    return {
        "charged": shown <= {release_id for _, release_id in paid},
        "once": max(Counter(name for name, _ in paid).values(), default=1) == 1,
    }


def publication(folder: Path) -> dict[str, Any]:
    """All that is published and on pages, without what two runs differ in."""
    out: dict[str, Any] = {}
    if not (folder / "results.duckdb").exists():
        return out
    with duckdb.connect(folder / "results.duckdb", read_only=True) as con:
        for (name,) in con.execute("SHOW TABLES").fetchall():
            rows = con.table(name).df().astype(object).where(lambda f: f.notna(), None)
            out[name] = [_same(row, folder) for row in rows.to_dict("records")]
    for page in sorted((folder / "pages").glob("*.html")):
        out[page.name] = _without_times(page.read_text(), folder)
    return out


def _same(row: dict[str, Any], folder: Path) -> dict[str, Any]:
    kept = {k: v for k, v in row.items() if k not in OF_A_RUN}
    if "receipt" in kept:
        kept["receipt"] = _plain(json.loads(kept["receipt"]))
    return {k: v.replace(str(folder), "") if isinstance(v, str) else v for k, v in kept.items()}


def _plain(facts: dict[str, Any]) -> dict[str, Any]:
    return {
        k: _plain(v) if isinstance(v, dict) else v for k, v in facts.items() if k not in OF_A_RUN
    }


def _without_times(text: str, folder: Path) -> str:
    """A page without the times of its draws."""
    import re

    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00|[0-9a-f]{32}", "", text)
    return text.replace(str(folder), "")


def finished(folder: Path, twin: dict[str, Any], bug: str = "") -> dict[str, bool]:
    """What holds after a last run that nobody disturbs."""
    code = ended(forked(lambda: os._exit(run(folder, bug))))
    paid, book = charged(folder), Ledger(folder / "budget.db")
    due = sorted(f"{name}-{week}" for name in EPSILON for week in WEEKS)
    return {
        **standing(folder),
        "done": code == 0,
        "whole": sorted(name for name, _ in paid) == due,
        "paid": book.spent.epsilon == round(sum(EPSILON.values()), 12),  # weeks are disjoint
        "equal": publication(folder) == twin,
        "again": ended(forked(lambda: os._exit(run(folder, bug)))) == 0 and charged(folder) == paid,
    }


# -- commands --------------------------------------------------------------------------------------


def undisturbed(root: Path) -> dict[str, Any]:
    folder = made(root / "undisturbed")
    assert ended(forked(lambda: os._exit(run(folder)))) == 0
    return publication(folder)


def killed(root: str, times: str, seed: str, bug: str = "") -> object:
    """Four processes at once, one of them spawned, run one series; each is killed at a random
    moment, and others take their places, until ``times`` are dead."""
    chance, laws, dead, codes = random.Random(int(seed)), [], 0, Counter[int]()
    twin, series = undisturbed(Path(root)), 0
    while dead < int(times):
        folder = made(Path(root, f"series-{series}"))
        series += 1
        last = time.monotonic() + 0.1
        for i in range(min(14, -(-(int(times) - dead) // 4))):
            pids = [forked(lambda at=folder: os._exit(run(at, bug))) for _ in range(3)]
            process = spawned(folder) if i == 0 and not bug else None
            moments = sorted((chance.uniform(0, 1.2), pid) for pid in pids)
            last = time.monotonic()
            for moment, pid in moments:
                time.sleep(max(0.0, last + moment - time.monotonic()))
                os.kill(pid, signal.SIGKILL)
                codes[ended(pid)] += 1
                laws.append(standing(folder))
            if process is not None:
                time.sleep(chance.uniform(1.0, 3.0))
                process.kill()
                codes[process.wait()] += 1
            dead = codes[-9]
        laws.append(finished(folder, twin, bug))
    return {"codes": {str(code): n for code, n in codes.items()}, "series": series, **_all(laws)}


def cut_off(root: str, bug: str = "") -> object:
    """A run killed when its first release is paid for and drawn, and in no file yet."""
    twin, folder = undisturbed(Path(root)), made(Path(root, "cut-off"))

    def work() -> None:
        dies = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # noqa: E731
        Ledger.keep = ResumingLedger.keep = dies  # type: ignore[method-assign]
        os._exit(run(folder, bug))

    code = ended(forked(work))
    return {"code": code, **_all([standing(folder), finished(folder, twin, bug)])}


def settled(root: str, where: str, bug: str = "") -> object:
    """A run with noise of its own, killed when its first draw may be in a file: before it is stored
    in the ledger, or in that transaction, whose pages SQLite may have written. Whether the next run
    stores that very draw, and pays nothing for it."""
    folder = made(Path(root, f"settled-{where}-{bug}"))

    def work() -> None:
        write = results.write_result

        def dies(db: sqlite3.Connection, stored: StoredResult) -> None:
            if where == "inside":
                db.execute("PRAGMA cache_size = 1")  # pages go to the file at once
                write(db, stored)
            (folder / "drawn").write_bytes(stored.frame)
            os.kill(os.getpid(), signal.SIGKILL)

        book.write_result = dies  # type: ignore[assignment]
        if bug == "draws again":  # planted: the file says that a draw is not over, and no more
            ResumingLedger.keep = Ledger.keep  # type: ignore[method-assign]
        os._exit(_ran(folder))

    code = ended(forked(work))
    (first,) = charged(folder)
    again = ended(forked(lambda: os._exit(_ran(folder))))
    found = Ledger(folder / "budget.db").find(first[0])
    assert found is not None
    return {
        "codes": [code, again],
        "same": found.frame == (folder / "drawn").read_bytes(),
        "own": found.release_id == first[1],
        **standing(folder),
    }


def torn(root: str) -> object:
    """The same, where a part of the draw is in its file: another draw is charged."""
    folder = made(Path(root, "torn"))

    def work() -> None:
        unfinished_draws.pack_result = lambda stored: pack_result(stored)[:-100]  # type: ignore[assignment]
        Ledger.keep = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[method-assign]
        os._exit(_ran(folder))

    code = ended(forked(work))
    (first,) = charged(folder)
    again = ended(forked(lambda: os._exit(_ran(folder))))
    found = Ledger(folder / "budget.db").find(first[0])
    paid = [release_id for name, release_id in charged(folder) if name == first[0]]
    left = [path.name for path in folder.glob("budget.db-unfinished-*")]
    stored = found is not None and found.release_id == paid[-1]
    return {"codes": [code, again], "paid": len(paid), "stored": stored, "left": left}


def _ran(folder: Path) -> int:
    with contextlib.redirect_stdout(open(os.devnull, "w")):
        return main(["run", str(folder / "reports.toml"), "--until", WEEKS[0]])


def stopped(root: str, first: str, stride: str, most: str) -> object:
    """A run killed at every ``stride``-th statement of SQL in turn, then run again to its end."""
    twin, laws, at, code = undisturbed(Path(root)), [], int(first), 1
    for at in range(int(first), int(most), int(stride)):
        folder = made(Path(root, f"at-{at}"))

        def work(at: int = at, folder: Path = folder) -> None:
            stop_at(at)
            os._exit(run(folder))

        code = ended(forked(work))
        if code != -9:
            break
        laws += [standing(folder), finished(folder, twin)]
    return {"at": at, "code": code, "kills": len(laws) // 2, **_all(laws)}


def _all(laws: list[dict[str, bool]]) -> dict[str, bool]:
    """Whether each law held every time."""
    return {name: all(law.get(name, True) for law in laws) for name in sorted(set().union(*laws))}


def broken(found: dict[str, Any]) -> set[str]:
    """The laws that did not hold every time; all of them were looked at."""
    assert found.keys() >= LAWS
    return {law for law in LAWS if not found[law]}


@often(5, 1000, "times")
def test_killed_runs_pay_once_and_end_as_if_nobody_had_killed_them(
    quick: Path, tmp_path: Path, times: int
) -> None:
    """Law: all that is seen is charged, no name is charged twice, and what is published at the end
    is what an undisturbed run with the same noise publishes; as evidence 1,000 times, on the disk.
    """
    found = worker("killed", quick if times == 5 else tmp_path, times, 1)
    assert found["codes"]["-9"] >= times
    assert broken(found) == set()


def test_a_run_killed_between_charge_and_result_pays_once(quick: Path) -> None:
    """Law: the same, where a release is paid for, drawn, and not stored."""
    found = worker("cut_off", quick)
    assert found["code"] == -9
    assert broken(found) == set()


@pytest.mark.evidence
def test_a_run_killed_at_any_statement_pays_once(tmp_path: Path) -> None:
    """Law: the same, before every fifth statement of the first releases."""
    found = worker("stopped", tmp_path, 0, 5, 400)
    assert found["kills"] == 80
    assert broken(found) == set()


@pytest.mark.parametrize(
    ("bug", "laws"), [("forgets", {"once", "paid", "whole", "equal"}), ("free", {"charged"})]
)
def test_planted_bugs_are_rejected_by_the_same_kill(quick: Path, bug: str, laws: set[str]) -> None:
    """Planted: a run that forgets what was cut off pays twice; one that charges nothing shows what
    is not paid for."""
    assert laws <= broken(worker("cut_off", quick, bug))


@pytest.mark.parametrize("where", ["before", "inside"])
def test_a_draw_that_may_be_in_a_file_is_the_one_that_is_stored(quick: Path, where: str) -> None:
    """Law: one charge pays for one draw. Where a process dies when its draw can be in the ledger's
    file, though the transaction is undone, the next run stores that draw and makes no other."""
    found = worker("settled", quick, where)
    assert found["codes"] == [-9, 0]
    assert found["same"], "two draws for one charge"
    assert found["own"]
    assert found["once"]
    assert found["charged"]


def test_a_second_draw_is_noticed(quick: Path) -> None:
    """Planted: only the charge is remembered, and not the draw."""
    found = worker("settled", quick, "inside", "draws again")
    assert found["codes"] == [-9, 0]
    assert not found["same"]


def test_a_draw_of_which_a_part_was_written_is_paid_for_and_never_shown(quick: Path) -> None:
    found = worker("torn", quick)
    assert found == {"codes": [-9, 0], "paid": 2, "stored": True, "left": []}


if __name__ == "__main__":
    command, *words = sys.argv[1:]
    if command == "run":
        sys.exit(run(Path(words[0])))
    commands = {c.__name__: c for c in (killed, cut_off, settled, torn, stopped)}
    print(json.dumps(commands[command](*words)))
