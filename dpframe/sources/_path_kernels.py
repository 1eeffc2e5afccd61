"""Compiled code that splits the bytes of paths at a separator of one byte."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpframe.sketches._kernels import compile_loop

Bytes = NDArray[np.uint8]


Words = NDArray[np.int64]


@compile_loop
def split_paths(
    data: Bytes,
    starts: Words,
    separator: int,
    normal: Bytes,
    ends: Words,
    counts: Words,
) -> None:
    """Write paths without empty parts into ``normal``, one after the other.

    Text i is the bytes from ``starts[i]`` to ``starts[i + 1]``. ``counts[i]`` is how many parts
    path i has (at most one less than ``ends`` has columns), or -1 for empty text, which is no path.
    ``ends[i]`` has the place in ``normal`` where path i begins, then where each of its parts ends.
    """
    out = 0
    for i in range(starts.shape[0] - 1):
        n, inside = 0, False
        ends[i, 0] = out
        for j in range(starts[i], starts[i + 1]):
            if data[j] == separator:
                inside = False
                continue
            if not inside:
                if n + 1 == ends.shape[1]:
                    break
                if n:
                    normal[out] = separator
                    out += 1
                inside = True
                n += 1
            normal[out] = data[j]
            out += 1
            ends[i, n] = out
        counts[i] = n if starts[i] < starts[i + 1] else -1


@compile_loop
def path_level_keys(
    normal: Bytes,
    ends: Words,
    counts: Words,
    level: int,
    value: int,
    invalid: int,
    data: Bytes,
    offsets: Words,
) -> int:
    """Write the keys of a level into ``data``, and their ends into ``offsets``. The key of a path
    that reaches the level is the byte ``value``, then the path down to the level; the key of a text
    that is no path is the byte ``invalid``, or no key if ``invalid`` is negative. Returns how many
    keys there are."""
    n, out = 0, 0
    offsets[0] = 0
    for i in range(counts.shape[0]):
        if counts[i] >= level:
            data[out] = value
            out += 1
            for j in range(ends[i, 0], ends[i, level]):
                data[out] = normal[j]
                out += 1
        elif counts[i] < 0 and invalid >= 0:
            data[out] = invalid
            out += 1
        else:
            continue
        n += 1
        offsets[n] = out
    return n
