"""Level columns that were categories become categories again, with the released values only.

The list of categories of a source holds values of its rows and, if the source was read from a file,
also their order. So a result has only the categories that it shows anyway. A column that is
declared as ordered keeps its order, which its owner chose.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def with_categories(frame: pd.DataFrame, source: object, levels: Sequence[str]) -> pd.DataFrame:
    """A released frame whose level columns are categorical where the columns of the source are."""
    import pandas as pd

    kinds = {name: _category_order(source, name) for name in levels if name in frame.columns}
    changed = {name: order for name, order in kinds.items() if order is not None}
    if not changed:
        return frame
    out = frame.copy()
    for name, order in changed.items():
        shown = set(out[name].dropna().tolist())
        declared = [value for value in order if value in shown]
        others = sorted(shown.difference(declared), key=str)
        kind = pd.CategoricalDtype(
            pd.Index([*declared, *others], dtype=out[name].dtype), ordered=bool(order)
        )
        out[name] = out[name].astype(kind)
    return out


def _category_order(source: object, name: str) -> list[Any] | None:
    """The declared order of a column of categories, [] if none is declared; None for columns of
    other types."""
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if pandas is not None and isinstance(source, pandas.DataFrame):
        kind = source.dtypes.get(name)
        if isinstance(kind, pandas.CategoricalDtype):
            return list(kind.categories) if kind.ordered else []
    elif polars is not None and isinstance(source, polars.DataFrame):
        kind = source.schema.get(name)
        if isinstance(kind, polars.Enum):
            return list(kind.categories)
        if kind == polars.Categorical:
            return []
    return None
