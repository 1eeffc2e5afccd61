"""What a ledger has spent in every block, and in the worst window of several days."""

from __future__ import annotations

import math
import sqlite3
from fractions import Fraction
from typing import TYPE_CHECKING

from dpframe._known_arguments import shown_value
from dpframe.budget import as_float
from dpframe.errors import ParameterError, ParameterTypeError
from dpframe.ledger.blocks import NULL_FIRST, moment_text
from dpframe.ledger.entries import Entry, entries, newest_entry
from dpframe.ledger.history import text_dtype
from dpframe.ledger.segments import tops_of
from dpframe.ledger.store import DELTA_UNIT, EPSILON_UNIT, float_amount
from dpframe.ledger.time_windows import Span, stretches, worst_window
from dpframe.ledger.totals import Units, read_totals

if TYPE_CHECKING:
    import pandas as pd


def charged_spans(db: sqlite3.Connection) -> tuple[Entry, dict[str, list[Span]]]:
    """The last entry, and for every axis the charges to its blocks that the totals paid."""
    now, spans = read_totals(db), dict[str, list[Span]]()
    last = newest_entry(db, now)
    for entry in entries(db, now):
        if entry.axis is not None and entry.under is None:
            ends = int(entry.first or 0), int(entry.last or 0)
            spans.setdefault(entry.axis, []).append((*ends, entry.cost))
    return last, spans


def blocks_frame(db: sqlite3.Connection) -> pd.DataFrame:
    """A frame with one row for each stretch of an axis that the same releases read."""
    import pandas as pd

    now, (last, spans) = read_totals(db), charged_spans(db)
    tops, rows = tops_of(last.tops), []
    for axis, charges in sorted(spans.items()):
        for first, end, cost, number in stretches(charges):
            free = now.epsilon - last.spent_epsilon, now.delta - last.spent_delta
            left = (
                max(0, free[0] + tops[axis][0] - cost[0]),
                max(0, free[1] + tops[axis][1] - cost[1]),
            )
            null = first == NULL_FIRST
            ends = (None, None) if null else (moment_text(first), moment_text(end))
            rows.append((axis, *ends, number, cost, left))
    return pd.DataFrame(
        {
            "axis": pd.Series([row[0] for row in rows], dtype=text_dtype()),
            "first": pd.Series([row[1] for row in rows], dtype=text_dtype()),
            "last": pd.Series([row[2] for row in rows], dtype=text_dtype()),
            "releases": pd.Series([row[3] for row in rows], dtype="int64"),
            **{
                f"{what}_{name}": pd.Series(
                    [float_amount(row[place][which], unit) for row in rows], dtype="float64"
                )
                for place, what in ((4, "spent"), (5, "left"))
                for which, (name, unit) in enumerate(
                    (("epsilon", EPSILON_UNIT), ("delta", DELTA_UNIT))
                )
            },
        }
    )


def window_spending(db: sqlite3.Connection, seconds: int) -> Units:
    """The cost of the worst window of ``seconds`` seconds on every axis, with charges to all
    blocks."""
    last, spans = charged_spans(db)
    tops = tops_of(last.tops)
    epsilon, delta = read_totals(db).spent_units
    for axis, charges in spans.items():
        e, d = worst_window(charges, seconds)
        epsilon, delta = epsilon + e - tops[axis].epsilon, delta + d - tops[axis].delta
    return epsilon, delta


def seconds_of(days: object) -> int:
    """Days of a window as whole seconds, rounded up."""
    number = as_float(days)
    if number is None:
        raise ParameterTypeError(f"days must be a number; got {shown_value(days)}.")
    if not 0 <= number < 1e7:  # also refuses NaN
        raise ParameterError(f"days ({days!r}) must be 0 or more, and below 1e7.")
    return math.ceil(Fraction(str(days)) * 86_400)
