"""Heavy hitters of a flat column: a hierarchy of one level, largest counts first."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def flat(frame: pd.DataFrame, column: str, k: int | None) -> pd.DataFrame:
    """Columns ``column``, count, lower and upper; at most ``k`` rows, ties by value."""
    out = frame.loc[frame["level"] == 1, [column, "count", "lower", "upper"]]
    out = out.sort_values(["count", column], ascending=[False, True], kind="stable")
    return (out if k is None else out.head(k)).reset_index(drop=True)
