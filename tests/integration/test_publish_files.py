"""Publishing as seen by readers and other writers: old or new, and never over other files."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

import dpframe as dp
from dpframe import publish
from tests.published import (
    BUDGET,
    OCTOBER,
    VISITS,
    assert_whole,
    content,
    engine_of,
    ledger_in,
    run,
)

pytestmark = pytest.mark.engines


@pytest.fixture
def ledger(tmp_path: Path) -> dp.Ledger:
    return ledger_in(tmp_path)


@pytest.fixture
def results(ledger: dp.Ledger, tmp_path: Path) -> Path:
    publish(ledger, tmp_path / "results.duckdb")
    return tmp_path / "results.duckdb"


# -- old or new, never a half --------------------------------------------------------------------

PUBLISH = """
import sys
from pathlib import Path
from dpframe import publish
ledger, to, stop, name = sys.argv[1:]
while not Path(stop).exists():
    publish(ledger, to)
    publish(ledger, to, releases=[name])
"""

READ = """
import sys, duckdb
with duckdb.connect(sys.argv[1], read_only=True) as con:
    print(con.execute("SELECT count(*) FROM ips_latest").fetchone()[0])
"""


def test_another_process_reads_while_this_one_publishes(ledger: dp.Ledger, results: Path) -> None:
    with duckdb.connect(results, read_only=True) as con:
        publish(ledger, results, releases=[OCTOBER])
        assert con.sql("SELECT count(*) FROM dp_releases").fetchall() == [(3,)]
        done = run(READ, results)
    assert (done.returncode, done.stdout.strip()) == (0, str(len(ledger.recall(OCTOBER))))


@pytest.mark.parametrize("often", [1, pytest.param(9, marks=pytest.mark.evidence)])
def test_readers_see_the_old_or_the_new_state_while_others_republish(
    ledger: dp.Ledger, results: Path, tmp_path: Path, often: int
) -> None:
    """Two processes republish, all or one release; every reader's view is one whole state."""
    stop = tmp_path / "stop"
    command = [sys.executable, "-c", PUBLISH, *map(str, (ledger.path, results, stop)), OCTOBER]
    writers = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    seen: Counter[int] = Counter()
    started = time.monotonic()
    try:
        while min(seen[1], seen[3]) < often and time.monotonic() < started + 60:
            with engine_of(results).connect() as con:
                names = [n for (n,) in con.execute(sa.text("SHOW TABLES"))]
                found = {n: pd.read_sql(sa.text(f'SELECT * FROM "{n}"'), con) for n in names}
            seen[assert_whole(found)] += 1
            seen[assert_whole(content(results))] += 1
            listed = pq.read_table(results.parent / "results_parquet" / "dp_releases.parquet")
            assert listed.num_rows in (1, 3)
    finally:
        stop.touch()
    assert [writer.communicate()[1] for writer in writers] == ["", ""]
    assert set(seen) == {1, 3}


def test_a_mixture_would_be_seen(results: Path) -> None:
    """The check above rejects a state with a table too few, or rows of another state."""
    found = content(results)
    with pytest.raises(AssertionError):
        assert_whole({name: frame for name, frame in found.items() if name != "ips_2026_10"})
    with pytest.raises(AssertionError):
        assert_whole({**found, "ips_2026_11": found["ips_2026_10"]})


DIE = """
import os, sys
from dpframe import _duck
from dpframe.publishing import publish as publish_files
from dpframe import publish
ledger, to, step, name = sys.argv[1:]
real, calls = os.replace, []
def replace(new, old):
    calls.append(old)
    if len(calls) == int(step):
        os._exit(9)
    real(new, old)
publish_files.os.replace = replace
if step == "0":
    _duck.create_database = lambda path, *rest: (path.write_bytes(b"half"), os._exit(9))
publish(ledger, to, releases=[name])
"""


@pytest.mark.parametrize("step", range(5))
def test_a_crash_leaves_one_state_and_the_next_publish_cleans_up(
    ledger: dp.Ledger, results: Path, step: int
) -> None:
    """Killed while files are made, before the swap, or between the swaps."""
    assert run(DIE, ledger.path, results, step, OCTOBER).returncode == 9
    assert assert_whole(content(results)) == (3 if step < 2 else 1)
    assert (results.parent / ".results.duckdb.new").exists()
    for row in pq.read_table(results.parent / "results_parquet/dp_releases.parquet").to_pylist():
        assert (results.parent / "results_parquet" / f"{row['table_name']}.parquet").exists()
    publish(ledger, results)
    assert assert_whole(content(results)) == 3
    assert {p.name for p in results.parent.iterdir()} == {
        *("budget.db", "results.duckdb", "results_parquet", ".results.duckdb.lock")
    }
    assert len(list((results.parent / "results_parquet").iterdir())) == 7


# -- what is refused -----------------------------------------------------------------------------


def test_a_file_of_somebody_else_is_never_replaced(ledger: dp.Ledger, tmp_path: Path) -> None:
    """Raw data, text, an empty file, SQLite: refused, and not a byte is changed."""
    with duckdb.connect(tmp_path / "raw.duckdb") as con:
        con.execute("CREATE TABLE visits AS SELECT 1 AS a")
        con.execute("CREATE TABLE dp_releases AS SELECT 1 AS a")
    (tmp_path / "text.db").write_text("hello" * 1000)
    (tmp_path / "empty.db").touch()
    shutil.copy(ledger.path, tmp_path / "copy.db")
    for name in ("raw.duckdb", "text.db", "empty.db", "copy.db"):
        before = (tmp_path / name).read_bytes()
        with pytest.raises(dp.ParameterError, match=f"would replace '{name}', which publishing"):
            publish(ledger, tmp_path / name)
        assert (tmp_path / name).read_bytes() == before
        assert not (tmp_path / f"{Path(name).stem}_parquet").exists()


def test_a_folder_of_somebody_else_is_never_written(ledger: dp.Ledger, tmp_path: Path) -> None:
    """A Parquet file that was not published stops everything; other files are left alone."""
    folder = tmp_path / "results_parquet"
    folder.mkdir()
    (folder / ".DS_Store").touch()
    VISITS.to_parquet(folder / "ips_2026_10.parquet")
    with pytest.raises(dp.ParameterError, match=r"would replace 'ips_2026_10.parquet'"):
        publish(ledger, tmp_path / "results.duckdb")
    assert len(pd.read_parquet(folder / "ips_2026_10.parquet")) == 700
    assert not (tmp_path / "results.duckdb").exists()
    (folder / "ips_2026_10.parquet").unlink()
    publish(ledger, tmp_path / "results.duckdb")
    assert (folder / ".DS_Store").exists()
    (tmp_path / "other_parquet").touch()
    with pytest.raises(dp.ParameterError, match="would replace 'other_parquet'"):
        publish(ledger, tmp_path / "other.duckdb")


def test_what_others_put_into_the_results_is_not_removed(ledger: dp.Ledger, results: Path) -> None:
    """A table, also in a schema of its own, or changes that are not in the file yet."""
    with duckdb.connect(results) as con:
        con.execute("CREATE SCHEMA mine; CREATE TABLE mine.notes AS SELECT 1 AS a")
    with pytest.raises(dp.ParameterError, match=r"also holds 'mine\.notes'"):
        publish(ledger, results)
    with duckdb.connect(results) as con:
        con.execute("DROP TABLE mine.notes")
    publish(ledger, results)
    results.with_name("results.duckdb.wal").write_bytes(b"changes")
    with pytest.raises(dp.ParameterError, match="unsaved changes"):
        publish(ledger, results)


def test_results_of_another_ledger_are_not_replaced(
    ledger: dp.Ledger, results: Path, tmp_path: Path
) -> None:
    other = dp.Ledger(tmp_path / "other.db", epsilon=1, delta=1e-5)
    dp.hhh(VISITS, "ip:src", **BUDGET, ledger=other, release=OCTOBER)
    with pytest.raises(dp.LedgerError, match=r"'results.duckdb', .* another ledger"):
        publish(other, results)
    results.unlink()
    with pytest.raises(dp.LedgerError, match=r"'dp_budget.parquet', .* another ledger"):
        publish(other, results)
    publish(ledger, results)


WRITER = """
import sys, duckdb
con = duckdb.connect(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""


def test_a_file_that_is_open_for_writing_is_not_replaced(ledger: dp.Ledger, results: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(results)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"open\n"
        with pytest.raises(dp.ParameterError, match="open for writing"):
            publish(ledger, results)
        writer.communicate()
    with duckdb.connect(results), pytest.raises(dp.ParameterError, match="open for writing"):
        publish(ledger, results)
    publish(ledger, results)


@pytest.mark.parametrize(
    ("to", "words"),
    [
        ("results.parquet", ["'results.parquet'", ".duckdb"]),
        ("no/results.duckdb", ["folder that does not exist"]),
        ("budget.db", ["is the ledger itself"]),
        ("link.db", ["is the ledger itself"]),
    ],
)
def test_a_wrong_target_is_named(
    ledger: dp.Ledger, tmp_path: Path, to: str, words: list[str]
) -> None:
    """Before anything is opened; a link to the ledger is the ledger."""
    (tmp_path / "link.db").symlink_to(ledger.path)
    with pytest.raises(dp.ParameterError) as error:
        publish(ledger, tmp_path / to)
    for word in words:
        assert word in str(error.value).replace(f"{tmp_path}/", "")


def test_wrong_releases_and_ledgers_are_named(ledger: dp.Ledger, tmp_path: Path) -> None:
    """With the nearest names, and with what to do."""
    to = tmp_path / "results.duckdb"
    with pytest.raises(dp.ReleaseNameError, match=r"'ips-2026-12'.* Did you mean 'ips-2026-1"):
        publish(ledger, to, releases=[OCTOBER, "ips-2026-12"])
    with pytest.raises(dp.ParameterError, match="releases is empty"):
        publish(ledger, to, releases=[])
    with pytest.raises(dp.ParameterTypeError, match="must be a list of names"):
        publish(ledger, to, releases=[3])  # type: ignore[list-item]
    with pytest.raises(dp.ParameterTypeError, match="to must be a file name"):
        publish(ledger, None)  # type: ignore[arg-type]
    with pytest.raises(dp.ParameterError, match="ledger is missing"):
        publish(None, to)
    empty = dp.Ledger(tmp_path / "empty.db", epsilon=1, delta=1e-5)
    dp.hhh(VISITS, "ip:src", **BUDGET, ledger=empty)
    with pytest.raises(dp.LedgerError, match=r"no named release. Pass release="):
        publish(empty, to)
    assert not to.exists()
    assert not (tmp_path / ".results.duckdb.new").exists()


def test_a_full_disk_keeps_the_old_results(
    ledger: dp.Ledger, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the system says is passed on, as an error that says what to do."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dpframe.publishing.publish.os.replace", full)
    with pytest.raises(dp.ParameterError, match=r"No space left on device.*Make room"):
        publish(ledger, results, releases=[OCTOBER])
    assert assert_whole(content(results)) == 3


def test_a_link_stays_a_link(ledger: dp.Ledger, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "results.duckdb"
    link.symlink_to(tmp_path / "real" / "all.duckdb")
    for names in (None, [OCTOBER]):
        publish(ledger, link, releases=names)
    assert link.is_symlink()
    assert assert_whole(content(tmp_path / "real" / "all.duckdb")) == 1
    assert (tmp_path / "real" / "all_parquet" / "ips_2026_10.parquet").exists()
