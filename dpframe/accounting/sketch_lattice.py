"""Misra-Gries sketches after post-processing, and over a finite public universe.

**After post-processing**, alone or summed, every counter of a sketch gets noise of its own.

Subtract from each counter the mean over k + 1, ``g = (sum of counters)/(k + 1)`` (Lebeda and Tetek,
Algorithm 3). On the integers ``V = (k + 1) C - sum of C`` a record moves one value by k and the
other k - 1 by -1, or all k by -1 (their section 6, Lemma 2, in units of 1/(k + 1)). The noise is
drawn on these integers and values are divided by k + 1 and rounded *afterwards*: rounding g first
moves all k counters by one, and noise on whole counts would leave the fraction, the same for all
counters, in plain sight.

*Bound.* As in :mod:`dpframe.accounting.sketch_stream`: the divergence of the move, computed
exactly for the largest move (k, 1, ..., 1), plus the chance that an unshared key passes. Two ways:

variant sketch, noise on all k values before any is dropped
    two unshared keys with values at most k and 0;
``merged``: values <= 0 dropped, any number of sketches added (a record enters one sketch)
    clipping at 0 only shrinks the move, so the sensitivities of one sketch hold. One side
    stores alone at most one key of value <= k, the other up to k keys of value 1; each side is
    given the keys of the other with value 0, which pass less often. All k + 1 keys are charged.

**A finite public universe** needs no delta: every element gets Laplace noise, zeros included. For
post-processed sketches its scale is ``(2k - 1)/epsilon`` in units of ``1/(k + 1)``.

The vector over the universe holds what the sketch stores, and 0 for every other element. Where
sketches are post-processed (alone, or summed) and values below 0 are set to 0, a record moves it
by at most ``2k - 1`` in units of ``1/(k + 1)``, whatever the size of the universe (Lebeda and
Tetek, Lemma 2 of section 6). Without the cut at 0 every element that is *not* stored would move
by 1, and the noise would not cover it. Bounded merges, and sketches of users, move by at most 1 in
at most k elements.

References
----------
C. J. Lebeda, J. Tetek, Better differentially private approximate histograms and heavy hitters using
the Misra-Gries sketch: Algorithm 3 and what follows it, section 6, Lemmas 1 and 2, section 7,
Corollary 2, Lemma 9.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dpframe.accounting.shifts import (
    MARGIN,
    OFTEN_DEVIATIONS,
    BoundedLaw,
    Family,
    Move,
    Size,
    ThresholdLaws,
    Unshared,
    any_reaches,
    better_family,
    bound_for,
    candidate_scales,
    least_within_budget,
    noise_table,
    sketch_budget_error,
    unbounded_delta,
    upper_tails,
)
from dpframe.errors import BudgetError
from dpframe.noise import NoiseTable


@dataclass(frozen=True, slots=True, kw_only=True)
class PureLaws:
    """Discrete Laplace noise of exact ``scale``, in units of ``1/unit`` of a count.

    ``move`` is the largest move of the values by one record or user.
    """

    scale: Fraction
    unit: int
    move: Move

    @property
    def sd(self) -> float:
        """Standard deviation of a released value, in counts, before rounding."""
        p = math.exp(-1 / float(self.scale))
        return math.sqrt(2 * p) / -math.expm1(-1 / float(self.scale)) / self.unit

    def reach(self, mass: float) -> int:
        """Return the least q, in units, with P(Z > q) <= ``mass``."""
        scale = float(self.scale)
        tail = math.log(mass) + math.log1p(math.exp(-1 / scale))  # P(Z > q) = p^(q+1)/(1 + p)
        return max(0, math.ceil(-scale * tail * (1 + 1e-12)) - 1)

    def cost(self, epsilon: float) -> float:
        """Return an upper bound on the divergence at ``epsilon``; 0 from the requested epsilon
        on."""
        return unbounded_delta("laplace", float(self.scale), self.move, epsilon)


def pure_laws(*, counters: int, epsilon: float, post_processed: bool) -> PureLaws:
    """Return the noise for epsilon-DP, its scale rounded up to a float.

    Parameters
    ----------
    counters
        Number k of counters of each sketch.
    post_processed
        True for one stream, or a sum of post-processed sketches; False for a bounded merge, or a
        sketch of users.
    """
    if post_processed:
        scale, unit = pure_scale(counters, epsilon), counters + 1
        return PureLaws(scale=scale, unit=unit, move=lattice_move(counters, 1))
    scale = rounded_up(Fraction(counters) / Fraction(epsilon))
    return PureLaws(scale=scale, unit=1, move=Move(near=counters - 1))


LARGEST_TABLE = 8_000_000
"""Entries beyond which a table would not fit comfortably in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatticeLaws(ThresholdLaws):
    """Noise and threshold for post-processed sketches.

    A key is published iff ``V + Z >= theta``, with the value ``(V + Z) / unit``, rounded.
    """

    family: Family
    theta: int
    merged: bool

    kind = "sums"

    @property
    def game(self) -> dict[str, object]:
        return {"counters": self.unit - 1, "theta": self.theta}

    def covers(self, counters: int) -> bool:
        """Whether the laws are for sums of sketches with k counters."""
        return self.merged and counters < self.unit

    @property
    def least(self) -> int:
        return self.theta

    def cost(self, epsilon: float) -> float:
        return lattice_delta(
            self.noise,
            family=self.family,
            scale=self.scale,
            theta=self.theta,
            counters=self.unit - 1,
            sketches=self.sketches,
            epsilon=epsilon,
            merged=self.merged,
        )


def lattice_unshared(counters: int, *, merged: bool) -> Unshared:
    """Return the values that only one neighbour stores, in units of 1/(k + 1)."""
    return ((counters, 1), (1, counters)) if merged else ((counters, 1), (0, 1))


def lattice_move(counters: int, sketches: int) -> Move:
    return Move(far=counters, near=counters - 1, times=sketches)


def pure_scale(counters: int, epsilon: float, *, sketches: int = 1) -> Fraction:
    """Return the scale of discrete Laplace noise for epsilon-DP over a finite universe.

    The scale is in units of ``1/(counters + 1)`` of a count, for noise on every element of the
    universe and each of ``sketches`` levels: ``sketches (2k - 1)/epsilon``, rounded up to a float.
    """
    return rounded_up(Fraction(sketches * (2 * counters - 1)) / Fraction(epsilon))


def rounded_up(exact: Fraction) -> Fraction:
    """Return the least float that is not below a number."""
    up = float(exact)
    while Fraction(up) < exact:
        up = math.nextafter(up, math.inf)
    return Fraction(up)


def lattice_delta(
    noise: NoiseTable,
    *,
    family: Family,
    scale: float,
    theta: int,
    counters: int,
    sketches: int,
    epsilon: float,
    merged: bool = False,
) -> float:
    """Return an upper bound on delta of releasing ``sketches`` levels.

    ``noise``, ``scale`` and ``theta`` are in units of 1/(k + 1) of a count. ``merged`` stands for
    the sum, on each level, of any number of sketches; a record enters one sketch of a level.
    """
    bounded = BoundedLaw.of(noise, family=family, scale=scale)
    moved = bounded.delta(lattice_move(counters, sketches), epsilon)
    unshared = lattice_unshared(counters, merged=merged)
    passed = float(any_reaches(noise, np.array([theta]), unshared)[0])
    return min(1.0, (moved + sketches * passed) * MARGIN)


@lru_cache(maxsize=256)
def lattice_laws(
    *,
    counters: int,
    sketches: int,
    epsilon: float,
    delta: float,
    family: Family | None = None,
    merged: bool = False,
) -> LatticeLaws:
    """Return the least noise and threshold within the budget; BudgetError if no table reaches it.

    ``delta`` of the result is recomputed from the tables, at most the requested one.

    Parameters
    ----------
    counters
        Number k of counters of each sketch, the same for all sketches that are added.
    sketches
        Number of levels; sketches added to each other count once.
    family
        ``None`` takes the family with the smallest ``visible``.
    merged
        Values <= 0 are dropped before the noise, and sketches may be added. A standard sketch,
        which has dropped its zeros already, needs this too.
    """
    if family is None:
        return better_family(
            lambda each: lattice_laws(
                counters=counters,
                sketches=sketches,
                epsilon=epsilon,
                delta=delta,
                family=each,
                merged=merged,
            )
        )
    chosen = family

    def sizes(scale: float, part: float) -> list[Size]:
        return _lattice_sizes(chosen, scale, counters, sketches, epsilon, part, merged)

    def build(scale: float, bound: int, theta: int) -> LatticeLaws:
        return LatticeLaws(
            family=chosen,
            noise=noise_table(chosen, scale, bound),
            scale=scale,
            theta=theta,
            unit=counters + 1,
            sketches=sketches,
            merged=merged,
            delta=1.0,
        )

    scales = candidate_scales(family, lattice_move(counters, sketches), epsilon, delta)
    laws = least_within_budget(scales, sizes, build, epsilon, delta)
    if laws is None:
        raise sketch_budget_error(epsilon, delta, f"{sketches} sketches of {counters} counters")
    return laws


def _lattice_sizes(
    family: Family,
    scale: float,
    counters: int,
    sketches: int,
    epsilon: float,
    delta: float,
    merged: bool,
) -> list[Size]:
    """Return bounds and thresholds that the rest of delta affords at one scale.

    They follow from the unbounded law: either a long table with a threshold on its tail, or a table
    so short that no unshared key can pass; then delta pays for its end.
    """
    move = lattice_move(counters, sketches)
    moved = unbounded_delta(family, scale, move, epsilon)
    rest = delta - moved
    if rest <= 0:
        return []
    reach = bound_for(family, scale, 1e-4 * rest / sketches) + 2 * counters
    if 2 * reach + 1 > LARGEST_TABLE:
        raise BudgetError(
            f"epsilon ({epsilon:g}) is too small for {sketches} sketches of {counters} counters. "
            "Raise epsilon, or lower the number of counters."
        )
    tails = upper_tails(family, scale, reach)
    padded = np.concatenate([np.full(counters + 1, 1.0), tails])  # x from -(k + 1)
    at = counters + 1 + np.arange(len(tails))
    with np.errstate(divide="ignore"):
        none = sum(
            times * np.log1p(-np.minimum(padded[at - value], 1.0))
            for value, times in lattice_unshared(counters, merged=merged)
        )
    passed = -sketches * np.expm1(none)
    last, beyond = np.maximum(tails[:-1] - tails[1:], 0.0), tails[1:]
    last_far = np.maximum(padded[at - counters + 1][:-1] - beyond, 0.0)
    ended = sketches * (last_far + (counters - 1) * last)  # cost of a table that ends here
    ended += moved * np.expm1(np.minimum(2 * move.coordinates * beyond, 50.0))
    long, short = int(np.argmax(ended <= 0.01 * rest)), int(np.argmax(ended <= rest))
    theta = int(np.argmax(passed <= 0.99 * rest))
    sd = scale * (math.sqrt(2) if family == "laplace" else 1.0)
    options = [(long, theta), (short, short + counters + 1)]
    return [(t + OFTEN_DEVIATIONS * sd, scale, b, t) for b, t in options if b > 0 and t > 0]
