"""Curves of releases that are made of parts, recomputed: exact products, and whole mechanisms.

``accounting.tree_levels`` reads a pair of laws off what each part keeps and composes them on a
grid. Here pairs are multiplied as fractions, and tiny releases for users are enumerated; no point
of a curve may be below. Each comparison must reject planted mistakes.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import dpframe as dp
from dpframe.accounting.compose import Profile, composed_epsilon, loss_distribution
from dpframe.accounting.tree_levels import (
    laplace_parts,
    profiles_together,
    pure_profile,
    tree_laws,
)
from dpframe.ledger.reservations import OpenReservation, price_reservation
from dpframe.mechanisms import offline_hhh
from tests.members import some, tries

from .enumerate_outputs import divergence, every_selection
from .test_composition import LEAKY, RESPONSE, Pair, both, pairs, product, profile_of
from .test_exact_shares import HEIGHT, bases, divided, laws_of, plus

AT = (0.0, 0.2, 0.5, 0.9, 1.4, 2.0)


def curve(profiles: Iterable[Profile], whole: float, at: Sequence[float] = AT) -> Profile:
    return tuple(profiles_together(Counter(profiles).items(), at, whole))


def kinks(pair: Pair) -> list[float]:
    """Where the curve bends, in either direction."""
    ratios = [a / b for a, b in zip(*pair, strict=True) if a and b]
    return sorted({0.0, *(abs(math.log(ratio)) for ratio in ratios)})


@given(st.lists(pairs(), min_size=1, max_size=3), st.lists(st.floats(0.01, 2.0), max_size=4))
@tries(40, 200, deadline=None)
def test_the_product_of_parts_is_covered(parts: list[Pair], epsilons: list[float]) -> None:
    """Law: whatever points of the parts are known, no point of the whole is below the product."""
    profiles = [profile_of(pair, [0.0, *epsilons]) for pair in parts]
    assume(all(profile[-1][1] < 1 for profile in profiles))
    whole = product(parts)
    for e, d in curve(profiles, 2.0):
        assert both(whole, math.exp(e)) <= Fraction(d)


@pytest.mark.parametrize("times", [1, 2, 4])
@pytest.mark.parametrize("pair", [RESPONSE, LEAKY], ids=["response", "leaky"])
def test_the_curve_is_that_of_the_product_where_parts_are_known(pair: Pair, times: int) -> None:
    """Law: at most 1 % above the exact product of parts that cost the same in both directions.

    Planted: one part fewer is below.
    """
    profile = profile_of(pair, kinks(pair))
    exact = [both(product([pair] * times), math.exp(e)) for e in AT]
    found = curve([profile] * times, 2.0)
    for (_, d), least in zip(found, exact, strict=True):
        assert least <= Fraction(d) <= least * Fraction(101, 100) + Fraction(1, 10**12)
    if times > 1:
        less = curve([profile] * (times - 1), 2.0)
        assert any(Fraction(d) < least for (_, d), least in zip(less, exact, strict=True))


# -- users, enumerated ---------------------------------------------------------------------------


def exact_shares(laws: Any, users: list[dict[str, int]], epsilons: Sequence[float]) -> list[float]:
    """Largest divergence over tables and users at every epsilon, in either direction."""
    threshold = laws.smallest_threshold(0.5) * laws.grid
    options = {"test": laws.test, "threshold": threshold, "remainder": True}
    worst = [0.0] * len(epsilons)
    for base, user in itertools.product(bases(laws, threshold), users):
        p, q = (every_selection(table, **options) for table in (base, plus(base, user)))
        for i, e in enumerate(epsilons):
            ways = (divergence(a, b, laws.release, math.exp(e)) for a, b in ((p, q), (q, p)))
            worst[i] = max(worst[i], *ways)
    return worst


def test_every_point_of_the_curve_of_shares_covers_every_division() -> None:
    """Law: whatever leaves a user's units go to, tests and releases keep the curve of two parts.

    Planted: the tests alone, or users who weigh two, exceed it.
    """
    grid, at = 2, (0.0, 0.5, 1.0, 1.5, 1.9)
    laws = laws_of(grid, True)
    tests, releases = offline_hhh.selection_profiles(laws, height=HEIGHT)
    points = [d for _, d in curve([tests, releases], 2.0, at)]
    exact = exact_shares(laws, list(divided(grid)), at)
    assert all(a <= b for a, b in zip(exact, points, strict=True))
    assert exact[0] > points[0] / 2  # no bound far above
    alone = [d for _, d in curve([tests], 2.0, at)]
    assert any(a > b for a, b in zip(exact, alone, strict=True))
    double = exact_shares(laws, [{"aa": 2, "ba": 2}], at)
    assert any(a > b for a, b in zip(double, points, strict=True))


def moved(noises: Sequence[Any], units: Sequence[int], epsilon: float) -> float:
    """Divergence of one noisy count a level that moves by ``units`` each: the product, in full."""
    p, q, t = np.ones(1), np.ones(1), math.exp(epsilon)
    for noise, by in itertools.product(noises, units):
        gap = np.zeros(by)
        p = np.outer(p, np.concatenate([noise.pmf, gap])).ravel()
        q = np.outer(q, np.concatenate([gap, noise.pmf])).ravel()
    return float(max(np.maximum(p - t * q, 0).sum(), np.maximum(q - t * p, 0).sum()))


@pytest.mark.parametrize("units", [(3,), (2, 1)])
def test_every_point_of_levels_for_shares_covers_a_user(units: tuple[int, ...]) -> None:
    """Law: a level of Laplace noise is a part, however a user's units are divided there.

    Planted: one level forgotten, or a user of two.
    """
    at = (0.0, 0.4, 0.9, 1.6, 2.4)
    laws = tree_laws(weights=[1, 2], epsilon=2.5, delta=1e-2, grid=3, listed=True, family="laplace")
    points = [d for _, d in curve(laplace_parts(laws), 2.5, at)]
    exact = [moved(laws.noises, units, e) for e in at]
    assert all(a <= b for a, b in zip(exact, points, strict=True))
    if len(units) == 1:
        assert all(b <= 1.5 * a + 0.05 for a, b in zip(exact, points, strict=True))
        forgotten = [d for _, d in curve(laplace_parts(laws)[:1], 2.5, at)]
        assert any(a > b for a, b in zip(exact, forgotten, strict=True))
        double = [moved(laws.noises, (6,), e) for e in at]
        assert any(a > b for a, b in zip(double, points, strict=True))


# -- plans ---------------------------------------------------------------------------------------

H = ["a", "b", "c", "d"]
SMALL = {"epsilon": 0.2, "delta": 1e-9}


TWO = ["count", dp.sum("x", lower=0, upper=5)]
COUNTED = [dp.distinct("u", at_most=3), "count"]
PLANS: dict[str, tuple[Any, dict[str, Any]]] = {
    "hhh of users": (dp.explain, {"user": "u", "contribution": "share", **SMALL}),
    "hhh, long tables": (dp.explain, {"epsilon": 0.01, "delta": 1e-9}),
    "counts of users": (dp.explain_tree_counts, {"user": "u", **SMALL}),
    "counts, long tables": (dp.explain_tree_counts, {"epsilon": 0.01, "delta": 1e-9}),
    "rollup": (dp.explain_rollup, {"measures": TWO, **SMALL}),
    "rollup of users": (dp.explain_rollup, {"measures": TWO, "user": "u", **SMALL}),
    "different values": (dp.explain_rollup, {"measures": COUNTED, "user": "u", **SMALL}),
}


@cache
def planned(name: str) -> Any:
    explain, arguments = PLANS[name]
    return explain(H, **arguments).plan


@some("hhh of users", "counts of users", "rollup", "rollup of users")
@pytest.mark.parametrize("name", PLANS)
def test_a_year_of_releases_costs_less_than_by_one_point(name: str) -> None:
    """Law: every plan has points below its budget, and 52 of them cost a tenth less than what is
    known of their budgets alone."""
    plan = planned(name)
    e, d = np.array(plan.profile).T
    assert len(e) > 1
    assert np.all(np.diff(e) > 0)
    assert np.all(np.diff(d[:-1]) <= 1e-15)
    assert plan.profile[-1] == (plan.budget.epsilon, plan.budget.delta)
    alone = composed_epsilon([(plan.profile[-1:], 52)], 1e-6)
    assert price_reservation(plan, 52, 1e-6)[1][0] * 1e-12 < 0.9 * alone


@pytest.mark.parametrize("unit", [{}, {"user": "u"}], ids=["records", "users"])
def test_counts_of_heavy_hitters_keep_what_heavy_hitters_do(unit: dict[str, Any]) -> None:
    """Law: the same laws have the same curve, whatever is made of what they release."""
    counts = dp.explain_tree_counts(H, mechanism="hhh", **unit, **SMALL).plan
    hitters = dp.explain(H, threshold=counts.threshold, **unit, **SMALL).plan
    assert counts.laws == hitters.laws
    assert counts.profile == hitters.profile
    assert len(counts.profile) > 1


def test_the_curve_of_a_rollup_is_that_of_its_parts_by_another_route() -> None:
    """Law: privacy loss distributions of dp_accounting, one a part, say the same, within 1 %."""
    plan = planned("rollup of users")
    parts = [(plan.selection.profile, 1)]
    parts += [
        (pure_profile(float(p.epsilon)), 1) for several in plan.paid.values() for p in several
    ]
    total = loss_distribution(parts[0][0])
    for profile, _ in parts[1:]:
        total = total.compose(loss_distribution(profile))
    for e, d in plan.profile[:-1:8]:
        other = float(total.get_delta_for_epsilon(e))
        assert d <= other * 1.01 + 1e-12
        assert other <= d * 1.01 + 1e-12


def test_what_was_reserved_by_its_budget_alone_pays_for_a_release_of_that_budget() -> None:
    """Law: a reservation of an earlier version, which knew one point, is used by the same release;
    another budget is not paid for."""
    plan = planned("hhh of users")
    told = plan.unit.sentence
    held = OpenReservation(
        reservation_id="x", releases=3, left=3, profile=plan.profile[-1:], neighbours=told
    )
    assert held.pays_for(plan.profile, told)
    assert not held.pays_for(
        dp.explain(H, user="u", mechanism="offline", epsilon=0.1, delta=1e-9).plan.profile, told
    )
    assert not held.pays_for(plan.profile, "somebody else")
