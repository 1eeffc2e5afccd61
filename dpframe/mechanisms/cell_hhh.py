"""Heavy hitters among the cells of several hierarchies, with bounded integer noise.

Source: the offline mechanism (:mod:`dpframe.mechanisms.offline_hhh`); its path is a special case.
Neighbours: one record, or the shares of one user. Kinds of cells are asked one after the other. The
order is public, and no kind comes before a kind that refines it. *The first selected cell takes all
of its records that no cell has taken yet.* So the residual of every cell above a record moves by at
most 1 until the record is taken, the residual of every other cell does not move, and a record has
at most one cell of a kind. Therefore the recursion over a path holds with the number of kinds in
the place of its height (docs/guarantees.md).

Records whose cell is below the band stay: that cell is not selected, and they count for the cells
above it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpframe.cell_counts import CellCounts, Ints, NoisyCells
from dpframe.hierarchy import Kind
from dpframe.noise import NoiseTable

Groups = NDArray[np.int64]
"""Positions of groups of records."""

DENSE = 4
"""Cells are counted in a table of all possible cells if there are at most this many times as many
possible cells as groups, or at most a million."""


def run(
    cells: CellCounts,
    *,
    kinds: Sequence[Kind],
    test: NoiseTable,
    release: NoiseTable,
    threshold: int,
    remainder: bool,
    band: int = 1,
    totals: NoiseTable | None = None,
) -> NoisyCells:
    """Select cells, finest first, and release their residuals; all quantities in units of the grid.

    No noise lifts a cell below the ``band`` over the threshold. With ``totals`` the whole counts of
    the selected cells are released, too, each with a draw of ``totals``. The selection is public by
    then. A record is in one cell of each kind, and in the total. So it moves at most one whole
    count for each kind, and one more, each by 1.
    """
    kind, nodes, residual = select(
        cells, kinds=kinds, test=test, threshold=threshold, remainder=remainder, band=band
    )
    count = None
    if totals is not None:
        count = whole_counts(cells, kinds, kind, nodes) + totals.draw(len(kind))
    return NoisyCells(
        kind=kind,
        residual=residual + release.draw(len(residual)),
        keys=tuple(
            tuple(column.take(nodes[:, number]) for column in axis.keys)
            for number, axis in enumerate(cells.axes)
        ),
        count=count,
    )


def whole_counts(cells: CellCounts, kinds: Sequence[Kind], kind: Ints, nodes: Ints) -> Ints:
    """Count all records of the given cells, also those taken by other cells. Private."""
    count = np.full(len(kind), cells.count.sum(), dtype=np.int64)
    for place in np.unique(kind[kind < len(kinds)]).tolist():
        here = np.flatnonzero(kind == place)
        inside = np.ones(len(cells.count), dtype=np.bool_)
        pairs = list(zip(cells.axes, cells.places, kinds[place], strict=True))
        for number, (axis, places, level) in enumerate(pairs):
            named = np.zeros(len(axis.level), dtype=np.bool_)
            named[nodes[here, number]] = True
            line = axis.at(level)
            inside &= ((line >= 0) & named[line])[places]
        groups = np.flatnonzero(inside)
        cell, size = _cell_numbers(cells, kinds[place], groups)
        whole = _records_by_cell(cells, groups, cell, size)
        asked = np.flatnonzero(whole)
        found, _ = _nodes_and_groups(cells, kinds[place], groups, cell, asked, size)
        by_nodes = dict(zip(map(tuple, found.tolist()), whole[asked].tolist(), strict=True))
        count[here] = [by_nodes[tuple(one)] for one in nodes[here].tolist()]
    return count


def select(
    cells: CellCounts,
    *,
    kinds: Sequence[Kind],
    test: NoiseTable,
    threshold: int,
    remainder: bool,
    band: int = 1,
) -> tuple[Ints, Ints, Ints]:
    """Return the kinds of the selected cells, their nodes (one column a dimension), and their true
    residuals, which are private."""
    able = _groups_at_band(cells, kinds, band)
    free, found = np.ones(len(cells.count), dtype=np.bool_), list[tuple[Ints, Ints, Ints]]()
    for number, kind in enumerate(kinds):
        groups = np.flatnonzero(able[number] & free)
        cell, size = _cell_numbers(cells, kind, groups)
        residual = _records_by_cell(cells, groups, cell, size)
        asked = np.flatnonzero(residual >= max(band, 1))  # numbers without a cell have no records
        top = asked[residual[asked] + test.draw(len(asked)) >= threshold]
        nodes, taken = _nodes_and_groups(cells, kind, groups, cell, top, size)
        found.append((np.full(len(top), number), nodes, residual[top]))
        free[taken] = False  # by the first selected cell
    if remainder:
        rest = np.array([cells.count[free].sum()], dtype=np.int64)
        found.append((np.array([len(kinds)]), np.zeros((1, len(cells.axes)), dtype=np.int64), rest))
    numbers, nodes_of, residuals = zip(*found, strict=True)
    return (
        np.concatenate(numbers).astype(np.int64),
        np.concatenate(nodes_of),
        np.concatenate(residuals),
    )


def _groups_at_band(cells: CellCounts, kinds: Sequence[Kind], band: int) -> list[NDArray[np.bool_]]:
    """Return for every kind a mask of the groups whose cell may reach the band; other cells do not.

    Where that saves work, cells are counted: those whose coarser cells may all reach the band.
    """
    able: list[NDArray[np.bool_]] = []
    sparse = not _dense(cells.count, _possible_cells(cells))  # else checks cost as much as asking
    for place in range(len(kinds) - 1, -1, -1):
        kind = kinds[place]
        inside = np.ones(len(cells.count), dtype=np.bool_)
        for number, level in enumerate(kind):
            alone = tuple(level if d == number else 0 for d in range(len(kind)))
            if level and (alone == kind or alone not in kinds):  # else ``alone`` decides, below
                axis, places = cells.axes[number], cells.places[number]
                inside &= (axis.at(level) >= 0)[places]
        for other, known in zip(kinds[:place:-1], able, strict=True):
            if all(a <= b for a, b in zip(other, kind, strict=True)):
                inside &= known
        # a node of one dimension reaches the band; the first kind is counted when it is asked, and
        # no kind is finer
        if sparse and band > 1 and place and sum(map(bool, kind)) > 1:
            groups = np.flatnonzero(inside)
            cell, size = _cell_numbers(cells, kind, groups)
            inside[groups] = (_records_by_cell(cells, groups, cell, size) >= band).take(cell)
        able.append(inside)
    return able[::-1]


def _cell_numbers(cells: CellCounts, kind: Kind, groups: Groups) -> tuple[Ints, int]:
    """Number the cell of every group, in the order of nodes; return the numbers and their bound.

    In a small table some numbers below the bound have no cell.
    """
    code, size = _cell_codes(cells, kind, groups)
    return (code, size) if _dense(code, size) else _dense_ranks(code, size)


def _nodes_and_groups(
    cells: CellCounts, kind: Kind, groups: Groups, cell: Ints, top: Ints, size: int
) -> tuple[Ints, Groups]:
    """Return the nodes of the cells ``top``, one column a dimension, and the groups in them."""
    chosen, one = np.zeros(size, dtype=np.bool_), np.empty(size, dtype=np.int64)
    chosen[top] = True
    inside = np.flatnonzero(chosen.take(cell))
    taken = groups[inside]
    one[cell[inside]] = taken  # any group of the cell
    pairs = zip(cells.axes, cells.places, kind, strict=True)
    nodes = [axis.at(level)[places[one[top]]] for axis, places, level in pairs]
    return np.stack(nodes, axis=1), taken


def _possible_cells(cells: CellCounts) -> int:
    """Return how many cells one kind can have at most."""
    return math.prod(
        max(axis.ranks_at(level)[1] for level in range(int(axis.level.max()) + 1))
        for axis in cells.axes
    )


def _cell_codes(cells: CellCounts, kind: Kind, groups: Groups) -> tuple[Ints, int]:
    """Return a code for the cell of every group, and how many codes are possible."""
    code, size = np.zeros(len(groups), dtype=np.int64), 1
    for axis, places, level in zip(cells.axes, cells.places, kind, strict=True):
        if not level:
            continue
        rank, number = axis.ranks_at(level)
        if size == 1:
            code = rank.astype(np.int64).take(_take_groups(places, groups))
        else:
            if size * number >= 2**62:
                code, size = _dense_ranks(code, size)
            code *= number
            code += rank.take(_take_groups(places, groups))
        size *= number
    return code, size


def _records_by_cell(cells: CellCounts, groups: Groups, cell: Ints, number: int) -> Ints:
    """Return how many records of these groups each cell has."""
    added = np.zeros(number, dtype=np.int64)
    np.add.at(added, cell, _take_groups(cells.count, groups))
    return added


def _take_groups(column: NDArray[Any], groups: Groups) -> NDArray[Any]:
    """Take the values of ``groups``; without a copy if these are all groups."""
    return column if len(groups) == len(column) else column.take(groups)


def _dense(code: Ints, size: int) -> bool:
    """Whether a table of all numbers below ``size`` is worth its memory."""
    return size <= max(DENSE * len(code), 2**20)


def _dense_ranks(code: Ints, size: int) -> tuple[Ints, int]:
    """Return the ranks of numbers below ``size``, and how many different numbers there are."""
    if not _dense(code, size):
        different, rank = np.unique(code, return_inverse=True)
        return rank, len(different)
    there = np.zeros(size, dtype=np.bool_)
    there[code] = True
    place = np.cumsum(there) - 1
    return place.take(code), int(there.sum())
