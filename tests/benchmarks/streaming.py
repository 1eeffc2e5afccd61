"""``mechanism="streaming"``: accuracy on real sets, time beside bare sketches, memory.

Run with ``python -m tests.benchmarks.streaming [--rows 5e6] [--turns 3] [--only NAME]``, NAME one
of accuracy, time, memory, long. Accuracy compares with the exact heavy hitters at the same
threshold; sketches are made once and released ``RELEASES`` times. Times take turns in one process;
the fastest and the median one are printed. Memory is measured in processes of their own, and so are
long streams beside the offline release of the same file, in turns, with ratios pair by pair.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

import dpframe as dp
from dpframe.counts import CountTree, NoisyNodes
from dpframe.hierarchy import Hierarchy, as_hierarchy
from dpframe.questions.hhh.mechanism_plan import HhhPlan
from dpframe.sketches import MisraGries, SketchState
from dpframe.sources import source_relations
from dpframe.sources.packed_keys import stream_sql
from dpframe.sources.stream_batches import sketch_source
from tests.benchmarks.accuracy import (
    RECORD,
    above,
    exact_heavy,
    exact_tree,
    plan_for,
    position_keys,
)
from tests.benchmarks.speed import LEVELS, ROOT, SHARED, workload

RELEASES = 5
COUNTERS = (200, 1000, 5000)
SHARES = (0.001, 0.01)
LEAST = 100
"""Thresholds: shares of all records, and at least so many, or what offline needs if more."""

SETS = (
    ("tor_relays_daily", "ip:ip"),
    ("git_paths_rails", "path:path"),
    (
        "retail_completejourney",
        "columns:department,product_category,product_type,product_id",
    ),
)
TIMED_COUNTERS = 1000
FILES = 10

# -- accuracy ------------------------------------------------------------------------------------


def score(tree: CountTree, heavy: np.ndarray, found: Callable[[], tuple]) -> list[float]:
    """Nodes, precision, recall and mean absolute error of counts, over ``RELEASES``."""
    totals = np.zeros(4)
    for _ in range(RELEASES):
        where, count = found()
        hits = float(heavy[where].sum())
        error = float(np.abs(count - tree.count[where]).mean()) if len(where) else 0.0
        scores = [len(where), hits / max(1, len(where)), hits / max(1, heavy.sum()), error]
        totals += scores
    return list(totals / RELEASES)


def by_name(noisy: NoisyNodes, places: dict[tuple, int]) -> tuple[np.ndarray, np.ndarray]:
    """Positions in the exact tree of what a streaming release reports, and its counts."""
    names = zip(noisy.level.tolist(), *(k.to_pylist() for k in noisy.keys), strict=True)
    return np.array([places[name] for name in names], dtype=np.int64), noisy.count


def by_place(plan: HhhPlan, seen: CountTree, kept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    noisy = plan.run(seen)
    return kept[noisy.keys[0].to_numpy()], noisy.count


def accuracy() -> None:
    print(
        "\n| set | threshold | heavy | mechanism | nodes | precision | recall | count error | "
        "decrements, worst level |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    )
    for name, spec in SETS:
        file, hierarchy = SHARED / f"{name}.parquet", as_hierarchy(spec)
        tree = exact_tree(file, hierarchy, RECORD)
        texts = (key.cast(pa.string()).to_pylist() for key in tree.keys)
        names = zip(tree.level.tolist(), *texts, strict=True)
        places = {name: i for i, name in enumerate(names)}
        states = {k: sketch_source(file, hierarchy, k) for k in COUNTERS}
        for share in SHARES:
            least = plan_for(spec, remainder=False).threshold
            threshold = max(LEAST, least, int(share * tree.count[0]))
            heavy = exact_heavy(tree, threshold)
            plan = plan_for(spec, remainder=False, threshold=threshold)
            seen, kept = above(tree, plan.band)
            keys = (position_keys(len(kept)),)
            keyed = CountTree(level=seen.level, parent=seen.parent, count=seen.count, keys=keys)
            shown = partial(row, name, threshold, int(heavy.sum()))
            shown("offline", score(tree, heavy, partial(by_place, plan, keyed, kept)), 0)
            for k, levels in states.items():
                scores = score(tree, heavy, partial(streaming, spec, threshold, k, levels, places))
                shown(f"streaming, k = {k}", scores, max(s.decrements for s in levels))


def streaming(
    spec: str, threshold: int, k: int, levels: tuple[SketchState, ...], places: dict[tuple, int]
) -> tuple[np.ndarray, np.ndarray]:
    options = {"mechanism": "streaming", "threshold": threshold, "counters": k}
    return by_name(plan_for(spec, remainder=False, **options).run(levels), places)


def row(name: str, threshold: int, heavy: int, title: str, scores: list[float], lost: int) -> None:
    nodes, precision, recall, error = scores
    print(
        f"| {name} | {threshold} | {heavy} | {title} | {nodes:.0f} | {precision:.3f} | "
        f"{recall:.3f} | {error:.1f} | {lost} |",
        flush=True,
    )


# -- time ----------------------------------------------------------------------------------------


def streamed_keys(file: Path, hierarchy: Hierarchy, level: int | None) -> Iterator[pa.RecordBatch]:
    """Keys of one level, or of all, as the stream fetches them."""
    with source_relations.open_source(file, hierarchy.source_columns) as relation:
        types = dict(zip(relation.columns, relation.types, strict=True))
        read = tuple(types[c] for c in hierarchy.source_columns)
        statement = stream_sql(hierarchy, types=read)
        if level is not None:
            statement = f"SELECT l{level} FROM ({statement})"
        yield from relation.batches(statement)


def fetched(file: Path, hierarchy: Hierarchy, level: int | None = None) -> int:
    return sum(batch.num_rows for batch in streamed_keys(file, hierarchy, level))


def one_sketch_after_the_other(file: Path, hierarchy: Hierarchy) -> None:
    """What somebody would write with the sketches alone: a pass a level."""
    for level in range(1, hierarchy.height + 1):
        sketch = MisraGries(TIMED_COUNTERS)
        for batch in streamed_keys(file, hierarchy, level):
            keys = batch.column(0)
            sketch.update(keys.drop_null() if keys.null_count else keys)


def sketches_beside(file: Path, hierarchy: Hierarchy) -> None:
    """Four sketches in one pass over the same keys."""
    sketches = [MisraGries(TIMED_COUNTERS) for _ in range(hierarchy.height)]
    for batch in streamed_keys(file, hierarchy, None):
        for sketch, keys in zip(sketches, batch.columns, strict=True):
            sketch.update(keys.drop_null() if keys.null_count else keys)


def kernels(batches: list[pa.RecordBatch]) -> None:
    """Four sketches on keys that are in memory already."""
    sketches = [MisraGries(TIMED_COUNTERS) for _ in range(batches[0].num_columns)]
    for batch in batches:
        for sketch, keys in zip(sketches, batch.columns, strict=True):
            sketch.update(keys.drop_null() if keys.null_count else keys)


def release(file: Path, spec: object, **options: object) -> None:
    dp.hhh(str(file), spec, epsilon=1.0, delta=1e-6, threshold=500, **options)  # type: ignore[arg-type]


def times(rows: int, turns: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        numbers, ips = Path(folder, "rows.parquet"), Path(folder, "ips.parquet")
        workload(rows, numbers)
        tor = SHARED / "tor_relays_daily.parquet"
        jobs: list[tuple[str, Path, object]] = [("four whole-number columns", numbers, LEVELS)]
        if tor.exists():
            limited = f"COPY (SELECT ip FROM '{tor}' WHERE family = 4 LIMIT {rows}) TO '{ips}'"
            duckdb.sql(limited)
            jobs.append(("addresses of tor_relays_daily", ips, "ip:ip?version=4"))
        for title, file, spec in jobs:
            compare(title, file, spec, turns)


def compare(title: str, file: Path, spec: object, turns: int) -> None:
    hierarchy = as_hierarchy(spec)
    held = list(streamed_keys(file, hierarchy, None))
    rows = sum(batch.num_rows for batch in held)
    sketching = {"mechanism": "streaming", "counters": TIMED_COUNTERS}
    runs: dict[str, Callable[[], object]] = {
        "streaming HHH, whole release": lambda: release(file, spec, **sketching),
        "its sketches alone": lambda: sketch_source(file, hierarchy, TIMED_COUNTERS),
        "four sketches, one pass, keys by SQL": lambda: sketches_beside(file, hierarchy),
        "four sketches, a pass each": lambda: one_sketch_after_the_other(file, hierarchy),
        "four sketches, keys in memory": lambda: kernels(held),
        "fetching the keys by SQL": lambda: fetched(file, hierarchy),
        "offline HHH, whole release": lambda: release(file, spec),
    }
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(turns + 1):  # the first turn compiles and warms up
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            if turn:
                seconds[name].append(time.perf_counter() - start)
    print(f"\n{title}, {rows:,} rows, {hierarchy.height} levels, {TIMED_COUNTERS} counters\n")
    print("| | fastest | median | to streaming HHH |\n| --- | --- | --- | --- |")
    ours = statistics.median(seconds["streaming HHH, whole release"])
    for name, taken in seconds.items():
        middle = statistics.median(taken)
        print(f"| {name} | {min(taken):.2f} s | {middle:.2f} s | {middle / ours:.2f} |", flush=True)


# -- memory --------------------------------------------------------------------------------------

TINY = {"epsilon": 1.0, "delta": 1e-6}


def one_process(pattern: str, mechanism: str) -> None:
    """A release in this process: its peak, and what imports and a tiny release took before."""
    import resource

    def peak() -> float:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    counters = TIMED_COUNTERS if mechanism == "streaming" else None
    options = {"mechanism": mechanism, "counters": counters, **TINY}
    few = pa.table({name: [1, 2, 3] for name in LEVELS})
    dp.hhh(few, LEVELS, **options)  # type: ignore[arg-type]
    before, start = peak(), time.perf_counter()
    result = dp.hhh(pattern, LEVELS, **options)  # type: ignore[arg-type]
    taken = time.perf_counter() - start
    print(json.dumps({"before": before, "peak": peak(), "seconds": taken, "nodes": len(result)}))


def memory(rows: int) -> None:
    print(f"\nMemory, {FILES} parquet files, a process each, no threshold given\n")
    print(
        "| rows | mechanism | before | peak | time | nodes |\n| --- | --- | --- | --- | --- | --- |"
    )
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder, "whole.parquet")
        workload(rows, whole)
        for size in (rows // 10, rows):
            part = size // FILES
            for i in range(FILES):
                chosen = (
                    f"SELECT * FROM '{whole}' WHERE uid >= {i * part} AND uid < {(i + 1) * part}"
                )
                duckdb.sql(f"COPY ({chosen}) TO '{folder}/{size}-{i}.parquet' (FORMAT parquet)")
        whole.unlink()
        for size in (rows // 10, rows):
            for mechanism in ("streaming", "offline"):
                call = [sys.executable, "-m", "tests.benchmarks.streaming"]
                call += ["--one", f"{folder}/{size}-*.parquet", mechanism]
                done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=True)
                it = json.loads(done.stdout)
                print(
                    f"| {size:,} | {mechanism} | {it['before']:.0f} MB | {it['peak']:.0f} MB | "
                    f"{it['seconds']:.1f} s | {it['nodes']} |",
                    flush=True,
                )


# -- long streams --------------------------------------------------------------------------------

LONG = {"whole numbers": LEVELS, "addresses": "ip:x", "paths": "path:p?depth=4"}
TEXTS = (
    "a || '.' || b || '.' || c || '.' || d AS x, 'p' || a || '/q' || b || '/r' || c || '/s' || d"
)
THRESHOLD = 500


def one_long(file: str, title: str, mechanism: str) -> None:
    import resource

    spec = LONG[title]
    few = pa.table({**{c: [1, 2] for c in LEVELS}, "x": ["1.2.3.4", "::1"], "p": ["/a", "/a/b"]})
    dp.hhh(few, spec, mechanism=mechanism, **TINY)  # type: ignore[arg-type]
    start = time.perf_counter()
    dp.hhh(file, spec, mechanism=mechanism, threshold=THRESHOLD, **TINY)  # type: ignore[arg-type]
    taken = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": taken, "peak": peak}))


def long_streams(rows: int, turns: int) -> None:
    """``rows`` of whole numbers, and a tenth of texts."""
    print(
        f"\nThreshold {THRESHOLD}, default counters, medians of {turns} pairs\n\n"
        "| | streaming | offline | ratio of time | of memory |\n| --- | --- | --- | --- | --- |"
    )
    with tempfile.TemporaryDirectory() as folder:
        numbers, texts = Path(folder, "numbers.parquet"), Path(folder, "texts.parquet")
        workload(rows, numbers)
        duckdb.sql(f"COPY (SELECT {TEXTS} AS p FROM '{numbers}' LIMIT {rows // 10}) TO '{texts}'")
        for title in LONG:
            file = numbers if title == "whole numbers" else texts
            runs: dict[str, list[dict[str, float]]] = {"streaming": [], "offline": []}
            for turn in range(turns + 1):  # the first pair warms up
                for mechanism, done in runs.items():
                    call = [sys.executable, "-m", "tests.benchmarks.streaming"]
                    call += ["--one-long", str(file), title, mechanism]
                    out = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=True)
                    if turn:
                        done.append(json.loads(out.stdout))
            pairs = list(zip(*runs.values(), strict=True))
            shown = [
                f"{statistics.median(r['seconds'] for r in done):.2f} s, "
                f"{statistics.median(r['peak'] for r in done):.0f} MB"
                for done in runs.values()
            ]
            for what in ("seconds", "peak"):
                ratios = sorted(a[what] / b[what] for a, b in pairs)
                middle = statistics.median(ratios)
                shown.append(f"{middle:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})")
            print(f"| {title} | {' | '.join(shown)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=float, default=5e6, help="of the times")
    parser.add_argument("--stream", type=float, default=1e7, help="of the longer stream in memory")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--long", type=float, default=1e8, help="rows of long streams")
    parser.add_argument("--only", choices=("accuracy", "time", "memory", "long"))
    parser.add_argument("--one", nargs=2, metavar=("PATTERN", "MECHANISM"))
    parser.add_argument("--one-long", nargs=3, metavar=("FILE", "TITLE", "MECHANISM"))
    options = parser.parse_args()
    if options.one_long:
        one_long(*options.one_long)
        return
    if options.one:
        one_process(*options.one)
        return
    if options.only in (None, "memory"):
        memory(int(options.stream))
    if options.only in (None, "time"):
        times(int(options.rows), options.turns)
    if options.only in (None, "long"):
        long_streams(int(options.long), max(5, options.turns))
    if options.only in (None, "accuracy"):
        if SHARED.exists():
            accuracy()
        else:
            print("accuracy: skipped, the data sets are not here")


if __name__ == "__main__":
    main()
