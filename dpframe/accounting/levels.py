"""Composition of one noisy histogram a level, for the baselines: exact pmfs, pessimistic grid.

Each level adds one bounded law to every count it has; a record moves one count by 1 on each
level. Privacy loss distributions give the h-fold composition; their discretisation rounds every
loss up (:mod:`dpframe.accounting.losses`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from dpframe.accounting.losses import composed_profile
from dpframe.accounting.search import closest_numbers, least_integer
from dpframe.errors import BudgetError
from dpframe.noise import NoiseTable, gaussian_table, laplace_table

LOSS_STEP = 1e-4
"""Grid of the privacy loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelLaws:
    """One law for every count, and the composed delta of all levels."""

    noise: NoiseTable
    scale: float
    delta: float

    @property
    def threshold(self) -> int:
        """Smallest noisy count shown: no empty or single-record node can reach it."""
        return self.noise.highest + 2


def composed_delta(noise: NoiseTable, *, levels: int, epsilon: float) -> float:
    """Return delta at ``epsilon`` of ``levels`` independent counts that all move by one."""
    return level_profile(noise, levels=levels, epsilons=(epsilon,))[0][1]


def level_profile(
    noise: NoiseTable, *, levels: int, epsilons: Sequence[float]
) -> tuple[tuple[float, float], ...]:
    """Return a point (epsilon, delta) for every one of ``epsilons``."""
    return composed_profile((noise,) * levels, epsilons=epsilons, step=LOSS_STEP)


@lru_cache(maxsize=64)
def level_laws(
    family: Literal["laplace", "gaussian"], *, levels: int, epsilon: float, delta: float
) -> LevelLaws:
    """Return the least noise of the family that composes over ``levels`` within the budget."""

    def build(scale: float) -> NoiseTable:
        tail = math.log(4 * levels / delta)
        if family == "laplace":
            return laplace_table(scale, math.ceil(scale * tail))
        return gaussian_table(scale, math.ceil(scale * math.sqrt(2 * tail)))

    def cost(scale: float) -> float:
        return composed_delta(build(scale), levels=levels, epsilon=epsilon)

    high = 1.01 * levels / epsilon
    if family == "gaussian":
        high = math.sqrt(2 * levels * math.log(2 / delta)) / epsilon
    for _ in range(60):
        if cost(high) <= delta:
            break
        high *= 1.1
    else:
        raise BudgetError(
            f"no bounded {family} noise reaches delta={delta:g} at epsilon={epsilon:g} over "
            f"{levels} levels. Raise delta, or use mechanism='offline'."
        )
    _, scale = closest_numbers(lambda b: cost(b) <= delta, high / 8, high, ratio=1.01)
    law = laplace_table if family == "laplace" else gaussian_table

    def spent(bound: int) -> float:
        return composed_delta(law(scale, bound), levels=levels, epsilon=epsilon)

    bound = least_integer(lambda b: spent(b) <= delta, 1, build(scale).highest)
    return LevelLaws(noise=law(scale, bound), scale=scale, delta=spent(bound))
