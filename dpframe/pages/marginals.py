"""The page of synthetic rows beside a public sample: a drawing and a distance per column.

**Distances** are 1-Wasserstein distances between the empirical distributions of two samples.

Sources
    In one dimension the integral of the difference of the distribution functions (Vallender 1973).
    Sliced: the mean of the distances of projections onto random directions (Rabin, Peyre, Delon,
    Bernot: "Wasserstein Barycenter and its Application to Texture Mixing", 2011). It is at most the
    distance itself in the Euclidean metric: a projection brings no two points further apart.
Privacy
    None is given: the distance to real data is a fact about these data.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpframe.asking.privacy_receipt import Receipt
from dpframe.errors import ColumnError, ParameterError
from dpframe.noise import public_generator
from dpframe.pages.drawings import (
    Bins,
    bins_of,
    draw_category_bars,
    draw_histogram,
    percent_of_rows,
    seconds_text,
)
from dpframe.pages.page_parts import (
    budget_figure,
    budget_words,
    fill_asset,
    html_document,
    plain_words,
    write_page,
)

MOST = 20
"""Largest number of categories that are drawn."""

Reals = NDArray[np.float64]
EPOCH = "1970-01-01"


@dataclass(frozen=True, slots=True)
class Marginal:
    """One column: its drawing, and the distance between both distributions."""

    name: str
    drawing: str
    measure: str
    distance: str
    part: str


def marginals_page(
    real: pd.DataFrame,
    synthetic: pd.DataFrame,
    *,
    title: str | None = None,
    note: str | None = None,
    receipt: Receipt,
    bounds: Mapping[str, tuple[Any, Any]] | None = None,
) -> str:
    """Return the page as text: one HTML document without scripts, whose policy forbids requests.

    Parameters
    ----------
    real
        A public sample, which the page shows without protection.
    synthetic
        Rows of a generator. Columns that both frames have are compared.
    title
        Heading; by default the columns.
    note
        A sentence below it, such as where the sample is from.
    receipt
        The receipt of the generator.
    bounds
        Columns to (lower, upper) of their drawings. By default the bounds that the receipt
        declares, else the range of both frames. Values outside are drawn in the nearest bin.

    Raises
    ------
    ColumnError
        The frames have no column in common, or one has two columns of the same name.
    ParameterError
        A common column has no values in one of the frames.

    Privacy
    -------
    The synthetic rows are post-processing of a release. The sample and its distance to them are
    shown exactly and without protection: never pass the private data.
    """
    if not (real.columns.is_unique and synthetic.columns.is_unique):
        raise ColumnError("a frame has two columns with one name. Rename one.")
    names = [name for name in real.columns if name in set(synthetic.columns)]
    if not names:
        raise ColumnError("real and synthetic have no column in common.")
    declared = {**_declared_bounds(receipt), **_finite_bounds(bounds or {})}
    found = [_column_marginal(str(n), real[n], synthetic[n], declared.get(str(n))) for n in names]
    sections = fill_asset(
        "marginals.html",
        drawings="".join(_marginal_figure(m) for m in found),
        distances="".join(_distance_row(m) for m in found),
    )
    return html_document(
        sections,
        title=title or f"Synthetic {', '.join(map(str, names))}",
        lead=_marginals_lead(receipt, note),
        figures=[
            ("Public sample", f"{len(real):,}", "rows, as they are"),
            ("Synthetic", f"{len(synthetic):,}", "rows, drawn from the generator"),
            ("Columns", f"{len(names):,}", "in both"),
            budget_figure(receipt),
        ],
        promise=[
            f"The synthetic rows were drawn from a release with {receipt['guarantee']}.",
            plain_words(receipt, "the synthetic rows"),
            "The public sample and the distances to it are exact: nothing on this page protects "
            "the sample.",
            budget_words(receipt),
        ],
        heading="What is promised",
        receipt=receipt,
    )


def write_marginals(
    real: pd.DataFrame,
    synthetic: pd.DataFrame,
    path: str | Path,
    *,
    title: str | None = None,
    note: str | None = None,
    receipt: Receipt,
    bounds: Mapping[str, tuple[Any, Any]] | None = None,
) -> None:
    """Write :func:`marginals_page` to a file."""

    def make() -> str:
        return marginals_page(
            real, synthetic, title=title, note=note, receipt=receipt, bounds=bounds
        )

    write_page(path, make)


# -- one column ----------------------------------------------------------------------------------


def _column_marginal(
    name: str, real: pd.Series[Any], synthetic: pd.Series[Any], bounds: tuple[float, float] | None
) -> Marginal:
    kind = kind_of(real)
    if kind is None or kind != kind_of(synthetic):
        return _category_marginal(name, real, synthetic)
    a, b = (values[np.isfinite(values)] for values in (reals(real), reals(synthetic)))
    if not len(a) or not len(b):
        raise ParameterError(f"column {name!r} is empty in one frame. Leave it out.")
    low, high = bounds or (min(a.min(), b.min()), max(a.max(), b.max()))
    return _number_marginal(
        name, a, b, bins_of(np.concatenate([a, b]), kind, float(low), float(high))
    )


def _number_marginal(name: str, real: Reals, synthetic: Reals, bins: Bins) -> Marginal:
    apart = wasserstein_distance(real, synthetic)
    drawing = draw_histogram(
        bins.edges.tolist(),
        bins.shares(real),
        bins.shares(synthetic),
        ticks=bins.ticks,
        names=bins.names,
        label=f"Distribution of {name} in the sample and in the synthetic rows",
    )
    text = seconds_text(apart) if bins.kind == "time" else f"{apart:,.3g}"
    return Marginal(name, drawing, "1-Wasserstein", text, percent_of_rows(apart / bins.range))


def _category_marginal(name: str, real: pd.Series[Any], synthetic: pd.Series[Any]) -> Marginal:
    shares = [s.dropna().astype(str).value_counts(normalize=True) for s in (real, synthetic)]
    if not all(map(len, shares)):
        raise ParameterError(f"column {name!r} is empty in one frame. Leave it out.")
    both = pd.concat(shares, axis=1, keys=["real", "synthetic"]).fillna(0.0)
    apart = float((both["real"] - both["synthetic"]).abs().sum()) / 2
    both = both.assign(mean=both.mean(axis=1), label=both.index)
    both = both.sort_values(["mean", "label"], ascending=[False, True], kind="stable")
    shown = both if len(both) <= MOST else both.iloc[:MOST]
    labels = [_printable(label) for label in shown["label"]]
    a, b = shown["real"].tolist(), shown["synthetic"].tolist()
    rest = None
    if more := len(both) - len(shown):
        rest = (f"{more:,} more", max(0.0, 1 - sum(a)), max(0.0, 1 - sum(b)))
    words = f"Most frequent values of {name} in the sample and in the synthetic rows"
    drawing = draw_category_bars(labels, a, b, label=words, rest=rest)
    return Marginal(name, drawing, "total variation", percent_of_rows(apart), "")


def _printable(label: str) -> str:
    return label if label.strip() else repr(label)


def _declared_bounds(receipt: Receipt) -> dict[str, tuple[float, float]]:
    """Return the bounds of numbers and times from the specification in the receipt."""
    from dpframe.domains import NumberAxis, TimeAxis, as_domain

    found = {}
    for spec in str(receipt["hierarchy"]).split("; "):
        if spec.startswith(("number:", "time:")):
            (axis,) = as_domain(spec).axes
            if isinstance(axis, NumberAxis | TimeAxis):
                found[axis.column] = (axis.lower, axis.upper)
    return _finite_bounds(found)


def _finite_bounds(bounds: Mapping[str, tuple[Any, Any]]) -> dict[str, tuple[float, float]]:
    out = {}
    for name, (low, high) in bounds.items():
        ends = real_bound(low), real_bound(high)
        if not all(map(math.isfinite, ends)) or ends[0] >= ends[1]:
            raise ParameterError(
                f"bounds[{name!r}] must be (lower, upper), finite, with lower < upper."
            )
        out[name] = ends
    return out


# -- words ---------------------------------------------------------------------------------------


def _marginals_lead(receipt: Receipt, note: str | None) -> str:
    guarantee = html.escape(receipt["guarantee"])
    below = f"<p class='note' dir='auto'>{html.escape(note)}</p>" if note else ""
    return (
        f'<p class="lead">Synthetic rows with <strong>{guarantee}</strong>, beside a public '
        f"sample.</p>\n{below}"
    )


def _marginal_figure(marginal: Marginal) -> str:
    said = f"{marginal.measure} {marginal.distance}"
    return (
        f"<figure><figcaption><h3 dir='auto'>{html.escape(marginal.name)}</h3>"
        f"<span>{html.escape(said)}</span></figcaption>{marginal.drawing}</figure>"
    )


def _distance_row(marginal: Marginal) -> str:
    return (
        f"<tr><th scope='row'>{html.escape(marginal.name)}</th><td>{marginal.measure}</td>"
        f"<td class='number'>{html.escape(marginal.distance)}</td>"
        f"<td class='number'>{html.escape(marginal.part)}</td></tr>"
    )


# -- distances -----------------------------------------------------------------------------------


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
    values: pd.Series[Any] = column
    if kind_of(column) == "time":
        since = pd.to_datetime(column, utc=True) - pd.Timestamp(EPOCH, tz="UTC")
        values = since / pd.Timedelta(seconds=1)
    out: Reals = values.to_numpy(dtype=np.float64, na_value=np.nan, copy=True)
    return out


def real_bound(value: object) -> float:
    """A bound, a number or a time, on the scale of :func:`reals`; NaN if it is neither."""
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
