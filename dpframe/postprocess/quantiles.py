"""Quantiles, shares and histograms at every node, from noisy numbers of values in bins.

With F(t) the number of values in the first bins up to t, and N the number of all, let
G(t) = F(t) - q N. The quantile is in bin j if G(j - 1) < 0 <= G(j).

**Parts.** A node with too few values tells nothing of its own, and each part below a node adds
noise to it. So such nodes are pooled: their values are counted at the node above, and their
quantiles are unknown.

**Least squares over bins.** Bins and groups of neighbouring bins are measured at every part. The
best estimate of a bin takes an equal share of what its group was measured to have more than its
bins (Hay, Rastogi, Miklau, Suciu, "Boosting the Accuracy of Differentially Private Histograms
Through Consistency", VLDB 2010). Noise in G(t) is a weighted sum of the draws. Its variance is that
of one bin of one part, times the number of parts, times a number that follows from t, q and the
groups.

**Intervals.** A bin is ruled out if the noise at that one bin contradicts it: if the noisy G(j) is
below 0, or the noisy G(j - 1) above 0, by more than the half width of an interval for that noise.
The bin that holds the quantile is ruled out with at most the probability that this interval misses,
half of it on each side. So the least stretch of bins that holds all others holds the quantile with
the confidence, whatever the values are. No band over all bins is needed.

**Numbers.** The shown quantile is the mean place of the passage: each edge between bins counts as
below the quantile by as much as the noisy G there says so, surely from two standard deviations on.

Privacy
-------
Post-processing of released numbers, with public edges, groups and scales: no budget.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpframe.errors import ParameterError
from dpframe.measures.bins import DIGITS, Bins
from dpframe.postprocess.tree_squares import checked_forest, totals_of
from dpframe.postprocess.weighted_laplace import whole_half_width

Reals = NDArray[np.float64]
Whole = NDArray[np.int64]

SURE = 2.0
"""Standard deviations of noise from which on an edge is surely on one side of a quantile."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Cover:
    """Nodes that are parts of their own, and where values of other nodes are counted.

    ``rows``: the nodes, ascending. For these ``ancestor``: the place of the one above, -1 for none;
    ``parts``: how many of them are at and below each. ``host``: for every node the place of the
    part that has its values, -1 for none.
    """

    rows: NDArray[np.int64]
    ancestor: NDArray[np.int64]
    host: NDArray[np.int64]

    @property
    def parts(self) -> NDArray[np.int64]:
        return totals_of(checked_forest(self.ancestor), np.ones(len(self.rows), dtype=np.int64))


def cover_of(ancestor: NDArray[np.int64], enough: NDArray[np.bool_]) -> Cover:
    """The cover of the nodes that have ``enough`` values, all nodes above them, and the first."""
    chosen = np.asarray(enough, dtype=np.bool_).copy()
    chosen[0] = True
    for node in range(len(chosen) - 1, 0, -1):  # an ancestor comes before what is below it
        if chosen[node] and ancestor[node] >= 0:
            chosen[ancestor[node]] = True
    rows = np.flatnonzero(chosen)
    place = np.full(len(chosen), -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    for node in np.flatnonzero(~chosen).tolist():
        place[node] = place[ancestor[node]] if ancestor[node] >= 0 else -1
    above = ancestor[rows]
    return Cover(rows=rows, ancestor=np.where(above >= 0, place[above], -1), host=place)


def edge_deviation(bins: Bins, at: Sequence[float], *, grouped: bool = True) -> float:
    """The standard deviation of G at an edge, times epsilon, if parts alone are measured with all
    of it: the root mean square over edges and over the quantiles ``at``, else the median.

    Without ``grouped`` bins alone are measured.
    """
    of_bins, of_groups = bins.shares if grouped else (Fraction(1), Fraction(0))
    ratio = float(of_bins / of_groups) ** 2 if of_groups else np.inf
    each = [_noise_of_sums(_edge_weights(bins, one), bins, ratio)[0].mean() for one in at or (0.5,)]
    return math.sqrt(2 * np.mean(each)) / float(of_bins)


def _edge_weights(bins: Bins, at: float) -> Reals:
    """The weights of bins in G at every edge; shape (edges, bins)."""
    return np.tri(bins.size - 1, bins.size) - at


def _noise_of_sums(weights: Reals, bins: Bins, ratio: float) -> tuple[Reals, Reals]:
    """The variance of weighted sums of bins, in variances of one bin, and the largest share of one
    draw in it."""
    if not bins.groups or ratio == np.inf:
        squares = weights**2
        factor = squares.sum(axis=1)
        return factor, squares.max(axis=1) / factor
    each = np.asarray(bins.groups)
    gain = np.add.reduceat(weights, bins.group_starts, axis=1) / (ratio + each)
    alone = (weights - np.repeat(gain, each, axis=1)) ** 2
    together = ratio * gain**2
    factor = alone.sum(axis=1) + together.sum(axis=1)
    return factor, np.maximum(alone.max(axis=1), together.max(axis=1)) / factor


def whole_bins(bins: Reals, unit: int) -> Whole:
    """Bins in whole records or users; every sum of the first bins moves by at most a half."""
    passed = np.floor(np.cumsum(bins / unit, axis=1) + 0.5).astype(np.int64)
    return np.diff(passed, axis=1, prepend=0)


@dataclass(frozen=True, kw_only=True, eq=False)
class NodeBins:
    """Noisy numbers of values in bins at every node, and the noise in them.

    ``numbers``: int64, shape (n, bins), in records or users. ``parts``: the number of parts at and
    below every node, each with noise of its own. ``scale``: of the noise in a bin of one part, in
    units, of which ``unit`` are a record or user. A group's noise has ``ratio`` times the variance
    of a bin's.
    """

    bins: Bins
    numbers: Whole
    parts: Whole
    scale: float
    ratio: float
    unit: int

    @classmethod
    def of(
        cls,
        *,
        bins: Bins,
        parts: Whole,
        scales: Sequence[float],
        unit: int,
        numbers: Sequence[NDArray[np.int64]],
    ) -> NodeBins:
        """Merge noisy numbers in bins and, if there are any, in groups of bins, in units; both are
        sums over the parts of every node."""
        own, ratio = numbers[0].astype(np.float64), float(scales[-1] / scales[0]) ** 2
        if bins.groups:
            each = np.asarray(bins.groups)
            apart = numbers[1] - np.add.reduceat(own, bins.group_starts, axis=1)
            own += np.repeat(apart / (ratio + each), each, axis=1)
        return cls(
            bins=bins,
            numbers=whole_bins(own, unit),
            parts=parts,
            scale=float(scales[0]),
            ratio=ratio,
            unit=unit,
        )

    @property
    def variance(self) -> Reals:
        """The variance of one bin of every node, if bins alone were measured, in units squared, as
        if noise were continuous."""
        return 2 * self.scale**2 * self.parts.astype(np.float64)

    @cached_property
    def running_totals(self) -> Whole:
        """The number of values in the first bins, up to each; shape (n, bins)."""
        return np.cumsum(self.numbers, axis=1)

    def half_widths(self, weights: Reals, confidence: float, rounded: float) -> Reals:
        """Half widths of intervals for sums of the bins with these ``weights``, shape (sums, bins)
        and at most 1 in absolute value; shape (n, sums), in records or users. ``rounded`` is how
        far whole bins can move a sum."""
        factor, share = _noise_of_sums(weights, self.bins, self.ratio)
        variance = self.variance[:, None] * factor
        largest = share / self.parts[:, None]
        half = whole_half_width(variance.ravel(), confidence, largest.ravel())
        return half.reshape(variance.shape) / self.unit + rounded

    def number(self, confidence: float) -> tuple[Whole, Whole, Whole]:
        """The number of values at every node, with an interval in whole records or users."""
        total = self.running_totals[:, -1]
        half = self.half_widths(np.ones((1, self.bins.size)), confidence, 0.5)[:, 0]
        wide = np.ceil(half).astype(np.int64)
        return total, total - wide, total + wide

    def share_above(self, value: float, confidence: float) -> tuple[Reals, Reals, Reals, float]:
        """Which part of the values is above the edge next to ``value``, with an interval, and that
        edge. NaN, from 0 to 1, where nothing is known."""
        edge = int(np.argmin(np.abs(np.array(self.bins.edges) - value)))
        total = self.running_totals[:, -1]
        above = total - self.running_totals[:, edge]
        ends = np.zeros((len(total), 2))
        ends[:, 1] = 1.0
        for side, keep in ((0, 1), (1, -1)):  # the share p is ruled out by the noise in above - p N
            ends[:, side] = _share_end(self, edge, above, total, confidence, keep)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(total > 0, above / total, np.nan)
        unknown = (ends[:, 0] <= 0) & (ends[:, 1] >= 1)
        share = np.clip(share, *ends.T)
        return np.where(unknown, np.nan, share), ends[:, 0], ends[:, 1], self.bins.edges[edge]

    def quantile(self, at: float, confidence: float, grain: float = 0.0) -> Quantile:
        """The quantile of every node, and its interval. If values are multiples of ``grain``, all
        three are: a bin ends before its upper edge."""
        edges = np.array(self.bins.edges)
        weights = _edge_weights(self.bins, at)
        passed = self.running_totals[:, :-1] - at * self.running_totals[:, -1:]  # G, at every edge
        half = self.half_widths(weights, confidence, (1 + at) / 2)
        below, above = passed < -half, passed >= half  # all of it below 0, or above
        n, size = len(passed), self.bins.size
        fits = np.ones((n, size), dtype=np.bool_)
        fits[:, :-1] &= ~below
        fits[:, 1:] &= ~above
        place = self._passage(passed, weights)
        own = np.clip(np.floor(place).astype(np.int64) + 1, 1, size - 2)
        fits[np.arange(n), own] = True
        first = np.argmax(fits, axis=1)
        last = size - 1 - np.argmax(fits[:, ::-1], axis=1)
        value = np.interp(place, np.arange(len(edges)), edges)
        lower = edges[np.maximum(first - 1, 0)]
        upper = edges[np.minimum(last, len(edges) - 1)]
        if grain:
            lower = np.ceil(lower / grain) * grain
            whole = np.where(
                upper == edges[-1], np.floor(upper / grain), np.ceil(upper / grain) - 1
            )
            upper = np.maximum(whole * grain, lower)
            value = np.clip(np.floor(value / grain) * grain, lower, upper)
        else:
            value = _round_in_bin(value, np.diff(edges)[own - 1])
        return Quantile(
            value=value,
            lower=lower,
            upper=upper,
            at_bound=(first == 0) | (last == size - 1),
        )

    def _passage(self, passed: Reals, weights: Reals) -> Reals:
        """Where G passes 0, in numbers of bins from the first edge; fractions within a bin."""
        factor, _ = _noise_of_sums(weights, self.bins, self.ratio)
        sd = np.sqrt(self.variance[:, None] * factor) / self.unit
        z = passed / (SURE * sd)
        clipped = np.clip(z, -1, 1)  # an antiderivative of clip((1 - z) / 2, 0, 1)
        area = np.where(z < -1, z, clipped / 2 - clipped**2 / 4 - 1 / 4)
        wide = np.diff(z, axis=1)
        flat = np.abs(wide) < 1e-9
        middle = np.clip((1 - (z[:, 1:] + z[:, :-1]) / 2) / 2, 0, 1)
        part = np.where(flat, middle, np.diff(area, axis=1) / np.where(flat, 1.0, wide))
        return part.sum(axis=1)


def _round_in_bin(value: Reals, wide: Reals) -> Reals:
    """Values rounded to a power of ten that is at most a twentieth of their bin."""
    ten = 10.0 ** -np.floor(np.log10(wide / DIGITS))
    return np.where(ten >= 1, np.rint(value * ten) / ten, np.rint(value * ten) * (1 / ten))


def _share_end(
    node: NodeBins, edge: int, above: Whole, total: Whole, confidence: float, keep: int
) -> Reals:
    """One end of the shares that the noise does not rule out, on a grid of thousandths, outwards:
    the lower end if ``keep`` is 1, else the upper one."""
    grid = np.arange(SHARES + 1) / SHARES
    size = node.bins.size
    weights = (np.arange(size) > edge)[None, :] - grid[:, None]
    half = node.half_widths(weights, confidence, 1.0)
    apart = above[:, None] - grid[None, :] * total[:, None]
    fits = np.abs(apart) <= half
    fits[:, 0] |= ~fits.any(axis=1)
    fits[:, -1] |= ~fits.any(axis=1)
    if keep == 1:
        return np.maximum(np.argmax(fits, axis=1) - 1, 0) / SHARES
    return np.minimum(SHARES + 1 - np.argmax(fits[:, ::-1], axis=1), SHARES) / SHARES


SHARES = 1_000
"""Shares are looked at in thousandths."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Quantile:
    """One quantile at every node: float64 and whether the interval reaches beyond a bound."""

    value: Reals
    lower: Reals
    upper: Reals
    at_bound: NDArray[np.bool_]

    def unknown(self, bins: Bins) -> NDArray[np.bool_]:
        """Where the interval holds everything between the bounds, so that nothing is known."""
        return (self.lower <= bins.edges[0]) & (self.upper >= bins.edges[-1])


def bin_texts(numbers: Whole) -> pa.Array:
    """The numbers of every node as a text, ``[1, 0, 2]``, which SQL and JSON read as a list."""
    n, size = numbers.shape
    texts = pa.array(numbers.ravel()).cast(pa.string())
    ends = pa.array(size * np.arange(n + 1), pa.int32())
    joined = pc.binary_join(pa.ListArray.from_arrays(ends, texts), ", ")
    return pc.binary_join_element_wise("[", joined, "]", "")


def bins_of_texts(texts: Sequence[str], size: int) -> Whole:
    """The numbers in texts that :func:`bin_texts` wrote; ParameterError for other texts."""
    try:
        rows = [[int(one) for one in text.strip("[]").split(",")] for text in texts]
    except (AttributeError, ValueError):
        rows = [[]]
    if any(len(row) != size for row in rows):
        raise ParameterError("the numbers in bins are not those of the receipt.")
    return np.array(rows, dtype=np.int64).reshape(len(rows), size)
