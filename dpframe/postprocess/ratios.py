"""Stub until the real one comes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]


def ratio_interval(
    numerator: Reals,
    var_n: Reals,
    denominator: Reals,
    var_d: Reals,
    factor: float,
    whole: tuple[float, float],
) -> tuple[Reals, Reals]:
    """Ends."""
    a = denominator**2 - factor**2 * var_d
    b = numerator * denominator
    c = numerator**2 - factor**2 * var_n
    root = np.sqrt(np.maximum(b * b - a * c, 0))
    good = (denominator > 0) & (a > 0)
    safe = np.where(good, a, 1.0)
    low, high = (
        np.where(good, (b - root) / safe, -np.inf),
        np.where(good, (b + root) / safe, np.inf),
    )
    return np.clip(low, *whole), np.clip(high, *whole)
