"""Gaussian tests and releases, recomputed: tables against digits, products in full, whole releases.

``accounting.weighted_round_noise`` claims the curve of one continuous Gaussian count for everything
that a unit of privacy moves, and adds what tables have of ends and rounding. Here the tables
themselves are convolved and tiny releases enumerated: no claim may be below, and none far above.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import dpframe as dp
from dpframe.accounting import weighted_round_noise as normal_noise
from dpframe.accounting.compose import composed_epsilon
from dpframe.accounting.losses import compose_losses, composed_profile, losses_of
from dpframe.accounting.path_recursion import Laws
from dpframe.accounting.weighted_round_noise import normal_laws
from dpframe.ledger.reservations import price_reservation
from dpframe.noise import normal_density, rounded_normal
from tests.members import few

from .test_curves_of_parts import exact_shares, moved
from .test_exact_shares import HEIGHT, divided


def beyond(x: Decimal) -> Decimal:
    """2 P(Z > x) by the series of the error function, to fifty digits."""
    with localcontext() as at:
        at.prec = 90
        term = total = x
        n = 0
        while abs(term) > Decimal(10) ** -70:
            n += 1
            term = -term * x * x / (2 * n)
            total += term / (2 * n + 1)
        pi = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640629")
        return 1 - total * (2 / pi).sqrt()


@pytest.mark.parametrize("sigma", [0.7, 3.0, 99.9, 100.0, 8000.0])
def test_the_density_is_that_of_a_rounded_gaussian(sigma: float) -> None:
    """Law: ratios of masses are right to ``ETA``, out to nine sigmas.

    Planted: a discrete Gaussian, the same curve at whole numbers, is not within it.
    """
    bound = math.ceil(9 * sigma)
    density = normal_density(sigma, bound)
    at = sorted({0, 1, bound // 20, bound // 3, bound // 2, bound - 1, bound})
    with localcontext() as precise:
        precise.prec = 60
        half, s = Decimal("0.5"), Decimal(sigma)
        first = 1 - beyond(half / s)
        exact = [
            float((beyond((z - half) / s) - beyond((z + half) / s)) / 2 / first) if z else 1.0
            for z in at
        ]
    found = density[bound + np.array(at)] / density[bound]
    assert np.abs(found / exact - 1).max() <= normal_noise.ETA
    discrete = np.exp(-(np.array(at) ** 2) / (2 * sigma**2))
    assert np.abs(discrete / exact - 1).max() > normal_noise.ETA


def laws_for(height: int, epsilon: float, delta: float, *, grid: int = 1, moves: int = 1) -> Laws:
    return normal_laws(
        height=height, epsilon=epsilon, delta=delta, release_share=1 / 3, grid=grid, moves=moves
    )


def continuous(laws: Laws, height: int, epsilon: float, *, added: float) -> float:
    """Delta of Gaussian noise with the variances of the tables, less what rounding ``added``."""
    mu = math.sqrt(height / (laws.test.sd**2 - added) + 1 / (laws.release.sd**2 - added))
    below = norm.cdf([mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu])
    return float(below[0] - math.exp(epsilon) * below[1])


CASES = [(1, 1.0, 1e-6), (4, 1.0, 1e-6), (4, 0.3, 2e-9), (4, 3.0, 1e-5), (16, 0.1, 1e-8)]


@few(3, ("height", "epsilon", "delta"), CASES)
def test_the_claim_is_that_of_all_noisy_numbers_together(
    height: int, epsilon: float, delta: float
) -> None:
    """Law: tables of one record, convolved over all levels and the release, never cost more than
    claimed. The claim is that of the noise before it is rounded; what rounding adds to its variance
    is all that it leaves, but for 1 % and the ends.

    Planted: a level that was forgotten.
    """
    laws = laws_for(height, epsilon, delta)
    at = [epsilon * part for part in (0.0, 0.25, 0.5, 0.75, 1.0)]
    tables = [laws.test] * height + [laws.release]
    exact = [d for _, d in composed_profile(tables, epsilons=at, step=epsilon * 1e-4)]
    claimed = [normal_noise.normal_cost(laws, height=height, moves=1, epsilon=e) for e in at]
    for e, least, claim in zip(at, exact, claimed, strict=True):
        assert least <= claim * (1 + 1e-6)
        assert claim <= 1.001 * continuous(laws, height, e, added=1 / 12) + delta
        assert continuous(laws, height, e, added=0.0) <= 1.01 * least + delta
    assert claimed[-1] <= delta
    less = (
        normal_noise.normal_cost(laws, height=height - 1, moves=1, epsilon=at[1])
        if height > 1
        else 0.0
    )
    assert less < exact[1]


@pytest.mark.parametrize("grid", [2, 3])
def test_no_division_of_a_users_units_costs_more_than_claimed(grid: int) -> None:
    """Law: whatever leaves the units of a user go to, selection and release, enumerated, cost
    at most what is claimed, at every epsilon.

    Planted: users who weigh two, and tests of half the noise.
    """
    at = (0.0, 0.5, 1.0, 1.5, 2.0)
    laws = laws_for(HEIGHT, 2.0, 1e-3, grid=grid)
    claimed = [normal_noise.normal_cost(laws, height=HEIGHT, moves=1, epsilon=e) for e in at]
    users = list(divided(grid)) if grid == 2 else [{"aa": 3}, {"aa": 1, "ba": 2}, {"ab": 3}]
    exact = exact_shares(laws, users, at)
    assert all(a <= b for a, b in zip(exact, claimed, strict=True))
    assert exact[0] > 0.5 * claimed[0]
    if grid == 2:
        double = exact_shares(laws, [{"aa": 2, "ba": 2}], at)
        assert any(a > b for a, b in zip(double, claimed, strict=True))
        narrow = {name: getattr(laws, name) for name in Laws.__slots__}
        half = rounded_normal(laws.left * grid / 3, laws.test.highest)
        planted = exact_shares(Laws(**{**narrow, "test": half}), [{"aa": 2}], at)
        assert any(a > b for a, b in zip(planted, claimed, strict=True))


@pytest.mark.parametrize("units", [(3,), (2, 1), (1, 1, 1)])
def test_records_that_move_together_need_no_group_privacy(units: tuple[int, ...]) -> None:
    """Law: one level and one release that move by three, divided or not, cost what is claimed for
    three. Planted: the claim for two."""
    laws = laws_for(1, 3.0, 0.02, moves=3)
    for e in (0.0, 1.0, 2.0, 3.0):
        claim = normal_noise.normal_cost(laws, height=1, moves=3, epsilon=e)
        exact = moved([laws.test, laws.release], units, e) if len(units) < 3 else 0.0
        assert exact <= claim
        if len(units) == 1:
            assert normal_noise.normal_cost(laws, height=1, moves=2, epsilon=e) < exact


@few(
    6,
    ("epsilon", "delta", "arguments"),
    [
        (epsilon, delta, arguments)
        for epsilon in (0.02, 0.3, 1.0, 3.0)
        for delta in (1e-9, 1e-5)
        for arguments in (
            {},
            {"user": "u"},
            {"user": "u", "contribution": "records", "max_contributions": 7},
            {"weight": "w", "max_weight": 30.0},
        )
    ],
)
def test_plans_stay_within_their_budget(
    epsilon: float, delta: float, arguments: dict[str, Any]
) -> None:
    """Law: what is computed from the tables is at most the budget, strictly, and thresholds hide
    what only one neighbour has."""
    plan = dp.explain(
        ["a", "b"], epsilon=epsilon, delta=delta, mechanism="offline-gaussian", **arguments
    ).plan
    assert plan.delta_spent <= delta
    assert plan.threshold_units > plan.test_noise.highest
    assert plan.profile[-1] == (epsilon, delta)
    assert np.all(np.diff([d for _, d in plan.profile[:-1]]) < 0)


@pytest.mark.parametrize("epsilon", [0.2, 0.4564])
def test_a_year_of_releases_costs_what_its_tables_do(epsilon: float) -> None:
    """Law: what a ledger reserves for 52 releases is at least the convolution of all their tables,
    and at most 1 % above it. Planted: 51 releases are below."""
    plan = dp.explain(
        list("abcd"), epsilon=epsilon, delta=4.8e-9, mechanism="offline-gaussian"
    ).plan
    step = epsilon * 2e-3
    parts = [(losses_of(plan.laws.test, step), 52 * 4), (losses_of(plan.laws.release, step), 52)]

    def exact(at: float) -> float:
        return compose_losses(parts, at).delta(at)

    cost = price_reservation(plan, 52, 1e-6)[1][0] * 1e-12
    assert exact(cost) <= 1e-6 < exact(cost / 1.01)
    assert exact(composed_epsilon([(plan.profile, 51)], 1e-6)) > 1e-6


def test_users_and_records_cost_the_same() -> None:
    """Law: shares move the same squares as one record; a reservation of either costs the same."""
    plans = [
        dp.explain(list("abcd"), epsilon=0.4, delta=2e-9, mechanism="offline-gaussian", **unit).plan
        for unit in ({}, {"user": "u"})
    ]
    one, other = (price_reservation(plan, 52, 1e-6)[1][0] for plan in plans)
    assert one == pytest.approx(other, rel=1e-3)
