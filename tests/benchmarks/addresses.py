"""Time and peak memory of ``dp.hhh`` on addresses that are text, beside the same addresses as four
whole numbers and DuckDB's own exact rollup of the split texts.

Run with ``python -m tests.benchmarks.addresses [--rows 1e7] [--pairs 5] [--only ip,ip4]``. Every
measurement is a fresh process; the sides take turns, and ratios are those of one turn. All read
Parquet, keep what reaches the threshold of 500, return a pandas frame, and are timed after their
imports and a call on a tiny file. IPv4 texts are those of ``peers_workload.sql``: 1e7 rows have
4.5e6 different ones. IPv6 texts are a million different ones, in as many rows, or in all.
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
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
THRESHOLD = 500

SIDES = {
    "rollup": "DuckDB, exact rollup of the split texts",
    "ip": "ip:x",
    "ip4": "ip:x?version=4",
    "numbers": "four whole-number columns",
    "six": "IPv6, a million different in all rows",
    "six once": "IPv6, a million rows, all different",
}

SPLIT = ", ".join(f"split_part(x, '.', {i + 1}) AS {name}" for i, name in enumerate("abcd"))

SIX = """
    SELECT format(
        '2001:{:x}:{:x}:{:x}:{:x}:{:x}:{:x}:{:x}', hash(id, 1) % 16, hash(id, 2) % 256,
        hash(id + 1) % 65536, hash(id + 2) % 65536, hash(id + 3) % 65536, hash(id + 4) % 65536,
        hash(id + 5) % 65536
    ) AS x
    FROM (SELECT ((i * 7919 + 13) % 1000000)::BIGINT AS id FROM range($rows) t(i))
"""


def workloads(rows: int, folder: Path) -> None:
    import duckdb

    text = Path(__file__).with_name("peers_workload.sql").read_text("utf-8")
    four = f"({text.replace('$rows', str(rows))})"
    dotted = "a || '.' || b || '.' || c || '.' || d"
    queries = {
        "ip": f"SELECT {dotted} AS x FROM {four}",
        "numbers": f"SELECT a, b, c, d FROM {four}",
        "six": SIX.replace("$rows", str(rows)),
        "six once": SIX.replace("$rows", "1000000"),
    }
    for name, query in queries.items():
        duckdb.sql(f"COPY ({query}) TO '{folder / name}.parquet' (FORMAT parquet)")
        tiny = f"FROM '{folder / name}.parquet' LIMIT 1000"
        duckdb.sql(f"COPY ({tiny}) TO '{folder / name} tiny.parquet' (FORMAT parquet)")


def measure(side: str, folder: Path) -> None:
    """One call in this process, after a tiny one."""
    stem = side if side.startswith("six") or side == "numbers" else "ip"

    def exact(path: str) -> object:
        query = (
            f"SELECT a, b, c, d, count(*) AS n FROM (SELECT {SPLIT} FROM '{path}') "
            f"GROUP BY ROLLUP (a, b, c, d) HAVING count(*) >= {THRESHOLD}"
        )
        return duckdb.sql(query).df()

    def ours(path: str) -> object:
        kind = {"ip4": "ip:x?version=4", "numbers": ["a", "b", "c", "d"]}.get(side, "ip:x")
        return dp.hhh(path, kind, epsilon=1.0, delta=1e-6, threshold=THRESHOLD)

    if side == "rollup":
        import duckdb

        call = exact
    else:
        import dpframe as dp

        call = ours
    call(f"{folder / stem} tiny.parquet")
    start, worked = time.perf_counter(), time.process_time()
    call(f"{folder / stem}.parquet")
    figures = {"seconds": time.perf_counter() - start, "cpu": time.process_time() - worked}
    figures["mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(figures))


def compare(folder: Path, sides: list[str], pairs: int) -> None:
    found: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    for turn in range(pairs + 1):  # the first one warms the cache of files and is not counted
        for side in sides:
            call = [sys.executable, "-m", "tests.benchmarks.addresses", "--one", side, str(folder)]
            out = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=True)
            if turn:
                found[side].append(json.loads(out.stdout))
    for side, runs in found.items():
        seconds, cpu, mb = ([run[what] for run in runs] for what in ("seconds", "cpu", "mb"))
        print(
            f"{SIDES[side]:40} {statistics.median(seconds):6.2f} s "
            f"({min(seconds):.2f} to {max(seconds):.2f}), of processors "
            f"{statistics.median(cpu):.2f} s, {statistics.median(mb):.0f} MB"
        )
        for other in ("rollup", "numbers", "ip"):
            if other in found and not {side, other} <= {"rollup", "numbers"} and side != other:
                _ratio(side, runs, other, found[other])


def _ratio(
    side: str, runs: list[dict[str, float]], other: str, others: list[dict[str, float]]
) -> None:
    both = [
        [a[what] / b[what] for a, b in zip(runs, others, strict=True)]
        for what in ("seconds", "cpu", "mb")
    ]
    time_, cpu, mb = (statistics.median(ratios) for ratios in both)
    print(
        f"    of {SIDES[other]:38} {time_:.2f} time ({min(both[0]):.2f} to {max(both[0]):.2f}), "
        f"{cpu:.2f} of processors, {mb:.2f} memory"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=float, default=1e7)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--only", default=",".join(SIDES), help="sides, with commas between")
    parser.add_argument("--one", nargs=2, metavar=("SIDE", "FOLDER"))
    options = parser.parse_args()
    if options.one:
        measure(options.one[0], Path(options.one[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        workloads(int(options.rows), Path(folder))
        compare(Path(folder), options.only.split(","), options.pairs)


if __name__ == "__main__":
    main()
