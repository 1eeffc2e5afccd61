"""Time and peak memory of ``dp.hhh`` and ``dp.tree_counts`` beside DuckDB's own exact rollup of the
same levels.

Run with ``python -m tests.benchmarks.speed [--rows 3e7] [--pairs 5] [--only hhh|tree|small]``.
Every measurement is a fresh process (its peak memory is the operating system's figure), the two
kinds take turns, and ratios are taken pair by pair. Both read the same file, both return only what
reaches the threshold, as a pandas frame, and both are timed after their imports and a call on a
tiny file. Without a threshold ("all") the reference is the whole rollup, and ours the default
release.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "data"
LEVELS = ["a", "b", "c", "d"]
IP_LEVELS = """
    SELECT split_part(ip, '.', 1) AS a, split_part(ip, '.', 2) AS b, split_part(ip, '.', 3) AS c,
    split_part(ip, '.', 4) AS d FROM read_parquet('{file}') WHERE family = 4
"""


def workload(rows: int, file: Path) -> None:
    import duckdb

    text = Path(__file__).with_name("peers_workload.sql").read_text("utf-8")
    query = text.replace("$rows", str(rows))
    duckdb.sql(f"COPY ({query}) TO '{file}' (FORMAT parquet)")


def measure_ours(file: str, hierarchy: str, threshold: int | None, tiny: str) -> None:
    import dpframe as dp

    kind: object = LEVELS if hierarchy == "columns" else hierarchy
    dp.hhh(tiny, kind, epsilon=1.0, delta=1e-6, threshold=threshold)
    start = time.perf_counter()
    result = dp.hhh(file, kind, epsilon=1.0, delta=1e-6, threshold=threshold)
    _print(time.perf_counter() - start, len(result))


def measure_tree(file: str, hierarchy: str, threshold: int | None, tiny: str) -> None:
    import dpframe as dp

    kind: object = LEVELS if hierarchy == "columns" else hierarchy
    dp.tree_counts(tiny, kind, epsilon=1.0, delta=1e-6, threshold=threshold)
    start = time.perf_counter()
    result = dp.tree_counts(file, kind, epsilon=1.0, delta=1e-6, threshold=threshold)
    _print(time.perf_counter() - start, len(result))


def measure_rollup(file: str, hierarchy: str, threshold: int | None, tiny: str) -> None:
    import duckdb

    def query(path: str) -> str:
        if hierarchy == "columns":
            text = Path(__file__).with_name("exact_rollup.sql").read_text("utf-8")
            return text.replace("$file", f"'{path}'").replace("$threshold", str(threshold or 1))
        return (
            f"SELECT a, b, c, d, count(*) AS n FROM ({IP_LEVELS.format(file=path)}) "
            f"GROUP BY ROLLUP (a, b, c, d) HAVING count(*) >= {threshold or 1}"
        )

    connection = duckdb.connect()
    if limit := os.environ.get("DPFRAME_MEMORY_LIMIT"):
        connection.execute(f"SET memory_limit = '{limit}'")
    connection.sql(query(tiny)).df()
    start = time.perf_counter()
    result = connection.sql(query(file)).df()
    _print(time.perf_counter() - start, len(result))


def _print(seconds: float, rows: int) -> None:
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "peak_mb": peak, "rows": rows}))


def compare(
    title: str,
    file: Path,
    hierarchy: str,
    threshold: int | None,
    tiny: Path,
    pairs: int,
    ours: str = "hhh",
) -> None:
    figures: dict[str, list[dict[str, float]]] = {ours: [], "rollup": []}
    for turn in range(pairs + 1):  # the first pair warms the file cache and is not counted
        for kind in ("rollup", ours):
            call = [sys.executable, "-m", "tests.benchmarks.speed", "--one", kind]
            call += [str(file), hierarchy, str(threshold or 0), str(tiny)]
            out = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=True)
            if turn:
                figures[kind].append(json.loads(out.stdout))
    both = list(zip(figures[ours], figures["rollup"], strict=True))
    times = [a["seconds"] / b["seconds"] for a, b in both]
    peaks = [a["peak_mb"] / b["peak_mb"] for a, b in both]
    for kind, runs in figures.items():
        seconds = [r["seconds"] for r in runs]
        peak = statistics.median(r["peak_mb"] for r in runs)
        print(
            f"{title:44} {kind:7} {statistics.median(seconds):6.2f} s "
            f"({min(seconds):.2f} to {max(seconds):.2f}), {peak:6.0f} MB, {runs[0]['rows']} rows"
        )
    print(
        f"{title:44} ratio   {statistics.median(times):6.2f} time "
        f"({min(times):.2f} to {max(times):.2f}), {statistics.median(peaks):.2f} memory"
    )


def small_frames() -> None:
    """First and later calls on 10,000 rows, each first call in a fresh process."""
    code = """
import time, json, sys
start = time.perf_counter()
import pandas as pd
loaded = time.perf_counter()
import dpframe as dp
times = [1000 * (loaded - start), 1000 * (time.perf_counter() - loaded)]
df = pd.DataFrame({"src": [f"10.{i % 7}.0.{i % 200}" for i in range(10_000)],
                   "a": [f"x{i % 5}" for i in range(10_000)], "b": [i % 50 for i in range(10_000)]})
question, kind, given = json.loads(sys.argv[1])
for _ in range(12):
    start = time.perf_counter()
    getattr(df.dp, question)(kind, **given, epsilon=1.0, delta=1e-6)
    times.append(1000 * (time.perf_counter() - start))
print(json.dumps(times))
"""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    both = ["a", "b"]
    asked: list[tuple[str, object, dict[str, object]]] = [
        *(("hhh", kind, {}) for kind in (both, "ip:src?version=4", "ip:src")),
        ("tree_counts", both, {}),
        ("rollup", both, {"measures": {"n": "count"}}),
    ]
    for each in asked:
        runs = []
        for _ in range(6):
            out = subprocess.run(
                [sys.executable, "-c", code, json.dumps(each)],
                capture_output=True,
                text=True,
                check=True,
                cwd=ROOT,
                env=environment,
            )
            runs.append(json.loads(out.stdout))
        pandas, ours, first = (statistics.median(r[i] for r in runs[1:]) for i in (0, 1, 2))
        later = statistics.median(t for r in runs[1:] for t in r[3:])
        print(
            f"10,000 rows, {each[0]:11} {each[1]!s:20} imports {pandas:4.0f} (pandas) and "
            f"{ours:4.0f} ms, first call {first:4.0f} ms, later {later:5.1f} ms"
        )


def noise_sampling() -> None:
    """What drawing costs when the band holds 100,000 nodes."""
    import numpy as np

    from dpframe.budget import Budget, PrivacyUnit
    from dpframe.hierarchy import as_hierarchy
    from dpframe.questions.hhh.plan import make_plan

    plan = make_plan(
        hierarchy=as_hierarchy(LEVELS), unit=PrivacyUnit(), budget=Budget(epsilon=1.0, delta=1e-6)
    )
    for n in (100_000, 1_000_000):
        start = time.perf_counter()
        plan.test_noise.draw(n)
        plan.count_noise.draw(n)
        taken = 1000 * (time.perf_counter() - start)
        print(f"noise for {n:,} nodes (one test, one release each): {taken:.0f} ms")
    assert np.abs(plan.count_noise.draw(10)).max() <= plan.count_noise.highest


def imports() -> None:
    code = "import time; t = time.perf_counter(); import dpframe; print(time.perf_counter() - t)"
    times = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout)
        for _ in range(7)
    ]
    print(f"import dpframe: {statistics.median(times):.3f} s")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=float, default=3e7)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--only", choices=("hhh", "tree", "small"))
    parser.add_argument("--one", nargs=5, metavar=("KIND", "FILE", "HIERARCHY", "TAU", "TINY"))
    options = parser.parse_args()
    if options.one:
        kind, file, hierarchy, threshold, tiny = options.one
        run = {"hhh": measure_ours, "tree": measure_tree, "rollup": measure_rollup}[kind]
        run(file, hierarchy, int(threshold) or None, tiny)
        return
    if options.only != "tree":
        imports()
        small_frames()
    if options.only == "small":
        return
    if options.only != "tree":
        noise_sampling()
    with tempfile.TemporaryDirectory() as folder:
        file, tiny = Path(folder, "rows.parquet"), Path(folder, "tiny.parquet")
        workload(int(options.rows), file)
        workload(1000, tiny)
        if options.only != "hhh":
            for threshold in (None, 500):
                title = f"tree counts, {options.rows:.0e} rows, {threshold or 'all'}"
                compare(title, file, "columns", threshold, tiny, options.pairs, "tree")
        if options.only == "tree":
            return
        compare(f"{options.rows:.0e} rows, all", file, "columns", None, tiny, options.pairs)
        for threshold in (500, 100, 30):
            title = f"{options.rows:.0e} rows, threshold {threshold}"
            compare(title, file, "columns", threshold, tiny, options.pairs)
        tor = SHARED / "tor_relays_daily.parquet"
        if tor.exists():
            ips = Path(folder, "tiny_ip.parquet")
            import duckdb

            duckdb.sql(f"COPY (FROM '{tor}' LIMIT 1000) TO '{ips}'")
            compare(
                "tor_relays_daily, ip, threshold 500",
                tor,
                "ip:ip?version=4",
                500,
                ips,
                options.pairs,
            )
        else:
            print("tor_relays_daily: skipped, the data set is not here")


if __name__ == "__main__":
    main()
