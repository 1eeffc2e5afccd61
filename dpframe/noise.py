"""Bounded integer noise: one table that the sampler draws from and the accountant reads.

A law is an array of integer weights that sum to 2**64. Drawing inverts a uniform 64-bit
integer of the operating system, so the probability of every outcome is exactly
``weight / 2**64`` and nothing about the sampler is approximated. This is the only module
that touches randomness.

Noise without bounds, which delta = 0 needs, inverts as many bits as an outcome takes: exact too.
"""

from __future__ import annotations

import math
import os
import re
import uuid
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpframe.errors import BudgetError, ParameterError

TOTAL = 2**64
"""Sum of the weights of every table."""

PublicRandom: TypeAlias = "np.random.Generator"  # which takes numpy long to load
"""What draws from numbers that are released already; never noise."""

Bits = Callable[[int], NDArray[np.uint64]]
"""A source of n independent uniform 64-bit integers."""

Half: TypeAlias = tuple[str, float, int] | tuple[str, float, float, int]
"""One side of a table: its shape, its scale or scales, and its bound, all in whole units."""

SCALES_OF_SHAPE = {"geometric": 1, "gaussian": 1, "rounded gaussian": 1, "laplace-gaussian": 2}
"""Shapes of halves, with the number of their scales."""

Halves: TypeAlias = tuple[Half, Half]
"""The left and the right side of a table, from which :func:`table_of_halves` makes it again."""


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
    halves
        What the weights were made of; None for a table that was made otherwise.
    """

    family: str
    lowest: int
    weights: NDArray[np.uint64]
    halves: Halves | None = None

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

    def cumulative_chances(self) -> NDArray[np.float64]:
        """P(W < lowest + i) for i = 0 .. len(weights); summed from the bottom, in integers."""
        sums = np.cumsum(self.weights, dtype=np.uint64)
        return np.concatenate([[0.0], sums[:-1].astype(np.float64) / TOTAL, [1.0]])

    def draw(self, n: int) -> NDArray[np.int64]:
        """n independent draws."""
        last_of_each = np.cumsum(self.weights, dtype=np.uint64)[:-1]
        # to sort the bits first, so that looking up stays in the cache, takes longer than it saves
        return self.lowest + np.searchsorted(last_of_each, _bits(n), side="right")


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


def halves(*, left: Half, right: Half, recentre: bool) -> NoiseTable:
    """A law with separate halves, named by their shapes.

    With ``recentre`` the median moves to 0: a residual that equals the threshold is then selected
    half of the time.
    """
    family = left[0] if left[0] == right[0] else f"{left[0]}-left {right[0]}-right"
    law = table_of_halves(family, left, right)
    if not recentre:
        return law
    median = int(np.argmin(np.abs(law.at_least() - 0.5))) + law.lowest
    return replace(law, lowest=law.lowest - median)


def table_of_halves(family: str, left: Half, right: Half) -> NoiseTable:
    """The law whose right half is ``right``, for z = 0 .. bound; its left half mirrors ``left``."""
    density = np.concatenate([half_density(left)[:0:-1], half_density(right)])
    law = table_from_density(family, -left[-1], density)
    return replace(law, halves=(left, right))


def half_density(half: Half) -> NDArray[np.float64]:
    """The density of a half for z = 0 .. bound, up to a factor."""
    shape, *scales, bound = half
    if shape == "rounded gaussian":
        (sigma,) = scales
        return _rounded_gaussian(sigma, bound)
    z = np.arange(bound + 1, dtype=np.float64)
    if shape == "geometric":
        (scale,) = scales
        return np.exp(-z / scale)
    if shape == "gaussian":
        (scale,) = scales
        return np.exp(-(z * z) / (2 * scale * scale))
    scale, sigma = scales
    return np.exp(-(z / scale + z * z / (2 * sigma * sigma)))


WIDE = 100.0
"""Sigma from which on the series has more digits than a difference of error functions."""


def _rounded_gaussian(sigma: float, bound: int) -> NDArray[np.float64]:
    """Mass of the normal law on (z - 1/2, z + 1/2) for z = 0 .. bound, to 11 digits.

    For wide laws the integral is a series around its middle, in Hermite polynomials.
    """
    if sigma < WIDE:
        ends = (np.arange(bound + 2) - 0.5) / (sigma * math.sqrt(2))
        beyond = np.array([math.erfc(end) for end in ends.tolist()])
        return np.asarray((beyond[:-1] - beyond[1:]) * (sigma * math.sqrt(math.pi / 2)))
    x = np.arange(bound + 1, dtype=np.float64) / sigma
    y, s = x * x, sigma**-2
    series = (y - 1) / 24 * s + (y * y - 6 * y + 3) / 1920 * s**2
    series += (y**3 - 15 * y * y + 45 * y - 15) / 322560 * s**3
    return np.asarray(np.exp(-y / 2) * (1 + series))


def laplace_table(scale: float, bound: int) -> NoiseTable:
    """Discrete Laplace, P(z) proportional to exp(-|z|/scale), cut at +-bound."""
    return _symmetric_table("discrete Laplace", ("geometric", float(scale), int(bound)))


def gaussian_table(scale: float, bound: int) -> NoiseTable:
    """Discrete Gaussian, P(z) proportional to exp(-z**2/(2 scale**2)), cut at +-bound."""
    return _symmetric_table("discrete Gaussian", ("gaussian", float(scale), int(bound)))


def laplace_gaussian_table(scale: float, sigma: float, bound: int) -> NoiseTable:
    """P(z) proportional to exp(-|z|/scale - z**2/(2 sigma**2)), cut at +-bound.

    It lies between the discrete Laplace and the discrete Gaussian law.
    """
    half = ("laplace-gaussian", float(scale), float(sigma), int(bound))
    return _symmetric_table("discrete Laplace-Gaussian", half)


def rounded_normal(sigma: float, bound: int) -> NoiseTable:
    """Continuous Gaussian noise rounded to the nearest whole number, cut at +-bound.

    Continuous noise explains this table exactly.
    """
    return _symmetric_table("rounded Gaussian", ("rounded gaussian", float(sigma), int(bound)))


def normal_density(sigma: float, bound: int) -> NDArray[np.float64]:
    """Mass of the normal law on (z - 1/2, z + 1/2) for z = -bound .. bound, up to a factor."""
    half = _rounded_gaussian(sigma, bound)
    return np.concatenate([half[:0:-1], half])


def _symmetric_table(family: str, half: Half) -> NoiseTable:
    return table_of_halves(family, half, half)


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


FINE = 2**20
"""Denominator of scales that are not whole numbers."""


def rounded_up(scale: Fraction) -> Fraction:
    """Round up to a scale that the sampler takes."""
    if scale >= FINE:
        return Fraction(math.ceil(scale))
    return Fraction(math.ceil(scale * FINE), FINE)


def unbounded_laplace(scale: Fraction, n: int) -> NDArray[np.int64]:
    """n draws of discrete Laplace noise, P(z) proportional to exp(-|z|/scale) for every integer.

    Let q = exp(-1/scale), and P(g) = (1 - q) q^g for g = 0, 1, ... Then z is -1 - g with
    probability q/(1 + q), else g. So z = 0 comes once, and P(z) = (1 - q)/(1 + q) q^abs(z). The m
    low bits of g are independent of its other bits: the law of g is a product over its bits.

    The other bits and the sign invert one uniform number whose bits are drawn as they are needed.
    The first 32 decide, but for about one draw in 2^21. The low bits are uniform and kept with
    probability exp(-low/scale). Nothing is rounded, and no floating-point number takes part.

    Parameters
    ----------
    scale
        Above 0, numerator and denominator below 2**62.

    Raises
    ------
    OverflowError
        A draw is beyond 64 bits: below one in 10^13 for scales up to 2^58.
    """
    if not 0 < scale.numerator < 2**62 > scale.denominator:
        raise ValueError("scale must be a positive fraction of integers below 2**62")
    edges, values, m = _inverse(scale)
    out = np.empty(n, dtype=np.int64)
    for start in range(0, n, AT_ONCE):
        bits = _bits(min(AT_ONCE, n - start))
        z = values[np.searchsorted(edges, bits, side="right")]
        for at in np.flatnonzero(z == UNDECIDED).tolist():
            z[at] = _decided_by_more(scale, m, int(bits[at]) >> 32)
        if m:
            z ^= _low_bits(bits, scale, m)  # of a negative z, all bits are flipped
        out[start : start + AT_ONCE] = z
    return out


AT_ONCE = 2**16
"""Draws of a round: with more of them memory grows, and time does not fall."""

COINS = 3
"""Coins that stand for a chance above every low/scale: 2^m is at most an eighth of the scale."""

UNDECIDED = np.iinfo(np.int64).min


@lru_cache(maxsize=64)
def _inverse(scale: Fraction) -> tuple[NDArray[np.uint64], NDArray[np.int64], int]:
    """Edges of 64 bits, the z with low bits 0 between each two of them, and m."""
    m = max(0, math.floor(scale / 2**COINS).bit_length() - 1)
    edges = _edges(scale, m, 32)
    values = np.full(len(edges) + 1, UNDECIDED)
    for place in range(2, len(values), 2):
        value = _value(edges, place, m)
        if abs(value) < 2**63:  # else what is slow raises
            values[place] = value
    return np.array(edges, dtype=np.uint64) << np.uint64(32), values, m


def _value(edges: Sequence[int], place: int, m: int) -> int:
    """The z, with low bits 0, of what has ``place`` edges at or below it."""
    outcome = (len(edges) - place) // 2
    return outcome // 2 << m ^ -(outcome % 2)


def _edges(scale: Fraction, m: int, bits: int) -> list[int]:
    """Whole numbers around 2**bits P(outcome >= j) for j = .., 2, 1: for each, one that is at most
    this large, then one that is at least. They ascend.

    Outcome 2h is h = g >> m with z >= 0, and 2h + 1 is this h with z < 0. With r = q^(2^m),
    P(outcome >= 2h) = r^h, and P(outcome >= 2h + 1) = r^h (q + r)/(1 + q). The list ends where
    whole numbers no longer part two j.
    """
    digits = bits + 32
    one = 1 << digits
    q, r = _exponential(1 / scale, digits), _exponential(2**m / scale, digits)
    # grows in q and in r, as r <= 1
    nonnegative = (
        (q[0] + r[0] << digits) // (one + q[0]),
        -((-q[1] - r[1] << digits) // (one + q[1])),
    )
    low, high, out = one, one, [1 << bits]
    while True:
        for factor in (nonnegative, r):
            below, above = low * factor[0] >> digits, -(-high * factor[1] >> digits)
            if -(-above >> 32) >= out[-1]:
                return out[:0:-1]
            out += [-(-above >> 32), below >> 32]
        low, high = below, above


def _exponential(x: Fraction, bits: int) -> tuple[int, int]:
    """Whole numbers at most and at least 2**bits exp(-x), for x > 0, few units apart.

    By (1 - x/n)^n <= exp(-x) <= (1 + x/n)^-n, squared until n = 2^k; each step rounds outwards.
    """
    if x >= bits:
        return 0, 1
    k = bits + 2 * bits.bit_length()
    digits = bits + k + 8
    low, high = math.floor((1 - x / 2**k) * 2**digits), math.ceil(2**digits / (1 + x / 2**k))
    for _ in range(k):
        low, high = low * low >> digits, -(-high * high >> digits)
    return low >> digits - bits, -(-high >> digits - bits)


def _decided_by_more(scale: Fraction, m: int, known: int) -> int:
    """The z with low bits 0 of a uniform number that begins with 32 known bits."""
    bits = 32
    while True:
        known, bits = known << 64 | int(_bits(1)[0]), bits + 64
        edges = _edges(scale, m, bits)
        place = bisect_right(edges, known)
        if place and place % 2 == 0:
            return _value(edges, place, m)


def _low_bits(bits: NDArray[np.uint64], scale: Fraction, m: int) -> NDArray[np.int64]:
    """P(low) proportional to exp(-low/scale) for 0 <= low < 2^m, by the last 32 bits of each word;
    where these are too few, from words of their own.

    Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy" (2020), Algorithm 1:
    with x = low/scale, j rounds are outlived with probability x^j / j!, and P(an odd round is the
    last), the alternating sum of these, is the series of exp(-x). Few outlive the first: its chance
    x is that of all coins, times 8 x.
    """
    t, s = scale.numerator, scale.denominator
    some = bits if m + COINS <= 32 else _bits(len(bits))
    low = (some & np.uint64(2**m - 1)).view(np.int64)
    alive = np.flatnonzero(bits & np.uint64(2**32 - 2 ** (32 - COINS)) == 0)
    alive = alive[uniform(t, len(alive)) < low[alive] * (s << COINS)]
    rejected, k = alive[:0], 2
    while len(alive):
        longer = (uniform(t, len(alive)) < low[alive] * s) & (uniform(k, len(alive)) == 0)
        if k % 2 == 0:
            rejected = np.append(rejected, alive[~longer])
        alive, k = alive[longer], k + 1
    if len(rejected):
        low[rejected] = _low_bits(_bits(len(rejected)), scale, m)
    return low


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


# -- in receipts ---------------------------------------------------------------------------------


def law_facts(law: NoiseTable | UnboundedNoise, grid: int, worth: float = 1) -> dict[str, Any]:
    """Return a law of noise as plain JSON types.

    Standard deviation and ends are in records, users or a measure, of which ``worth`` are ``grid``
    units. What made the law is exact, in units: the halves of a table, or the scale of noise
    without bounds. A table that is made otherwise has neither.
    """
    ends = law.ends
    facts = {
        "family": law.family,
        "sd": law.sd / grid * worth,
        "lowest": None if ends is None else ends[0] / grid * worth,
        "highest": None if ends is None else ends[1] / grid * worth,
        "grid": grid,
    }
    if isinstance(law, UnboundedNoise):
        facts["scale"] = str(law.scale)
    elif law.halves is not None:
        facts["halves"] = [[*half] for half in law.halves]
    return facts


def law_of_facts(facts: Mapping[str, Any], worth: float = 1) -> NoiseTable | UnboundedNoise:
    """Make the law again of which :func:`law_facts` wrote the exact fields.

    Raises
    ------
    ParameterError
        The facts are none of a law, or their ends or standard deviation disagree with it.
    """
    law: NoiseTable | UnboundedNoise | None = None
    if type(facts.get("grid")) is int and facts["grid"] > 0:
        with suppress(TypeError, ValueError, KeyError, OverflowError, BudgetError):
            law = _exact_law(facts, worth)
    if law is None:
        raise ParameterError(
            f"the receipt does not say exactly what noise ({facts.get('family')}) it is of. "
            "Pass the frame as dpframe returned it."
        )
    for name, made in law_facts(law, facts["grid"], worth).items():
        if name in ("sd", "lowest", "highest") and not _same_number(facts.get(name), made):
            raise ParameterError(
                f"the noise in the receipt has {name} {facts.get(name)!r}, but its exact law has "
                f"{made!r}. Pass the frame as dpframe returned it."
            )
    return law


SAME = 1e-9
"""Relative difference of numbers that float64 computes in another order."""


def _same_number(fact: object, made: float | None) -> bool:
    if made is None or not isinstance(fact, int | float):
        return fact is made
    return math.isclose(fact, made, rel_tol=SAME)


def _exact_law(facts: Mapping[str, Any], worth: float) -> NoiseTable | UnboundedNoise | None:
    if "scale" in facts:
        if not re.fullmatch(r"[0-9]{1,19}(/[0-9]{1,19})?", facts["scale"]):
            return None
        scale = Fraction(facts["scale"])
        return UnboundedNoise(scale) if scale > 0 else None
    left, right = map(_half_of_facts, facts["halves"])
    return _moved_table(
        str(facts["family"]), left, right, round(facts["lowest"] * facts["grid"] / worth)
    )


def _half_of_facts(fact: Sequence[Any]) -> Half:
    """A half as the receipt lists it; ValueError for what is none."""
    shape, *scales, bound = fact
    if (
        SCALES_OF_SHAPE.get(shape) != len(scales)
        or type(bound) is not int
        or bound < 0
        or not all(0 < float(scale) < math.inf for scale in scales)
    ):
        raise ValueError(f"no half of a law of noise: {fact!r}")
    return (shape, *map(float, scales), bound)


@lru_cache(maxsize=32)
def _moved_table(family: str, left: Half, right: Half, lowest: int) -> NoiseTable:
    return replace(table_of_halves(family, left, right), lowest=lowest)
