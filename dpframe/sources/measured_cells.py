"""From whatever holds the rows to what a rollup measures on the segments of cells. Private."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpframe.budget import PrivacyUnit
from dpframe.cells import CellCounts
from dpframe.hierarchy import Cells
from dpframe.sources.counting import cell_counts
from dpframe.sources.located import Reported
from dpframe.sources.row_parts import RowParts
from dpframe.vectors import Vector


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class MeasuredCells(RowParts):
    """Rows whose cells are counted, and what they add up to in segments that are known later."""

    cells: CellCounts

    def parts(
        self, vectors: Sequence[Vector], nodes: Reported, chosen: NDArray[np.int64]
    ) -> list[NDArray[np.object_]]:
        """Every vector, one number a segment."""
        return self.of_rows(vectors, nodes) if vectors else []


def measured_cells(
    source: object, cells: Cells, unit: PrivacyUnit, band: int, *, progress: bool = False
) -> MeasuredCells:
    """What a rollup of cells starts from; ``unit`` is what decides which of them are selected."""
    return MeasuredCells(
        cells=cell_counts(source, cells, unit, band, progress=progress),
        source=source,
        hierarchy=cells,
        unit=PrivacyUnit(user=unit.user),
        progress=progress,
    )
