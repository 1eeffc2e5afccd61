"""What noise costs when a vector moves by a known vector, and scales worth trying.

The loss of a move D is a function of one whole number. For discrete Gaussian noise of parameter s
on every coordinate it is ``(|D|^2 + 2 T) / (2 s^2)`` with ``T = D . Z``; for discrete Laplace noise
of scale b it is a sum of independent multiples of ``1/b``. So the hockey-stick divergence is one
sum over the law of that number, however many coordinates there are. No normal cdf is needed: it
would be too small, because the numbers are integers.

*T is again a discrete Gaussian*, of parameter ``s |D|``, up to a factor: ``P(T = t)`` is
``exp(-t^2 / (2 s^2 |D|^2))`` times the Gaussian mass of a coset of the lattice
``L = {z : D . z = 0}``. By Poisson summation two cosets differ by at most (1 + w)/(1 - w), where w
is the mass of the dual of L without 0 (Micciancio and Regev 2007, Lemma 4.4). As D has an entry
+-1, that dual is the projection of the vectors of Z^N that are 0 at this entry, which keep at least
1/|D|^2 of their squared length (Cauchy-Schwarz). So ``w <= theta^(N-1) - 1``, theta the sum over m
of ``exp(-2 pi^2 m^2 s^2 / |D|^2)``; at epsilon = 1 this bound on w is below 1e-100.

*Smaller moves cost less.* For a log-concave law the divergence from its shift by j grows with j at
every epsilon (the best event is a half line), and such an order survives products (Zhu, Dong,
Wang 2022, Theorem 10). So it is enough to know the largest move, coordinate by coordinate.

*Tables* cut the law at a bound and round it to multiples of 2**-64. This costs outputs that only
one side can reach, and the distance between table and law; both costs are added.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, Literal, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpframe.accounting.losses import least_scale
from dpframe.errors import BudgetError
from dpframe.noise import TOTAL, NoiseTable, gaussian_table, laplace_table

Family = Literal["laplace", "gaussian"]

MARGIN = 1 + 1e-9
"""Factor for upper bounds; above the relative rounding of any sum in ``dpframe.accounting``."""

FLOAT_RATIO = 5e-14
"""Bound on the relative rounding of a probability of the law in double precision."""

FLOAT_DISTANCE = 5e-16
"""Bound on the rounding of a total variation in double precision."""

BLOCKS = 1_500
"""Blocks of consecutive integers in the sum over T; more only tighten the bound."""

LONGEST_LOSS = 4_096
"""Points of a composed loss of Laplace noise; coarser grids round the loss up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A move by ``(far, 1, ..., 1)`` with ``near`` ones, up to signs and order, ``times`` times
    over.

    One entry must be 1: ``far`` = 1 or ``near`` > 0.
    """

    far: int = 1
    near: int = 0
    times: int = 1

    def __post_init__(self) -> None:
        if self.far > 1 and not self.near:
            raise ValueError("near must be above 0: a move needs an entry of 1.")

    @property
    def squared_norm(self) -> int:
        return self.times * (self.far * self.far + self.near)

    @property
    def absolute(self) -> int:
        return self.times * (self.far + self.near)

    @property
    def coordinates(self) -> int:
        return self.times * (1 + self.near)


@lru_cache(maxsize=4096)
def unbounded_delta(family: Family, scale: float, move: Move, epsilon: float) -> float:
    """Return an upper bound on the divergence of the unbounded law from its shift by a move."""
    delta = (_laplace_divergence if family == "laplace" else _gaussian_divergence)(
        scale, move, epsilon
    )
    return min(1.0, delta * MARGIN)


def _gaussian_divergence(scale: float, move: Move, epsilon: float) -> float:
    """Bound E[(1 - e^(epsilon - loss))+] = sum, t > start, of P(T = t) (1 - e^((start - t)/s^2)).

    Within a block of consecutive t the Gaussian is bounded by the geometric sequence that touches
    it at the block's first point; blocks of one point are exact.
    """
    squared, variance = float(move.squared_norm), scale * scale
    spread = scale * math.sqrt(squared)
    coset = _coset_factor(variance / squared, move.coordinates)
    if not math.isfinite(coset):
        return 1.0
    start = variance * epsilon - squared / 2
    first = math.floor(max(start, -40 * spread)) + 1
    last = math.ceil(math.sqrt(max(start, 0.0) ** 2 + 150 * spread * spread))
    size = max(1, (last - first) // BLOCKS)
    t = first + size * np.arange(math.ceil((last - first) / size) + 1, dtype=np.float64)
    density = np.exp(-t * t / (2 * spread * spread))
    kept = _geometric_sum(t / (spread * spread), size)
    lost = np.exp((start - t) / variance) * _geometric_sum(
        t / (spread * spread) + 1 / variance, size
    )
    beyond = float(density[-1]) * (1 + 1.26 * spread) + math.exp(-700)
    return coset * (float(density @ (kept - lost)) + beyond) / _gaussian_sum(spread)


def _coset_factor(variance: float, coordinates: int) -> float:
    """(1 + w)/(1 - w) of the module's docstring, for s^2/|D|^2 = ``variance``; inf if unknown."""
    if coordinates == 1:
        return 1.0
    decay = 2 * math.pi**2 * variance
    theta = 2 * math.exp(-decay) / -math.expm1(-3 * decay)  # without its 1; m^2 >= 3 m - 2
    exponent = (coordinates - 1) * math.log1p(theta)
    if exponent > 0.6:
        return math.inf
    w = math.expm1(exponent)
    return (1 + w) / (1 - w)


def _geometric_sum(x: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """1 + e^-x + ... + e^-((n-1) x)."""
    if n == 1:
        return np.ones_like(x)
    with np.errstate(divide="ignore", invalid="ignore"):
        total: NDArray[np.float64] = np.where(x == 0, n, np.expm1(-x * n) / np.expm1(-x))
    return total


def _gaussian_sum(spread: float) -> float:
    """Return a lower bound on the sum of exp(-t^2/(2 spread^2)) over all integers t."""
    least = spread * math.sqrt(2 * math.pi)  # Poisson summation: all its terms are positive
    if spread > 3:
        return least
    return max(least, math.fsum(math.exp(-t * t / (2 * spread * spread)) for t in range(-60, 61)))


def _laplace_divergence(scale: float, move: Move, epsilon: float) -> float:
    """Return E[(1 - e^(epsilon - loss))+] for discrete Laplace noise.

    The loss is (far - 2j)/b plus ``near`` signs over b.
    """
    if move.absolute / scale <= epsilon:
        return 0.0  # pure
    q = math.exp(-1 / scale)
    far = np.exp(-np.arange(move.far + 1) / scale) / (1 + q)
    far[1:-1] *= 1 - q
    near = _binomial(move.near, q / (1 + q))
    size = max(1, math.ceil((len(far) + len(near)) * move.times / LONGEST_LOSS))
    far, near = (np.add.reduceat(pmf, np.arange(0, len(pmf), size)) for pmf in (far, near))
    total = _convolution_power(np.convolve(far, near), move.times)  # each group at its largest loss
    loss = (move.absolute - 2 * size * np.arange(len(total))) / scale
    return float(total @ np.maximum(-np.expm1(epsilon - loss), 0.0))


def _binomial(n: int, p: float) -> NDArray[np.float64]:
    """Return the binomial law, by ratios from the mode on: rounding is far below ``MARGIN``."""
    j = np.arange(n)
    steps = np.log((n - j) * p / ((j + 1) * (1 - p)))  # ln of P(j + 1)/P(j), falling
    mode = int(np.count_nonzero(steps > 0))
    left = -np.cumsum(steps[:mode][::-1])[::-1]
    terms = np.exp(np.concatenate([left, [0.0], np.cumsum(steps[mode:])]))
    return np.asarray(terms / terms.sum())


def _convolution_power(pmf: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """Return the n-fold convolution of a law of non-negative terms: no cancellation."""
    out = np.array([1.0])
    while n:
        if n & 1:
            out = np.convolve(out, pmf)
        n >>= 1
        if n:
            pmf = np.convolve(pmf, pmf)
    return out


def upper_tails(family: Family, scale: float, reach: int) -> NDArray[np.float64]:
    """Return upper bounds on P(Z >= x) of the unbounded law for x = 0 .. reach + 1."""
    z = np.arange(reach + 2, dtype=np.float64)
    if family == "laplace":
        q = math.exp(-1 / scale)
        return MARGIN * np.exp(-z / scale) / (1 + q)
    terms = np.exp(-(z * z) / (2 * scale * scale))
    terms[-1] /= -math.expm1(-(reach + 1) / (scale * scale))  # a geometric tail beyond the reach
    return MARGIN * np.cumsum(terms[::-1])[::-1] / _gaussian_sum(scale)


def noise_table(family: Family, scale: float, bound: int) -> NoiseTable:
    return laplace_table(scale, bound) if family == "laplace" else gaussian_table(scale, bound)


def bound_for(family: Family, scale: float, mass: float) -> int:
    """Return a bound beyond which about ``mass`` of the law lies."""
    tail = math.log(1 / mass)
    return math.ceil(scale * (tail if family == "laplace" else math.sqrt(2 * tail)))


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedLaw:
    """A table beside the unbounded law that it cuts and rounds.

    Take a move of N coordinates, the law P and its shift Q, both cut to the bounds. Cutting raises
    probabilities by a factor of at most ``1 / (1 - beyond)^N`` and leaves outputs that only P
    reaches. Rounding changes every probability by a factor of at most ``e^r``, and every event by
    at most ``N distance``. Hence, with ``r`` counted in epsilon or ``distance`` in delta, whichever
    is less,

        delta <= e^(N r) delta_unbounded(eps - 2 N r) / (1 - beyond)^N + P(only one side)
        delta <= delta_unbounded(eps) / (1 - beyond)^N + P(only one side) + N (2 + e^eps) distance
    """

    noise: NoiseTable
    family: Family
    scale: float
    beyond: float
    ratio: float
    distance: float

    @classmethod
    def of(cls, noise: NoiseTable, *, family: Family, scale: float) -> Self:
        if not np.array_equal(noise.weights, noise.weights[::-1]) or noise.highest < 1:
            raise ValueError("noise must be symmetric around 0.")  # one bound serves both sides
        z = np.arange(noise.highest + 1) / scale
        half = np.exp(-z if family == "laplace" else -z * z / 2)
        pmf = np.concatenate([half[:0:-1], half])
        pmf /= pmf.sum()
        apart = np.abs(noise.pmf - pmf)
        furthest = float(np.max(apart / np.minimum(noise.pmf, pmf)))
        return cls(
            noise=noise,
            family=family,
            scale=scale,
            beyond=min(1.0, 2 * _tail_beyond(family, scale, noise.highest)),
            ratio=math.log1p(furthest) + FLOAT_RATIO,
            distance=float(apart.sum()) / 2 + FLOAT_DISTANCE,
        )

    def delta(self, move: Move, epsilon: float) -> float:
        """Return an upper bound on the divergence of the table from its shift, either direction."""
        n = move.coordinates
        if n * self.beyond > 5 or self.beyond > 0.5 or epsilon > 700:
            return 1.0
        cut = math.exp(-n * math.log1p(-self.beyond))
        edge = move.times * (self._last(move.far) + move.near * self._last(1))

        def bound(ratio: float, distance: float) -> float:
            ideal = unbounded_delta(self.family, self.scale, move, epsilon - 2 * n * ratio)
            rounding = n * (2 + math.exp(epsilon)) * distance
            return min(1.0, (math.exp(n * ratio) * cut * ideal + edge + rounding) * MARGIN)

        if n * self.ratio > 1:
            return bound(FLOAT_RATIO, self.distance)
        return min(bound(self.ratio, 0.0), bound(FLOAT_RATIO, self.distance))

    def _last(self, n: int) -> float:
        """Return P(one of the last n values at one end)."""
        if n >= len(self.noise.weights):
            return 1.0
        return int(self.noise.weights[:n].sum(dtype=np.uint64)) / TOTAL


def _tail_beyond(family: Family, scale: float, bound: int) -> float:
    """Return an upper bound on P(Z > bound) of the unbounded law."""
    if family == "laplace":
        return math.exp(-(bound + 1) / scale) / (1 + math.exp(-1 / scale))
    first = math.exp(-((bound + 1) ** 2) / (2 * scale * scale)) / _gaussian_sum(scale)
    return first / -math.expm1(-(bound + 1) / (scale * scale))


def at_least(noise: NoiseTable, x: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return P(Z >= x) of the table, from exact integer sums."""
    tails = noise.at_least()
    found: NDArray[np.float64] = tails[np.clip(x - noise.lowest, 0, len(tails) - 1)]
    return found


Unshared = tuple[tuple[int, int], ...]
"""Counters that only one of two neighbours stores: pairs (largest value, how many)."""


def any_reaches(noise: NoiseTable, x: NDArray[np.int64], unshared: Unshared) -> NDArray[np.float64]:
    """Return P(value + Z >= x for one of the unshared counters), without cancellation."""
    with np.errstate(divide="ignore"):
        none = sum(times * np.log1p(-at_least(noise, x - value)) for value, times in unshared)
    return -np.expm1(none)


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
class ThresholdLaws(ABC):
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
    @abstractmethod
    def game(self) -> dict[str, object]:
        """The numbers of the game of a proof, but for tables and ``sketches``."""

    @property
    @abstractmethod
    def least(self) -> int:
        """The smallest noisy value that is published, in units."""

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

    @abstractmethod
    def cost(self, epsilon: float) -> float:
        """Return an upper bound on delta at ``epsilon``, from the tables that are drawn from."""

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
