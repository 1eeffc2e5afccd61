"""Several measures on the parts of one selection.

Source: the selection of :mod:`dpframe.mechanisms.offline_hhh`, without its counts. Selected nodes
of one hierarchy are shown with all nodes above them. A record is in one part: the part of the
finest shown node above it. Given the shown nodes, parts are a public partition, on which a vector
costs what it costs on one part (parallel composition, McSherry, 2009, Theorem 4), whatever the
height. Where the shape of the tree of shown nodes makes it pay, levels above the parts are measured
too, and all totals are made consistent (:mod:`dpframe.postprocess.strategy`).

*Cells.* The part of a selected cell of several hierarchies is its *segment*: the records that the
cell holds and that no selected cell of a kind asked before it holds. The rest of all records is a
segment, too. Given which cells were selected, segments are a public partition of all possible
records, whatever band the cells were counted with, so that a vector costs what it costs on one
part. No segment lies above another one, so only segments are measured. The number of kinds takes
the place of the height.

Neighbours: one record, or one user. The selection is (e0, d0)-DP. Each histogram of magnitudes and
each vector, or group of vectors that are moved together, is e_i-DP
(:mod:`dpframe.mechanisms.auto_bounds`, :mod:`dpframe.mechanisms.measured_parts`). Each count of
different values is (e_j, d_j)-DP (:mod:`dpframe.mechanisms.node_counts`). All hold adaptively, so
epsilons and deltas add up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpframe.hierarchy import Kind
from dpframe.measures import Measure
from dpframe.mechanisms import auto_bounds, measured_parts, node_counts, offline_hhh
from dpframe.mechanisms.measured_parts import PARTS, scales_for
from dpframe.mechanisms.node_counts import DistinctLaw
from dpframe.noise import NoiseTable
from dpframe.postprocess.consistency import Forest
from dpframe.postprocess.strategy import consistent_totals, level_strategy, subtree_sums
from dpframe.postprocess.tree_squares import checked_forest, largest_shares
from dpframe.steps import Steps
from dpframe.tree import Counts, Ints, Nodes, chosen_nodes
from dpframe.vectors import AutoBound, Distinct, Vector, vectors_of


class Measurable(Protocol):
    """Counted rows whose parts are measured once the parts are known. Private."""

    @property
    def counts(self) -> Counts: ...

    def parts(
        self, vectors: Sequence[Vector], nodes: Nodes, places: Ints
    ) -> list[NDArray[np.object_]]:
        """Return every vector, one number a node; ``places`` are the positions of the nodes, one
        column an axis."""

    def magnitudes(self, searched: AutoBound) -> NDArray[np.int64]:
        """Return how many values, or users, each bin of magnitudes has."""

    def distinct(self, distinct: Distinct, nodes: Nodes) -> NDArray[np.object_]:
        """Return the numbers of different values, one a node."""


@dataclass(frozen=True)
class VectorCharge:
    """A vector, and the epsilon that its noise is made for.

    A group of ``together`` vectors shares this epsilon. A unit moves the whole group by ``most``,
    so the losses of all its vectors add up to the loss of one vector.
    """

    vector: Vector
    epsilon: Fraction
    together: int = 1

    @property
    def cost(self) -> Fraction:
        """The part of the group's epsilon that this vector counts for."""
        return self.epsilon / self.together


@dataclass(frozen=True, kw_only=True)
class SumFromMean:
    """A sum that is read from the vectors of a mean of the same values.

    ``of`` names the mean, whose vectors have ``epsilon`` more for the sum.
    """

    of: str
    epsilon: Fraction


@dataclass(frozen=True, kw_only=True)
class BoundSearch:
    """A measure whose bounds are searched: ``each`` is the epsilon of a search, ``rest`` the
    epsilon that is spent on the measure afterwards."""

    measure: Measure
    searches: tuple[AutoBound, ...]
    by_user: bool
    each: Fraction
    rest: Fraction

    @property
    def epsilon(self) -> Fraction:
        return self.each * len(self.searches) + self.rest


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The law of a selection; ``threshold`` in units of the grid."""

    test: NoiseTable
    threshold: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Estimate:
    """One vector at every node. Public.

    ``total`` adds up and is in units of the vector; without a vector it is a number of different
    values, which does not add up. ``variance`` is the variance of ``total`` as if noise were
    continuous, ``largest`` the largest share that one measurement's noise has in the variance.
    ``scales`` are the noise scales of measured parts and levels; empty without a vector.
    """

    total: NDArray[np.object_]
    variance: NDArray[np.float64]
    largest: NDArray[np.float64]
    scales: Mapping[int, Fraction]
    vector: Vector | None = None

    @property
    def unit(self) -> int:
        """Number of units that one record, user or step is divided into."""
        return 1 if self.vector is None else self.vector.unit

    @property
    def bounds(self) -> Steps:
        """Bounds of the values; only for a vector that adds up a column."""
        assert self.vector is not None
        return self.vector.bounds


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoisyRollup:
    """The released estimates, one for every vector of every measure. Public.

    ``weights`` are the shares of its epsilon that a vector spends on the parts and on levels; empty
    if nothing adds up, and for cells. A vector with too much noise (``WIDEST``) spends all on the
    parts.
    """

    nodes: Nodes
    measures: Mapping[str, tuple[Estimate, ...]]
    weights: Mapping[int, Fraction]


def run(
    counted: Measurable,
    *,
    kinds: Sequence[Kind],
    selection: Selection | None,
    band: int,
    paid: Mapping[str, tuple[VectorCharge, ...]],
    read: Mapping[str, SumFromMean],
    searching: Mapping[str, BoundSearch],
    counts: Mapping[str, DistinctLaw],
    by_user: bool,
) -> NoisyRollup:
    """Select nodes or cells, then measure vectors on the parts, and count different values node by
    node.

    Without a selection, all nodes of the tree are shown.
    """
    nodes, places = shown_nodes(counted.counts, kinds, selection, band)
    nested = len(counted.counts.axes) == 1  # else no part is above another
    weights: Mapping[int, Fraction] = {PARTS: Fraction(1)}
    if nested:
        weights = level_strategy(nodes.level, nodes.ancestor, by_user=by_user)
    found = {name: _search_bounds(counted, len(places), each) for name, each in searching.items()}
    paid = {**paid, **found}
    several = [p for each in paid.values() for p in each]
    exact = iter(counted.parts([p.vector for p in several], nodes, places))
    forest = checked_forest(nodes.ancestor)
    measures = {
        name: tuple(_vector_estimate(next(exact), nodes.level, forest, p, weights) for p in each)
        for name, each in paid.items()
    }
    measures |= {name: (_sum_of(measures[r.of]), *measures[name]) for name, r in read.items()}
    measures |= {name: (_distinct_estimate(counted, nodes, each),) for name, each in counts.items()}
    return NoisyRollup(
        nodes=nodes, measures=measures, weights=weights if several and nested else {}
    )


def shown_nodes(
    counts: Counts, kinds: Sequence[Kind], selection: Selection | None, band: int
) -> tuple[Nodes, Ints]:
    """Return the nodes to show, the root first, and their positions, one column an axis.

    Selected nodes of one hierarchy are shown with all nodes above them (post-processing). Cells
    that are asked last come first.
    """
    kind = places = np.zeros((0, 1), dtype=np.int64)
    if selection is not None:
        kind, places, _ = offline_hhh.select(
            counts,
            kinds=kinds,
            test=selection.test,
            threshold=selection.threshold,
            remainder=True,
            band=band,
        )
    if len(counts.axes) > 1:
        order = np.argsort(-kind, kind="stable")
        nodes = offline_hhh.selected_nodes(counts, kinds, kind[order], places[order])
        return nodes, places[order]
    tree = counts.axes[0]
    shown = np.full(len(tree.level), selection is None)
    shown[places[:, 0]] = True
    for level in range(int(tree.level.max(initial=0)), 0, -1):
        here = tree.at_level(level)
        shown[tree.parent[here[shown[here]]]] = True
    return chosen_nodes(tree, shown), np.flatnonzero(shown)[:, None]


def _search_bounds(
    counted: Measurable, parts: int, searching: BoundSearch
) -> tuple[VectorCharge, ...]:
    """Search the bounds of a measure, then return its vectors."""
    measure = searching.measure
    bounds = {"lower": measure.lower, "upper": measure.upper}
    for searched in searching.searches:
        noisy = auto_bounds.run(counted.magnitudes(searched), epsilon=searching.each)
        bound = auto_bounds.choose_bound(
            noisy, epsilon=searching.each, spent=searching.rest, parts=parts
        )
        bounds[searched.side] = bound if searched.side == "upper" else -bound
    lower, upper = bounds["lower"], bounds["upper"]
    assert isinstance(lower, float)
    assert isinstance(upper, float)
    return vector_charges(
        measure.with_bounds(lower, upper), searching.rest, by_user=searching.by_user
    )


def vector_charges(
    measure: Measure, epsilon: Fraction, *, by_user: bool
) -> tuple[VectorCharge, ...]:
    """Return the vectors of a measure whose bounds are known, each with its epsilon."""
    return tuple(
        VectorCharge(vector, part * epsilon, len(together))
        for together, part in vectors_of(measure, by_user=by_user)
        for vector in together
    )


def _sum_of(pair: tuple[Estimate, ...]) -> Estimate:
    """Return the sum of values that have a bound at 0.

    ``pair`` estimates how far the values are above the lower bound, and below the upper bound.
    """
    above, below = pair
    steps = above.bounds
    assert 0 in (steps.low, steps.high)
    column = None if above.vector is None else above.vector.column
    vector = Vector(kind="sum", most=steps.most, column=column, steps=steps)
    if steps.low == 0:
        return replace(above, vector=vector)
    return replace(below, total=-below.total, vector=vector)


def _distinct_estimate(counted: Measurable, nodes: Nodes, paid: DistinctLaw) -> Estimate:
    noisy = node_counts.run(counted.distinct(paid.distinct, nodes), noise=paid.noise)
    variance = np.full(len(noisy), paid.noise.sd**2)
    return Estimate(total=noisy, variance=variance, largest=np.ones(len(noisy)), scales={})


WIDEST = 2**46
"""Largest scale with which levels above the parts are measured: least squares takes 64 bits for the
difference of sums of parts and measured totals, and a level can have a thousandth of epsilon."""


def _vector_estimate(
    exact: NDArray[np.object_],
    level: NDArray[np.int64],
    forest: Forest,
    paid: VectorCharge,
    weights: Mapping[int, Fraction],
) -> Estimate:
    """Add noise to the parts and upper levels of one vector, and estimate its totals."""
    most = paid.vector.most
    scales = scales_for(weights, most=most, epsilon=paid.epsilon)
    if max(scales.values()) > WIDEST:
        weights = {PARTS: Fraction(1)}
        scales = scales_for(weights, most=most, epsilon=paid.epsilon)
    assert measured_parts.cost(scales, most=most) <= paid.epsilon
    totals = subtree_sums(exact, forest)
    parts, above = measured_parts.run(exact, totals, level, scales=scales)
    spread = {at: 2 * float(scale) ** 2 for at, scale in scales.items()}
    known = np.zeros(len(parts), dtype=object)
    variance = np.full(len(parts), np.inf)
    for at, values in above.items():
        known[level == at] = values
        variance[level == at] = spread[at]
    own = np.full(len(parts), spread[PARTS])
    total, left = consistent_totals(forest, parts, own, known, variance)
    largest = largest_shares(forest, own, variance)
    return Estimate(total=total, variance=left, largest=largest, scales=scales, vector=paid.vector)
