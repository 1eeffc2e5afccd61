"""Several releases together: profiles, their composition, and a filter for Gaussian releases.

**Profiles** of releases compose by privacy loss distributions.

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

**A privacy filter** pays for Gaussian releases that are chosen, budgets included, after looking.

Gaussian answers that follow each other, each chosen after all earlier ones, are no worse than one
count that moves by mu in units of its noise, if on *every* history the squares of their moves add
up to at most mu^2 (Smith, Thakurta, "Fully Adaptive Composition for Gaussian Differential Privacy",
2022; Koskela, Tobaben, Honkela, "Individual Privacy Accounting with Gaussian Differential Privacy",
2023). One release, or a series of releases, consists of such answers
(:mod:`dpframe.accounting.weighted_round_noise`). Beside the squares, the ends and the rounding of
tables add up, and so do the factors by which cutting makes a chance larger, and the errors of
losses in floats.

Therefore four amounts are fixed *beforehand*, and a release is paid for only if it exceeds none of
them; no amount makes up for another. A filter that asked only whether the delta of all releases
together still fits would be wrong: an analyst could take squares where answers have told much, and
ends where they have told little, and both are spent (tests/privacy/test_filter.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import lru_cache, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpframe.accounting.weighted_round_noise import GaussianLeakage, largest_mu
from dpframe.budget import Budget, per_record
from dpframe.common.calls import import_extra

CURVE_PART = 0.75
"""Part of delta that decides how much Gaussian releases may tell. The rest is for the ends and the
rounding of their tables, which cost a release about half of its delta."""

FACTOR, SHIFT = 1e-2, 1e-4
"""How much cutting may raise the logarithm of a chance, and how far a loss may be off, in all
releases together. A release of a hierarchy of eight levels uses 2e-5 and 2e-7."""

SQUARE_UNIT = Fraction(1, 10**15)
DELTA_UNIT = Fraction(1, 10**21)
PART_UNIT = Fraction(1, 10**12)
"""Units of mu^2, of delta, and of the larger of the used parts of ``FACTOR`` and of ``SHIFT``."""

SMALLEST, LARGEST = 0.01, 100.0
"""Smallest and largest epsilon of a filter."""

Amounts = tuple[int, int, int]
"""mu^2, delta of ends and rounding, and the part of factors and shifts, in whole units."""


def amounts_of(epsilon: float, delta: float) -> Amounts:
    """Return the amounts that (epsilon, delta) holds, rounded down; all zero where it holds
    nothing.

    ``epsilon`` from ``SMALLEST`` to ``LARGEST``, 0 < ``delta`` < 1.
    """
    curve = CURVE_PART * delta * (1 - 1e-6) * math.exp(-FACTOR)
    ends = (1 - CURVE_PART) * delta * (1 - 1e-6) - 1e-15
    if ends <= 0 or curve <= 1e-15:
        return 0, 0, 0
    mu = largest_mu(epsilon - SHIFT, curve) * (1 - 1e-9)
    return (
        math.floor(Fraction(mu) ** 2 / SQUARE_UNIT),
        math.floor(Fraction(ends) / DELTA_UNIT),
        math.floor(1 / PART_UNIT),
    )


def amounts_used(told: GaussianLeakage, epsilon: float) -> Amounts:
    """Return the amounts that one release takes from a filter with this epsilon, rounded up."""
    delta = told.ends + told.rounding * (1 + math.exp(epsilon))
    part = max(told.factor / FACTOR, told.shift / SHIFT)
    return (
        math.ceil(Fraction(told.squares * (1 + 1e-9)) / SQUARE_UNIT),
        math.ceil(Fraction(delta * (1 + 1e-9)) / DELTA_UNIT),
        math.ceil(Fraction(part * (1 + 1e-9)) / PART_UNIT),
    )


def best_smaller_epsilon(told: GaussianLeakage, epsilon: float, delta: float) -> tuple[float, int]:
    """Return the epsilon below ``epsilon`` whose filter holds most releases like ``told``, and how
    many; ``epsilon`` and 0 if no filter has a smaller epsilon."""
    tried = [float(f"{epsilon * part:.2g}") for part in (0.95**i for i in range(1, 80))]
    found = [
        (releases_that_fit(amounts_of(e, delta), amounts_used(told, e)), -e)
        for e in tried
        if SMALLEST <= e < epsilon
    ]
    most, least = max(found, default=(0, -epsilon))
    return -least, most


def amounts_left(left: Amounts, used: Amounts) -> Amounts | None:
    """Return the amounts left after a release; None if any amount does not suffice."""
    after = (left[0] - used[0], left[1] - used[1], left[2] - used[2])
    return after if min(after) >= 0 else None


def releases_that_fit(left: Amounts, used: Amounts) -> int:
    """Return how many releases fit into ``left`` if each takes ``used``."""
    return min(have // take for have, take in zip(left, used, strict=True) if take)


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
