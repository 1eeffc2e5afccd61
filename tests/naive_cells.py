"""The slow, obvious twin of cells: every record by itself, every cell by its labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from dpframe.hierarchy import Cells
from tests.naive import Path, row_path

Cell = tuple[Path, ...]
"""The node of every dimension, ``()`` where it is rolled up."""


def paths_of(cells: Cells, row: Sequence[Any]) -> tuple[Path, ...] | None:
    """The nodes of a record in every dimension; None for one that is dropped."""
    found, start = [], 0
    for one in cells.of:
        width = len(one.source_columns)
        path = row_path(one, row[start : start + width])
        if one.on_invalid == "drop" and None in path:
            return None
        found.append(path)
        start += width
    return tuple(found)


def cell_of(paths: tuple[Path, ...], kind: Sequence[int]) -> Cell | None:
    """The cell of a kind above a record; None where the record has not so many levels."""
    if any(len(path) < level for path, level in zip(paths, kind, strict=True)):
        return None
    return tuple(path[:level] for path, level in zip(paths, kind, strict=True))


def whole_counts(cells: Cells, rows: Iterable[Sequence[Any]]) -> dict[int, dict[Cell, int]]:
    """Records in every cell of every kind, by the place of the kind."""
    counts: dict[int, Counter[Cell]] = {place: Counter() for place in range(len(cells.kinds))}
    for row in rows:
        paths = paths_of(cells, row)
        for place, kind in enumerate(cells.kinds):
            cell = None if paths is None else cell_of(paths, kind)
            if cell is not None:
                counts[place][cell] += 1
    return {place: dict(found) for place, found in counts.items()}


def segments(
    kinds: Sequence[Sequence[int]],
    records: Mapping[tuple[Path, ...], int | Fraction],
    selected: Callable[[int, Cell, Any], bool],
) -> dict[tuple[int, Cell], Any]:
    """What every selected cell takes, kind by kind, and what is left for the total: ``selected`` is
    asked for every cell with something left."""
    free, found = dict(records), {}
    for place, kind in enumerate(kinds):
        left: dict[Cell, Any] = {}
        for paths, n in free.items():
            cell = cell_of(paths, kind)
            if cell is not None:
                left[cell] = left.get(cell, 0) + n
        taken = {cell for cell, n in left.items() if n > 0 and selected(place, cell, n)}
        found |= {(place, cell): left[cell] for cell in taken}
        free = {paths: n for paths, n in free.items() if cell_of(paths, kind) not in taken}
    found[len(kinds), ((),) * len(kinds[0])] = sum(free.values())
    return found
