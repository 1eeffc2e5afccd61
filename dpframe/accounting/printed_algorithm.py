"""What the printed Algorithm 1 (Biswas et al., 2024) costs, with its shared gamma.

The printed algorithm adds one ``gamma ~ Lap(2/eps)`` to the test of every node and fresh
``w ~ Lap(4/eps)`` to each. Unrelated nodes with counts near the threshold reveal gamma, so the
adversary is given gamma; then only ``w`` hides the record on its path.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpframe.accounting.path_recursion import path_delta
from dpframe.noise import NoiseTable


def printed_lower_bound(epsilon: float, height: int) -> float:
    """Return a delta that the printed algorithm certainly exceeds: no node of the path is selected.

    ``max over F of E_gamma[((1 - q)^h - e^eps (1 - q')^h)_+]``, in the limit of many unrelated
    nodes, by quadrature over gamma and a scan of F. Zero, up to rounding, for h <= 4.
    """
    gamma = np.linspace(-40 / epsilon, 40 / epsilon, 8_001)
    density = epsilon / 4 * np.exp(-np.abs(gamma) * epsilon / 2)
    weight = density * (gamma[1] - gamma[0])
    scale = 4 / epsilon

    def divergence(gap: float) -> float:
        """``gap`` is threshold - F."""
        bot = _laplace_below(gap - gamma, scale)
        bot_more = _laplace_below(gap - 1 - gamma, scale)
        apart = bot**height - math.exp(epsilon) * bot_more**height
        return float(weight @ np.maximum(apart, 0.0))

    gaps = np.linspace(-20 / epsilon, 60 / epsilon, 321)
    return max(divergence(gap) for gap in gaps)


def _laplace_below(x: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
    tail = 0.5 * np.exp(-np.abs(x) / scale)
    return np.where(x < 0, tail, 1 - tail)


def printed_delta(
    gamma: NoiseTable,
    test: NoiseTable,
    release: NoiseTable,
    *,
    height: int,
    epsilon: float,
    threshold: int,
) -> float:
    """Return an upper bound on delta of the printed algorithm with bounded integer noise.

    The adversary is given gamma. For each value of gamma the recursion runs at the threshold that
    remains. Consecutive values of gamma form groups, and each group is charged at its worst
    (smallest) remaining threshold.
    """
    pmf = gamma.pmf
    run = max(1, len(pmf) // 48)
    total = 0.0
    for start in range(0, len(pmf), run):
        worst = gamma.lowest + min(start + run, len(pmf)) - 1
        left = threshold - worst
        if left < 2:
            total += float(pmf[start : start + run].sum())
            continue
        total += float(pmf[start : start + run].sum()) * path_delta(
            test, release, height=height, epsilon=epsilon, remainder=False, threshold=left
        )
    return min(1.0, total)
