"""Successes of independent trials: the law for the accounting, and the table for drawing."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpframe.noise import NoiseTable, table_from_density


def success_law(n: int, chance: float) -> tuple[int, NDArray[np.float64]]:
    """Return the law of the successes of n trials: the lowest value that is kept, and the
    probabilities of all values from there on.

    Values further than 40 standard deviations plus 80 from the mean are left out: together they
    have a probability below 1e-100. Probabilities have a relative error of about 1e-12.
    """
    mean, sd = n * chance, math.sqrt(n * chance * (1 - chance))
    lowest = max(0, math.floor(mean - 40 * sd - 80))
    highest = min(n, math.ceil(mean + 40 * sd + 80))
    mode = min(max(math.floor(mean), lowest), highest)
    k = np.arange(lowest, highest, dtype=np.float64)
    steps = np.log((n - k) / (k + 1)) + math.log(chance / (1 - chance))
    up, down = np.cumsum(steps[mode - lowest :]), np.cumsum(steps[: mode - lowest][::-1])[::-1]
    law = np.exp(np.concatenate([-down, [0.0], up]))
    return lowest, law / law.sum()


def binomial(n: int, chance: float) -> NoiseTable:
    """Return the law of the successes of n trials as a table, which ends where 64-bit weights are
    0: within 20 standard deviations plus 82 of the mean."""
    return table_from_density("binomial", *success_law(n, chance))
