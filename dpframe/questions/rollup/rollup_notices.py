"""Notices that follow from the released numbers of a rollup: free, as the numbers are public."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpframe.asking.card import Line, Text
from dpframe.asking.frame_notices import (
    empty_result_notices,
    invalid_notices,
    wide_interval_notices,
)
from dpframe.hierarchy import INVALID
from dpframe.measures import Measure
from dpframe.mechanisms.rollup import NoisyRollup
from dpframe.postprocess.shown_nodes import nearest_reported
from dpframe.questions.rollup.frame import number_of_values
from dpframe.questions.rollup.rollup_numbers import RollupNumbers

if TYPE_CHECKING:
    import pandas as pd

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
