"""Reported nodes with their measures as a frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpframe.asking.frame import node_columns
from dpframe.measures import Measure
from dpframe.mechanisms.rollup import Estimate, NoisyRollup
from dpframe.vectors import Vector

if TYPE_CHECKING:
    from dpframe.questions.rollup.plan import RollupPlan

Ends = tuple[NDArray[np.generic], NDArray[np.generic], NDArray[np.generic]]
"""Values, and the ends of their intervals."""


def rollup_frame(noisy: NoisyRollup, plan: RollupPlan, types: Sequence[str] = ()) -> pd.DataFrame:
    """Columns level, prefix, (one a level,) and name, name_lower, name_upper for every measure."""
    order, columns = node_columns(plan.hierarchy, noisy.nodes.level, noisy.nodes.keys, types)
    for name, measure in plan.asked.measures.items():
        value, lower, upper = _shown(name, measure, noisy, plan)
        columns[name] = value[order]
        columns[f"{name}_lower"] = lower[order]
        columns[f"{name}_upper"] = upper[order]
    return pd.DataFrame(columns)


def _shown(name: str, measure: Measure, noisy: NoisyRollup, plan: RollupPlan) -> Ends:
    factor = 2.13
    estimates = noisy.measures[name]
    if measure.kind == "distinct":
        return _counts(estimates[0], 1, factor)
    vectors = [paid.vector for paid in plan.paid[name]]
    if measure.kind == "count":
        return _counts(estimates[0], vectors[0].unit, factor)
    steps = vectors[0].bounds
    if measure.kind == "sum":
        half = factor * np.sqrt(estimates[0].variance) * steps.step
        value = _floats(estimates[0].total, steps.decimals)
        return value, value - half, value + half
    return _means(estimates, vectors, factor)


def _counts(estimate: Estimate, unit: int, factor: float) -> Ends:
    """Whole numbers, halves up."""
    half = np.ceil(factor * np.sqrt(estimate.variance))
    whole = np.array([(2 * t + unit) // (2 * unit) for t in estimate.total], dtype=np.int64)
    pairs = list(zip(estimate.total, half, strict=True))
    lower = np.array([(t - int(h)) // unit for t, h in pairs], dtype=np.int64)
    upper = np.array([-((-t - int(h)) // unit) for t, h in pairs], dtype=np.int64)
    return whole, lower, upper


def _floats(total: NDArray[np.object_], decimals: int = 0) -> NDArray[np.float64]:
    """Steps in units of the value, each rounded once."""
    ten = 10 ** abs(decimals)
    return np.array([t / ten if decimals >= 0 else float(t * ten) for t in total], dtype=float)


def _means(estimates: Sequence[Estimate], vectors: Sequence[Vector], factor: float) -> Ends:
    """Quotients of noisy sums and noisy numbers of values; with their joint law."""
    steps, unit = vectors[0].bounds, vectors[1].unit
    centred, number = (
        _floats(estimates[0].total, steps.decimals),
        _floats(estimates[1].total) / unit,
    )
    with np.errstate(all="ignore"):
        quotient = np.where(number > 0, centred / number, 0.0)
    value = np.clip(steps.value(steps.middle) + quotient, steps.lower, steps.upper)
    return value, value, value
