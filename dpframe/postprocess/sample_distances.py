"""Columns as numbers, and 1-Wasserstein distances between their empirical distributions.

Sources
    In one dimension the integral of the difference of the distribution functions (Vallender 1973).
    Sliced: the mean of the distances of projections onto random directions (Rabin, Peyre, Delon,
    Bernot: "Wasserstein Barycenter and its Application to Texture Mixing", 2011). It is at most the
    distance itself in the Euclidean metric: a projection brings no two points further apart.
Privacy
    None is given: the distance to real data is a fact about these data.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpframe.noise import public_generator

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


def wasserstein_distance(real: Reals, synthetic: Reals) -> float:
    """The exact distance of two samples of finite numbers, in their unit; every value has the same
    weight in its sample, which has at least one."""
    values = np.sort(np.concatenate([real, synthetic]))
    below = [
        np.searchsorted(np.sort(one), values[:-1], "right") / len(one) for one in (real, synthetic)
    ]
    return float(np.sum(np.abs(below[0] - below[1]) * np.diff(values)))


def sliced_distance(real: Reals, synthetic: Reals, *, projections: int, seed: int) -> float:
    """The mean distance of finite rows along random directions. Its error falls as one over the
    root of their number; one seed always gives the same directions."""
    along = directions(projections, real.shape[1], seed)
    return float(np.mean([wasserstein_distance(real @ v, synthetic @ v) for v in along]))


def directions(projections: int, dimensions: int, seed: int) -> Reals:
    """Unit vectors, independent and uniform on the sphere, (projections, dimensions)."""
    drawn = public_generator(seed).standard_normal((projections, dimensions))
    unit: Reals = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return unit
