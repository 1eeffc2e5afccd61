"""Ledgers that cannot be used: every fault is a clear error, nothing is drawn, nothing is lost.

The faults are real: files are cut, filled and flipped, disks are full, locks are held and limits
set by other processes.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpframe as dp
from dpframe.ledger import Ledger, book
from dpframe.ledger import forecast as open_file
from dpframe.noise import NoiseTable

ROOT = Path(__file__).resolve().parents[2]
FRAME = pd.DataFrame({"a": ["x"] * 900})
TOTALS = {"epsilon": 3.0, "delta": 1e-5}


def hhh(ledger: object, **options: Any) -> pd.DataFrame:
    return dp.hhh(FRAME, ["a"], epsilon=0.5, delta=1e-6, ledger=ledger, **options)  # type: ignore[arg-type]


@pytest.fixture
def draws(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    seen: list[int] = []
    drawn = NoiseTable.draw
    monkeypatch.setattr(NoiseTable, "draw", lambda law, n: seen.append(n) or drawn(law, n))
    return seen


@pytest.fixture
def spent(tmp_path: Path) -> Ledger:
    """A ledger with two releases, one of them stored as "daily"."""
    ledger = Ledger(tmp_path / "budget.db", **TOTALS)
    hhh(ledger)
    hhh(ledger, release="daily")
    return ledger


def contents(path: Path) -> tuple[Any, ...]:
    ledger = Ledger(path)
    return (
        (ledger.ledger_id, ledger.epsilon, ledger.delta, ledger.accountant, ledger.spent),
        ledger.releases().to_json(),
        {name: ledger.recall(name).to_json() for name in ledger.names()},
    )


def in_process(code: str, *arguments: object, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        **options,
    )


# -- files that are no ledger ----------------------------------------------------------------------


def garbage(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 64)


def text(path: Path) -> None:
    path.write_text("a,b\n1,2\n" * 1000)


def other_database(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE budget (epsilon)")


def empty_database(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 1")
        db.execute("VACUUM")


def later_format(path: Path) -> None:
    Ledger(path, **TOTALS)
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")


def header_only(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0" + bytes(84))


def without_budget(path: Path) -> None:
    Ledger(path, **TOTALS)
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("DROP TRIGGER budget_is_kept")
        db.execute("DELETE FROM budget")


def without_history(path: Path) -> None:
    Ledger(path, **TOTALS)
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("DROP TABLE charges")


NO_LEDGERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no file": (lambda path: None, "does not exist.*make it with totals"),
    "no folder": (lambda path: shutil.rmtree(path.parent), "does not exist"),
    "a folder": (lambda path: path.mkdir(), "is a folder or a device"),
    "a pipe": (lambda path: os.mkfifo(path), "is a folder or a device"),
    "an empty file": (lambda path: path.touch(), "is no ledger"),
    "garbage": (garbage, "is no ledger, or is damaged"),
    "text": (text, "is no ledger, or is damaged"),
    "a header only": (header_only, "is no ledger|damaged"),
    "another database": (other_database, "is no ledger of this version of dpframe"),
    "an empty database": (empty_database, "is no ledger of this version of dpframe"),
    "a later format": (later_format, "is no ledger of this version of dpframe"),
    "no totals": (without_budget, "damaged, it has no totals"),
    "no history": (without_history, "damaged.*no such table"),
}


@pytest.mark.parametrize("totals", [{}, TOTALS], ids=["without totals", "with totals"])
@pytest.mark.parametrize("fault", NO_LEDGERS)
def test_what_is_no_ledger_is_not_used_and_not_written(
    tmp_path: Path, draws: list[int], fault: str, totals: dict[str, float]
) -> None:
    """Law: LedgerError by path and reason; the file is left as it was; nothing is drawn.

    Only where there is nothing, no file or an empty one, totals make a new ledger.
    """
    make, words = NO_LEDGERS[fault]
    path = tmp_path / "folder" / "budget.db"
    path.parent.mkdir()
    make(path)
    before = path.read_bytes() if path.is_file() else None
    if totals and fault in ("no file", "an empty file"):
        assert Ledger(path, **totals).spent.epsilon == 0.0
        return
    if totals and fault == "no folder":
        words = "cannot be opened.*folder exists"
    with pytest.raises(dp.LedgerError, match=f"(?s){words}"):
        Ledger(path, **totals)
    for name in (None, "daily"):
        with pytest.raises(dp.LedgerError):
            hhh(path, release=name)
    assert (path.read_bytes() if path.is_file() else None) == before
    assert draws == []


@pytest.mark.parametrize("gone", [os.unlink, lambda path: os.truncate(path, 0)])
def test_a_ledger_that_vanishes_is_not_made_anew(
    spent: Ledger, draws: list[int], gone: Callable[[Path], object]
) -> None:
    """Law: a ledger that is open, and whose file is deleted or emptied, does not start again."""
    gone(spent.path)
    for use in (hhh, lambda b: hhh(b, release="daily"), lambda b: b.spent, lambda b: b.summary()):
        with pytest.raises(dp.LedgerError, match=r"does not exist|is no ledger"):
            use(spent)
    assert draws == []
    assert not spent.path.exists() or spent.path.stat().st_size == 0


def test_an_old_sqlite_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: where SQLite cannot hold a ledger, the error says so, and no file is made."""
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 31, 1))
    with pytest.raises(dp.LedgerError, match=r"needs SQLite 3.37 or later"):
        Ledger(tmp_path / "budget.db", **TOTALS)
    assert list(tmp_path.iterdir()) == []


# -- damage ----------------------------------------------------------------------------------------


def damaged_or_same(path: Path, data: bytes, before: tuple[Any, ...]) -> bool:
    """With these bytes the ledger is refused (True), or says exactly what it said (False)."""
    for beside in path.parent.glob("budget.db-*"):
        beside.unlink()
    path.write_bytes(data)
    try:
        now = contents(path)
    except dp.LedgerError:
        return True
    assert now == before
    return False


def flips(path: Path, stride: int, start: int = 0) -> tuple[int, int]:
    """Flip one bit at a time: how many were refused, and how many changed nothing."""
    data, before = path.read_bytes(), contents(path)
    refused = 0
    places = range(start, len(data), stride)
    for at in places:
        flipped = bytearray(data)
        flipped[at] ^= 1 << (at // stride) % 8
        refused += damaged_or_same(path, bytes(flipped), before)
    return refused, len(places) - refused


def test_a_flipped_bit_is_refused_or_changes_nothing(spent: Ledger) -> None:
    """Law: no single flipped bit makes a ledger say anything else than before."""
    refused, harmless = flips(spent.path, 311)
    assert refused > 30
    assert harmless > 0  # free space


@pytest.mark.evidence
@pytest.mark.parametrize("start", range(4))
def test_no_flipped_byte_anywhere_changes_what_a_ledger_says(spent: Ledger, start: int) -> None:
    flips(spent.path, 4, start)


def test_without_seals_a_flipped_bit_would_go_unnoticed(
    spent: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted bug: a check that does not compare seals says, or reads, something else."""
    from dpframe.ledger import entries

    class Blind(str):
        """Equal to every other seal."""

        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            return True

        def __ne__(self, other: object) -> bool:
            return False

    monkeypatch.setattr(entries, "seal_values", lambda *_: Blind("x"))
    with pytest.raises((AssertionError, ValueError)):
        flips(spent.path, 311)


@pytest.mark.parametrize("part", [0.1, 0.3, 0.5, 0.7, 0.9, 0.999])
def test_a_file_that_was_cut_is_refused(spent: Ledger, draws: list[int], part: float) -> None:
    """Law: a ledger of which a page is missing is damaged; part of a page counts if it is used."""
    data, before = spent.path.read_bytes(), contents(spent.path)
    draws.clear()
    damaged_or_same(spent.path, data[: int(part * len(data))], before)
    spent.path.write_bytes(data[: int(part * len(data)) // 4096 * 4096])
    with pytest.raises(dp.LedgerError, match=r"damaged|is no ledger"):
        Ledger(spent.path)
    with pytest.raises(dp.LedgerError):
        hhh(spent.path)
    assert draws == []


def test_an_older_copy_says_less(spent: Ledger, tmp_path: Path) -> None:
    """Known limit: a ledger put back from an older copy has forgotten what came after.

    Nothing in a file can tell; the message for damage therefore asks for a copy with every charge.
    """
    shutil.copy(spent.path, tmp_path / "copy.db")
    hhh(spent)
    shutil.copy(tmp_path / "copy.db", spent.path)
    assert spent.spent.epsilon == 1.0


def test_a_ledger_turned_to_wal_still_counts(spent: Ledger) -> None:
    """Law: another journal mode, set by a tool, changes nothing."""
    with contextlib.closing(sqlite3.connect(spent.path)) as db:
        db.execute("PRAGMA journal_mode = WAL")
    hhh(spent)
    assert Ledger(spent.path).spent.epsilon == 1.5


# -- locks -----------------------------------------------------------------------------------------

HOLD = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=0.5, isolation_level=None)
db.execute(sys.argv[2])
db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
print("held", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def held(path: Path, how: str) -> Iterator[None]:
    """A transaction of another process."""
    process = in_process(HOLD, path, how, stdin=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    try:
        yield
    finally:
        process.communicate()


@pytest.mark.parametrize("how", ["BEGIN", "BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
def test_a_locked_ledger_is_not_charged(
    spent: Ledger, draws: list[int], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Law: a reader, a writer or an exclusive user in the way is an error, in time; later it works.

    A reader is in the way of the commit only. What can be read without a lock still replays.
    """
    monkeypatch.setattr(open_file, "BUSY", 0.3)
    before = spent.path.read_bytes()
    with held(spent.path, how):
        start = time.monotonic()
        with pytest.raises(dp.LedgerError, match="is locked by another process"):
            hhh(spent)
        assert 0.3 <= time.monotonic() - start < 10
        if how != "BEGIN EXCLUSIVE":
            assert len(hhh(spent, release="daily")) > 0
    assert draws == []
    assert spent.path.read_bytes() == before
    hhh(spent)
    assert spent.spent.epsilon == 1.5


@pytest.mark.engines
def test_a_short_lock_is_waited_for(spent: Ledger) -> None:
    with held(spent.path, "BEGIN EXCLUSIVE"):
        waiting = in_process(
            "import sys, dpframe as dp; print(dp.Ledger(sys.argv[1]).spent.epsilon)", spent.path
        )
        time.sleep(1.5)
        assert waiting.poll() is None
    assert waiting.communicate()[0] == "1.0\n"


def test_a_name_that_another_process_is_drawing_is_waited_for(
    spent: Ledger, draws: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: who waits too long for another draw gets an error; a stored name needs no waiting."""
    monkeypatch.setattr(book, "DRAWING", 0.2)
    lock = spent.path.with_name("budget.db-drawing")
    with held(lock, "BEGIN EXCLUSIVE"):
        assert len(hhh(spent, release="daily")) > 0
        with pytest.raises(dp.LedgerError, match=r"budget.db-drawing' is locked by another"):
            hhh(spent, release="weekly")
    assert draws == []
    hhh(spent, release="weekly")
    assert spent.names() == ["daily", "weekly"]


WAIT = """
import signal, sqlite3, sys, dpframe as dp
from dpframe.ledger import forecast
forecast.BUSY = 60.0
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by who started us, perhaps
print("waiting", flush=True)
try:
    dp.Ledger(sys.argv[1]) if sys.argv[2] == "ours" else sqlite3.connect(
        sys.argv[1], timeout=6.0).execute("SELECT count(*) FROM budget")
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.engines
@pytest.mark.parametrize(("who", "heard"), [("ours", True), ("planted", False)])
def test_waiting_for_a_lock_can_be_interrupted(spent: Ledger, who: str, heard: bool) -> None:
    """Law: Ctrl-C is heard while a process waits for a ledger.

    Planted bug beside it: SQLite's own waiting is deaf until it ends.
    """
    with held(spent.path, "BEGIN EXCLUSIVE"):
        waiting = in_process(WAIT, spent.path, who)
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == "waiting\n"
        time.sleep(0.5)
        waiting.send_signal(signal.SIGINT)
        try:
            out, _ = waiting.communicate(timeout=3)
        except subprocess.TimeoutExpired:
            out = ""
            waiting.kill()
            waiting.communicate()
    assert (out == "interrupted\n") == heard


@pytest.mark.parametrize("what", ["a folder", "garbage", "of somebody else"])
def test_a_lock_file_that_is_none_is_an_error_before_the_draw(
    spent: Ledger, draws: list[int], monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Law: where the lock beside the ledger cannot be taken, nothing is drawn or charged."""
    lock = spent.path.with_name("budget.db-drawing")
    lock.unlink(missing_ok=True)
    if what == "a folder":
        lock.mkdir()
    elif what == "garbage":
        garbage(lock)
    else:  # SQLite opens it for reading, and its exclusive lock excludes nobody
        may = os.access
        monkeypatch.setattr(os, "access", lambda p, mode: str(p) != str(lock) and may(p, mode))
    with pytest.raises(dp.LedgerError, match=r"budget.db-drawing"):
        hhh(spent, release="weekly")
    assert draws == []
    assert spent.spent.epsilon == 1.0


def test_the_lock_may_be_taken_by_whoever_may_charge(spent: Ledger) -> None:
    """Law: the lock file has the permissions of the ledger, not those of whoever drew first."""
    lock = spent.path.with_name("budget.db-drawing")
    lock.unlink()
    os.chmod(spent.path, 0o664)
    hhh(spent, release="weekly")
    assert lock.stat().st_mode & 0o777 == 0o664


def test_a_thread_that_waits_does_not_let_go_of_the_lock_of_another(spent: Ledger) -> None:
    """Law: POSIX drops a process's locks when any of its descriptors of the file is closed; no
    thread closes one while another draws. A second process finds the lock held.

    Planted bug beside it: opening and closing the lock file from another thread lets it go.
    """
    lock = spent.path.with_name("budget.db-drawing")

    def free() -> bool:
        process = in_process(HOLD, lock, "BEGIN EXCLUSIVE", stdin=subprocess.PIPE)
        return "held" in process.communicate()[0]

    with spent.drawing():
        with ThreadPoolExecutor(1) as pool, pytest.MonkeyPatch.context() as patch:
            patch.setattr(book, "DRAWING", 0.1)
            with pytest.raises(dp.LedgerError, match="is locked"):
                pool.submit(lambda: hhh(spent, release="weekly")).result()
        assert not free()
        lock.read_bytes()  # planted
        assert free()
    assert free()


def test_an_error_of_a_source_stays_what_it_is(
    spent: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: an error in the counting of a named release is not taken for one of the ledger."""
    from dpframe.questions.hhh import ask as counting

    def count(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("database is locked: a secret row")

    monkeypatch.setattr(counting, "exact_counts", count)
    with pytest.raises(sqlite3.OperationalError):
        hhh(spent, release="weekly")


# -- disks -----------------------------------------------------------------------------------------

FULL = """
import json, resource, sys, pandas as pd, dpframe as dp
from dpframe.noise import NoiseTable
draws, drawn = [], NoiseTable.draw
NoiseTable.draw = lambda law, n: draws.append(n) or drawn(law, n)
frame = pd.DataFrame({"a": ["x"] * 900})
def run(path, name):
    ledger, out = dp.Ledger(path), {"draws": 0, "error": None, "got": False}
    draws.clear()
    try:
        dp.hhh(frame, ["a"], epsilon=0.5, delta=1e-6, ledger=ledger, release=name)
        out["got"] = True
    except dp.LedgerError as error:
        out["error"] = str(error)
    return {**out, "draws": len(draws)}
run(sys.argv[1] + "-warm", None)
results = []
for path, limit, name in json.loads(sys.argv[2]):
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    results.append(run(path, name))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(json.dumps(results))
"""


def run_full(warm: Path, cases: list[tuple[Path, int, str | None]]) -> list[dict[str, Any]]:
    Ledger(Path(f"{warm}-warm"), **TOTALS)
    process = in_process(FULL, warm, json.dumps([(str(p), n, name) for p, n, name in cases]))
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    results: list[dict[str, Any]] = json.loads(out)
    return results


@pytest.mark.parametrize("name", [pytest.param(None, marks=pytest.mark.evidence), "daily"])
def test_a_full_disk_charges_first_or_draws_nothing(tmp_path: Path, name: str | None) -> None:
    """Law: wherever the disk is full, there is a result, or a charge without one, or nothing.

    Never a draw without a charge; the error says which, and the ledger works once there is room.
    """
    Ledger(tmp_path / "made.db", **TOTALS)
    whole = (tmp_path / "made.db").stat().st_size
    cases = []
    for limit in (2000, 6000, 10000, *range(whole, whole + 40000, 8192)):
        path = tmp_path / f"budget-{limit}.db"
        shutil.copy(tmp_path / "made.db", path)
        cases.append((path, limit, name))
    seen = set()
    for (path, _, _), result in zip(cases, run_full(tmp_path / "x", cases), strict=True):
        charged = Ledger(path).spent.epsilon
        seen.add((result["got"], charged))
        if result["got"]:
            assert (charged, result["error"]) == (0.5, None)
        elif charged:
            assert "'daily' was charged, but its result could not be stored" in result["error"]
            assert "the disk is full or failing" in result["error"]
        else:
            assert result["draws"] == 0
            assert "the disk is full or failing" in result["error"]
        hhh(path, release=name)
    assert {(True, 0.5), (False, 0.0)} <= seen
    assert ((False, 0.5) in seen) == (name is not None)


def test_a_full_file_system_draws_nothing(tmp_path: Path) -> None:
    """Law: on a small file system that fills up, releases end and all are charged."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = (
        os.geteuid() == 0
        and shutil.which("mount")
        and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", disk], capture_output=True
        ).returncode
    )
    if not mounted:
        pytest.skip("file systems cannot be mounted here")
    try:
        path = disk / "budget.db"
        Ledger(path, epsilon=500.0, delta=1e-3)
        results = run_full(
            tmp_path / "x", [(path, 0, f"n{i}" if i % 2 else None) for i in range(40)]
        )
        got = sum(result["got"] for result in results)
        assert 0 < got < 40
        assert Ledger(path).spent.epsilon >= 0.5 * got
        for result in results:
            assert result["got"] or "the disk is full or failing" in result["error"]
        last = results[-1]
        assert (last["got"], last["draws"]) == (False, 0)
    finally:
        subprocess.run(["umount", disk], check=True)


READ_ONLY = """
import json, os, sys, pandas as pd, duckdb, dpframe as dp
from pathlib import Path
from dpframe.noise import NoiseTable
folder = Path(sys.argv[1])
frame = pd.DataFrame({"a": ["x"] * 900})
arguments = dict(epsilon=0.5, delta=1e-6)
one = dp.Ledger(folder / "budget.db", epsilon=3.0, delta=1e-5)
first = dp.hhh(frame, ["a"], **arguments, ledger=one, release="daily")
os.chmod(folder / "budget.db", 0o444)
os.chmod(folder, 0o555)
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
NoiseTable.draw = None
errors = []
ledger = dp.Ledger(folder / "budget.db", epsilon=3.0, delta=1e-5)
for name in (None, "weekly"):
    try:
        dp.hhh(frame, ["a"], **arguments, ledger=ledger, release=name)
    except dp.LedgerError as error:
        errors.append(str(error))
for path in (folder / "new.db", folder / "private" / "x.db"):
    try:
        dp.Ledger(path, epsilon=3.0, delta=1e-5)
    except dp.LedgerError as error:
        errors.append(str(error))
again = dp.hhh(frame, ["a"], **arguments, ledger=ledger, release="daily")
print(json.dumps({"errors": errors, "same": first.equals(again), "spent": ledger.spent.epsilon}))
"""


def test_a_ledger_that_may_not_be_written_replays_and_charges_nothing() -> None:
    """Law: read-only ledgers are read; a charge, a lock or a new file there is a clear error."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made, "folder")
        (folder / "private").mkdir(parents=True)
        os.chmod(made, 0o755)
        os.chmod(folder / "private", 0o700)
        process = in_process(READ_ONLY, folder)
        out, errors = process.communicate(timeout=120)
        os.chmod(folder, 0o755)
        assert process.returncode == 0, errors
        result = json.loads(out)
    assert result["same"]
    assert result["spent"] == 0.5
    charge, lock, new, private = result["errors"]
    assert "cannot be written" in charge
    assert "cannot be opened" in lock
    assert "cannot be opened" in new
    assert "cannot be opened" in private


# -- arguments -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("totals", "error", "words"),
    [
        ({"epsilon": 3.0}, dp.BudgetError, "both totals. Pass delta="),
        ({"delta": 1e-5}, dp.BudgetError, "both totals. Pass epsilon="),
        ({"epsilon": 0.0, "delta": 1e-5}, dp.BudgetError, r"epsilon \(0.0\), a total"),
        ({"epsilon": -1, "delta": 1e-5}, dp.BudgetError, r"epsilon \(-1\), a total"),
        ({"epsilon": math.nan, "delta": 1e-5}, dp.BudgetError, r"epsilon \(nan\)"),
        ({"epsilon": math.inf, "delta": 1e-5}, dp.BudgetError, r"epsilon \(inf\)"),
        ({"epsilon": 1e6, "delta": 1e-5}, dp.BudgetError, "below 1e"),
        ({"epsilon": 10**400, "delta": 1e-5}, dp.BudgetError, "a total, must be above 0"),
        ({"epsilon": 1e-13, "delta": 1e-5}, dp.BudgetError, "too small to be a total"),
        ({"epsilon": Fraction(1, 10**400), "delta": 1e-5}, dp.BudgetError, "must be above 0"),
        ({"epsilon": 3.0, "delta": 0.0}, dp.BudgetError, r"delta \(0.0\)"),
        ({"epsilon": 3.0, "delta": 1.0}, dp.BudgetError, r"delta \(1.0\), a total, must be"),
        ({"epsilon": 3.0, "delta": 2}, dp.BudgetError, "below 1"),
        ({"epsilon": 3.0, "delta": math.nan}, dp.BudgetError, r"delta \(nan\)"),
        ({"epsilon": 3.0, "delta": 1e-19}, dp.BudgetError, "too small to be a total"),
        ({"epsilon": "3", "delta": 1e-5}, dp.ParameterTypeError, "epsilon must be a number"),
        ({"epsilon": 3.0, "delta": "1e-5"}, dp.ParameterTypeError, "delta must be a number"),
        ({"epsilon": True, "delta": 1e-5}, dp.ParameterTypeError, "epsilon must be a number"),
        ({"epsilon": [3.0], "delta": 1e-5}, dp.ParameterTypeError, "epsilon must be a number"),
        ({**TOTALS, "accountant": "rdp"}, dp.ParameterError, "must be 'sum' or 'pld'"),
        ({**TOTALS, "accountant": 1}, dp.ParameterError, "must be 'sum' or 'pld'"),
    ],
)
def test_totals_that_are_none_make_no_ledger(
    tmp_path: Path, totals: dict[str, Any], error: type[Exception], words: str
) -> None:
    """Law: the message names the argument, its value and the rule; no file is made."""
    with pytest.raises(error, match=words):
        Ledger(tmp_path / "budget.db", **totals)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(999_999.9, 0.999999), (1e-12, 1e-18), (3, np.float64(1e-5)), (np.float32(0.5), 1e-6)],
)
def test_totals_at_the_edge_hold(tmp_path: Path, epsilon: Any, delta: Any) -> None:
    """Law: the largest and smallest totals are kept as given, never above."""
    ledger = Ledger(tmp_path / "budget.db", epsilon=epsilon, delta=delta)
    assert (ledger.epsilon, ledger.delta) == (float(epsilon), float(delta))
    assert Ledger(ledger.path, epsilon=epsilon, delta=delta).left == ledger.left


@pytest.mark.parametrize("path", [5, None, b"x", object()])
def test_a_path_is_text_or_a_path(path: Any) -> None:
    with pytest.raises(dp.ParameterTypeError, match=r"path must be a file name|ledger must be"):
        Ledger(path, **TOTALS)
    if path is not None:
        with pytest.raises(dp.ParameterTypeError, match=r"ledger must be a dp.Ledger or the path"):
            hhh(path)


@pytest.mark.parametrize("path", ["a\0b", "x" * 300, "a/" * 3000 + "b"])
def test_a_path_that_cannot_be_is_an_error_in_our_words(tmp_path: Path, path: str) -> None:
    with pytest.raises((dp.ParameterError, dp.LedgerError), match=r"no name of a file|cannot be"):
        Ledger(str(tmp_path / path), **TOTALS)


NAMES = [
    *("Überbudget 日本.db", "a b.db", "what?mode=memory", "100%.db", "%41.db", "#1.db"),
    *("semi;colon&cache=shared.db", "'quote\".db", "new\nline.db"),
    os.fsdecode(b"no-utf8-\xff.db"),
    "plain",
]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_a_ledger_is_the_file_that_was_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Law: no character of a path is taken for anything but part of a name."""
    monkeypatch.chdir(tmp_path)
    ledger = Ledger(name, **TOTALS)
    hhh(ledger, release="daily")
    assert sorted(os.listdir(tmp_path)) == sorted([name, f"{name}-drawing"])
    monkeypatch.chdir("/")
    hhh(ledger)  # the path was made absolute when it was opened
    again = Ledger(tmp_path / name)
    assert (again.spent.epsilon, again.ledger_id) == (1.0, ledger.ledger_id)
    assert repr(Ledger("/" + str(tmp_path / name))) == repr(again) or name == "plain"


@pytest.mark.parametrize("name", [":memory:", "file:x.db?mode=memory"])
def test_a_ledger_of_a_name_that_is_refused_now_still_opens(tmp_path: Path, name: str) -> None:
    """Law: SQLite reads these names as something else, so that no ledger is made of one; a file
    that has it already is that file."""
    with pytest.raises(dp.ParameterError, match=r"no name of a file.*outlasts this process"):
        Ledger(tmp_path / name, **TOTALS)
    Ledger(tmp_path / "budget.db", **TOTALS)
    (tmp_path / "budget.db").rename(tmp_path / name)
    hhh(Ledger(tmp_path / name))
    assert Ledger(tmp_path / name).spent.epsilon > 0


def test_two_slashes_are_a_path_not_a_host(tmp_path: Path) -> None:
    Ledger(f"/{tmp_path}/budget.db", **TOTALS)
    assert (tmp_path / "budget.db").exists()
