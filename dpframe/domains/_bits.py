"""Weave the bits of several axes into one path, and take them apart, by small tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpframe.domains._axis import Codes

CHUNK = 11
"""Bits that one table moves: its 2048 words stay in the fastest cache."""


@dataclass(frozen=True, eq=False)
class Moves:
    """Tables that move the bits of a number to other places, and drop bits without a place."""

    tables: tuple[Codes, ...]

    @classmethod
    def of(cls, target: Sequence[int]) -> Moves:
        """Make tables that move bit i, from the lowest, to ``target[i]``, or drop it if that is
        negative."""
        tables = []
        for start in range(0, len(target), CHUNK):
            here = target[start : start + CHUNK]
            value = np.arange(1 << len(here), dtype=np.uint64)
            table = np.zeros(len(value), dtype=np.uint64)
            for i, place in enumerate(here):
                if place >= 0:
                    table |= ((value >> np.uint64(i)) & np.uint64(1)) << np.uint64(place)
            tables.append(table)
        return cls(tuple(tables))

    def add(self, numbers: Codes, out: Codes) -> None:
        """Write the moved bits of ``numbers`` into ``out``."""
        for i, table in enumerate(self.tables):
            part = numbers >> np.uint64(i * CHUNK) if i else numbers
            out |= table[(part & np.uint64(len(table) - 1)).view(np.int64)]


def axis_turns(bits: Sequence[int], depth: int) -> tuple[int, ...]:
    """Return the axis of each bit of a path: in turn all axes that have bits left."""
    left, out = list(bits), list[int]()
    while len(out) < depth:
        for axis in range(len(left)):
            if left[axis] and len(out) < depth:
                left[axis] -= 1
                out.append(axis)
    return tuple(out)
