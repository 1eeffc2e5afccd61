"""Time of ``dp.hhh`` on Spark beside Spark's own exact ROLLUP of the same levels; driver memory.

Run with ``python -m tests.benchmarks.spark [--rows 1e7] [--turns 5] [--only time|memory|bytes]``,
on ``local[2]``. *time*: both read the same file in the same session, both return what reaches the
band, the two take turns and ratios are taken turn by turn. *memory*: the highest resident memory of
the Python driver during a release, for ten times as many distinct leaves. *bytes*: what Spark says
that it shuffled, beside what ``predicted`` computes (docs/spark.md).
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.benchmarks.speed import LEVELS, ROOT, workload

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}


def session(partitions: int) -> Any:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = str(ROOT)
    made = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "4g")
        .config("spark.sql.shuffle.partitions", str(partitions))
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.ui.port", "0")
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("OFF")
    return made


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def times(spark: Any, rows: int, file: Path, turns: int) -> None:
    import dpframe as dp

    frame = spark.read.parquet(str(file))
    frame.createOrReplaceTempView("rows")
    plan = dp.explain(LEVELS, **BUDGET).plan
    levels = ", ".join(LEVELS)
    rollup = (
        f"SELECT {levels}, count(*) AS n FROM rows GROUP BY ROLLUP ({levels}) "
        f"HAVING count(*) >= {plan.band}"
    )
    calls: dict[str, Callable[[], Any]] = {
        "rollup": lambda: spark.sql(rollup).toArrow(),
        "hhh": lambda: dp.hhh(frame, LEVELS, **BUDGET),
        "tree": lambda: dp.tree_counts(frame, LEVELS, **BUDGET),
    }
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(turns + 1):  # the first warms Java up, and is not counted
        for name, call in calls.items():
            taken, _ = timed(call)
            if turn:
                seconds[name].append(taken)
    for name, taken in seconds.items():
        ratios = [a / b for a, b in zip(taken, seconds["rollup"], strict=True)]
        print(
            f"{rows:.0e} rows {name:7} {statistics.median(taken):6.2f} s ({min(taken):.2f} to "
            f"{max(taken):.2f}), ratio {statistics.median(ratios):.2f} "
            f"({min(ratios):.2f} to {max(ratios):.2f})",
            flush=True,
        )


def memory(spark: Any) -> None:
    """Heavy nodes stay the same; leaves that occur once become ten times as many."""
    import dpframe as dp

    for leaves in (100_000, 1_000_000, 10_000_000):
        frame = spark.range(leaves + 50_000).selectExpr(
            "CASE WHEN id < 50000 THEN id % 7 ELSE 100 + id % 1000 END AS a",
            "CASE WHEN id < 50000 THEN id % 5 ELSE id END AS b",
        )
        dp.hhh(frame.limit(1000), ["a", "b"], threshold=5000, **BUDGET)
        before = resident(reset=True)
        taken, result = timed(lambda f=frame: dp.hhh(f, ["a", "b"], threshold=5000, **BUDGET))  # type: ignore[misc]
        print(
            f"{leaves:.0e} distinct leaves: {resident():4.0f} MB at most in the Python driver "
            f"({before:.0f} before), {len(result)} rows, {taken:.1f} s",
            flush=True,
        )


def resident(*, reset: bool = False) -> float:
    """The highest resident memory of this process in MB since the last reset; Linux only."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def predicted(rows: int, leaves: int, nodes: int, height: int, width: int, tasks: int) -> int:
    """Bytes that whole-number columns shuffle at most, before Spark compresses them.

    Rows of Spark take 8 bytes a field, 8 for NULLs and 4 for their length. The first shuffle holds
    the leaves of each of ``tasks`` tasks with a count, the second the nodes of each of as many
    tasks with their level.
    """
    first = min(rows, tasks * leaves) * (8 * (width + 1) + 12)
    second = min(leaves * (height + 1), tasks * nodes) * (8 * (width + 2) + 12)
    return first + second


def shuffled(spark: Any, rows: int, file: Path, tasks: int) -> None:
    import duckdb

    import dpframe as dp

    levels = ", ".join(LEVELS)
    (found,) = duckdb.sql(
        f"SELECT sum((d IS NOT NULL)::INT), count(*) FROM (SELECT {levels} FROM '{file}' "
        f"GROUP BY ROLLUP ({levels}))"
    ).fetchall()
    frame, before = spark.read.parquet(str(file)), metrics(spark)
    dp.hhh(frame, LEVELS, **BUDGET)
    written = metrics(spark) - before
    most = predicted(rows, found[0], found[1], len(LEVELS), len(LEVELS), tasks)
    print(
        f"{rows:.0e} rows, {found[0]} leaves, {found[1]} nodes: "
        f"{written / 1e6:.0f} MB shuffled, at most {most / 1e6:.0f} predicted",
        flush=True,
    )


def metrics(spark: Any) -> int:
    """Bytes shuffled since the session began, as Spark counts them."""
    store = spark.sparkContext._jsc.sc().statusStore()
    return int(store.executorList(True).apply(0).totalShuffleWrite())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=float, action="append")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--only", choices=["time", "memory", "bytes"])
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    spark = session(chosen.partitions)
    if chosen.only in (None, "time", "bytes"):
        with tempfile.TemporaryDirectory() as folder:
            for rows in chosen.rows or [1e6, 1e7]:
                file = Path(folder) / "rows.parquet"
                workload(int(rows), file)
                if chosen.only != "bytes":
                    times(spark, int(rows), file, chosen.turns)
                shuffled(spark, int(rows), file, chosen.partitions)
    if chosen.only in (None, "memory"):
        memory(spark)
    spark.stop()


if __name__ == "__main__":
    main()
