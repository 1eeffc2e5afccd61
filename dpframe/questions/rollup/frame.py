"""Reported nodes with their measures as a frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpframe.asking.node_frame import node_columns
from dpframe.mechanisms.rollup import Estimate, NoisyRollup
from dpframe.postprocess.known_noise import steps_to_floats
from dpframe.postprocess.mean_intervals import mean_ends
from dpframe.postprocess.weighted_laplace import deviation_factor, whole_half_width
from dpframe.questions.rollup.rollup_numbers import RollupNumbers

Reals = NDArray[np.float64]
Ends = tuple[NDArray[np.generic], NDArray[np.generic], NDArray[np.generic]]
"""Values, and the ends of their intervals."""


def rollup_frame(
    noisy: NoisyRollup, plan: RollupNumbers, types: Sequence[str] = ()
) -> pd.DataFrame:
    """The frame of a rollup.

    Columns: level, prefix, (one for each level, or two for each dimension,) and name, name_lower,
    name_upper for every measure; with ``clipped`` also name_clipped and its interval."""
    order, columns = node_columns(plan.hierarchy, noisy.nodes.level, noisy.nodes.keys, types)
    for name, measure in plan.asked.measures.items():
        estimates = noisy.measures[name]
        if measure.kind == "distinct":
            shown: tuple[NDArray[np.generic], ...] = _distinct_ends(
                estimates[0], plan.half_width(name)
            )
        elif measure.kind == "mean":
            shown = _mean_columns(estimates, plan.confidence)
        elif measure.kind == "count":
            shown = whole_ends(estimates[0], plan.confidence)
        elif measure.kind == "sum":
            cut = (end for e in estimates[1:] for end in whole_ends(e, plan.confidence))
            shown = (*_sum_ends(estimates[0], plan.confidence), *cut)
        else:
            assert_never(measure.kind)
        for end, values in zip(measure.columns, shown, strict=True):
            columns[f"{name}{end}"] = values[order]
    return pd.DataFrame(columns)


def _total_half_width(estimate: Estimate, confidence: float) -> NDArray[np.object_]:
    return whole_half_width(estimate.variance, confidence, estimate.largest).astype(object)


def _distinct_ends(estimate: Estimate, half: int) -> Ends:
    """Counts of different values, with intervals of one half width: their noise has one law."""
    value = estimate.total.astype(np.int64)
    return value, value - half, value + half


def whole_ends(estimate: Estimate, confidence: float) -> Ends:
    """Values rounded to whole numbers, halves up; ends of intervals rounded outwards."""
    unit = estimate.unit
    half = _total_half_width(estimate, confidence)
    total = estimate.total
    ends = ((2 * total + unit) // (2 * unit), (total - half) // unit, -((-total - half) // unit))
    value, lower, upper = (end.astype(np.int64) for end in ends)
    return value, lower, upper


def _sum_ends(estimate: Estimate, confidence: float) -> Ends:
    """Sums and their intervals, converted from steps to the unit of the values."""
    half = _total_half_width(estimate, confidence)
    decimals = estimate.bounds.decimals
    ends = (estimate.total, estimate.total - half, estimate.total + half)
    value, lower, upper = (steps_to_floats(end, decimals) for end in ends)
    return value, lower, upper


def _mean_columns(estimates: Sequence[Estimate], confidence: float) -> Ends:
    """Means and their intervals, from two noisy sums.

    A sums how far values are above the lower bound, and B how far they are below the upper bound.
    The number of values is (A + B) / width, and the sum of their distances from the middle is
    (A - B) / 2. Both sums have noise of one law at every node; intervals follow from the joint law
    (:mod:`dpframe.postprocess.mean_intervals`).

    A mean is NaN where its interval holds every possible value: nothing is known then.
    """
    steps = estimates[0].bounds
    middle = (steps.lower + steps.upper) / 2
    number, of_number = _mean_denominator(estimates)
    centred = steps_to_floats(estimates[0].total - estimates[1].total, steps.decimals) / 2
    some = number > 0
    quotient = np.divide(centred, number, out=np.zeros(len(number)), where=some)
    told = np.divide(np.sqrt(of_number), number, out=np.full(len(number), np.nan), where=some)
    lower, upper = mean_ends(
        quotient,
        told,
        estimates[0].largest,
        confidence,
        half=steps.width * steps.step / 2,
        within=(steps.lower - middle, steps.upper - middle),
    )
    value = np.clip(middle + quotient, steps.lower, steps.upper)
    ends = np.minimum(middle + lower, value), np.maximum(middle + upper, value)
    unknown = (ends[0] <= steps.lower) & (ends[1] >= steps.upper)
    return np.where(unknown, np.nan, value), *ends


def _mean_denominator(estimates: Sequence[Estimate]) -> tuple[Reals, Reals]:
    """The number of values of a mean at every node, and its variance. A user weighs 1."""
    above, below = estimates
    width, variance = above.bounds.width, above.variance + below.variance
    return steps_to_floats(above.total + below.total, 0) / width, variance / width**2


def number_of_values(estimates: Sequence[Estimate], confidence: float) -> tuple[Reals, Reals]:
    """The ends of intervals for the number of values of a mean at every node."""
    number, variance = _mean_denominator(estimates)
    half = deviation_factor(confidence) * np.sqrt(variance)
    return number - half, number + half
