"""Reported nodes with their measures as a frame, and notices on the released numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpframe.asking.card import Line, Text, invalid_notices, wide_interval_notices
from dpframe.asking.node_frame import (
    beyond_bounds_notices,
    cut_values_notices,
    node_columns,
    unknown_quantiles_notices,
)
from dpframe.asking.privacy_receipt import empty_result_notices, unseen_shares
from dpframe.counts import ROOM, Wholes
from dpframe.hierarchy import INVALID
from dpframe.measures.measure import Measure
from dpframe.mechanisms.rollup import Estimate, NoisyRollup
from dpframe.mechanisms.weighted_rounds import FoundNodes
from dpframe.postprocess.joint_noise import half_width
from dpframe.postprocess.known_noise import steps_to_floats
from dpframe.postprocess.level_values import typed_values
from dpframe.postprocess.quantiles import BinsShown
from dpframe.postprocess.shown_nodes import GRAINS, nearest_reported
from dpframe.postprocess.weighted_laplace import deviation_factor, mean_ends, whole_half_width
from dpframe.questions.rollup.rollup_numbers import RollupNumbers
from dpframe.questions.rollup.rounds import RoundsSelection

Reals = NDArray[np.float64]


Ends = tuple[NDArray[np.generic], NDArray[np.generic], NDArray[np.generic]]
"""Values, and the ends of their intervals."""


def rollup_frame(
    noisy: NoisyRollup, plan: RollupNumbers, types: Sequence[str] = ()
) -> pd.DataFrame:
    """The frame of a rollup.

    Columns: level, prefix, (one for each level, or two for each dimension,) and name, name_lower,
    name_upper for every measure; with ``clipped`` also name_clipped and its interval."""
    types, read = plan.split_types(tuple(types))
    order, columns = node_columns(plan.hierarchy, noisy.nodes.level, noisy.nodes.keys, types)
    kinds = plan.result_types(read)
    along = {} if noisy.found is None else _columns_of_rounds(noisy.found, plan)
    for name, measure in plan.asked.measures.items():
        if name in along:
            for end, values in zip(measure.columns, along[name], strict=True):
                columns[f"{name}{end}"] = values[order]
            continue
        if name in noisy.binned:
            told, first = noisy.binned[name], kinds[f"{name}{measure.columns[0]}"]
            bins = BinsShown(
                node=told.node,
                rows=told.rows,
                at=measure.at,
                highest=float(measure.upper or 0),
                grain=GRAINS.get(first, 0.0) if measure.at else 0.0,
            )
            found = bins.columns(len(order), plan.confidence)
            for end, values in zip(measure.columns, found, strict=True):
                columns[f"{name}{end}"] = typed_values(values, kinds[f"{name}{end}"], order)
            continue
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
            raise AssertionError(f"{measure.kind} is counted in bins")
        for end, values in zip(measure.columns, shown, strict=True):
            columns[f"{name}{end}"] = values[order]
    return pd.DataFrame(columns)


def _columns_of_rounds(found: FoundNodes, plan: RollupNumbers) -> dict[str, Ends]:
    """The measures that were taken along with rounds, each number with one draw of noise."""
    chosen = plan.selection
    assert isinstance(chosen, RoundsSelection)
    out: dict[str, Ends] = {}
    for name in chosen.counts:
        own, full = found.count, found.weight
        wide = half_width(chosen.laws.count_law.noise, 1, plan.confidence)
        out[name] = (2 * own + full) // (2 * full), (own - wide) // full, -((-own - wide) // full)
    for name, law, one in zip(chosen.sums, chosen.laws.sums, found.sums, strict=True):
        half = half_width(law.noise, 1, plan.confidence)
        value, lower, upper = (
            number * one.unit for number in (one.number, one.number - half, one.number + half)
        )
        out[name] = value, lower, upper
    return out


def _total_and_half_width(estimate: Estimate, confidence: float) -> tuple[Wholes, Wholes]:
    """The totals, and the half widths of their intervals, in one type that holds both ends."""
    half = whole_half_width(estimate.variance, confidence, estimate.largest)
    if estimate.total.dtype == np.int64 and half.max(initial=0) < ROOM and estimate.unit < ROOM:
        return estimate.total, half
    return estimate.total.astype(object), half.astype(object)


def _distinct_ends(estimate: Estimate, half: int) -> Ends:
    """Counts of different values, with intervals of one half width: their noise has one law."""
    value = estimate.total.astype(np.int64)
    return value, value - half, value + half


def whole_ends(estimate: Estimate, confidence: float) -> Ends:
    """Values rounded to whole numbers, halves up; ends of intervals rounded outwards."""
    unit = estimate.unit
    total, half = _total_and_half_width(estimate, confidence)
    ends = ((2 * total + unit) // (2 * unit), (total - half) // unit, -((-total - half) // unit))
    value, lower, upper = (end.astype(np.int64) for end in ends)
    return value, lower, upper


def _sum_ends(estimate: Estimate, confidence: float) -> Ends:
    """Sums and their intervals, converted from steps to the unit of the values."""
    total, half = _total_and_half_width(estimate, confidence)
    decimals = estimate.bounds.decimals
    ends = (total, total - half, total + half)
    value, lower, upper = (steps_to_floats(end, decimals) for end in ends)
    return value, lower, upper


def _mean_columns(estimates: Sequence[Estimate], confidence: float) -> Ends:
    """Means and their intervals, from two noisy sums.

    A sums how far values are above the lower bound, and B how far they are below the upper bound.
    The number of values is (A + B) / width, and the sum of their distances from the middle is
    (A - B) / 2. Both sums have noise of one law at every node; intervals follow from the joint law
    (:mod:`dpframe.postprocess.weighted_laplace`).

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


FEW = 10
"""A column counts as mostly missing if fewer than one row in this number has a value."""


def rollup_notices(plan: RollupNumbers, noisy: NoisyRollup, frame: pd.DataFrame) -> list[Line]:
    """The notices: nothing shown, intervals wider than their numbers, mostly invalid keys, mostly
    missing columns, and bounds that cut most values, as far as released numbers say so. Empty
    without a row of level 0."""
    (totals,) = np.nonzero(frame["level"].to_numpy() == 0)
    if len(totals) != 1:
        return []
    total, names = frame[totals[0] : totals[0] + 1], plan.hierarchy.level_names
    fewest = {name: law.fewest for name, law in plan.binned.items()}
    if plan.hierarchy.has_cells and not plan.whole_cells:  # level 0 is the remainder, not a total
        named = plan.asked.measures.items()
        cells = frame[frame["level"] > 0]
        return [
            *_nothing_shown_notice(plan, frame),
            *(
                line
                for name, measure in named
                for line in _wide_interval_notice(cells, name, measure)
            ),
            *unknown_quantiles_notices(cells, plan.asked.measures, fewest),
        ]
    return [
        *(_invalid_rows_notice(plan, frame) or _nothing_shown_notice(plan, frame)),
        *(
            line
            for name, measure in plan.asked.measures.items()
            for line in (
                *(
                    _missing_values_notice(plan, noisy, total, name, measure)
                    or _wide_interval_notice(frame, name, measure)
                ),
                *cut_values_notices(total, name, measure, _row_interval(plan, total)),
                *beyond_bounds_notices(total, name, measure),
                *_cut_sums_notice(_users_cut(plan, noisy, total, name), name),
            )
        ),
        *unknown_quantiles_notices(frame, plan.asked.measures, fewest, names),
    ]


def _nothing_shown_notice(plan: RollupNumbers, frame: pd.DataFrame) -> list[Line]:
    """A notice if no node reached the threshold of the selection."""
    if plan.sight is None:
        return []
    return empty_result_notices(frame["level"].to_numpy(), plan.sight)


TOLD_MEASURES = 2
"""Measures of which a card says how much is not shown."""


def unseen_measures(plan: RollupNumbers, frame: pd.DataFrame) -> dict[str, list[float]]:
    """Which part of each measure is in nodes that are not shown, of the first measures that add up
    and are never below 0."""
    named = plan.asked.measures.items()
    sums = [(name, m) for name, m in named if name not in plan.along]  # these do not add up
    chosen = [name for name, m in sums if m.kind == "count" or _is_positive_sum(m)]
    shares = {name: _unseen_shares(plan, frame, name) for name in chosen[:TOLD_MEASURES]}
    return {name: several for name, several in shares.items() if several}


def _unseen_shares(plan: RollupNumbers, frame: pd.DataFrame, name: str) -> list[float]:
    """The shares of one measure. Cells are disjoint. Of nodes, all above a shown one are shown, so
    that each level is a part of the level before."""
    height = plan.hierarchy.height
    level, own = frame["level"].to_numpy(), frame[name].to_numpy()
    top = np.flatnonzero(level == 0)
    if len(top) != 1:
        return []
    lower, upper = (frame[f"{name}_{end}"].to_numpy()[top[0]] for end in ("lower", "upper"))
    if not plan.hierarchy.has_cells:
        sums = np.bincount(level, weights=own, minlength=height + 1)
        level, own = np.arange(height + 1), sums - np.append(sums[1:], 0.0)
    return unseen_shares(level, own, height=height, width=upper - lower)


def _wide_interval_notice(frame: pd.DataFrame, name: str, measure: Measure) -> list[Line]:
    """A notice on wide intervals, for a measure that is never below 0."""
    if measure.kind not in ("count", "distinct") and not _is_positive_sum(measure):
        return []
    return wide_interval_notices(frame, (name, f"{name}_lower", f"{name}_upper"), name=name)


def _invalid_rows_notice(plan: RollupNumbers, frame: pd.DataFrame) -> list[Line]:
    """A notice on invalid keys, by the first count, else by the first sum of values from 0 on."""
    counts = [n for n, m in plan.asked.measures.items() if m.kind == "count"]
    chosen = [*counts, *(n for n, m in plan.asked.measures.items() if _is_positive_sum(m))]
    invalid = frame["prefix"].str.contains(INVALID, regex=False).any()
    if plan.hierarchy.has_cells or not chosen or not invalid:  # cells are no parts of others
        return []
    values = frame[chosen[0]].to_numpy()
    own, above = values.copy(), nearest_reported(frame, plan.hierarchy)
    np.subtract.at(own, above[above >= 0], values[above >= 0])
    return invalid_notices(frame.assign(residual=own), plan.hierarchy)


def _is_positive_sum(measure: Measure) -> bool:
    return measure.kind == "sum" and isinstance(measure.lower, float) and measure.lower >= 0


def _row_interval(plan: RollupNumbers, total: pd.DataFrame) -> tuple[float, float] | None:
    """The interval of the number of records, or of users who weigh 1 each; None without a count."""
    for name, measure in plan.asked.measures.items():
        if measure.kind == "count" and measure.at_most is None:
            lower, upper = (total[f"{name}{end}"].iloc[0] for end in ("_lower", "_upper"))
            return float(lower), float(upper)
    return None


def _missing_values_notice(
    plan: RollupNumbers, noisy: NoisyRollup, total: pd.DataFrame, name: str, measure: Measure
) -> list[Line]:
    """A notice if a column seems to have hardly any values."""
    rows = _row_interval(plan, total)
    if rows is not None and rows[0] <= 0:
        return []  # with hardly any rows, few values are no surprise
    if measure.kind == "mean" or measure.is_binned:
        bins, c = noisy.binned.get(name), plan.confidence
        ends = bins.node.number(c)[1:] if bins else number_of_values(noisy.measures[name], c)
        lower, upper = (float(end[0]) for end in ends)
        few = lower <= 0 if rows is None else FEW * upper < rows[0]
        why = "the interval of their number holds 0" if rows is None else "by their noisy number"
    elif measure.kind == "distinct" or _is_positive_sum(measure):
        few = total[f"{name}_lower"].iloc[0] <= 0 <= total[f"{name}_upper"].iloc[0]
        why = f"the interval of the total of {name!r} holds 0"
    else:
        return []
    if not few:
        return []
    holds = "numbers" if measure.kind != "distinct" and measure.value == "number" else "values"
    return [
        Line.of(
            "notice",
            Text("values of {name} may be missing"),
            (
                "{why}; NULL, NaN and infinite values count nothing: does column {column!r} "
                "hold {holds}, and in most rows?"
            ),
            name=name,
            why=why,
            column=measure.column,
            holds=holds,
        )
    ]


MANY_CUT = 0.1
"""A notice says that a sum is cut if this part of all users have more than a bound of it."""


CUT_MEANING = (
    "have more than the bound there, so that numbers are too low, most of all large ones, "
    "and no interval says by how much"
)


def _users_cut(plan: RollupNumbers, noisy: NoisyRollup, total: pd.DataFrame, name: str) -> str:
    """How many of how many users have more than a bound of a sum by rounds, and where; empty if
    they are few, or if nobody counted users or looked."""
    chosen, counts = plan.selection, [n for n, m in plan.along.items() if m.kind == "count"]
    if noisy.found is None or not isinstance(chosen, RoundsSelection) or not counts:
        return ""
    users = int(total[counts[0]].iloc[0])
    more = noisy.found.sums[list(chosen.sums).index(name)].beyond if name in chosen.sums else ()
    cut = [
        f"{many:,} at {place}"
        for many, place in zip(more, chosen.places, strict=False)
        if many is not None and many >= MANY_CUT * max(users, 1)
    ]
    return f"of {users:,} users about {', '.join(cut)}" if cut else ""


def _cut_sums_notice(cut: str, name: str) -> list[Line]:
    return [Line("notice", f"sums of {name} are cut", f"{cut} {CUT_MEANING}")] if cut else []
