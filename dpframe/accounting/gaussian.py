"""Gaussian halves for the test noise of tall hierarchies, where one record is the unit of privacy.

A path pays for the left half on every level: from height 7 or so a Gaussian left half spreads
less than a geometric one, and far above the smallest threshold a Gaussian on both sides spreads
least. There is no closed form; the scale is searched with the exact recursion.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal

from dpframe.accounting.path_laws import Laws
from dpframe.accounting.path_recursion import one_direction
from dpframe.accounting.search import least_bound, least_scale
from dpframe.noise import NoiseTable, halves


@lru_cache(maxsize=256)
def gaussian_laws(
    shape: Literal["gaussian-left", "gaussian"],
    *,
    base: Laws,
    height: int,
    epsilon: float,
    delta: float,
    remainder: bool,
) -> Laws | None:
    """Return the laws with the least Gaussian left half, beside the right half of ``base`` or a
    Gaussian right half.

    None where no such laws are found near ``base``, at large delta for instance; ``base`` serves
    then.
    """
    both = shape == "gaussian"

    def test_law(scale: float, right_bound: int | None) -> NoiseTable:
        bound = math.ceil(scale * math.sqrt(2 * math.log(20 * height / delta)))
        right = ("gaussian", scale) if both else ("geometric", base.right)
        return halves(
            left=("gaussian", scale, bound),
            right=(*right, bound if right_bound is None else right_bound),
            recentre=False,
        )

    def cost(test: NoiseTable, more_first: bool) -> float:
        return one_direction(
            test,
            base.release,
            height=height,
            epsilon=epsilon,
            remainder=remainder,
            more_first=more_first,
        )

    def scale_cost(scale: float) -> float:
        test = test_law(scale, None if both else base.test.highest + 2)
        fewer = cost(test, False)
        return max(fewer, cost(test, True)) if both else fewer

    scale = least_scale(scale_cost, base.left * (0.5 if both else 0.8), delta)
    widest = test_law(scale, None).highest if both else base.test.highest + 2
    bound = least_bound(lambda b: cost(test_law(scale, b), True), widest, delta)
    for _ in range(12):
        test = test_law(scale, bound)
        fewer, more = cost(test, False), cost(test, True)
        if max(fewer, more) <= delta:
            return Laws(
                shape=shape,
                test=test,
                release=base.release,
                grid=1,
                left=scale,
                right=scale if both else base.right,
                release_scale=base.release_scale,
                delta=max(fewer, more),
            )
        scale *= 1.005 if fewer > delta or both else 1.0
        bound += 1 if more > delta else 0
    return None
