"""Turn the rows of a statement that counted nodes or cells into counts. Private."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpframe.counts import CellCounts, Counts, CountTree, Ints, python_integers
from dpframe.hierarchy import Hierarchy
from dpframe.sources.cell_leaves import cell_result_columns, one_to, places_in


def counts_of(
    table: pa.Table, hierarchy: Hierarchy, types: tuple[str, ...] = (), sums: Sequence[str] = ()
) -> Counts:
    """The counts in the rows of ``rollup_statement``: nodes in preorder, or nodes of dimensions and
    groups."""
    if hierarchy.has_cells:
        return _cells_of(table, hierarchy, types, sums)
    return tree_of(table, types, sums)


def tree_of(table: pa.Table, types: tuple[str, ...] = (), sums: Sequence[str] = ()) -> CountTree:
    """The tree in rows in preorder: level, n, keys and ``sums``."""
    return CountTree.from_preorder(
        level=_int64_values(table["level"]),
        count=_int64_values(table["n"]),
        keys=tuple(table[name] for name in table.column_names[2:] if name not in sums),
        types=types,
        sums=tuple(table[name] for name in sums),
    )


def _cells_of(
    table: pa.Table, cells: Hierarchy, types: tuple[str, ...], sums: Sequence[str]
) -> CellCounts:
    """The counts in the rows of ``sources.cell_leaves``, which come in any order.

    Raises SourceError where the groups do not add up to the nodes.
    """
    names = cell_result_columns(cells)
    number = _int64_values(table[names[0]])
    rows = _take_rows(table, np.flatnonzero(number == 0))
    own = _int64_values(rows["n"])
    found = [
        _dimension_axis(table, cells, d, np.flatnonzero(number == d), int(own.sum()))
        for d in one_to(len(cells.dimensions))
    ]
    placed = [
        _positions_among(_int64_values(rows[names[d]]), known).astype(np.int32)
        for d, (_, known) in enumerate(found, 1)
    ]
    return CellCounts(
        axes=tuple(axis for axis, _ in found),
        places=tuple(placed),
        own_counts=own,
        types=types,
        own_sums=tuple(python_integers(rows[name]) for name in sums),
    ).check_sums()


def _dimension_axis(
    table: pa.Table, cells: Hierarchy, dimension: int, here: Ints, total: int
) -> tuple[CountTree, Ints]:
    """The axis of a dimension and the places of its nodes, from the rows ``here``. Both begin with
    the root: place 0, and the ``total`` of all groups."""
    names, wide = cell_result_columns(cells), places_in(cells)
    rows = _take_rows(table, here)
    level, place = _int64_values(rows["level"]), _int64_values(rows[names[1]])
    order = np.lexsort([place, level])  # whatever the order of the rows
    rows = rows.take(order)
    own = np.concatenate([[0], place[order]])
    texts = names[1 + wide : 1 + wide + cells.dimensions[dimension - 1].key_width]
    axis = CountTree(
        level=np.concatenate([[0], level[order]]),
        parent=np.concatenate([[-1], _positions_among(_int64_values(rows[names[2]]), own)]),
        count=np.concatenate([[total], _int64_values(rows["n"])]),
        keys=tuple(_below_root(rows[name]) for name in texts),
    )
    return axis, own


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
