"""Updates a second of ``MisraGries`` beside Apache DataSketches and DuckDB, memory, and merging.

Run with ``python -m tests.benchmarks.sketches [--rows 1e7] [--turns 5] [--stream 2e7]``.
All read the same keys in
one process and take turns; the fastest and the median turn are printed. DataSketches
(``pip install datasketches``, left out if it is missing) takes one Python object at a time, in the
fastest loop that Python has, from a list that exists already; its map of 4096 entries has about
the error of 1000 counters. DuckDB uses all processors, the others one.
"""

from __future__ import annotations

import statistics
import sys
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpframe.sketches import MisraGries, merge_raw_sketches
from tests.benchmarks import bench
from tests.benchmarks.bench import SHARED, Figures

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


def compare(title: str, keys: Any, kind: str, forms: dict[str, object], turns: int) -> None:
    """Our sketch of keys in each form, beside others."""
    rows, column = len(keys), keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
    jobs: dict[str, Callable[[], object] | None] = {
        **{f"ours, {form}": ours(given) for form, given in forms.items()},
        "DataSketches": data_sketches(forms["list"], kind),  # type: ignore[arg-type]
        "DuckDB approx_top_k": duck(column, APPROXIMATE),
        "DuckDB exact GROUP BY": duck(column, EXACT),
    }
    runs = bench.in_turns({name: job for name, job in jobs.items() if job}, turns)
    seconds = {name: [run["seconds"] for run in each] for name, each in runs.items()}
    print(f"{title}, {rows:,} rows, {COUNTERS} counters: million updates a second")
    base = seconds.get("DataSketches")
    for name, taken in seconds.items():
        rate, middle = (rows / s / 1e6 for s in (min(taken), statistics.median(taken)))
        ratio = f"{min(base) / min(taken):8.1f} x DataSketches" if base else ""
        print(f"  {name:24} {rate:8.1f} (median {middle:.1f}){ratio}")


def speed(rows: int, turns: int) -> None:
    keys = heavy_tailed(rows)
    forms = {"numpy": keys, "Arrow": pa.array(keys), "list": keys.tolist()}
    compare("64-bit keys, Zipf 1.1", forms["Arrow"], "frequent_items_sketch", forms, turns)
    words = pq.read_table(SHARED / "git_words_rails.parquet", columns=["word"])["word"][:rows]
    forms = {"Arrow": words, "pandas": words.to_pandas(), "list": words.to_pylist()}
    compare("words of git_words_rails", words, "frequent_strings_sketch", forms, turns)


def stream_in_pieces(rows: int, as_text: bool) -> Figures:
    """One process that sees a stream a million rows at a time."""

    def piece(seed: int, size: int) -> Any:
        keys = heavy_tailed(size, seed)
        return pa.array(keys).cast(pa.string()) if as_text else keys

    sketch = MisraGries(COUNTERS)
    sketch.update(piece(0, 1_000_000))
    before = bench.peak()
    for seed in range(rows // 1_000_000):
        sketch.update(piece(seed, 1_000_000))
    return {"sketch": sketch.memory, "before": before, "after": bench.peak()}


def memory(most: int) -> None:
    print(f"memory, {COUNTERS} counters, pieces of 1,000,000 rows, a process each")
    for as_text in (False, True):
        for rows in (most // 10, most):
            found = bench.alone(stream_in_pieces, rows, as_text)
            print(
                f"  {'text' if as_text else '64-bit':6} {rows:>12,} rows: sketch "
                f"{found['sketch']:,} bytes; the process {found['before']:.0f} MB at the peak of "
                f"the first piece, {found['after']:.0f} MB over all"
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
            merge = partial(merge_raw_sketches, made, method=method)
            least = min(bench.timed(merge)["seconds"] for _ in range(3))
            print(f"  {kind:6} {method:8} {least:.2f} s, {merge().memory:,} bytes")


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
    said = [bench.printed([sys.executable, "-c", code]) for _ in range(3)]
    imported, first = said[-1].split()
    print(f"a new process: import {imported} s, first update {first} s")


def main() -> None:
    given = bench.options(rows=10_000_000, turns=5, stream=20_000_000)
    memory(given.stream)  # first: a process starts with the peak of the one that started it
    first_update()
    merging()
    speed(given.rows, given.turns)


if __name__ == "__main__":
    main()
