"""Several releases together: privacy profiles, and their composition by privacy loss distributions.

A profile is a list of points (epsilon, delta) that a release keeps at once, delta being an upper
bound on its hockey-stick divergence in either direction. The exact curve D, as a function of
t = e^epsilon, is convex with D(0) = 1, and equals D(1/t) t + 1 - t on the other side of 1. So the
lower convex hull of points above D is still above D (a chord of D lies below the same chord of the
points). From the hull "connect the dots" (Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022,
Algorithm 1) builds a privacy loss distribution that dominates the release. These distributions
compose, also when a question is asked after looking at earlier answers, if the profiles and their
number are fixed beforehand (Zhu, Dong, Wang 2022, Theorem 10). Profiles that are themselves chosen
after looking are not covered: they can overspend ("Privacy Filters are Captured by Residues" 2026;
tests/privacy/test_composition.py). So a ledger composes only what was reserved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import lru_cache, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpframe._late_imports import import_extra
from dpframe.budget import Budget, per_record

Profile = tuple[tuple[float, float], ...]
"""Points (epsilon >= 0, delta), epsilon increasing."""

PROFILE_POINTS = 40
"""Points of a profile at epsilons below the epsilon of the budget."""

LOSS_STEP = 1e-3
"""Grid of the composed privacy loss; rounding is upwards and of second order in the step."""

FLOAT_MARGIN = 1e-9
"""Relative margin on a composed epsilon and delta, above the rounding of the convolutions."""


def group_profile(profile: Profile, moves: int) -> Profile:
    """Return the profile for groups of ``moves`` records (Vadhan, Lemma 2.2, at every point)."""
    if moves == 1:
        return profile
    return tuple(
        (moves * e, min(1.0, d * (math.expm1(moves * e) / math.expm1(e) if e else moves)))
        for e, d in profile
    )


def whole_profile(
    budget: Budget, moves: int, curve: Callable[[list[float]], Iterable[tuple[float, float]]]
) -> Profile:
    """Return points at smaller epsilons, then the point of the budget, for groups of ``moves``
    records; ``curve`` gives the points of one record."""
    record = per_record(budget, moves)
    points = tuple(curve([record.epsilon * i / PROFILE_POINTS for i in range(PROFILE_POINTS)]))
    return (*group_profile(points, moves), (budget.epsilon, budget.delta))


def composed_epsilon(profiles: Iterable[tuple[Profile, int]], delta: float) -> float:
    """Return the smallest epsilon, rounded up, that all releases keep together at ``delta``.

    ``profiles`` pairs a profile with the number of releases that have it. The result is infinite if
    their masses at infinity alone exceed ``delta``.
    """
    parts = list(profiles)
    if not parts:
        return 0.0
    if _mass_at_infinity(parts) > delta:
        return math.inf
    total = reduce(lambda a, b: a.compose(b), (_self_composed(*part) for part in parts))
    usable = delta - max(FLOAT_MARGIN * delta, 1e-15)
    return float(total.get_epsilon_for_delta(usable)) * (1 + FLOAT_MARGIN)


def _mass_at_infinity(parts: list[tuple[Profile, int]]) -> float:
    """P(an infinite loss in any release), which no epsilon makes up for."""
    least = [(min(d for _, d in profile), times) for profile, times in parts]
    if any(d >= 1 for d, _ in least):
        return 1.0
    return -math.expm1(sum(times * math.log1p(-d) for d, times in least))


@lru_cache(maxsize=256)
def _self_composed(profile: Profile, times: int) -> Any:
    loss = loss_distribution(profile)
    return loss.self_compose(times) if times > 1 else loss


@lru_cache(maxsize=256)
def loss_distribution(profile: Profile) -> Any:
    """Return a privacy loss distribution that dominates every mechanism with this profile."""
    missing = "releases are composed by dp-accounting: pip install 'dpframe[pld]'."
    pld_pmf = import_extra("dp_accounting.pld.pld_pmf", missing)
    distributions = import_extra("dp_accounting.pld.privacy_loss_distribution", missing)
    steps = math.ceil(profile[-1][0] / LOSS_STEP)
    losses = np.arange(-steps, steps + 1)
    deltas = upper_curve(profile, np.exp(losses * LOSS_STEP))
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots(LOSS_STEP, losses, deltas)
    return distributions.PrivacyLossDistribution(pmf)


def upper_curve(profile: Profile, t: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return upper bounds on D at ``t`` = e^epsilon: the hull of the points on both sides of 1."""
    curve: NDArray[np.float64] = np.interp(
        t, *profile_hull(profile)
    )  # beyond the last point D only falls
    return np.minimum(1.0, np.minimum.accumulate(curve * (1 + 1e-12) + 1e-15))


def profile_hull(profile: Profile) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the lower convex hull of the points and their mirror images below 1: t, and D at t."""
    right = [(math.exp(e), d) for e, d in profile]
    left = [(1 / x, 1 - 1 / x + d / x) for x, d in reversed(right) if x > 1]
    found: list[tuple[float, float]] = []
    for point in [(0.0, 1.0), *left, *right]:
        while len(found) >= 2 and _on_or_above_chord(found[-2], found[-1], point):
            found.pop()
        found.append(point)
    t, delta = np.array(found).T
    return t, delta


def _on_or_above_chord(
    a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]
) -> bool:
    """Whether b lies on or above the chord from a to c."""
    return (b[1] - a[1]) * (c[0] - a[0]) >= (c[1] - a[1]) * (b[0] - a[0])
