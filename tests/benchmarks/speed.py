"""Time and peak memory of ``dp.hhh`` and ``dp.tree_counts`` beside DuckDB's own exact rollup of the
same levels.

Run with ``python -m tests.benchmarks.speed [--rows 3e7] [--pairs 5] [--only PART]``; a part is hhh,
tree, small or noise.
Every measurement is a fresh process (its peak memory is the operating system's figure), the two
kinds take turns, and ratios are taken pair by pair. Both read the same file, both return only what
reaches the threshold, as a pandas frame, and both are timed after their imports and a call on a
tiny file. Without a threshold ("all") the reference is the whole rollup, and ours the default
release.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

from tests.benchmarks import bench
from tests.benchmarks.bench import BUDGET, LEVELS, SHARED, SPLIT, Figures

IP = "ip:ip?version=4"


def ours(question: str, file: str, hierarchy: Any, threshold: int | None, tiny: str) -> Figures:
    import dpframe as dp

    def ask(source: str) -> Any:
        return getattr(dp, question)(source, hierarchy, threshold=threshold, **BUDGET)

    ask(tiny)
    return bench.timed(lambda: ask(file))


def rollup(file: str, hierarchy: Any, threshold: int | None, tiny: str) -> Figures:
    import duckdb

    def ask(source: str) -> Any:
        rows = f"'{source}'"
        if hierarchy == IP:
            rows = f"(SELECT {SPLIT.format('ip')} FROM {rows} WHERE family = 4)"
        return connection.sql(bench.exact_rollup(rows, threshold or 1)).df()

    connection = duckdb.connect()
    if limit := os.environ.get("DPFRAME_MEMORY_LIMIT"):
        connection.execute(f"SET memory_limit = '{limit}'")
    ask(tiny)
    return bench.timed(lambda: ask(file))


def compare(
    title: str,
    file: Path,
    tiny: Path,
    pairs: int,
    threshold: int | None,
    *,
    hierarchy: Any = LEVELS,
    question: str = "hhh",
) -> None:
    given = (file, hierarchy, threshold, tiny)
    sides = {"rollup": (rollup, *given)}
    sides[question] = (ours, question, *given)
    bench.compared(f"{title}, {threshold or 'all'}", bench.in_turns(sides, pairs), "rollup")


SMALL: tuple[tuple[str, Any, dict[str, Any]], ...] = (
    ("hhh", ["a", "b"], {}), ("hhh", "ip:src?version=4", {}), ("hhh", "ip:src", {}),
    ("tree_counts", ["a", "b"], {}), ("rollup", ["a", "b"], {"measures": {"n": "count"}}),
)  # fmt: skip


def small_frame(question: str, kind: Any, given: dict[str, Any]) -> Figures:
    """Milliseconds of the first call of a process, and of later ones."""
    import pandas as pd

    import dpframe  # noqa: F401

    n = range(10_000)
    texts = {"src": [f"10.{i % 7}.0.{i % 200}" for i in n], "a": [f"x{i % 5}" for i in n]}
    frame = pd.DataFrame({**texts, "b": [i % 50 for i in n]})

    def ask() -> Any:
        return getattr(frame.dp, question)(kind, **given, **BUDGET)

    times = [1000 * bench.timed(ask)["seconds"] for _ in range(12)]
    return {"first": times[0], "later": statistics.median(times[1:])}


def small_frames() -> None:
    sides = {f"{each[0]} {each[1]}": (small_frame, *each) for each in SMALL}
    for name, runs in bench.in_turns(sides, 5).items():
        first, later = (statistics.median(r[what] for r in runs) for what in ("first", "later"))
        print(f"10,000 rows, {name:25} first call {first:4.0f} ms, later {later:5.1f} ms")


DRAWS = 1_000_000
SCALES = (Fraction(1, 2), Fraction(3), Fraction(100), Fraction(10**6), Fraction(2**40, 7))


def noise_sampling() -> None:
    """What a draw costs: of the tables of a plan, and of noise without bounds; the best of five."""
    import dpframe as dp
    from dpframe.noise import UnboundedNoise

    plan = dp.explain(LEVELS, **BUDGET).plan
    laws: dict[str, Any] = {"test": plan.test_noise, "count": plan.count_noise}
    laws |= {f"without bounds, scale {scale}": UnboundedNoise(scale) for scale in SCALES}
    for name, law in laws.items():
        law.draw(1)
        taken = min(bench.timed(lambda law=law: law.draw(DRAWS))["seconds"] for _ in range(5))  # type: ignore[misc]
        print(f"noise, {name}: {taken / DRAWS * 1e9:.0f} ns a draw")


def imports() -> None:
    for beside in ("", "import pandas; "):
        code = f"{beside}import time; t = time.perf_counter(); import dpframe; "
        code += "print(time.perf_counter() - t)"
        times = [float(bench.printed([sys.executable, "-c", code])) for _ in range(7)]
        print(f"{beside}import dpframe: {statistics.median(times):.3f} s")


def main() -> None:
    given = bench.options(rows=30_000_000, pairs=5, only=("hhh", "tree", "small", "noise"))
    if given.only == "noise":
        noise_sampling()
        return
    if given.only != "tree":
        imports()
        small_frames()
        noise_sampling()
    if given.only == "small":
        return
    bench.compared_head()
    with tempfile.TemporaryDirectory() as folder:
        file = bench.write_rows(bench.workload(given.rows), Path(folder, "rows.parquet"))
        tiny = bench.write_rows(bench.workload(1000), Path(folder, "tiny.parquet"))
        jobs = [("tree_counts", None), ("tree_counts", 500)] if given.only != "hhh" else []
        if given.only != "tree":
            jobs += [("hhh", threshold) for threshold in (None, 500, 100, 30)]
        for question, threshold in jobs:
            title = f"{question}, {given.rows:.0e} rows"
            compare(title, file, tiny, given.pairs, threshold, question=question)
        if given.only != "tree" and (tor := SHARED / "tor_relays_daily.parquet").exists():
            few = bench.write_rows(f"FROM '{tor}' LIMIT 1000", Path(folder, "tiny_ip.parquet"))
            compare("tor_relays_daily, ip", tor, few, given.pairs, 500, hierarchy=IP)


if __name__ == "__main__":
    main()
