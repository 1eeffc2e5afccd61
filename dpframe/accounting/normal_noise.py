"""Gaussian noise for tests and releases along paths: one curve, however much moves and where.

A Gaussian *rounded* to the nearest whole number is a function of continuous Gaussian noise:
count + round(Z) = round(count + Z). So the claims are the claims for continuous noise.

One unit of privacy moves residuals by s_1, s_2, ..., in answers that follow each other; which node
comes next, and by how much it moves, may depend on all earlier answers. On each of h levels the
moves of the tested nodes add up to at most K, and so do the moves of all released nodes: whatever
moves is released once. A sum of squares is at most K times the sum of the moves, therefore

    (s_1 / sigma_1)^2 + (s_2 / sigma_2)^2 + ...  <=  K^2 (h / test^2 + 1 / release^2)  =  mu^2,

with certainty. Gaussian noise that is chosen adaptively within such a bound is no worse than one
count that moves by mu in units of its noise (Smith, Thakurta, "Fully Adaptive Composition for
Gaussian Differential Privacy", 2022; Koskela, Tobaben, Honkela, "Individual Privacy Accounting with
Gaussian Differential Privacy", 2023): D(t) = Phi(mu/2 - ln t/mu) - t Phi(-mu/2 - ln t/mu), in both
directions (Balle and Wang 2018, Theorem 8). Whole users, or groups of records, whose moves add up
to K need no group privacy: K is in mu.

Tables have ends. An answer that only one of two neighbours can give lies within s of an end, where
s is the move of its node. However K is divided among the nodes of a level, such answers together
have a mass of at most `edge`: K times the largest ratio of the mass within s of an end to s, over
all s up to K. Where both neighbours can give an answer, cutting divides both chances by the same
mass of the table. The remaining errors of 64-bit weights and of floats are added for each answer
that one unit of privacy can move, at most (h + 1) K answers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from dpframe.accounting.path_laws import Laws
from dpframe.accounting.search import (
    closest_numbers,
    least_integer,
    normal_delta,
    path_budget_error,
)
from dpframe.noise import NoiseTable, normal_density, rounded_normal

ETA = 1e-11
"""Relative error of a rounded Gaussian's density in floats, at most (tests/privacy)."""

CURVE_PART, RELEASE_END = 0.5, 0.05
"""Parts of delta: the first decides the spread, the second pays for the ends of the release noise;
the rest pays for the ends of the test noise, which thresholds follow."""

FARTHEST = 12.0
"""Largest bound of a table, in sigmas."""

WIDER = (1.001, 1.01, 1.05)
"""Factors on the scales that the curve of an exact Gaussian allows. A wider law leaves a part of
delta to the rounding of tables; the first factor with which all costs are within delta is taken."""

LARGEST_TABLE = 8_000_000
"""Most entries of a table, as the mean of the tables for tests and for releases."""


def spread_of(laws: Laws, *, height: int, moves: int) -> float:
    """Return mu: what all answers tell about one unit of privacy that moves ``moves`` records."""
    return moves * math.sqrt(height / laws.left**2 + 1 / laws.release_scale**2)


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianLeakage:
    """What Gaussian releases tell about one unit of privacy; over several releases, all fields add
    up.

    ``squares`` is mu^2. ``ends`` is the mass of answers that a neighbour cannot give. ``rounding``
    is how far the tables that are moved are from the laws that they round, in total variation.
    ``factor`` is by how much, at most, cutting raises the logarithm of a chance. ``shift`` is how
    far a loss is off in floats.
    """

    squares: float
    ends: float
    rounding: float
    factor: float
    shift: float

    def delta(self, epsilon: float) -> float:
        """Return an upper bound on delta at ``epsilon`` >= 0."""
        curve = normal_delta(math.sqrt(self.squares) * (1 + 1e-12), epsilon - self.shift)
        delta = self.ends + math.exp(self.factor) * curve + self.rounding * (1 + math.exp(epsilon))
        return min(1.0, delta * (1 + 1e-9) + 1e-16)


def gaussian_leakage(laws: Laws, *, height: int, moves: int) -> GaussianLeakage:
    """Return upper bounds on what one release tells, from the tables that are drawn from."""
    reach = laws.grid * moves
    ends = rounding = factor = 0.0
    for noise, sigma, nodes in (
        (laws.test, laws.left * laws.grid, height * reach),
        (laws.release, laws.release_scale * laws.grid, reach),
    ):
        ends += nodes / reach * edge(noise, reach)
        rounding += nodes * table_distance(noise, sigma)
        beyond = math.erfc((noise.highest + 0.5) / sigma / math.sqrt(2))
        factor += nodes * (beyond * (1 + 1e-9) / (1 - beyond) + ETA)
    return GaussianLeakage(
        squares=spread_of(laws, height=height, moves=moves) ** 2,
        ends=ends,
        rounding=rounding,
        factor=factor,
        shift=2 * (height + 1) * reach * ETA,
    )


def normal_cost(laws: Laws, *, height: int, moves: int, epsilon: float) -> float:
    """Return an upper bound on delta at ``epsilon`` >= 0, from the tables that are drawn from."""
    return gaussian_leakage(laws, height=height, moves=moves).delta(epsilon)


def edge(noise: NoiseTable, reach: int) -> float:
    """Return the mass of answers a neighbour cannot give, if nodes move by ``reach`` together."""
    end = min(reach, len(noise.weights))
    tail = np.cumsum(noise.weights[::-1][:end].astype(np.float64)) / 2.0**64
    return float((tail / np.arange(1, end + 1)).max()) * reach


@lru_cache(maxsize=64)
def table_distance(noise: NoiseTable, sigma: float) -> float:
    """Return an upper bound on the total variation of the table from the cut law that it rounds."""
    density = normal_density(sigma, noise.highest)
    return float(np.abs(noise.pmf - density / density.sum()).sum()) + 4e-16


@lru_cache(maxsize=128)
def normal_laws(
    *, height: int, epsilon: float, delta: float, release_share: float, grid: int, moves: int
) -> Laws:
    """Return the least Gaussian noise within the budget; ``release_share`` is the part of mu^2 that
    the released counts get, and ``moves`` records move at once.

    Raises BudgetError where tables would be too long, or 64 bits too coarse.
    """
    mu = largest_mu(epsilon, CURVE_PART * delta * (1 - 1e-6))
    test = moves * math.sqrt(height / (1 - release_share)) / mu
    release = moves / math.sqrt(release_share) / mu
    if 2 * grid * FARTHEST * (test + release) > 2 * LARGEST_TABLE:
        raise path_budget_error(epsilon, delta, height)
    reach = grid * moves
    end = (1 - CURVE_PART - RELEASE_END) * delta / height
    for wider in WIDER:
        scales = test * wider, release * wider
        laws = Laws(
            shape="normal",
            test=_shortest_table(scales[0] * grid, reach, end / wider**5),
            release=_shortest_table(scales[1] * grid, reach, RELEASE_END * delta / wider**5),
            grid=grid,
            left=scales[0],
            right=scales[0],
            release_scale=scales[1],
            delta=1.0,
        )
        spent = normal_cost(laws, height=height, moves=moves, epsilon=epsilon)
        if spent <= delta:
            return replace(laws, delta=spent)
    raise path_budget_error(epsilon, delta, height)


def largest_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu whose delta at ``epsilon`` is within ``delta``, rounded down."""
    low, high = 0.0, 1.0
    while normal_delta(high, epsilon) <= delta:
        low, high = high, 2 * high
    return closest_numbers(lambda mu: normal_delta(mu, epsilon) > delta, low, high, part=1e-9)[0]


def _shortest_table(sigma: float, reach: int, end: float) -> NoiseTable:
    """Return the shortest table whose ends cost at most ``end``."""
    longest = math.ceil(FARTHEST * sigma) + reach
    whole = rounded_normal(sigma, longest)
    tail = np.concatenate([[0.0], np.cumsum(whole.weights[::-1].astype(np.float64)) / 2.0**64])

    def ends(bound: int) -> float:
        """Return nearly the ends of a table that is cut at ``bound``, from the long table."""
        past = whole.highest - bound
        moved = np.arange(1, reach + 1)
        at = np.minimum(past + moved, len(tail) - 1)
        return float(((tail[at] - tail[past]) / moved).max()) * reach

    return rounded_normal(sigma, least_integer(lambda bound: ends(bound) <= end, 0, longest))
