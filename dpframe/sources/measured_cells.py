"""Count the rows of any source into what a rollup measures on segments of cells. Private."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpframe.budget import PrivacyUnit
from dpframe.cell_counts import CellCounts, segments
from dpframe.hierarchy import Cells
from dpframe.sources.exact_trees import cell_counts
from dpframe.sources.node_places import ReportedNodes
from dpframe.sources.rollup_parts import ROWS, sums_of, vectors_from_sums
from dpframe.sources.row_parts import RowParts
from dpframe.sources.spark import is_spark
from dpframe.sources.spark_counts import cells_by_spark
from dpframe.vectors import Vector


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class MeasuredCells(RowParts):
    """Rows whose cells are counted. Sums of these rows are taken later, when segments are known.

    ``sums`` names the sums that another engine counted together with the cells, which it does for
    records if bounds are known before; None if no engine did.
    """

    cells: CellCounts
    sums: tuple[str, ...] | None = None

    def parts(
        self, vectors: Sequence[Vector], nodes: ReportedNodes, chosen: NDArray[np.int64]
    ) -> list[NDArray[np.object_]]:
        """For every vector, an array with one number per segment; empty without vectors."""
        if not vectors:
            return []
        if self.sums is not None and set(sums_of(vectors)) == set(self.sums):
            return self._of_groups(self.sums, vectors, nodes)
        return self.of_rows(vectors, nodes)

    def _of_groups(
        self, names: Sequence[str], vectors: Sequence[Vector], nodes: ReportedNodes
    ) -> list[NDArray[np.object_]]:
        """Vectors from the sums of groups, by name; all records of a group are in one segment."""
        cells = self.hierarchy
        assert isinstance(cells, Cells)
        kinds = [(0,) * len(cells.of), *reversed(cells.kinds)]
        keys = cells.by_keys(nodes.keys)
        part = segments(self.cells, [kinds[level] for level in nodes.level.tolist()], keys)
        held = {}
        for name, values in zip((ROWS, *names), (self.cells.count, *self.cells.sums), strict=True):
            held[name] = np.zeros(len(nodes.level), dtype=object)
            np.add.at(held[name], part, values.astype(object))
        return vectors_from_sums(held, vectors)


def measured_cells(
    source: object,
    cells: Cells,
    unit: PrivacyUnit,
    band: int,
    vectors: Sequence[Vector] = (),
    *,
    progress: bool = False,
) -> MeasuredCells:
    """What a rollup of cells starts from. ``unit`` decides which cells are selected, and
    ``vectors`` are the vectors whose bounds are known."""
    if is_spark(source) and unit.user is None:  # one statement is enough for records
        sums = sums_of(vectors)
        counted = cells_by_spark(source, cells, unit, band, sums=sums)
        return replace(cells_counted_elsewhere(counted, tuple(sums), cells), source=source)
    return MeasuredCells(
        cells=cell_counts(source, cells, unit, band, progress=progress),
        source=source,
        hierarchy=cells,
        unit=PrivacyUnit(user=unit.user),
        progress=progress,
    )


def cells_counted_elsewhere(
    counted: CellCounts, sums: tuple[str, ...], cells: Cells
) -> MeasuredCells:
    """Cells of records that another engine counted, with all ``sums`` that the measures need."""
    return MeasuredCells(
        cells=counted,
        sums=sums,
        source=None,
        hierarchy=cells,
        unit=PrivacyUnit(),
        progress=False,
    )
