"""Misra-Gries sketches of one stream, a sketch a level: alpha_hat and the counters above it.

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

References
----------
C. J. Lebeda, J. Tetek, Better differentially private approximate histograms and heavy hitters using
the Misra-Gries sketch: Algorithms 1 and 2, Lemmas 2 to 6, sections 5.1 and 5.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from dpframe.accounting.candidate_scales import (
    OFTEN,
    OFTEN_DEVIATIONS,
    ThresholdLaws,
    better_family,
    candidate_scales,
    sketch_budget_error,
)
from dpframe.accounting.search import least_integer
from dpframe.accounting.shifts import (
    MARGIN,
    BoundedLaw,
    Family,
    Move,
    Unshared,
    any_reaches,
    bound_for,
    noise_table,
)
from dpframe.noise import NoiseTable

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
