"""Columns of numbers and times, as numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

Reals = NDArray[np.float64]
EPOCH = "1970-01-01"


def kind_of(column: pd.Series[Any]) -> str | None:
    """The kind of a column: "number" or "time"; None for other columns, such as truth values."""
    import datetime as dt
    from decimal import Decimal

    from pandas.api import types

    if types.is_bool_dtype(column.dtype):
        return None
    if types.is_numeric_dtype(column.dtype):
        return None if types.is_complex_dtype(column.dtype) else "number"
    if types.is_datetime64_any_dtype(column.dtype):
        return "time"
    if types.is_object_dtype(column.dtype):
        known = column.dropna()
        if len(known) and known.map(lambda v: isinstance(v, dt.date)).all():
            return "time"
        if len(known) and known.map(lambda v: isinstance(v, Decimal)).all():
            return "number"
    return None


def reals(column: pd.Series[Any]) -> Reals:
    """A copy of a column as float64: times in seconds since 1970 (UTC), missing values as NaN."""
    import pandas as pd

    values: pd.Series[Any] = column
    if kind_of(column) == "time":
        since = pd.to_datetime(column, utc=True) - pd.Timestamp(EPOCH, tz="UTC")
        values = since / pd.Timedelta(seconds=1)
    out: Reals = values.to_numpy(dtype=np.float64, na_value=np.nan, copy=True)
    return out


def real_bound(value: object) -> float:
    """A bound, a number or a time, on the scale of :func:`reals`; NaN if it is neither."""
    import pandas as pd

    if isinstance(value, int | float | np.number) and not isinstance(value, bool):
        return float(value)
    given: Any = value
    try:
        return float(reals(pd.Series([pd.to_datetime(given, utc=True)]))[0])
    except (TypeError, ValueError, OverflowError):
        return math.nan
