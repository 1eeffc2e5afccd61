"""Whole numbers on the parts of a public partition, noisy, and what lies above them.

Neighbours: one record, or one user. Before noise one of them moves the parts by at most ``most`` in
total (L1), and so the totals of one level, whose nodes are sums of disjoint parts. Parts and levels
that are measured have a part of epsilon each; the parts are chosen by what was released before, and
by parameters. Pure differential privacy, composed adaptively (Dwork, McSherry, Nissim, Smith,
"Calibrating Noise to Sensitivity in Private Data Analysis", 2006, Proposition 1; Dwork, Rothblum,
Vadhan, "Boosting and Differential Privacy", 2010, on adaptive composition).

Noise is discrete Laplace over all integers (Ghosh, Roughgarden, Sundararajan, 2009; drawn as by
Canonne, Kamath, Steinke, 2020, Algorithm 2), so that nothing is cut and no delta is needed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpframe.noise import UnboundedNoise
from dpframe.postprocess.above import PARTS as PARTS

FINE = 2**20
"""Denominator of scales that are not whole numbers."""


def cost(scales: Mapping[int, Fraction], *, most: int) -> Fraction:
    """Epsilon of one vector: a unit moves the parts, and the totals of each level, by ``most``."""
    return sum((Fraction(most) / scale for scale in scales.values()), Fraction(0))


def scales_for(
    weights: Mapping[int, Fraction], *, most: int, epsilon: Fraction
) -> dict[int, Fraction]:
    """Scales of the noise of parts and levels, which have parts of ``epsilon``; rounded up."""
    return {at: rounded_up(most / (epsilon * weight)) for at, weight in weights.items() if weight}


def rounded_up(scale: Fraction) -> Fraction:
    """A scale that the sampler takes, not below this one."""
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
    """Noisy parts, and noisy totals of the nodes of the levels that have a scale.

    ``parts`` and ``totals`` are true numbers, one a node, and ``level`` that of every node.
    """
    noisy = parts + UnboundedNoise(scales[PARTS]).draw(len(parts)).astype(object)
    above = {}
    for at in sorted(scales):
        if at != PARTS:
            here = totals[level == at]
            above[at] = here + UnboundedNoise(scales[at]).draw(len(here)).astype(object)
    return noisy, above
