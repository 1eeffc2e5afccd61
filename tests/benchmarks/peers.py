"""The same rollup by what people use today: time, peak memory and error, beside ``dp.hhh``.

Run with ``python -m tests.benchmarks.peers [--rows 1e7] [--runs 3] [--python PATH] [--tools A,B]``;
PATH is a Python with ``pip install 'opendp[polars]' python-dp pandas pyarrow duckdb`` (OpenDP wants
its own Polars). Each tool reads the four columns of ``peers_workload.sql``, one record a unit, and
returns the nodes of four levels whose noisy count reaches 500, for epsilon 1 and delta 1e-6 over
all levels, keys unknown. Tools without a hierarchy split both over the levels. Every run is a
process of its own; times are those of the job after imports, memory is the peak of the process.
"""

from __future__ import annotations

import math
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.benchmarks import bench
from tests.benchmarks.bench import BUDGET, LEVELS, Figures

EPSILON, DELTA, THRESHOLD = 1.0, 1e-6, 500
LEAST = 1 + len(LEVELS) / EPSILON * math.log(len(LEVELS) / (2 * DELTA))
"""Of a noisy count of a level, by hand: keys are unknown."""

Found = list[tuple[int, Any]]
"""How many nodes are shown, of each level or of all, and their mean error if it is known."""


def dpframe(file: str) -> Found:
    import dpframe as dp

    return [(len(dp.hhh(file, LEVELS, threshold=THRESHOLD, **BUDGET)), None)]


def duckdb_exact(file: str) -> Found:
    import duckdb

    return [(len(duckdb.sql(bench.exact_rollup(f"'{file}'", THRESHOLD)).df()), None)]


def numpy_by_hand(file: str) -> Found:
    """Counts of packed keys, floating-point Laplace noise: not private, as such noise tells."""
    import numpy as np
    import pyarrow.parquet as pq

    table = pq.read_table(file, columns=LEVELS)
    key = np.zeros(table.num_rows, np.uint32)
    for name in LEVELS:
        key = key << 8 | table[name].to_numpy().astype(np.uint32)
    generator, scale = np.random.default_rng(), len(LEVELS) / EPSILON
    keys, counts = np.unique(key, return_counts=True)
    found = []
    for level in range(len(LEVELS), 0, -1):
        above = keys >> (8 * (len(LEVELS) - level))
        starts = np.flatnonzero(np.diff(above, prepend=above[0] + 1))
        true = np.add.reduceat(counts, starts)
        noisy = true + generator.laplace(0, scale, len(true))
        shown = noisy >= max(LEAST, THRESHOLD)
        error = float(np.abs(noisy - true)[shown].sum() / max(1, shown.sum()))
        found.append((int(shown.sum()), error))
    return found


def pydp(file: str) -> Found:
    """Groups by pandas, PyDP's Laplace noise, a call a key, and the threshold by hand."""
    import pandas as pd
    from pydp.algorithms.numerical_mechanisms import LaplaceMechanism

    frame = pd.read_parquet(file, columns=LEVELS)
    noise = LaplaceMechanism(EPSILON / len(LEVELS))
    found = []
    for level in range(len(LEVELS), 0, -1):
        counts = frame.groupby(LEVELS[:level]).size().tolist()
        noisy = [(noise.add_noise(n), n) for n in counts]
        shown = [abs(a - b) for a, b in noisy if a >= max(LEAST, THRESHOLD)]
        found.append((len(shown), statistics.mean(shown or [0])))
    return found


def opendp(file: str) -> Found:
    import opendp.prelude as odp
    import polars as pl

    odp.enable_features("contrib")
    found = []
    for level in range(len(LEVELS), 0, -1):
        frame = pl.scan_parquet(file).select(LEVELS)
        context = odp.Context.compositor(
            data=frame,
            privacy_unit=odp.unit_of(contributions=1),
            privacy_loss=odp.loss_of(epsilon=EPSILON / len(LEVELS), delta=DELTA / len(LEVELS)),
            split_evenly_over=1,
            margins=[odp.polars.Margin(max_length=2**31)],
        )
        noisy = context.query().group_by(LEVELS[:level]).agg(odp.len()).release().collect()
        found.append((int((noisy["len"] >= THRESHOLD).sum()), None))
    return found


TOOLS = {
    "dpframe": dpframe,
    "DuckDB": duckdb_exact,
    "numpy": numpy_by_hand,
    "PyDP": pydp,
    "OpenDP": opendp,
}
ELSEWHERE = ("PyDP", "OpenDP")


def measure(tool: str, file: str, tiny: str) -> Figures:
    TOOLS[tool](tiny)
    found: Found = []
    figures = bench.timed(lambda: found.extend(TOOLS[tool](file)))
    errors = [error for _, error in found if error is not None]
    return {**figures, "shown": sum(number for number, _ in found), "errors": errors}


def main() -> None:
    given = bench.options(rows=10_000_000, runs=3, python=sys.executable, tools=",".join(TOOLS))
    with tempfile.TemporaryDirectory() as folder:
        file = bench.write_rows(bench.workload(given.rows), Path(folder, "rows.parquet"))
        tiny = bench.write_rows(bench.workload(100_000), Path(folder, "tiny.parquet"))
        bench.head("tool", "seconds", "MB", "nodes shown", "mean error")
        for tool in given.tools.split(","):
            python = given.python if tool in ELSEWHERE else sys.executable
            runs = [
                bench.alone(measure, tool, file, tiny, python=python) for _ in range(given.runs)
            ]
            errors = [error for run in runs for error in run["errors"]]
            cells = (f"{bench.middle(runs, 'seconds'):.3g}", f"{bench.middle(runs, 'mb'):.0f}")
            shown, error = (
                bench.middle(runs, "shown"),
                f"{statistics.mean(errors or [math.nan]):.2g}",
            )
            bench.row(tool, *cells, f"{shown:.0f}", error if errors else "")


if __name__ == "__main__":
    main()
