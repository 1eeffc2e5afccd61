"""Time and peak memory of ``dp.hhh`` a row, from 1e4 to 1e9 rows and from 1 to 1e8 leaves.

Run with ``python -m tests.benchmarks.scale FOLDER [--rows 1e4,1e6,1e8] [--leaves 1,1e4,1e6,1e8]
[--runs 3]``. Four whole-number columns, the digits to the base 100 of a leaf that is drawn
uniformly; threshold 500. Every measurement is a process of its own, as in
:mod:`tests.benchmarks.speed`; medians of the runs. DuckDB's exact rollup stands beside it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

from tests.benchmarks.speed import ROOT, workload

PART = 100_000_000
THRESHOLD = 500
ROW = """
    SELECT (leaf // 1000000)::INTEGER AS a, (leaf // 10000 % 100)::INTEGER AS b,
    (leaf // 100 % 100)::INTEGER AS c, (leaf % 100)::INTEGER AS d
    FROM (SELECT (hash(i, 7) % {leaves})::BIGINT AS leaf FROM range({start}, {end}) t(i))
"""


def written(folder: Path, rows: int, leaves: int) -> Path:
    import duckdb

    for start in range(0, rows, PART):
        row = ROW.format(leaves=leaves, start=start, end=min(rows, start + PART))
        file = folder / f"{start // PART:03}.parquet"
        duckdb.sql(f"COPY ({row}) TO '{file}' (FORMAT parquet)")
    return folder / "*.parquet"


def figures(kind: str, files: Path, tiny: Path, runs: int) -> tuple[float, float]:
    """Seconds and megabytes, medians."""
    found = []
    for _ in range(runs):
        call = [sys.executable, "-m", "tests.benchmarks.speed", "--one", kind]
        call += [str(files), "columns", str(THRESHOLD), str(tiny)]
        out = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=True)
        found.append(json.loads(out.stdout))
    seconds, memory = ([one[name] for one in found] for name in ("seconds", "peak_mb"))
    return statistics.median(seconds), statistics.median(memory)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", default="1e4,1e6,1e8")
    parser.add_argument("--leaves", default="1,1e4,1e6,1e8")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    tiny = options.folder / "tiny.pq"
    workload(1000, tiny)
    print("| rows | leaves | seconds | ns a row | MB | exact: seconds | MB |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for rows in (int(float(text)) for text in options.rows.split(",")):
        for leaves in (int(float(text)) for text in options.leaves.split(",")):
            if leaves > rows:
                continue
            files = written(options.folder, rows, leaves)
            seconds, memory = figures("hhh", files, tiny, options.runs)
            exact, beside = figures("rollup", files, tiny, options.runs)
            each = seconds / rows * 1e9
            print(
                f"| {rows:.0e} | {leaves:.0e} | {seconds:.3g} | {each:.3g} | {memory:.0f} "
                f"| {exact:.3g} | {beside:.0f} |",
                flush=True,
            )
            for file in options.folder.glob("*.parquet"):
                file.unlink()


if __name__ == "__main__":
    main()
