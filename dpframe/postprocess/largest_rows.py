"""The largest rows of a release, and whether their order is certain."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpframe._known_arguments import shown_value
from dpframe.errors import ParameterError, ParameterTypeError
from dpframe.postprocess.shown_nodes import ShownNodes, check_column_clash, shown_nodes

if TYPE_CHECKING:
    import pandas as pd

ABOVE_NEXT = "above_next"
"""Column: whether the order against the next row is certain."""


def largest_rows(
    frame: pd.DataFrame, receipt: Mapping[str, Any], n: object, *, by: object, level: object
) -> pd.DataFrame:
    """``result.dp.top``; see :meth:`dpframe.doors.result_methods.ResultMethods.top`."""
    nodes = shown_nodes(frame, receipt, "top", cells=True)
    most = _whole_argument("n", n, 1)
    check_column_clash(frame, (ABOVE_NEXT,), "top")
    _, columns = nodes.measure(by)
    values = nodes.numbers(columns.value)
    kept = np.flatnonzero(_level_mask(nodes, level))
    missing = np.isnan(values[kept])
    ranked = kept[np.lexsort((np.where(missing, 0.0, -values[kept]), missing))]
    lower, upper = nodes.numbers(columns.lower)[ranked], nodes.numbers(columns.upper)[ranked]
    following = np.append(upper, np.nan)[1:]  # NaN after the last row
    unknown = np.isnan(lower) | np.isnan(following)
    above = [
        None if u else bool(lo > hi) for lo, hi, u in zip(lower, following, unknown, strict=True)
    ]
    out = frame.iloc[ranked[:most]].copy()
    out[ABOVE_NEXT] = above[: len(out)]
    out[ABOVE_NEXT] = out[ABOVE_NEXT].astype("boolean")
    return out


def _level_mask(nodes: ShownNodes, level: object) -> NDArray[np.bool_]:
    if level is None:
        return nodes.level > 0
    if isinstance(level, str):
        names = list(nodes.receipt["levels"])
        if level not in names:
            raise ParameterError(
                f"level ({level!r}) must be a number or one of {', '.join(map(repr, names))}."
            )
        return np.equal(nodes.level, names.index(level) + 1)
    return np.equal(nodes.level, _whole_argument("level", level, 0, nodes.hierarchy.height))


def _whole_argument(name: str, value: object, low: int, high: int | None = None) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ParameterTypeError(f"{name} must be a whole number; got {shown_value(value)}.")
    if int(value) < low or (high is not None and int(value) > high):
        rule = f"at least {low}" if high is None else f"{low} to {high}"
        raise ParameterError(f"{name} ({value!r}) must be {rule}.")
    return int(value)
