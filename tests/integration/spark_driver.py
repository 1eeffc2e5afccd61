"""A program on a Spark Connect session of its own: releases as JSON lines, then it is killed.

``python -m tests.integration.spark_driver LEDGER FILE``: the last release is charged, and the
process kills itself before its noise is drawn.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from typing import Any

import dpframe as dp
from dpframe.errors import DpframeError
from dpframe.partition_plan import PartitionPlan
from dpframe.plan import Plan
from dpframe.testing import seeded_noise

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
STREAM: dict[str, Any] = {**BUDGET, "mechanism": "streaming", "counters": 100, "threshold": 300}


def main(ledger: str, file: str) -> None:
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.remote("local[2]")
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
    say("views", [table.name for table in session.catalog.listTables()])
    try:
        dp.hhh(rows.selectExpr("raise_error(path) AS path"), "path:path", ledger=ledger, **BUDGET)
    except DpframeError as error:
        say("failed", str(error))

    def killed(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    Plan.run = PartitionPlan.run = killed  # type: ignore[assignment, method-assign]
    dp.hhh(rows, "path:path", ledger=ledger, release="killed", **BUDGET)


def shown(frame: Any) -> dict[str, list[object]]:
    """Of a frame whose ``upper`` is missing."""
    columns: dict[str, list[object]] = frame.drop(columns="upper").to_dict("list")
    return columns


def say(what: str, value: object) -> None:
    print(json.dumps([what, value]), flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1], sys.argv[2])
