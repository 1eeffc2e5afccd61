"""``mechanism="streaming"``: accuracy on real sets, time beside bare sketches, memory.

Run with ``python -m tests.benchmarks.streaming [--rows 5e6] [--turns 3] [--only NAME]``, NAME one
of accuracy, time, memory (``--stream 1e7`` rows), long (``--long 1e8``).
Accuracy compares with the exact heavy hitters at the same
threshold; sketches are made once and released ``RELEASES`` times. Times take turns in one process;
the fastest and the median one are printed. Memory is measured in processes of their own, and so are
long streams beside the offline release of the same file, in turns, with ratios pair by pair.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

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
from tests.benchmarks import bench
from tests.benchmarks.accuracy import (
    RECORD,
    above,
    exact_heavy,
    exact_tree,
    plan_for,
    position_keys,
)
from tests.benchmarks.bench import BUDGET, LEVELS, SHARED, Figures

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
    print()
    figures = ("nodes", "precision", "recall", "count error", "decrements, worst level")
    bench.head("set", "threshold", "heavy", "mechanism", *figures)
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
            shown = partial(score_row, name, threshold, int(heavy.sum()))
            shown("offline", score(tree, heavy, partial(by_place, plan, keyed, kept)), 0)
            for k, levels in states.items():
                scores = score(tree, heavy, partial(streaming, spec, threshold, k, levels, places))
                shown(f"streaming, k = {k}", scores, max(s.decrements for s in levels))


def streaming(
    spec: str, threshold: int, k: int, levels: tuple[SketchState, ...], places: dict[tuple, int]
) -> tuple[np.ndarray, np.ndarray]:
    options = {"mechanism": "streaming", "threshold": threshold, "counters": k}
    return by_name(plan_for(spec, remainder=False, **options).run(levels), places)


def score_row(*cells: Any) -> None:
    *about, (nodes, precision, recall, error), lost = cells
    bench.row(*about, f"{nodes:.0f}", f"{precision:.3f}", f"{recall:.3f}", f"{error:.1f}", lost)


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


def sketch_keys(batches: Iterable[pa.RecordBatch], levels: int) -> None:
    """A sketch a column, in one pass."""
    sketches = [MisraGries(TIMED_COUNTERS) for _ in range(levels)]
    for batch in batches:
        for sketch, keys in zip(sketches, batch.columns, strict=True):
            sketch.update(keys.drop_null() if keys.null_count else keys)


def one_sketch_after_the_other(file: Path, hierarchy: Hierarchy) -> None:
    """What somebody would write with the sketches alone: a pass a level."""
    for level in range(1, hierarchy.height + 1):
        sketch_keys(streamed_keys(file, hierarchy, level), 1)


def release(file: Path, spec: object, **options: object) -> None:
    dp.hhh(str(file), spec, threshold=500, **BUDGET, **options)  # type: ignore[arg-type]


def times(rows: int, turns: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        numbers = bench.write_rows(bench.workload(rows), Path(folder, "rows.parquet"))
        compare("four whole-number columns", numbers, LEVELS, turns)
        tor = SHARED / "tor_relays_daily.parquet"
        if tor.exists():
            some = f"SELECT ip FROM '{tor}' WHERE family = 4 LIMIT {rows}"
            ips = bench.write_rows(some, Path(folder, "ips.parquet"))
            compare("addresses of tor_relays_daily", ips, "ip:ip?version=4", turns)


def compare(title: str, file: Path, spec: object, turns: int) -> None:
    hierarchy = as_hierarchy(spec)
    levels, held = hierarchy.height, list(streamed_keys(file, hierarchy, None))
    rows = sum(batch.num_rows for batch in held)
    sketching = {"mechanism": "streaming", "counters": TIMED_COUNTERS}
    jobs: dict[str, Callable[[], object]] = {
        "streaming HHH, whole release": lambda: release(file, spec, **sketching),
        "its sketches alone": lambda: sketch_source(file, hierarchy, TIMED_COUNTERS),
        "four sketches, one pass, keys by SQL": lambda: sketch_keys(
            streamed_keys(file, hierarchy, None), levels
        ),
        "four sketches, a pass each": lambda: one_sketch_after_the_other(file, hierarchy),
        "four sketches, keys in memory": lambda: sketch_keys(held, levels),
        "fetching the keys by SQL": lambda: fetched(file, hierarchy),
        "offline HHH, whole release": lambda: release(file, spec),
    }
    runs = bench.in_turns(jobs, turns)
    print(f"\n{title}, {rows:,} rows, {levels} levels, {TIMED_COUNTERS} counters\n")
    bench.head("", "fastest", "median", "to streaming HHH")
    seconds = {name: [run["seconds"] for run in each] for name, each in runs.items()}
    ours = statistics.median(seconds["streaming HHH, whole release"])
    for name, taken in seconds.items():
        middle = statistics.median(taken)
        bench.row(name, f"{min(taken):.2f} s", f"{middle:.2f} s", f"{middle / ours:.2f}")


# -- processes of their own ------------------------------------------------------------------------

KINDS = {"whole numbers": LEVELS, "addresses": "ip:x", "paths": "path:p?depth=4"}
TEXTS = (
    "a || '.' || b || '.' || c || '.' || d AS x, 'p' || a || '/q' || b || '/r' || c || '/s' || d"
)
THRESHOLD = 500


def measure(file: str, title: str, mechanism: str, more: dict[str, Any]) -> Figures:
    """A release in this process, and the peak of imports and a tiny release before."""
    asked: dict[str, Any] = {"mechanism": mechanism, **BUDGET, **more}
    few = pa.table({**{c: [1, 2] for c in LEVELS}, "x": ["1.2.3.4", "::1"], "p": ["/a", "/a/b"]})
    dp.hhh(few, KINDS[title], **{**asked, "threshold": None})
    return {"before": bench.peak(), **bench.timed(lambda: dp.hhh(file, KINDS[title], **asked))}


def memory(rows: int) -> None:
    print(f"\nMemory, {FILES} parquet files, a process each, no threshold given\n")
    bench.head("rows", "mechanism", "before", "peak", "time", "nodes")
    with tempfile.TemporaryDirectory() as folder:
        whole = bench.write_rows(bench.workload(rows), Path(folder, "whole.parquet"))
        for size in (rows // 10, rows):
            part = size // FILES
            for i in range(FILES):
                own = f"FROM '{whole}' WHERE uid >= {i * part} AND uid < {(i + 1) * part}"
                bench.write_rows(own, Path(folder, f"{size}-{i}.parquet"))
        whole.unlink()
        for size in (rows // 10, rows):
            for mechanism in ("streaming", "offline"):
                more = {"counters": TIMED_COUNTERS} if mechanism == "streaming" else {}
                file = f"{folder}/{size}-*.parquet"
                it = bench.alone(measure, file, "whole numbers", mechanism, more)
                cells = (f"{it['before']:.0f} MB", f"{it['mb']:.0f} MB", f"{it['seconds']:.1f} s")
                bench.row(f"{size:,}", mechanism, *cells, it["rows"])


def long_streams(rows: int, turns: int) -> None:
    """``rows`` of whole numbers, and a tenth of texts."""
    print(f"\nThreshold {THRESHOLD}, default counters, medians of {turns} pairs\n")
    bench.compared_head()
    with tempfile.TemporaryDirectory() as folder:
        numbers = bench.write_rows(bench.workload(rows), Path(folder, "numbers.parquet"))
        some = f"SELECT {TEXTS} AS p FROM '{numbers}' LIMIT {rows // 10}"
        texts = bench.write_rows(some, Path(folder, "texts.parquet"))
        for title in KINDS:
            file = numbers if title == "whole numbers" else texts
            sides = {
                name: (measure, file, title, name, {"threshold": THRESHOLD})
                for name in ("streaming", "offline")
            }
            bench.compared(title, bench.in_turns(sides, turns), "offline")


def main() -> None:
    only = ("accuracy", "time", "memory", "long")
    sizes = {"rows": 5_000_000, "stream": 10_000_000, "long": 100_000_000}
    given = bench.options(**sizes, turns=3, only=only)
    if given.only in (None, "memory"):
        memory(given.stream)
    if given.only in (None, "time"):
        times(given.rows, given.turns)
    if given.only in (None, "long"):
        long_streams(given.long, max(5, given.turns))
    if given.only in (None, "accuracy"):
        bench.with_data(accuracy)


if __name__ == "__main__":
    main()
