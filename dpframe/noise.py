"""Bounded integer noise: one table that the sampler draws from and the accountant reads.

A law is an array of integer weights that sum to 2**64. Drawing inverts a uniform 64-bit
integer of the operating system, so the probability of every outcome is exactly
``weight / 2**64`` and nothing about the sampler is approximated. This is the only module
that touches randomness.

Noise without bounds, which delta = 0 needs, is drawn by rejection on whole numbers: exact too.
"""

from __future__ import annotations

import math
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpframe.errors import BudgetError

TOTAL = 2**64
"""Sum of the weights of every table."""

PublicRandom: TypeAlias = "np.random.Generator"  # which takes numpy long to load
"""What draws from numbers that are released already; never noise."""

Bits = Callable[[int], NDArray[np.uint64]]
"""A source of n independent uniform 64-bit integers."""


def operating_system_bits(n: int) -> NDArray[np.uint64]:
    return np.frombuffer(os.urandom(8 * n), dtype=np.uint64)


_replaced: ContextVar[str | None] = ContextVar("replaced", default=None)
_open: dict[str, Bits] = {}
"""Replacements of the bits, by name, until the block that made them ends: a copied context outlives
the block."""


@contextmanager
def replaced_bits(bits: Bits) -> Iterator[None]:
    """Swap the source of randomness here, not in other threads; for :mod:`dpframe.testing` only."""
    name = uuid.uuid4().hex
    _open[name] = bits
    try:
        with replaced_by(name):
            yield
    finally:
        del _open[name]


def replacement() -> str | None:
    """The name of what replaces the operating system's generator here, if anything does."""
    name = _replaced.get()
    return name if name in _open else None


@contextmanager
def replaced_by(name: str | None) -> Iterator[None]:
    """Draw as where ``name`` was the :func:`replacement`, while that lasts, in whatever thread."""
    before = _replaced.set(name)
    try:
        yield
    finally:
        _replaced.reset(before)


def _bits(n: int) -> NDArray[np.uint64]:
    return _open.get(_replaced.get() or "", operating_system_bits)(n)


@dataclass(frozen=True, slots=True, eq=False)
class NoiseTable:
    """A bounded integer law.

    Parameters
    ----------
    family
        Name of the law, for people.
    lowest
        Smallest value; the value of ``weights[i]`` is ``lowest + i``.
    weights
        uint64, positive at both ends, summing to 2**64.
    """

    family: str
    lowest: int
    weights: NDArray[np.uint64]

    @property
    def highest(self) -> int:
        return self.lowest + len(self.weights) - 1

    @property
    def ends(self) -> tuple[int, int] | None:
        """Smallest and largest value; None for unbounded noise."""
        return self.lowest, self.highest

    @property
    def pmf(self) -> NDArray[np.float64]:
        return self.weights.astype(np.float64) / TOTAL

    @property
    def mean(self) -> float:
        return float(self.pmf @ np.arange(self.lowest, self.highest + 1))

    @property
    def sd(self) -> float:
        return _sd(self)

    def at_least(self) -> NDArray[np.float64]:
        """P(W >= lowest + i) for i = 0 .. len(weights); summed from the top, in integers."""
        sums = np.cumsum(self.weights[::-1], dtype=np.uint64)[::-1]
        return np.concatenate([[1.0], sums[1:].astype(np.float64) / TOTAL, [0.0]])

    def below(self) -> NDArray[np.float64]:
        """P(W < lowest + i) for i = 0 .. len(weights); summed from the bottom, in integers."""
        sums = np.cumsum(self.weights, dtype=np.uint64)
        return np.concatenate([[0.0], sums[:-1].astype(np.float64) / TOTAL, [1.0]])

    def draw(self, n: int) -> NDArray[np.int64]:
        """n independent draws."""
        last_of_each = np.cumsum(self.weights, dtype=np.uint64)[:-1]
        bits = _bits(n)
        order = np.argsort(bits)  # so that looking up stays in the cache
        drawn = np.empty(n, dtype=np.int64)
        drawn[order] = self.lowest + np.searchsorted(last_of_each, bits[order], side="right")
        return drawn


@lru_cache(maxsize=32)  # asked for again by receipts and quantities
def _sd(law: NoiseTable) -> float:
    values = np.arange(law.lowest, law.highest + 1) - law.mean
    return float(np.sqrt(law.pmf @ (values * values)))


def table_from_density(family: str, lowest: int, density: NDArray[np.float64]) -> NoiseTable:
    """Round a positive density to integer weights; what rounding leaves over goes to the mode."""
    scaled = np.rint(density / density.sum() * float(TOTAL))
    weights = np.minimum(scaled, float(2**64 - 2**11)).astype(np.uint64)
    mode = int(np.argmax(density))
    rest = TOTAL - int(weights.sum(dtype=object)) if len(weights) < 2 else _rest(weights)
    if int(weights[mode]) + rest >= TOTAL:
        raise BudgetError("the noise would be constant in 64 bits. Lower epsilon.")
    weights[mode] = np.uint64(int(weights[mode]) + rest)
    inside = np.flatnonzero(weights)
    return NoiseTable(family, lowest + int(inside[0]), weights[inside[0] : inside[-1] + 1].copy())


def _rest(weights: NDArray[np.uint64]) -> int:
    """2**64 minus the sum, as a signed number (uint64 sums wrap at exactly 2**64)."""
    wrapped = int(np.sum(weights, dtype=np.uint64))
    return -wrapped if wrapped < TOTAL // 2 else TOTAL - wrapped


def halves(
    *,
    left: tuple[str, float, int],
    right: tuple[str, float, int],
    recentre: bool,
) -> NoiseTable:
    """A law with separate halves, each ``(shape, scale, bound)`` and shape geometric or gaussian.

    The right half has density exp(-z/scale) or exp(-z**2 / (2 scale**2)) for z = 0 .. bound,
    the left half mirrors it. With ``recentre`` the median moves to 0: a residual that equals
    the threshold is then selected half of the time.
    """
    density = np.concatenate([_half_density(*left)[:0:-1], _half_density(*right)])
    lowest = -(len(density) - len(_half_density(*right)))
    family = left[0] if left[0] == right[0] else f"{left[0]}-left {right[0]}-right"
    law = table_from_density(family, lowest, density)
    if not recentre:
        return law
    median = int(np.argmin(np.abs(law.at_least() - 0.5))) + law.lowest
    return NoiseTable(law.family, law.lowest - median, law.weights)


def _half_density(shape: str, scale: float, bound: int) -> NDArray[np.float64]:
    z = np.arange(bound + 1, dtype=np.float64)
    return np.exp(-z / scale) if shape == "geometric" else np.exp(-(z * z) / (2 * scale * scale))


def laplace_table(scale: float, bound: int) -> NoiseTable:
    """Discrete Laplace, P(z) proportional to exp(-|z|/scale), cut at +-bound."""
    law = halves(
        left=("geometric", scale, bound), right=("geometric", scale, bound), recentre=False
    )
    return NoiseTable("discrete Laplace", law.lowest, law.weights)


def gaussian_table(scale: float, bound: int) -> NoiseTable:
    """Discrete Gaussian, P(z) proportional to exp(-z**2/(2 scale**2)), cut at +-bound."""
    law = halves(left=("gaussian", scale, bound), right=("gaussian", scale, bound), recentre=False)
    return NoiseTable("discrete Gaussian", law.lowest, law.weights)


def laplace_gaussian_table(scale: float, sigma: float, bound: int) -> NoiseTable:
    """P(z) proportional to exp(-|z|/scale - z**2/(2 sigma**2)), cut at +-bound: between both."""
    z = np.arange(bound + 1, dtype=np.float64)
    half = np.exp(-(z / scale + z * z / (2 * sigma * sigma)))
    return table_from_density(
        "discrete Laplace-Gaussian", -bound, np.concatenate([half[:0:-1], half])
    )


def biased_flips(n: int, epsilon: float) -> NDArray[np.bool_]:
    """n times True with probability 1/(e^epsilon + 1), rounded up to a multiple of 2^-64."""
    least = math.ceil(Fraction(1 / (math.exp(epsilon) + 1)) * (1 + Fraction(1, 10**12)) * TOTAL)
    bound = TOTAL // 2 if epsilon == 0 else min(least, TOTAL // 2)
    return np.asarray(_bits(n) < np.uint64(bound))


# -- without bounds ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UnboundedNoise:
    """Discrete Laplace noise of a rational scale over all integers: pure, no end to pay for."""

    scale: Fraction
    family: str = "discrete Laplace, unbounded"
    ends: ClassVar[tuple[int, int] | None] = None

    @property
    def sd(self) -> float:
        rate = 1 / float(self.scale)
        return math.exp(-rate / 2) * math.sqrt(2) / -math.expm1(-rate)

    def half_width(self, confidence: float) -> int:
        """Least w with P(|V| <= w) >= confidence: P(|V| > w) = 2 q^(w+1) / (1 + q), q = e^-1/b."""
        rate = 1 / float(self.scale)
        beyond = (1 - confidence) * (1 + math.exp(-rate)) / 2
        return max(0, math.ceil(-math.log(beyond) / rate * (1 + 1e-12) - 1))

    def draw(self, n: int) -> NDArray[np.int64]:
        """n independent draws."""
        return unbounded_laplace(self.scale, n)


def unbounded_laplace(scale: Fraction, n: int) -> NDArray[np.int64]:
    """n draws of discrete Laplace noise, P(z) proportional to exp(-|z|/scale) for every integer.

    Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy" (2020), Algorithm 2,
    with all draws of a round at once. Nothing is rounded.

    Parameters
    ----------
    scale
        Above 0, numerator and denominator below 2**62.
    """
    t, s = scale.numerator, scale.denominator
    if not 0 < t < 2**62 > s:
        raise ValueError("scale must be a positive fraction of integers below 2**62")
    out = np.empty(n, dtype=np.int64)
    waiting = np.arange(n)
    while len(waiting):
        size = len(waiting)
        u, v = uniform(t, size), _successes(size)
        kept = _exp_chance(u, t)
        if t * (int(v.max()) + 1) < 2**63:
            magnitude = (u + t * v) // s
        else:
            magnitude = ((u.astype(object) + t * v.astype(object)) // s).astype(np.int64)
        negative = uniform(2, size) == 1
        kept &= ~(negative & (magnitude == 0))  # zero would come twice
        out[waiting[kept]] = np.where(negative, -magnitude, magnitude)[kept]
        waiting = waiting[~kept]
    return out


def uniform(n: int, size: int) -> NDArray[np.int64]:
    """Uniform on 0 .. n - 1: bits beyond the last multiple of n are drawn again."""
    if n == 1 or size == 0:
        return np.zeros(size, dtype=np.int64)
    bits = _bits(size)
    last = np.uint64(TOTAL - TOTAL % n - 1)
    out = (bits % np.uint64(n)).view(np.int64)
    waiting = np.flatnonzero(bits > last)
    while len(waiting):
        bits = _bits(len(waiting))
        out[waiting] = bits % np.uint64(n)
        waiting = waiting[bits > last]
    return out


def _exp_chance(u: NDArray[np.int64], t: int) -> NDArray[np.bool_]:
    """True with probability exp(-u/t), for 0 <= u <= t; their Algorithm 1.

    P(a draw is still alive after j rounds) is (u/t)^j / j!, and the alternating sum of these,
    P(it ends in an odd round), is the series of exp(-u/t).
    """
    out, alive, k = np.zeros(len(u), dtype=np.bool_), np.arange(len(u)), 1
    while len(alive):
        out[alive] = k % 2 == 1  # unless it goes on
        goes_on = (uniform(t, len(alive)) < u) & (uniform(k, len(alive)) == 0)
        alive, u, k = alive[goes_on], u[goes_on], k + 1
    return out


def _successes(size: int) -> NDArray[np.int64]:
    """Successes of chance exp(-1) before the first failure."""
    out = np.zeros(size, dtype=np.int64)
    alive = np.arange(size)
    while len(alive):
        alive = alive[_exp_chance(np.ones(len(alive), dtype=np.int64), 1)]
        out[alive] += 1
    return out


def random_seed() -> int:
    """A random seed of 63 bits, for hashes and for generators that draw no noise. It stays secret
    where hashes sample or round a user's records."""
    return int(_bits(1)[0] >> np.uint64(1))


def device_choices() -> PublicRandom:
    """A generator for what devices report, and which take part: no privacy rests on it."""
    return np.random.default_rng(random_seed())


def public_generator(seed: int | None = None) -> np.random.Generator:
    """A generator for samples from what is released, never for noise; a seed is from 0 on."""
    return np.random.default_rng(random_seed() if seed is None else seed)
