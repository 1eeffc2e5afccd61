"""Raw keys that DuckDB spills: for nobody else to read, whatever happens to the folder."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import dpframe as dp
from dpframe._duck import connections, scan
from dpframe._duck import connections as process_database
from dpframe._duck.connections import PREFIX, SpillFolder
from tests.members import some

SORT = "SELECT count(*) FROM (SELECT i, hash(i) FROM dpframe_source ORDER BY hash(i))"
ROWS = "(SELECT range AS i, range + 1 AS j FROM range(3000000))"


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of temporary folders, and a database of this process that spills there."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(process_database, "_databases", {})
    monkeypatch.setattr(process_database, "_folders", {})
    before = os.umask(0o022)
    yield tmp_path
    os.umask(before)


def spilling_database() -> process_database.ProcessDatabase:
    ours = process_database.process_database()
    ours.connection.execute("SET memory_limit = '30MB'; SET threads = 1")
    return ours


def readable(folder: Path) -> list[Path]:
    """What others could read or enter, folder by folder as they would."""
    found = []
    for path in folder.iterdir():
        if path.stat().st_mode & 0o077:
            found.append(path)
            if path.is_dir():
                found += readable(path)
    return found


@some("nothing", "DuckDB's folder in it")
@pytest.mark.parametrize("gone", ["nothing", "the folder", "DuckDB's folder in it"])
def test_what_is_spilled_is_private_also_after_a_cleaner(folders: Path, gone: str) -> None:
    """Law: nobody else reaches what is spilled, also if the folder vanished between statements."""
    ours = spilling_database()
    path = ours.folder.path
    with scan(ROWS, "rows") as relation:
        if gone != "nothing":
            shutil.rmtree(path if gone == "the folder" else path / ours.name)
        assert relation.query(SORT, False)[0][0].as_py() == 3_000_000
        ours.connection.execute(f"CREATE TEMP TABLE held AS FROM {ROWS}")  # stays on the disk
        assert any((path / ours.name).iterdir())
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        assert readable(folders) == []


def test_a_folder_that_vanishes_during_a_statement_fails_it(folders: Path) -> None:
    """Law: DuckDB does not make the private folder again, with rights for all: it fails."""
    ours = spilling_database()
    shutil.rmtree(ours.folder.path)  # as if it vanished after `ready`
    with pytest.raises(duckdb.IOException):
        ours.connection.execute(f"CREATE TEMP TABLE held AS FROM {ROWS}")
    assert readable(folders) == []


@pytest.mark.parametrize("kind", ["a link", "for all"])
def test_a_folder_that_somebody_else_made_is_not_used(folders: Path, kind: str) -> None:
    """Law: in place of the private folder nothing is used that others can enter."""
    ours = process_database.process_database()
    path = ours.folder.path
    shutil.rmtree(path)
    if kind == "a link":
        (folders / "theirs").mkdir()
        path.symlink_to(folders / "theirs")
    else:
        path.mkdir()
        path.chmod(0o777)
    with pytest.raises(dp.SourceError, match="made again by somebody else"):
        scan(ROWS, "rows")
    assert not (folders / "theirs").exists() or list((folders / "theirs").iterdir()) == []


KILLED = """
import os, sys, tempfile
tempfile.tempdir = sys.argv[1]
from dpframe._duck import connections as process_database
ours = process_database.process_database()
(ours.folder.path / ours.name / "raw").write_text("key")
print(ours.folder.path, flush=True)
if sys.argv[2] == "killed":
    os.kill(os.getpid(), 9)
if sys.argv[2] == "forked" and os.fork() == 0:
    sys.exit()  # with the whole end of an interpreter
if sys.argv[2] == "forked":
    os.wait()
    assert (ours.folder.path / ours.name / "raw").exists()
"""


def in_process(folder: Path, how: str) -> Path:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(folder), how], capture_output=True, text=True
    )
    assert done.returncode == (-9 if how == "killed" else 0), done.stderr
    return Path(done.stdout.strip())


def test_the_next_start_removes_what_a_killed_process_left(folders: Path) -> None:
    """Law: folders of dead processes are removed; those of living ones, and all that only looks
    like one, stay. Links are not followed."""
    living = SpillFolder()
    dead = in_process(folders, "killed")
    assert (dead / "0" / "raw").exists()
    target = folders / "documents"
    target.mkdir()
    (target / "thesis").touch()
    link, shared = folders / f"{PREFIX}link", folders / f"{PREFIX}shared"
    link.symlink_to(target)
    shared.mkdir()
    shared.chmod(0o755)
    new = SpillFolder()
    assert not dead.exists()
    assert all(path.exists() for path in (living.path, new.path, link, shared, target / "thesis"))
    for folder in (living, new):
        folder.remove()
        assert not folder.path.exists()


@pytest.mark.parametrize("how", ["ended", "forked"])
def test_a_process_removes_its_own_folder_and_no_child_does(folders: Path, how: str) -> None:
    """Law: the folder is gone with its process, not with a child that ends before."""
    assert not in_process(folders, how).exists()


def test_a_disk_without_locks_is_not_swept(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: where nothing tells whether a process lives, its folder stays."""

    def refuse(*_: object) -> None:
        raise OSError("no locks here")

    monkeypatch.setattr(connections.fcntl, "flock", refuse)
    first, second = SpillFolder(), SpillFolder()
    assert first.path.exists()
    first.remove()
    second.remove()


def test_where_memory_does_not_suffice_one_thread_does(folders: Path) -> None:
    """Law: a release that runs out of memory with many threads is counted with one, which spills;
    other statements have their threads again. Where that does not suffice, the error says what
    does, and nothing is charged."""
    file, path = folders / "rows.parquet", folders / "budget.db"
    duckdb.sql(f"COPY (SELECT hash(range) AS k FROM range(700000)) TO '{file}' (FORMAT parquet)")
    ledger = dp.Ledger(path, epsilon=9.0, delta=1e-4)
    limits = "SET memory_limit = '25MB'; SET threads = 32"
    connection = process_database.process_database().connection
    connection.execute(limits)

    def hhh(source: object) -> object:
        return dp.hhh(source, ["k"], epsilon=1.0, delta=1e-6, ledger=ledger)

    released = 0

    def until_refused() -> None:  # where few threads run at once, memory can suffice
        nonlocal released
        for _ in range(8):
            with duckdb.connect() as con:
                con.execute(limits)
                hhh(con.read_parquet(str(file)))
            released += 1

    with pytest.raises(dp.SourceError, match=r"SET threads = 1 .*mechanism='streaming'"):
        until_refused()
    assert ledger.spent.epsilon == released
    hhh(file)
    assert connection.sql("SELECT current_setting('threads')").fetchall() == [(32,)]
    assert ledger.spent.epsilon == released + 1
