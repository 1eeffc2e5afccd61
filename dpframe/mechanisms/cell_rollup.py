"""Several measures on the segments of the selected cells of several hierarchies.

Source: the selection of :mod:`dpframe.mechanisms.cell_hhh`, without its counts, then the measures
of :mod:`dpframe.mechanisms.rollup` on parts. A *segment* is the records that a selected cell holds
and that no selected cell of a kind asked before it holds; the rest of all records is a segment,
too. Given which cells were selected, segments are a public partition of all possible records,
whatever band the cells were counted with. So a vector costs what it costs on one part (parallel
composition, McSherry, 2009, Theorem 4). No segment lies above another one, so only segments are
measured.

Neighbours and accounting: as in :mod:`dpframe.mechanisms.rollup`, with the number of kinds in the
place of the height.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Protocol

import numpy as np

from dpframe.cell_counts import CellCounts
from dpframe.hierarchy import Kind
from dpframe.mechanisms import cell_hhh
from dpframe.mechanisms.measured_parts import PARTS
from dpframe.mechanisms.node_counts import DistinctLaw
from dpframe.mechanisms.rollup import (
    BoundSearch,
    Measurable,
    Nodes,
    NoisyRollup,
    Selection,
    SumFromMean,
    VectorCharge,
    measure_nodes,
)


class CountableCells(Measurable, Protocol):
    """The counts and rows that a rollup of cells starts from. Private."""

    @property
    def cells(self) -> CellCounts: ...


def run(
    counted: CountableCells,
    *,
    kinds: Sequence[Kind],
    selection: Selection,
    band: int,
    paid: Mapping[str, tuple[VectorCharge, ...]],
    read: Mapping[str, SumFromMean],
    searching: Mapping[str, BoundSearch],
    counts: Mapping[str, DistinctLaw],
) -> NoisyRollup:
    """Select cells, then measure the segment of each selected cell, and the segment of the rest."""
    nodes = select_cell_nodes(counted.cells, kinds, selection, band)
    found = measure_nodes(
        counted,
        nodes,
        np.arange(len(nodes.level)),
        weights={PARTS: Fraction(1)},
        paid=paid,
        read=read,
        searching=searching,
        counts=counts,
    )
    return replace(found, weights={})  # no choice was made, so there is none to report


def select_cell_nodes(
    cells: CellCounts, kinds: Sequence[Kind], selection: Selection, band: int
) -> Nodes:
    """Select cells and return them as nodes: the rest first, then the selected cells.

    The earlier a kind is asked, the larger is the level of its cells. No cell has an ancestor (-1).
    ``keys`` has the key columns of all dimensions, one dimension after the other.
    """
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
