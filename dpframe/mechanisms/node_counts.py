"""Noisy numbers of different values at public nodes, each node counted on its own.

Neighbours: one record, or one user. Such a unit moves ``touched`` counts by at most 1 each; with
several values of one user, it moves counts by at most ``touched`` in total. Discrete Laplace noise
over all integers (Ghosh, Roughgarden, Sundararajan, 2009) is pure. Where many counts move by 1
each, a bounded discrete Gaussian has less noise, at a delta that is composed exactly from its table
(:mod:`dpframe.accounting.levels`).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpframe.accounting.levels import level_laws
from dpframe.mechanisms.measured_parts import rounded_up
from dpframe.noise import NoiseTable, UnboundedNoise
from dpframe.vectors import Distinct


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


def run(exact: NDArray[np.object_], *, noise: NoiseTable | UnboundedNoise) -> NDArray[np.object_]:
    """Return noisy counts, one a node."""
    noisy: NDArray[np.object_] = exact + noise.draw(len(exact)).astype(object)
    return noisy
