"""The same rows from each kind of source: ``dp.hhh`` beside DuckDB's exact rollup of that source.

Run with ``python -m tests.benchmarks.sources [--rows 3e6] [--runs 3]``: four whole-number columns,
and two of text (800 and 40 values), threshold 500. Every source is a process of its own, in which
both take turns three times; the last turn counts, and the least of the runs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.benchmarks.speed import LEVELS, ROOT, workload

SOURCES = ("Parquet", "DuckDB table", "Arrow", "Polars", "pandas", "CSV")
COLUMNS = {"numbers": LEVELS, "texts": ["country", "product"]}
TEXTS = "'c' || (a % 40) AS country, 'product-' || b % 20 || '-' || c % 40 AS product"
ROLLUP = "SELECT {0}, count(*) AS n FROM {1} GROUP BY ROLLUP ({0}) HAVING count(*) >= 500"


def written(folder: Path, rows: int) -> None:
    import duckdb

    workload(rows, folder / "raw.parquet")
    with duckdb.connect(str(folder / "rows.db")) as con:
        con.execute(
            f"CREATE TABLE rows AS SELECT a, b, c, d, {TEXTS} FROM '{folder / 'raw.parquet'}'"
        )
        con.execute(f"COPY rows TO '{folder / 'rows.parquet'}'")
        con.execute(f"COPY rows TO '{folder / 'rows.csv'}' (HEADER)")


def opened(kind: str, folder: Path) -> tuple[object, Callable[[str], object]]:
    """A source for us, and what runs a query of ``given`` on it."""
    import duckdb

    con = duckdb.connect(str(folder / "rows.db"))
    if kind == "DuckDB table":
        return con.table("rows"), lambda query: con.sql(query.format("rows")).df()
    if kind in ("Parquet", "CSV"):
        file = str(folder / f"rows.{kind.lower()}")
        return file, lambda query: con.sql(query.format(f"'{file}'")).df()
    frame: Any = con.sql("FROM rows")
    frame = {"Arrow": frame.to_arrow_table, "Polars": frame.pl, "pandas": frame.df}[kind]()
    con.register("given", frame)
    return frame, lambda query: con.sql(query.format("given")).df()


def one(kind: str, of: str, folder: Path) -> None:
    import resource

    import dpframe as dp

    source, run = opened(kind, folder)
    query = ROLLUP.format(", ".join(COLUMNS[of]), "{}")
    for _ in range(3):
        start = time.perf_counter()
        run(query)
        exact = time.perf_counter() - start
        start = time.perf_counter()
        dp.hhh(source, COLUMNS[of], epsilon=1.0, delta=1e-6, threshold=500)
        ours = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"ours": ours, "exact": exact, "peak": peak}))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=float, default=3e6)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--one", nargs=3)
    options = parser.parse_args()
    if options.one:
        one(*options.one[:2], Path(options.one[2]))
        return
    print("| source | columns | ours | exact rollup | MB |\n| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        written(Path(folder), int(options.rows))
        for of in COLUMNS:
            for kind in SOURCES:
                call = [sys.executable, "-m", "tests.benchmarks.sources", "--one", kind, of, folder]
                runs = []
                for _ in range(options.runs):
                    out = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=True)
                    runs.append(json.loads(out.stdout))
                ours, exact = (min(run[name] for run in runs) for name in ("ours", "exact"))
                peak = min(run["peak"] for run in runs)
                print(f"| {kind} | {of} | {ours:.2f} s | {exact:.2f} s | {peak:.0f} |", flush=True)


if __name__ == "__main__":
    main()
