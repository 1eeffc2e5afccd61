"""Distributions: the page of synthetic rows beside a public sample, with a drawing and a distance
per column; and values in bins at the nodes of a release.

**Distances** are 1-Wasserstein distances between the empirical distributions of two samples.

Sources
    In one dimension the integral of the difference of the distribution functions (Vallender 1973).
    Sliced: the mean of the distances of projections onto random directions (Rabin, Peyre, Delon,
    Bernot: "Wasserstein Barycenter and its Application to Texture Mixing", 2011). It is at most the
    distance itself in the Euclidean metric: a projection brings no two points further apart.
Privacy
    None is given to a sample: the distance to real data is a fact about these data.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpframe.asking.measure_texts import Figures, ReleasedMeasure, parse_measure
from dpframe.asking.privacy_receipt import Receipt
from dpframe.errors import ColumnError, ParameterError
from dpframe.measures.bins import axis_place, spoken_value
from dpframe.measures.measure import Measure
from dpframe.noise import public_generator
from dpframe.pages.drawings import (
    Point,
    Tick,
    draw_category_bars,
    draw_histogram,
    nice_ticks,
    percent_of_rows,
    plain_number,
    seconds_text,
    stamp_of,
    time_ticks,
)
from dpframe.pages.page_parts import (
    budget_figure,
    budget_words,
    fill_asset,
    html_document,
    plain_words,
    write_page,
)
from dpframe.postprocess.quantiles import NodeBins, shown_bins
from dpframe.postprocess.shown_nodes import Ends, ShownNodes

MOST = 20
"""Largest number of categories that are drawn."""

Reals = NDArray[np.float64]
EPOCH = "1970-01-01"


BINS = 48
"""Largest number of bins in a drawing."""


@dataclass(frozen=True, slots=True, eq=False)
class Bins:
    """Intervals of equal width.

    Parameters
    ----------
    kind
        "number" or "time" (seconds since 1970).
    edges
        Ascending, one more than bins.
    ticks
        Ticks of the axis.
    names
        The name of each bin.
    range
        Upper minus lower bound, which whole-number bins can exceed.
    """

    kind: str
    edges: Reals
    ticks: list[Tick]
    names: list[str]
    range: float

    def shares(self, values: Reals) -> list[float]:
        """Return the part of the values in each bin; values outside count in the nearest bin."""
        inside = np.clip(values, self.edges[0], self.edges[-1])
        counts = np.histogram(inside, self.edges)[0]
        shares: list[float] = (counts / len(values)).tolist()
        return shares


def bins_of(values: Reals, kind: str, low: float, high: float) -> Bins:
    """Make bins from ``low`` to ``high``. Edges never cut whole numbers; if these are few, each has
    a bin."""
    span = high - low
    whole = bool((values == np.floor(values)).all()) and max(abs(low), abs(high)) < 2**53
    if span <= 0 and not (whole and kind == "number"):
        low, high = low - 0.5, high + 0.5
    if kind == "time":
        edges = np.linspace(low, high, BINS + 1)
        return Bins(kind, edges, time_ticks(low, high), _time_bin_names(edges), span or 1.0)
    if not whole:
        edges = np.linspace(low, high, BINS + 1)
        names = [f"{plain_number(a)} to {plain_number(b)}" for a, b in pairwise(edges)]
        return Bins(kind, edges, nice_ticks(low, high, 6), names, span or 1.0)
    first, last = math.floor(low), math.ceil(high)
    step = max(1, math.ceil((last - first + 1) / BINS))
    count = math.ceil((last - first + 1) / step)
    edges = first - 0.5 + step * np.arange(count + 1, dtype=np.float64)
    ends = [(math.ceil(a), math.floor(a + step)) for a in edges[:-1]]
    names = [
        plain_number(a) if step == 1 else f"{plain_number(a)} to {plain_number(b)}" for a, b in ends
    ]
    ticks = [t for t in nice_ticks(first, float(edges[-1]), 6) if t.at == math.floor(t.at)]
    return Bins(kind, edges, ticks, names, span or 1.0)


def _time_bin_names(edges: Reals) -> list[str]:
    """Name bins of times by their ends, as precisely as the bins are narrow."""
    wide = edges[1] - edges[0]
    written = "%Y-%m-%d" if wide >= 86_400 else "%Y-%m-%d %H:%M" if wide >= 60 else "%H:%M:%S"
    texts = [stamp_of(edge).strftime(written) for edge in edges.tolist()]
    return [f"{a} to {b}" for a, b in pairwise(texts)]


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


# -- distributions -------------------------------------------------------------------------------

SHAPES, SHAPED, FEWEST_BARS = 12, 3, 8
"""Largest numbers of nodes whose values are drawn and of measures, and the fewest bars of a node
that are left where noise is large."""

CLEAR = 3.0
"""Bins are drawn together until a bar of middling height is so many standard deviations of its
noise."""

BEYOND = 0.02
"""The least part of the values beyond a bound that is told."""

EDGE = 0.002
"""An axis ends where less than this part of the values of all drawn nodes is beyond."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NodeShapes:
    """The values of some nodes in bins: their places in a release, which of ``node`` they are, and
    the measure."""

    measure: Measure
    node: NodeBins
    places: NDArray[np.int64]
    own: NDArray[np.int64]
    confidence: float
    grain: float
    """Of what values are multiples, 0 if of nothing."""

    @property
    def is_even(self) -> bool:
        """Whether equal distances on the axis are equal differences."""
        return self.measure.split == "whole" or self.measure.spacing == "even"

    def place(self, value: float) -> float:
        """Return where an edge is on the common axis: of bins of whole numbers, beside them."""
        bounds = self.measure.bins.edges[0], float(self.measure.upper or 0)
        if self.measure.split == "whole":
            value -= 0.5
        return axis_place(value, bounds, "even" if self.is_even else "proportion")

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of the common axis."""
        low, high = self.shown_edges
        return self.place(self.measure.bins.edges[low]), self.place(self.measure.bins.edges[high])

    @cached_property
    def medians(self) -> list[Ends]:
        """The medians of all of ``node`` with the ends of their intervals; an end beyond a bound is
        None, and all are where nothing is known."""
        found = self.node.quantile(0.5, self.confidence, self.grain)
        columns = (found.value, found.lower, found.upper, found.below, found.above, found.unknown)
        return [
            (None, None, None)
            if unknown
            else (value, None if below else lower, None if above else upper)
            for value, lower, upper, below, above, unknown in zip(
                *(column.tolist() for column in columns), strict=True
            )
        ]

    @property
    def figures(self) -> Figures:
        """How values are written."""
        of, value = self.measure.column, self.measure.value
        written = ReleasedMeasure(
            name="", kind="quantile", of=of, spec="", signed=True, value=value
        )
        found = written.figures([self.medians[own] for own in self.own.tolist()])
        return replace(found, digits=0) if self.grain else found

    def mark(self, own: int) -> Point | None:
        """Return where the median of a node and its interval are on the axis."""
        value, lower, upper = self.medians[own]
        if value is None:
            return None
        whole = self.measure.split == "whole"
        return Point(
            value=self.place(value + 0.5 * whole),
            lower=None if lower is None else self.place(lower),
            upper=None if upper is None else self.place(upper + whole),
        )

    def words_beyond(self, own: int) -> str:
        """Return which part of the values of a node is beyond the bounds, if noise alone does not
        explain it."""
        numbers, total = self.node.numbers[own], self.node.running_totals[own, -1]
        noise = math.sqrt(self.node.variance[own]) / self.node.unit
        said = []
        for place, where, edge in ((0, "below", 0), (-1, "above", -1)):
            if numbers[place] > max(CLEAR * noise, BEYOND * total):
                bound = (
                    self.measure.bins.edges[edge] if edge == 0 else float(self.measure.upper or 0)
                )
                part = f"{100 * numbers[place] / total:.2g} %"
                said.append(f"; {part} {where} {spoken_value(bound, self.measure.value)}")
        return "".join(said)

    @cached_property
    def shown_edges(self) -> tuple[int, int]:
        """The first and the last edge of the common axis."""
        passed = np.cumsum(self.node.numbers[self.own].sum(axis=0))
        last = len(self.measure.bins.edges) - 1
        if passed[-1] <= 0:
            return 0, last
        low = int(np.argmax(passed > EDGE * passed[-1])) - 2
        high = last + 2 - int(np.argmax((passed < (1 - EDGE) * passed[-1])[::-1]))
        low, high = max(low, 0), min(high, last)
        return (low, high) if high - low >= FEWEST_BARS else (0, last)

    def bars(self, own: int) -> tuple[list[float], list[float], list[tuple[float, float, int]]]:
        """Return the bars of a node: places of their edges, heights, and the ends and number of
        each. A height is a part of the values of the node, divided by the width of the bar."""
        low, high = self.shown_edges
        edges, numbers = self.measure.bins.edges, self.node.numbers[own]
        total = float(max(numbers.sum(), 1))
        noise = math.sqrt(self.node.variance[own]) / self.node.unit
        each = 1
        while (high - low) / (2 * each) >= FEWEST_BARS and (
            total * each / (high - low) < CLEAR * noise * math.sqrt(each)
        ):
            each *= 2
        starts = [*range(low, high, each)]
        ends = [*starts[1:], high]
        places, heights, told = [self.place(edges[low])], [], []
        for start, end in zip(starts, ends, strict=True):
            number = int(numbers[start + 1 : end + 1].sum())
            places.append(self.place(edges[end]))
            heights.append(number / total / (places[-1] - places[-2]))
            told.append((edges[start], edges[end], number))
        return places, heights, told


def shapes_of(nodes: ShownNodes, name: str) -> NodeShapes | None:
    """Return the largest nodes of the highest level that has several nodes with numbers in bins, or
    everything; None if there is none, or if the noise in the bins is not known."""
    try:
        found = shown_bins(nodes, name)
    except ParameterError:  # some rows of a release, or rows that read alike
        return None
    if not len(found.rows):
        return None
    measure, level = parse_measure(nodes.receipt["measures"][name]["spec"])[1], nodes.level
    level = level[found.rows]
    several = [one for one in np.unique(level[level > 0]) if np.count_nonzero(level == one) > 1]
    chosen = np.flatnonzero(level == (several[0] if several else level.min()))
    size = found.node.running_totals[chosen, -1]
    chosen = chosen[np.argsort(-size, kind="stable")][:SHAPES]
    whole = 1.0 if measure.split == "whole" else 0.0
    return NodeShapes(
        measure=measure,
        node=found.node,
        places=found.rows[chosen],
        own=chosen,
        confidence=float(nodes.receipt["confidence"]),
        grain=found.grain if found.at else whole,
    )
