"""Released nodes as a frame: labels, whole numbers, intervals, one order."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpframe.hierarchy import INVALID
from dpframe.plan import Plan
from dpframe.sketch_plan import MergedStreamPlan
from dpframe.tree import NoisyNodes

TEXT = "str" if int(pd.__version__.split(".")[0]) >= 3 else "object"
"""dtype of text columns: pandas 3 has one of its own."""


def tidy(noisy: NoisyNodes, plan: Plan | MergedStreamPlan) -> pd.DataFrame:
    """Columns level, prefix, (one a level,) residual, count, lower, upper; by level and label."""
    hierarchy, grid = plan.hierarchy, plan.grid
    keys = tuple(pc.cast(key, pa.string()) for key in noisy.keys)
    labels = hierarchy.labels(noisy.level, keys)
    order = by_level_and_label(noisy.level, labels, keys)
    level, residual, count = noisy.level[order], noisy.residual[order], noisy.count[order]
    lower, upper = (ends[order] for ends in noisy.bounds or _around(noisy, plan))
    columns: dict[str, object] = {"level": level, "prefix": text_column(labels.take(order))}
    for depth, name in enumerate(hierarchy.label_columns, 1):
        values = pc.fill_null(keys[depth - 1].take(order), INVALID)
        columns[name] = text_column(pc.if_else(pa.array(level >= depth), values, None))
    columns["residual"] = _rounded(residual, grid)
    columns["count"] = _rounded(count, grid)
    columns["lower"] = lower // grid
    columns["upper"] = -(-upper // grid)
    if isinstance(plan, Plan) and plan.by_user_sets:
        columns["upper"] = pd.array([pd.NA] * len(upper), dtype="Int64")
    return pd.DataFrame(columns)


def by_level_and_label(
    level: NDArray[np.int64], labels: pa.Array, keys: tuple[pa.ChunkedArray, ...]
) -> NDArray[np.int64]:
    """By level, then label in code point order; nodes of one label by their keys."""
    names = ["level", "label", *(f"k{i}" for i in range(len(keys)))]
    table = pa.table([pa.array(level), labels, *keys], names=names)
    order: NDArray[np.int64] = pc.sort_indices(
        table, sort_keys=[(name, "ascending") for name in names]
    ).to_numpy()
    return order.astype(np.int64)


def text_column(values: pa.Array | pa.ChunkedArray) -> pd.Series[str]:
    text: pd.Series[str] = values.to_pandas().astype(TEXT).rename(None)
    return text


def _around(
    noisy: NoisyNodes, plan: Plan | MergedStreamPlan
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Intervals for the noise in the counts."""
    different, where = np.unique(noisy.terms, return_inverse=True)
    half = np.array([plan.half_width(int(k)) for k in different], dtype=np.int64)[where]
    return noisy.count - half, noisy.count + half


def _rounded(units: NDArray[np.int64], grid: int) -> NDArray[np.int64]:
    """Units to whole counts, halves up."""
    return (2 * units + grid) // (2 * grid)
