"""Noise for the count of every node, and of different users at nodes, composed over levels; and
curves of releases made of parts.

**Counts of every node** have one law a level, composed over the levels of a path.

A record moves one count on every level by 1, the total included; a user who weighs 1 moves several
counts of a level, together by 1. Level l gets the share w_l of the budget (sum of w_l: 1).

Laplace
    Scale b_l = 1 / (w_l epsilon). Moving counts of one level by s_1, s_2, ... with sum 1 costs at
    most sum s_i / b_l = w_l epsilon, and all levels together epsilon. Without bounds that is all
    (delta = 0). A bounded table has in addition the slip of
    :mod:`dpframe.accounting.path_recursion` on every level, and slips add up.
Gaussian
    Variance proportional to 1 / w_l, so that w_l is the share of the zero-concentrated budget. The
    factor follows from privacy loss distributions of the tables themselves. Only for whole records.
Laplace-Gaussian
    The product of both densities, P(z) proportional to exp(-|z|/b_l - z^2/(2 s_l^2)): the centre of
    a Laplace law and the tails of a Gaussian law, which is what composition pays for. b_l is a few
    times the scale of the Laplace law alone; s_l is what the budget then asks for, by privacy loss
    distributions too. One of these laws has less noise than the Gaussian law and at the same time
    no larger threshold (docs/decisions/0015-between-laplace-and-gaussian.md).

Where keys are unknown, a node is shown if its noisy count reaches the threshold of its level. No
node that only one of two neighbours has can reach it, since the node counts at most one whole
record or user. (Privacy needs one record less: an absent node counts 0, and no more must be hidden.
The spare record keeps nodes of a single record, which are most nodes, out of the query.)

**Numbers of different users** at nodes are paid for by what one user moves, composed.

On each level l = 1, ..., h a user counts at no more than ``times[l]`` nodes, and once in the total:
``times[0]`` is 1. So one user moves at most ``times[l]`` counts of level l, each by 1, whoever else
is there: T = sum of ``times`` counts in all, with independent noise. This is the case of T levels
on which one record moves one count each, and is paid for as such: by privacy loss distributions of
the tables that are drawn from, or for Laplace noise by the sum of 1 / b. A user with fewer nodes
moves fewer counts, which is a part of this case.

**Releases made of parts** have a curve that all parts keep together, from the curve of each part.

Parts may be asked in turns, each question chosen after earlier answers, as long as each part keeps
its curve whatever it is asked. Then all parts together are dominated by the product of one pair of
laws a part (interactive mechanisms that run concurrently: Vadhan, Zhang, "Concurrent Composition
Theorems for Differential Privacy", 2023; Haney, Shoemate, Tian, Vadhan, Vyrros, Xu, Zhang 2023). A
part of which only (epsilon, delta) is known is dominated by randomised response that fails with
probability delta (Kairouz, Oh, Viswanath 2015). That is why three parts of a third of epsilon cost
less, at every smaller epsilon, than their sum says.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from dpframe.accounting.compose import Profile, profile_hull
from dpframe.accounting.losses import (
    Losses,
    closest_numbers,
    compose_losses,
    composed_profile,
    continuous_sigma,
    pair_losses,
)
from dpframe.accounting.path_recursion import FLOAT_SLACK, table_slip
from dpframe.errors import BudgetError, ParameterError
from dpframe.noise import (
    NoiseTable,
    UnboundedNoise,
    gaussian_table,
    laplace_gaussian_table,
    laplace_table,
)

STEP = 1e-4
"""Grid of the privacy loss, relative to the epsilon of all parts together."""

ROUNDING = 1e-14
"""Delta added to every point, above the rounding of a pair of laws that is read off its curve."""

Parts = Sequence[tuple[Losses, int]]
"""Losses of a part, and how many such parts there are."""


def pure_profile(epsilon: float, slip: float = 0.0) -> Profile:
    """Return the profile of an (epsilon, slip)-private part."""
    return ((epsilon * (1 + 1e-12), slip),)


def pair_of(profile: Profile) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return two laws, outcome by outcome, whose divergence is the hull of a profile.

    Where the slope of the hull changes by q at t, there is an outcome of probability q t under the
    first law and q under the second. The first law has one more outcome, whose probability is the
    last delta.
    """
    t, delta = profile_hull(profile)
    slope = np.append(np.diff(delta) / np.diff(t), 0.0)
    there = np.diff(slope, prepend=-1.0)
    return np.append(t * there, delta[-1]), np.append(there, 0.0)


def losses_of_profile(profile: Profile, step: float) -> Losses:
    """Return losses, on a grid, of a pair that dominates every mechanism with this profile."""
    here, there = pair_of(profile)
    return pair_losses(np.maximum(here, 0.0), np.maximum(there, 0.0), step)


def parts_curve(parts: Parts, epsilons: Sequence[float]) -> Iterable[tuple[float, float]]:
    """Yield points of the curve of all parts together; ``epsilons`` increase."""
    at = [compose_losses(parts, epsilon) for epsilon in {epsilons[0], epsilons[-1]}]
    for epsilon in epsilons:
        yield epsilon, min(1.0, min(losses.delta(epsilon) for losses in at) + ROUNDING)


def profiles_together(
    profiles: Iterable[tuple[Profile, int]], epsilons: Sequence[float], whole: float
) -> Iterable[tuple[float, float]]:
    """Yield points of the curve of parts with these profiles; ``whole`` is the epsilon of all."""
    step = whole * STEP
    return parts_curve([(losses_of_profile(p, step), times) for p, times in profiles], epsilons)


Family = Literal["laplace", "gaussian", "laplace-gaussian"]

BETWEEN = (1.15, 1.25, 1.4, 1.6, 1.8, 2.0, 2.3, 2.6, 3.0, 3.5, 4.5, 6.0)
"""Scales b_l of the Laplace-Gaussian laws that are tried, in multiples of the scale that the
Laplace law alone needs. A smaller scale gives less noise and larger thresholds."""

NEAR = 1.02
"""A law with less noise than the Gaussian law may have this many times its worst error."""

WIDEN = 1 + 1e-7
"""Scales of bounded tables are this much wider than the formula, for float rounding."""

COARSE_STEP, FINE_STEP = 1e-3, 1e-4
"""Grids of the privacy loss, in parts of epsilon, while searching and for the result."""

SMALL = 0.05
"""If epsilon for one record is smaller, a search starts from the result at this epsilon."""

SIGMA_PART = 0.5
"""Part of delta that decides sigma of a Laplace-Gaussian law; the rest is for the ends of tables. A
little more noise makes tables shorter."""

FINE = 2**16
"""Unbounded scales are multiples of 1 / FINE units, rounded up."""

WIDEST = 2**28
"""Scale of unbounded noise, in records, beyond which a budget is refused."""

LARGEST_TABLE = 8_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeLaws:
    """Noise of levels 0, 1, ..., h in units of 1 / ``grid`` record, and delta of all levels
    together.

    ``scales`` are in records: the scale of the exponent for Laplace, sigma otherwise. ``between``
    is one of ``BETWEEN`` for a Laplace-Gaussian law.
    """

    family: Family
    noises: tuple[NoiseTable | UnboundedNoise, ...]
    scales: tuple[float, ...]
    grid: int
    delta: float
    between: float | None = None

    @property
    def worst_sd(self) -> float:
        """Standard deviation of the noisiest level, in records."""
        return max(noise.sd for noise in self.noises) / self.grid

    @property
    def thresholds(self) -> tuple[int, ...]:
        """Smallest noisy count that is shown, level by level, in units, for unknown keys."""
        highest = [n.highest for n in self.noises if isinstance(n, NoiseTable)]
        return tuple(h + self.grid + 1 for h in highest)


def tree_laws(
    *,
    weights: Sequence[float] | Sequence[Fraction],
    epsilon: float,
    delta: float,
    grid: int,
    listed: bool,
    family: Literal["laplace", "gaussian"] | None,
) -> TreeLaws:
    """Return the least noise within the budget.

    Parameters
    ----------
    weights
        A positive number a level, level 0 first; only their ratios matter.
    epsilon, delta
        For one record, or for one user who weighs 1. ``delta`` = 0 asks for unbounded noise.
    grid
        Units that a record or user weighs. Only for Laplace noise can it be more than 1.
    listed
        Whether keys are known. If not, thresholds count too: only laws are taken whose
        `worst_error` is at most 2 % above the worst error of the Gaussian law. Less noise is no
        gain where more nodes are hidden.
    family
        "laplace", "gaussian", or None for the law whose noisiest level has the least noise.
    """
    shares = tuple(Fraction(w) / sum(map(Fraction, weights)) for w in weights)
    if delta == 0:
        return _unbounded_laws(shares, epsilon, grid)
    if family == "laplace" or grid > 1:
        return _laplace_laws(shares, epsilon, delta, grid)
    if family == "gaussian":
        return _search_sigma(shares, epsilon, delta, None)
    return _best_family(shares, epsilon, delta, listed)


@lru_cache(maxsize=64)
def _best_family(
    shares: tuple[Fraction, ...], epsilon: float, delta: float, listed: bool
) -> TreeLaws:
    alone = _laplace_laws(shares, epsilon, delta, 1)
    if listed and continuous_sigma(epsilon, delta) / math.sqrt(min(shares)) > 1.2 * alone.worst_sd:
        return alone  # no Laplace-Gaussian law is better where the Gaussian law is so much worse
    if epsilon < SMALL:  # tables are long: the shape that is best for a larger epsilon
        shape = _best_family(shares, SMALL, delta, listed)
        if shape.family == "laplace":
            return alone
        return _search_sigma(shares, epsilon, delta, shape.between)
    normal = _search_sigma(shares, epsilon, delta, None)
    if listed:
        between = [_search_sigma(shares, epsilon, delta, k) for k in BETWEEN]
        return min([alone, *between, normal], key=lambda laws: laws.worst_sd)
    most = NEAR * worst_error(normal)
    if worst_error(alone) <= most and alone.worst_sd <= normal.worst_sd:
        return alone
    for k in BETWEEN:
        laws = _search_sigma(shares, epsilon, delta, k)
        if worst_error(laws) <= most:
            return min(laws, normal, key=lambda laws: laws.worst_sd)
    return normal


def worst_error(laws: TreeLaws) -> float:
    """Return the largest root mean squared error of a node with unknown keys, over all true counts
    n >= 1 and all levels, in records. The error of a node is its noise if the node is shown by
    itself, n if the node is hidden."""
    worst = 0.0
    for noise, threshold in set(zip(laws.noises, laws.thresholds, strict=True)):
        assert isinstance(noise, NoiseTable)
        values = np.arange(noise.lowest, noise.highest + 1, dtype=np.float64)
        squares = np.cumsum((noise.pmf * values**2)[::-1])[::-1]
        count = np.arange(1.0, threshold - noise.lowest + 1)
        least = (threshold - count).astype(np.int64) - noise.lowest  # least noise that shows it
        inside = np.clip(least, 0, len(values) - 1)
        shown = np.where(least < len(values), squares[inside], 0.0)
        hidden = 1 - noise.at_least()[np.clip(least, 0, len(values))]
        worst = max(worst, float((shown + hidden * count**2).max()))
    return math.sqrt(worst) / laws.grid


@lru_cache(maxsize=64)
def _unbounded_laws(shares: tuple[Fraction, ...], epsilon: float, grid: int) -> TreeLaws:
    scales = [Fraction(grid) / (Fraction(epsilon) * share) for share in shares]
    if max(scales) > grid * WIDEST:
        raise BudgetError(
            f"epsilon ({epsilon:g} per record) is too small: noise would have scale "
            f"{float(max(scales) / grid):.1e}. Raise epsilon, or lower max_contributions or "
            "max_weight."
        )
    fine = [Fraction(math.ceil(scale * FINE), FINE) for scale in scales]
    if sum(grid / scale for scale in fine) > Fraction(epsilon):
        raise AssertionError("scales are rounded up")
    return TreeLaws(
        family="laplace",
        noises=tuple(UnboundedNoise(scale) for scale in fine),
        scales=tuple(float(scale / grid) for scale in fine),
        grid=grid,
        delta=0.0,
    )


@lru_cache(maxsize=64)
def _laplace_laws(
    shares: tuple[Fraction, ...], epsilon: float, delta: float, grid: int
) -> TreeLaws:
    scales = [WIDEN / (float(share) * epsilon) for share in shares]

    def build(tail: float) -> tuple[NoiseTable, ...]:
        made = {b: laplace_table(b * grid, math.ceil(grid * (1 + b * tail))) for b in set(scales)}
        return tuple(made[b] for b in scales)

    def cost(tail: float) -> float:
        return laplace_slips(build(tail), scales, grid)

    high = math.log(len(scales) / delta)
    entries = sum(2 * grid * (1 + b * high) for b in set(scales))
    if entries > LARGEST_TABLE:
        raise BudgetError(
            f"epsilon ({epsilon:g}{' per record' if grid == 1 else ''}) is too small for "
            f"{len(scales)} levels{' and shares of users' if grid > 1 else ''}. Raise epsilon, or "
            "lower the height, max_contributions or max_weight."
        )
    if cost(high) > delta:
        raise BudgetError(
            f"no bounded Laplace noise reaches delta={delta:g} at epsilon={epsilon:g} over "
            f"{len(scales)} levels. Raise delta or epsilon."
        )
    apart = 0.5 / max(scales) / (1 if grid == 1 else 16)
    _, tail = closest_numbers(lambda tail: cost(tail) <= delta, 0.0, high, apart=apart)
    noises = build(tail)
    return TreeLaws(
        family="laplace",
        noises=noises,
        scales=tuple(scales),
        grid=grid,
        delta=laplace_slips(noises, scales, grid),
    )


def laplace_slips(noises: Sequence[NoiseTable], scales: Sequence[float], grid: int) -> float:
    """Return delta of bounded Laplace tables, one a level, at epsilon = sum of 1 / scales.

    Scales are in records. A level whose counts move by s_1, s_2, ... units with sum ``grid`` is
    (1 / b, slip)-private, and basic composition adds up the levels (Dwork and Roth, Theorem 3.16).
    """
    return min(1.0, sum(_slip_of_each(noises, scales, grid)))


def _slip_of_each(noises: Sequence[NoiseTable], scales: Sequence[float], grid: int) -> list[float]:
    pairs = list(zip(noises, scales, strict=True))
    once = {(id(noise), scale): (noise, scale) for noise, scale in pairs}
    slip = {k: table_slip(n.pmf, scale=b, grid=grid) for k, (n, b) in once.items()}
    return [(slip[id(n), b] + FLOAT_SLACK) * (1 + 1e-9) for n, b in pairs]


def laplace_parts(laws: TreeLaws) -> list[Profile]:
    """Return the profile of each level of Laplace noise, whatever parts of a record move."""
    tables = [noise for noise in laws.noises if isinstance(noise, NoiseTable)]
    slip = _slip_of_each(tables, laws.scales, laws.grid) if tables else [0.0] * len(laws.scales)
    return [pure_profile(1 / scale, own) for scale, own in zip(laws.scales, slip, strict=True)]


@lru_cache(maxsize=64)
def _search_sigma(
    shares: tuple[Fraction, ...], epsilon: float, delta: float, between: float | None
) -> TreeLaws:
    """Search the least sigma, then the shortest tables. The Laplace scale of the law is ``between``
    times the scale of Laplace noise alone; with None the law has no Laplace part."""
    name = "Gaussian" if between is None else "Laplace-Gaussian"
    rates = [1 / math.sqrt(float(share)) for share in shares]
    scales = [(between or math.inf) / (float(share) * epsilon) for share in shares]
    tail = math.sqrt(2 * math.log(4 * len(shares) / delta))

    def build(sigma: float, tail: float) -> tuple[NoiseTable, ...]:
        made = {}
        for b, r in set(zip(scales, rates, strict=True)):
            bound = math.ceil(sigma * r * tail)
            law = gaussian_table(sigma * r, bound)
            made[b, r] = law if between is None else laplace_gaussian_table(b, sigma * r, bound)
        return tuple(made[pair] for pair in zip(scales, rates, strict=True))

    def cost(sigma: float, tail: float, step: float) -> float:
        epsilons = (epsilon,)
        return composed_profile(build(sigma, tail), epsilons=epsilons, step=step)[0][1]

    coarse, fine = epsilon * COARSE_STEP, epsilon * FINE_STEP
    wide = delta * (0.9 if between is None else SIGMA_PART)  # the rest pays for the ends

    def fits(sigma: float) -> bool:
        return cost(sigma, tail, coarse) <= wide

    guess, apart = continuous_sigma(epsilon, delta), 1.1
    if between is not None:
        guess *= 1 + 0.4 / (between - 1)
    if epsilon < SMALL:  # tables are long: a larger epsilon with the same shape says where to look
        shorter = _search_sigma(shares, SMALL, delta, between)
        guess, apart = min(shorter.scales) / min(rates) * SMALL / epsilon, 1.004
    low, high = guess / apart, guess
    while fits(low):
        low, high, apart = low / apart, low, min(apart * apart, 1.3)
    for _ in range(80):
        if fits(high):
            break
        low, high, apart = high, high * apart, min(apart * apart, 1.3)
    else:
        raise BudgetError(
            f"no bounded {name} noise reaches delta={delta:g} at epsilon={epsilon:g} over "
            f"{len(shares)} levels. Raise delta or epsilon."
        )
    _, sigma = closest_numbers(fits, low, high, ratio=1.004)
    _, tail = closest_numbers(
        lambda tail: cost(sigma, tail, coarse) <= delta,
        0.0,
        tail,
        apart=0.5 / (sigma * max(rates)),
        part=0.004,
    )
    return TreeLaws(
        family="gaussian" if between is None else "laplace-gaussian",
        noises=build(sigma, tail),
        scales=tuple(sigma * r for r in rates),
        grid=1,
        delta=min(cost(sigma, tail, coarse), cost(sigma, tail, fine)),
        between=between,
    )


FEW = 40
"""If one user moves more counts than this, Laplace noise is never smaller than Gaussian noise."""

MOST = 2_000
"""Most counts that one user may move."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLaws:
    """The law of every level; ``moved`` repeats it once for each count that one user moves."""

    moved: TreeLaws
    times: tuple[int, ...]

    @property
    def levels(self) -> TreeLaws:
        """The laws with one table for each level."""
        first = [sum(self.times[:level]) for level in range(len(self.times))]
        return replace(
            self.moved,
            noises=tuple(self.moved.noises[i] for i in first),
            scales=tuple(self.moved.scales[i] for i in first),
        )

    @property
    def delta(self) -> float:
        return self.moved.delta

    @property
    def tables(self) -> list[NoiseTable]:
        """The tables of bounded noise, each as often as one user moves counts with it."""
        return cast("list[NoiseTable]", list(self.moved.noises))

    def profile(self, epsilons: Sequence[float], whole: float) -> Profile:
        """Return points (epsilon, delta) of bounded noise at ``epsilons``, which are below
        ``whole``, the epsilon of the budget."""
        if self.moved.family == "laplace":
            alike = Counter(laplace_parts(self.moved)).items()
            return tuple(profiles_together(alike, epsilons, whole))
        return composed_profile(self.tables, epsilons=epsilons, step=whole * FINE_STEP)


def node_laws(
    *,
    times: Sequence[int],
    weights: Sequence[float],
    epsilon: float,
    delta: float,
    listed: bool,
    family: Literal["laplace", "gaussian"] | None,
) -> NodeLaws:
    """Return the least noise within the budget of a user.

    Parameters
    ----------
    times
        How many counts of every level one user moves at most, level 0 first.
    weights
        How the budget is divided over levels; within a level, evenly over the counts that move.
    delta
        0 asks for noise without bounds.
    listed
        Whether keys are known. If not, families are compared by `worst_error`, which counts what
        is hidden too.
    family
        "laplace", "gaussian", or None for the family with less noise.
    """
    if sum(times) > MOST:
        raise ParameterError(
            f"at_most is too large: a user would count at {sum(times)} nodes, over {MOST}. "
            "Lower at_most, or ask for fewer levels."
        )
    each = tuple(
        Fraction(weight) / number
        for weight, number in zip(weights, times, strict=True)
        for _ in range(number)
    )

    def laws(kind: Literal["laplace", "gaussian"]) -> TreeLaws:
        return tree_laws(
            weights=each, epsilon=epsilon, delta=delta, grid=1, listed=listed, family=kind
        )

    def error(made: TreeLaws) -> float:
        return made.worst_sd if listed else worst_error(made)

    if delta == 0 or family is not None:
        return NodeLaws(moved=laws(family or "laplace"), times=tuple(times))
    found = [laws("gaussian")]
    if len(each) <= FEW:
        with suppress(BudgetError):  # its tables can be too long
            found.append(laws("laplace"))
    return NodeLaws(moved=min(found, key=error), times=tuple(times))
