"""How far releases are from the truth, for whoever has it; of synthetic rows ``dp.wasserstein``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.asking.call_arguments import whole_number
from dpframe.common.calls import known_arguments
from dpframe.errors import ColumnError, ParameterError, ParameterTypeError
from dpframe.pages.marginals import (
    Reals,
    kind_of,
    real_bound,
    reals,
    sliced_distance,
    wasserstein_distance,
)

if TYPE_CHECKING:
    import pandas as pd


@known_arguments
def wasserstein(
    real: object,
    synthetic: object,
    *,
    columns: str | Sequence[str] | None = None,
    bounds: Mapping[str, tuple[Any, Any]] | None = None,
    projections: int = 200,
    seed: int = 0,
) -> float:
    """Return the 1-Wasserstein distance between the rows of two frames.

    It is how far one distribution must be carried, on average, to become the other. For one column
    it is exact. For several it is sliced: the mean of the distances along random directions, every
    column scaled from 0 to 1; at most the distance itself.

    Parameters
    ----------
    real, synthetic
        pandas or Polars frame, Series, Arrow table, or numpy array: (n,) for one column, (n, d)
        for d columns named "0", "1" and so on. A Series or (n,) array is compared with
        the only column of a frame, or with the column that ``columns`` names.
    columns
        One name or several. By default all columns of numbers or times that both have.
    bounds
        Dict from column to (lower, upper), numbers or times: the column is scaled so that these
        become 0 and 1. Values are not clipped. By default the range of ``real`` where there are
        several columns; one column without bounds stays in its own unit, times in seconds.
    projections
        Random directions for several columns, 1 to 100,000.
    seed
        Seed of the directions, from 0.

    Returns
    -------
    float
        At least 0, and 0 for equal distributions.

    Raises
    ------
    ParameterError
        If there are no rows without missing values, a value is infinite, or bounds are not finite
        and ascending.
    ColumnError
        If a column is missing or holds neither numbers nor times, or no column is common.
    ParameterTypeError
        If an argument has another type.

    Privacy
    -------
    None: the real rows are read, and the number tells about them. It is neither private nor charged
    to a ledger. Use it on data that are public, or look at it alone: whoever chooses parameters of
    a release by it publishes what it said.

    Rows with a missing value in one of the columns are left out.

    References
    ----------
    Vallender (1973) for one dimension. Rabin, Peyre, Delon, Bernot (2011) for directions.

    Examples
    --------
    >>> from dpframe.evaluation import wasserstein
    >>> wasserstein([0.0, 1.0], [0.5, 1.5])
    0.5
    """
    projections = whole_number("projections", projections, 1, 100_000)
    seed = whole_number("seed", seed, 0, 2**63 - 1)
    wanted = [columns] if isinstance(columns, str) else None if columns is None else list(columns)
    tables = _name_lone_column(
        _pandas_frame("real", real), _pandas_frame("synthetic", synthetic), wanted
    )
    names = _compared_columns(tables, wanted)
    scales = _column_bounds(bounds, names)
    a, b = (
        _complete_rows(what, table, names)
        for what, table in zip(("real", "synthetic"), tables, strict=True)
    )
    for i, name in enumerate(names):
        low, high = scales.get(name, (0.0, 1.0))
        if len(names) > 1 and name not in scales:
            low, high = float(a[:, i].min()), float(a[:, i].max())
            if low == high:
                raise ParameterError(
                    f"column {name!r} has one value only in real. Pass bounds for it, or leave it "
                    "out of columns."
                )
        for table in (a, b):
            table[:, i] = (table[:, i] - low) / (high - low)
    if len(names) == 1:
        return wasserstein_distance(a[:, 0], b[:, 0])
    return sliced_distance(a, b, projections=projections, seed=seed)


def _pandas_frame(what: str, given: object) -> pd.DataFrame:
    """Return a pandas frame; a single nameless column is named ``None``."""
    import pandas as pd
    import pyarrow as pa

    if isinstance(given, pd.DataFrame):
        return given
    if isinstance(given, pd.Series):
        return given.to_frame()
    if isinstance(given, pa.RecordBatch | pa.Table) or hasattr(given, "to_arrow"):
        table = given if isinstance(given, pa.RecordBatch | pa.Table) else given.to_arrow()
        if isinstance(table, pa.RecordBatch | pa.Table):
            frame: pd.DataFrame = table.to_pandas()
            return frame
        given = table.to_numpy(zero_copy_only=False)  # a Polars series
    if isinstance(given, np.ndarray | list | tuple):
        values = np.asarray(given)
        if values.ndim == 1:
            return pd.DataFrame({None: values})
        if values.ndim == 2:
            return pd.DataFrame(values, columns=[str(i) for i in range(values.shape[1])])
    raise ParameterTypeError(
        f"{what} must be a frame, Series, Arrow table, or array of one or two dimensions; "
        f"got {type(given).__name__}."
    )


def _name_lone_column(
    real: pd.DataFrame, synthetic: pd.DataFrame, wanted: list[str] | None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Give a lone nameless column the one name that is asked for, or that the other frame has."""
    out = []
    for table, other in ((real, synthetic), (synthetic, real)):
        if not table.columns.is_unique:
            raise ColumnError("a frame has two columns of the same name. Rename one.")
        if len(table.columns) == 1 and not isinstance(table.columns[0], str):
            named = wanted or list(other.columns)
            known = len(named) == 1 and isinstance(named[0], str)
            table = table.set_axis([named[0] if known else "values"], axis=1)
        out.append(table)
    return out[0], out[1]


def _compared_columns(
    tables: tuple[pd.DataFrame, pd.DataFrame], wanted: list[str] | None
) -> list[str]:
    """Return the columns to compare, checked."""
    real, synthetic = tables
    if wanted is None:
        wanted = [
            c for c in real.columns if c in set(synthetic.columns) and _comparable_column(tables, c)
        ]
        if not wanted:
            raise ColumnError(
                "real and synthetic share no column of numbers or times. Pass frames with the same "
                "names, or Series."
            )
    if not wanted or len(set(wanted)) < len(wanted):
        raise ParameterError(f"columns ({wanted!r}) must name different columns, at least one.")
    for name in wanted:
        for what, table in zip(("real", "synthetic"), tables, strict=True):
            if name not in table.columns:
                raise ColumnError(f"column {name!r} does not exist in {what}.")
        if not _comparable_column(tables, name):
            raise ColumnError(
                f"column {name!r} must hold numbers, or times, in both. "
                f"It is {real[name].dtype} in real, {synthetic[name].dtype} in synthetic."
            )
    return wanted


def _comparable_column(tables: tuple[pd.DataFrame, pd.DataFrame], name: str) -> bool:
    """Whether a column has numbers in both, or times in both."""
    kinds = [kind_of(table[name]) for table in tables]
    return kinds[0] is not None and kinds[0] == kinds[1]


def _column_bounds(given: object, names: list[str]) -> dict[str, tuple[float, float]]:
    """Return checked bounds of the columns that have any."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ParameterTypeError(
            f"bounds must map columns to (lower, upper); got {type(given).__name__}."
        )
    out = {}
    for name, pair in given.items():
        if name not in names:
            raise ColumnError(f"bounds has {name!r}, which is not among the columns compared.")
        ends = (math.nan,)
        if isinstance(pair, tuple | list) and len(pair) == 2:
            ends = tuple(map(real_bound, pair))  # type: ignore[assignment]
        if not all(map(math.isfinite, ends)) or ends[0] >= ends[-1]:
            raise ParameterError(
                f"bounds[{name!r}] must be (lower, upper), finite and lower < upper; got {pair!r}."
            )
        out[name] = (ends[0], ends[-1])
    return out


def _complete_rows(what: str, table: pd.DataFrame, names: list[str]) -> Reals:
    """Return the rows without missing values, shape (n, columns)."""
    values = np.column_stack([reals(table[name]) for name in names])
    values = values[~np.isnan(values).any(axis=1)]
    if not len(values):
        raise ParameterError(f"{what} has no row without missing values in {', '.join(names)}.")
    if not np.isfinite(values).all():
        raise ParameterError(f"{what} has infinite values. Replace them or leave them out.")
    return values
