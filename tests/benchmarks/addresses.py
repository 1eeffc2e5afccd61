"""Time and peak memory of ``dp.hhh`` on addresses that are text, beside the same addresses as four
whole numbers and DuckDB's own exact rollup of the split texts.

Run with ``python -m tests.benchmarks.addresses [--rows 1e7] [--pairs 5] [--only ip,ip4]``. Every
measurement is a fresh process; the sides take turns, and ratios are those of one turn. All read
Parquet, keep what reaches the threshold of 500, return a pandas frame, and are timed after their
imports and a call on a tiny file. IPv4 texts are those of ``peers_workload.sql``: 1e7 rows have
4.5e6 different ones. IPv6 texts are a million different ones, in as many rows, or in all.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from tests.benchmarks import bench
from tests.benchmarks.bench import BUDGET, LEVELS, SPLIT, Figures

THRESHOLD = 500

SIDES: dict[str, tuple[str, Any]] = {
    "rollup": ("ip", None),
    "ip": ("ip", "ip:x"),
    "ip4": ("ip", "ip:x?version=4"),
    "numbers": ("numbers", LEVELS),
    "six": ("six", "ip:x"),
    "six once": ("six once", "ip:x"),
}
"""What each side reads, and what it asks; DuckDB's exact rollup asks nothing of us."""

SIX = """
    SELECT format(
        '2001:{:x}:{:x}:{:x}:{:x}:{:x}:{:x}:{:x}', hash(id, 1) % 16, hash(id, 2) % 256,
        hash(id + 1) % 65536, hash(id + 2) % 65536, hash(id + 3) % 65536, hash(id + 4) % 65536,
        hash(id + 5) % 65536
    ) AS x
    FROM (SELECT ((i * 7919 + 13) % 1000000)::BIGINT AS id FROM range($rows) t(i))
"""


def write_workloads(rows: int, folder: Path) -> None:
    queries = {
        "ip": f"SELECT a || '.' || b || '.' || c || '.' || d AS x FROM ({bench.workload(rows)})",
        "numbers": f"SELECT a, b, c, d FROM ({bench.workload(rows)})",
        "six": SIX.replace("$rows", str(rows)),
        "six once": SIX.replace("$rows", "1000000"),
    }
    for name, query in queries.items():
        file = bench.write_rows(query, folder / f"{name}.parquet")
        bench.write_rows(f"FROM '{file}' LIMIT 1000", folder / f"{name} tiny.parquet")


def measure(side: str, folder: str) -> Figures:
    """One call in this process, after a tiny one."""
    stem, kind = SIDES[side]
    if kind is None:
        import duckdb

        def ask(path: str) -> Any:
            rows = f"(SELECT {SPLIT.format('x')} FROM '{path}')"
            return duckdb.sql(bench.exact_rollup(rows, THRESHOLD)).df()
    else:
        import dpframe as dp

        def ask(path: str) -> Any:
            return dp.hhh(path, kind, threshold=THRESHOLD, **BUDGET)

    ask(f"{folder}/{stem} tiny.parquet")
    return bench.timed(lambda: ask(f"{folder}/{stem}.parquet"))


def main() -> None:
    given = bench.options(rows=10_000_000, pairs=5, only=",".join(SIDES))
    with tempfile.TemporaryDirectory() as folder:
        write_workloads(given.rows, Path(folder))
        sides = {side: (measure, side, folder) for side in given.only.split(",")}
        runs = bench.in_turns(sides, given.pairs)
    for base in ("rollup", "numbers", "ip"):
        if base in runs:
            print(f"\nbeside {base}\n")
            bench.compared_head()
            bench.compared(f"{given.rows:.0e} rows", runs, base)


if __name__ == "__main__":
    main()
