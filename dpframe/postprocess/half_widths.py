"""How far noise in counts goes: half widths from its exact law, and bounds for sums of many draws.

References
----------
.. [1] Birnbaum, "On Random Variables with Comparable Peakedness", Ann. Math. Stat. 19 (1948).
.. [2] Hoeffding, "Probability Inequalities for Sums of Bounded Random Variables", JASA 58 (1963).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpframe.noise import NoiseTable, UnboundedNoise
from dpframe.postprocess.weighted_laplace import sum_half_width


def table_of(noise: NoiseTable | UnboundedNoise) -> NoiseTable | None:
    """The law as a table, None where it has no bounds."""
    return noise if isinstance(noise, NoiseTable) else None


def scale_of(noise: NoiseTable | UnboundedNoise) -> float | None:
    """The scale of a law without bounds, None where it is a table."""
    return float(noise.scale) if isinstance(noise, UnboundedNoise) else None


def half_width(noise: NoiseTable | UnboundedNoise, terms: int, confidence: float) -> int:
    """Least w with P(|V_1 + ... + V_terms| <= w) >= confidence, for symmetric V.

    Tables: to 1e-12. The characteristic function of the sum is inverted on a lattice of at least 24
    standard deviations, or all of its support where that is shorter; what wraps around is below
    1e-15. Noise without bounds: as :func:`.sum_half_width`.
    """
    if isinstance(noise, UnboundedNoise):
        return sum_half_width(noise.scale, terms, confidence)
    return _half_width(noise.weights.tobytes(), terms, confidence)


@lru_cache(maxsize=4096)
def _half_width(weights: bytes, terms: int, confidence: float) -> int:
    pmf = pmf_of_weights(weights)
    bound, wanted = len(pmf) // 2, confidence - 1e-12
    if terms == 1:
        return least_width(pmf[bound:], wanted)
    sd = math.sqrt(float(pmf @ np.arange(-bound, bound + 1, dtype=np.float64) ** 2))
    reach = min(terms * bound, math.ceil(12 * sd * math.sqrt(terms)) + bound)
    size = 1 << (2 * reach + 1).bit_length()
    if terms == 2:  # such a sum has the most frequencies
        return least_width(
            np.fft.irfft(_lattice_spectrum(pmf, size) ** 2, size)[: reach + 1], wanted
        )
    seen = _low_frequencies(weights, size) ** terms
    seen = seen[: 1 + int(np.flatnonzero(np.abs(seen) > NOTHING)[-1])]
    frequency = np.arange(1, len(seen))
    rest = np.where(2 * frequency == size, 1, 2) * seen[1:] / np.sin(frequency * (np.pi / size))
    low, high = 0, reach
    while low < high:
        middle = (low + high) // 2
        turned = (2 * middle + 1) * frequency % (2 * size)
        inside = ((2 * middle + 1) * seen[0] + rest @ np.sin(turned * (np.pi / size))) / size
        low, high = (low, middle) if inside >= wanted else (middle + 1, high)
    return low


NOTHING = 1e-18
"""Frequencies at which the spectrum of a sum is no larger than this are left out."""


def pmf_of_weights(weights: bytes) -> NDArray[np.float64]:
    return np.frombuffer(weights, dtype=np.uint64).astype(np.float64) / 2**64


def least_width(law: NDArray[np.float64], wanted: float) -> int:
    """The least w with P(abs(V) <= w) >= ``wanted``; ``law`` holds the probabilities of 0, 1, ...
    of a symmetric V."""
    inside = law[0] + 2 * np.concatenate([[0.0], np.cumsum(law[1:])])
    return int(np.searchsorted(inside, wanted))


def _lattice_spectrum(pmf: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """The characteristic function of a symmetric law on a lattice of ``size``."""
    bound, folded = len(pmf) // 2, np.zeros(size)
    folded[: bound + 1], folded[size - bound :] = pmf[bound:], pmf[:bound]
    real: NDArray[np.float64] = np.fft.rfft(folded).real
    return real


@lru_cache(maxsize=8)
def _low_frequencies(weights: bytes, size: int) -> NDArray[np.float64]:
    """The spectrum up to the last frequency that matters in sums of three or more draws."""
    whole = _lattice_spectrum(pmf_of_weights(weights), size)
    return whole[: 1 + int(np.flatnonzero(np.abs(whole) ** 3 > NOTHING)[-1])].copy()


# -- sums of many draws: fast for wide laws and many sizes -----------------------------------------

_RESOLUTION = 64
"""Steps of the lattice in a standard deviation of one draw, for wide laws; costs 2 % of the
width."""


def sum_widths(
    one: NoiseTable, other: NoiseTable, sizes: NDArray[np.int64], tail: float
) -> NDArray[np.int64]:
    """Some w with P(V + V_1 + ... + V_k > w) <= tail (to 1e-12), for every k of ``sizes``.

    V has the law ``one``, the others ``other``, both symmetric and unimodal. w is the least one up
    to k = 32 and a standard deviation of 192 of one draw; else it is at most some 7 % more.
    """
    laws = one.weights.tobytes(), other.weights.tobytes()
    return np.array([_sum_width(*laws, round_up_draws(k), tail) for k in sizes.tolist()], np.int64)


def round_up_draws(k: int) -> int:
    """Round up to one of 8 sizes an octave, above 32: fewer laws to compute, at most 4.5 % more
    width.

    A further symmetric unimodal draw never lowers P(sum > w), w >= 0: P(|sum + v| <= w) is the
    mass of a shifted interval, and sums of such draws are symmetric and unimodal too [1]_.
    """
    return k if k <= 32 else math.ceil(2 ** (math.ceil(8 * math.log2(k) - 1e-9) / 8))


@lru_cache(maxsize=16)
def _rounded_spectrum(weights: bytes, g: int, size: int) -> NDArray[np.float64]:
    """The spectrum of the law of V rounded to multiples of g, on a circle of ``size`` points; real,
    as the law is symmetric."""
    pmf = pmf_of_weights(weights)
    steps = (np.arange(len(pmf)) - len(pmf) // 2 + g // 2) // g
    spectrum: NDArray[np.float64] = np.fft.rfft(np.bincount(steps % size, pmf, size)).real
    return spectrum


@lru_cache(maxsize=256)
def _variance_of_weights(weights: bytes) -> float:
    bound = len(weights) // 16
    return NoiseTable("", -bound, np.frombuffer(weights, dtype=np.uint64)).sd ** 2


@lru_cache(maxsize=4096)
def _sum_width(one: bytes, other: bytes, k: int, tail: float) -> int:
    """`sum_widths` for one k.

    Wide laws are rounded to multiples of an odd g: V = g J + U with U an odd function of V, so of
    mean 0, and |U| <= g/2. The law of the sum of the J is found from its characteristic function,
    as in `half_width`; the sum of the U is above g sqrt((k + 1) log(1/h)/2) with probability
    at most h [2]_, here h = tail/1000.
    """
    bounds = [len(weights) // 16 for weights in (one, other)]  # 8 bytes a value
    variance = _variance_of_weights(one) + k * _variance_of_weights(other)
    g = max(0, int(math.sqrt(variance / (k + 1)) / _RESOLUTION) - 1) // 2 * 2 + 1
    steps = [(b + g // 2) // g for b in bounds]
    sd = math.sqrt(variance) / g + (math.sqrt(k + 1) / 2 if g > 1 else 0.0)  # |U / g| <= 1/2
    reach = math.ceil(12 * sd)
    reach = min(steps[0] + k * steps[1], reach + max(steps))
    size = 1 << (2 * reach + 1).bit_length()
    law = np.fft.irfft(
        _rounded_spectrum(one, g, size) * _rounded_spectrum(other, g, size) ** k, size
    )
    h = tail / 1000 if g > 1 else 0.0
    rest = g * math.sqrt((k + 1) * math.log(1 / h) / 2) if h else 0.0
    return g * least_width(law[: reach + 1], 1 - 2 * (tail - h) - 1e-12) + math.ceil(rest)
