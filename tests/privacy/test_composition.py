"""Several releases together, recomputed: composed costs against exact product distributions.

``accounting.compose`` goes from points of a curve to a hull, from the hull to a privacy loss
distribution, from many of those to one epsilon. Here the outputs of a few small releases are
enumerated with exact probabilities, their product is formed, and its divergence compared with what
was claimed: no sampling, no tolerance. Each comparison must reject planted mistakes.
"""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import dpframe as dp
from dpframe.accounting import compose
from dpframe.accounting.compose import Profile, composed_epsilon, group_profile, upper_curve
from dpframe.accounting.losses import LevelLaws, composed_delta
from dpframe.accounting.path_recursion import Laws
from dpframe.budget import Budget, PrivacyUnit
from dpframe.errors import BudgetError, OverBudgetError
from dpframe.hierarchy import columns
from dpframe.ledger import Charge
from dpframe.ledger.entries import Entry, _entry_before_first
from dpframe.ledger.reservations import OpenReservation, price_reservation
from dpframe.ledger.state import LedgerState
from dpframe.ledger.store import DELTA_UNIT, EPSILON_UNIT, Totals, units_down
from dpframe.mechanisms import offline_hhh
from dpframe.noise import NoiseTable, halves, laplace_table
from dpframe.questions.hhh.checks import HhhArguments
from dpframe.questions.hhh.mechanism_plan import HhhPlan
from dpframe.questions.hhh.offline import HistogramPlan, OfflinePlan
from tests.members import few, tries

from .enumerate_outputs import every_release, every_selection, more, worst, worst_selection
from .naive_accounting import composed_divergence
from .test_filter import STEP, losses
from .test_planted_bugs import histogram_law

# -- pairs of finite distributions, exactly --------------------------------------------------------

Pair = tuple[tuple[Fraction, ...], tuple[Fraction, ...]]
"""Outputs of one release on two neighbouring tables."""


def hockey_stick(pair: Pair, t: float | Fraction) -> Fraction:
    """D(P || Q) at t = e^epsilon: the definition."""
    rate = Fraction(t)
    return sum((max(a - rate * b, Fraction(0)) for a, b in zip(*pair, strict=True)), Fraction(0))


def both(pair: Pair, t: float | Fraction) -> Fraction:
    return max(hockey_stick(pair, t), hockey_stick(pair[::-1], t))


def product(pairs: Sequence[Pair]) -> Pair:
    """Independent releases together."""
    sides = [itertools.product(*(pair[side] for pair in pairs)) for side in (0, 1)]
    p, q = (tuple(math.prod(masses) for masses in side) for side in sides)
    return p, q


def up(x: Fraction) -> float:
    """The next double that is not below."""
    near = float(x)
    return near if Fraction(near) >= x else math.nextafter(near, math.inf)


def profile_of(
    pair: Pair, epsilons: Sequence[float], curve: Callable[[Pair, float], Fraction] = both
) -> Profile:
    """Points of the exact curve, rounded up."""
    return tuple((e, up(curve(pair, math.exp(e)))) for e in sorted(set(epsilons)))


def law(weights: Sequence[int]) -> tuple[Fraction, ...]:
    return tuple(Fraction(w, sum(weights)) for w in weights)


@st.composite
def pairs(draw: st.DrawFn) -> Pair:
    """Two laws on up to five outputs; some outputs are possible on one side only."""
    n = draw(st.integers(2, 5))
    weights = st.lists(
        st.one_of(st.just(0), st.integers(1, 5), st.integers(1, 1000)), min_size=n, max_size=n
    ).filter(any)
    return law(draw(weights)), law(draw(weights))


epsilon_lists = st.lists(
    st.one_of(st.just(0.0), st.floats(0.001, 1.5)), min_size=1, max_size=6
).filter(any)
DELTAS = st.sampled_from([0.3, 0.1, 0.01, 1e-3, 1e-6])

RESPONSE: Pair = (law([3, 1]), law([1, 3]))
"""Randomized response that tells the truth three times in four: pure, epsilon = ln 3."""

LEAKY: Pair = (law([990, 700, 300, 10, 0]), law([990, 300, 700, 0, 10]))
"""With outputs that are possible on one side only: delta = 1/199 at any epsilon."""

SKEWED: Pair = (law([80, 15, 5]), law([60, 20, 20]))
"""Dearer in one direction than in the other."""

GRID = tuple(np.linspace(0.0, 1.5, 16).tolist())

# -- one release: the hull lies above the curve ----------------------------------------------------


@given(pairs(), epsilon_lists, st.lists(st.floats(1e-6, 200.0), max_size=8))
@tries(50, 300, deadline=None)
def test_the_hull_is_above_the_curve_in_both_directions(
    pair: Pair, epsilons: list[float], points: list[float]
) -> None:
    """Law: upper_curve(t) >= D(P || Q)(t) and D(Q || P)(t) at any t, from any known points."""
    profile = profile_of(pair, epsilons)
    t = np.array(sorted({0.0, 1e-9, 0.5, 1.0, *points, *(math.exp(e) for e in epsilons)}))
    curve = upper_curve(profile, t)
    for x, y in zip(t.tolist(), curve.tolist(), strict=True):
        assert Fraction(y) >= both(pair, x), (x, profile)
    assert np.all(np.diff(curve) <= 0)
    assert np.all(curve <= 1)


@given(pairs(), epsilon_lists)
@tries(25, 100, deadline=None)
def test_one_release_costs_no_more_than_its_last_point(pair: Pair, epsilons: list[float]) -> None:
    """Law: composing a single release gives at most its own epsilon at its own delta, and a bit."""
    profile = profile_of(pair, epsilons)
    e, d = profile[-1]
    alone = composed_epsilon([(profile, 1)], d * (1 + 1e-8) + 1e-14)
    assert alone <= compose.LOSS_STEP * math.ceil(e / compose.LOSS_STEP) * (1 + 1e-8)


def chords_in_epsilon(profile: Profile, t: Any) -> Any:
    """Planted: straight lines between points, drawn over epsilon instead of e^epsilon."""
    right = [(e, d) for e, d in profile]
    left = [(-e, 1 - math.exp(-e) + d * math.exp(-e)) for e, d in reversed(right) if e > 0]
    x, y = np.array([*left, *right]).T
    with np.errstate(divide="ignore"):
        return np.minimum.accumulate(np.interp(np.log(t), x, y))


def points_ahead(profile: Profile, t: Any) -> Any:
    """Planted: between two points the delta of the larger epsilon."""
    x = np.array([math.exp(e) for e, _ in profile])
    y = np.array([d for _, d in profile])
    at = np.minimum(np.searchsorted(x, t * (1 - 1e-12)), len(x) - 1)
    right = y[at]
    mirrored = 1 - t + t * y[np.minimum(np.searchsorted(x, 1 / np.maximum(t, 1e-9)), len(x) - 1)]
    return np.minimum.accumulate(np.where(t >= 1, right, mirrored))


# -- several releases: never below the product -----------------------------------------------------

Claim = Callable[[list[tuple[Profile, int]], float], float]


def covered(
    claim: Claim, releases: Sequence[Pair], delta: float, profiles: Sequence[Profile] | None = None
) -> bool:
    """Whether the product of all releases is (claimed epsilon, delta)-private, exactly."""
    profiles = profiles or [profile_of(pair, GRID) for pair in releases]
    epsilon = claim(list(Counter(profiles).items()), delta)
    if math.isinf(epsilon):
        return True
    return both(product(releases), math.exp(epsilon)) <= Fraction(delta)


CASES = {
    "response x1": [RESPONSE],
    "response x2": [RESPONSE] * 2,
    "response x6": [RESPONSE] * 6,
    "leaky x2": [LEAKY] * 2,
    "leaky x4": [LEAKY] * 4,
    "skewed x3": [SKEWED] * 3,
    "skewed, and turned round": [SKEWED, SKEWED[::-1], SKEWED],
    "all": [RESPONSE, LEAKY, SKEWED, SKEWED[::-1]],
}


@pytest.mark.parametrize("delta", [0.3, 0.1, 0.03, 0.01, 1e-3])
@pytest.mark.parametrize("case", CASES)
def test_the_product_of_releases_is_covered(case: str, delta: float) -> None:
    """Law: D(product) at e^(composed epsilon) <= delta, in both directions, exactly."""
    assert covered(composed_epsilon, CASES[case], delta)


@given(st.lists(pairs(), min_size=1, max_size=5), epsilon_lists, DELTAS)
@tries(40, 1000, deadline=None)
def test_the_product_of_any_releases_is_covered(
    releases: list[Pair], epsilons: list[float], delta: float
) -> None:
    """Law: the same for random releases, known at random points of their curves only."""
    profiles = [profile_of(pair, epsilons) for pair in releases]
    assert covered(composed_epsilon, releases, delta, profiles)


def test_the_claim_is_not_far_above_the_product() -> None:
    """Law: with a fine profile the composed epsilon is the exact one, up to a few grid steps."""
    fine = tuple(np.linspace(0.0, math.log(3), 400).tolist())
    for times in (2, 4, 6):
        profiles = [(profile_of(RESPONSE, fine), times)]
        whole = product([RESPONSE] * times)
        for delta in (0.3, 0.1, 0.03):
            claim = composed_epsilon(profiles, delta)
            assert (
                both(whole, math.exp(claim - 0.01 * times)) > delta >= both(whole, math.exp(claim))
            )


def without_infinity(profiles: list[tuple[Profile, int]], delta: float) -> float:
    """Planted: outputs that are possible on one side only are forgotten."""
    total = None
    for profile, times in profiles:
        loss = compose.loss_distribution.__wrapped__(profile)
        loss._pmf_remove._infinity_mass = 0.0
        for _ in range(times):
            total = loss if total is None else total.compose(loss)
    assert total is not None
    return float(total.get_epsilon_for_delta(delta))


def one_forgotten(profiles: list[tuple[Profile, int]], delta: float) -> float:
    """Planted: one release of the last profile is left out."""
    *rest, (profile, times) = profiles
    return composed_epsilon([*rest, *([(profile, times - 1)] if times > 1 else [])], delta)


def with_curve(curve: Any) -> Claim:
    """Planted: the same composition from another curve."""

    def claim(profiles: list[tuple[Profile, int]], delta: float) -> float:
        from dp_accounting.pld import pld_pmf
        from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

        total = None
        for profile, times in profiles:
            steps = math.ceil(profile[-1][0] / compose.LOSS_STEP)
            losses = np.arange(-steps, steps + 1)
            deltas = np.clip(curve(profile, np.exp(losses * compose.LOSS_STEP)), 0.0, 1.0)
            pmf = pld_pmf.create_pmf_pessimistic_connect_dots(compose.LOSS_STEP, losses, deltas)
            for _ in range(times):
                loss = PrivacyLossDistribution(pmf)
                total = loss if total is None else total.compose(loss)
        assert total is not None
        return float(total.get_epsilon_for_delta(delta))

    return claim


ENDS = (0.0, math.log(3))
"""The curve of randomized response is the chord between these two, and zero from there on."""

PLANTED: dict[str, tuple[Claim, str, float, tuple[float, ...]]] = {
    "mass at infinity dropped": (without_infinity, "leaky x4", 0.01, GRID),
    "one release forgotten": (one_forgotten, "response x6", 0.03, ENDS),
    "one of several kinds forgotten": (one_forgotten, "all", 0.1, (*GRID, *ENDS)),
    "chords in epsilon": (with_curve(chords_in_epsilon), "response x2", 0.3, ENDS),
    "deltas of the next point": (with_curve(points_ahead), "response x2", 0.3, ENDS),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_planted_compositions_are_rejected(bug: str) -> None:
    """Planted bugs: the same comparison rejects each, and passes the shipped code beside it."""
    claim, case, delta, epsilons = PLANTED[bug]
    profiles = [profile_of(pair, epsilons) for pair in CASES[case]]
    assert covered(composed_epsilon, CASES[case], delta, profiles)
    assert not covered(claim, CASES[case], delta, profiles)


def test_the_planted_composition_with_the_shipped_curve_passes() -> None:
    """Control: what the planted curves are rejected for is the curve, not how it is composed."""
    for case in CASES.values():
        assert covered(with_curve(upper_curve), case, 0.1)


def test_a_profile_of_one_direction_is_rejected() -> None:
    """Planted bug: the curve of the cheaper direction claims too little for the dearer one."""
    pair, epsilons = SKEWED, (0.2, 0.6)
    assert any(
        hockey_stick(pair, math.exp(e)) < hockey_stick(pair[::-1], math.exp(e)) for e in epsilons
    )
    right = [profile_of(pair, epsilons)] * 2
    cheap = [profile_of(pair, epsilons, lambda p, t: min(both(p, t), hockey_stick(p, t)))] * 2
    assert covered(composed_epsilon, [pair] * 2, 0.1, right)
    assert not covered(composed_epsilon, [pair] * 2, 0.1, cheap)


@given(
    st.lists(st.tuples(pairs(), st.integers(1, 9)), min_size=1, max_size=3), epsilon_lists, DELTAS
)
@settings(max_examples=25, deadline=None)
def test_composition_is_monotone(
    kinds: list[tuple[Pair, int]], epsilons: list[float], delta: float
) -> None:
    """Law: epsilon does not grow with delta, nor fall with another release or a larger curve."""
    profiles = [(profile_of(pair, epsilons), times) for pair, times in kinds]
    one = composed_epsilon(profiles, delta)
    assert composed_epsilon(profiles, delta / 3) >= one * (1 - 1e-9)
    twice = [(profile, times + 1) for profile, times in profiles]
    assert composed_epsilon(twice, delta) >= one * (1 - 1e-9)
    worse = [(tuple((e, min(1.0, 1.1 * d)) for e, d in profile), n) for profile, n in profiles]
    assert composed_epsilon(worse, delta) >= one * (1 - 1e-9)


def test_nothing_composes_to_nothing() -> None:
    """Law: no release costs no epsilon; an unreachable delta costs infinitely much."""
    assert composed_epsilon([], 0.1) == 0.0
    assert math.isinf(composed_epsilon([(profile_of(LEAKY, GRID), 2)], 1e-3))
    assert math.isinf(composed_epsilon([(profile_of(LEAKY, GRID), 1)], 1e-17))


@pytest.mark.parametrize(
    ("epsilon", "delta", "mechanism", "times"),
    [
        (0.1, 1e-10, "offline", 100),
        (0.1, 1e-12, "gaussian", 30),
        (1.0, 1e-12, "offline", 8),
        pytest.param(8.0, 1e-9, "laplace", 3, marks=pytest.mark.evidence),
    ],
)
def test_rounding_of_the_convolutions_is_covered(
    epsilon: float, delta: float, mechanism: str, times: int
) -> None:
    """Law: repeated direct convolution in extended precision finds no more than was claimed."""
    plan = dp.explain(["a"], epsilon=epsilon, delta=delta, mechanism=mechanism).plan
    pmf = compose.loss_distribution(plan.profile)._pmf_remove.to_dense_pmf()
    lowest, law, power = pmf._lower_loss, pmf._probs.astype(np.longdouble), None
    for _ in range(times):
        power = law if power is None else np.convolve(power, law)
    loss = (np.arange(len(power)) + lowest * times) * np.longdouble(compose.LOSS_STEP)
    infinite = -np.expm1(times * np.log1p(-np.longdouble(pmf._infinity_mass)))
    for total in (1.001 * times * delta + 1e-14, 3 * times * delta, 1e-6):
        claim = composed_epsilon([(plan.profile, times)], total)
        above = loss > claim
        exact = infinite + np.sum(power[above] * -np.expm1(np.longdouble(claim) - loss[above]))
        assert exact <= total


# -- the profile of a plan -------------------------------------------------------------------------

TEST = halves(left=("geometric", 2.0, 3), right=("geometric", 1.0, 2), recentre=False)
RELEASE = laplace_table(1.5, 1)


def tiny(
    *,
    height: int = 1,
    unit: PrivacyUnit | None = None,
    remainder: bool = False,
    epsilon: float = 1.2,
    release: NoiseTable = RELEASE,
) -> HhhPlan:
    """A plan with laws of few atoms, whose budget is exactly what they cost."""
    unit = unit or PrivacyUnit()
    scales = {"left": 2.0, "right": 1.0, "release_scale": 1.5}
    laws = Laws(shape="geometric", test=TEST, release=release, grid=1, delta=1.0, **scales)
    cost = partial(offline_hhh.cost, laws, height=height, remainder=remainder)
    point = ((epsilon, cost(epsilon=epsilon)),)
    ((whole, delta),) = group_profile(point, unit.moves)
    asked = HhhArguments(
        hierarchy=columns(*"abc"[:height]),
        unit=unit,
        budget=Budget(epsilon=whole, delta=min(1.0, delta) * (1 + 1e-9)),
        remainder=remainder,
        confidence=0.9,
    )
    return OfflinePlan(asked=asked, threshold=laws.smallest_threshold(0.25), laws=laws)


def outputs(plan: HhhPlan, table: dict[str, int]) -> dict[Any, Fraction]:
    options = {"threshold": plan.threshold, "remainder": plan.remainder}
    return every_release(table, test=plan.test_noise, release=plan.count_noise, **options)


def neighbours(plan: HhhPlan) -> list[tuple[dict[str, int], dict[str, int]]]:
    """Chains and siblings around the threshold, and tables with one record more."""
    near = range(max(0, plan.threshold - 3), plan.threshold + 4)
    if plan.height == 1:
        tables = [({"a": n}, "a") for n in near] + [({}, "a"), ({"a": 5, "b": 6}, "b")]
    else:
        tables = [({"ab": n}, "ab") for n in near] + [({"ab": 2, "a": n}, "ab") for n in near]
    return [(table, more(table, path)) for table, path in tables]


@pytest.mark.parametrize("remainder", [True, False])
@pytest.mark.parametrize("height", [1, 2])
def test_every_point_of_a_profile_covers_every_neighbour(height: int, remainder: bool) -> None:
    """Law: for all points (e, d) of a plan's profile, the enumerated divergence at e is <= d.

    And the profile is the curve, not a bound far above it: some table attains most of it.
    """
    plan = tiny(height=height, remainder=remainder)
    assert len(plan.profile) == 41
    options = {"test": plan.test_noise, "threshold": plan.threshold, "remainder": remainder}
    laws = [[every_selection(table, **options) for table in pair] for pair in neighbours(plan)]
    for e, d in plan.profile:
        t = math.exp(e)
        exact = max(worst_selection(p, q, plan.count_noise, t) for p, q in laws)
        assert exact <= d
        if height == 1:
            assert exact >= d * (1 - 1e-6) - 1e-9


def test_a_profile_of_half_the_noise_or_one_level_less_is_rejected() -> None:
    """Planted bugs: noise of half the scale, or a profile for one level, exceed the points."""
    plan = tiny(height=2)
    narrow = laplace_table(0.75, 1)
    shallow = tiny(height=1).profile
    options = {"test": plan.test_noise, "threshold": plan.threshold, "remainder": False}
    half, deep, at = 0.0, 0.0, 10
    e, d = plan.profile[at]
    for pair in neighbours(plan):
        p, q = (every_selection(table, **options) for table in pair)
        half = max(half, worst_selection(p, q, narrow, math.exp(e)))
        deep = max(deep, worst_selection(p, q, plan.count_noise, math.exp(e)))
    assert half > d
    assert deep > shallow[at][1]


@pytest.mark.parametrize("remainder", [True, False])
def test_every_point_of_a_baselines_profile_covers_its_histograms(remainder: bool) -> None:
    """Law: the profile of one histogram a level bounds the enumerated outputs at every epsilon."""
    noise = laplace_table(2.0, 3)
    levels = 1 + remainder
    delta = composed_delta(noise, levels=levels, epsilon=0.9)
    laws = LevelLaws(noise=noise, scale=2.0, delta=delta)
    asked = HhhArguments(
        hierarchy=columns("a"),
        unit=PrivacyUnit(),
        budget=Budget(epsilon=0.9, delta=laws.delta),
        mechanism="laplace",
        remainder=remainder,
        confidence=0.9,
    )
    plan = HistogramPlan(asked=asked, threshold=laws.threshold, laws=laws)
    shown = laws.threshold
    pairs = [
        tuple(histogram_law(table, noise, remainder=remainder, shown=shown) for table in pair)
        for pair in (({}, {"a": 1}), ({"a": 5}, {"a": 6}), ({"a": 9}, {"a": 10}))
    ]
    nearest = 1.0
    for e, d in plan.profile:
        exact = max(worst(p, q, math.exp(e)) for p, q in pairs)
        assert exact <= d
        assert composed_divergence(noise, levels=levels, epsilon=e) <= d
        nearest = min(nearest, float(d - exact))
    assert nearest < 1e-3
    forgotten = composed_delta(noise, levels=levels - 1, epsilon=0.3) if remainder else 0.0
    assert forgotten < max(float(worst(p, q, math.exp(0.3))) for p, q in pairs)  # planted


GROUPS = [
    ({"a": 3}, {"a": 5}),
    ({"a": 4}, {"a": 6}),
    ({"a": 2, "b": 4}, {"a": 3, "b": 5}),
    ({"a": 4, "b": 4}, {"a": 5, "b": 5}),
    ({}, {"a": 1, "b": 1}),
    ({"a": 5}, {"a": 5, "b": 1}),
]
"""Tables that differ by up to two records, anywhere."""


@pytest.mark.parametrize("remainder", [True, False])
def test_the_profile_of_a_group_covers_two_records(remainder: bool) -> None:
    """Law: with at most two records of a user, every point covers tables two records apart.

    Planted bug beside it: the profile of one record does not.
    """
    user = PrivacyUnit(user="who", contribution="records", max_contributions=2)
    plan = tiny(unit=user, remainder=remainder, epsilon=0.7)
    single = tiny(remainder=remainder, epsilon=1.4)
    options = {"test": plan.test_noise, "threshold": plan.threshold, "remainder": remainder}
    laws = [tuple(every_selection(table, **options) for table in pair) for pair in GROUPS]
    assert len(plan.profile) == 41
    assert plan.profile[-1][0] == pytest.approx(1.4)
    exceeded = False
    for (e, d), (e1, d1) in zip(plan.profile, single.profile, strict=True):
        exact = max(worst_selection(p, q, plan.count_noise, math.exp(e)) for p, q in laws)
        assert exact <= d, (e, d)
        assert e == pytest.approx(e1)
        exceeded |= exact > d1
    assert exceeded


@given(pairs(), epsilon_lists, st.integers(1, 3))
@tries(25, 80, deadline=None)
def test_a_chain_of_neighbours_is_covered_by_the_group(
    pair: Pair, epsilons: list[float], moves: int
) -> None:
    """Law: if every step of a chain keeps a profile, its ends keep ``group_profile``."""
    p, q = pair
    mixed = [
        tuple((1 - s) * a + s * b for a, b in zip(p, q, strict=True))
        for s in (Fraction(i, moves) for i in range(moves + 1))
    ]
    steps = list(itertools.pairwise(mixed))
    profile = tuple(
        (e, up(max(both(step, math.exp(e)) for step in steps))) for e in sorted(set(epsilons))
    )
    assume(profile[-1][1] < 1)
    for e, d in group_profile(profile, moves):
        assert both(pair, math.exp(e * (1 + 1e-15))) <= Fraction(d) + Fraction(1, 10**14)


PLANS = {
    "offline": {},
    "one level, no remainder": {"hierarchy": ["a"], "remainder": False},
    "laplace": {"mechanism": "laplace"},
    "gaussian": {"mechanism": "gaussian"},
    "three records": {"user": "u", "contribution": "records", "max_contributions": 3},
    "large epsilon": {"epsilon": 8.0},
    "small epsilon": {"epsilon": 0.1, "delta": 1e-8},
}
PARTS = {
    "shares": {"user": "u", "contribution": "share"},
    "long tables": {"epsilon": 1e-4, "delta": 1e-12},
}
"""Whose tests and releases are two parts: test_curves_of_parts.py."""

SINGLE = {"paper": {"mechanism": "paper", "remainder": False, "acknowledge": True}}


def explained(arguments: dict[str, Any]) -> HhhPlan:
    options = {"hierarchy": ["a", "b"], "epsilon": 1.0, "delta": 1e-6, **arguments}
    return dp.explain(**options).plan


@few(5, "name", [*PLANS, *PARTS, *SINGLE])
def test_a_profile_is_a_falling_curve_that_ends_at_the_budget(name: str) -> None:
    """Law: points have growing epsilon >= 0 and delta that does not grow, up to the budget."""
    plan = explained({**PLANS, **PARTS, **SINGLE}[name])
    profile = plan.profile
    assert profile[-1] == (plan.budget.epsilon, plan.budget.delta)
    assert len(profile) == (1 if name in SINGLE else 41)
    e, d = np.array(profile).T
    assert np.all(np.diff(e) > 0)
    assert np.all(e >= 0)
    assert np.all(np.diff(d[:-1]) <= 1e-15)
    assert np.all((d > 0) & (d <= 1))


@pytest.mark.parametrize("name", [name for name in PLANS if name != "three records"])
def test_a_profile_is_what_the_accountant_says_at_every_epsilon(name: str) -> None:
    """Law: the points of a single record are the mechanism's own cost at that epsilon."""
    plan = explained(PLANS[name])
    for e, d in plan.profile[:-1:10]:
        if isinstance(plan.laws, LevelLaws):
            levels = plan.height + plan.remainder
            cost = composed_delta(plan.laws.noise, levels=levels, epsilon=e)
        else:
            assert isinstance(plan.laws, Laws)
            cost = offline_hhh.cost(
                plan.laws, height=plan.height, epsilon=e, remainder=plan.remainder
            )
        assert d == pytest.approx(cost, rel=1e-9)


# -- releases of the real mechanism, and a ledger of them ------------------------------------------


def real_pair(plan: HhhPlan, table: dict[str, int], neighbour: dict[str, int]) -> Pair:
    """Every output of the shipped ``run`` on two tables."""
    p, q = (outputs(plan, t) for t in (table, neighbour))
    keys, none = sorted({*p, *q}), Fraction(0)
    return tuple(p.get(k, none) for k in keys), tuple(q.get(k, none) for k in keys)


@cache
def plans() -> tuple[HhhPlan, HhhPlan]:
    return tiny(), tiny(epsilon=0.8, release=laplace_table(2.5, 1))


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("delta", [0.5, 0.3])
def test_releases_of_the_shipped_mechanism_are_covered_together(times: int, delta: float) -> None:
    """Law: outputs of one to three real releases, enumerated and multiplied, keep the claim."""
    one, other = plans()
    tables = ({"a": 4}, {"a": 5}), ({"a": 3}, {"a": 4}), ({"a": 5, "b": 4}, {"a": 6, "b": 4})
    for pair in tables:
        real = [real_pair(one, *pair), real_pair(other, *pair), real_pair(one, *pair)][:times]
        profiles = [one.profile, other.profile, one.profile][:times]
        assert covered(composed_epsilon, real, delta, profiles)
    if times == 3 and delta == 0.5:  # planted: all but one were forgotten
        cheap = composed_epsilon([(one.profile, 1)], delta)
        assert both(product(real), math.exp(cheap)) > delta


def opened(epsilon: float, delta: float, accountant: str = "pld") -> LedgerState:
    """A ledger that was just made."""
    now = Totals(
        ledger_id="x",
        accountant=accountant,  # type: ignore[arg-type]
        epsilon=units_down(epsilon, EPSILON_UNIT),
        delta=units_down(delta, DELTA_UNIT),
        spent_epsilon=0,
        spent_delta=0,
    )
    return LedgerState(now, _entry_before_first(now), ())


@dataclass(frozen=True)
class Law:
    """A plan of nothing but a law."""

    profile: Profile
    request: dict[str, Any] = field(default_factory=dict)
    unit: PrivacyUnit = field(default_factory=PrivacyUnit)

    @property
    def budget(self) -> Any:
        return SimpleNamespace(epsilon=self.profile[-1][0], delta=self.profile[-1][1])


def charged(standing: LedgerState, profile: Profile) -> LedgerState:
    """A ledger's standing after one more release; OverBudgetError if it does not fit."""
    cost = Charge(
        release_id="x",
        time="",
        source="",
        profile=lambda: profile,
        **dict(zip(("epsilon", "delta"), profile[-1], strict=True)),
        receipt=json.dumps({"neighbours": PrivacyUnit().sentence}),
    )
    return after(standing, standing.with_charge(cost, profile)[0])


def reserving(standing: LedgerState, profile: Profile, releases: int, delta: float) -> LedgerState:
    """A ledger's standing after a reservation."""
    law = Law(profile)
    number, cost = price_reservation(law, releases, delta)
    return after(standing, standing.with_reservation(law, number, cost))


def after(standing: LedgerState, entry: Entry) -> LedgerState:
    now = replace(standing.now, spent_epsilon=entry.spent_epsilon, spent_delta=entry.spent_delta)
    left, known = json.loads(entry.open or "{}"), list(standing.held)
    if entry.releases is not None:
        profile = tuple((e, d) for e, d in json.loads(entry.profile))
        neighbours = json.loads(entry.receipt)["neighbours"]
        made = {"reservation_id": entry.release_id, "profile": profile, "neighbours": neighbours}
        known.append(OpenReservation(releases=entry.releases, left=entry.releases, **made))
    held = tuple(replace(h, left=left[h.reservation_id]) for h in known if h.reservation_id in left)
    return LedgerState(now, entry, held)


def with_delta(profile: Profile) -> Profile:
    """Every release of a ledger has a positive delta."""
    return tuple((e, max(d, 1e-9)) for e, d in profile)


@given(
    st.lists(pairs(), min_size=1, max_size=3),
    epsilon_lists,
    st.floats(0.2, 6.0),
    st.sampled_from([0.5, 0.2, 0.05, 1e-3]),
    st.sampled_from([0, 1, 2]),
)
@tries(25, 60, deadline=None)
def test_what_a_ledger_let_through_keeps_its_totals(
    releases: list[Pair], epsilons: list[float], total: float, delta: float, reserve: int
) -> None:
    """Law: the exact product of all accepted releases is (total epsilon, total delta)-private.

    The first of them is reserved several times, if that fits, and drawn as often. What is spent is
    never more than the plain sum.
    """
    standing, accepted = opened(total, delta), []
    law = with_delta(profile_of(releases[0], epsilons))
    with suppress(OverBudgetError, BudgetError):
        standing = reserving(standing, law, max(1, reserve), delta * 0.9)
    for pair in [releases[0]] * reserve + releases:
        profile = with_delta(profile_of(pair, epsilons))
        try:
            standing = charged(standing, profile)
        except OverBudgetError:
            continue
        accepted.append(pair)
    if accepted:
        assert both(product(accepted), math.exp(total)) <= Fraction(delta)


def test_a_ledger_that_forgets_a_release_is_rejected() -> None:
    """Planted bug: a reservation that pays for one release too many lets too much through."""
    profile = with_delta(profile_of(RESPONSE, GRID))
    releases = 5
    standing = reserving(opened(9.0, 0.5), profile, releases, 0.05)
    cost = float(standing.now.spending.epsilon)
    assert both(product([RESPONSE] * releases), math.exp(cost)) <= Fraction(0.05)
    assert both(product([RESPONSE] * (releases + 1)), math.exp(cost)) > Fraction(0.05)
    for _ in range(releases):
        standing = charged(standing, profile)
    assert standing.now.spending.epsilon == cost
    assert standing.held == ()
    assert charged(standing, profile).now.spending.epsilon == pytest.approx(cost + profile[-1][0])


def test_pld_holds_more_than_the_sum_where_it_is_reserved() -> None:
    """Law: a reservation costs less than the sum; without one "pld" is the sum, release by release.

    The figures of docs/decisions/0011-what-a-ledger-adds-up.md: what (3, 1e-5) holds.
    """
    plan = explained({"epsilon": 0.3, "delta": 1e-7, "mechanism": "gaussian"})
    standing = reserving(opened(1.5, 1e-5), plan.profile, 12, 5e-6)
    assert standing.now.spending.epsilon < 1.5
    for accountant in ("sum", "pld"):
        standing, number = opened(1.5, 1e-5, accountant), 0
        with suppress(OverBudgetError):
            while True:
                standing, number = charged(standing, plan.profile), number + 1
        assert number == 5
    small = Law(explained({"hierarchy": list("abcd"), "epsilon": 0.1, "delta": 1e-8}).profile)
    costs = [
        price_reservation(small, n, 1e-5)[1][0] <= units_down(3.0, EPSILON_UNIT) for n in (112, 113)
    ]
    assert costs == [True, False]


def test_what_shapes_the_law_decides_whether_a_reservation_pays() -> None:
    """Law: the same law, computed anew with other rounding, is paid for; any other is not."""
    plans = {
        "itself": explained({}),
        "another column": explained({"hierarchy": ["x", "y"]}),
        "a level more": explained({"hierarchy": ["a", "b", "c"]}),
        "no remainder": explained({"remainder": False}),
        "another share": explained({"release_share": 0.3}),
        "another delta": explained({"delta": 1.01e-6}),
        "users": explained({"user": "u", "contribution": "records", "max_contributions": 1}),
        "counts": dp.explain_tree_counts(["a", "b"], epsilon=1.0, delta=1e-6).plan,
    }
    law = plans["itself"]
    (held,) = reserving(opened(9.0, 0.1), law.profile, 3, 1e-5).held
    paid = {n for n, p in plans.items() if held.pays_for(p.profile, p.unit.sentence)}
    assert paid == {"itself", "another column"}
    for wiggle in (1 - 1e-9, 1 + 1e-9):
        other = (*((e, d * wiggle) for e, d in law.profile[:-1]), law.profile[-1])
        assert held.pays_for(other, law.unit.sentence)
        assert all(a <= b for (_, a), (_, b) in zip(other, held.profile, strict=True))


# -- laws, numbers and reservations that are chosen after looking ----------------------------------

Buy = Callable[[Any, Profile], Any]
"""A ledger's rule: its state after one more release, or OverBudgetError."""


def composing(state: tuple[LedgerState, Counter[Profile]], profile: Profile) -> Any:
    """Planted: the rule without reservations. All releases so far compose, at the total delta."""
    standing, profiles = state
    profiles = profiles + Counter([profile])
    delta = float(standing.now.delta * DELTA_UNIT)
    together = composed_epsilon(list(profiles.items()), delta)
    plain = [sum(n * p[-1][i] for p, n in profiles.items()) for i in (0, 1)]
    total = standing.now.epsilon * float(EPSILON_UNIT)
    if together > total and not (plain[0] <= total and plain[1] <= delta):
        raise OverBudgetError("over")
    return standing, profiles


def adaptive(
    buy: Buy, start: Any, menu: Sequence[tuple[Profile, Pair]], total: float, depth: int
) -> Fraction:
    """The largest divergence at e^total of any policy, exactly: what is released next, if anything,
    may depend on every earlier output, and ``buy`` says what a ledger lets through."""
    t = Fraction(math.exp(total))

    @cache
    def bought(*profiles: Profile) -> Any:
        before = bought(*profiles[:-1]) if profiles else start
        try:
            return buy(before, profiles[-1]) if profiles and before is not None else before
        except OverBudgetError:
            return None

    def best(p: Fraction, q: Fraction, so_far: tuple[Profile, ...]) -> Fraction:
        found = [max(p - t * q, Fraction(0))]
        if p and len(so_far) < depth:
            for profile, pair in menu:
                if bought(*so_far, profile) is not None:
                    ways = zip(*pair, strict=True)
                    found.append(
                        sum((best(p * a, q * b, (*so_far, profile)) for a, b in ways), found[0] * 0)
                    )
        return max(found)

    return best(Fraction(1), Fraction(1), ())


FINE = tuple(np.linspace(0.0, math.log(3), 200).tolist())


def looking() -> tuple[float, float, list[tuple[Profile, Pair]]]:
    """Totals, and releases of which "pld" without reservations lets through too much."""
    total = 1.2
    delta = float(both(product([RESPONSE, SKEWED]), math.exp(total))) * 1.05
    fail = Fraction(delta) * Fraction(97, 100)
    failing: Pair = ((1 - fail, fail, Fraction(0)), (1 - fail, Fraction(0), fail))
    wide = tuple(np.linspace(0.0, 1.39, 200).tolist())
    laws = [
        (with_delta(profile_of(RESPONSE, FINE)), RESPONSE),
        (with_delta(profile_of(SKEWED, wide)), SKEWED),
        (with_delta(profile_of(failing, (1e-4,))), failing),
    ]
    return total, delta, [(law, way) for law, pair in laws for way in (pair, pair[::-1])]


def test_laws_chosen_after_looking_are_covered_and_were_not_by_composing_all() -> None:
    """Law: whatever is chosen after looking at earlier answers, a ledger keeps its totals, exactly.

    Planted: composing all releases so far, as "pld" did, lets a policy through that exceeds them by
    a tenth. First a randomized response. After one answer a response of a similar kind, after the
    other a release that fails with probability delta: both sequences fit, the choice does not.
    """
    total, delta, menu = looking()
    standing = opened(total, delta)
    assert adaptive(composing, (standing, Counter()), menu, total, depth=2) > (
        Fraction(delta) * Fraction(11, 10)
    )
    assert adaptive(charged, standing, menu, total, depth=2) <= Fraction(delta)


@pytest.mark.parametrize("reserved", ["the same", "others"])
def test_a_reservation_that_is_mixed_with_other_releases_keeps_the_totals(reserved: str) -> None:
    """Law: two releases that are reserved, and others on top, in any order, each chosen after
    looking at all answers, are (total epsilon, total delta)-private, exactly.

    Planted: a reservation that was not paid for, beside the same releases, exceeds them.
    """
    _, delta, menu = looking()
    law = menu[0][0]
    on_top = menu if reserved == "the same" else menu[2:]
    within = reserving(opened(9.0, 0.9), law, 2, 0.1)
    cost = within.now.spending
    for extra in (0.0, 1.11):
        total = cost.epsilon + extra
        limit = cost.delta + delta
        standing = reserving(opened(total, limit), law, 2, 0.1)
        exact = adaptive(charged, standing, [*menu[:2], *on_top], total, depth=3)
        assert exact <= Fraction(limit)
    free = replace(standing, now=replace(standing.now, spent_epsilon=0, spent_delta=0))
    assert adaptive(charged, free, [*menu[:2], *on_top], total, depth=4) > Fraction(limit)


def together(parts: Sequence[tuple[int, Any, float]]) -> tuple[int, Any, float]:
    low, law, infinite = parts[0]
    for other in parts[1:]:
        low, law = low + other[0], np.convolve(law, other[1])
        infinite = 1 - (1 - infinite) * (1 - other[2])
    return low, law, infinite


def at_least(loss: tuple[int, Any, float], t: Any) -> Any:
    """A lower bound on the divergence at every t."""
    ratio = np.exp(-(loss[0] + np.arange(len(loss[1]))) * STEP)
    return loss[2] + np.array([(loss[1] * np.maximum(0, 1 - x * ratio)).sum() for x in t])


@pytest.mark.parametrize(
    ("epsilon", "delta", "more", "claimed", "reached"),
    [(1.0, 1e-6, 4, 1.4672, 1.53e-3), (0.9, 1e-7, 5, 1.2618, 1.66e-3)],
)
def test_keys_and_weights_chosen_after_looking_overspent_what_was_composed(
    epsilon: float, delta: float, more: int, claimed: float, reached: float
) -> None:
    """Law: a policy of shipped releases that composing all of them lets through beyond its totals,
    by a lower bound on its true delta, is refused by a ledger; every budget in it is the same.

    First counts of one column with almost all of the budget on the leaves. Depending on them, once
    the counts of listed keys, or several more of the first kind. Each way composes to less than
    (claimed, 1e-3), the choice between them has delta 1.5e-3 there and more.
    """
    budget, total = {"epsilon": epsilon, "delta": delta}, 1e-3
    first = dp.explain_tree_counts(["c"], **budget, level_weights=[1e-3, 1]).plan
    keyed = dp.explain_tree_counts(["c"], **budget, keys=["a", "b"]).plan
    ways = [[(first.profile, 1), (keyed.profile, 1)], [(first.profile, 1 + more)]]
    assert max(composed_epsilon(way, total) for way in ways) < claimed
    one, once = (together([losses(n, False) for n in plan.laws.noises]) for plan in (first, keyed))
    loss = (one[0] + np.arange(len(one[1]))) * STEP
    left = np.exp(claimed - loss)  # e^epsilon that is left after each answer
    then = np.maximum(at_least(once, left), at_least(together([one] * more), left))
    assert one[2] + float((one[1] * then).sum()) > reached
    standing = charged(opened(claimed, total), first.profile)
    for profile in (first.profile, keyed.profile):
        with pytest.raises(OverBudgetError):
            charged(standing, profile)
