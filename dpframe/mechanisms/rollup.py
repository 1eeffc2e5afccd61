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
each vector, or group of vectors that are moved together, is e_i-DP. Each count of different values
is (e_j, d_j)-DP. All hold adaptively, so epsilons and deltas add up.

**Parts** of a public partition get noise in whole numbers, and so do totals of levels above them.

Neighbours: one record, or one user. Before noise, such a unit moves the parts by at most ``most``
in total (L1). It moves the totals of one level by no more, since the nodes of a level are sums of
disjoint parts. The parts and each measured level get a share of epsilon. Parts and shares are
chosen by what was released before, and by parameters. The result is purely differentially private,
composed adaptively (Dwork, McSherry, Nissim, Smith, "Calibrating Noise to Sensitivity in Private
Data Analysis", 2006, Proposition 1; Dwork, Rothblum, Vadhan, "Boosting and Differential Privacy",
2010, on adaptive composition).

Noise is discrete Laplace over all integers (Ghosh, Roughgarden, Sundararajan, 2009), drawn exactly
(:func:`dpframe.noise.unbounded_laplace`), so nothing is cut and no delta is needed.

**Different values** at public nodes get noise, too: each node is counted on its own.

Neighbours: one record, or one user. Such a unit moves ``touched`` counts by at most 1 each; with
several values of one user, it moves counts by at most ``touched`` in total. Discrete Laplace noise
over all integers (Ghosh, Roughgarden, Sundararajan, 2009) is pure. Where many counts move by 1
each, a bounded discrete Gaussian has less noise, at a delta that is composed exactly from its table
(:mod:`dpframe.accounting.losses`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpframe.accounting.losses import level_laws
from dpframe.accounting.weighted_round_noise import RoundLaws
from dpframe.counts import (
    ROOM,
    Counts,
    Ints,
    ListedCells,
    ListedNodes,
    Nodes,
    Wholes,
    shortest,
)
from dpframe.hierarchy import Kind
from dpframe.measures.bins import Steps
from dpframe.measures.measure import (
    AutoBound,
    BinVectors,
    Distinct,
    Measure,
    Vector,
    vectors_of,
)
from dpframe.mechanisms import offline_hhh, weighted_rounds
from dpframe.mechanisms.level_counts import choose_bound, run_auto_bounds
from dpframe.mechanisms.weighted_rounds import FoundNodes, LevelParts, SumBounds, WeightSource
from dpframe.noise import NoiseTable, UnboundedNoise, rounded_up
from dpframe.postprocess.consistency import Forest
from dpframe.postprocess.quantiles import NodeBins, cover_of, edge_deviation
from dpframe.postprocess.strategy import (
    PARTS,
    Importance,
    consistent_totals,
    level_strategy,
    subtree_sums,
)
from dpframe.postprocess.tree_squares import (
    checked_forest,
    largest_shares,
    totals_of,
    variances,
)


@dataclass(frozen=True, kw_only=True)
class DistinctLaw:
    """A count of different values at all nodes, its noise, and its cost."""

    distinct: Distinct
    noise: NoiseTable | UnboundedNoise
    epsilon: Fraction
    delta: float

    @property
    def table(self) -> NoiseTable | None:
        """The table of bounded noise; None if the noise is pure."""
        return self.noise if isinstance(self.noise, NoiseTable) else None

    @property
    def scale(self) -> Fraction | None:
        """The scale of pure noise, as it is drawn; None if there is a table."""
        return None if isinstance(self.noise, NoiseTable) else self.noise.scale


def node_counts(distinct: Distinct, *, epsilon: Fraction, delta: float) -> DistinctLaw:
    """Return the law with less noise within the budget. Without ``delta``, or where a unit can move
    a count by more than 1, this is the pure law."""
    pure = UnboundedNoise(rounded_up(distinct.touched / epsilon))
    if delta and distinct.singly:
        laws = level_laws(
            "gaussian", levels=distinct.touched, epsilon=_float_at_most(epsilon), delta=delta
        )
        if laws.noise.sd < pure.sd:
            return DistinctLaw(distinct=distinct, noise=laws.noise, epsilon=epsilon, delta=delta)
    return DistinctLaw(distinct=distinct, noise=pure, epsilon=epsilon, delta=0.0)


def _float_at_most(epsilon: Fraction) -> float:
    number = float(epsilon)
    return number if Fraction(number) <= epsilon else float(np.nextafter(number, 0.0))


def run_node_counts(
    exact: NDArray[np.object_], *, noise: NoiseTable | UnboundedNoise
) -> NDArray[np.object_]:
    """Return noisy counts, one a node."""
    noisy: NDArray[np.object_] = exact + noise.draw(len(exact)).astype(object)
    return noisy


def add_noise(exact: Wholes, noise: NDArray[np.int64]) -> Wholes:
    """Exact sums with noise, which has up to 64 bits."""
    fits = exact.dtype == np.int64 and (np.abs(noise.astype(np.float64)) < ROOM).all()
    noisy: Wholes = exact + noise if fits else exact.astype(object) + noise.astype(object)
    return noisy


def measured_parts_cost(scales: Mapping[int, Fraction], *, most: int) -> Fraction:
    """Return epsilon of a vector; a unit moves parts, and the totals of a level, by ``most``."""
    return sum((Fraction(most) / scale for scale in scales.values()), Fraction(0))


def scales_for(
    weights: Mapping[int, Fraction], *, most: int, epsilon: Fraction
) -> dict[int, Fraction]:
    """Return the noise scales of parts and levels, rounded up. ``weights`` divide ``epsilon``;
    where a weight is 0, there is no scale."""
    return {at: rounded_up(most / (epsilon * weight)) for at, weight in weights.items() if weight}


def run_measured_parts(
    parts: Wholes, totals: Wholes, level: NDArray[np.int64], *, scales: Mapping[int, Fraction]
) -> tuple[Wholes, dict[int, Wholes]]:
    """Return noisy parts, and noisy totals of the nodes on each level that has a scale.

    ``parts`` and ``totals`` are true numbers, one a node; ``level`` is the level of every node.
    """
    noisy = add_noise(parts, UnboundedNoise(scales[PARTS]).draw(len(parts)))
    above = {}
    for at in sorted(scales):
        if at != PARTS:
            here = totals[level == at]
            above[at] = add_noise(here, UnboundedNoise(scales[at]).draw(len(here)))
    return noisy, above


class Measurable(Protocol):
    """Counted rows whose parts are measured once the parts are known. Private."""

    @property
    def counts(self) -> Counts: ...

    def parts(
        self, vectors: Sequence[Vector], nodes: Nodes | ListedCells, places: Ints
    ) -> Sequence[Wholes]:
        """Return every vector, one number a node; ``places`` are the positions of the nodes, one
        column an axis."""

    def magnitudes(self, searched: AutoBound) -> NDArray[np.int64]:
        """Return how many values, or users, each bin of magnitudes has."""

    def distinct(self, distinct: Distinct, nodes: Nodes) -> NDArray[np.object_]:
        """Return the numbers of different values, one a node."""

    def in_bins(self, vectors: BinVectors, nodes: Nodes) -> Ints:
        """Return what every part has in each bin, int64 of shape (nodes, bins)."""

    @property
    def users(self) -> WeightSource | None:
        """Users and their nodes, if rounds select."""


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


SIZE_SHARE = Fraction(1, 10)
"""The part of a binned measure's epsilon for the numbers of values at all nodes, where no count is
released beside it."""

NINE_OF_TEN = 1.645
"""Standard deviations that nine of ten normal errors stay within."""

KNOWN_BY_COUNT, KNOWN_BY_SIZE = 0.25, 0.35
"""A node is a part of its own if nine of ten errors of its median's rank are within this part of
its values: by a count that is released beside, and by numbers of values, which have more noise.
Figures: docs/decisions/0060-quantiles.md."""


@dataclass(frozen=True, kw_only=True)
class BinLaw:
    """A measure that counts values in bins: its bins, and the epsilon of everything."""

    vectors: BinVectors
    epsilon: Fraction
    at: tuple[float, ...]
    beside: str | None = None
    """The count of the same records or users whose numbers tell which nodes have enough values."""

    @property
    def size_epsilon(self) -> Fraction:
        """The epsilon of the numbers of values; 0 if a count tells them, or nothing is pooled."""
        own = self.vectors.each == "row" and self.beside is None
        return SIZE_SHARE * self.epsilon if own else Fraction(0)

    @property
    def size_charge(self) -> VectorCharge:
        """The numbers of values, as a vector."""
        unit = self.vectors.unit
        return VectorCharge(Vector(kind="rows", most=unit, unit=unit), self.size_epsilon)

    @property
    def rest(self) -> Fraction:
        """The epsilon of the bins and groups of bins."""
        return self.epsilon - self.size_epsilon

    @property
    def epsilons(self) -> tuple[Fraction, ...]:
        """The epsilons of the bins and, if groups are measured, of the groups."""
        return tuple(share * self.rest for share in self.vectors.bins.shares if share)

    @property
    def deviation(self) -> float:
        """The standard deviation of the rank of a quantile, in values, at a node of one part."""
        each = self.vectors.levels / float(self.rest)
        return edge_deviation(self.vectors.bins, self.at) * each

    @property
    def fewest(self) -> int:
        """The least number of values of a node that is a part of its own."""
        known = KNOWN_BY_SIZE if self.beside is None else KNOWN_BY_COUNT
        return math.ceil(NINE_OF_TEN * self.deviation / known)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BinEstimate:
    """Numbers of values in bins. Public.

    ``rows`` are the nodes that have numbers of their own. ``scales`` are the noise scales of bins
    and of groups at their parts.
    """

    node: NodeBins
    rows: NDArray[np.int64]
    scales: tuple[Fraction, ...]


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The law of a selection; ``threshold`` in units of the grid."""

    test: NoiseTable
    threshold: int


@dataclass(frozen=True, kw_only=True)
class Rounds:
    """The laws of a selection by rounds, the sums that are taken along with it, and the parts of
    shown nodes that are measured apart."""

    laws: RoundLaws
    sums: tuple[SumBounds, ...]
    parts: LevelParts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Estimate:
    """One vector at every node. Public.

    ``total`` adds up and is in units of the vector; without a vector it is a number of different
    values, which does not add up. ``variance`` is the variance of ``total`` as if noise were
    continuous, ``largest`` the largest share that one measurement's noise has in the variance.
    ``scales`` are the noise scales of measured parts and levels; empty without a vector.
    """

    total: Wholes
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
    parts. ``found`` has what rounds measured along with the selection.
    """

    nodes: Nodes
    measures: Mapping[str, tuple[Estimate, ...]]
    weights: Mapping[int, Fraction]
    found: FoundNodes | None = None
    binned: Mapping[str, BinEstimate] = field(default_factory=dict)


def run(
    counted: Measurable,
    *,
    kinds: Sequence[Kind],
    selection: Selection | Rounds | None,
    band: int,
    paid: Mapping[str, tuple[VectorCharge, ...]],
    read: Mapping[str, SumFromMean],
    searching: Mapping[str, BoundSearch],
    counts: Mapping[str, DistinctLaw],
    binned: Mapping[str, BinLaw],
    by_user: bool,
    importance: Importance = (),
) -> NoisyRollup:
    """Select nodes or cells, then measure vectors on the parts, and count different values node by
    node.

    Without a selection, all nodes of the tree are shown. ``importance`` is that of the levels, for
    the strategy.
    """
    found = None
    if isinstance(selection, Rounds):
        nodes, places, found = _run_rounds(counted, selection)
    else:
        nodes, places = shown_nodes(counted.counts, kinds, selection, band)
    nested = len(counted.counts.axes) == 1  # else no part is above another
    weights: Mapping[int, Fraction] = {PARTS: Fraction(1)}
    if nested:
        weights = level_strategy(
            nodes.level, nodes.ancestor, by_user=by_user, importance=importance
        )
    paid = {
        **paid,
        **{name: search_bounds(counted, len(places), each) for name, each in searching.items()},
    }
    several = [p for each in paid.values() for p in each]
    exact = iter(counted.parts([p.vector for p in several], nodes, places))
    forest = checked_forest(nodes.ancestor)
    measures = {
        name: tuple(_vector_estimate(next(exact), nodes.level, forest, p, weights) for p in each)
        for name, each in paid.items()
    }
    measures |= {name: (sum_from_pair(measures[r.of]), *measures[name]) for name, r in read.items()}
    measures |= {name: (_distinct_estimate(counted, nodes, each),) for name, each in counts.items()}
    return NoisyRollup(
        nodes=nodes,
        measures=measures,
        weights=weights if several and nested else {},
        found=found,
        binned={
            name: _bin_estimate(
                counted,
                nodes,
                forest,
                law,
                weights,
                measures[law.beside][0] if law.beside else None,
            )
            for name, law in binned.items()
        },
    )


def _run_rounds(counted: Measurable, rounds: Rounds) -> tuple[Nodes, Ints, FoundNodes]:
    """Find nodes by rounds. Return them, their positions, and what is measured at them."""
    assert counted.users is not None
    found = weighted_rounds.run(
        counted.users, laws=rounds.laws, at_most=None, sums=rounds.sums, by_level=rounds.parts
    )
    of_users = counted.users.nodes
    shown = np.zeros(len(of_users.level), dtype=np.bool_)
    shown[found.shown] = True
    return of_users.chosen_nodes(shown), of_users.node_places(found.shown), found


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
    return tree.chosen_nodes(shown), np.flatnonzero(shown)[:, None]


def search_bounds(
    counted: Measurable, parts: int, searching: BoundSearch
) -> tuple[VectorCharge, ...]:
    """Search the bounds of a measure, then return its vectors."""
    measure = searching.measure
    bounds = {"lower": measure.lower, "upper": measure.upper}
    for searched in searching.searches:
        noisy = run_auto_bounds(counted.magnitudes(searched), epsilon=searching.each)
        bound = choose_bound(noisy, epsilon=searching.each, spent=searching.rest, parts=parts)
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


def sum_from_pair(pair: tuple[Estimate, ...]) -> Estimate:
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
    noisy = run_node_counts(counted.distinct(paid.distinct, nodes), noise=paid.noise)
    variance = np.full(len(noisy), paid.noise.sd**2)
    return Estimate(total=noisy, variance=variance, largest=np.ones(len(noisy)), scales={})


def _bin_estimate(
    counted: Measurable,
    nodes: Nodes,
    forest: Forest,
    law: BinLaw,
    weights: Mapping[int, Fraction],
    beside: Estimate | None,
) -> BinEstimate:
    """Count values in bins at the nodes that have enough of them.

    A count that is released ``beside`` tells how many values nodes have; else their numbers are
    drawn first. Nodes with too few are no parts of their own: their values are counted in the part
    of the node above. So parts are a public partition again, which follows from what was released
    before. Totals and means of users do not add up: every node is counted on its own.
    """
    vectors, bins = law.vectors, law.vectors.bins
    exact = counted.in_bins(vectors, nodes)
    if vectors.each == "row":
        sizes = beside or _vector_estimate(
            exact.sum(axis=1).astype(object), nodes.level, forest, law.size_charge, weights
        )
        cover = cover_of(nodes.ancestor, sizes.total >= law.fewest * vectors.unit)
    else:
        cover = cover_of(np.full(len(exact), -1), np.ones(len(exact), dtype=np.bool_))
    pooled = np.zeros((len(cover.rows), bins.size), dtype=np.int64)
    held = cover.host >= 0
    np.add.at(pooled, cover.host[held], exact[held])
    del exact
    tables = [pooled]
    if bins.groups:
        tables.append(np.add.reduceat(pooled, bins.group_starts, axis=1))
    scales = tuple(rounded_up(vectors.most / own) for own in law.epsilons)
    assert law.size_epsilon + sum(vectors.most / scale for scale in scales) <= law.epsilon
    below = checked_forest(cover.ancestor)
    several = [
        totals_of(below, run_bins(table, scale=scale))
        for table, scale in zip(tables, scales, strict=True)
    ]
    node = NodeBins.of(
        bins=bins,
        parts=cover.parts,
        scales=tuple(map(float, scales)),
        unit=vectors.unit,
        numbers=several,
    )
    return BinEstimate(node=node, rows=cover.rows, scales=scales)


def run_bins(exact: NDArray[np.int64], *, scale: Fraction) -> NDArray[np.int64]:
    """Return noisy numbers in bins, one row a part; or in groups of bins."""
    noise = UnboundedNoise(scale).draw(exact.size).reshape(exact.shape)
    noisy: NDArray[np.int64] = exact + noise
    return noisy


def scale_variances(
    level: NDArray[np.int64], scales: Mapping[int, Fraction]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The variances of noise of these scales, as if it were continuous: of the part of every node,
    and of its total, inf where that is not measured."""
    spread = {at: 2 * float(scale) ** 2 for at, scale in scales.items()}
    total = np.full(len(level), np.inf)
    for at, own in spread.items():
        total[level == at] = own
    return np.full(len(level), spread[PARTS]), total


def strategy_variances(
    listed: ListedNodes, weights: Mapping[int, Fraction]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The variance of every listed node, where noise on parts alone would have scale 1, and the
    largest share of one draw in it."""
    return listed_variances(listed, {at: 1 / weight for at, weight in weights.items()})


def listed_variances(
    listed: ListedNodes, scales: Mapping[int, Fraction]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The same, where parts and levels have noise of these scales."""
    forest, spread = checked_forest(listed.parent), scale_variances(listed.level, scales)
    return variances(forest, *spread)[1], largest_shares(forest, *spread)


WIDEST = 2**46
"""Largest scale with which levels above the parts are measured: least squares takes 64 bits for the
difference of sums of parts and measured totals, and a level can have a thousandth of epsilon."""


def _vector_estimate(
    exact: Wholes,
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
    assert measured_parts_cost(scales, most=most) <= paid.epsilon
    exact = shortest(exact)
    totals = subtree_sums(exact, forest)
    parts, above = run_measured_parts(exact, totals, level, scales=scales)
    known = np.zeros(len(parts), dtype=np.result_type(parts, *above.values()))
    for at, values in above.items():
        known[level == at] = values
    own, variance = scale_variances(level, scales)
    total, left = consistent_totals(forest, parts, own, known, variance)
    largest = largest_shares(forest, own, variance)
    return Estimate(total=total, variance=left, largest=largest, scales=scales, vector=paid.vector)
