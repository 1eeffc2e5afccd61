"""``dp_hhh`` in SQL beside ``dp.hhh`` on the same table of the same connection.

Run with ``python -m tests.benchmarks.sql [--rows 1e7] [--pairs 7]``. The two take turns in one
process, warm; ratios are taken pair by pair. Peak memory is that of a process that does only one.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks.speed import LEVELS, ROOT, workload


def calls(con: object, threshold: int | None) -> dict[str, Callable[[], int]]:
    import dpframe as dp

    limit = "" if threshold is None else f", threshold := {threshold}"
    statement = f"""
        SELECT * FROM dp_hhh('visits', 'columns:{",".join(LEVELS)}',
                             epsilon := 1.0, delta := 1e-6{limit})
    """
    budget = {"epsilon": 1.0, "delta": 1e-6, "threshold": threshold}
    return {
        "accessor": lambda: len(dp.hhh(con.table("visits"), LEVELS, **budget)),  # type: ignore
        "sql": lambda: len(con.sql(statement).df()),  # type: ignore
    }


def connected(file: str) -> object:
    import duckdb

    import dpframe as dp

    con = duckdb.connect()
    con.execute(f"CREATE TABLE visits AS FROM read_parquet('{file}')")
    dp.register(con)
    return con


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=float, default=1e7)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--one", nargs=3, metavar=("KIND", "FILE", "THRESHOLD"))
    options = parser.parse_args()
    if options.one:
        kind, file, threshold = options.one
        rows = calls(connected(file), int(threshold) or None)[kind]()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"peak_mb": peak, "rows": rows}))
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "rows.parquet")
        workload(int(options.rows), file)
        con = connected(str(file))
        for threshold in (None, 500):
            both = calls(con, threshold)
            seconds: dict[str, list[float]] = {kind: [] for kind in both}
            for turn in range(options.pairs + 1):
                for kind, call in both.items():
                    start = time.perf_counter()
                    call()
                    if turn:
                        seconds[kind].append(time.perf_counter() - start)
            ratios = [s / a for s, a in zip(seconds["sql"], seconds["accessor"], strict=True)]
            peaks = {kind: _peak(kind, file, threshold) for kind in both}
            print(
                f"{options.rows:.0e} rows, threshold {threshold}: accessor "
                f"{statistics.median(seconds['accessor']):.2f} s, SQL "
                f"{statistics.median(seconds['sql']):.2f} s, ratio {statistics.median(ratios):.2f} "
                f"({min(ratios):.2f} to {max(ratios):.2f}); peak with the table "
                f"{peaks['accessor']:.0f} MB, {peaks['sql']:.0f} MB"
            )


def _peak(kind: str, file: Path, threshold: int | None) -> float:
    call = [sys.executable, "-m", "tests.benchmarks.sql", "--one", kind, str(file)]
    out = subprocess.run(
        [*call, str(threshold or 0)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    peak: float = json.loads(out.stdout)["peak_mb"]
    return peak


if __name__ == "__main__":
    main()
