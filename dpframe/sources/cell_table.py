"""Turn the rows of a statement that counted cells into counts: nodes of dimensions, and groups."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpframe.cell_counts import Axis, CellCounts, Ints
from dpframe.hierarchy import Cells
from dpframe.sources.cell_leaves import cell_result_columns, places_in
from dpframe.sources.record_leaves import one_to
from dpframe.tree import python_integers


def cells_of(
    table: pa.Table, cells: Cells, types: tuple[str, ...] = (), sums: Sequence[str] = ()
) -> CellCounts:
    """The counts in the rows of ``sources.cell_leaves``, which come in any order. Private.

    Raises SourceError where the groups do not add up to the nodes.
    """
    names = cell_result_columns(cells)
    number = _int64_values(table[names[0]])
    found = [
        _dimension_axis(table, cells, d, np.flatnonzero(number == d)) for d in one_to(len(cells.of))
    ]
    rows = _take_rows(table, np.flatnonzero(number == 0))
    placed = [
        _positions_among(_int64_values(rows[names[d]]), known).astype(np.int32)
        for d, (_, _, known) in enumerate(found, 1)
    ]
    return CellCounts.checked(
        axes=tuple(axis for axis, _, _ in found),
        of_nodes=tuple(counted for _, counted, _ in found),
        places=tuple(placed),
        count=_int64_values(rows["n"]),
        types=types,
        sums=tuple(python_integers(rows[name]) for name in sums),
    )


def _dimension_axis(
    table: pa.Table, cells: Cells, dimension: int, here: Ints
) -> tuple[Axis, Ints, Ints]:
    """The axis of a dimension, and the counts and places of its nodes, from the rows ``here``. All
    begin with the root: count 0, place 0."""
    names, wide = cell_result_columns(cells), places_in(cells)
    rows = _take_rows(table, here)
    level, place = _int64_values(rows["level"]), _int64_values(rows[names[1]])
    order = np.lexsort([place, level])  # whatever the order of the rows
    rows = rows.take(order)
    own = np.concatenate([[0], place[order]])
    texts = names[1 + wide : 1 + wide + cells.of[dimension - 1].key_width]
    axis = Axis(
        level=np.concatenate([[0], level[order]]),
        parent=np.concatenate([[-1], _positions_among(_int64_values(rows[names[2]]), own)]),
        keys=tuple(_below_root(rows[name]) for name in texts),
    )
    return axis, np.concatenate([[0], _int64_values(rows["n"])]), own


def _take_rows(table: pa.Table, rows: Ints) -> pa.Table:
    """The rows with these ascending numbers; no copy is made if they follow each other."""
    if len(rows) and rows[-1] - rows[0] + 1 == len(rows):
        return table.slice(int(rows[0]), len(rows))
    return table.take(rows)


def _positions_among(wanted: Ints, known: Ints) -> Ints:
    """The position in ``known`` of each wanted place. Most often there are more wanted places than
    numbers up to the last place, and a lookup table of all these numbers is fastest."""
    last = int(known.max())
    if last <= max(4 * len(wanted), 2**16):
        table = np.zeros(last + 1, dtype=np.int64)
        table[known] = np.arange(len(known))
        return table[wanted]
    order = np.argsort(known)
    found: Ints = order[np.searchsorted(known, wanted, sorter=order)]
    return found


def _below_root(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    return pa.chunked_array([pa.nulls(1, pa.string()), *pc.cast(texts, pa.string()).chunks])


def _int64_values(column: pa.ChunkedArray) -> NDArray[np.int64]:
    numbers: NDArray[np.int64] = column.cast(pa.int64()).to_numpy()
    return numbers
