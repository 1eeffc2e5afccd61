"""Reported cells as a frame: a label and a level for every dimension, numbers and intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dpframe.asking.node_frame import round_to_counts
from dpframe.cell_counts import Ints, NoisyCells
from dpframe.hierarchy import ROOT, Hierarchy
from dpframe.hierarchy._cells import BETWEEN
from dpframe.postprocess.level_values import natural_order, text_column

if TYPE_CHECKING:
    from dpframe.budget import PrivacyUnit
    from dpframe.hierarchy import Cells


class CellFramePlan(Protocol):
    """What a frame of cells needs to know of a plan."""

    @property
    def cells(self) -> Cells: ...

    @property
    def grid(self) -> int: ...

    @property
    def unit(self) -> PrivacyUnit: ...

    @property
    def total_half_width(self) -> int:
        """Half width of the interval for a whole count, in units."""

    def half_width(self, terms: int) -> int:
        """Half width of the interval for a count with ``terms`` draws of noise, in units."""


def cell_frame(noisy: NoisyCells, plan: CellFramePlan) -> pd.DataFrame:
    """Return the columns level and prefix, then for every dimension its label (``*`` where it is
    rolled up) and its level, then residual, lower and upper, and, with whole counts, count,
    count_lower and count_upper.

    ``level`` numbers the kinds of cells: the kind asked last is 1, and the kind asked first, the
    finest, has the largest number; 0 is the total. Rows are sorted by level, then by the values of
    one dimension after the other.
    """
    level = len(plan.cells.kinds) - noisy.kind
    order, shown = cell_columns(plan.cells, level, noisy.keys)
    names = ("residual", "lower", "upper")
    shown |= interval_columns(noisy.residual[order], plan, plan.half_width(1), names)
    if noisy.count is not None:
        names = ("count", "count_lower", "count_upper")
        shown |= interval_columns(noisy.count[order], plan, plan.total_half_width, names)
    return pd.DataFrame(shown)


def cell_columns(
    cells: Cells, level: Ints, keys: Sequence[Sequence[pa.ChunkedArray]]
) -> tuple[Ints, dict[str, object]]:
    """Return the order of cells and their sorted columns: level, prefix, and two per dimension.

    ``keys`` holds the keys of every dimension.
    """
    depth = np.array([*cells.kinds, (0,) * len(cells.of)], dtype=np.int64)[len(cells.kinds) - level]
    found = [
        _node_label_ranks(one, depth[:, i], own)
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


def _node_label_ranks(
    one: Hierarchy, depth: Ints, keys: Sequence[pa.ChunkedArray]
) -> tuple[pa.Array, Ints]:
    """Return the labels of a dimension's nodes, and their ranks.

    Each different node is named and sorted once, however many cells it is in; equal nodes have
    equal ranks.
    """
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


def interval_columns(
    units: Ints, plan: CellFramePlan, half: int, names: tuple[str, str, str]
) -> dict[str, object]:
    """Return the columns of a number and of the ends of its interval, by name."""
    ends = {names[0]: units, names[1]: units - half, names[2]: units + half}
    if plan.unit.measured:
        return {name: end * (plan.unit.worth / plan.grid) for name, end in ends.items()}
    whole = (
        round_to_counts(units, plan.grid),
        ends[names[1]] // plan.grid,
        -(-ends[names[2]] // plan.grid),
    )
    return dict(zip(names, whole, strict=True))
