"""Released nodes as a frame: labels, numbers and intervals, always in one order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpframe.budget import PrivacyUnit
from dpframe.hierarchy import Hierarchy
from dpframe.postprocess.level_values import level_column, natural_order, text_column
from dpframe.tree import NoisyNodes


class NodeFramePlan(Protocol):
    """What a frame of nodes needs to know of a plan."""

    @property
    def hierarchy(self) -> Hierarchy: ...

    @property
    def grid(self) -> int: ...

    @property
    def unit(self) -> PrivacyUnit: ...

    def half_width(self, terms: int) -> int:
        """Half width of the interval for a count with ``terms`` draws of noise, in units."""


def tidy(noisy: NoisyNodes, plan: NodeFramePlan, types: Sequence[str] = ()) -> pd.DataFrame:
    """Return a frame with the columns level, prefix, the level columns of the hierarchy (if it has
    any), residual, count, lower and upper, with rows in natural order. The numbers are int64;
    float64 if the unit is a measure.

    ``types`` are the DuckDB types of the levels' columns, if they are known.
    """
    grid = plan.grid
    order, columns = node_columns(plan.hierarchy, noisy.level, noisy.keys, types)
    lower, upper = (ends[order] for ends in noisy.bounds or _noise_intervals(noisy, plan))
    numbers = {
        "residual": noisy.residual[order],
        "count": noisy.count[order],
        "lower": lower,
        "upper": upper,
    }
    if plan.unit.measured:
        step = plan.unit.worth / grid
        return pd.DataFrame(columns | {name: units * step for name, units in numbers.items()})
    columns["residual"] = round_to_counts(numbers["residual"], grid)
    columns["count"] = round_to_counts(numbers["count"], grid)
    columns["lower"] = lower // grid
    columns["upper"] = -(-upper // grid)
    return pd.DataFrame(columns)


def node_columns(
    hierarchy: Hierarchy,
    level: NDArray[np.int64],
    keys: Sequence[pa.ChunkedArray],
    types: Sequence[str] = (),
) -> tuple[NDArray[np.int64], dict[str, object]]:
    """Return the order of nodes and their sorted columns: level, prefix and the level columns."""
    texts = tuple(pc.cast(key, pa.string()) for key in keys)
    labels = hierarchy.labels(level, texts)
    order = natural_order(hierarchy, level, labels, texts, types)
    no_rest = np.zeros(len(level), dtype=np.bool_)
    columns: dict[str, object] = {"level": level[order], "prefix": text_column(labels.take(order))}
    for depth, name in enumerate(hierarchy.label_columns, 1):
        kind = types[depth - 1] if types else ""
        key = texts[depth - 1].take(order)
        columns[name] = level_column(key, level[order], depth, kind, no_rest)
    return order, columns


def _noise_intervals(
    noisy: NoisyNodes, plan: NodeFramePlan
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return lower and upper ends of intervals of counts, in units; they cover the noise alone."""
    different, where = np.unique(noisy.terms, return_inverse=True)
    half = np.array([plan.half_width(int(k)) for k in different], dtype=np.int64)[where]
    return noisy.count - half, noisy.count + half


def round_to_counts(units: NDArray[np.int64], grid: int) -> NDArray[np.int64]:
    """Round units to whole counts, halves up."""
    return (2 * units + grid) // (2 * grid)
