"""Processor time of releases with and without every second way to count.

Run with ``python -m tests.benchmarks.ways [--rows 1e6] [--pairs 3] [--only NAME]``. Every
measurement is a fresh process, whose time is that of all its threads: the least of several later
calls. With and without take turns.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.benchmarks import bench
from tests.benchmarks.bench import BUDGET, LEVELS, Figures

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


USERS = ("small_frames", "user_leaves", None)
TEXT_USERS = ("exact_trees", "text_key_rows", None)
ADDRESSES = ("small_frames", "address_nodes", None)
SMALL = ("exact_trees", "counts_small", False)
PACKED = ("stream_batches", "packable", False)
BYTES = ("stream_batches", "splits_by_byte", False)
"""A module of ``dpframe.sources``, a function of a second way, and its answer if there is none."""

TEXTS = ["ta", "tb", "tc", "td"]
SHARES: dict[str, Any] = {**BUDGET, "user": "u"}
FIVE: dict[str, Any] = {**BUDGET, "user": "u", "contribution": "records", "max_contributions": 5}
WAYS: dict[str, tuple[tuple[str, str, Any], object, dict[str, Any]]] = {
    "users in shares, numbers": (USERS, LEVELS, SHARES),
    "users in shares, texts": (TEXT_USERS, TEXTS, SHARES),
    "users, five records, numbers": (USERS, LEVELS, FIVE),
    "IPv4, many different": (ADDRESSES, "ip:many", BUDGET),
    "IPv4, few different": (ADDRESSES, "ip:few", BUDGET),
    "IPv6": (ADDRESSES, "ip:six", BUDGET),
    "small frame, numbers": (SMALL, LEVELS, BUDGET),
    "small frame, texts": (SMALL, TEXTS, BUDGET),
    "small frame, IPv4": (SMALL, "ip:few", BUDGET),
    "stream of numbers": (PACKED, LEVELS, STREAM),
    "stream of texts": (PACKED, TEXTS, STREAM),
    "stream of IPv4, many different": (BYTES, "ip:many", STREAM),
    "stream of IPv4, few different": (BYTES, "ip:few", STREAM),
    "stream of IPv6": (BYTES, "ip:six", STREAM),
    "stream of paths": (BYTES, "path:path", STREAM),
}


def measure(name: str, without: bool, source: str, calls: int) -> Figures:
    """The least of later calls."""
    from importlib import import_module

    import dpframe as dp

    (home, function, answer), kind, more = WAYS[name]
    data: Any = pq.read_table(source).to_pandas() if source.endswith("small.parquet") else source
    if without:
        module: Any = import_module(f"dpframe.sources.{home}")
        setattr(module, function, lambda *_, **__: answer)
        if (home, function, answer) == BYTES:
            module.Ip = type(None)
    runs = [bench.timed(lambda: dp.hhh(data, kind, progress=False, **more)) for _ in range(calls)]
    return {what: min(run[what] for run in runs[1:]) for what in ("seconds", "busy")}


def main() -> None:
    given = bench.options(rows=1_000_000, pairs=3, only="")
    small = given.rows <= 50_000
    bench.head("way", "rows", "with, ms of processors", "without", "ratio", "of time")
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / ("small.parquet" if small else "large.parquet"))
        pq.write_table(workload(given.rows), file)
        for name in WAYS:
            if given.only not in name or (name.startswith("small") and not small):
                continue
            sides = {
                side: (measure, name, side == "without", file, 15 if small else 4)
                for side in ("with", "without")
            }
            ours, other = bench.in_turns(sides, given.pairs, uncounted=0).values()
            least = [f"{1000 * min(run['busy'] for run in each):.1f}" for each in (ours, other)]
            both = (bench.spread(bench.ratios(other, ours, what)) for what in ("busy", "seconds"))
            bench.row(name, f"{given.rows:.0e}", *least, *both)


if __name__ == "__main__":
    main()
