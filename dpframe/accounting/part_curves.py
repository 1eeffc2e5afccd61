"""Releases made of parts: the curve that all parts keep together, from the curve of each part.

Parts may be asked in turns, each question chosen after earlier answers, as long as each part keeps
its curve whatever it is asked. Then all parts together are dominated by the product of one pair of
laws a part (interactive mechanisms that run concurrently: Vadhan, Zhang, "Concurrent Composition
Theorems for Differential Privacy", 2023; Haney, Shoemate, Tian, Vadhan, Vyrros, Xu, Zhang 2023). A
part of which only (epsilon, delta) is known is dominated by randomised response that fails with
probability delta (Kairouz, Oh, Viswanath 2015). That is why three parts of a third of epsilon cost
less, at every smaller epsilon, than their sum says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from dpframe.accounting.compose import Profile, profile_hull
from dpframe.accounting.losses import Losses, compose_losses, pair_losses

STEP = 1e-4
"""Grid of the privacy loss, relative to the epsilon of all parts together."""

ROUNDING = 1e-14
"""Delta added to every point, above the rounding of a pair of laws that is read off its curve."""

Parts = Sequence[tuple[Losses, int]]
"""Losses of a part, and how many such parts there are."""


def pure_profile(epsilon: float, slip: float = 0.0) -> Profile:
    """Return the profile of an (epsilon, slip)-private part."""
    return ((epsilon * (1 + 1e-12), slip),)


def pair_of(profile: Profile) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return two laws, outcome by outcome, whose divergence is the hull of a profile.

    Where the slope of the hull changes by q at t, there is an outcome of probability q t under the
    first law and q under the second. The first law has one more outcome, whose probability is the
    last delta.
    """
    t, delta = profile_hull(profile)
    slope = np.append(np.diff(delta) / np.diff(t), 0.0)
    there = np.diff(slope, prepend=-1.0)
    return np.append(t * there, delta[-1]), np.append(there, 0.0)


def losses_of_profile(profile: Profile, step: float) -> Losses:
    """Return losses, on a grid, of a pair that dominates every mechanism with this profile."""
    here, there = pair_of(profile)
    return pair_losses(np.maximum(here, 0.0), np.maximum(there, 0.0), step)


def parts_curve(parts: Parts, epsilons: Sequence[float]) -> Iterable[tuple[float, float]]:
    """Yield points of the curve of all parts together; ``epsilons`` increase."""
    at = [compose_losses(parts, epsilon) for epsilon in {epsilons[0], epsilons[-1]}]
    for epsilon in epsilons:
        yield epsilon, min(1.0, min(losses.delta(epsilon) for losses in at) + ROUNDING)


def profiles_together(
    profiles: Iterable[tuple[Profile, int]], epsilons: Sequence[float], whole: float
) -> Iterable[tuple[float, float]]:
    """Yield points of the curve of parts with these profiles; ``whole`` is the epsilon of all."""
    step = whole * STEP
    return parts_curve([(losses_of_profile(p, step), times) for p, times in profiles], epsilons)
