"""Released counts of a tree as a frame, with the columns of every release."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpframe.counts import NoisyTree
from dpframe.hierarchy import OTHER, Hierarchy
from dpframe.postprocess.consistency import consistent_tree, tree_in_records
from dpframe.postprocess.level_values import level_column, natural_order, text_column
from dpframe.postprocess.shown_nodes import label_joint


def tree_frame(
    noisy: NoisyTree,
    hierarchy: Hierarchy,
    types: Sequence[str],
    *,
    grid: int,
    consistent: bool,
    adds_up: bool,
) -> pd.DataFrame:
    """Columns level, prefix, (one a level,) residual, count, lower, upper; in natural order.

    ``residual`` is what no row below covers: the count of a node minus the counts of its children
    in the frame. Residuals add up to the total. Where counts do not add up, the residual is the
    count. The label of an ``<other>`` row is the label of its parent, followed by ``<other>``.
    """
    tree = consistent_tree(noisy, grid) if consistent else tree_in_records(noisy, grid)
    residual = tree.count.copy()
    if adds_up:
        np.subtract.at(residual, tree.parent[1:], tree.count[1:])
    keys = tuple(pc.cast(key, pa.string()) for key in tree.keys)
    labels = _tree_labels(tree, hierarchy, keys)
    order = natural_order(hierarchy, tree.level, labels, keys, types, tree.other)
    level, other = tree.level[order], tree.other[order]
    columns: dict[str, object] = {"level": level, "prefix": text_column(labels.take(order))}
    for depth, name in enumerate(hierarchy.label_columns, 1):
        kind = types[depth - 1] if types else ""
        columns[name] = level_column(keys[depth - 1].take(order), level, depth, kind, other)
    columns["residual"] = residual[order]
    columns["count"] = tree.count[order]
    columns["lower"], columns["upper"] = tree.lower[order], tree.upper[order]
    return pd.DataFrame(columns)


def _tree_labels(
    tree: NoisyTree, hierarchy: Hierarchy, keys: tuple[pa.ChunkedArray, ...]
) -> pa.Array:
    """The labels of nodes. For an ``<other>`` node: its parent's label, followed by ``<other>``."""
    own: NDArray[np.int64] = tree.level - tree.other
    labels = hierarchy.labels(own, keys)
    between = label_joint(hierarchy) or " "
    under_root = pa.array(tree.other & (own == 0))
    below = pc.binary_join_element_wise(labels, OTHER, between)
    named = pc.if_else(pa.array(tree.other), below, labels)
    out = pc.if_else(under_root, OTHER, named)
    return out.combine_chunks() if isinstance(out, pa.ChunkedArray) else out
