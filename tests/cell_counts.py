"""The fast side of a comparison: cells as a release counts them, read back cell by cell."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpframe.budget import PrivacyUnit
from dpframe.counts import Counts
from dpframe.hierarchy import Cells, Kind
from dpframe.mechanisms.offline_hhh import select
from dpframe.sources.exact_trees import exact_counts
from tests.naive import Path
from tests.naive_cells import Cell

RECORDS = PrivacyUnit()


class Silent:
    """In place of a NoiseTable: no noise."""

    def draw(self, n: int) -> np.ndarray:
        return np.zeros(n, dtype=np.int64)


def nodes(counts: Counts, cells: Cells) -> list[list[Path]]:
    """The path of every node of every dimension."""
    found = []
    for one, axis in zip(cells.of, counts.axes, strict=True):
        texts = list(zip(*(key.to_pylist() for key in axis.keys), strict=True))
        paths: list[Path] = [()]
        for place in range(1, len(axis.level)):
            level, parent = int(axis.level[place]), int(axis.parent[place])
            key: Any = None if texts[place][0] is None else one.label(level, texts[place])
            if one.kind == "columns":
                key = texts[place][level - 1]
            assert len(paths[parent]) == level - 1
            paths.append((*paths[parent], key))
        assert len(set(paths)) == len(paths)
        found.append(paths)
    return found


def reported(
    source: object,
    cells: Cells,
    *,
    threshold: int,
    band: int = 1,
    unit: PrivacyUnit = RECORDS,
    kinds: tuple[Kind, ...] | None = None,
) -> dict[tuple[int, Cell], int]:
    """What cells report without noise, from the statement and the mechanism of every release."""
    counts = exact_counts(source, cells, unit, band)
    paths = nodes(counts, cells)
    kind, places, residual = select(
        counts,
        kinds=cells.kinds if kinds is None else kinds,
        test=Silent(),  # type: ignore[arg-type]
        threshold=threshold,
        remainder=True,
        band=band,
    )
    named = (
        (k, tuple(paths[i][place] for i, place in enumerate(row)))
        for k, row in zip(kind.tolist(), places.tolist(), strict=True)
    )
    return dict(zip(named, residual.tolist(), strict=True))
