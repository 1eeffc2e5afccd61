"""A billion rows: time and peak memory of ``dp.hhh`` beside DuckDB's exact rollup, and what a
limit of memory and Ctrl-C do to it.

Run with ``python -m tests.benchmarks.large FOLDER [--rows 1e9] [--pairs 3] [--limit 1GB]``. The
rows are those of ``peers_workload.sql``, written to FOLDER in parts of 1e8 (8 GB for 1e9) unless
they are there. Measurements as in :mod:`tests.benchmarks.speed`, whose code they share;
``--limit`` gives both sides that ``memory_limit``.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.speed import ROOT, compare, workload

PART = 100_000_000
THRESHOLD = 500


def parts(folder: Path, rows: int) -> Path:
    """The files of a workload as a pattern; what is there is not written again."""
    import duckdb

    folder = folder / str(rows)
    folder.mkdir(parents=True, exist_ok=True)
    text = Path(__file__).with_name("peers_workload.sql").read_text("utf-8")
    for start in range(0, rows, PART):
        file = folder / f"part{start // PART:03}.parquet"
        if file.exists():
            continue
        query = text.replace("range($rows)", f"range({start}, {min(rows, start + PART)})")
        half = file.with_suffix(".writing")
        duckdb.sql(f"COPY ({query}) TO '{half}' (FORMAT parquet)")
        half.rename(file)
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
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=float, default=1e9)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--limit")
    parser.add_argument("--only", choices=("time", "cancel", "rows"))
    options = parser.parse_args()
    files = parts(options.folder, int(options.rows))
    tiny = options.folder / "tiny.parquet"
    workload(1000, tiny)
    if options.only == "rows":
        return
    if options.only != "cancel":
        if options.limit:
            os.environ["DPFRAME_MEMORY_LIMIT"] = options.limit
        title = f"{options.rows:.0e} rows, threshold {THRESHOLD}, limit {options.limit}"
        compare(title, files, "columns", THRESHOLD, tiny, options.pairs)
    if options.only != "time":
        cancelled(files, after=20.0)


if __name__ == "__main__":
    main()
