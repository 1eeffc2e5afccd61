"""Draw two columns against each other as a plotly heatmap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.pages.chartable import Chartable, DrawnMeasure
from dpframe.pages.plot_texts import hover_texts, plotly_text

if TYPE_CHECKING:
    import pandas as pd

CELLS = 30
"""Largest number of values of each column that are drawn: the ones with the largest sums."""

WRITTEN = 16
"""Numbers are written into the cells if neither column has more values than this."""

LONGEST = 28
"""Largest number of characters of a label beside the grid."""

SCALE = "Cividis"
"""Even steps of lightness, in grey print and with any kind of sight (Nunez et al. 2018)."""

SIGNED = [[0.0, "#8c510a"], [0.5, "#f5f5f5"], [1.0, "#01665e"]]
"""Brown to green over nearly white (ColorBrewer BrBG), for measures of both signs."""


def heatmap(shown: Chartable, measure: DrawnMeasure, graph: Any) -> tuple[Any, list[str]]:
    """Return a figure of the first level by the second, and remarks for its subtitle."""
    rows = shown.nodes[shown.level == 2]
    first, second = (values_as_text(rows, name) for name in shown.hierarchy.label_columns[:2])
    value = rows[measure.columns[0]].astype("Float64").to_numpy(dtype=np.float64, na_value=np.nan)
    across, down = (largest_labels(column, value) for column in (second, first))
    x, y = ({label: i for i, label in enumerate(axis[:CELLS])} for axis in (across, down))
    grid = np.full((len(y), len(x)), np.nan)
    texts = np.full(grid.shape, "not reported", dtype=object)
    said = hover_texts(rows, shown)
    for a, b, number, text in zip(first, second, value, said, strict=True):
        if a in y and b in x:
            grid[y[a], x[b]], texts[y[a], x[b]] = number, text
    trace = graph.Heatmap(
        z=grid,
        colorscale=SIGNED if measure.signed else SCALE,
        zmid=0 if measure.signed else None,
        xgap=1,
        ygap=1,
        text=texts,
        texttemplate="%{z:.3~s}" if max(grid.shape) <= WRITTEN else None,
        hovertemplate="%{text}<extra></extra>",
        hoverongaps=False,
        colorbar={"title": {"text": plotly_text(measure.name, LONGEST)}, "tickformat": ","},
    )
    figure = graph.Figure(trace)
    names = shown.hierarchy.level_names
    figure.update_xaxes(**_heatmap_axis(list(x), names[1]), tickangle=-45 if len(x) > 6 else 0)
    figure.update_yaxes(**_heatmap_axis(list(y), names[0]), autorange="reversed")
    figure.update_layout(height=260 + 22 * max(len(y), 4))
    notes = ["empty cells were not reported, which is not zero"] if np.isnan(grid).any() else []
    notes += [
        f"the {CELLS} largest of {len(axis):,} values of {plotly_text(name)}"
        for axis, name in ((down, names[0]), (across, names[1]))
        if len(axis) > CELLS
    ]
    return figure, notes


def values_as_text(rows: pd.DataFrame, column: str) -> list[str]:
    """Return the values of a level as text; for a missing value, the end of the node's label."""
    ends = rows["prefix"].astype(str).str.rpartition(" / ")[2]
    values = rows[column]
    return [
        end if missing else str(value)
        for value, missing, end in zip(values, values.isna(), ends, strict=True)
    ]


def largest_labels(labels: list[str], value: Any) -> list[str]:
    """Return the different labels, ordered by the sum of their absolute values, largest first."""
    sizes: dict[str, float] = {}
    for label, number in zip(labels, np.nan_to_num(np.abs(value)), strict=True):
        sizes[label] = sizes.get(label, 0.0) + number
    return sorted(sizes, key=lambda label: (-sizes[label], label))


def _heatmap_axis(labels: list[str], name: str) -> dict[str, Any]:
    return {
        "tickvals": list(range(len(labels))),
        "ticktext": [plotly_text(label, LONGEST) for label in labels],
        "title": {"text": plotly_text(name, LONGEST)},
        "automargin": True,
        "showgrid": False,
        "zeroline": False,
    }
