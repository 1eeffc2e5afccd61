"""Time and peak memory of a median at every node, beside those of count and sum.

Run with ``python -m tests.benchmarks.quantile_speed [--pairs 5]``. Both are ``dp.rollup`` by
record, of 1e7 rows in a Parquet file, with three columns of whole numbers, 20 by 50 by 100, and
amounts in 64 bins; at a threshold that shows some 1,000 nodes, and at the smallest, which shows
most of all 101,021. Every measurement is a process of its own, which makes one call that is not
counted.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import dpframe as dp
from tests.benchmarks import bench
from tests.benchmarks.bench import BUDGET, Figures

ROWS = """
SELECT (hash(i) % 20)::INTEGER AS a, (hash(i + 1000000007) % 50)::INTEGER AS b,
    (hash(3 * i + 11) % 100)::INTEGER AS c,
    round(40 * exp(sqrt(-2 * ln((hash(7 * i + 5) % 1000003 + 1) / 1000004.0))
    * cos(2 * pi() * (hash(13 * i + 3) % 1000003) / 1000003.0)), 2) AS amount
FROM range(10000000) AS rows(i)"""

SIDES = {"count and sum": ["count", "sum(amount, 0, 500)"], "median": ["median(amount, 1, 500)"]}


def measure(side: str, file: str, threshold: int) -> Figures:
    budget: dict[str, Any] = {**BUDGET, "threshold": threshold or None}
    dp.rollup(file, [*"abc"], SIDES[side], **budget)
    return bench.timed(lambda: dp.rollup(file, [*"abc"], SIDES[side], **budget))


def main() -> None:
    given = bench.options(pairs=5)
    bench.compared_head()
    with tempfile.TemporaryDirectory() as folder:
        file = str(bench.write_rows(ROWS, Path(folder, "rows.parquet")))
        for threshold in (5_000, 0):
            sides = {side: (measure, side, file, threshold) for side in SIDES}
            runs = bench.in_turns(sides, given.pairs, uncounted=0)
            name = f"threshold {threshold:,}" if threshold else "smallest threshold"
            bench.compared(name, runs, "count and sum")


if __name__ == "__main__":
    main()
