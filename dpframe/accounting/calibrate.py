"""The noise for a budget: every shape that may serve, Gaussian halves too, and the choice.

Each shape starts from a closed form or a search and is trimmed with the recursion of
:mod:`dpframe.accounting.path_recursion`. The result satisfies ``delta <= budget`` strictly, by the
accountant that reads the very tables that the sampler draws from.

**Gaussian halves** serve the test noise of tall hierarchies where one record is the unit of
privacy.

A path pays for the left half on every level: from height 7 or so a Gaussian left half spreads
less than a geometric one, and far above the smallest threshold a Gaussian on both sides spreads
least. There is no closed form; the scale is searched with the exact recursion.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from dpframe.accounting.losses import least_bound, least_scale
from dpframe.accounting.path_recursion import (
    LONGEST_TABLE,
    SELECTED_AT_THRESHOLD,
    Laws,
    geometric_laws,
    one_direction,
)
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


CURVED_FROM = 7
"""Height from which a Gaussian left half can beat a geometric one."""

SYMMETRIC_FROM = 12
"""Height from which test noise with two Gaussian halves can beat noise with a geometric right half,
at high thresholds."""


def choose_laws(options: Sequence[Laws], threshold: int | Fraction) -> Laws:
    """Return the law with the narrowest test noise that selects a residual equal to the threshold
    with a chance of at least 1/2. If no law does, return the law with the largest such chance."""
    balanced = [o for o in options if o.smallest_threshold(0.5) <= threshold]
    if balanced:
        return min(balanced, key=lambda o: o.test.sd)
    able = [o for o in options if o.smallest_threshold(SELECTED_AT_THRESHOLD) <= threshold]
    return max(able, key=lambda o: o.chance_at(threshold))


def smallest_law_threshold(options: Sequence[Laws]) -> int:
    """Return the smallest threshold at which some law selects a residual equal to the threshold
    with a chance of at least ``SELECTED_AT_THRESHOLD``."""
    return min(o.smallest_threshold(SELECTED_AT_THRESHOLD) for o in options)


def law_options(
    *,
    height: int,
    epsilon: float,
    delta: float,
    remainder: bool,
    release_share: float,
    grid: int,
    threshold: int | Fraction | None,
) -> list[Laws]:
    """Return every law within the budget that may serve; all of them are sound."""
    base = geometric_laws(
        height=height,
        epsilon=epsilon,
        delta=delta,
        remainder=remainder,
        release_share=release_share,
        grid=grid,
    )
    options = [base]
    if grid > 1 or height < CURVED_FROM or len(base.test.weights) > LONGEST_TABLE:
        return options
    shapes: list[Literal["gaussian-left", "gaussian"]] = ["gaussian-left"]
    if (
        height >= SYMMETRIC_FROM
        and threshold is not None
        and threshold > 2 * base.smallest_threshold(0.5)
    ):
        shapes.append("gaussian")
    for shape in shapes:
        laws = gaussian_laws(
            shape, base=base, height=height, epsilon=epsilon, delta=delta, remainder=remainder
        )
        if laws is not None:
            options.append(laws)
    return options
