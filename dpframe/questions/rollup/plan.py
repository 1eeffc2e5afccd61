"""What a rollup will do and cost, its frame and notices. Sees no data.

The budget is divided. One share selects nodes, as heavy hitters do; the other shares measure on the
parts of the selected or listed nodes. Epsilons and deltas add up (adaptive composition). Delta pays
for the selection; up to half of delta pays for counts of different values, where these have less
noise with delta.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, assert_never

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpframe.asking.card import (
    DrawList,
    Line,
    Text,
    empty_result_notices,
    invalid_notices,
    wide_interval_notices,
)
from dpframe.asking.level_plan import cell_facts
from dpframe.asking.node_frame import node_columns
from dpframe.asking.privacy_receipt import Receipt
from dpframe.budget import Budget
from dpframe.errors import BudgetError, add_advice
from dpframe.hierarchy import INVALID
from dpframe.measures import WHOLE_DIGITS, Measure, distinct_of, searches_of
from dpframe.mechanisms import rollup
from dpframe.mechanisms.rollup import (
    BoundSearch,
    DistinctLaw,
    Estimate,
    NoisyRollup,
    VectorCharge,
    node_counts,
)
from dpframe.postprocess.known_noise import steps_to_floats
from dpframe.postprocess.shown_nodes import nearest_reported
from dpframe.postprocess.weighted_laplace import deviation_factor, mean_ends, whole_half_width
from dpframe.questions.hhh.checks import HhhArguments as Selecting
from dpframe.questions.hhh.offline import OfflinePlan, offline_plan
from dpframe.questions.rollup.lines import measured_line, rollup_lines
from dpframe.questions.rollup.rollup_numbers import (
    PAPER,
    RollupNumbers,
    RollupRequest,
    draws_and_reads,
    noise_facts,
    released_bounds,
    rollup_draws,
    rollup_facts,
)

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
    total = frame[totals[0] : totals[0] + 1]
    if plan.hierarchy.has_cells:  # level 0 of cells is the remainder, not a total
        named = plan.asked.measures.items()
        cells = frame[frame["level"] > 0]
        return [
            *_nothing_shown_notice(plan, frame),
            *(
                line
                for name, measure in named
                for line in _wide_interval_notice(cells, name, measure)
            ),
        ]
    return [
        *_nothing_shown_notice(plan, frame),
        *_invalid_rows_notice(plan, frame),
        *(
            line
            for name, measure in plan.asked.measures.items()
            for line in (
                *(
                    _missing_values_notice(plan, noisy, total, name, measure)
                    or _wide_interval_notice(frame, name, measure)
                ),
                *_clipped_values_notice(plan, total, name, measure),
            )
        ),
    ]


def _nothing_shown_notice(plan: RollupNumbers, frame: pd.DataFrame) -> list[Line]:
    """A notice if no node reached the threshold of the selection."""
    chosen = plan.selection
    if chosen is None or (frame["level"] > 0).any():
        return []
    return empty_result_notices(
        frame,
        threshold=chosen.threshold,
        smallest=chosen.smallest_threshold,
        what=chosen.count_noun,
        certain=chosen.certainly_reported,
    )


def _wide_interval_notice(frame: pd.DataFrame, name: str, measure: Measure) -> list[Line]:
    """A notice on wide intervals, for a measure that is never below 0."""
    if measure.kind not in ("count", "distinct") and not _is_positive_sum(measure):
        return []
    return wide_interval_notices(frame, (name, f"{name}_lower", f"{name}_upper"), name=name)


def _invalid_rows_notice(plan: RollupNumbers, frame: pd.DataFrame) -> list[Line]:
    """A notice on invalid keys, by the first count, else by the first sum of values from 0 on."""
    counts = [n for n, m in plan.asked.measures.items() if m.kind == "count"]
    chosen = [*counts, *(n for n, m in plan.asked.measures.items() if _is_positive_sum(m))]
    if not chosen or not frame["prefix"].str.contains(INVALID, regex=False).any():
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
    if measure.kind == "mean":
        lower, upper = (e[0] for e in number_of_values(noisy.measures[name], plan.confidence))
        few = lower <= 0 if rows is None else FEW * upper < rows[0]
        why = "the interval of their number holds 0" if rows is None else "by their noisy number"
    elif measure.kind == "distinct" or _is_positive_sum(measure):
        few = total[f"{name}_lower"].iloc[0] <= 0 <= total[f"{name}_upper"].iloc[0]
        why = f"the interval of the total of {name!r} holds 0"
    else:
        return []
    if not few:
        return []
    holds = "values" if measure.kind == "distinct" else "numbers"
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


def _clipped_values_notice(
    plan: RollupNumbers, total: pd.DataFrame, name: str, measure: Measure
) -> list[Line]:
    """A notice if most values are beyond the bounds."""
    rows = _row_interval(plan, total)
    if not measure.clipped or rows is None or rows[0] <= 0:
        return []
    if 2 * float(total[f"{name}_clipped_lower"].iloc[0]) <= rows[1]:
        return []
    return [
        Line.of(
            "notice",
            Text("values of {name} are mostly cut"),
            (
                "more than half of them lie beyond the bounds, so that it is far off, and no "
                "interval says how far: choose wider bounds, or 'auto'"
            ),
            name=name,
        )
    ]


RECORD_SELECTION_SHARE, USER_SELECTION_SHARE = Fraction(4, 25), Fraction(1, 3)
"""Part of epsilon for the selection of unlisted keys: by records, and by users. The counts of the
selection are not used again, so that this part is lost to the measures. At four levels 0.16 shows
more nodes than stability histograms that divide epsilon evenly over levels, with half their error
(tests/benchmarks/rollup_error.py). Users are fewer than records, so that a higher threshold would
hide more."""

SEARCH_SHARE = Fraction(1, 4)
"""Part of a measure's epsilon for each bound that is searched."""

UNRELEASED_SHARES = 0.02, 0.1, 0.3
"""Values of ``release_share`` to try for a selection whose counts are not released. The smallest
costs next to nothing. The first value is taken whose table of release noise is not too long,
although that table is never drawn from."""

LEAST_MEASURE_EPSILON = 1e-6
"""The smallest epsilon of a measure: with less, noise would hide everything."""

LARGEST_SCALE = 2**54
"""The largest scale of noise, if only parts are measured: a draw beyond 64 bits, which would be an
error, then has a chance below 1e-200."""


@dataclass(frozen=True, kw_only=True)
class RollupPlan(RollupNumbers):
    """Everything about a rollup except the data and the draw."""

    question = "rollup"
    paper = PAPER
    intervals = (
        "lower and upper hold the true value with the stated confidence, given what is shown; not "
        "what clipping to the bounds takes away"
    )

    @cached_property
    def draws(self) -> DrawList:
        """The selection, then every measure on the selected or listed nodes."""
        return rollup_draws(self)

    @property
    def noise(self) -> dict[str, Any] | None:
        """The law of the tests; None where keys are listed."""
        return self.draws.noise.get("test")

    @property
    def facts(self) -> dict[str, object]:
        return {**super().facts, **rollup_facts(self), **cell_facts(self.hierarchy)}

    def run(self, counted: rollup.Measurable, /) -> rollup.NoisyRollup:
        """The only noisy step: the selection, then every measure on its parts."""
        return rollup.run(
            counted,
            kinds=self.hierarchy.kind_order,
            selection=None
            if self.selection is None
            else rollup.Selection(
                test=self.selection.test_noise, threshold=self.selection.threshold_units
            ),
            band=self.band,
            paid=self.paid,
            read=self.read,
            searching=self.searching,
            counts=self.counts,
            by_user=self.unit.user is not None,
        )

    def lines(self) -> list[Line]:
        """The card lines, all known before the data are read."""
        return rollup_lines(self)

    def frame(self, noisy: rollup.NoisyRollup, types: tuple[str, ...] = (), /) -> pd.DataFrame:
        """Reported nodes with their measures, in natural order."""

        return rollup_frame(noisy, self, types)

    def finish_receipt(
        self, facts: Receipt, noisy: rollup.NoisyRollup, frame: pd.DataFrame, /
    ) -> Receipt:
        """The receipt with the found bounds, the noise of each measure, and notices."""

        facts = facts.with_bounds(released_bounds(self, noisy))
        facts = facts.with_release_facts({"measures": noise_facts(self, noisy, facts)}, [])
        if noisy.weights:
            weights = {str(at): float(weight) for at, weight in noisy.weights.items() if at >= 0}
            lines = [] if self.listed_keys is not None else [measured_line(noisy.weights)]
            facts = facts.with_release_facts({"levels_measured": weights}, lines)
        return facts.with_notices(rollup_notices(self, noisy, frame))


def make_rollup_plan(asked: RollupRequest) -> RollupPlan:
    """Divide the budget, and choose the noise. Pure: no data, no randomness."""
    epsilon, delta = Fraction(asked.budget.epsilon), asked.budget.delta
    if asked.listed is None:
        share = asked.selection_share
        default = RECORD_SELECTION_SHARE if asked.unit.user is None else USER_SELECTION_SHARE
        epsilon *= 1 - (default if share is None else Fraction(share))
    total = sum((Fraction(m.share) for m in asked.measures.values()), Fraction(0))
    each = {name: epsilon * Fraction(m.share) / total for name, m in asked.measures.items()}
    _check_measure_epsilons(each, asked)
    counts = _distinct_counts(asked, each, delta)
    spent = sum(count.delta for count in counts.values())
    by_user, selection = asked.unit.user is not None, None
    if asked.listed is None:
        selection = _selection_plan(asked, Fraction(asked.budget.epsilon) - epsilon, delta - spent)
    others = {n: m for n, m in asked.measures.items() if n not in counts}
    known = {name: measure for name, measure in others.items() if not measure.needs_search}
    paid, read = draws_and_reads(known, each, by_user=by_user)
    searching = {
        name: _bounds_search(measure, each[name], by_user)
        for name, measure in others.items()
        if measure.needs_search
    }
    _check_scales(paid, searching, counts)
    return RollupPlan(
        asked=asked,
        selection=selection,
        paid=paid,
        read=read,
        searching=searching,
        counts=counts,
    )


def _check_measure_epsilons(each: Mapping[str, Fraction], asked: RollupRequest) -> None:
    """Raise BudgetError for a measure with too small an epsilon: noise would hide the measure."""
    for name, own in each.items():
        if own < Fraction(LEAST_MEASURE_EPSILON):
            raise BudgetError(
                f"measure {name!r} would get epsilon {float(own):.2g} of "
                f"{asked.budget.epsilon:g}. Ask for fewer measures, raise its share=, or raise "
                "epsilon."
            )


def _check_scales(
    paid: Mapping[str, tuple[VectorCharge, ...]],
    searching: Mapping[str, BoundSearch],
    counts: Mapping[str, DistinctLaw],
) -> None:
    """Raise BudgetError for noise beyond 64 bits."""
    vectors = {name: [p.vector.most / p.epsilon for p in each] for name, each in paid.items()}
    scales = {name: max(several) for name, several in vectors.items() if several}
    scales |= {name: 2 * 10**WHOLE_DIGITS / one.rest for name, one in searching.items()}
    scales |= {name: count.distinct.touched / count.epsilon for name, count in counts.items()}
    for name, scale in scales.items():
        if scale > LARGEST_SCALE:
            raise BudgetError(
                f"measure {name!r} would get noise beyond 64 bits. Raise epsilon or its share=, "
                "or lower at_most or the bounds."
            )


def _bounds_search(measure: Measure, epsilon: Fraction, by_user: bool) -> BoundSearch:
    searches = searches_of(measure)
    return BoundSearch(
        measure=measure,
        searches=searches,
        by_user=by_user,
        each=SEARCH_SHARE * epsilon,
        rest=epsilon - SEARCH_SHARE * epsilon * len(searches),
    )


def _distinct_counts(
    asked: RollupRequest, each: Mapping[str, Fraction], delta: float
) -> dict[str, DistinctLaw]:
    """The laws of counts of different values. Half of delta is divided over these counts; each uses
    its part only if that makes less noise."""
    user = asked.unit.user
    height = None if asked.hierarchy.has_cells else asked.hierarchy.height
    wanted = {n: distinct_of(m, user=user, height=height) for n, m in asked.measures.items()}
    found = {name: distinct for name, distinct in wanted.items() if distinct is not None}
    part = delta / 2 / max(1, len(found)) * (1 - 1e-9)
    return {
        name: node_counts(distinct, epsilon=each[name], delta=part)
        for name, distinct in found.items()
    }


def _selection_plan(asked: RollupRequest, epsilon: Fraction, delta: float) -> OfflinePlan:
    own = float(epsilon)
    while Fraction(own) > epsilon:
        own = math.nextafter(own, 0.0)
    with add_advice("raise selection_share", given=asked.selection_share is not None):
        for share in UNRELEASED_SHARES[:-1]:
            with suppress(BudgetError):
                return offline_plan(_selection_request(asked, own, delta, share))
        return offline_plan(_selection_request(asked, own, delta, UNRELEASED_SHARES[-1]))


def _selection_request(
    asked: RollupRequest, epsilon: float, delta: float, share: float
) -> Selecting:
    return Selecting(
        hierarchy=asked.hierarchy,
        unit=asked.selection_unit,
        budget=Budget(epsilon=epsilon, delta=delta),
        threshold=asked.threshold,
        remainder=False,
        release_share=share,
        confidence=asked.confidence,
        part_of=asked.budget.epsilon,
    )
