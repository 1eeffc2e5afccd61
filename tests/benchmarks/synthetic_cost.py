"""Memory and speed of PrivHP as k and the width change.

Run with ``python -m tests.benchmarks.synthetic_cost``, 10 seconds, one core. The fastest of five.
"Growth" is what follows the noise: O(k log k) a level.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpframe.mechanisms.privhp_partition import PartitionLaws, _noisy_levels, grow_partition, run
from dpframe.noise import UnboundedNoise
from dpframe.sketches.hot_partition import HotPartition
from tests.benchmarks.synthetic import drawn, header, laws_for, row


def noisy(
    sketch: HotPartition, laws: PartitionLaws
) -> tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]]:
    """What growth starts from."""
    shape = sketch.shape
    exact = _noisy_levels(sketch.cells, laws)
    scales = laws.scales[shape.exact + 1 :]
    tables = zip(sketch.tables, scales, strict=True)
    return exact, [t + UnboundedNoise(b).draw(t.size).reshape(t.shape) for t, b in tables]


def fastest(job: Callable[[], object], times: int = 5) -> float:
    """Seconds."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        job()
        found.append(time.perf_counter() - start)
    return min(found)


def cost() -> None:
    data = drawn(0.75, 1_000_000, 1)
    domain = data.domain(20)
    codes = domain.codes(data.table)
    tree = 8 * 2**20
    print(f"\n### Cost, n = 1e6, depth 20, one core; a full tree of this depth has {tree:,} bytes")
    names = ("k", "w", "memory, bytes", "update, million rows/s", "noise, ms", "growth, ms")
    header(*names, "growth / (k log2(k) levels), ns")
    for k in (16, 64, 256, 1024, 4096, 16384):
        for w in (64, 512, 4096) if k == 256 else (4096,):
            sketch = HotPartition(20, k, w, seed=1)
            sketch.update(codes[:10])
            update = len(codes) / fastest(lambda s=sketch: s.update(codes)) / 1e6  # type: ignore[misc]
            laws = laws_for(domain, k)
            whole = fastest(lambda s=sketch, b=laws: run(s, b))  # type: ignore[misc]
            exact, tables = noisy(sketch, laws)
            growth = fastest(lambda s=sketch, e=exact, t=tables: grow_partition(e, t, s.shape))  # type: ignore[misc]
            each = growth / (k * math.log2(k) * (20 - math.log2(k))) * 1e9
            row(
                *(k, w, f"{sketch.memory:,}", f"{update:.0f}", f"{1e3 * (whole - growth):.1f}"),
                *(f"{1e3 * growth:.1f}", f"{each:.0f}"),
            )
    reading = fastest(lambda: domain.codes(data.table)) / len(codes)
    print(f"\nReading a column of doubles as codes: {1e-6 / reading:.0f} million rows/s.")


if __name__ == "__main__":
    cost()
