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
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpframe.errors import ParameterError
from dpframe.measures.bins import DIGITS, Bins
from dpframe.measures.measure import BINS_END
from dpframe.postprocess.known_noise import NEW_RELEASE, each_confidence
from dpframe.postprocess.shown_nodes import ShownNodes, grain_of
from dpframe.postprocess.tree_squares import checked_forest, totals_of
from dpframe.postprocess.weighted_laplace import (
    CELLS,
    SURE,
    deviation_factor,
    share_factor,
    whole_half_width,
)

Reals = NDArray[np.float64]
Whole = NDArray[np.int64]
Some = TypeVar("Some", np.float64, np.bool_)

CLEAR = 2.0
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


def _draw_weights(weights: Reals, bins: Bins, ratio: float) -> Reals:
    """How far every draw of a part moves weighted sums of bins, in standard deviations of one bin;
    shape (sums, draws)."""
    if not bins.groups or ratio == np.inf:
        return weights
    each = np.asarray(bins.groups)
    gain = np.add.reduceat(weights, bins.group_starts, axis=1) / (ratio + each)
    alone = weights - np.repeat(gain, each, axis=1)
    return np.concatenate([alone, math.sqrt(ratio) * gain], axis=1)


def _noise_of_sums(weights: Reals, bins: Bins, ratio: float) -> tuple[Reals, Reals]:
    """The variance of weighted sums of bins, in variances of one bin, and the largest share of one
    draw in it."""
    squares = _draw_weights(weights, bins, ratio) ** 2
    factor = squares.sum(axis=1)
    return factor, squares.max(axis=1) / factor


def whole_bins(bins: Reals, unit: int) -> Whole:
    """Bins in whole records or users; every sum of the first bins moves by at most a half."""
    passed = np.cumsum(bins / unit, axis=1)
    passed += 0.5
    whole = np.floor(passed, out=passed).astype(np.int64)
    whole[:, 1:] -= whole[:, :-1].copy()
    return whole


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
        whole, ratio = np.empty_like(numbers[0]), float(scales[-1] / scales[0]) ** 2
        for rows in _blocks(len(whole)):
            own = numbers[0][rows].astype(np.float64)
            if bins.groups:
                each = np.asarray(bins.groups)
                apart = numbers[1][rows] - np.add.reduceat(own, bins.group_starts, axis=1)
                own += np.repeat(apart / (ratio + each), each, axis=1)
            whole[rows] = whole_bins(own, unit)
        return cls(
            bins=bins,
            numbers=whole,
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
        several, own = np.unique(self.parts, return_inverse=True)  # few, where nodes are many
        variance = 2 * self.scale**2 * several.astype(np.float64)[:, None] * factor
        largest = share / several[:, None]
        half = whole_half_width(variance.ravel(), confidence, largest.ravel())
        return (half.reshape(variance.shape) / self.unit + rounded)[own]

    def number(self, confidence: float) -> tuple[Whole, Whole, Whole]:
        """The number of values at every node, with an interval in whole records or users."""
        total = self.running_totals[:, -1]
        half = self.half_widths(np.ones((1, self.bins.size)), confidence, 0.5)[:, 0]
        wide = np.ceil(half).astype(np.int64)
        return total, total - wide, total + wide

    def share_above(self, value: float, confidence: float) -> tuple[Reals, Reals, Reals, float]:
        """Which part of the values is above the edge next to ``value``, with an interval, and that
        edge. NaN, from 0 to 1, where nothing is known.

        A value at the edge counts as above, but for the last edge. In bins of one whole number each
        the edge is the whole number after ``value``, so that what is above is exact.
        """
        edge = self.bins.edge_above(value)
        total = self.running_totals[:, -1]
        above = total - self.running_totals[:, edge]
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.clip(np.where(total > 0, above / total, np.nan), 0.0, 1.0)
        noise = _ShareNoise.of(self, edge, confidence)
        low, high = (noise.end(above, total, share, outer) for outer in (0.0, 1.0))
        share = np.where((low <= 0) & (high >= 1), np.nan, share)
        return share, low, high, self.bins.edges[edge]

    def quantile(self, at: float, confidence: float, grain: float = 0.0) -> Quantile:
        """The quantile of every node, and its interval. If values are multiples of ``grain``, all
        three are: a bin ends before its upper edge."""
        n = len(self.numbers)
        if n > AT_ONCE:
            some = [self._of_rows(rows).quantile(at, confidence, grain) for rows in _blocks(n)]
            return Quantile(
                **{k: np.concatenate([getattr(one, k) for one in some]) for k in QUANTILE_FIELDS}
            )
        edges = np.array(self.bins.edges)
        weights = _edge_weights(self.bins, at)
        passed = self.running_totals[:, :-1] - at * self.running_totals[:, -1:]  # G, at every edge
        half = self.half_widths(weights, confidence, (1 + at) / 2)
        below, above = passed < -half, passed >= half  # all of it below 0, or above
        size = self.bins.size
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
            below=first == 0,
            above=last == size - 1,
            unknown=(first <= 1) & (last >= size - 2),
        )

    def _of_rows(self, rows: slice) -> NodeBins:
        return replace(self, numbers=self.numbers[rows], parts=self.parts[rows])

    def _passage(self, passed: Reals, weights: Reals) -> Reals:
        """Where G passes 0, in numbers of bins from the first edge; fractions within a bin."""
        factor, _ = _noise_of_sums(weights, self.bins, self.ratio)
        sd = np.sqrt(self.variance[:, None] * factor) / self.unit
        z = passed / (CLEAR * sd)
        clipped = np.clip(z, -1, 1)  # an antiderivative of clip((1 - z) / 2, 0, 1)
        area = np.where(z < -1, z, clipped / 2 - clipped**2 / 4 - 1 / 4)
        wide = np.diff(z, axis=1)
        flat = np.abs(wide) < 1e-9
        middle = np.clip((1 - (z[:, 1:] + z[:, :-1]) / 2) / 2, 0, 1)
        part = np.where(flat, middle, np.diff(area, axis=1) / np.where(flat, 1.0, wide))
        return part.sum(axis=1)


AT_ONCE = 2**12
"""Nodes that are computed at once: what that takes stays in the cache."""


def _blocks(n: int) -> list[slice]:
    return [slice(start, start + AT_ONCE) for start in range(0, n, AT_ONCE)]


def _round_in_bin(value: Reals, wide: Reals) -> Reals:
    """Values rounded to a power of ten that is at most a twentieth of their bin."""
    ten = 10.0 ** -np.floor(np.log10(wide / DIGITS))
    return np.where(ten >= 1, np.rint(value * ten) / ten, np.rint(value * ten) * (1 / ten))


@dataclass(frozen=True, kw_only=True, eq=False)
class _ShareNoise:
    """The noise in A - p N, with A values above an edge, N values, and a share p.

    Its standard deviation is the length of a vector that is linear in p, so convex in p; ``square``
    has the coefficients of its square, in units squared. A share is ruled out from below if
    A - p N is more than ``factor`` standard deviations, and rounding: a linear function less a
    convex one, so that what is ruled out on one side of A / N is one stretch. Its end is found by
    halving. ``factor`` is at least that of every share's largest draw.
    """

    square: Reals
    factor: Reals
    unit: int

    @classmethod
    def of(cls, node: NodeBins, edge: int, confidence: float) -> _ShareNoise:
        bins = node.bins
        told = np.array([np.arange(bins.size) > edge, np.ones(bins.size)], dtype=np.float64)
        a, b = _draw_weights(told, bins, node.ratio)
        own, both, whole = a @ a, a @ b, b @ b
        with np.errstate(divide="ignore", invalid="ignore"):  # where a draw's share is largest
            peak = (b * own - a * both) / (b * both - a * whole)
        tried = np.clip(np.append(np.nan_to_num(peak), [0.0, 1.0]), 0.0, 1.0)
        _, shares = _noise_of_sums(told[0] - tried[:, None] * told[1], bins, node.ratio)
        return cls(
            square=np.multiply.outer(node.variance, [own, -2 * both, whole]),
            factor=_largest_factor(confidence, shares.max() / node.parts),
            unit=node.unit,
        )

    def rules_out(self, above: Whole, total: Whole, share: Reals) -> NDArray[np.bool_]:
        """Whether noise contradicts shares. Whole bins can move A - p N by at most 1, and whole
        half widths are below ``factor`` standard deviations and 3 / 2."""
        square = self.square[:, 0] + share * (self.square[:, 1] + share * self.square[:, 2])
        half = (self.factor * np.sqrt(np.maximum(square, 0.0)) + 1.5) / self.unit + 1.0
        found: NDArray[np.bool_] = np.abs(above - share * total) > half
        return found

    def end(self, above: Whole, total: Whole, share: Reals, outer: float) -> Reals:
        """The end of the shares that are not ruled out between ``share`` and ``outer``, 0 or 1, by
        less than 1e-12 outwards; ``outer`` where nothing is known."""
        edge = np.full(len(total), outer)
        inside = np.where(np.isnan(share), outer, share)
        search = ~np.isnan(share) & self.rules_out(above, total, edge)
        search &= ~self.rules_out(above, total, inside)
        outside = edge.copy()
        for _ in range(HALVINGS):
            middle = (inside + outside) / 2
            out = self.rules_out(above, total, middle)
            inside, outside = np.where(out, inside, middle), np.where(out, middle, outside)
        return np.where(search, outside, outer)


HALVINGS = 41
"""How often the search for the end of an interval of shares is halved."""


def _largest_factor(confidence: float, largest: Reals) -> Reals:
    """The largest factor of sums in which no draw has more than a share of ``largest``."""
    if confidence > SURE:
        return np.full(len(largest), deviation_factor(confidence))
    cell = np.minimum(largest * CELLS, CELLS - 1).astype(np.int64)
    cells = np.arange(int(cell.max(initial=0)) + 1)
    each = [share_factor(confidence, (one + 0.5) / CELLS) for one in cells.tolist()]
    found: Reals = np.maximum.accumulate(each)[cell]
    return found


@dataclass(frozen=True, kw_only=True, eq=False)
class Quantile:
    """One quantile at every node: float64; whether the interval reaches ``below`` the lower bound
    or ``above`` the upper one, and whether it holds everything between the bounds, so that nothing
    is known."""

    value: Reals
    lower: Reals
    upper: Reals
    below: NDArray[np.bool_]
    above: NDArray[np.bool_]
    unknown: NDArray[np.bool_]

    @property
    def at_bound(self) -> NDArray[np.bool_]:
        return self.below | self.above


@dataclass(frozen=True, kw_only=True, eq=False)
class BinsShown:
    """What a release shows of a measure that counts values in bins: quantiles, or their number.

    ``rows`` are the places of the rows with numbers of their own, one for each of ``node``;
    ``at`` the quantiles, none for a histogram; ``highest`` the upper bound. Values are multiples of
    ``grain``, any numbers if it is 0.
    """

    node: NodeBins
    rows: Whole
    at: tuple[float, ...]
    highest: float
    grain: float = 0.0

    def columns(self, n: int, confidence: float) -> list[NDArray[np.generic] | pa.Array]:
        """The columns of ``n`` rows, in the order of the measure's columns. Rows without numbers of
        their own have missing values, and intervals from bound to bound."""
        places = np.zeros(n, dtype=np.int64)
        places[self.rows] = np.arange(len(self.rows))
        missing = ~np.isin(np.arange(n), self.rows)
        texts = bin_texts(self.node.numbers).take(pa.array(places, mask=missing))
        if not self.at:
            return [*self.number(n, confidence), texts]
        shown = (end for at in self.at for end in self.quantile(at, n, confidence))
        return [*shown, texts]

    def number(self, n: int, confidence: float) -> list[Reals]:
        """The number of values of ``n`` rows, and both ends of its interval."""
        found = self.node.number(confidence)
        return [self.spread(values.astype(np.float64), n, np.nan) for values in found]

    def quantile(
        self, at: float, n: int, confidence: float
    ) -> tuple[Reals, Reals, Reals, NDArray[np.bool_]]:
        """A quantile of ``n`` rows, both ends of its interval, and whether that reaches beyond a
        bound."""
        found = self.node.quantile(at, confidence, self.grain)
        low = self.node.bins.edges[0]
        return (
            self.spread(np.where(found.unknown, np.nan, found.value), n, np.nan),
            self.spread(found.lower, n, low),
            self.spread(np.minimum(found.upper, self.highest), n, self.highest),
            self.spread(found.at_bound, n, True),
        )

    def spread(self, values: NDArray[Some], n: int, other: float | bool) -> NDArray[Some]:
        """Values at the rows with numbers, and ``other`` at the rest of ``n`` rows."""
        out = np.full(n, other, dtype=values.dtype)
        out[self.rows] = values
        return out


def shown_bins(nodes: ShownNodes, name: str) -> BinsShown:
    """The bins of a measure in a release, from its rows and its receipt.

    Every part at and below a row has noise of its own. Which these are is known in whole releases,
    in rows of the lowest level, in cells, which have no rows below, and where every node is counted
    on its own.

    Raises
    ------
    ParameterError
        Rows of the release are missing that may be below others, or two rows read alike; or the
        shown numbers are others than those that follow from the bins.
    """
    facts = nodes.receipt["measures"][name]
    bins = Bins(tuple(map(float, facts["edges"])))
    texts = nodes.frame[f"{name}{BINS_END}"]
    rows = np.flatnonzero(texts.notna().to_numpy())
    parts = np.ones(len(rows), dtype=np.int64)
    alone = nodes.hierarchy.has_cells or facts.get("adds_up") is False
    if not (alone or (nodes.level == nodes.hierarchy.height).all()):
        if not nodes.whole:
            raise ParameterError(
                "the noise in bins needs all rows of the release, or rows of its lowest level. Ask "
                "the frame that dpframe returned, and then choose rows."
            )
        if nodes.alike.any():
            raise ParameterError(
                "some rows of this release read alike, so that the noise in their bins is not "
                "known. Release with a hierarchy that tells them apart."
            )
        place = np.full(len(nodes.level) + 1, -1, dtype=np.int64)  # the last is of no ancestor
        place[rows] = np.arange(len(rows))
        parts = _parts_below(place[nodes.ancestor[rows]], nodes.level[rows])
    scales = [float(said["scales"]["parts"]) for said in facts["noise"]]
    shown = nodes.frame[next(c.value for c in nodes.measures.values() if c.measure == name)]
    found = BinsShown(
        node=NodeBins(
            bins=bins,
            numbers=bins_of_texts(texts.iloc[rows].tolist(), bins.size),
            parts=parts,
            scale=scales[0],
            ratio=(scales[-1] / scales[0]) ** 2,
            unit=int(facts["noise"][0]["unit"]),
        ),
        rows=rows,
        at=tuple(facts["at"]),
        highest=float(facts["upper"]),
        grain=grain_of(shown) if facts["at"] else 0.0,
    )
    _check_shown(nodes, name, found)
    return found


def _check_shown(nodes: ShownNodes, name: str, found: BinsShown) -> None:
    """Raise ParameterError if the shown numbers are not those that follow from the bins: then the
    receipt tells other noise than the bins have."""
    confidence, n = each_confidence(nodes.receipt), len(nodes.level)
    near = 0.0 if nodes.receipt["measures"][name]["value"] == "number" else 1e-6
    for one in nodes.measures.values():
        if one.measure != name:
            continue
        value, lower, upper = (
            found.number(n, confidence)
            if one.at is None
            else found.quantile(one.at, n, confidence)[:3]
        )
        made = ((one.value, value), (one.lower, lower), (one.upper, upper))
        for column, values in made:
            shown = nodes.numbers(column)[found.rows]
            if not np.allclose(shown, values[found.rows], rtol=0, atol=near, equal_nan=True):
                raise ParameterError(
                    f"column {column!r} is not what follows from the bins and the noise in the "
                    f"receipt: {NEW_RELEASE}."
                )


def _parts_below(ancestor: Whole, level: Whole) -> Whole:
    """How many rows are at and below each, whatever their order; ``ancestor`` is -1 for none."""
    out = np.ones(len(ancestor), dtype=np.int64)
    for depth in range(int(level.max(initial=0)), 0, -1):
        here = np.flatnonzero((level == depth) & (ancestor >= 0))
        np.add.at(out, ancestor[here], out[here])
    return out


QUANTILE_FIELDS = tuple(Quantile.__dataclass_fields__)


def bin_texts(numbers: Whole) -> pa.Array:
    """The numbers of every node as a text, ``[1, 0, 2]``, which SQL and JSON read as a list."""
    written = [pa.array([], pa.string())]
    for rows in _blocks(len(numbers)):
        n, size = numbers[rows].shape
        texts = pa.array(numbers[rows].ravel()).cast(pa.string())
        ends = pa.array(size * np.arange(n + 1), pa.int32())
        joined = pc.binary_join(pa.ListArray.from_arrays(ends, texts), ", ")
        written.append(pc.binary_join_element_wise("[", joined, "]", ""))
    return pa.concat_arrays(written)


def bins_of_texts(texts: Sequence[str], size: int) -> Whole:
    """The numbers in texts that :func:`bin_texts` wrote; ParameterError for other texts."""
    try:
        rows = [[int(one) for one in text.strip("[]").split(",")] for text in texts]
    except (AttributeError, ValueError):
        rows = [[]]
    if any(len(row) != size for row in rows):
        raise ParameterError("the numbers in bins are not those of the receipt.")
    return np.array(rows, dtype=np.int64).reshape(len(rows), size)
