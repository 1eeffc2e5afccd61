"""A program on a Spark Connect session with executors of its own: releases as JSON lines.

``python -m tests.integration.spark_driver LEDGER FILE MARKER``: in some releases executors are
killed. The last one is charged, and the process kills itself before its noise is drawn.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import dpframe as dp
from dpframe.errors import DpframeError
from dpframe.questions.hhh.offline import OfflinePlan
from dpframe.questions.hhh.sketch_plans import MergedStreamPlan
from dpframe.testing import seeded_noise

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
STREAM: dict[str, Any] = {**BUDGET, "mechanism": "streaming", "counters": 100, "threshold": 300}


def killing(marker: str, times: int) -> Any:

    def step(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with open(marker, "a+") as file:
            file.seek(0)
            if len(file.read()) < times:
                file.write("x")
                file.flush()
                process = os.getpid()
                while "CoarseGrainedExecutor" not in Path(f"/proc/{process}/cmdline").read_text():
                    process = int(
                        Path(f"/proc/{process}/stat").read_text().rsplit(")")[-1].split()[1]
                    )
                os.kill(process, signal.SIGKILL)
                time.sleep(60)
        yield from batches

    return step


def reading(marker: str) -> Any:
    """A source step that leaves a file when rows are read."""

    def step(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        Path(marker).touch()
        yield from batches

    return step


def main(ledger: str, file: str, marker: str) -> None:
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.remote("local-cluster[2,1,1024]")
        .config("spark.executor.memory", "512m")
        .config("spark.executorEnv.PYTHONPATH", os.environ["PYTHONPATH"])
        .config("spark.task.maxFailures", "2")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "3")
        .config("spark.sql.ansi.enabled", "false")
        .getOrCreate()
    )
    rows = session.read.parquet(file)
    say("connect", type(rows).__module__.startswith("pyspark.sql.connect"))
    with seeded_noise(1):
        say("offline", dp.hhh(rows, "path:path", threshold=100, **BUDGET).to_dict("list"))
    with seeded_noise(1):
        say("streaming", shown(dp.hhh(rows, "path:path", **STREAM)))

    unread = rows.select("path").mapInArrow(reading(f"{marker}-read"), "path string")
    for options in (BUDGET, STREAM):
        say(f"explained {len(options)}", str(dp.explain(unread, "path:path", **options)))
    try:
        dp.explain(unread, "path:pat", **BUDGET)
    except DpframeError as error:
        say("no column", str(error))

    def broken(times: int) -> Any:
        return rows.select("path").mapInArrow(killing(f"{marker}{times}", times), "path string")

    with seeded_noise(1):
        once = dp.hhh(broken(1), "path:path", threshold=100, ledger=ledger, **BUDGET)
    say("once", once.to_dict("list"))
    for options in (BUDGET, STREAM):
        try:
            dp.hhh(broken(100), "path:path", ledger=ledger, release="lost", **options)
        except DpframeError as error:
            say(f"always {len(options)}", str(error))
    say("views", [table.name for table in session.catalog.listTables()])

    def killed(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    OfflinePlan.run = MergedStreamPlan.run = killed  # type: ignore[assignment, method-assign]
    dp.hhh(rows, "path:path", ledger=ledger, release="killed", **BUDGET)


def shown(frame: Any) -> dict[str, list[object]]:
    columns: dict[str, list[object]] = frame.drop(columns="upper").to_dict("list")
    return columns


def say(what: str, value: object) -> None:
    print(json.dumps([what, value]), flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(*sys.argv[1:])
