"""Gaussian noise rounded to whole numbers: a table that continuous noise explains exactly."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpframe.noise import NoiseTable, table_from_density

WIDE = 100.0
"""Sigma from which on the series has more digits than a difference of error functions."""


def rounded_normal(sigma: float, bound: int) -> NoiseTable:
    """Continuous Gaussian noise rounded to the nearest whole number, cut at +-bound."""
    return table_from_density("rounded Gaussian", -bound, normal_density(sigma, bound))


def normal_density(sigma: float, bound: int) -> NDArray[np.float64]:
    """Mass of (z - 1/2, z + 1/2) for z = -bound .. bound, up to a factor, to 11 digits.

    For wide laws the integral is a series around its middle, in Hermite polynomials.
    """
    if sigma < WIDE:
        ends = (np.arange(bound + 2) - 0.5) / (sigma * math.sqrt(2))
        beyond = np.array([math.erfc(end) for end in ends.tolist()])
        half = (beyond[:-1] - beyond[1:]) * (sigma * math.sqrt(math.pi / 2))
    else:
        x = np.arange(bound + 1, dtype=np.float64) / sigma
        y, s = x * x, sigma**-2
        series = (y - 1) / 24 * s + (y * y - 6 * y + 3) / 1920 * s**2
        series += (y**3 - 15 * y * y + 45 * y - 15) / 322560 * s**3
        half = np.exp(-y / 2) * (1 + series)
    return np.concatenate([half[:0:-1], half])
