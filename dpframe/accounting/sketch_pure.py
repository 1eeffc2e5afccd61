"""Sketches over a finite public universe, with delta = 0: Laplace noise on every element.

The vector over the universe holds what the sketch stores, and 0 for every other element. Where
sketches are post-processed (alone, or summed) and values below 0 are set to 0, a record moves it
by at most ``2k - 1`` in units of ``1/(k + 1)``, whatever the size of the universe (Lebeda and
Tetek, Lemma 2 of section 6). Without the cut at 0 every element that is *not* stored would move
by 1, and the noise would not cover it. Bounded merges, and sketches of users, move by at most 1 in
at most k elements.

References
----------
C. J. Lebeda, J. Tetek, Better differentially private approximate histograms and heavy hitters using
the Misra-Gries sketch: Algorithm 3 and what follows it, Corollary 2 of section 7, Lemma 9.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from dpframe.accounting.shifts import Move, unbounded_delta
from dpframe.accounting.sketch_lattice import lattice_move, pure_scale, rounded_up


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
