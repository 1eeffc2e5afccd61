"""Which totals to measure beside the parts of a selection: the weights that leave the least error.

One unit's change touches one part and at most one total on each measured level, so pure budgets
add up: the weights of parts and of levels, fractions of the budget, sum up to 1, and a value
measured with weight w has a standard deviation proportional to 1/w. More measured levels help
totals near them and cost everything else; how many pay depends on the tree alone.

Privacy
-------
A function of released nodes and public parameters: no budget.

References
----------
.. [1] Li, Miklau, Hay, McGregor, Rastogi, "The Matrix Mechanism", VLDB Journal 24 (2015): choose
   what to measure by the error that least squares leaves.
.. [2] Qardaji, Yang, Li, "Understanding Hierarchical Methods for Differentially Private
   Histograms", VLDB 2013: fewer levels.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpframe.counts import ROOM, Wholes, shortest, weighted_sum
from dpframe.errors import ParameterError
from dpframe.postprocess.consistency import Forest
from dpframe.postprocess.tree_squares import checked_forest, totals_of, whole_estimates

Whole = NDArray[np.int64]

Importance = tuple[float, ...] | Literal["even"]
"""How important levels are: a number each, level 0 first; () if nobody said so; or all alike."""

GRID = 1000
"""Weights are whole numbers of 1/GRID."""

STEEP = 3.0
"""How much one unit by which the error of a level exceeds the limit adds to the error over all
nodes."""

SHARES = (0.5, 0.35, 0.65, 0.2, 0.8, 0.9)
"""Weight of the parts in the first candidates; 0.5 first, so that it wins ties. Under many levels a
tenth for the top alone is often best, and steps from other candidates do not get there."""

REMEMBERED = 2000
"""The most nodes of a tree whose strategy is cached."""

IMPORTANT_SHARES = (0.5, 0.2, 0.05)
"""Weight of the parts in the candidates where levels have an importance."""

FEW_LEVELS = 12
"""The most levels of which every two are tried as what is measured."""

IMPORTANT_FACTORS = (2.0, 0.0, 0.5, 1.4, 0.7, 1.15, 0.87, 1.05, 0.95)
"""As ``FACTORS``, where levels have an importance."""

FACTORS = (1.6, 0.6, 1.25, 0.8, 0.0, 1.1, 0.9, 1.1, 0.9)
"""Factors by which a step changes one weight; all weights are then scaled to add up to 1. A weight
of 0 is set to 0.3 of an equal share instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """Weights that sum to exactly 1; ``levels`` holds measured levels only. ``error``: root mean
    square error of the totals of all nodes, in standard deviations of a value measured with weight
    1, plus ``STEEP`` times the sum over levels of the amounts by which they are above the limit.
    With an importance it is the root of the mean variance of levels, weighed by it; if this is
    "even", of the largest one."""

    parts: Fraction
    levels: dict[int, Fraction]
    error: float


def best_strategy(
    ancestor: Whole,
    level: Whole,
    *,
    least_parts: Fraction = Fraction(0),
    limit: float = math.inf,
    importance: Importance = (),
) -> Strategy:
    """Weights for the parts and for levels with the least error of totals that was found.

    ``ancestor`` is as for :func:`.tree_squares.least_squares`. A ``level`` is at least 0 and larger
    than that of the ancestor; there are at most 500. Parts are at most 1 / ``least_parts`` times as
    wide as if they were measured alone. ``limit``: root mean square error that no level should
    exceed, in the unit of :attr:`Strategy.error`; what exceeds it counts for ``STEEP`` times as
    much. ``importance``: for every level from 0 on, how much the mean variance of its totals counts
    in the error; without, all nodes count alike. Only levels that have nodes count. With "even" the
    error is that of the worst level. ParameterError if an argument breaks a rule.

    The result is the same for the same arguments. Its error is never above the error of parts
    alone, nor above the error of equal weights (to 1/1000) for parts and all levels if these obey
    ``least_parts``.

    Notes
    -----
    Candidates are every g-th level with several shares for the parts; steps on single weights then
    go on from the best one, for a number of trials that is fixed beforehand. With ``importance``
    candidates are also every two levels, and steps go on from the best three: the error then has
    several minima, as a variance is proportional to the square of 1 / weight.

    Examples
    --------
    >>> star = np.array([-1] + [0] * 360)
    >>> found = best_strategy(star, np.minimum(np.arange(361), 1))
    >>> found.levels.keys(), round(found.error, 2), round((721 / 361) ** 0.5, 2)
    (dict_keys([0]), 1.2, 1.41)
    """
    tree = _Tree.of(ancestor, level)
    if not 0 <= least_parts <= 1:
        raise ParameterError(f"least_parts ({least_parts}) must be from 0 to 1.")
    if not limit > 0:
        raise ParameterError(f"limit ({limit}) must be above 0.")
    floor = max(1, -(-least_parts.numerator * GRID // least_parts.denominator))
    present = importance
    if not isinstance(importance, str):
        present = tuple(importance[at] for at in tree.levels) if importance else ()
    if importance and present != "even" and not (min(present) >= 0 and 0 < sum(present) < math.inf):
        raise ParameterError(
            f"importance ({importance}) must be at least 0, and above 0 on a level with nodes."
        )
    search = _search_strategy if len(tree.at) <= REMEMBERED else _search_strategy.__wrapped__
    return search(tree, floor, limit, present)


@lru_cache(maxsize=64)
def _search_strategy(tree: _Tree, floor: int, limit: float, importance: Importance) -> Strategy:
    """Search the strategy. Cached: releases of a series often show the same nodes, above all if
    keys are listed."""
    depth = len(tree.levels)
    tried: dict[tuple[int, ...], float] = {}

    def tried_best(weights: NDArray[np.float64], best: tuple[int, ...] = ()) -> tuple[int, ...]:
        """Try weights on the grid, and return the best weights so far: of equals the first."""
        units = _weights_on_grid(weights, floor)
        if units not in tried:
            tried[units] = tree.error(np.array(units) / GRID, limit, importance)
        return units if not best or tried[units] < tried[best] else best

    best = tried_best(np.ones(depth + 1))
    best = tried_best(np.append(1.0, np.zeros(depth)), best)
    for measured in _level_sets(depth):
        for share in SHARES:
            best = tried_best(np.append(share, measured * (1 - share) / measured.sum()), best)
        if len(tried) >= tree.trials // 3:
            break
    firsts, trials = [best], tree.trials
    if importance:
        alike = np.ones(depth) if importance == "even" else np.cbrt(importance)
        for measured in _important_sets(alike):
            for share in IMPORTANT_SHARES:
                tried_best(np.append(share, measured * (1 - share) / measured.sum()))
        firsts, trials = sorted(tried, key=tried.__getitem__)[:3], len(tried) + 3 * tree.trials
    for first in firsts:
        better = first
        for factor in IMPORTANT_FACTORS if importance else FACTORS:
            for place in range(depth + 1):
                if len(tried) >= trials:
                    break
                weights = np.array(better, dtype=np.float64)
                weights[place] *= factor
                if not better[place]:
                    weights[place] = 0.3 * GRID / (depth + 1)
                if weights.any():
                    better = tried_best(weights, better)
        best = better if tried[better] < tried[best] else best
    return Strategy(
        parts=Fraction(best[0], GRID),
        levels={
            at: Fraction(units, GRID)
            for at, units in zip(tree.levels, best[1:], strict=True)
            if units
        },
        error=tried[best],
    )


def _level_sets(depth: int) -> list[NDArray[np.float64]]:
    """Sets of levels to measure, as masks: the first; every g-th from the first; all but the
    last."""
    place = np.arange(depth)
    steps = [g for g in (2, 3, 1, 4, 6, 8, 12, 16) if g < depth]
    sets = [place == 0, *(place % g == 0 for g in steps), place < depth - 1]
    distinct = {chosen.tobytes(): chosen.astype(np.float64) for chosen in sets if chosen.any()}
    return list(distinct.values())


def _important_sets(weights: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """What to measure where levels have an importance: all by these ``weights``, each level, and
    every two unless there are many."""
    each = np.eye(len(weights))
    pairs = [one + other for at, one in enumerate(each) for other in each[:at]]
    return [weights, *each, *pairs * (len(each) <= FEW_LEVELS)]


def _weights_on_grid(weights: NDArray[np.float64], floor: int) -> tuple[int, ...]:
    """Whole numbers in proportion to ``weights`` that sum to GRID, by largest remainder; the first
    is at least ``floor``."""
    wanted = weights * (GRID / weights.sum())
    if wanted[0] < floor:
        wanted[1:] *= (GRID - floor) / wanted[1:].sum()
        wanted[0] = floor
    units = np.floor(wanted).astype(np.int64)
    left = GRID - int(units.sum())
    units[np.argsort(units - wanted, kind="stable")[:left]] += 1
    return tuple(units.tolist())


@dataclass(frozen=True, slots=True)
class _Step:
    """Nodes ``top`` and the nodes ``here`` right below them, as kinds.

    ``group``: for each kind below its place in ``top``. ``alike``: arrays of kinds, each with one
    variance, that are all that lies below their parents. ``mixed``: kinds below the other parents,
    one a node, and ``of`` the places of these parents.
    """

    top: slice
    here: slice
    group: NDArray[np.intp]
    alike: list[NDArray[np.intp]]
    mixed: NDArray[np.intp]
    of: NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tree:
    """A tree, by depth, ready for many trials. Neighbouring leaves of one parent and level are one
    kind of node: equal in every trial. Other nodes are kinds of their own.

    ``at``: place of a node's level in ``levels``; ``times``: how many nodes each kind has, and
    ``nodes`` each level. ``ancestors`` and ``depths`` tell trees apart.
    """

    ancestors: bytes
    depths: bytes
    steps: list[_Step] = field(compare=False)
    levels: list[int] = field(compare=False)
    at: NDArray[np.intp] = field(compare=False)
    kind_at: NDArray[np.intp] = field(compare=False)
    times: NDArray[np.int64] = field(compare=False)
    nodes: NDArray[np.int64] = field(compare=False)
    trials: int = field(compare=False)

    @classmethod
    def of(cls, ancestor: Whole, level: Whole) -> _Tree:
        forest: Forest = checked_forest(ancestor)
        n, above = len(forest.order), np.asarray(ancestor)
        depth = np.asarray(level)
        if depth.shape != (n,) or depth.dtype.kind != "i" or (depth < 0).any():
            raise ParameterError("level must hold one whole number of at least 0 a node.")
        if (depth <= np.where(above >= 0, depth[above], -1)).any():
            raise ParameterError("level must be larger at a node than at its ancestor.")
        levels, at = np.unique(depth, return_inverse=True)
        if len(levels) > GRID // 2:
            raise ParameterError(f"level has {len(levels)} different values, above {GRID // 2}.")
        at, up = at[forest.order], forest.up
        leaf = np.ones(n, dtype=np.bool_)
        leaf[up[up >= 0]] = False
        same = leaf[1:] & leaf[:-1] & (up[1:] == up[:-1]) & (at[1:] == at[:-1])
        first = np.flatnonzero(np.append(True, ~same))
        kind, times = np.cumsum(np.append(True, ~same)) - 1, np.diff(np.append(first, n))
        steps = []
        for top, here, _ in forest.levels():
            kinds = slice(int(kind[here.start]), int(kind[here.stop - 1]) + 1)
            own = first[kinds]
            parent = kind[up[own]] - kind[top.start]  # a parent is a kind of its own
            alone = (np.bincount(parent)[parent] == 1) & leaf[own]
            number, placed = np.arange(kinds.start, kinds.stop), at[own]
            mixed = np.repeat(~alone, times[kinds])
            steps.append(
                _Step(
                    slice(int(kind[top.start]), kinds.start),
                    kinds,
                    parent,
                    [number[alone & (placed == one)] for one in np.unique(placed[alone])],
                    kind[here][mixed],
                    np.repeat(parent, times[kinds])[mixed],
                )
            )
        return cls(
            ancestors=above.astype(np.int64).tobytes(),
            depths=depth.astype(np.int64).tobytes(),
            steps=steps,
            levels=levels.tolist(),
            at=at,
            kind_at=at[first],
            times=times,
            nodes=np.bincount(at),
            trials=6 if n <= 3 else 100 if len(levels) <= 8 else 160,
        )

    def error(
        self, weights: NDArray[np.float64], limit: float, importance: Importance = ()
    ) -> float:
        """The error of a strategy, with the variances of :func:`.tree_squares.variances`: here all
        parts are measured, and nothing is infinite."""
        vp = np.full(len(self.times), weights[0] ** -2)
        precision = weights[1:][self.kind_at] ** 2
        terms, s = vp.copy(), vp / (1 + vp * precision)
        for step in reversed(self.steps):
            top = step.top
            below = np.zeros(top.stop - top.start)
            if len(step.mixed):  # of nothing, bincount makes whole numbers
                below += np.bincount(step.of, s[step.mixed], len(below))
            for alike in step.alike:  # added one by one, as others are: sums differ in last digits
                times = self.times[alike]
                sums = np.cumsum(np.full(times.max(), s[alike[0]]))
                below[step.group[alike - step.here.start]] = sums[times - 1]
            terms[top] += below
            s[top] = terms[top] / (1 + terms[top] * precision[top])
        for step in self.steps:
            top, here, group = step.top, step.here, step.group
            share = s[here] / terms[top][group]
            s[here] *= 1 - share
            s[here] += share * share * s[top][group]
        s = np.repeat(s, self.times)
        means = np.bincount(self.at, s) / self.nodes
        if importance == "even":
            return math.sqrt(float(means.max()))
        if importance:
            return math.sqrt(float(means @ importance) / sum(importance))
        above = np.maximum(np.sqrt(means) - limit, 0.0)
        return math.sqrt(s.sum() / len(s)) + STEEP * float(above.sum())


# -- Totals that add up, from measured parts and from measured levels above them ------------------
#
# Whole numbers of any size: least squares sees only the differences between measured totals and
# the sums of measured parts, which are as large as noise is.


LEAST_PARTS = Fraction(9, 20)
"""The least part of epsilon that parts get: a part is then at most 2.3 times as far off as if parts
alone were measured, whatever the height."""

LEAST_IMPORTANT_PARTS = Fraction(1, 20)
"""The same where the caller says how important levels are: what is not important still has a
number, and what is important is at most 1/0.95 times as far off for it."""

GAUSSIAN = 2.6
"""Error of every level where Gaussian noise is divided evenly over k levels, divided by the root of
k, in standard deviations of the Laplace noise that a level alone would have; at (1, 1e-6)."""

OF_RECORDS, OF_USERS = 1.02, 1.2
"""How large the error of a level may get, in errors of an even division, where records or users are
protected. Other methods that divide evenly also pay for counts of records, so that 1.02 is below
the errors of their means (tests/benchmarks/rollup_error.py). A user is clipped over all parts
together, which is worst where there are many nodes, so that little should be taken from parts."""

PARTS = -1
"""The key of the parts among the levels that are measured."""


def level_strategy(
    level: NDArray[np.int64],
    ancestor: NDArray[np.int64],
    *,
    by_user: bool,
    importance: Importance = (),
) -> Mapping[int, Fraction]:
    """Divide epsilon between the parts and the totals of levels, in fractions that sum to 1.

    ``importance``: how much the mean variance of each level counts, from level 0 on. The least
    weighted sum that is found decides then, if a level that counts has nodes; with "even" the
    least error of the worst level. Without:

    The error over all nodes is the least that is found. Levels whose error is above ``OF_RECORDS``
    or ``OF_USERS`` times the error of an even division over levels count for more in it.
    """
    if importance == "even" or (importance and any(importance[at] for at in set(level.tolist()))):
        found = best_strategy(
            ancestor, level, least_parts=LEAST_IMPORTANT_PARTS, importance=importance
        )
        return {PARTS: found.parts, **found.levels}
    levels = len(np.unique(level))
    even = min(levels, GAUSSIAN * math.sqrt(levels))
    limit = even * (OF_USERS if by_user else OF_RECORDS)
    found = best_strategy(ancestor, level, least_parts=LEAST_PARTS, limit=limit)
    return {PARTS: found.parts, **found.levels}


def consistent_totals(
    ancestor: NDArray[np.int64] | Forest,
    parts: Wholes,
    spread: NDArray[np.float64],
    known: Wholes,
    variance: NDArray[np.float64],
) -> tuple[Wholes, NDArray[np.float64]]:
    """Totals in whole numbers that add up, and the variance of each: from measured ``parts`` with
    variances ``spread`` and totals that are ``known`` with a ``variance``, inf where no total was
    measured."""
    forest = checked_forest(ancestor)
    summed = subtree_sums(parts, forest)
    measured = np.isfinite(variance)
    apart = np.zeros(len(parts), dtype=np.int64)
    apart[measured] = (known[measured] - summed[measured]).astype(np.int64)
    found = whole_estimates(
        forest,
        part=np.zeros(len(parts), dtype=np.int64),
        part_variance=spread,
        total=apart,
        total_variance=variance,
    )
    if summed.dtype != np.int64 or np.abs(found.total).max() >= ROOM:
        return summed.astype(object) + found.total.astype(object), found.total_variance
    return summed + found.total, found.total_variance


def subtree_sums(parts: Wholes, ancestor: NDArray[np.int64] | Forest) -> Wholes:
    """Sums of the parts at and below every node."""
    return totals_of(checked_forest(ancestor), shortest(parts))


# -- Marginals of listed keys, measured kind by kind and made consistent ---------------------------
#
# Source: Xiao, He, Zhang, Kifer, "An Optimal and Scalable Matrix Mechanism for Noisy Marginals
# under Convex Loss Functions", NeurIPS 2023 (arXiv 2305.08175). The part of a marginal that no
# smaller marginal tells is its *residual*. Residuals of different sets of dimensions are
# orthogonal, so that least squares takes each apart: with noise of variance 1/w_B on the marginals
# of kind B, the residual of A is known from all B that refine A, with the precision
# t_A = sum of w_B / (product of the sizes of B without A). Noise on whole marginals loses nothing
# against noise on residuals: each set of t that a budget allows comes from weights w that sum to
# it. And numbers that get noise are whole.

Shape = tuple[int, ...]
"""For each dimension 1 where it is told apart, 0 where it is rolled up."""

ROUNDS_OF_STEPS, MARGINAL_GRID, STEPS_OF_TWO = 60, 10_000, 3
"""Most rounds of steps in the search for weights, which are whole numbers of 1/MARGINAL_GRID.
Precisions of Gaussian noise are apart by powers of the third root of 2."""


@dataclass(frozen=True)
class Marginals:
    """The marginals of a table of listed keys that are shown, and how they are measured.

    ``sizes`` says how many keys each dimension has. ``kinds`` are the sets of dimensions, finest
    first, the total last. Weights are precisions if ``power`` is 1: those of Gaussian noise are
    divided. If it is 2, weights are shares of epsilon, and precisions are their squares.
    """

    sizes: tuple[int, ...]
    kinds: tuple[Shape, ...]
    power: int = 2

    @cached_property
    def residuals(self) -> list[Shape]:
        """The sets of dimensions that some kind refines."""
        below = {
            one
            for kind in self.kinds
            for one in itertools.product(*((0, 1)[: k + 1] for k in kind))
        }
        return sorted(below)

    @cached_property
    def _tables(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Matrices: from the precisions of kinds to those of residuals, and from the variances of
        residuals to those of cells of kinds."""
        told = np.zeros((len(self.residuals), len(self.kinds)))
        spread = np.zeros((len(self.kinds), len(self.residuals)))
        for a, inner in enumerate(self.residuals):
            own = math.prod(1 - 1 / n for n, k in zip(self.sizes, inner, strict=True) if k)
            for b, outer in enumerate(self.kinds):
                if all(i <= o for i, o in zip(inner, outer, strict=True)):
                    more = self.cells_between(inner, outer)
                    told[a, b], spread[b, a] = 1 / more, own / more**2
        return told, spread

    def cells_between(self, inner: Shape, outer: Shape) -> int:
        """How many cells of ``outer`` a cell of ``inner`` has."""
        triples = zip(self.sizes, inner, outer, strict=True)
        return math.prod(n for n, i, o in triples if o and not i)

    def precisions(self, weights: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
        """The precision of each residual, if kinds have these precisions."""
        found: NDArray[np.float64] = self._tables[0] @ np.asarray(weights, dtype=np.float64)
        return found

    def variances(self, weights: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
        """The variance of a cell of each kind after least squares, from the precisions of kinds;
        inf where nothing tells a residual."""
        with np.errstate(divide="ignore", invalid="ignore"):
            spread = self._tables[1] / self.precisions(weights)
        return np.where(self._tables[1] > 0, spread, 0.0).sum(axis=1)

    def error(self, weights: NDArray[np.float64]) -> float:
        """The root mean square over kinds of the error of a cell, in errors of one kind that is
        measured alone with the whole budget."""
        return math.sqrt(float(self.variances(weights**self.power).mean()))

    @cached_property
    def weights(self) -> tuple[Fraction, ...]:
        """The weights of the kinds with the least error that was found: at least 0, in sum 1."""
        return _search_marginal_weights(self)

    def largest_shares(self, weights: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
        """The largest share that the noise of one measured cell has in the variance of a cell of
        each kind; ``weights`` are precisions."""
        told, variance, k = self.precisions(weights), self.variances(weights), len(self.sizes)
        place = {one: a for a, one in enumerate(self.residuals)}
        out = np.zeros(len(self.kinds))
        for b, outer in enumerate(self.kinds):
            for c, other in enumerate(self.kinds):
                if not weights[c]:
                    continue
                both = tuple(map(min, outer, other))
                # coefficients by which dimensions of both have the same key, axis by axis
                factor = np.zeros((2,) * k)
                for inner in itertools.product(*((0, 1)[: x + 1] for x in both)):
                    more = self.cells_between(inner, outer) * self.cells_between(inner, other)
                    factor[inner] = weights[c] / told[place[inner]] / more
                for axis, n in enumerate(self.sizes):
                    if both[axis]:
                        none, one = np.take(factor, 0, axis), np.take(factor, 1, axis)
                        factor = np.stack([none - one / n, none + one * (1 - 1 / n)], axis)
                own = float(np.abs(factor).max()) ** 2 / weights[c]
                out[b] = max(out[b], own / variance[b])
        return np.minimum(out, 1.0)

    def consistent(
        self, measured: Mapping[Shape, Wholes], precision: Mapping[Shape, float]
    ) -> dict[Shape, Wholes]:
        """Whole numbers at all cells of every kind that add up along every dimension.

        ``measured`` has numbers in the shape of the sizes, 1 where a dimension is rolled up. The
        result is least squares, rounded: running sums are rounded to whole numbers, and a cell is a
        difference of these, so that each kind is off by about the same.
        """
        full = tuple(1 for _ in self.sizes)
        measured = {kind: shortest(numbers) for kind, numbers in measured.items()}  # sums fit
        base: Wholes = measured.get(full, np.zeros(self.sizes, dtype=np.int64))
        apart = {
            kind: (numbers - _sums_over(base, full, kind)).astype(np.float64)
            for kind, numbers in measured.items()
        }
        told = dict(
            zip(self.residuals, self.precisions([precision.get(k, 0.0) for k in self.kinds]),
                strict=True)
        )  # fmt: skip
        found = np.zeros(self.sizes)
        for inner in self.residuals:
            if any(n == 1 for n, k in zip(self.sizes, inner, strict=True) if k):
                continue  # a dimension with one key has no residual
            own = np.zeros(tuple(n if k else 1 for n, k in zip(self.sizes, inner, strict=True)))
            for outer, numbers in apart.items():
                if all(i <= o for i, o in zip(inner, outer, strict=True)):
                    share = precision[outer] / self.cells_between(inner, outer)
                    own += share * _sums_over(numbers, outer, inner)
            for axis, k in enumerate(inner):
                if k:
                    own -= own.mean(axis=axis, keepdims=True)
            found += own / told[inner] / self.cells_between(inner, full)
        whole = shortest(weighted_sum(1, base, 1, _rounded_cells(found)))
        return {kind: shortest(_sums_over(whole, full, kind)) for kind in self.kinds}

    def rounding(self) -> NDArray[np.float64]:
        """The variance of what rounding adds to a cell of each kind: a difference of one running
        sum for each side of the cell, each off by a fraction that is about uniform."""
        return np.array([2.0 ** sum(kind) / 12 for kind in self.kinds])


def _sums_over(numbers: NDArray[Any], outer: Shape, inner: Shape) -> NDArray[Any]:
    """Sums over the dimensions of ``outer`` that ``inner`` rolls up."""
    axes = tuple(axis for axis, (o, i) in enumerate(zip(outer, inner, strict=True)) if o and not i)
    return numbers.sum(axis=axes, keepdims=True) if axes else numbers


def _rounded_cells(numbers: NDArray[np.float64]) -> Wholes:
    """Differences of rounded running sums."""
    running = numbers
    for axis in range(numbers.ndim):
        running = np.cumsum(running, axis=axis)
    out: Wholes = np.rint(running)
    if np.abs(out).max() * 2**out.ndim < ROOM:
        out = out.astype(np.int64)
    else:
        out = np.array([int(one) for one in out.ravel()], dtype=object).reshape(out.shape)
    for axis in range(numbers.ndim):
        out = np.diff(out, axis=axis, prepend=0)
    return out


@lru_cache(maxsize=64)
def _search_marginal_weights(shown: Marginals) -> tuple[Fraction, ...]:
    """Change one weight after the other as long as that helps, from several starts."""
    n = len(shown.kinds)
    best, least = np.zeros(n), math.inf
    for first in (0.0, 0.3, 0.6):  # more for the finest kind, of which all others are sums
        weights = np.full(n, (1 - first) / n)
        weights[0] += first
        weights, error = _descend(shown, weights)
        if error < least * (1 - 1e-9):
            best, least = weights, error
    if shown.power == 1:  # few different weights, each of which has a table of noise
        some = best > best.max() / 64
        steps = np.round(STEPS_OF_TWO * np.log2(best[some] / best.max())) / STEPS_OF_TWO
        units = np.zeros(n, dtype=np.int64)
        units[some] = np.rint(MARGINAL_GRID * 2.0**steps)
        return tuple(Fraction(int(one), int(units.sum())) for one in units)
    units = np.maximum(np.floor(best * MARGINAL_GRID), best > 0).astype(np.int64)
    units[0] += max(0, int(best[0] <= 0))
    units[np.argmax(units)] += MARGINAL_GRID - units.sum()
    return tuple(Fraction(one, MARGINAL_GRID) for one in units.tolist())


def _descend(shown: Marginals, weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    error, factor = shown.error(weights), 2.0
    for _ in range(ROUNDS_OF_STEPS):
        before = error
        for place in range(len(weights)):
            for way in (factor, 1 / factor, 0.0):
                tried = weights.copy()
                tried[place] *= way
                if tried.sum() <= 0:
                    continue
                tried /= tried.sum()
                found = shown.error(tried)
                if found < error:
                    weights, error = tried, found
        if error > before * (1 - 1e-4):
            if factor < 1.05:
                break
            factor = math.sqrt(factor)
    return weights, error
