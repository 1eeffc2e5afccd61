"""Processor time of releases with and without every second way to count.

Run with ``python -m tests.benchmarks.ways [--rows 1e6] [--pairs 3] [--only NAME]``. Every
measurement is a fresh process, whose time is that of all its threads: the least of several later
calls. With and without take turns.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

ROOT = Path(__file__).resolve().parents[2]
LEVELS = ["a", "b", "c", "d"]
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
STREAM: dict[str, Any] = {**BUDGET, "mechanism": "streaming"}


def dotted(numbers: Any) -> list[str]:
    return [f"{n >> 24}.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}" for n in numbers.tolist()]


def workload(rows: int) -> pa.Table:
    """Four columns of numbers and of texts, users, IPv4 few and many, IPv6, and paths."""
    rng = np.random.default_rng(7)
    leaf = (rng.random(rows) ** 4 * rows).astype(np.int64)
    numbers = [leaf % 40, leaf // 40 % 30, leaf // 1200 % 30, leaf // 36000]
    texts = {
        f"t{n}": pa.array([f"{n}{v}" for v in c]) for n, c in zip(LEVELS, numbers, strict=True)
    }
    many = dotted(leaf * 2654435761 % 2**32)
    few = dotted(leaf % 1000 * 4294967 % 2**32)
    six = [f"2001:db8:{v % 997:x}:{v % 65521:x}::{v >> 16:x}:{v & 65535:x}" for v in leaf.tolist()]
    paths = [
        "/".join((f"a{v % 40}", f"b{v // 40 % 30}", f"c{v // 1200 % 30}", f"d{v}")) for v in leaf
    ]
    return pa.table(
        {
            **dict(zip(LEVELS, numbers, strict=True)),
            **texts,
            "u": rng.integers(0, max(rows // 10, 1), rows),
            "many": many,
            "few": few,
            "six": six,
            "path": paths,
        }
    )


def without_users() -> None:
    from dpframe.sources import small_frames as user_rows

    user_rows.user_leaves = lambda *_, **__: None  # type: ignore[assignment]


def without_addresses() -> None:
    from dpframe.sources import small_frames as address_levels

    address_levels.address_nodes = lambda *_, **__: None  # type: ignore[assignment]


def without_small() -> None:
    from dpframe.sources import exact_trees

    exact_trees.counts_small = lambda *_: False


def without_packed() -> None:
    from dpframe.sources import stream_batches as record_stream

    record_stream.packable = lambda *_: False


def without_bytes() -> None:
    from dpframe.sources import stream_batches as record_stream

    record_stream.splits_by_byte = lambda *_: False
    record_stream.Ip = type(None)  # type: ignore[assignment, misc]


TEXTS = ["ta", "tb", "tc", "td"]
SHARES: dict[str, Any] = {**BUDGET, "user": "u"}
FIVE: dict[str, Any] = {**BUDGET, "user": "u", "contribution": "records", "max_contributions": 5}
WAYS: dict[str, tuple[Callable[[], None], object, dict[str, Any]]] = {
    "users in shares, numbers": (without_users, LEVELS, SHARES),
    "users, five records, numbers": (without_users, LEVELS, FIVE),
    "IPv4, many different": (without_addresses, "ip:many", BUDGET),
    "IPv4, few different": (without_addresses, "ip:few", BUDGET),
    "IPv6": (without_addresses, "ip:six", BUDGET),
    "small frame, numbers": (without_small, LEVELS, BUDGET),
    "small frame, texts": (without_small, TEXTS, BUDGET),
    "small frame, IPv4": (without_small, "ip:few", BUDGET),
    "stream of numbers": (without_packed, LEVELS, STREAM),
    "stream of texts": (without_packed, TEXTS, STREAM),
    "stream of IPv4, many different": (without_bytes, "ip:many", STREAM),
    "stream of IPv4, few different": (without_bytes, "ip:few", STREAM),
    "stream of IPv6": (without_bytes, "ip:six", STREAM),
    "stream of paths": (without_bytes, "path:path", STREAM),
}


def measure(name: str, without: bool, source: str, calls: int) -> None:
    import pyarrow.parquet as pq

    import dpframe as dp

    off, kind, options = WAYS[name]
    data: Any = source
    if name.startswith("small") or source.endswith("small.parquet"):
        data = pq.read_table(source).to_pandas()
    if without:
        off()
    times, walls = [], []
    for _ in range(calls):
        wall, start = time.perf_counter(), time.process_time()
        dp.hhh(data, kind, ledger=None, progress=False, **options)
        times.append(time.process_time() - start)
        walls.append(time.perf_counter() - wall)
    print(json.dumps([min(times[1:]), min(walls[1:])]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--one", nargs=4)
    given = parser.parse_args()
    if given.one:
        name, without, source, calls = given.one
        measure(name, without == "1", source, int(calls))
        return
    with tempfile.TemporaryDirectory() as folder:
        import pyarrow.parquet as pq

        rows = int(given.rows)
        file = str(Path(folder) / ("large.parquet" if rows > 50_000 else "small.parquet"))
        pq.write_table(workload(rows), file)
        calls = "4" if rows > 50_000 else "15"
        for name in WAYS:
            if given.only not in name or (name.startswith("small") and rows > 50_000):
                continue
            figures: dict[str, list[list[float]]] = {"0": [], "1": []}
            for _ in range(given.pairs):
                for without, taken in figures.items():
                    call = [sys.executable, "-m", "tests.benchmarks.ways", "--one", name, without]
                    call += [file, calls]
                    out = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=True)
                    taken.append(json.loads(out.stdout))
            ratios = [b[0] / a[0] for a, b in zip(*figures.values(), strict=True)]
            walls = [b[1] / a[1] for a, b in zip(*figures.values(), strict=True)]
            ours, other = (1000 * min(t[0] for t in taken) for taken in figures.values())
            print(
                f"| {name} | {rows:.0e} | {ours:.1f} ms | {other:.1f} ms | "
                f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) | "
                f"{statistics.median(walls):.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
