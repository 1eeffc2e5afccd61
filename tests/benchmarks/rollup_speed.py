"""Time and peak memory of ``dp.rollup`` beside DuckDB's exact ``GROUP BY ROLLUP``.

Run with ``python -m tests.benchmarks.rollup_speed [--rows 1e7] [--users 1e6] [--pairs 5]``. Four
columns of text and amounts in cents (``orders_workload.sql``), from a table of DuckDB and from a
pandas frame. By record both give count, sum and mean of every node; by user ours counts customers
who weigh 1 each, the reference with ``count(DISTINCT customer)``. Every measurement is a process of
its own, which makes one call that is not counted and then one that is; its peak memory is the
operating system's figure, the frame or the table's pages included. The two sides take turns, and
ratios are taken pair by pair; that of processor time depends less on who else uses the machine.
Both return a pandas frame; ours is the default release, which looks at every node.
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
from typing import Any

from tests.benchmarks.speed import ROOT

BY = ["country", "region", "category", "product"]
MEASURES = {
    "records": ("count", "sum(amount, 0, 1000)", "mean(amount, 0, 1000)"),
    "users": ("count", "sum(amount, 0, 5000)"),
    "users, mean": ("count", "sum(amount, 0, 5000)", "mean(amount, 0, 1000)"),
}
EXACT = {
    "records": "count(*), sum(amount), avg(amount)",
    "users": "count(DISTINCT customer), sum(amount)",
    "users, mean": "count(DISTINCT customer), sum(amount), avg(amount)",
}


def workload(rows: int, users: int, database: str, parquet: str) -> None:
    import duckdb

    text = Path(__file__).with_name("orders_workload.sql").read_text("utf-8")
    query = text.replace("$rows", str(rows)).replace("$users", str(users))
    with duckdb.connect(database) as con:
        con.execute(f"CREATE TABLE orders AS {query}")
        con.execute(f"COPY orders TO '{parquet}' (FORMAT parquet)")


def call(side: str, source: str, what: str, folder: Path) -> Callable[[], int]:
    """What is timed; it returns the number of rows of its result."""
    import duckdb
    import pandas as pd

    import dpframe as dp

    columns = [*BY, "amount", *(["customer"] if what != "records" else [])]
    frame: Any = None
    if source == "table":
        con = duckdb.connect(str(folder / "orders.duckdb"), read_only=True)
    else:
        con = duckdb.connect()
        frame = pd.read_parquet(folder / "orders.parquet", columns=columns)
        con.register("orders", frame)
    if side == "exact":
        levels = ", ".join(BY)
        query = f"SELECT {levels}, {EXACT[what]} FROM orders GROUP BY ROLLUP ({levels})"
        return lambda: len(con.sql(query).df())
    user = "customer" if what != "records" else None

    def ours() -> int:
        given = con.table("orders") if frame is None else frame
        return len(dp.rollup(given, BY, MEASURES[what], epsilon=1.0, delta=1e-6, user=user))

    return ours


def measure(side: str, source: str, what: str, folder: Path) -> None:
    timed = call(side, source, what, folder)
    timed()
    start, busy = time.perf_counter(), time.process_time()
    rows = timed()
    seconds, busy = time.perf_counter() - start, time.process_time() - busy
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "busy": busy, "peak_mb": peak, "rows": rows}))


def compare(source: str, what: str, folder: Path, pairs: int) -> None:
    figures: dict[str, list[dict[str, float]]] = {"ours": [], "exact": []}
    for _ in range(pairs):
        for side, runs in figures.items():
            one = [sys.executable, "-m", "tests.benchmarks.rollup_speed", "--one", side]
            out = subprocess.run(
                [*one, source, what, str(folder)], cwd=ROOT, stdout=subprocess.PIPE, check=True
            )
            runs.append(json.loads(out.stdout))
    both = list(zip(*figures.values(), strict=True))
    times = [a["seconds"] / b["seconds"] for a, b in both]
    busy = [a["busy"] / b["busy"] for a, b in both]
    peaks = [a["peak_mb"] / b["peak_mb"] for a, b in both]
    shown = (
        f"{side} {statistics.median(r['seconds'] for r in runs):.2f} s, "
        f"{statistics.median(r['peak_mb'] for r in runs):.0f} MB, {runs[0]['rows']} rows"
        for side, runs in figures.items()
    )
    print(
        f"{what}, {source}: {'; '.join(shown)}; time {statistics.median(times):.2f} "
        f"({min(times):.2f} to {max(times):.2f}), of processors {statistics.median(busy):.2f}, "
        f"memory {statistics.median(peaks):.2f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=float, default=1e7)
    parser.add_argument("--users", type=float, default=1e6)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--only", choices=MEASURES)
    parser.add_argument("--source", choices=("table", "frame"))
    parser.add_argument("--data", type=Path, help="a folder that keeps the rows")
    parser.add_argument("--one", nargs=4, metavar=("SIDE", "SOURCE", "WHAT", "FOLDER"))
    options = parser.parse_args()
    if options.one:
        side, source, what, folder = options.one
        measure(side, source, what, Path(folder))
        return
    with tempfile.TemporaryDirectory() as made:
        folder = options.data or Path(made)
        files = [str(folder / name) for name in ("orders.duckdb", "orders.parquet")]
        if not Path(files[1]).exists():
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as other:
                other.submit(workload, int(options.rows), int(options.users), *files).result()
        for what in [options.only] if options.only else MEASURES:
            for source in [options.source] if options.source else ("table", "frame"):
                compare(source, what, folder, options.pairs)


if __name__ == "__main__":
    main()
