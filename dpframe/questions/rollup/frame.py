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

if TYPE_CHECKING:
    from dpframe.questions.rollup.plan import RollupPlan

Ends = tuple[NDArray[np.generic], NDArray[np.generic], NDArray[np.generic]]
"""Values, and the ends of their intervals."""


def rollup_frame(noisy: NoisyRollup, plan: RollupPlan, types: Sequence[str] = ()) -> pd.DataFrame:
    """Columns level, prefix, (one a level,) and name, name_lower, name_upper for every measure."""
    order, columns = node_columns(plan.hierarchy, noisy.nodes.level, noisy.nodes.keys, types)
    for name, measure in plan.asked.measures.items():
        shown = _shown(measure, noisy.measures[name])
        for end, values in zip(measure.columns, shown, strict=True):
            columns[f"{name}{end}"] = values[order]
    return pd.DataFrame(columns)


def _shown(measure: Measure, estimates: Sequence[Estimate]) -> tuple[NDArray[np.generic], ...]:
    factor = 2.13
    first = estimates[0]
    if measure.kind in ("count", "distinct"):
        return _counts(first, _unit(first), factor)
    if measure.kind == "mean":
        return _means(estimates, factor)
    assert first.vector is not None
    steps = first.vector.bounds
    half = factor * np.sqrt(first.variance) * steps.step
    value = _floats(first.total, steps.decimals)
    cut = [end for e in estimates[1:] for end in _counts(e, _unit(e), factor)]
    return value, value - half, value + half, *cut


def _unit(estimate: Estimate) -> int:
    return 1 if estimate.vector is None else estimate.vector.unit


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


def _means(estimates: Sequence[Estimate], factor: float) -> Ends:
    """Quotients of noisy sums and noisy numbers of values; with their joint law."""
    above, below = estimates
    assert above.vector is not None
    steps = above.vector.bounds
    centred, number = _floats(above.total, steps.decimals), _floats(below.total) / _unit(below)
    with np.errstate(all="ignore"):
        quotient = np.where(number > 0, centred / number, 0.0)
    value = np.clip(steps.value(steps.middle) + quotient, steps.lower, steps.upper)
    return value, value, value
