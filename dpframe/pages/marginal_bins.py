"""Common bins of two samples of numbers or times, with their names and the ticks of their axis."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpframe.pages.drawings import Tick, nice_ticks, plain_number

Reals = NDArray[np.float64]

BINS = 48
"""Largest number of bins in a drawing."""

SPACING = (
    *(("1s", "%H:%M:%S"), ("5s", "%H:%M:%S"), ("15s", "%H:%M:%S"), ("1min", "%H:%M")),
    *(("5min", "%H:%M"), ("15min", "%H:%M"), ("1h", "%H:%M"), ("3h", "%H:%M"), ("6h", "%d %b %Hh")),
    *(("1D", "%d %b"), ("2D", "%d %b"), ("7D", "%d %b"), ("MS", "%b %Y"), ("2MS", "%b %Y")),
    *(("QS", "%b %Y"), ("6MS", "%b %Y"), ("YS", "%Y"), ("2YS", "%Y"), ("5YS", "%Y")),
    *(("10YS", "%Y"), ("20YS", "%Y"), ("50YS", "%Y")),
)
"""Distances of ticks on an axis of times, finest first, and their formats."""

UNITS = (("days", 86_400.0), ("hours", 3_600.0), ("minutes", 60.0), ("seconds", 1.0))


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
        return Bins(kind, edges, _time_ticks(low, high), _time_bin_names(edges), span or 1.0)
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


def _stamp(seconds: float) -> pd.Timestamp:
    return pd.Timestamp("1970-01-01") + pd.Timedelta(microseconds=round(seconds * 1e6))


def _time_ticks(low: float, high: float) -> list[Tick]:
    """Return at most six ticks at round times."""
    start, end = _stamp(low), _stamp(high)
    years = (high - low) / (365.25 * 86_400)
    for spacing, written in SPACING:
        ends_well = spacing.endswith("YS")
        if years > 3 and not ends_well:
            continue
        if (high - low) / 86_400 > 60 and not spacing.endswith("S"):
            continue
        rough = pd.date_range(start.floor("D"), periods=2, freq=spacing)
        if (high - low) / (rough[1] - rough[0]).total_seconds() > 5:
            continue
        first = pd.Timestamp(start.year // 100 * 100, 1, 1) if ends_well else start.floor("D")
        times = pd.date_range(first, end, freq=spacing)
        found = [t for t in times if start <= t <= end]
        if found:
            return [
                Tick((t - pd.Timestamp("1970-01-01")).total_seconds(), t.strftime(written))
                for t in found
            ]
    return [Tick(low, start.strftime("%Y-%m-%d"))]


def _time_bin_names(edges: Reals) -> list[str]:
    """Name bins of times by their ends, as precisely as the bins are narrow."""
    wide = edges[1] - edges[0]
    written = "%Y-%m-%d" if wide >= 86_400 else "%Y-%m-%d %H:%M" if wide >= 60 else "%H:%M:%S"
    texts = [_stamp(edge).strftime(written) for edge in edges.tolist()]
    return [f"{a} to {b}" for a, b in pairwise(texts)]


def seconds_text(seconds: float) -> str:
    """Write a duration in the largest unit of which it is one or more."""
    name, unit = next((pair for pair in UNITS if seconds >= pair[1]), UNITS[-1])
    return f"{seconds / unit:.3g} {name}"
