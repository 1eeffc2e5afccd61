"""Intervals for true counts from the exact law of the noise in them."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from dpframe.noise import NoiseTable, UnboundedNoise
from dpframe.postprocess.weighted_laplace import sum_half_width


def table_of(noise: NoiseTable | UnboundedNoise) -> NoiseTable | None:
    """The law as a table, None where it has no bounds."""
    return noise if isinstance(noise, NoiseTable) else None


def scale_of(noise: NoiseTable | UnboundedNoise) -> float | None:
    """The scale of a law without bounds, None where it is a table."""
    return float(noise.scale) if isinstance(noise, UnboundedNoise) else None


def half_width(noise: NoiseTable | UnboundedNoise, terms: int, confidence: float) -> int:
    """Least w with P(|V_1 + ... + V_terms| <= w) >= confidence (to 1e-12), for symmetric V.

    The law of the sum is inverted from its characteristic function on a lattice of 24 standard
    deviations, or all of its support where that is shorter; what wraps around is below 1e-15.
    """
    if isinstance(noise, UnboundedNoise):
        return sum_half_width(noise.scale, terms, confidence)
    return _half_width(noise.weights.tobytes(), terms, confidence)


@lru_cache(maxsize=4096)
def _half_width(weights: bytes, terms: int, confidence: float) -> int:
    pmf = np.frombuffer(weights, dtype=np.uint64).astype(np.float64) / 2**64
    bound = len(pmf) // 2
    values = np.arange(-bound, bound + 1)
    sd = math.sqrt(float(pmf @ (values * values)))
    reach = min(terms * bound, math.ceil(12 * sd * math.sqrt(terms)) + bound)
    size = 1 << (2 * reach + 1).bit_length()
    folded = np.zeros(size)
    np.add.at(folded, values % size, pmf)
    law = np.fft.irfft(np.fft.rfft(folded) ** terms, size)
    inside = law[0] + 2 * np.concatenate([[0.0], np.cumsum(law[1 : reach + 1])])
    return int(np.searchsorted(inside, confidence - 1e-12))
