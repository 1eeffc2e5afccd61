"""Scales worth trying for a move, and how laws that publish above a threshold are compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

import numpy as np

from dpframe.accounting.search import least_scale
from dpframe.accounting.shifts import Family, Move, at_least, unbounded_delta
from dpframe.errors import BudgetError
from dpframe.noise import NoiseTable

OFTEN = 0.95
"""Chance of publication of a counter equal to ``visible``, by which laws are compared."""

OFTEN_DEVIATIONS = 1.645
"""Standard normal quantile of ``OFTEN``, for searches only."""

WIDEN = 1 + 1e-6
"""Pure scales are this much wider than the closed form, so a table's rounding costs nothing."""

LEAST_SCALE = {"laplace": 1 / 16, "gaussian": 1 / 4}
"""Smallest scales that are tried. Noise is 0 with a chance above 0.999 there, so narrower noise is
no gain."""

SHARE = 0.95
"""Part of delta that the narrowest noise tried may spend on the move."""

STEP = 1.005
"""Ratio of the scales tried."""

STEPS = 8

ATTEMPTS = (0.999, 0.97, 0.7)
"""Parts of delta to plan with, until the tables made from a plan stay within delta."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdLaws:
    """Noise on the stored counters of ``sketches`` levels, and a threshold for what is published.

    ``noise`` is a table of a law of scale ``scale``, in units of ``1/unit`` of a count. ``delta``
    is the accountant's upper bound at the epsilon of the request, for all levels together.
    """

    noise: NoiseTable
    scale: float
    sketches: int
    delta: float
    unit: int = 1

    kind: ClassVar[str]
    """The kind of the game of a proof."""

    @property
    def game(self) -> dict[str, object]:
        """The numbers of the game of a proof, but for tables and ``sketches``."""
        raise NotImplementedError

    @property
    def least(self) -> int:
        """The smallest noisy value that is published, in units."""
        raise NotImplementedError

    @property
    def error_noise(self) -> NoiseTable | None:
        """The noise in the sketch error; None where it is not released."""
        return None

    @property
    def lift(self) -> int:
        """How far noise can lift a value, in units."""
        return self.noise.highest

    @property
    def sd(self) -> float:
        """Standard deviation of a published value, in counts, before rounding."""
        return self.noise.sd / self.unit

    def cost(self, epsilon: float) -> float:
        """Return an upper bound on delta at ``epsilon``, from the tables that are drawn from."""
        raise NotImplementedError

    def chance(self, value: float) -> float:
        """Return P(a key with this value, in counts, is published)."""
        x = np.array([self.least - math.floor(value * self.unit)])
        return float(at_least(self.noise, x)[0])

    @property
    def visible(self) -> int:
        """Smallest whole value that is published with probability ``OFTEN``."""
        often = int(np.flatnonzero(self.noise.at_least() >= OFTEN)[-1]) + self.noise.lowest
        return math.ceil((self.least - often) / self.unit)


L = TypeVar("L", bound=ThresholdLaws)


def better_family(build: Callable[[Family], L]) -> L:
    """Return the laws with the smaller ``visible``, ties by ``sd``; raise BudgetError if no family
    fits the budget."""
    families: tuple[Family, ...] = ("laplace", "gaussian")
    found, failed = [], BudgetError()
    for family in families:
        try:
            found.append(build(family))
        except BudgetError as error:
            failed = error
    if not found:
        raise failed
    return min(found, key=lambda laws: (laws.visible, laws.sd))


def candidate_scales(family: Family, move: Move, epsilon: float, delta: float) -> Iterator[float]:
    """Yield scales from about the least that keeps the move within delta. For Laplace noise they
    end at the scale that needs no delta."""
    least = LEAST_SCALE[family]
    pure = max(least, WIDEN * move.absolute / epsilon)
    start = pure if family == "laplace" else math.sqrt(2 * move.squared_norm * math.log(2 / delta))
    start = max(least, start / (1 if family == "laplace" else epsilon))
    found = least_scale(
        lambda scale: unbounded_delta(family, scale, move, epsilon), start, SHARE * delta
    )
    for step in range(STEPS):
        scale = max(least, found) * STEP**step
        if family == "laplace" and scale >= pure:
            break
        yield scale
    if family == "laplace":
        yield pure


Size = tuple[float, float, int, int]
"""(merit, scale, bound, least): merit is about ``visible``, in units."""


def least_within_budget(
    scales: Iterable[float],
    sizes: Callable[[float, float], list[Size]],
    build: Callable[[float, int, int], L],
    epsilon: float,
    delta: float,
) -> L | None:
    """Return the laws of least merit whose own tables stay within delta; None if there are none.

    ``sizes`` plans bounds and thresholds at a scale, with a part of delta, from the unbounded law.
    """
    tried = list(scales)
    for part in ATTEMPTS:
        planned = [size for scale in tried for size in sizes(scale, part * delta)]
        for _, scale, bound, least in sorted(planned)[:2]:
            laws = build(scale, bound, least)
            spent = laws.cost(epsilon)
            if spent <= delta:
                return replace(laws, delta=spent)
    return None


def sketch_budget_error(epsilon: float, delta: float, what: str) -> BudgetError:
    return BudgetError(
        f"no 64-bit noise reaches delta={delta:g} at epsilon={epsilon:g} for {what}. "
        "Raise delta, or move epsilon towards 1."
    )
