"""The Gaussian sparse histogram mechanism on integers, for counts that all move the same way.

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
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpframe.accounting.candidate_scales import (
    OFTEN_DEVIATIONS,
    Size,
    ThresholdLaws,
    candidate_scales,
    least_within_budget,
    sketch_budget_error,
)
from dpframe.accounting.shifts import (
    MARGIN,
    BoundedLaw,
    Move,
    at_least,
    bound_for,
    noise_table,
    unbounded_delta,
    upper_tails,
)
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
