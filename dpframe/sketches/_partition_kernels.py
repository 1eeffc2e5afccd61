"""The inner loop of :class:`dpframe.sketches.hot_partition.HotPartition`. Compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpframe.sketches._compile import compile_inline, compile_loop

BLOCK = 8192
"""Records of a block. Each row counts a whole block before the next row, to stay in the cache."""

_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_27, _30, _31, _32 = (np.uint64(n) for n in (27, 30, 31, 32))
"""Unsigned like hashes: numba would make the sum of signed and unsigned a float."""


@compile_inline
def _splitmix64(x: Any) -> Any:
    """Compute ``hot_partition.splitmix64`` of one integer."""
    h = (x ^ (x >> _30)) * _FIRST
    h = (h ^ (h >> _27)) * _SECOND
    return h ^ (h >> _31)


@compile_loop
def update_partition(
    codes: NDArray[np.uint64],
    cells: NDArray[np.int64],
    tables: NDArray[np.int64],
    keys: NDArray[np.uint64],
) -> None:
    """Count codes.

    Parameters
    ----------
    codes
        Leaves, most significant bit first, below 2**depth.
    cells
        Counts of the deepest exact level. ``tables`` has all levels below it, leaves included.
    tables
        Counters, shape (level, row, cell), coarsest level first.
    keys
        Keys of the hashes, shape (level, row, 2): for cells and for signs.
    """
    levels, rows = tables.shape[0], tables.shape[1]
    width = np.uint64(tables.shape[2])
    for start in range(0, codes.shape[0], BLOCK):
        block = codes[start : start + BLOCK]
        shift = np.uint64(levels)
        for code in block:
            cells[code >> shift] += 1
        for level in range(levels):
            shift = np.uint64(levels - 1 - level)
            for row in range(rows):
                table, key = tables[level, row], keys[level, row, 0]
                if rows == 1:
                    for code in block:
                        h = _splitmix64((code >> shift) ^ key)
                        table[(h >> _32) * width >> _32] += 1
                else:
                    other = keys[level, row, 1]
                    for code in block:
                        h = _splitmix64((code >> shift) ^ key)
                        sign = np.int64(_splitmix64((code >> shift) ^ other) >> _31 >> _32)
                        table[(h >> _32) * width >> _32] += 1 - 2 * sign
