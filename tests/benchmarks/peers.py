"""The same rollup by what people use today: time, peak memory and error, beside ``dp.hhh``.

Run with ``python -m tests.benchmarks.peers [--rows 1e7] [--runs 3] [--python PATH]``, where PATH is
a Python with ``pip install 'opendp[polars]' python-dp pandas pyarrow duckdb`` (OpenDP wants its own
Polars). Each tool reads the four columns of ``peers_workload.sql``, one record a unit, and returns
the nodes of four levels whose noisy count reaches 500, for epsilon 1 and delta 1e-6 over all
levels, keys unknown. Tools without a hierarchy split both over the levels. Every run is a process
of its own; times are those of the job after imports, memory is the peak of the process.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.benchmarks.speed import LEVELS, ROOT, workload

EPSILON, DELTA, THRESHOLD = 1.0, 1e-6, 500

HERE = Path(__file__).resolve()


def dpframe(file: str) -> list[tuple[int, Any]]:
    import dpframe as dp

    found = dp.hhh(file, LEVELS, epsilon=EPSILON, delta=DELTA, threshold=THRESHOLD)
    return [(len(found), None)]


def duckdb_exact(file: str) -> list[tuple[int, Any]]:
    import duckdb

    text = HERE.with_name("exact_rollup.sql").read_text("utf-8")
    query = text.replace("$file", f"'{file}'").replace("$threshold", str(THRESHOLD))
    return [(len(duckdb.sql(query).df()), None)]


def numpy_by_hand(file: str) -> list[tuple[int, Any]]:
    """Counts of packed keys, floating-point Laplace noise: not private, as such noise tells."""
    import numpy as np
    import pyarrow.parquet as pq

    table = pq.read_table(file, columns=LEVELS)
    key = np.zeros(table.num_rows, np.uint32)
    for name in LEVELS:
        key = key << 8 | table[name].to_numpy().astype(np.uint32)
    generator, scale = np.random.default_rng(), len(LEVELS) / EPSILON
    least = 1 + scale * math.log(len(LEVELS) / (2 * DELTA))
    keys, counts = np.unique(key, return_counts=True)
    found = []
    for level in range(len(LEVELS), 0, -1):
        above = keys >> (8 * (len(LEVELS) - level))
        starts = np.flatnonzero(np.diff(above, prepend=above[0] + 1))
        true = np.add.reduceat(counts, starts)
        noisy = true + generator.laplace(0, scale, len(true))
        shown = noisy >= max(least, THRESHOLD)
        found.append(
            (int(shown.sum()), float(np.abs(noisy - true)[shown].sum() / max(1, shown.sum())))
        )
    return found


def pydp(file: str) -> list[tuple[int, Any]]:
    """Groups by pandas, PyDP's Laplace noise, a call a key, and the threshold by hand."""
    import pandas as pd
    from pydp.algorithms.numerical_mechanisms import LaplaceMechanism

    frame = pd.read_parquet(file, columns=LEVELS)
    least = 1 + len(LEVELS) / EPSILON * math.log(len(LEVELS) / (2 * DELTA))
    noise = LaplaceMechanism(EPSILON / len(LEVELS))
    found = []
    for level in range(len(LEVELS), 0, -1):
        counts = frame.groupby(LEVELS[:level]).size().tolist()
        noisy = [(noise.add_noise(n), n) for n in counts]
        shown = [abs(a - b) for a, b in noisy if a >= max(least, THRESHOLD)]
        found.append((len(shown), statistics.mean(shown or [0])))
    return found


def opendp(file: str) -> list[tuple[int, Any]]:
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
    "DuckDB, exact (not private)": duckdb_exact,
    "numpy by hand (not private)": numpy_by_hand,
    "PyDP": pydp,
    "OpenDP": opendp,
}
ELSEWHERE = ("PyDP", "OpenDP")


def one(tool: str, file: str, tiny: str) -> None:
    import resource

    TOOLS[tool](tiny)
    start = time.perf_counter()
    found = TOOLS[tool](file)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    errors = [error for _, error in found if error is not None]
    shown = sum(number for number, _ in found)
    print(json.dumps({"seconds": seconds, "peak_mb": peak, "shown": shown, "errors": errors}))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=float, default=1e7)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--tools", nargs="*", default=list(TOOLS))
    parser.add_argument("--one", nargs=3)
    options = parser.parse_args()
    if options.one:
        one(*options.one)
        return
    with tempfile.TemporaryDirectory() as folder:
        file, tiny = Path(folder, "rows.parquet"), Path(folder, "tiny.parquet")
        workload(int(options.rows), file)
        workload(100_000, tiny)
        print(f"{options.rows:.0e} rows\n| tool | seconds | MB | nodes shown | mean error |")
        for tool in options.tools:
            python = options.python if tool in ELSEWHERE else sys.executable
            call = [python, "-m", "tests.benchmarks.peers", "--one", tool, str(file), str(tiny)]
            runs = []
            for _ in range(options.runs):
                out = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=True)
                runs.append(json.loads(out.stdout.splitlines()[-1]))
            seconds = statistics.median(run["seconds"] for run in runs)
            peak = statistics.median(run["peak_mb"] for run in runs)
            shown = statistics.median(run["shown"] for run in runs)
            errors = [error for run in runs for error in run["errors"]]
            error = f"{statistics.mean(errors):.2g}" if errors else ""
            print(f"| {tool} | {seconds:.3g} | {peak:.0f} | {shown:.0f} | {error} |", flush=True)


if __name__ == "__main__":
    main()
