"""Several measures on the segments of the selected cells of several hierarchies.

Source: the selection of :mod:`dpframe.mechanisms.cell_hhh`, without its counts, then the measures
of :mod:`dpframe.mechanisms.rollup` on parts. A *segment* is what a selected cell holds and no
selected cell of a kind asked before it; the rest of everything is one, too. Given which cells were
selected, segments are a public partition of all records that there can be, whatever band they were
counted with, so that a vector costs what it costs on one part (parallel composition, McSherry,
2009, Theorem 4). Nothing lies above a segment, and nothing above is measured.

Neighbours and accounting: as there, with the number of kinds in the place of the height.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Protocol

import numpy as np

from dpframe.cells import CellCounts
from dpframe.hierarchy import Kind
from dpframe.mechanisms import cell_hhh
from dpframe.mechanisms.measured_parts import PARTS
from dpframe.mechanisms.node_counts import NodeCounts
from dpframe.mechanisms.rollup import (
    Measurable,
    Nodes,
    NoisyRollup,
    Paid,
    Read,
    Searching,
    Selection,
    measured,
)


class CountableCells(Measurable, Protocol):
    """What a rollup of cells starts from. Private."""

    @property
    def cells(self) -> CellCounts: ...


def run(
    counted: CountableCells,
    *,
    kinds: Sequence[Kind],
    selection: Selection,
    band: int,
    paid: Mapping[str, tuple[Paid, ...]],
    read: Mapping[str, Read],
    searching: Mapping[str, Searching],
    counts: Mapping[str, NodeCounts],
) -> NoisyRollup:
    """Select cells, then measure the segment of each and the rest."""
    nodes = reported(counted.cells, kinds, selection, band)
    found = measured(
        counted,
        nodes,
        np.arange(len(nodes.level)),
        weights={PARTS: Fraction(1)},
        paid=paid,
        read=read,
        searching=searching,
        counts=counts,
    )
    return replace(found, weights={})  # no choice, and nothing to tell


def reported(cells: CellCounts, kinds: Sequence[Kind], selection: Selection, band: int) -> Nodes:
    """The rest first, then selected cells; the level of a kind is the larger the earlier it is
    asked, and keys are those of all dimensions side by side."""
    kind, places, _ = cell_hhh.select(
        cells,
        kinds=kinds,
        test=selection.test,
        threshold=selection.threshold,
        remainder=True,
        band=band,
    )
    order = np.argsort(-kind, kind="stable")
    return Nodes(
        level=len(kinds) - kind[order],
        ancestor=np.full(len(kind), -1, dtype=np.int64),
        keys=tuple(
            column.take(places[order, number])
            for number, axis in enumerate(cells.axes)
            for column in axis.keys
        ),
    )
