"""Count the nodes of a binary tree in small memory: exact near the root, hashed below. Raw data.

This is the passive part of Algorithm 2, which reads the stream, in Holland, Camtepe, Thapa, Xue:
"Private Synthetic Data Generation in Small Memory". No noise is added here;
``mechanisms/privhp_partition.py`` adds noise at the release, so that sketches of several streams
can be added up before the release.

A record is a leaf of a binary tree of depth r: a code of r bits. Its node on level l is the first l
bits. Levels 0..L_k, L_k = floor(log2 k), are counted exactly, and kept as the counts of level L_k.
Each deeper level has its own table of j rows of w cells: count-min for j = 1, else count sketch. A
record moves one cell of each row by one.

Hashes depend on the seed, the level and the row, never on records. The tables of neighbours
therefore differ only in the cells of one record.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpframe.errors import ParameterError, ParameterTypeError
from dpframe.sketches._sketch import check_integer

DEEPEST = 60
"""Most bits of a code."""

LARGEST = 2**27
"""Most cells of all levels together: 1 GiB."""

Codes = NDArray[np.uint64]
Counts = NDArray[np.int64]

_STEP = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio


def splitmix64(x: Codes) -> Codes:
    """Apply the finalizer of splitmix64 (Steele, Lea, Flood, 2014), a permutation of 64-bit
    integers."""
    h = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes and hashes of a sketch, independent of its records. Public.

    Parameters
    ----------
    depth
        r, bits of a code, 1..60.
    hot
        k, nodes of a level that are branched, from 1.
    width
        w, cells of a row.
    rows
        j, rows of a table: odd.
    seed
        Seed of the hashes, 0..2**63 - 1.
    """

    depth: int
    hot: int
    width: int
    rows: int
    seed: int

    def __post_init__(self) -> None:
        most = {"depth": DEEPEST, "hot": LARGEST, "width": LARGEST, "rows": LARGEST}
        for name, high in most.items():
            object.__setattr__(self, name, check_integer(name, getattr(self, name), 1, high))
        object.__setattr__(self, "seed", check_integer("seed", self.seed, 0, 2**63 - 1))
        if self.rows % 2 == 0:
            raise ParameterError(f"rows ({self.rows}) must be odd, for a median.")
        if self.cells > LARGEST:
            raise ParameterError(
                f"the sketch would have {self.cells:.1e} cells, above {LARGEST:.1e}: lower hot, "
                "width or rows."
            )

    @property
    def exact(self) -> int:
        """L_k: the deepest level that is counted exactly."""
        return exact_levels(self.depth, self.hot)

    @property
    def cells(self) -> int:
        """Number of integers that the sketch holds."""
        exact: int = 2**self.exact
        return exact + (self.depth - self.exact) * self.rows * self.width

    def places(self, level: int, prefixes: Codes) -> NDArray[np.int64]:
        """Return the cells of nodes, shape (rows, nodes); ``level`` is below the exact levels."""
        keys = _hash_keys(self.seed, self.depth, self.rows)[level, :, 0]
        high = splitmix64(prefixes[None, :] ^ keys[:, None]) >> np.uint64(32)
        return (high * np.uint64(self.width) >> np.uint64(32)).astype(np.int64)

    def signs(self, level: int, prefixes: Codes) -> NDArray[np.int64]:
        """Return the signs of nodes, 1 or -1, shape (rows, nodes); all 1 for a single row."""
        if self.rows == 1:
            return np.ones((1, len(prefixes)), np.int64)
        keys = _hash_keys(self.seed, self.depth, self.rows)[level, :, 1]
        return 1 - 2 * (splitmix64(prefixes[None, :] ^ keys[:, None]) >> np.uint64(63)).astype(
            np.int64
        )

    def estimates(self, table: Counts, level: int, prefixes: Codes) -> Counts:
        """Estimate the counts of nodes as the median over rows of the table of their level, which
        may be noisy or not."""
        picked = np.take_along_axis(table, self.places(level, prefixes), axis=1)
        picked *= self.signs(level, prefixes)
        median: Counts = np.sort(picked, axis=0)[self.rows // 2]
        return median


def exact_levels(depth: int, hot: int) -> int:
    """Return L_k = floor(log2 hot), at most the depth."""
    return min(depth, hot.bit_length() - 1)


@lru_cache(maxsize=16)
def _hash_keys(seed: int, depth: int, rows: int) -> Codes:
    """Return the hash keys of all levels, shape (depth + 1, rows, 2): the outputs of splitmix64
    from the mixed seed."""
    start = splitmix64(np.array([seed], np.uint64))[0]
    steps = np.arange(1, 2 * rows * (depth + 1) + 1, dtype=np.uint64) * np.uint64(_STEP)
    keys: Codes = splitmix64(start + steps).reshape(depth + 1, rows, 2)
    keys.flags.writeable = False
    return keys


class HotPartition:
    """Counts of the nodes of a binary tree, exact down to level floor(log2 hot), hashed below.

    Parameters
    ----------
    depth
        Bits of a code, r, 1..60.
    hot
        Nodes of a level that a release branches, k, from 1.
    width
        Cells of a row, w, from 1.
    rows
        Rows of a table, j: 1 (count-min) or odd (count sketch).
    seed
        Seed of the hashes, 0..2**63 - 1, chosen before records are seen. Only sketches with equal
        seeds merge.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or the sketch would be larger than 1 GiB.

    Privacy
    -------
    None: the sketch is raw data, and so are its files, its attributes and the results of its
    methods. ``repr`` shows parameters only. The order of records does not matter.

    References
    ----------
    Holland, Camtepe, Thapa, Xue: Private Synthetic Data Generation in Small Memory. Algorithm 2.
    """

    __slots__ = ("_cells", "_shape", "_tables")

    def __init__(self, depth: int, hot: int, width: int, rows: int = 1, *, seed: int) -> None:
        self._shape = Shape(depth, hot, width, rows, seed)
        s = self._shape
        self._cells = np.zeros(2**s.exact, np.int64)
        self._tables = np.zeros((s.depth - s.exact, s.rows, s.width), np.int64)

    def __repr__(self) -> str:
        s = self._shape
        return (
            f"HotPartition(depth={s.depth}, hot={s.hot}, width={s.width}, rows={s.rows}, <private>)"
        )

    @property
    def shape(self) -> Shape:
        """Sizes and hashes. Public."""
        return self._shape

    @property
    def records(self) -> int:
        """Records that went in. Raw data."""
        return int(self._cells.sum())

    @property
    def cells(self) -> Counts:
        """Exact counts of level ``shape.exact``, shape (2**exact,), read-only. Raw data."""
        return _read_only(self._cells)

    @property
    def tables(self) -> Counts:
        """Cells of the levels below, shape (depth - exact, rows, width), read-only. Raw data."""
        return _read_only(self._tables)

    @property
    def memory(self) -> int:
        """Bytes of the counts. Public."""
        return self._cells.nbytes + self._tables.nbytes

    def update(self, codes: Codes) -> None:
        """Count records, each of weight one. Neither order nor batches matter.

        Parameters
        ----------
        codes
            Leaves as unsigned 64-bit integers, most significant bit first, below 2**depth.

        Raises
        ------
        ParameterError, ParameterTypeError
            If the codes are of another type or too large. Then no record is counted.
        """
        if not isinstance(codes, np.ndarray) or codes.dtype != np.uint64 or codes.ndim != 1:
            raise ParameterTypeError("codes must be a one-dimensional array of uint64.")
        if not len(codes):
            return
        if int(codes.max()) >> self._shape.depth:
            raise ParameterError(f"codes must be below 2**{self._shape.depth} (depth).")
        from dpframe.sketches import _kernels as _partition_kernels

        s = self._shape
        keys = _hash_keys(s.seed, s.depth, s.rows)[s.exact + 1 :].copy()
        codes = np.ascontiguousarray(codes)
        _partition_kernels.update_partition(codes, self._cells, self._tables, keys)

    def merge(self, other: HotPartition) -> HotPartition:
        """Return the sketch of both streams together; neither sketch changes.

        Raises
        ------
        ParameterError, ParameterTypeError
            If ``other`` is this very sketch, no HotPartition, or has other sizes or another seed.
        """
        if not isinstance(other, HotPartition):
            raise ParameterTypeError(f"other must be a HotPartition; got {type(other).__name__}.")
        if other is self:
            raise ParameterError("a sketch occurs twice: merge each sketch once.")
        if other._shape != self._shape:
            raise ParameterError(
                "the sketches differ in depth, hot, width, rows or seed: create them with equal "
                "values."
            )
        both = HotPartition(**asdict(self._shape))
        np.add(self._cells, other._cells, out=both._cells)
        np.add(self._tables, other._tables, out=both._tables)
        return both

    @classmethod
    def _restore(cls, facts: dict[str, Any], counts: Counts) -> HotPartition:
        """Make a sketch from a file; ValueError if no sketch can have these counts."""
        shape = Shape(*(facts[name] for name in ("depth", "hot", "width", "rows", "seed")))
        if len(counts) != shape.cells:
            raise ValueError("sizes do not match")
        sketch = cls(**asdict(shape))
        sketch._cells[:] = counts[: len(sketch._cells)]
        sketch._tables.reshape(-1)[:] = counts[len(sketch._cells) :]
        lowest = int(sketch._cells.min())
        if shape.rows == 1:
            lowest = min(lowest, int(sketch._tables.min(initial=0)))
        each = np.abs(sketch._tables).sum(axis=2)
        over = sketch.records - each  # with signs, records in one cell cancel in pairs
        if lowest < 0 or (over < 0).any() or (over % 2).any() or (shape.rows == 1 and over.any()):
            raise ValueError("no sketch has these counters")
        return sketch


def _read_only(counts: Counts) -> Counts:
    view = counts.view()
    view.flags.writeable = False
    return view
