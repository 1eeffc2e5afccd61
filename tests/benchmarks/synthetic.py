"""1-Wasserstein error of PrivHP on the line and the square.

Run with ``python -m tests.benchmarks.synthetic [--repeats 3] [--only TABLE]``, 5 minutes. Every
domain is scaled to [0, 1] per axis, so that errors are parts of the range.
What is measured is the distance of the data from the partition itself, not from rows
drawn out of it: ``POINTS`` points are placed in the cells, as many in each as its count says and
evenly inside. On the line their distance is exact, up to a millionth; on the square it is the mean
of ``ANGLES`` directions, evenly spaced. Means over fresh noise and fresh hashes; the data stay as
they are. PMM is the tree of all nodes (``run_full``) with the same epsilon and depth; "uniform" is
the error of the uniform distribution, which costs no budget.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dpframe.domains import Domain, as_domain
from dpframe.mechanisms.privhp_partition import (
    Partition,
    PartitionLaws,
    Split,
    _noisy_levels,
    grow_partition,
    partition_laws,
    run,
    run_full,
)
from dpframe.noise import UnboundedNoise
from dpframe.sketches.hot_partition import HotPartition
from tests.benchmarks import bench
from tests.benchmarks.bench import SHARED

Reals = NDArray[np.float64]

EPSILON = 1.0
POINTS = {1: 2**20, 2: 2**18}
ANGLES = 8
GOLDEN = (math.sqrt(5) - 1) / 2
REAL = {
    "distance": ("flights_nyc13", {"distance": (0, 5000)}),
    "air_time": ("flights_nyc13", {"air_time": (0, 720)}),
    "lat, lon": ("geo_geonames_cities500", {"lat": (-90, 90), "lon": (-180, 180)}),
}


@dataclass(frozen=True)
class Data:
    """Rows, the domain they are from, and where they lie in [0, 1]^d, each direction sorted."""

    name: str
    table: pa.Table
    bounds: dict[str, tuple[float, float]]
    along: tuple[Reals, ...]

    def domain(self, depth: int) -> Domain:
        return as_domain(self.bounds, depth=depth)


def angles(dimensions: int) -> Reals:
    """Directions on which samples are compared: the axis, or evenly spaced in half a circle."""
    if dimensions == 1:
        return np.ones((1, 1))
    turn = np.pi * (np.arange(ANGLES) + 0.5) / ANGLES
    return np.column_stack([np.cos(turn), np.sin(turn)])


def data_of(name: str, table: pa.Table, bounds: dict[str, tuple[float, float]]) -> Data:
    columns = [table[c].to_numpy(zero_copy_only=False) for c in bounds]
    scaled = np.column_stack(
        [(c - low) / (high - low) for c, (low, high) in zip(columns, bounds.values(), strict=True)]
    )
    scaled = np.clip(scaled[~np.isnan(scaled).any(axis=1)], 0, 1)
    return Data(name, table, bounds, tuple(np.sort(scaled @ v) for v in angles(len(bounds))))


@lru_cache
def drawn(skew: float, n: int, dimensions: int) -> Data:
    """MultiFractal(B): every bit of a path is 0 with chance B; 1/2 is the uniform distribution."""
    bits = 26
    rng = np.random.default_rng(n)
    names = ["x", "y"][:dimensions]
    columns = {}
    for column in names:
        value = np.zeros(n)
        for bit in range(bits):
            value += (rng.random(n) >= skew) * 2.0 ** -(bit + 1)
        columns[column] = value + rng.random(n) * 2.0**-bits
    name = "uniform" if skew == 0.5 else f"cascade {skew:g}"
    return data_of(name, pa.table(columns), dict.fromkeys(names, (0.0, 1.0)))


@lru_cache
def real(name: str, n: int | None = None) -> Data | None:
    """A column of a shared set, all rows or so many of them drawn; None where it is absent."""
    file, bounds = REAL[name]
    path = SHARED / f"{file}.parquet"
    if not path.exists():
        return None
    table = pq.read_table(path, columns=list(bounds)).drop_null()
    if n is not None:
        table = table.take(np.random.default_rng(n).integers(0, table.num_rows, n))
    return data_of(name, table, bounds)


# -- error ---------------------------------------------------------------------------------------


def placed(partition: Partition, domain: Domain) -> Reals:
    """Points in the cells, in proportion to their counts, evenly spread in each; (n, d)."""
    n = POINTS[len(domain.axes)]
    leaves = np.flatnonzero(partition.leaf & (partition.count > 0))
    if not len(leaves):
        leaves, counts = np.array([0]), np.array([1.0])
    else:
        counts = partition.count[leaves]
    shift = (partition.depth - partition.level[leaves]).astype(np.uint64)
    order = np.argsort(partition.code[leaves] << shift)
    leaves, ends = leaves[order], np.cumsum(counts[order])
    quantiles = (np.arange(n) + 0.5) / n * ends[-1]
    at = np.minimum(np.searchsorted(ends, quantiles, side="right"), len(leaves) - 1)
    inside = (quantiles - (ends - counts[order])[at]) / counts[order][at]
    first = np.searchsorted(at, np.arange(len(leaves)))
    rank = np.arange(n) - first[at]
    cells = domain._cells(partition.level[leaves], partition.code[leaves])
    spread = (np.clip(inside, 0, 1), (rank + 0.5) * GOLDEN % 1)
    return np.column_stack(
        [
            (prefix[at] + u) / 2.0 ** fixed[at]
            for (fixed, prefix), u in zip(cells, spread, strict=False)
        ]
    )


def error(data: Data, points: Reals) -> float:
    """Distance of the data from points, a mean over directions."""
    total = 0.0
    vectors = angles(points.shape[1])
    for sample, v in zip(data.along, vectors, strict=True):
        other = np.sort(points @ v)
        at = (np.arange(len(other)) + 0.5) / len(other) * len(sample)
        total += float(np.abs(sample[at.astype(np.int64)] - other).mean())
    return total / len(vectors)


def laws_for(domain: Domain, k: int, rows: int = 1, split: Split = "optimal") -> PartitionLaws:
    return partition_laws(
        depth=domain.depth,
        hot=k,
        rows=rows,
        epsilon=EPSILON,
        diameters=domain.diameters,
        split=split,
    )


def privhp(
    data: Data,
    k: int,
    w: int,
    *,
    depth: int,
    repeats: int,
    rows: int = 1,
    split: Split = "optimal",
) -> float:
    """Mean error of releases, each with hashes and noise of its own."""
    domain = data.domain(depth)
    codes = domain.codes(data.table)
    laws = laws_for(domain, k, rows, split)
    total = 0.0
    for seed in range(repeats):
        sketch = HotPartition(depth, k, w, rows, seed=seed)
        sketch.update(codes)
        total += error(data, placed(run(sketch, laws), domain))
    return total / repeats


def pmm(data: Data, *, depth: int, repeats: int) -> float:
    domain = data.domain(depth)
    codes = domain.codes(data.table)
    laws = laws_for(domain, 2**depth)
    found = [error(data, placed(run_full(codes, laws), domain)) for _ in range(repeats)]
    return float(np.mean(found))


def flat(data: Data) -> float:
    """Error of the uniform distribution, from no data at all."""
    root = Partition(
        np.zeros(1, np.int64), np.zeros(1, np.uint64), np.ones(1), np.ones(1, np.bool_), 2
    )
    return error(data, placed(root, data.domain(2)))


# -- tables --------------------------------------------------------------------------------------


def header(*names: object) -> None:
    print()
    bench.head(*names)


def row(*cells: object) -> None:
    bench.row(*(f"{1e4 * c:.2f}" if isinstance(c, float) else c for c in cells))


def slope(x: Sequence[float], y: Sequence[float]) -> str:
    """Of log y in log x: the exponent of a power law."""
    return f"{np.polyfit(np.log(x), np.log(y), 1)[0]:.2f}"


def sets(dimensions: int, n: int) -> list[Data]:
    skews = (0.5, 0.6, 0.75, 0.9) if dimensions == 1 else (0.5, 0.6, 0.9)
    names = ("distance", "air_time") if dimensions == 1 else ("lat, lon",)
    found = [drawn(skew, n, dimensions) for skew in skews]
    return found + [d for d in (real(name, n) for name in names) if d is not None]


def by_size(dimensions: int, repeats: int) -> None:
    sizes = (10_000, 100_000, 1_000_000)
    print(f"\n### d = {dimensions}: rows (k = 256, w = 4096 beside PMM), error * 1e4")
    header("data", *(f"n = {n:.0e}" for n in sizes), *(f"PMM, {n:.0e}" for n in sizes), "uniform")
    for small, middle, large in zip(*(sets(dimensions, n) for n in sizes), strict=True):
        ours, full = [], []
        for data, n in zip((small, middle, large), sizes, strict=True):
            depth = round(math.log2(EPSILON * n))
            ours.append(privhp(data, 256, 4096, depth=depth, repeats=repeats))
            full.append(pmm(data, depth=depth, repeats=max(2, repeats // 2)))
        row(small.name, *ours, *full, flat(large))


def by_hot(dimensions: int, repeats: int, n: int) -> None:
    hots = (16, 64, 256, 1024)
    print(f"\n### d = {dimensions}: k (w = 4096, n = {n:.0e}, depth 20), error * 1e4")
    header("data", *(f"k = {k}" for k in hots), "exponent of k")
    for data in sets(dimensions, n):
        found = [privhp(data, k, 4096, depth=20, repeats=repeats) for k in hots]
        row(data.name, *found, slope(hots, found))


def by_width(dimensions: int, repeats: int, n: int) -> None:
    widths = (64, 512, 4096)
    print(f"\n### d = {dimensions}: w (k = 64 and 256, n = {n:.0e}, depth 20), error * 1e4")
    header("data", *(f"k = {k}, w = {w}" for k in (64, 256) for w in widths))
    for data in sets(dimensions, n):
        cells = [privhp(data, k, w, depth=20, repeats=repeats) for k in (64, 256) for w in widths]
        row(data.name, *cells)


def by_depth(dimensions: int, repeats: int) -> None:
    depths = (8, 12, 20, 32)
    print(f"\n### d = {dimensions}: depth (k = 256, w = 4096), error * 1e4")
    header("data", "n", *(f"depth {r}" for r in depths))
    for n in (10_000, 1_000_000):
        for data in sets(dimensions, n)[-2:]:
            cells = [privhp(data, 256, 4096, depth=r, repeats=repeats) for r in depths]
            row(data.name, f"{n:.0e}", *cells)


def by_memory(repeats: int) -> None:
    """Geometric means of the error over four data sets on the line."""
    print("\n### d = 1: k and w by memory (depth 20), geometric mean of errors * 1e4")
    sizes = (10_000, 1_000_000)
    header("k", "w", "memory, bytes", *(f"n = {n:.0e}" for n in sizes))
    for k in (64, 256, 1024, 4096):
        for w in (k, 4 * k, 16 * k):
            cells = []
            for n in sizes:
                ours = [privhp(d, k, w, depth=20, repeats=repeats) for d in sets(1, n)[2:]]
                cells.append(float(np.exp(np.mean(np.log(ours)))))
            row(k, w, f"{HotPartition(20, k, w, seed=0).memory:,}", *cells)


def in_the_square(repeats: int) -> None:
    print("\n### d = 2: k and w together (depth 20), error * 1e4")
    choices = ((256, 1024), (1024, 4096), (4096, 4096), (4096, 16384))
    header("n", "data", *(f"k = {k}, w = {w}" for k, w in choices))
    for n in (10_000, 100_000, 1_000_000):
        for d in sets(2, n)[1:]:
            cells = [privhp(d, k, w, depth=20, repeats=repeats) for k, w in choices]
            row(f"{n:.0e}", d.name, *cells)


def by_variant(dimensions: int, repeats: int, n: int) -> None:
    print(f"\n### d = {dimensions}: variants (k = 256, n = {n:.0e}, depth 20), error * 1e4")
    variants = {
        "w = 4096": (4096, 1, "optimal"),
        "uniform split": (4096, 1, "uniform"),
        "3 rows of 1365": (1365, 3, "optimal"),
        "5 rows of 819": (819, 5, "optimal"),
    }
    header("data", *variants)
    for data in sets(dimensions, n):
        cells = [
            privhp(data, 256, w, depth=20, repeats=repeats, rows=rows, split=split)  # type: ignore[arg-type]
            for w, rows, split in variants.values()
        ]
        row(data.name, *cells)


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
    return float(min(bench.timed(job)["seconds"] for _ in range(times)))


def cost() -> None:
    """Memory and speed as k and the width change. "Growth" is what follows the noise."""
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


TABLES: dict[str, Callable[[int], object]] = {
    "size": lambda repeats: [by_size(d, repeats) for d in (1, 2)],
    "hot": lambda repeats: [by_hot(1, repeats, 1_000_000), by_hot(2, repeats, 100_000)],
    "width": lambda repeats: [by_width(1, repeats, 1_000_000), by_width(2, repeats, 100_000)],
    "memory": lambda repeats: (
        by_memory(min(2, repeats)),
        in_the_square(min(2, repeats)),
    ),
    "depth": lambda repeats: [by_depth(d, repeats) for d in (1, 2)],
    "cost": lambda repeats: cost(),
    "variant": lambda repeats: [by_variant(1, repeats, 100_000), by_variant(2, repeats, 100_000)],
}


if __name__ == "__main__":
    given = bench.options(repeats=3, only=tuple(TABLES))
    for name in [given.only] if given.only else TABLES:
        begun = time.perf_counter()
        TABLES[name](given.repeats)
        print(f"\n({name}: {time.perf_counter() - begun:.0f} s)", flush=True)
