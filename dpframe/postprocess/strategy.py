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

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpframe.counts import ROOM, Wholes, shortest
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
