"""Convert nodes of a hierarchy of one level to the frame of a flat column, largest counts first,
and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpframe.hierarchy import INVALID

if TYPE_CHECKING:
    import pandas as pd


def flat_frame(frame: pd.DataFrame, column: str, k: int | None) -> pd.DataFrame:
    """Columns ``column``, count, lower and upper; largest counts first, ties by value; at most
    ``k`` rows, all if None."""
    out = frame.loc[frame["level"] == 1, [column, "count", "lower", "upper"]]
    out = out.sort_values(["count", column], ascending=[False, True], kind="stable")
    return (out if k is None else out.head(k)).reset_index(drop=True)


def cut_facts(facts: Mapping[str, Any], shown: int, released: int) -> dict[str, Any]:
    """Return the facts of a receipt, which say so if only the largest rows are shown: where counts
    are close, noise decides which are largest, and intervals miss more often than they say."""
    if shown >= released:
        return dict(facts)
    about = (
        f"the {shown} shown are the largest of {released} released, by their noisy counts: where "
        "many counts are close, these are too large, and intervals are nominal. Without k= all "
        "are shown, and intervals hold"
    )
    return {
        **facts,
        "intervals": f"{facts['intervals']}; but {about}",
        "card": [["intervals", "nominal", about], *facts["card"]],
    }


def as_nodes(frame: pd.DataFrame, columns: tuple[str, ...]) -> pd.DataFrame:
    """A flat frame as nodes of one level, for drawings of hierarchies; other frames are left alone.

    ``columns`` are the label columns of the hierarchy of the release.
    """
    if len(columns) != 1 or {"level", "prefix", "residual"} & set(frame.columns):
        return frame
    if not {columns[0], "count"} <= set(frame.columns):
        return frame
    values = frame[columns[0]].astype(object)
    labels = values.where(frame[columns[0]].notna(), INVALID).map(str)
    return frame.assign(level=1, prefix=labels, residual=frame["count"])
