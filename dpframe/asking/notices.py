"""What has to be said of a release by its own numbers: free, as they are public."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpframe.asking.quantities import Quantity
from dpframe.budget import PrivacyUnit, as_written
from dpframe.hierarchy import INVALID, Hierarchy

if TYPE_CHECKING:
    import pandas as pd


def mostly_invalid(frame: pd.DataFrame, hierarchy: Hierarchy) -> list[Quantity]:
    """A line for every column of which most of what was counted is <invalid>."""
    return [_notice(column, hierarchy.kind) for column in _columns(frame, hierarchy)]


def no_weights(frame: pd.DataFrame, column: str) -> list[Quantity]:
    """A line where weights are texts and the total may be 0: what is no whole number counts 0."""
    total = frame.loc[frame["level"] == 0, "lower"]
    if len(total) and total.min() > 0:
        return []
    return [
        Quantity(
            "notice",
            "weights may all be 0",
            f"the interval of the total holds 0, and texts that are no whole number, such as "
            f"12.50, count 0: does column {column!r} hold whole numbers?",
        )
    ]


def no_measure(frame: pd.DataFrame, unit: PrivacyUnit) -> list[Quantity]:
    """A line where the total of a measure may be 0: a bound far above all rows looks the same as a
    column of which nothing reads as a number."""
    total = frame.loc[frame["level"] == 0, "lower"]
    if not len(total) or total.min() > 0:
        return []
    return [
        Quantity(
            "notice",
            "nothing may be there",
            f"the interval of the total holds 0: does column {unit.weight!r} hold positive "
            f"numbers, and is max_weight ({as_written(unit.worth)}) not far above them?",
        )
    ]


HOLDS = {
    "ip": "IP addresses",
    "date": "dates or times",
    "number": "numbers",
    "domain": "host names",
    "path": "paths",
    "code": "codes",
    "columns": "values",
}
"""What a column of each kind should hold."""


def _columns(frame: pd.DataFrame, hierarchy: Hierarchy) -> list[str]:
    """Columns of which more than half of what was counted is <invalid>, by the released numbers."""
    level, share = frame["level"], frame["residual"]  # residuals add up to all that is released
    found = []
    shown = hierarchy.label_columns or ("prefix",)
    for depth, (name, column) in enumerate(zip(shown, hierarchy.source_columns, strict=True), 1):
        of_text = frame[name].astype(object) == INVALID
        own = of_text | (frame[name].isna() & frame["prefix"].astype("str").str.endswith(INVALID))
        above = of_text | frame[name].isna()  # where types are kept, and no row is below <other>
        invalid = share[((level == depth) & own) | ((level > depth) & above)].sum()
        if 2 * invalid > max(share.sum(), 0):
            found.append(column)
    return found


def _notice(column: str, kind: str) -> Quantity:
    return Quantity(
        "notice",
        f"mostly {INVALID}",
        f"more than half of what was counted: does column {column!r} hold {HOLDS[kind]}, and in "
        "most rows?",
    )
