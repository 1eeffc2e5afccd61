"""Time of ``dp.hhh`` on Spark beside Spark's own exact ROLLUP of the same levels; driver memory.

Run with ``python -m tests.benchmarks.spark [--rows 1e6,1e7] [--turns 5] [--leaves 1e7]
[--only time|users|memory|bytes]``, on ``local[2]``.
*time*: both read the same file in the same session, both return what reaches the band, the two
take turns and ratios are taken turn by turn. *users*: the questions of
:mod:`tests.benchmarks.users`, each beside Spark's exact ROLLUP with the same numbers, once from
1e8 rows on. *memory*: the highest resident memory of the Python driver during a release, for ten
times as many distinct leaves. *bytes*: what Spark says that it shuffled, beside what ``predicted``
computes (docs/warehouses.md).
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.benchmarks import bench, users
from tests.benchmarks.bench import BUDGET, LEVELS, ROOT

LARGE = 100_000_000
"""Rows from which on nothing is warmed up."""


def session(partitions: int) -> Any:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = str(ROOT)
    made = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "4g")
        .config("spark.driver.maxResultSize", "0")
        .config("spark.sql.shuffle.partitions", str(partitions))
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.ui.port", "0")
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("OFF")
    return made


def times(spark: Any, rows: int, file: Path, turns: int) -> None:
    import dpframe as dp

    frame = spark.read.parquet(str(file))
    frame.createOrReplaceTempView("rows")
    plan = dp.explain(LEVELS, **BUDGET).plan
    rollup = bench.exact_rollup("rows", plan.band)
    calls: dict[str, Callable[[], Any]] = {
        "rollup": lambda: spark.sql(rollup).toArrow(),
        "hhh": lambda: dp.hhh(frame, LEVELS, **BUDGET),
        "tree": lambda: dp.tree_counts(frame, LEVELS, **BUDGET),
    }
    runs = bench.in_turns(calls, turns)
    bench.compared_head()
    bench.compared(f"{rows:.0e} rows", runs, "rollup")


def of_users(spark: Any, rows: int, folder: Path, turns: int) -> None:
    import dpframe as dp

    file = users.write_rows("whole", rows // 10, 0, rows, folder / "users.parquet")
    frame = spark.read.parquet(str(file))
    frame.createOrReplaceTempView("users")
    levels = ", ".join(users.BY)
    bench.compared_head()
    for name, (question, given, shown) in users.QUESTIONS.items():
        least = f"HAVING {shown.split(', ')[0]} >= {users.THRESHOLD}"
        exact = f"SELECT {levels}, {shown} FROM users GROUP BY ROLLUP ({levels}) {least}"
        asked = {"threshold": users.THRESHOLD, **given, **BUDGET}
        calls: dict[str, Callable[[], Any]] = {
            "exact": partial(lambda query: spark.sql(query).toArrow(), exact),
            "ours": partial(getattr(dp, question), frame, users.BY, **asked),
        }
        runs = bench.in_turns(calls, turns, uncounted=int(rows < LARGE))
        bench.compared(f"{name}, {rows:.0e} rows", runs, "exact")


def memory(spark: Any, most: int) -> None:
    """Heavy nodes stay the same; leaves that occur once become ten times as many."""
    import dpframe as dp

    for leaves in (most // 100, most // 10, most):
        frame = spark.range(leaves + 50_000).selectExpr(
            "CASE WHEN id < 50000 THEN id % 7 ELSE 100 + id % 1000 END AS a",
            "CASE WHEN id < 50000 THEN id % 5 ELSE id END AS b",
        )
        dp.hhh(frame.limit(1000), ["a", "b"], threshold=5000, **BUDGET)
        before = resident(reset=True)
        taken = bench.timed(partial(dp.hhh, frame, ["a", "b"], threshold=5000, **BUDGET))
        print(
            f"{leaves:.0e} distinct leaves: {resident():4.0f} MB at most in the Python driver "
            f"({before:.0f} before), {taken['rows']} rows, {taken['seconds']:.1f} s",
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
    only = ("time", "users", "memory", "bytes")
    given = bench.options(rows="1e6,1e7", turns=5, partitions=8, leaves=10_000_000, only=only)
    warnings.simplefilter("ignore")
    spark = session(given.partitions)
    if given.only == "users":
        with tempfile.TemporaryDirectory() as folder:
            for rows in (int(float(text)) for text in given.rows.split(",")):
                of_users(spark, rows, Path(folder), given.turns)
    elif given.only != "memory":
        with tempfile.TemporaryDirectory() as folder:
            for rows in (int(float(text)) for text in given.rows.split(",")):
                file = bench.write_rows(bench.workload(rows), Path(folder) / "rows.parquet")
                if given.only != "bytes":
                    times(spark, rows, file, given.turns)
                shuffled(spark, rows, file, given.partitions)
    if given.only in (None, "memory"):
        memory(spark, given.leaves)
    spark.stop()


if __name__ == "__main__":
    main()
