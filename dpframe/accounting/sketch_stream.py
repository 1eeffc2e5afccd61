"""Misra-Gries sketches of one stream, of users, and the Gaussian sparse histogram.

**One stream** has a sketch a level. Released are alpha_hat and the counters above it.

A sketch has k counters C, keys that cannot be published among them, and the number alpha of its
decrements. Neighbours differ by one record. Their keys can be matched, shared keys with
themselves, so that the vector (U, alpha), U = C + alpha, moves by exactly 1 in exactly one
coordinate (Lebeda and Tetek, Lemma 2, restated). The release adds Z to every U and one eta to
alpha, publishes ``alpha_hat = alpha + eta`` and, for keys with ``U + Z >= alpha_hat + theta``, the
value ``U + Z``. It has the privacy of their Algorithm 2 at half the variance of the counters.

*Bound.* Let E be a set of outputs, S the first sketch, S' the second. Consider the release that
publishes, for matched pairs of unshared keys, only whether one of them passed. It is computed from
noise on (U, alpha), so it costs at most D_h, the divergence of a move by 1 on each of h levels.
With S, an output without unshared keys is as likely in the real release as it is here with no
unshared key passed. With S', it is at least as likely in the real release. Hence the chance that an
unshared key passes is added for S alone, without a factor e^epsilon:

    P_S(E) <= e^epsilon P_S'(E) + D_h(epsilon) + sum over levels P_S(an unshared key passes)

At most two keys are unshared, with counters at most (1, 0). In the standard sketch, where zeros are
removed at once, up to k keys with counter 1 are stored on one side only; the other side is given
the same keys with counter 0, which pass less often (their section 5.1, with the exact maximum).

**The Gaussian sparse histogram** works on integers, for counts that all move the same way.

Bounded-memory merges of Misra-Gries sketches, and sketches of users' sets (Lebeda and Tetek,
Corollaries 2 and 10): neighbours differ by 1 in at most L counts, all in one direction, and zeros
are not stored. Every stored count gets discrete Gaussian noise; values of at least 1 + t are
published.

*Condition* (Wilkins, Kifer, Zhang, Karrer 2024, as in Lebeda and Tetek, Theorem 5, with discrete
noise throughout). Let
``Psi = P(Z <= t - 1)``, the chance that a count of 1 stays hidden, and D_j the divergence of j
counts that move by 1. If j of the L counts are stored on both sides, L - j on one side only and
``lone = Psi^(L - j)``, the largest of

    1 - Psi^L,   1 - lone + lone D_j(epsilon - ln lone),   D_j(epsilon + ln lone),   j = 1 .. L

is attained by some pair of sketches: it is the exact delta of the law. The formula with the normal
cdf is up to twice too small.

*Several sketches*, one a level, may move in different directions: a counts only on one side, a'
only on the other, j on both, ``a + a' + j`` = h L:

    1 - Psi^a + Psi^a D_j(epsilon - (a - a') ln Psi)

is at most 1 - Psi^b + D_j(epsilon + b ln Psi) with b = h L - j, the most that a and a' can be. That
costs a factor of 1 + O(delta).

A table that ends below t hides a count of 1 with certainty. What its end costs is then part of D_j.
Such a table can have a smaller threshold than a long one.

References
----------
C. J. Lebeda, J. Tetek, Better differentially private approximate histograms and heavy hitters using
the Misra-Gries sketch: Algorithms 1 and 2, Lemmas 2 to 6, sections 5.1 and 5.2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from dpframe.accounting.losses import least_integer
from dpframe.accounting.shifts import (
    MARGIN,
    OFTEN,
    OFTEN_DEVIATIONS,
    BoundedLaw,
    Family,
    Move,
    Size,
    ThresholdLaws,
    Unshared,
    any_reaches,
    at_least,
    better_family,
    bound_for,
    candidate_scales,
    least_within_budget,
    noise_table,
    sketch_budget_error,
    unbounded_delta,
    upper_tails,
)
from dpframe.budget import Budget, per_record
from dpframe.errors import BudgetError
from dpframe.noise import NoiseTable


@dataclass(frozen=True, slots=True, kw_only=True)
class GshmLaws(ThresholdLaws):
    """Noise on stored counts; noisy counts of at least ``1 + t`` are published.

    ``changed`` counts may differ on each of ``sketches`` levels.
    """

    t: int
    changed: int

    kind = "merged"

    @property
    def game(self) -> dict[str, object]:
        return {"changed": self.changed, "least": self.least}

    def covers(self, counters: int) -> bool:
        """Whether the laws are for k counters that move by 1."""
        return counters <= self.changed

    @property
    def least(self) -> int:
        return 1 + self.t

    def cost(self, epsilon: float) -> float:
        return gshm_delta(
            self.noise,
            scale=self.scale,
            t=self.t,
            changed=self.changed,
            sketches=self.sketches,
            epsilon=epsilon,
        )


def gshm_delta(
    noise: NoiseTable, *, scale: float, t: int, changed: int, sketches: int = 1, epsilon: float
) -> float:
    """Return an upper bound on delta; for one sketch of up to 200 counts only rounding is added.

    Parameters
    ----------
    noise, scale
        The table, and the parameter of the discrete Gaussian that it cuts and rounds.
    t
        Noisy counts of at least ``1 + t`` are published.
    changed
        Counts L that may differ, by 1, on each level.
    """
    bounded = BoundedLaw.of(noise, family="gaussian", scale=scale)
    total = changed * sketches
    with np.errstate(divide="ignore"):
        hidden = float(np.log1p(-at_least(noise, np.array([t]))[0]))  # ln Psi
    if not math.isfinite(hidden):
        return 1.0
    worst = max(-math.expm1(total * hidden), -math.expm1(epsilon + total * hidden))
    for first, last in _count_blocks(total):
        most, least = (total - first) * hidden, (total - last) * hidden  # ln lone
        published = -math.expm1(most)
        silent = bounded.delta(Move(near=last - 1), epsilon + most)
        if sketches > 1:
            worst = max(worst, published + silent)
            continue
        rest = math.exp(least) * bounded.delta(Move(near=last - 1), epsilon - least)
        worst = max(worst, published + rest, silent)
    return min(1.0, worst * MARGIN)


def _count_blocks(total: int) -> Iterator[tuple[int, int]]:
    """Yield blocks (first, last) of j, from ``total`` down to 1: of a single j near ``total``, and
    everywhere up to a ``total`` of 200. D_j and Psi^j are monotone in j."""
    last = total
    while last >= 1:
        size = max(1, (total - last) // 32) if total > 200 else 1
        first = max(1, last - size + 1)
        yield first, last
        last = first - 1


@lru_cache(maxsize=256)
def gshm_laws(*, changed: int, sketches: int = 1, epsilon: float, delta: float) -> GshmLaws:
    """Return the least noise and threshold within the budget; BudgetError if no table reaches it.

    ``delta`` of the result is recomputed from the tables, at most the requested one.

    Parameters
    ----------
    changed
        Counts that may differ on each level: the number of counters k.
    sketches
        Levels that one record or user enters.
    """
    move = Move(near=changed * sketches - 1)

    def build(scale: float, bound: int, t: int) -> GshmLaws:
        return GshmLaws(
            noise=noise_table("gaussian", scale, bound),
            scale=scale,
            t=t,
            changed=changed,
            sketches=sketches,
            delta=1.0,
        )

    laws = least_within_budget(
        candidate_scales("gaussian", move, epsilon, delta),
        lambda scale, part: _sparse_sizes(scale, move, epsilon, part),
        build,
        epsilon,
        delta,
    )
    if laws is None:
        raise sketch_budget_error(epsilon, delta, f"{sketches} sketches of {changed} counters")
    return laws


def _sparse_sizes(scale: float, move: Move, epsilon: float, delta: float) -> list[Size]:
    """Return bounds and thresholds within delta at one scale, from the unbounded law.

    They are either a long table with t on its tail, or a table that ends below t; then delta pays
    for its end.
    """
    moved = unbounded_delta("gaussian", scale, move, epsilon)
    rest = delta - moved
    if rest <= 0:
        return []
    total = move.coordinates
    tails = upper_tails("gaussian", scale, bound_for("gaussian", scale, 1e-4 * rest / total))
    last, beyond = np.maximum(tails[:-1] - tails[1:], 0.0), tails[1:]
    ended = total * last + moved * np.expm1(np.minimum(2 * total * beyond, 50.0))
    long, short = int(np.argmax(ended <= 0.02 * rest)), int(np.argmax(ended <= rest))
    behind = int(np.argmax(total * tails <= 0.99 * delta))
    options = [(long, behind), (short, short + 1)]
    return [(t + OFTEN_DEVIATIONS * scale, scale, b, t) for b, t in options if b > 0 and t > 0]


CUTS = (1e-3, 0.3)
"""Mass beyond the bounds tried, in parts of delta / sketches. Short tables cost more delta and have
no tails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SketchLaws(ThresholdLaws):
    """Noise and threshold for h sketches of one stream each.

    ``noise`` is the law of Z, ``shared`` the law of eta. ``unshared`` are the counters that only
    one neighbour stores.
    """

    family: Family
    shared: NoiseTable
    theta: int
    unshared: Unshared

    kind = "sketches"

    @property
    def game(self) -> dict[str, object]:
        """``standard`` is the number of counters of a sketch that removes zeros at once."""
        standard = self.unshared[0][1] if len(self.unshared) == 1 else None
        return {"standard": standard, "theta": self.theta}

    @property
    def error_noise(self) -> NoiseTable:
        return self.shared

    @property
    def least(self) -> int:
        """The smallest ``U + Z - alpha_hat`` that is published."""
        return self.theta

    @property
    def lift(self) -> int:
        return self.noise.highest + self.shared.highest

    @property
    def sd(self) -> float:
        """Standard deviation of ``U - alpha_hat``, the estimate of a counter."""
        return math.hypot(self.noise.sd, self.shared.sd)

    def chance(self, value: float) -> float:
        counter = math.floor(value)
        return unshared_passing_chance(self.noise, self.shared, self.theta, ((counter, 1),))

    def cost(self, epsilon: float) -> float:
        return sketch_delta(
            self.noise,
            family=self.family,
            scale=self.scale,
            theta=self.theta,
            sketches=self.sketches,
            epsilon=epsilon,
            unshared=self.unshared,
        )

    @property
    def visible(self) -> int:
        highest = self.theta + self.noise.highest + self.shared.highest
        return least_integer(lambda counter: self.chance(counter) >= OFTEN, 0, highest)


def variant_unshared() -> Unshared:
    return ((1, 1), (0, 1))


def standard_unshared(counters: int) -> Unshared:
    return ((1, counters),)


def unshared_passing_chance(
    noise: NoiseTable, shared: NoiseTable, theta: int, unshared: Unshared
) -> float:
    """Return P(value + Z >= theta + eta for one of the unshared counters), one eta for all."""
    eta = np.arange(shared.lowest, shared.highest + 1)
    return float(shared.pmf @ any_reaches(noise, theta + eta, unshared))


def sketch_delta(
    noise: NoiseTable,
    *,
    family: Family,
    scale: float,
    theta: int,
    sketches: int,
    epsilon: float,
    unshared: Unshared | None = None,
) -> float:
    """Return an upper bound on delta of releasing ``sketches`` levels, Z and eta of the same law.

    Parameters
    ----------
    noise, family, scale
        The table, and the law that it cuts and rounds.
    theta
        Threshold on ``U + Z - alpha_hat``.
    unshared
        Counters stored by one neighbour only; by default the counters of the variant sketch.
    """
    bounded = BoundedLaw.of(noise, family=family, scale=scale)
    moved = bounded.delta(Move(times=sketches), epsilon)
    passed = unshared_passing_chance(noise, noise, theta, unshared or variant_unshared())
    return min(1.0, (moved + sketches * passed) * MARGIN)


@lru_cache(maxsize=256)
def sketch_laws(
    *,
    sketches: int,
    epsilon: float,
    delta: float,
    family: Family | None = None,
    standard: bool = False,
    counters: int | None = None,
) -> SketchLaws:
    """Return the least noise and threshold within the budget; BudgetError if no table reaches it.

    ``delta`` of the result is recomputed from the tables, at most the requested one.

    Parameters
    ----------
    sketches
        Number of sketches that one record enters, one a level.
    family
        ``None`` takes the family with the smallest ``visible``.
    standard, counters
        Whether the sketch removes zeros at once, and its number of counters k, which only such a
        standard sketch needs.
    """
    if standard and counters is None:
        raise ValueError("counters is missing: standard sketches need their number of counters.")
    if family is None:
        return better_family(
            lambda each: sketch_laws(
                sketches=sketches,
                epsilon=epsilon,
                delta=delta,
                family=each,
                standard=standard,
                counters=counters,
            )
        )
    unshared = standard_unshared(counters) if standard and counters else variant_unshared()
    best: SketchLaws | None = None
    for scale in candidate_scales(family, Move(times=sketches), epsilon, delta):
        for cut in CUTS:
            noise = noise_table(family, scale, bound_for(family, scale, cut * delta / sketches))
            found = _least_theta(noise, family, scale, sketches, epsilon, delta, unshared)
            if found and (best is None or _merit(found) < _merit(best)):
                best = found
    if best is None:
        raise sketch_budget_error(epsilon, delta, f"{sketches} sketches")
    return _trim_table(best, epsilon, delta)


def _merit(laws: SketchLaws) -> float:
    """Return about ``visible``, not rounded to a whole number."""
    return laws.theta + OFTEN_DEVIATIONS * laws.sd


def _least_theta(
    noise: NoiseTable,
    family: Family,
    scale: float,
    sketches: int,
    epsilon: float,
    delta: float,
    unshared: Unshared,
) -> SketchLaws | None:
    """Return laws with the least threshold that the rest of delta affords; None if the move takes
    all of delta or no threshold suffices."""
    moved = BoundedLaw.of(noise, family=family, scale=scale).delta(Move(times=sketches), epsilon)
    if moved >= delta:
        return None

    def cost(theta: int) -> float:
        return (moved + sketches * unshared_passing_chance(noise, noise, theta, unshared)) * MARGIN

    beyond = 2 * noise.highest + 2  # the reach of both draws
    if cost(beyond) > delta:
        return None
    least = least_integer(lambda theta: cost(theta) <= delta, 0, beyond)
    return SketchLaws(
        family=family,
        noise=noise,
        shared=noise,
        scale=scale,
        theta=least,
        sketches=sketches,
        unshared=unshared,
        delta=cost(least),
    )


def _trim_table(laws: SketchLaws, epsilon: float, delta: float) -> SketchLaws:
    """Return laws of the same scale and threshold with the shortest table within delta."""

    def cut(bound: int) -> SketchLaws:
        noise = noise_table(laws.family, laws.scale, bound)
        return replace(laws, noise=noise, shared=noise)

    bound = least_integer(lambda b: cut(b).cost(epsilon) <= delta, 1, laws.noise.highest)
    spent = cut(bound).cost(epsilon)
    return laws if spent > delta else replace(cut(bound), delta=spent)


@lru_cache(maxsize=256)
def better_user_laws(
    *,
    counters: int,
    sketches: int,
    max_contributions: int,
    epsilon: float,
    delta: float,
) -> SketchLaws | GshmLaws:
    """Return the laws of the sketch that shows smaller counters for the same budget of a user.

    Parameters
    ----------
    counters
        Number k of counters of each sketch.
    sketches
        Number of levels; a user enters each.
    max_contributions
        Most distinct items of a user on each level.

    Returns
    -------
    GshmLaws
        For the sketch that decrements at most once a user (Lebeda and Tetek, Algorithm 4). A user
        moves at most k counters of a level by 1, in one direction, and noise is Gaussian.
    SketchLaws
        For the sketch that counts one record at a time. ``delta`` is for one record; the budget is
        for a group of ``max_contributions`` records.
    """
    aware = gshm_laws(changed=counters, sketches=sketches, epsilon=epsilon, delta=delta)
    if max_contributions * math.sqrt(sketches) > epsilon * aware.visible:
        return aware  # noise for the group alone would be wider
    record = per_record(Budget(epsilon=epsilon, delta=delta), max_contributions)
    try:
        plain = sketch_laws(sketches=sketches, epsilon=record.epsilon, delta=record.delta)
    except BudgetError:
        return aware
    return plain if (plain.visible, plain.sd) <= (aware.visible, aware.sd) else aware
