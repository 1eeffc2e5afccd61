"""Bounds that the caller does not know, from a private histogram of magnitudes, looked at once.

Values, or the sums that users add up to, are counted by powers of two. One record, or one user, is
in one bin. So discrete Laplace noise of scale 1/epsilon on every bin, empty or not, is epsilon-DP
(Dwork, McSherry, Nissim, Smith, 2006; bins of powers of two as in Wilson et al., "Differentially
Private SQL with Bounded User Contribution", 2020, section 5.3.2, without their second look). The
bound is chosen from the noisy counts alone. It is the power of two at which the noise of a sum and
the loss by clipping cost least together.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpframe.measures.measure import LARGEST, LEAST
from dpframe.noise import UnboundedNoise, rounded_up

BINS = LARGEST - LEAST + 1


def run_auto_bounds(exact: NDArray[np.int64], *, epsilon: Fraction) -> NDArray[np.int64]:
    """Return noisy counts of all bins."""
    noisy: NDArray[np.int64] = exact + _bin_noise(epsilon).draw(BINS)
    return noisy


def _bin_noise(epsilon: Fraction) -> UnboundedNoise:
    return UnboundedNoise(rounded_up(1 / epsilon))


FALSE_BINS = 1e-3
"""Expected number of empty bins whose noisy count is taken for real."""


def choose_bound(
    noisy: NDArray[np.int64], *, epsilon: Fraction, spent: Fraction, parts: int
) -> float:
    """Choose the bound, a power of two, from noisy counts; post-processing.

    Parameters
    ----------
    noisy
        Counts of the bins, int64.
    epsilon
        Epsilon that the counts cost.
    spent
        Epsilon of the sum that the bound is for.
    parts
        How many parts have the noise of that sum.
    """
    least = float(_bin_noise(epsilon).scale) * math.log(BINS / (2 * FALSE_BINS))
    real = np.where(noisy >= least, noisy, 0).astype(float)
    if not real.any():
        return 2.0 ** (LEAST + int(np.argmax(noisy)) + 1)
    exponents = np.arange(LEAST, LARGEST + 1, dtype=float)
    ends, middles = 2.0 ** (exponents + 1), 1.5 * 2.0**exponents
    noise = math.sqrt(2 * parts) * ends / float(spent)
    cut = np.array([(real * np.maximum(middles - end, 0)).sum() for end in ends])
    return float(ends[int(np.argmin(noise + cut))])
