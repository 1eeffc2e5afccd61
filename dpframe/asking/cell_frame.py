"""Reported cells as a frame: a label and a level a dimension, whole numbers, intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pandas as pd
import pyarrow as pa

from dpframe import _compute as pc
from dpframe.asking.frame import rounded
from dpframe.cells import Ints, NoisyCells
from dpframe.hierarchy import ROOT, Hierarchy
from dpframe.hierarchy._cells import BETWEEN
from dpframe.postprocess.level_values import natural_order, text_column

if TYPE_CHECKING:
    from dpframe.budget import PrivacyUnit
    from dpframe.hierarchy import Cells


class OfCells(Protocol):
    """What has to be known of a plan."""

    @property
    def cells(self) -> Cells: ...

    @property
    def grid(self) -> int: ...

    @property
    def unit(self) -> PrivacyUnit: ...

    @property
    def total_half_width(self) -> int:
        """Of the interval for a whole count, in units."""

    def half_width(self, terms: int) -> int:
        """Of the interval for a count of that many releases, in units."""


def cell_frame(noisy: NoisyCells, plan: OfCells) -> pd.DataFrame:
    """Columns level, prefix, for every dimension its label, ``*`` where it is rolled up, and its
    level, then residual, lower and upper.

    ``level`` numbers the kinds of cells from the last one asked, 1, to the first, which is the
    finest; 0 is the total. Rows are in its order, and of one kind in the order of the values,
    dimension after dimension.
    """
    level = len(plan.cells.kinds) - noisy.kind
    order, shown = cell_columns(plan.cells, level, noisy.keys)
    names = ("residual", "lower", "upper")
    shown |= numbers(noisy.residual[order], plan, plan.half_width(1), names)
    if noisy.count is not None:
        names = ("count", "count_lower", "count_upper")
        shown |= numbers(noisy.count[order], plan, plan.total_half_width, names)
    return pd.DataFrame(shown)


def cell_columns(
    cells: Cells, level: Ints, keys: Sequence[Sequence[pa.ChunkedArray]]
) -> tuple[Ints, dict[str, object]]:
    """The order of cells, and their columns in it: level, prefix, two a dimension; ``keys`` are
    those of every dimension."""
    depth = np.array([*cells.kinds, (0,) * len(cells.of)], dtype=np.int64)[len(cells.kinds) - level]
    found = [
        _labels(one, depth[:, i], own)
        for i, (one, own) in enumerate(zip(cells.of, keys, strict=True))
    ]
    order = np.lexsort([*(rank for _, rank in reversed(found)), level])
    parts = [
        pc.if_else(pa.array(depth[:, i] > 0), label, None) for i, (label, _) in enumerate(found)
    ]
    parts[0] = pc.if_else(pa.array(level > 0), parts[0], ROOT)  # Arrow drops rows without any part
    prefix = pc.binary_join_element_wise(*parts, BETWEEN, null_handling="skip")
    shown: dict[str, object] = {"level": level[order], "prefix": text_column(prefix.take(order))}
    for i, (name, (label, _)) in enumerate(zip(cells.names, found, strict=True)):
        shown[name] = text_column(label.take(order))
        shown[f"{name}_level"] = depth[order, i]
    return order, shown


def _labels(one: Hierarchy, depth: Ints, keys: Sequence[pa.ChunkedArray]) -> tuple[pa.Array, Ints]:
    """The labels of nodes of a dimension, and their ranks: equal for equal nodes, of which each is
    named and sorted once, in however many cells it is."""
    node = depth
    for key in keys:
        coded = key.combine_chunks().dictionary_encode("encode").indices.to_numpy()
        _, node = np.unique(node * (len(depth) + 1) + coded, return_inverse=True)
    _, once, node = np.unique(node, return_index=True, return_inverse=True)
    own, level = tuple(key.take(once) for key in keys), depth[once]
    labels = one.labels(level, own)
    rank = np.empty(len(once), dtype=np.int64)
    rank[natural_order(one, level, labels, own)] = np.arange(len(once))
    return labels.take(node), rank[node]


def numbers(
    units: Ints, plan: OfCells, half: int, names: tuple[str, str, str]
) -> dict[str, object]:
    """A number and the ends of its interval, by name."""
    ends = {names[0]: units, names[1]: units - half, names[2]: units + half}
    if plan.unit.measured:
        return {name: end * (plan.unit.worth / plan.grid) for name, end in ends.items()}
    whole = (
        rounded(units, plan.grid),
        ends[names[1]] // plan.grid,
        -(-ends[names[2]] // plan.grid),
    )
    return dict(zip(names, whole, strict=True))
