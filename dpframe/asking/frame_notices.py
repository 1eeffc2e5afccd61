"""Notices on a release, drawn from its own numbers. These are public, so notices are free."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpframe.asking.card import Line, Text
from dpframe.budget import PrivacyUnit, as_written
from dpframe.hierarchy import INVALID, OTHER, Hierarchy

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd


def invalid_notices(frame: pd.DataFrame, hierarchy: Hierarchy) -> list[Line]:
    """Return a line for every column in which most of what was counted is <invalid>."""
    return [
        _mostly_invalid_line(column, hierarchy.kind)
        for column in _mostly_invalid_columns(frame, hierarchy)
    ]


def zero_weights_notices(frame: pd.DataFrame, column: str) -> list[Line]:
    """Return a line for a column of weights that are texts, unless the total is certainly above 0:
    texts that are no whole numbers count 0."""
    total = frame.loc[frame["level"] == 0, "lower"]
    if len(total) and total.min() > 0:
        return []
    return [
        Line.of(
            "notice",
            "weights may all be 0",
            (
                "the interval of the total holds 0, and texts that are no whole number, such "
                "as 12.50, count 0: does column {column!r} hold whole numbers?"
            ),
            column=column,
        )
    ]


def zero_measure_notices(frame: pd.DataFrame, unit: PrivacyUnit) -> list[Line]:
    """Return a line if the total of a measure may be 0.

    The reason stays open: a bound far above all rows looks the same as a column without numbers.
    """
    total = frame.loc[frame["level"] == 0, "lower"]
    if not len(total) or total.min() > 0:
        return []
    return [
        Line.of(
            "notice",
            "nothing may be there",
            (
                "the interval of the total holds 0: does column {weight!r} hold positive "
                "numbers, and is max_weight ({most}) not far above them?"
            ),
            weight=unit.weight,
            most=as_written(unit.worth),
        )
    ]


def empty_result_notices(
    frame: pd.DataFrame,
    *,
    threshold: float | None,
    smallest: float | None,
    what: str,
    certain: float | None = None,
) -> list[Line]:
    """Return a line if no node reached the threshold: how large a node can still be, and what to
    change.

    Parameters
    ----------
    frame
        ``level`` and ``prefix`` of every row.
    threshold
        The count from which a node is shown, as the release counts; None if all are shown.
    smallest
        The least threshold that is private for what was asked; None if it is not known.
    what
        What is counted, in a word.
    certain
        The count from which every node is shown; None if there is none.
    """
    if threshold is None or _reported_node_rows(frame).any():
        return []
    said, ways = f"no node reached the threshold of {as_written(threshold)} {what}", ""
    if smallest is not None and smallest < threshold:
        ways = f"pass threshold={as_written(smallest)}, the smallest allowed here, or "
    elif smallest is not None:
        said += ", the smallest allowed here"
    if certain is not None and certain > threshold:
        said += f", and the largest possible one has less than {as_written(certain)}"
    return [
        Line.of(
            "notice",
            "nothing was shown",
            (
                "{said}: {ways}ask for coarser or fewer levels, with a larger epsilon or "
                "delta, or of more data, such as a longer period"
            ),
            said=said,
            ways=ways,
        )
    ]


def _reported_node_rows(frame: pd.DataFrame) -> pd.Series[bool]:
    """Return which rows are nodes that were found or asked for, not the total, not ``<other>``."""
    return (frame["level"] > 0) & ~frame["prefix"].astype("str").str.endswith(OTHER)


def wide_interval_notices(
    frame: pd.DataFrame, columns: Sequence[str] = ("count", "lower", "upper"), *, name: str = ""
) -> list[Line]:
    """Return a line if the interval of the total, or of most nodes, is wider than the number: such
    numbers are mostly noise.

    Parameters
    ----------
    frame
        Rows of a release.
    columns
        The columns of a number, whose true value is never below 0, and of its interval's ends.
    name
        The name of the measure, if there are several.
    """
    value, lower, upper = (frame[name].to_numpy(np.float64, na_value=np.nan) for name in columns)
    wide = upper - lower > np.abs(value)  # False where a number is missing
    if not wide.any():
        return []
    total, below = (frame["level"] == 0).to_numpy(), _reported_node_rows(frame).to_numpy(np.bool_)
    if not wide[total].any() and 2 * wide[below].sum() <= below.sum():
        return []
    which = ["of the total"] if wide[total].any() else []
    if wide[below].any():
        which.append(f"of {int(wide[below].sum()):,} of {int(below.sum()):,} nodes")
    of = f" of {name}" if name else ""
    return [
        Line.of(
            "notice",
            Text("noise is most of the numbers{of}"),
            (
                "the interval {which} is wider than the number itself: ask for coarser or "
                "fewer levels, with a larger epsilon, or of more data, such as a longer period"
            ),
            of=of,
            which=" and ".join(which),
        )
    ]


EXPECTED_VALUES = {
    "ip": "IP addresses",
    "date": "dates or times",
    "number": "numbers",
    "domain": "host names",
    "path": "paths",
    "code": "codes",
    "columns": "values",
}
"""What a column of each kind should hold."""


def _mostly_invalid_columns(frame: pd.DataFrame, hierarchy: Hierarchy) -> list[str]:
    """Return the columns in which, by the released numbers, more than half is <invalid>."""
    if not frame["prefix"].astype("str").str.contains(INVALID, regex=False).any():
        return []  # the usual case: an <invalid> node and all nodes below it have it in their label
    level, share = frame["level"], frame["residual"]  # residuals add up to all that is released
    found = []
    shown = hierarchy.label_columns or ("prefix",)
    for depth, (name, column) in enumerate(zip(shown, hierarchy.source_columns, strict=True), 1):
        of_text = frame[name].astype(object) == INVALID
        own = of_text | (frame[name].isna() & frame["prefix"].astype("str").str.endswith(INVALID))
        # a typed column has no text <invalid>, and no row is below <other>
        above = of_text | frame[name].isna()
        invalid = share[((level == depth) & own) | ((level > depth) & above)].sum()
        if 2 * invalid > max(share.sum(), 0):
            found.append(column)
    return found


def _mostly_invalid_line(column: str, kind: str) -> Line:
    return Line.of(
        "notice",
        Text("mostly {invalid}"),
        (
            "more than half of what was counted: does column {column!r} hold {values}, and "
            "in most rows?"
        ),
        invalid=INVALID,
        column=column,
        values=EXPECTED_VALUES[kind],
    )
