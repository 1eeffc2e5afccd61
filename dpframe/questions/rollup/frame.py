"""Reported nodes with their measures as a frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpframe.asking.frame import node_columns
from dpframe.mechanisms.rollup import Estimate, NoisyRollup
from dpframe.postprocess.ratios import ratio_interval
from dpframe.postprocess.rollup_noise import floats
from dpframe.postprocess.weighted_laplace import deviation_factor, whole_half_width

if TYPE_CHECKING:
    from dpframe.questions.rollup.plan import RollupPlan

Ends = tuple[NDArray[np.generic], NDArray[np.generic], NDArray[np.generic]]
"""Values, and the ends of their intervals."""


def rollup_frame(noisy: NoisyRollup, plan: RollupPlan, types: Sequence[str] = ()) -> pd.DataFrame:
    """Columns level, prefix, (one a level,) and name, name_lower, name_upper for every measure."""
    order, columns = node_columns(plan.hierarchy, noisy.nodes.level, noisy.nodes.keys, types)
    for name, measure in plan.asked.measures.items():
        estimates = noisy.measures[name]
        if measure.kind == "distinct":
            shown: tuple[NDArray[np.generic], ...] = _different(estimates[0], plan.half_width(name))
        elif measure.kind == "mean":
            shown = _means(estimates, plan.confidence)
        elif measure.kind == "count":
            shown = whole_ends(estimates[0], plan.confidence)
        else:
            cut = (end for e in estimates[1:] for end in whole_ends(e, plan.confidence))
            shown = (*_sums(estimates[0], plan.confidence), *cut)
        for end, values in zip(measure.columns, shown, strict=True):
            columns[f"{name}{end}"] = values[order]
    return pd.DataFrame(columns)


def _different(estimate: Estimate, half: int) -> Ends:
    """Whole numbers with one law of noise."""
    value = estimate.total.astype(np.int64)
    return value, value - half, value + half


def whole_ends(estimate: Estimate, confidence: float) -> Ends:
    """Whole numbers, halves up; the ends of intervals outwards."""
    unit = estimate.unit
    half = whole_half_width(estimate.variance, confidence).astype(object)
    total = estimate.total
    ends = ((2 * total + unit) // (2 * unit), (total - half) // unit, -((-total - half) // unit))
    value, lower, upper = (end.astype(np.int64) for end in ends)
    return value, lower, upper


def _sums(estimate: Estimate, confidence: float) -> Ends:
    """Steps in units of the value."""
    half = whole_half_width(estimate.variance, confidence).astype(object)
    decimals = estimate.bounds.decimals
    ends = (estimate.total, estimate.total - half, estimate.total + half)
    value, lower, upper = (floats(end, decimals) for end in ends)
    return value, lower, upper


def _means(estimates: Sequence[Estimate], confidence: float) -> Ends:
    """Noisy sums over noisy numbers of values; intervals by the law of both together.

    NaN where the interval is all that a value can be: nothing is known then.
    """
    above, below = estimates
    steps, unit = above.bounds, below.unit
    middle, scale = steps.value(steps.middle), steps.step
    centred, number = floats(above.total, steps.decimals), floats(below.total, 0) / unit
    quotient = np.divide(centred, number, out=np.zeros(len(number)), where=number > 0)
    lower, upper = ratio_interval(
        centred,
        above.variance * scale * scale,
        number,
        below.variance / unit**2,
        factor=deviation_factor(confidence),
        within=(steps.lower - middle, steps.upper - middle),
    )
    value = np.clip(middle + quotient, steps.lower, steps.upper)
    ends = np.minimum(middle + lower, value), np.maximum(middle + upper, value)
    unknown = (ends[0] <= steps.lower) & (ends[1] >= steps.upper)
    return np.where(unknown, np.nan, value), *ends
