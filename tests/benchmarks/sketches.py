"""Updates a second of ``MisraGries`` beside Apache DataSketches and DuckDB, memory, and merging.

Run with ``python -m tests.benchmarks.sketches [--rows 1e7] [--turns 5]``. All read the same keys in
one process and take turns; the fastest and the median turn are printed. DataSketches
(``pip install datasketches``, left out if it is missing) takes one Python object at a time, in the
fastest loop that Python has, from a list that exists already; its map of 4096 entries has about
the error of 1000 counters. DuckDB uses all processors, the others one.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpframe.sketches import MisraGries, merge_raw_sketches
from tests.benchmarks.speed import ROOT, SHARED

COUNTERS = 1000
MAP_SIZE = 12
"""Base-2 logarithm of the entries of a DataSketches map: error 3.5 / 4096 of the stream."""


def heavy_tailed(rows: int, seed: int = 1) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Zipf keys of exponent 1.1: half of all rows have one of a thousand keys."""
    return np.random.default_rng(seed).zipf(1.1, rows).astype(np.int64)


def ours(keys: object) -> Callable[[], object]:
    return lambda: MisraGries(COUNTERS).update(keys)


def data_sketches(keys: list[Any], kind: str) -> Callable[[], object] | None:
    try:
        import datasketches
    except ImportError:
        return None

    def run() -> None:
        sketch = getattr(datasketches, kind)(MAP_SIZE)
        deque(map(sketch.update, keys), maxlen=0)

    return run


def duck(keys: pa.Array, statement: str) -> Callable[[], object]:
    con = duckdb.connect()
    con.register("arrow", pa.table({"key": keys}))
    con.execute("CREATE TABLE keys AS FROM arrow")
    return lambda: con.execute(statement).fetchall()


APPROXIMATE = f"SELECT approx_top_k(key, {COUNTERS}) FROM keys"
EXACT = "SELECT key, count(*) AS n FROM keys GROUP BY key ORDER BY n DESC LIMIT 1000"


def compare(
    title: str, rows: int, runs: dict[str, Callable[[], object] | None], turns: int
) -> None:
    present = {name: run for name, run in runs.items() if run}
    seconds: dict[str, list[float]] = {name: [] for name in present}
    for turn in range(turns + 1):  # the first turn compiles and warms up
        for name, run in present.items():
            if "approx" in name and turn > 2:
                continue
            start = time.perf_counter()
            run()
            if turn:
                seconds[name].append(time.perf_counter() - start)
    print(f"{title}, {rows:,} rows, {COUNTERS} counters: million updates a second")
    rates = {name: rows / min(s) / 1e6 for name, s in seconds.items()}
    base = rates.get("DataSketches")
    for name, rate in rates.items():
        middle = rows / statistics.median(seconds[name]) / 1e6
        ratio = f"{rate / base:8.1f} x DataSketches" if base else ""
        print(f"  {name:24} {rate:8.1f} (median {middle:.1f}){ratio}")


def speed(rows: int, turns: int) -> None:
    keys = heavy_tailed(rows)
    listed = keys.tolist()
    compare(
        "64-bit keys, Zipf 1.1",
        rows,
        {
            "ours, numpy": ours(keys),
            "ours, Arrow": ours(pa.array(keys)),
            "ours, list": ours(listed),
            "DataSketches": data_sketches(listed, "frequent_items_sketch"),
            "DuckDB approx_top_k": duck(pa.array(keys), APPROXIMATE),
            "DuckDB exact GROUP BY": duck(pa.array(keys), EXACT),
        },
        turns,
    )
    words = pq.read_table(SHARED / "git_words_rails.parquet", columns=["word"])["word"]
    text = words.to_pylist()
    compare(
        "words of git_words_rails",
        len(words),
        {
            "ours, Arrow": ours(words),
            "ours, pandas": ours(words.to_pandas()),
            "ours, list": ours(text),
            "DataSketches": data_sketches(text, "frequent_strings_sketch"),
            "DuckDB approx_top_k": duck(words.combine_chunks(), APPROXIMATE),
            "DuckDB exact GROUP BY": duck(words.combine_chunks(), EXACT),
        },
        turns,
    )


def stream_in_pieces(rows: int, as_text: bool) -> None:
    """One process that sees a stream a million rows at a time."""
    import resource

    def piece(seed: int, size: int) -> Any:
        keys = heavy_tailed(size, seed)
        return pa.array(keys).cast(pa.string()) if as_text else keys

    sketch = MisraGries(COUNTERS)
    sketch.update(piece(0, 1_000_000))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for seed in range(rows // 1_000_000):
        sketch.update(piece(seed, 1_000_000))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"sketch": sketch.memory, "before": before, "after": after}))


def memory() -> None:
    print(f"memory, {COUNTERS} counters, pieces of 1,000,000 rows, a process each")
    for as_text in (False, True):
        for rows in (2_000_000, 20_000_000):
            call = [sys.executable, "-m", "tests.benchmarks.sketches", "--stream", str(rows)]
            call += ["--text"] if as_text else []
            done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=True)
            figures = json.loads(done.stdout)
            kind = "text" if as_text else "64-bit"
            print(
                f"  {kind:6} {rows:>12,} rows: sketch {figures['sketch']:,} bytes; the process "
                f"{figures['before'] / 1024:.0f} MB at the peak of the first piece, "
                f"{figures['after'] / 1024:.0f} MB over all"
            )


def merging(sketches: int = 1000) -> None:
    print(f"merge of {sketches} sketches of {COUNTERS} counters, 5000 rows each")
    for kind in ("64-bit", "text"):
        made = []
        for seed in range(sketches):
            keys: Any = heavy_tailed(5000, seed)
            made.append(MisraGries(COUNTERS))
            made[-1].update(keys if kind == "64-bit" else pa.array(keys).cast(pa.string()))
        for method in ("bounded", "sum"):
            seconds = []
            for _ in range(3):
                start = time.perf_counter()
                result = merge_raw_sketches(made, method=method)
                seconds.append(time.perf_counter() - start)
            print(f"  {kind:6} {method:8} {min(seconds):.2f} s, {result.memory:,} bytes")


def first_update() -> None:
    """What a user waits for: loading the compiler, and code compiled before."""
    code = """
import time
start = time.perf_counter()
from dpframe.sketches import MisraGries
imported = time.perf_counter()
MisraGries(10).update([1])
print(f"{imported - start:.2f} {time.perf_counter() - imported:.2f}")
"""
    for _ in range(3):
        call = [sys.executable, "-c", code]
        said = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    imported, first = said.split()
    print(f"a new process: import {imported} s, first update {first} s")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=float, default=1e7)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--stream", type=int)
    parser.add_argument("--text", action="store_true")
    options = parser.parse_args()
    if options.stream:
        stream_in_pieces(options.stream, options.text)
        return
    memory()  # first: a process starts with the peak of the one that started it
    first_update()
    merging()
    speed(int(options.rows), options.turns)


if __name__ == "__main__":
    main()
