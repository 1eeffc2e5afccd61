"""Noisy whole numbers on the parts of a public partition, and noisy totals of levels above them.

Neighbours: one record, or one user. Before noise, such a unit moves the parts by at most ``most``
in total (L1). It moves the totals of one level by no more, since the nodes of a level are sums of
disjoint parts. The parts and each measured level get a share of epsilon. Parts and shares are
chosen by what was released before, and by parameters. The result is purely differentially private,
composed adaptively (Dwork, McSherry, Nissim, Smith, "Calibrating Noise to Sensitivity in Private
Data Analysis", 2006, Proposition 1; Dwork, Rothblum, Vadhan, "Boosting and Differential Privacy",
2010, on adaptive composition).

Noise is discrete Laplace over all integers (Ghosh, Roughgarden, Sundararajan, 2009; drawn by
Algorithm 2 of Canonne, Kamath, Steinke, 2020), so nothing is cut and no delta is needed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpframe.noise import UnboundedNoise
from dpframe.postprocess.strategy import PARTS as PARTS

FINE = 2**20
"""Denominator of scales that are not whole numbers."""


def cost(scales: Mapping[int, Fraction], *, most: int) -> Fraction:
    """Return epsilon of a vector; a unit moves parts, and the totals of a level, by ``most``."""
    return sum((Fraction(most) / scale for scale in scales.values()), Fraction(0))


def scales_for(
    weights: Mapping[int, Fraction], *, most: int, epsilon: Fraction
) -> dict[int, Fraction]:
    """Return the noise scales of parts and levels, rounded up. ``weights`` divide ``epsilon``;
    where a weight is 0, there is no scale."""
    return {at: rounded_up(most / (epsilon * weight)) for at, weight in weights.items() if weight}


def rounded_up(scale: Fraction) -> Fraction:
    """Round up to a scale that the sampler takes."""
    if scale >= FINE:
        return Fraction(math.ceil(scale))
    return Fraction(math.ceil(scale * FINE), FINE)


def run(
    parts: NDArray[np.object_],
    totals: NDArray[np.object_],
    level: NDArray[np.int64],
    *,
    scales: Mapping[int, Fraction],
) -> tuple[NDArray[np.object_], dict[int, NDArray[np.object_]]]:
    """Return noisy parts, and noisy totals of the nodes on each level that has a scale.

    ``parts`` and ``totals`` are true numbers, one a node; ``level`` is the level of every node.
    """
    noisy = parts + UnboundedNoise(scales[PARTS]).draw(len(parts)).astype(object)
    above = {}
    for at in sorted(scales):
        if at != PARTS:
            here = totals[level == at]
            above[at] = here + UnboundedNoise(scales[at]).draw(len(here)).astype(object)
    return noisy, above
