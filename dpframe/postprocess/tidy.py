"""Released nodes as a frame: labels, whole numbers, intervals, one order."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpframe.hierarchy import INVALID, ROOT
from dpframe.plan import Plan
from dpframe.tree import NoisyNodes

TEXT = "str" if int(pd.__version__.split(".")[0]) >= 3 else "object"
"""dtype of text columns: pandas 3 has one of its own."""


def tidy(noisy: NoisyNodes, plan: Plan) -> pd.DataFrame:
    """Columns level, prefix, (one a level,) residual, count, lower, upper; by level and label."""
    hierarchy, grid = plan.hierarchy, plan.grid
    texts = list(zip(*(column.to_pylist() for column in noisy.keys), strict=True))
    levels = noisy.level.tolist()
    labels = [
        hierarchy.label(level, text) if level else ROOT
        for level, text in zip(levels, texts, strict=True)
    ]
    order = sorted(range(len(labels)), key=lambda i: (levels[i], labels[i], str(texts[i])))
    half = np.array([plan.half_width(int(k)) for k in noisy.terms], dtype=np.int64)
    columns: dict[str, object] = {
        "level": noisy.level[order],
        "prefix": pd.Series([labels[i] for i in order], dtype=TEXT),
    }
    for depth, name in enumerate(hierarchy.label_columns, 1):
        columns[name] = pd.Series(
            [_cell(texts[i][depth - 1], levels[i] >= depth) for i in order], dtype=TEXT
        )
    columns["residual"] = _rounded(noisy.residual[order], grid)
    columns["count"] = _rounded(noisy.count[order], grid)
    columns["lower"] = (noisy.count - half)[order] // grid
    columns["upper"] = -(-(noisy.count + half)[order] // grid)
    return pd.DataFrame(columns)


def _cell(text: str | None, there: bool) -> str | None:
    if not there:
        return None
    return INVALID if text is None else text


def _rounded(units: NDArray[np.int64], grid: int) -> NDArray[np.int64]:
    """Units to whole counts, halves up."""
    return (2 * units + grid) // (2 * grid)
