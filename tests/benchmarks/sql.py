"""``dp_hhh`` in SQL beside the accessor on the same rows, and ``dp.hhh`` on the same table.

Run with ``python -m tests.benchmarks.sql [--rows 1e7] [--pairs 7]``. They take turns in one
process, warm; ratios are taken turn by turn. ``accessor`` is ``df.dp.hhh`` on a pandas frame with
the table's rows, ``relation`` is ``dp.hhh`` on the table itself. ``sql to a table`` keeps the
result in DuckDB, ``sql to pandas`` fetches it as a frame. Peak memory is that of a process that
does only one, the table included. Another process writes the rows: a database that had done so in
this one would slow what follows by a tenth.
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
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from tests.benchmarks.speed import LEVELS, ROOT, workload


def calls(
    con: object, threshold: int | None, *, with_frame: bool = True
) -> dict[str, Callable[[], int]]:
    import dpframe as dp

    limit = "" if threshold is None else f", threshold := {threshold}"
    statement = f"""
        SELECT * FROM dp_hhh('visits', 'columns:{",".join(LEVELS)}',
                             epsilon := 1.0, delta := 1e-6{limit})
    """
    table = f"CREATE OR REPLACE TEMP TABLE heavy AS {statement}"
    budget = {"epsilon": 1.0, "delta": 1e-6, "threshold": threshold}
    frame = con.table("visits").df() if with_frame else None  # type: ignore
    return {
        "accessor": lambda: len(frame.dp.hhh(LEVELS, **budget)),  # type: ignore
        "relation": lambda: len(dp.hhh(con.table("visits"), LEVELS, **budget)),  # type: ignore
        "sql to a table": lambda: con.execute(table).fetchone()[0],  # type: ignore
        "sql to pandas": lambda: len(con.sql(statement).df()),  # type: ignore
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
        kinds = calls(connected(file), int(threshold) or None, with_frame=kind == "accessor")
        rows = kinds[kind]()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"peak_mb": peak, "rows": rows}))
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "rows.parquet")
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as other:
            other.submit(workload, int(options.rows), file).result()
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
            for kind, taken in seconds.items():
                ratios = [s / t for s, t in zip(taken, seconds["accessor"], strict=True)]
                print(
                    f"{options.rows:.0e} rows, threshold {threshold}: {kind:14} "
                    f"{statistics.median(taken):.2f} s, {statistics.median(ratios):.2f} "
                    f"({min(ratios):.2f} to {max(ratios):.2f}) of the accessor; "
                    f"peak {_peak(kind, file, threshold):.0f} MB"
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
