"""Intervals for true counts from the exact law of the noise in them."""

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
    pmf = _pmf_of_weights(weights)
    bound, wanted = len(pmf) // 2, confidence - 1e-12
    if terms == 1:
        return _least_width(pmf[bound:], wanted)
    sd = math.sqrt(float(pmf @ np.arange(-bound, bound + 1, dtype=np.float64) ** 2))
    reach = min(terms * bound, math.ceil(12 * sd * math.sqrt(terms)) + bound)
    size = 1 << (2 * reach + 1).bit_length()
    if terms == 2:  # such a sum has the most frequencies
        return _least_width(
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


def _pmf_of_weights(weights: bytes) -> NDArray[np.float64]:
    return np.frombuffer(weights, dtype=np.uint64).astype(np.float64) / 2**64


def _least_width(law: NDArray[np.float64], wanted: float) -> int:
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
    whole = _lattice_spectrum(_pmf_of_weights(weights), size)
    return whole[: 1 + int(np.flatnonzero(np.abs(whole) ** 3 > NOTHING)[-1])].copy()
