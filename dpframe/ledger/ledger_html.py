"""What a notebook shows of a ledger: what is spent, what is left, and the newest releases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpframe._html import folded_html
from dpframe._terminal import visible

if TYPE_CHECKING:
    import pandas as pd

NEWEST = 20
"""Releases in the list."""

LISTED = ("number", "time", "release", "mechanism", "hierarchy", "epsilon", "delta")
"""Columns of ``ledger.releases()`` that the list has."""


def ledger_html(summary: pd.DataFrame, releases: pd.DataFrame) -> str:
    """HTML of ``ledger.summary()`` and of ``releases``: given oldest first, shown newest first."""
    (facts,) = summary.to_dict("records")
    listed = [[_cell_text(row[name]) for name in LISTED] for row in releases.to_dict("records")]
    total = f"({facts['epsilon']:g}, {facts['delta']:g})"
    return folded_html(
        f"Ledger {visible(str(facts['ledger']))}",
        [
            f"spent ({facts['spent_epsilon']:.4g}, {facts['spent_delta']:.3g}) of {total}, "
            f"accountant {facts['accountant']}",
            f"left ({facts['left_epsilon']:.4g}, {facts['left_delta']:.3g})"
            + (f", for {facts['protects']}" if facts["protects"] else ""),
            f"{facts['releases']:,} releases, {facts['reserved']:,} more paid for beforehand",
        ],
        f"the newest {len(listed)} of them",
        [list(LISTED), *reversed(listed)] if listed else (),
    )


def _cell_text(value: object) -> str:
    if value is None or value != value:  # missing
        return ""
    return f"{value:.6g}" if isinstance(value, float) else visible(str(value))
