"""True counts of the cells of several hierarchies, on the private side of a release; and what a
mechanism releases of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe.errors import SourceError

Ints = NDArray[np.int64]
Places = NDArray[np.int32]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Axis:
    """Nodes of one dimension that reach the band, the root first, every one behind its parent.

    ``level`` and ``parent`` have shape (n,); ``keys`` are columns of texts of length n.
    """

    level: Ints
    parent: Ints
    keys: tuple[pa.ChunkedArray, ...]

    def __repr__(self) -> str:
        return "Axis(<private>)"

    @cached_property
    def above(self) -> Ints:
        """Shape (n, levels + 1): for every node its ancestor at every level, itself at its own
        level, -1 at deeper levels."""
        table = np.full((len(self.level), int(self.level.max(initial=0)) + 1), -1, dtype=np.int64)
        table[0, 0] = 0
        for depth in range(1, table.shape[1]):
            here = np.flatnonzero(self.level == depth)
            table[here] = table[self.parent[here]]
            table[here, depth] = here
        return table

    def at(self, level: int) -> Places:
        """For every node its ancestor at a level, -1 where there is none."""
        if level >= self.above.shape[1]:
            return np.full(len(self.level), -1, dtype=np.int32)
        return self.above[:, level].astype(np.int32)

    def ranks_at(self, level: int) -> tuple[Places, int]:
        """For every node the rank of its ancestor at a level among the nodes of that level, -1
        where there is none; and how many nodes the level has."""
        here = self.level == level
        rank = (np.cumsum(here) - 1).astype(np.int32)
        nodes = self.at(level)
        return np.where(nodes >= 0, rank[nodes], np.int32(-1)), int(here.sum())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class CellCounts:
    """Disjoint groups of records: how many, and the finest node of each dimension above them.

    Parameters
    ----------
    axes
        The nodes of every dimension.
    places
        For every dimension int32, shape (groups,): positions in its axis.
    count
        int64, shape (groups,); units of the plan's grid.
    types
        DuckDB's types of the columns that are read. Public.
    sums
        What else was added up: for each a column of whole numbers of any size, shape (groups,).
    """

    axes: tuple[Axis, ...]
    places: tuple[Places, ...]
    count: Ints
    types: tuple[str, ...] = ()
    sums: tuple[NDArray[np.object_], ...] = ()

    def __repr__(self) -> str:
        return "CellCounts(<private>)"

    @classmethod
    def checked(
        cls,
        axes: tuple[Axis, ...],
        of_nodes: tuple[Ints, ...],
        places: tuple[Places, ...],
        count: Ints,
        types: tuple[str, ...] = (),
        sums: tuple[NDArray[np.object_], ...] = (),
    ) -> CellCounts:
        """Counts, after a check that the groups add up to what every node counts: a record in two
        groups would pay twice. Raises SourceError if they do not."""
        for axis, counted, place in zip(axes, of_nodes, places, strict=True):
            of_groups = np.zeros(len(axis.level), dtype=np.int64)
            np.add.at(of_groups, place, count)
            for depth in range(int(axis.level.max(initial=0)), 0, -1):
                here = np.flatnonzero(axis.level == depth)
                np.add.at(of_groups, axis.parent[here], of_groups[here])
            if (of_groups[1:] != counted[1:]).any():
                raise SourceError(
                    "the cells do not add up. The source changed while it was read, or the "
                    "database compares values in a way unknown to dpframe."
                )
        return cls(axes=axes, places=places, count=count, types=types, sums=sums)


def segments(
    cells: CellCounts,
    kinds: Sequence[tuple[int, ...]],
    keys: Sequence[tuple[pa.ChunkedArray, ...]],
) -> Ints:
    """The part of every group: the place of the first reported cell that has it, 0 for the rest.

    ``kinds`` and ``keys``, by dimension, belong to the reported cells, which are public: first the
    rest, then the cells in the reverse of the order in which they were asked.
    """
    part = np.zeros(len(cells.count), dtype=np.int64)
    free = np.ones(len(cells.count), dtype=np.bool_)
    texts = [list(zip(*(k.to_pylist() for k in own), strict=True)) for own in keys]
    nodes = [_places_by_key(axis) for axis in cells.axes]
    for kind in sorted(set(kinds[1:]), key=kinds.index, reverse=True):
        here = [place for place, own in enumerate(kinds) if own == kind]
        # cells and groups by the numbers of their nodes; of the first dimensions, then of one more
        own, group = np.zeros(len(here), dtype=np.int64), np.zeros(len(part), dtype=np.int64)
        inside = free.copy()
        for d, level in enumerate(kind):
            if not level:
                continue
            at = np.array([nodes[d][level, texts[d][place]] for place in here], dtype=np.int64)
            lines = cells.axes[d].at(level)[cells.places[d]].astype(np.int64)
            wide = len(cells.axes[d].level)
            pairs, own = np.unique(own * wide + at, return_inverse=True)
            asked = group * wide + lines
            group = np.minimum(np.searchsorted(pairs, asked), len(pairs) - 1)
            inside &= (lines >= 0) & (pairs[group] == asked)
        place_of = np.zeros(len(here), dtype=np.int64)
        place_of[own] = here
        part[inside] = place_of[group[inside]]
        free &= ~inside
    return part


def _places_by_key(axis: Axis) -> dict[tuple[int, tuple[str | None, ...]], int]:
    """The places of nodes by level and key."""
    texts = zip(*(key.to_pylist() for key in axis.keys), strict=True)
    return {pair: i for i, pair in enumerate(zip(axis.level.tolist(), texts, strict=True))}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoisyCells:
    """What a mechanism released, one entry a reported cell; last the total, if reported. Public.

    ``kind`` is the position of the cell's kind in the order in which kinds are asked; for the total
    it is the number of kinds. ``keys`` are the texts of the cell's node in every dimension.
    ``residual``, and ``count`` where whole counts are released, are in units of the grid.
    """

    kind: Ints
    residual: Ints
    keys: tuple[tuple[pa.ChunkedArray, ...], ...]
    count: Ints | None = None
