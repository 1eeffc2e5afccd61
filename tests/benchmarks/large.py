"""A billion rows: time and peak memory of ``dp.hhh`` beside DuckDB's exact rollup, and what a
limit of memory and Ctrl-C do to it.

Run with ``python -m tests.benchmarks.large FOLDER [--rows 1e9] [--pairs 3] [--limit 1GB]``. The
rows are those of ``peers_workload.sql``, written to FOLDER in parts of 1e8 (8 GB for 1e9) unless
they are there. Measurements as in :mod:`tests.benchmarks.speed`, whose code they share;
``--limit`` gives both sides that ``memory_limit``.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks import bench
from tests.benchmarks.bench import ROOT
from tests.benchmarks.speed import compare

PART = 100_000_000
THRESHOLD = 500


def parts(folder: Path, rows: int) -> Path:
    """The files of a workload as a pattern; what is there is not written again."""
    folder = folder / str(rows)
    folder.mkdir(parents=True, exist_ok=True)
    for start in range(0, rows, PART):
        file = folder / f"part{start // PART:03}.parquet"
        if not file.exists():
            part = bench.workload(min(rows - start, PART), start)
            bench.write_rows(part, file.with_suffix(".writing")).rename(file)
    return folder / "*.parquet"


def cancelled(files: Path, after: float) -> None:
    """How long the command line takes to end when Ctrl-C comes, and what it leaves."""
    with tempfile.TemporaryDirectory() as place:
        spilled, ledger = Path(place, "spilled"), Path(place, "ledger.db")
        spilled.mkdir()
        told = [sys.executable, "-m", "dpframe"]
        make = [*told, "ledger", str(ledger), "--epsilon", "10", "--delta", "1e-5"]
        subprocess.run(make, check=True, cwd=ROOT, capture_output=True)
        call = [*told, "hhh", str(files), "columns:a,b,c,d", "--epsilon", "1", "--delta", "1e-6"]
        call += ["--threshold", str(THRESHOLD), "--ledger", str(ledger)]
        environment = {**os.environ, "TMPDIR": str(spilled), "DPFRAME_MEMORY_LIMIT": "500MB"}
        process = subprocess.Popen(
            call, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        time.sleep(after)
        held = sum(file.stat().st_size for file in spilled.rglob("*") if file.is_file()) / 1e6
        start = time.perf_counter()
        process.send_signal(signal.SIGINT)
        process.communicate()
        taken = time.perf_counter() - start
        print(f"Ctrl-C after {after:.0f} s, {held:.0f} MB spilled: ended {taken:.2f} s later with")
        print(f"  exit code {process.returncode}, {len(list(spilled.iterdir()))} folders left;")
        shown = subprocess.run(
            [*told, "ledger", str(ledger)], check=True, cwd=ROOT, capture_output=True
        )
        print("  " + shown.stdout.decode().replace("\n", "\n  "))


def main() -> None:
    only = ("time", "cancel", "rows")
    given = bench.options(folder=Path, rows=1_000_000_000, pairs=3, limit="", only=only)
    files = parts(given.folder, given.rows)
    tiny = bench.write_rows(bench.workload(1000), given.folder / "tiny.parquet")
    if given.only not in ("cancel", "rows"):
        if given.limit:
            os.environ["DPFRAME_MEMORY_LIMIT"] = given.limit
        bench.compared_head()
        title = f"{given.rows:.0e} rows, limit {given.limit or None}"
        compare(title, files, tiny, given.pairs, THRESHOLD)
    if given.only not in ("time", "rows"):
        cancelled(files, after=20.0)


if __name__ == "__main__":
    main()
