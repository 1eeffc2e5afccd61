"""``dp_hhh`` in SQL beside the accessor on the same rows, and ``dp.hhh`` on the same table.

Run with ``python -m tests.benchmarks.sql [--rows 1e7] [--pairs 7]``. They take turns in one
process, warm; ratios are taken turn by turn. ``accessor`` is ``df.dp.hhh`` on a pandas frame with
the table's rows, ``relation`` is ``dp.hhh`` on the table itself. ``sql to a table`` keeps the
result in DuckDB, ``sql to pandas`` fetches it as a frame. Peak memory is that of a process that
does only one, the table included. Another process writes the rows: a database that had done so in
this one would slow what follows by a tenth.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.benchmarks import bench
from tests.benchmarks.bench import BUDGET, LEVELS, Figures


def calls(
    con: Any, threshold: int | None, *, with_frame: bool = True
) -> dict[str, Callable[[], Any]]:
    import dpframe as dp

    limit = "" if threshold is None else f", threshold := {threshold}"
    statement = f"""
        SELECT * FROM dp_hhh('visits', 'columns:{",".join(LEVELS)}',
                             epsilon := 1.0, delta := 1e-6{limit})
    """
    table = f"CREATE OR REPLACE TEMP TABLE heavy AS {statement}"
    asked = {"threshold": threshold, **BUDGET}
    frame = con.table("visits").df() if with_frame else None
    return {
        "accessor": lambda: frame.dp.hhh(LEVELS, **asked),
        "relation": lambda: dp.hhh(con.table("visits"), LEVELS, **asked),
        "sql to a table": lambda: con.execute(table).fetchone()[0],
        "sql to pandas": lambda: con.sql(statement).df(),
    }


def connected(file: str) -> Any:
    import duckdb

    import dpframe as dp

    con = duckdb.connect()
    con.execute(f"CREATE TABLE visits AS FROM read_parquet('{file}')")
    dp.register(con)
    return con


def once(kind: str, file: str, threshold: int | None) -> Figures:
    return bench.timed(calls(connected(file), threshold, with_frame=kind == "accessor")[kind])


def write_workload(rows: int, file: str) -> None:
    bench.write_rows(bench.workload(rows), Path(file))


def main() -> None:
    given = bench.options(rows=10_000_000, pairs=7)
    bench.head("rows, threshold", "door", "seconds", "of the accessor", "MB")
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/rows.parquet"
        bench.alone(write_workload, given.rows, file)
        con = connected(file)
        for threshold in (None, 500):
            runs = bench.in_turns(calls(con, threshold), given.pairs)
            for door, each in runs.items():
                of = bench.spread(bench.ratios(each, runs["accessor"], "seconds"))
                mb = bench.alone(once, door, file, threshold)["mb"]
                seconds = bench.spread([run["seconds"] for run in each])
                bench.row(f"{given.rows:.0e}, {threshold}", door, seconds, of, f"{mb:.0f}")


if __name__ == "__main__":
    main()
