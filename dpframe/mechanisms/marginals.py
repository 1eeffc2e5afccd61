"""Marginals of listed keys of several dimensions.

Every kind of cells that is shown, such as ``country * product`` or ``country``, is a marginal of a
table whose cells are known: the listed keys of all dimensions. Marginals get noise of their own,
with a part of the budget each, and least squares makes them consistent
(:class:`dpframe.postprocess.strategy.Marginals`). Which marginals are measured, and with which
part, follows from the numbers of listed keys.

Source: Xiao, He, Zhang, Kifer, "An Optimal and Scalable Matrix Mechanism for Noisy Marginals under
Convex Loss Functions" (arXiv 2305.08175). Deviations: noise is added to whole marginals in the
place of residuals, so that whole numbers get exact noise. For Gaussian noise this loses nothing.
With Laplace noise epsilon is divided, not its square, so that few marginals are measured; the
division with the least error is searched. Results are rounded to whole numbers that add up.

Neighbours: one record, or one user. A record is in at most one cell of each kind, and in none where
one of its values is not listed. So such a unit moves the numbers of one kind by at most ``most`` in
total. With discrete Laplace noise of scale b on a kind this costs most / b (Dwork, McSherry,
Nissim, Smith, 2006, Proposition 1), and kinds add up. Counts of records move by one a kind: with
bounded discrete Gaussian noise delta is composed exactly from the tables
(:mod:`dpframe.accounting.losses`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dpframe.accounting.losses import (
    LOSS_STEP,
    closest_numbers,
    composed_profile,
    continuous_sigma,
)
from dpframe.counts import ListedCells, Wholes, shortest
from dpframe.hierarchy import Kind
from dpframe.mechanisms.rollup import (
    BoundSearch,
    Estimate,
    Measurable,
    NoisyRollup,
    SumFromMean,
    VectorCharge,
    add_noise,
    measured_parts_cost,
    scales_for,
    search_bounds,
    sum_from_pair,
)
from dpframe.noise import NoiseTable, UnboundedNoise, gaussian_table
from dpframe.postprocess.strategy import PARTS, Marginals

CLEARLY = 0.98
"""Gaussian noise is taken where its error is estimated to be below this part of that of Laplace
noise."""

CLOSEST = 1.001
"""The ratio within which the least Gaussian noise is found."""


@dataclass(frozen=True, kw_only=True)
class TableLaws:
    """Bounded Gaussian noise for counts of records: a table for each kind that is measured, by its
    level, and what all of them cost together."""

    tables: Mapping[int, NoiseTable]
    epsilon: Fraction
    delta: float

    @property
    def times(self) -> list[tuple[int, NoiseTable]]:
        """The different tables, and how many kinds have each."""
        once = {id(table): table for table in self.tables.values()}
        same = [id(table) for table in self.tables.values()]
        return [(same.count(key), table) for key, table in once.items()]


def listed_marginals(listed: ListedCells, kinds: Sequence[Kind], power: int = 2) -> Marginals:
    """The marginals of listed cells: of all ``kinds``, and the total."""
    return Marginals(listed.sizes, (*kinds, (0,) * len(listed.axes)), power)


def level_keys(shown: Marginals) -> list[int]:
    """The level of each kind, the total 0; in the place of the finest kind ``PARTS``."""
    return [PARTS, *range(len(shown.kinds) - 2, -1, -1)]


def kind_weights(shown: Marginals) -> dict[int, Fraction]:
    """The part of the budget of each kind that is measured, by its level."""
    pairs = zip(level_keys(shown), shown.weights, strict=True)
    return {at: weight for at, weight in pairs if weight}


def laws_of_counts(
    listed: ListedCells,
    kinds: Sequence[Kind],
    paid: Mapping[str, tuple[VectorCharge, ...]],
    delta: float,
) -> dict[str, TableLaws]:
    """Gaussian noise of counts of records among the vectors of measures, which divide ``delta``,
    where that has a smaller error than Laplace noise."""
    counts = {
        name: several[0].epsilon
        for name, several in paid.items()
        if [one.vector.kind for one in several] == ["rows"]
    }
    own = delta / max(1, len(counts)) * (1 - 1e-9)
    each = {
        name: table_laws(listed, kinds, epsilon=epsilon, delta=own)
        for name, epsilon in counts.items()
        if own
    }
    return {name: laws for name, laws in each.items() if laws is not None}


def table_laws(
    listed: ListedCells, kinds: Sequence[Kind], *, epsilon: Fraction, delta: float
) -> TableLaws | None:
    """Gaussian noise within the budget; None where Laplace noise has a smaller error, or nearly."""
    own = float(epsilon)
    if Fraction(own) > epsilon:
        own = math.nextafter(own, 0.0)
    pure = _least_error(listed_marginals(listed, kinds)) * math.sqrt(2) / own
    shown = listed_marginals(listed, kinds, power=1)
    if _least_error(shown) * continuous_sigma(own, delta) >= CLEARLY * pure:
        return None
    tables, spent = _least_tables(shown, own, delta)
    return TableLaws(tables=tables, epsilon=epsilon, delta=spent)


def _least_error(shown: Marginals) -> float:
    return shown.error(np.array([float(weight) for weight in shown.weights]))


@lru_cache(maxsize=16)
def _least_tables(
    shown: Marginals, epsilon: float, delta: float
) -> tuple[dict[int, NoiseTable], float]:
    """The least noise whose composed delta is at most ``delta``, and this delta."""
    weights = kind_weights(shown)
    ends = math.sqrt(2 * math.log(4 * len(weights) / delta))

    def tables(sigma: float) -> dict[int, NoiseTable]:
        scales = {weight: sigma / math.sqrt(weight) for weight in set(weights.values())}
        once = {w: gaussian_table(s, math.ceil(s * ends)) for w, s in scales.items()}
        return {at: once[weight] for at, weight in weights.items()}

    def spent(sigma: float) -> float:
        drawn = list(tables(sigma).values())
        return composed_profile(drawn, epsilons=(epsilon,), step=LOSS_STEP)[0][1]

    low = 0.9 * continuous_sigma(epsilon, delta)
    high = low / 0.9
    while spent(high) > delta:
        low, high = high, 1.05 * high
    _, sigma = closest_numbers(lambda s: spent(s) <= delta, low, high, ratio=CLOSEST)
    return tables(sigma), spent(sigma)


def run(
    counted: Measurable,
    *,
    listed: ListedCells,
    kinds: Sequence[Kind],
    paid: Mapping[str, tuple[VectorCharge, ...]],
    read: Mapping[str, SumFromMean],
    searching: Mapping[str, BoundSearch],
    laws: Mapping[str, TableLaws],
) -> NoisyRollup:
    """Add noise to every measured kind of cells, and make all kinds consistent.

    Measures with ``laws`` get Gaussian noise, others Laplace noise.
    """
    nodes = listed.nodes(kinds)
    paid = {
        **paid,
        **{name: search_bounds(counted, len(nodes.level), one) for name, one in searching.items()},
    }
    vectors = [one.vector for several in paid.values() for one in several]
    exact = iter(counted.parts(vectors, listed, np.zeros((0, len(listed.axes)), dtype=np.int64)))
    shown = listed_marginals(listed, kinds)
    measures = {
        name: tuple(_kind_estimates(next(exact), one, shown, laws.get(name)) for one in several)
        for name, several in paid.items()
    }
    measures |= {
        name: (sum_from_pair(measures[one.of]), *measures[name]) for name, one in read.items()
    }
    weights = kind_weights(shown) if set(measures) - set(laws) else {}
    return NoisyRollup(nodes=nodes, measures=measures, weights=weights)


def _kind_estimates(
    exact: Wholes, paid: VectorCharge, shown: Marginals, laws: TableLaws | None
) -> Estimate:
    """Add noise to the numbers of every measured kind, and estimate all kinds."""
    most, scales = paid.vector.most, dict[int, Fraction]()
    noise: Mapping[int, NoiseTable | UnboundedNoise]
    if laws is None:
        scales = scales_for(kind_weights(shown), most=most, epsilon=paid.epsilon)
        assert measured_parts_cost(scales, most=most) <= paid.epsilon
        noise = {at: UnboundedNoise(scale) for at, scale in scales.items()}
        precision = {at: 1 / (2 * float(scale) ** 2) for at, scale in scales.items()}
    else:
        assert most == 1
        noise = laws.tables
        precision = {at: law.sd**-2 for at, law in laws.tables.items()}
    table = shortest(exact)[1:].reshape(shown.sizes)
    kind_of = dict(zip(level_keys(shown), shown.kinds, strict=True))
    measured = {}
    for at, law in noise.items():
        rolled = tuple(d for d, k in enumerate(kind_of[at]) if not k)
        true = table.sum(axis=rolled, keepdims=True)
        measured[kind_of[at]] = add_noise(true, law.draw(true.size).reshape(true.shape))
    weights = [precision.get(at, 0.0) for at in kind_of]
    total = shown.consistent(measured, dict(zip(shown.kinds, weights, strict=True)))
    sizes = [total[kind].size for kind in shown.kinds]
    variance = shown.variances(weights) + shown.rounding()
    largest = shown.largest_shares(weights) if laws is None else np.full(len(sizes), NORMAL)
    return Estimate(
        total=shortest(np.concatenate([total[kind].ravel() for kind in shown.kinds[::-1]])),
        variance=np.repeat(variance[::-1], sizes[::-1]),
        largest=np.repeat(largest[::-1], sizes[::-1]),
        scales=scales,
        vector=paid.vector,
    )


NORMAL = 1e-6
"""A share so small that a sum of noises is taken as normal."""
