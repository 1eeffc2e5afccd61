"""The same rows from each kind of source: ``dp.hhh`` beside DuckDB's exact rollup of that source.

Run with ``python -m tests.benchmarks.sources [--rows 3e6] [--runs 3]``: four whole-number columns,
and two of text (800 and 40 values), threshold 500. Every source is a process of its own, in which
both take turns three times; the last turn counts, and the least of the runs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.benchmarks import bench
from tests.benchmarks.bench import BUDGET, LEVELS, Figures

SOURCES = ("Parquet", "DuckDB table", "Arrow", "Polars", "pandas", "CSV", "CSV, types")
COLUMNS = {"numbers": LEVELS, "texts": ["country", "product"]}
TEXTS = "'c' || (a % 40) AS country, 'product-' || b % 20 || '-' || c % 40 AS product"


def write_sources(folder: Path, rows: int) -> None:
    import duckdb

    raw = bench.write_rows(bench.workload(rows), folder / "raw.parquet")
    with duckdb.connect(str(folder / "rows.db")) as con:
        con.execute(f"CREATE TABLE rows AS SELECT a, b, c, d, {TEXTS} FROM '{raw}'")
        con.execute(f"COPY rows TO '{folder / 'rows.parquet'}'")
        con.execute(f"COPY rows TO '{folder / 'rows.csv'}' (HEADER)")


def opened(kind: str, folder: Path) -> tuple[object, Callable[[str], Any]]:
    """A source for us, and what runs a query of ``given`` on it."""
    import duckdb

    con = duckdb.connect(str(folder / "rows.db"))
    if kind == "DuckDB table":
        return con.table("rows"), lambda query: con.sql(query.format("rows")).df()
    if kind.startswith(("Parquet", "CSV")):
        import dpframe as dp

        file = str(folder / f"rows.{kind.split(',')[0].lower()}")
        declared = dp.csv_file(file, types=dict.fromkeys(LEVELS, "BIGINT")) if "," in kind else file
        return declared, lambda query: con.sql(query.format(f"'{file}'")).df()
    frame: Any = con.sql("FROM rows")
    frame = {"Arrow": frame.to_arrow_table, "Polars": frame.pl, "pandas": frame.df}[kind]()
    con.register("given", frame)
    return frame, lambda query: con.sql(query.format("given")).df()


def measure(kind: str, of: str, folder: str) -> Figures:
    """The last of three turns."""
    import dpframe as dp

    source, run = opened(kind, Path(folder))
    query = bench.exact_rollup("{}", 500, COLUMNS[of])
    for _ in range(3):
        exact = bench.timed(lambda: run(query))
        ours = bench.timed(lambda: dp.hhh(source, COLUMNS[of], threshold=500, **BUDGET))
    return {"ours": ours["seconds"], "exact": exact["seconds"], "mb": bench.peak()}


def main() -> None:
    given = bench.options(rows=3_000_000, runs=3)
    bench.head("source", "columns", "ours", "exact rollup", "MB")
    with tempfile.TemporaryDirectory() as folder:
        write_sources(Path(folder), given.rows)
        for of in COLUMNS:
            for kind in SOURCES:
                runs = [bench.alone(measure, kind, of, folder) for _ in range(given.runs)]
                ours, exact, mb = (min(r[what] for r in runs) for what in ("ours", "exact", "mb"))
                bench.row(kind, of, f"{ours:.2f} s", f"{exact:.2f} s", f"{mb:.0f}")


if __name__ == "__main__":
    main()
