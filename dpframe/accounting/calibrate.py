"""The noise for a budget: every shape that may serve, and the choice among them.

Each shape starts from a closed form or a search and is trimmed with the recursion of
:mod:`dpframe.accounting.path_recursion`. The result satisfies ``delta <= budget`` strictly, by the
accountant that reads the very tables that the sampler draws from.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

from dpframe.accounting.gaussian import gaussian_laws
from dpframe.accounting.geometric import LONGEST_TABLE, geometric_laws
from dpframe.accounting.path_laws import SELECTED_AT_THRESHOLD, Laws

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
