"""Heavy hitters among the cells of several hierarchies, with bounded integer noise.

Source: the offline mechanism (:mod:`dpframe.mechanisms.offline_hhh`), of which a path is one case.
Neighbours: one record, or the shares of one user. Kinds of cells are asked one after the other, in
an order that is public and in which no kind comes before one that refines it. *The first selected
cell takes all of its records that nobody has taken.* So the residual of every cell above a record
moves by at most 1 until the record is taken, that of no other cell moves, and a record has at most
one cell of a kind: the recursion over a path holds with the number of kinds in the place of its
height (docs/guarantees.md).

Records below the band stay: no cell of theirs is selected at that level, and they count for the
cells above it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpframe.cells import CellCounts, Ints, NoisyCells
from dpframe.hierarchy import Kind
from dpframe.noise import NoiseTable


def run(
    cells: CellCounts,
    *,
    kinds: Sequence[Kind],
    test: NoiseTable,
    release: NoiseTable,
    threshold: int,
    remainder: bool,
) -> NoisyCells:
    """Select and release, finest first; all quantities in units of the grid."""
    kind, nodes, residual = select(
        cells, kinds=kinds, test=test, threshold=threshold, remainder=remainder
    )
    return NoisyCells(
        kind=kind,
        residual=residual + release.draw(len(residual)),
        keys=tuple(
            tuple(column.take(nodes[:, number]) for column in axis.keys)
            for number, axis in enumerate(cells.axes)
        ),
    )


def select(
    cells: CellCounts,
    *,
    kinds: Sequence[Kind],
    test: NoiseTable,
    threshold: int,
    remainder: bool,
) -> tuple[Ints, Ints, Ints]:
    """The kinds of the selected cells, their nodes, one column a dimension, and their true
    residuals, which are private."""
    places, count = cells.places, cells.count
    found: list[tuple[Ints, Ints, Ints]] = []
    for number, kind in enumerate(kinds):
        nodes, group, residual = _residuals(cells, kind, places, count)
        top = (residual > 0) & (residual + test.draw(len(residual)) >= threshold)
        found.append((np.full(int(top.sum()), number), nodes[top], residual[top]))
        free = ~np.append(top, False)[group]  # -1, in no cell, is the last
        places, count = places[free], count[free]
    if remainder:
        rest = np.array([count.sum()], dtype=np.int64)
        found.append((np.array([len(kinds)]), np.zeros((1, len(cells.axes)), dtype=np.int64), rest))
    numbers, nodes_of, residuals = zip(*found, strict=True)
    return (
        np.concatenate(numbers).astype(np.int64),
        np.concatenate(nodes_of),
        np.concatenate(residuals),
    )


def _residuals(cells: CellCounts, kind: Kind, places: Ints, count: Ints) -> tuple[Ints, Ints, Ints]:
    """The cells of a kind: their nodes; of every group of records its cell, -1 where it has none;
    and what is left of each cell."""
    group = np.full(len(count), -1, dtype=np.int64)
    code, inside = np.zeros(len(count), dtype=np.int64), np.ones(len(count), dtype=np.bool_)
    above = []
    for number, (axis, level) in enumerate(zip(cells.axes, kind, strict=True)):
        node = axis.at(level)[places[:, number]]
        above.append(node)
        inside &= node >= 0
    held = np.flatnonzero(inside)
    code = code[held]
    for node in above:
        different, own = np.unique(node[held], return_inverse=True)
        _, code = np.unique(code * len(different) + own, return_inverse=True)
    _, first, cell = np.unique(code, return_index=True, return_inverse=True)
    residual = np.zeros(len(first), dtype=np.int64)
    np.add.at(residual, cell, count[held])
    group[held] = cell
    nodes = np.stack([node[held][first] for node in above], axis=1)
    return nodes, group, residual
