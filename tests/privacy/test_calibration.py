"""Every calibrated plan is recomputed: its cost is within the budget, strictly.

The recursion is cross-checked against a naive twin (``naive_accounting``), against privacy loss
distributions (dp-accounting) and against enumeration. Upper bounds are compared with ``<=``;
``approx`` appears only where two upper bounds should be close.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

import dpframe as dp
from dpframe.accounting.losses import LevelLaws
from dpframe.accounting.path_recursion import (
    Laws,
    ReleaseCurve,
    geometric_laws,
    one_direction,
    path_delta,
)
from dpframe.budget import Budget, per_record
from dpframe.errors import ThresholdError
from dpframe.mechanisms import level_counts as level_histograms
from dpframe.mechanisms import offline_hhh
from dpframe.noise import NoiseTable, halves, laplace_table
from dpframe.questions.hhh.mechanism_plan import HhhPlan
from dpframe.questions.hhh.selection import default_release_share, gaussian_laws
from tests.members import in_turn

from .enumerate_outputs import every_selection, more, worst_selection
from .naive_accounting import path_divergence, release_divergence


def plan_of(height: int, epsilon: float = 1.0, delta: float = 1e-6, **more: Any) -> HhhPlan:
    return dp.explain(dp.path("p", depth=height), epsilon=epsilon, delta=delta, **more).plan


def recomputed(plan: HhhPlan) -> float:
    """Delta of the laws as they are drawn: the test law centred for the threshold."""
    assert isinstance(plan.laws, Laws)
    drawn, epsilon = replace(plan.laws, test=plan.test_noise), plan.budget.epsilon
    return offline_hhh.cost(drawn, height=plan.height, epsilon=epsilon, remainder=plan.remainder)


def geometric(height: int, epsilon: float, delta: float, remainder: bool = True) -> Laws:
    """Laws of the shape that the choice begins with."""
    share = default_release_share(height, remainder)
    given = {"height": height, "epsilon": epsilon, "delta": delta, "remainder": remainder}
    return geometric_laws(**given, release_share=share, grid=1)


# -- strictly within the budget ----------------------------------------------------------------


@in_turn(
    ("height", [1, 2, 4, pytest.param(8, marks=pytest.mark.evidence)]), ("remainder", [True, False])
)
def test_the_recomputed_cost_of_every_plan_is_within_its_budget(
    height: int, remainder: bool
) -> None:
    """Law: delta(calibrated) <= delta, on a grid of epsilon, delta and thresholds."""
    for epsilon, delta in itertools.product((0.1, 1.0, 5.0), (1e-9, 1e-6, 1e-2)):
        plan = plan_of(height, epsilon, delta, remainder=remainder)
        for threshold in (None, plan.threshold + 3, 4 * plan.threshold):
            plan = plan_of(height, epsilon, delta, remainder=remainder, threshold=threshold)
            at = (height, epsilon, delta, threshold)
            assert recomputed(plan) <= delta, at
            assert plan.laws.delta <= delta, at
            assert plan.delta_spent <= delta, at
            assert plan.threshold >= plan.test_noise.highest + 2, at


@in_turn(
    ("remainder", [True, False]),
    (
        "share",
        [0.05, 0.5, 0.95, *(pytest.param(s, marks=pytest.mark.evidence) for s in (0.2, 0.8))],
    ),
)
def test_the_cost_is_within_the_budget_at_every_release_share(
    share: float, remainder: bool
) -> None:
    """Law: dividing epsilon differently between test and release never leaves the budget."""
    for height in (1, 3, 8):
        plan = plan_of(height, remainder=remainder, release_share=share)
        assert recomputed(plan) <= 1e-6


@in_turn(("remainder", [True, False]), ("shape", ["gaussian-left", "gaussian"]))
def test_the_cost_of_curved_shapes_is_within_the_budget(shape: str, remainder: bool) -> None:
    """Law: shapes that the choice may pass over are calibrated as strictly."""
    for height, epsilon, delta in ((2, 1.0, 1e-3), (4, 2.0, 1e-6), (8, 1.0, 1e-6)):
        common = {"height": height, "epsilon": epsilon, "delta": delta, "remainder": remainder}
        laws = gaussian_laws(shape, base=geometric(**common), **common)  # type: ignore[arg-type]
        assert laws.shape == shape
        assert offline_hhh.cost(laws, height=height, epsilon=epsilon, remainder=remainder) <= delta


@pytest.mark.parametrize("remainder", [True, False])
def test_the_cost_of_shares_is_within_the_budget(remainder: bool) -> None:
    """Law: the linear bound for users as shares (256 units each) holds for every plan."""
    for height, epsilon, delta in itertools.product((1, 4, 16), (0.5, 2.0), (1e-9, 1e-3)):
        plan = plan_of(height, epsilon, delta, user="u", contribution="share", remainder=remainder)
        assert recomputed(plan) <= delta
        assert plan.threshold * plan.grid >= plan.test_noise.highest + 2 * plan.grid


@in_turn(("height", [1, 4]), ("mechanism", ["laplace", "gaussian"]))
def test_the_composed_cost_of_the_baselines_is_within_the_budget(
    mechanism: str, height: int
) -> None:
    """Law: the baselines compose all levels, and the root with the remainder, within delta."""
    laws = plan_of(height, mechanism=mechanism).laws
    assert isinstance(laws, LevelLaws)
    cost = level_histograms.level_histograms_cost(laws, height=height, epsilon=1.0, remainder=True)
    assert cost <= 1e-6


@pytest.mark.parametrize("height", [48, pytest.param(128, marks=pytest.mark.evidence)])
def test_calibration_reaches_the_greatest_height(height: int) -> None:
    """Law: 128 levels, the most that a hierarchy may have, stay within the budget."""
    assert recomputed(plan_of(height)) <= 1e-6


def test_narrower_or_shorter_noise_than_calibrated_is_rejected() -> None:
    """Negative control: a scale 10 % smaller, or ends cut shorter, exceed the budget."""
    plan = plan_of(4)
    laws = plan.laws
    assert isinstance(laws, Laws)

    def cost(left: float, right: float, lowest: int, highest: int) -> float:
        test = halves(
            left=("geometric", left * laws.left, lowest),
            right=("geometric", right * laws.right, highest),
            recentre=False,
        )
        return path_delta(test, laws.release, height=4, epsilon=1.0, remainder=True)

    low, high = -laws.test.lowest, laws.test.highest
    assert cost(1, 1, low, high) <= 1e-6
    assert cost(0.9, 1, low, high) > 1e-6
    assert cost(1, 0.9, low, high) > 1e-6
    assert cost(1, 1, 3 * low // 4, high) > 1e-6
    assert cost(1, 1, low, high - 2) > 1e-6


# -- what the budget buys ----------------------------------------------------------------------


@pytest.mark.parametrize(("height", "most"), [(4, 30), (8, 32), (32, 35)])
@pytest.mark.parametrize("remainder", [True, False])
def test_the_least_threshold_grows_only_slowly_with_height(
    height: int, most: int, remainder: bool
) -> None:
    """Law: at epsilon 1 and delta 1e-6 thresholds of 30 to 35 serve heights from 4 to 32."""
    plan = plan_of(height, remainder=remainder)
    assert plan.threshold <= most
    assert plan.chance_at_threshold >= 0.25


def slowly_least_right_half(laws: Laws, height: int, epsilon: float, delta: float) -> int:
    """The shortest right half that any search could find beside the rest of the laws."""
    for bound in itertools.count(1):
        test = halves(
            left=("geometric", laws.left, -laws.test.lowest),
            right=("geometric", laws.right, bound),
            recentre=False,
        )
        trial = replace(laws, test=test)
        if offline_hhh.cost(trial, height=height, epsilon=epsilon, remainder=True) <= delta:
            return bound
    raise AssertionError


@pytest.mark.parametrize(
    ("height", "epsilon", "delta"),
    [(1, 1.0, 1e-6), (4, 1.0, 1e-6), (4, 0.1, 1e-2), (8, 0.05, 1e-3)],
)
def test_the_right_half_is_as_short_as_a_slow_search_finds(
    height: int, epsilon: float, delta: float
) -> None:
    """Law: thresholds follow the right half, and trying every shorter one finds none within the
    budget, at small epsilons too."""
    laws = geometric(height, epsilon, delta)
    assert laws.test.highest == slowly_least_right_half(laws, height, epsilon, delta)


@pytest.mark.parametrize(
    ("height", "epsilon", "delta", "feasible"),
    [(4, 0.01, 1e-4, 645), (1, 0.01, 1e-4, 529), (4, 0.001, 1e-6, 9861)],
)
def test_thresholds_at_small_epsilons_are_the_feasible_ones(
    height: int, epsilon: float, delta: float, feasible: int
) -> None:
    """Law: a search that stops at half of its start gave 914, 857 and 12683."""
    assert plan_of(height, epsilon, delta).threshold <= feasible


@pytest.mark.parametrize("epsilon", [0.25, 1.0, 2.0])
def test_the_released_count_costs_the_same_at_every_height_above_two(epsilon: float) -> None:
    """Law: the standard deviation of a released residual is 4.2 / epsilon, whatever the height."""
    deviations = [plan_of(height, epsilon).count_noise.sd * epsilon for height in (2, 4, 16)]
    assert all(4.0 < sd < 4.3 for sd in deviations)
    assert max(deviations) - min(deviations) < 1e-6


def test_a_threshold_below_the_least_private_one_is_refused() -> None:
    """Law: the least threshold of a plan is accepted, one less is an error that names it."""
    least = plan_of(4).threshold
    assert plan_of(4, threshold=least).threshold == least
    with pytest.raises(ThresholdError, match=f"smallest private threshold {least} for"):
        plan_of(4, threshold=least - 1)


# -- the recursion against its twins -----------------------------------------------------------


def never_below_and_close(test: NoiseTable, release: NoiseTable, most: float, **at: Any) -> None:
    """The recursion and its naive twin, in both directions."""
    for more_first in (False, True):
        naive = path_divergence(test, release, **at, more_first=more_first)
        ours = one_direction(test, release, **at, more_first=more_first)
        assert naive <= ours <= most * naive + 1e-13


CROSS_CHECKED = [(1, 1.0, 1e-6), (1, 3.0, 1e-3), (2, 2.0, 1e-3), (3, 3.0, 1e-2)]


@pytest.mark.parametrize("remainder", [True, False])
@pytest.mark.parametrize(("height", "epsilon", "delta"), CROSS_CHECKED)
def test_the_recursion_is_never_below_its_naive_twin_and_close_to_it(
    height: int, epsilon: float, delta: float, remainder: bool
) -> None:
    """Law: hull, grid and chords only round up, by less than a thousandth."""
    laws = geometric(height, epsilon, delta, remainder)
    for at in (epsilon, 0.8 * epsilon):
        setting = {"height": height, "epsilon": at, "remainder": remainder}
        never_below_and_close(laws.test, laws.release, 1.001, **setting)


@pytest.mark.parametrize("remainder", [True, False])
def test_thinning_the_hull_of_a_long_curved_law_only_rounds_up(remainder: bool) -> None:
    """Law: polygons of fewer corners around a curved law stay upper bounds, and close ones."""
    test = halves(left=("gaussian", 90.0, 420), right=("gaussian", 60.0, 280), recentre=False)
    release = laplace_table(6.0, 60)
    for epsilon in (0.2, 0.25, 0.5):
        setting = {"height": 1, "epsilon": epsilon, "remainder": remainder}
        never_below_and_close(test, release, 1.02, **setting)


@pytest.mark.evidence
@pytest.mark.parametrize("remainder", [True, False])
def test_the_recursion_for_a_curved_law_over_two_levels_only_rounds_up(remainder: bool) -> None:
    """Law: the same over two levels, where chords of the first curve enter the second."""
    test = halves(left=("gaussian", 30.0, 140), right=("geometric", 6.0, 60), recentre=False)
    setting = {"height": 2, "epsilon": 0.4, "remainder": remainder}
    never_below_and_close(test, laplace_table(6.0, 60), 1.01, **setting)


def loss(p: dict[object, float], q: dict[object, float], *, pessimistic: bool):
    keys = {**p, **q}
    logs = [{k: math.log(law[k]) for k in keys if law.get(k, 0.0) > 0.0} for law in (p, q)]
    return pld.from_two_probability_mass_functions(
        *logs,
        pessimistic_estimate=pessimistic,
        value_discretization_interval=1e-5,
        log_mass_truncation_bound=-math.inf,
    )


@pytest.mark.parametrize("release", [laplace_table(3.0, 46), laplace_table(1.3, 4)])
def test_the_release_curve_is_the_hockey_stick_of_the_table(release: NoiseTable) -> None:
    """Law: the curve equals the sum of the definition and lies between dp-accounting's bounds."""
    curve = ReleaseCurve(release)
    values = range(release.lowest, release.highest + 1)
    p = dict(zip(values, release.pmf.tolist(), strict=True))
    q = {v + 1: mass for v, mass in p.items()}
    low, high = (loss(p, q, pessimistic=pessimistic) for pessimistic in (False, True))
    for epsilon in (-0.5, 0.0, 0.2, 1 / 3, 0.5, 0.9):
        ours = float(curve(np.array([math.exp(epsilon)]))[0])
        for more_first in (False, True):  # both directions: the law is symmetric
            exact = release_divergence(release, math.exp(epsilon), more_first=more_first)
            assert ours == pytest.approx(exact, rel=1e-12, abs=1e-15)
        if epsilon >= 0:
            assert low.get_delta_for_epsilon(epsilon) <= ours + 1e-13
            assert ours <= high.get_delta_for_epsilon(epsilon) + 1e-13


@pytest.mark.parametrize("remainder", [True, False])
def test_delta_falls_with_epsilon_and_rises_with_height(remainder: bool) -> None:
    """Law: the accountant is monotone in what it should be monotone in."""
    laws = plan_of(4, remainder=remainder).laws
    assert isinstance(laws, Laws)

    def cost(height: int, epsilon: float) -> float:
        return path_delta(
            laws.test, laws.release, height=height, epsilon=epsilon, remainder=remainder
        )

    over_epsilon = [cost(4, epsilon) for epsilon in (0.2, 0.5, 0.8, 1.0, 1.5, 3.0)]
    assert over_epsilon == sorted(over_epsilon, reverse=True)
    over_height = [cost(height, 1.0) for height in (1, 2, 3, 4, 5, 8)]
    assert over_height == sorted(over_height)


def test_every_shift_of_the_test_law_costs_the_same() -> None:
    """Law: centring the test for a threshold is free while single records stay out of reach."""
    plan = plan_of(4)
    assert isinstance(plan.laws, Laws)
    at = {"height": 4, "epsilon": 1.0, "remainder": True}
    for threshold in (plan.threshold, 2 * plan.threshold, 1000):
        drawn = plan.laws.median_test(threshold)
        cost = path_delta(drawn, plan.count_noise, **at, threshold=threshold)
        assert cost == plan.laws.delta


# -- groups of records -------------------------------------------------------------------------


@pytest.mark.parametrize("moves", [1, 2, 3, 10, 1000])
def test_the_budget_of_a_record_adds_up_to_at_most_the_budget_of_the_group(moves: int) -> None:
    """Law: m epsilon' <= epsilon and delta' (1 + e^eps' + ... ) <= delta, in exact fractions."""
    for epsilon, delta in itertools.product((0.1, 1.0, 7.3), (1e-12, 1e-6, 0.1)):
        record = per_record(Budget(epsilon=epsilon, delta=delta), moves)
        assert Fraction(record.epsilon) * moves <= Fraction(epsilon)
        step = Fraction(math.nextafter(math.exp(record.epsilon), 0.0))
        group, power = Fraction(0), Fraction(1)
        for _ in range(moves):
            group, power = group + power, Fraction(float(power * step))
        assert Fraction(record.delta) * group <= Fraction(delta)


@pytest.mark.parametrize("moves", [2, 3])
def test_a_group_of_records_stays_within_the_budget_of_the_user(moves: int) -> None:
    """Law: laws calibrated for one record of ``moves`` cover a user's records, enumerated.

    Negative control: laws calibrated for one record do not cover two or three.
    """
    budget, t = Budget(epsilon=2.0, delta=1e-3), math.exp(2.0)
    unit = {"user": "u", "contribution": "records", "max_contributions": moves}

    def furthest(plan: HhhPlan) -> float:
        largest = 0.0
        options = {"test": plan.test_noise, "threshold": plan.threshold, "remainder": True}
        for residual in range(0, plan.threshold - plan.test_noise.lowest + 2, 2):
            base = {"aa": residual, "ba": residual // 2}
            p = every_selection(base, **options)
            for elsewhere in range(moves):
                user = more(more(base, "aa", moves - elsewhere), "ba", elsewhere)
                q = every_selection(user, **options)
                largest = max(largest, worst_selection(p, q, plan.count_noise, t))
        return largest

    assert 0 < furthest(plan_of(2, budget.epsilon, budget.delta, **unit)) <= budget.delta
    assert furthest(plan_of(2, budget.epsilon, budget.delta)) > 10 * budget.delta
