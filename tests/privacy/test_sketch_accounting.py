"""Noise and thresholds for private Misra-Gries sketches: within the budget, strictly, and no more.

Closed laws are compared with direct convolutions and with sums over all outcomes. Upper bounds are
compared with ``<=``; ``approx`` appears only where two upper bounds should be close.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import partial
from typing import Any

import pytest

from dpframe.accounting.shifts import BoundedLaw, Move, noise_table, unbounded_delta
from dpframe.accounting.sketch_lattice import LatticeLaws, lattice_delta, lattice_laws, pure_scale
from dpframe.accounting.sketch_stream import (
    GshmLaws,
    SketchLaws,
    gshm_delta,
    gshm_laws,
    sketch_delta,
    sketch_laws,
    standard_unshared,
    variant_unshared,
)
from dpframe.errors import BudgetError
from dpframe.noise import halves
from tests.members import some

from .naive_accounting import composed_divergence, divergence_by_sums, moved_divergence

BUDGET = {"epsilon": 1.0, "delta": 1e-6}


COSTS: dict[type, tuple[Any, str]] = {
    SketchLaws: (sketch_delta, "noise family scale theta sketches unshared"),
    LatticeLaws: (lattice_delta, "noise family scale theta sketches merged"),
    GshmLaws: (gshm_delta, "noise scale t changed sketches"),
}


def recomputed(laws: SketchLaws | LatticeLaws | GshmLaws, epsilon: float, **other: object) -> float:
    """Delta of the laws at ``epsilon``, with parts replaced by ``other``."""
    cost, names = COSTS[type(laws)]
    parts = {name: getattr(laws, name) for name in names.split()} | other
    if isinstance(laws, LatticeLaws):
        parts["counters"] = laws.unit - 1
    return cost(**parts, epsilon=epsilon)


# -- what the budget buys ----------------------------------------------------------------------

LEVELS = (1, 4, 8, 32)
PURE_THETAS = {False: (17, 71, 147, 629), True: (24, 96, 197, 828)}
"""Least thresholds at the pure scale h/eps with unbounded noise, by ``standard`` (k = 1000)."""


@pytest.mark.parametrize("standard", [False, True])
def test_exact_thresholds_of_pure_laplace_noise(standard: bool) -> None:
    """Law: at eps = 1, delta = 1e-6 the least integer threshold is the published one.

    The printed 1 + 2 ln(3/delta)/eps is 31, 131, 273, 1177. Calibrated laws are never worse: they
    cut the table where its tail does not pay, and at h = 32 take narrower noise.
    """
    unshared = standard_unshared(1000) if standard else variant_unshared()
    for levels, theta in zip(LEVELS, PURE_THETAS[standard], strict=True):
        scale = levels * (1 + 1e-6)
        noise = noise_table("laplace", scale, math.ceil(scale * math.log(1e9 * levels / 1e-6)))
        common: Any = {"scale": scale, "sketches": levels, "unshared": unshared, "epsilon": 1.0}
        cost = partial(sketch_delta, noise, family="laplace", **common)
        assert cost(theta=theta) <= 1e-6 < cost(theta=theta - 1)
        assert math.sqrt(2) * noise.sd == pytest.approx(2.0 * levels, rel=0.05)
        asked: Any = {**BUDGET, "family": "laplace", "standard": standard, "counters": 1000}
        laws = sketch_laws(sketches=levels, **asked)
        assert laws.theta <= theta
        assert laws.sd <= 1.0001 * math.sqrt(2) * noise.sd


@pytest.mark.parametrize(
    ("levels", "sd", "theta"), [(1, 6.2, 33), (4, 12.4, 67), (8, 17.5, 96), (32, 34.9, 199)]
)
def test_calibrated_gaussian_noise(levels: int, sd: float, theta: int) -> None:
    """Law: deviation of a counter and threshold at eps = 1, delta = 1e-6."""
    laws = sketch_laws(sketches=levels, **BUDGET, family="gaussian")
    assert (laws.theta, laws.sd < sd) == (theta, True)
    assert laws.sd == pytest.approx(math.sqrt(2) * laws.noise.sd, rel=1e-12)


@pytest.mark.parametrize(
    ("levels", "sd", "threshold"), [(1, 4.4, 23), (4, 8.7, 47), (8, 12.3, 68), (32, 24.7, 141)]
)
def test_calibrated_gaussian_noise_on_the_lattice(levels: int, sd: float, threshold: float) -> None:
    """Law: at k = 1000 the post-processed sketch is released with at most this noise."""
    laws = lattice_laws(counters=1000, sketches=levels, **BUDGET, family="gaussian")
    assert laws.sd <= sd
    assert laws.least / laws.unit <= threshold


def test_exact_composition_beats_the_l1_sensitivity_on_the_lattice() -> None:
    """Law: the many small moves of a record average out: far less than Laplace of scale 2/eps."""
    laws = lattice_laws(counters=1000, sketches=1, **BUDGET, family="laplace")
    assert laws.scale < 0.6 * float(pure_scale(1000, 1.0))
    assert (laws.least < 17 * laws.unit, laws.sd < 1.6) == (True, True)


def test_the_family_that_shows_smaller_counters_is_taken() -> None:
    """Law: Laplace up to four levels, Gaussian from eight, and never the larger of both."""
    taken = {h: sketch_laws(sketches=h, **BUDGET) for h in (1, 4, 8, 32)}
    assert [laws.family for laws in taken.values()] == ["laplace"] * 2 + ["gaussian"] * 2
    for levels, laws in taken.items():
        for family in ("laplace", "gaussian"):
            assert laws.visible <= sketch_laws(sketches=levels, **BUDGET, family=family).visible


def test_visible_counters_are_published_as_often_as_they_say() -> None:
    """Law: ``visible`` is the least counter with a chance of 0.95, from the exact tables."""
    for laws in (
        sketch_laws(sketches=4, **BUDGET),
        lattice_laws(counters=50, sketches=1, **BUDGET),
        gshm_laws(changed=20, **BUDGET),
    ):
        assert laws.chance(laws.visible - 1) < 0.95 <= laws.chance(laws.visible)


# -- strictly within the budget ----------------------------------------------------------------


def within(laws: Any, epsilon: float, delta: float) -> None:
    assert max(laws.delta, recomputed(laws, epsilon)) <= delta, laws


GRID = list(itertools.product((0.1, 1.0, 5.0), (1e-9, 1e-6, 1e-2)))


@some("1-laplace", "2-laplace", "8-gaussian")
@pytest.mark.parametrize("family", ["laplace", "gaussian"])
@pytest.mark.parametrize("levels", [1, 2, 8, pytest.param(32, marks=pytest.mark.evidence)])
def test_the_recomputed_cost_of_sketch_laws_is_within_the_budget(levels: int, family: str) -> None:
    """Law: delta(calibrated) <= delta; a direct convolution of the tables never exceeds it."""
    asked: Any = {"sketches": levels, "family": family, "counters": 200}
    for (epsilon, delta), standard in itertools.product(GRID, (False, True)):
        laws = sketch_laws(epsilon=epsilon, delta=delta, standard=standard, **asked)
        within(laws, epsilon, delta)
        if levels <= 2 and epsilon >= 1.0:
            assert divergence_by_sums(laws.noise, levels, epsilon) <= delta, (
                epsilon,
                delta,
                standard,
            )


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_the_recomputed_cost_of_lattice_laws_is_within_the_budget(
    family: Any, merged: bool
) -> None:
    """Law: delta(calibrated) <= delta, over counters, levels and budgets."""
    for (epsilon, delta), counters, levels in itertools.product(GRID, (1, 2, 60), (1, 4)):
        if epsilon < 1.0 and delta < 1e-6:
            continue  # tables of 64 bits are too coarse for some of these
        asked: Any = {"counters": counters, "sketches": levels, "family": family, "merged": merged}
        within(lattice_laws(epsilon=epsilon, delta=delta, **asked), epsilon, delta)


@some("1", "50")
@pytest.mark.parametrize("changed", [1, 2, 50, 1000])
def test_the_recomputed_cost_of_gshm_laws_is_within_the_budget(changed: int) -> None:
    """Law: delta(calibrated) <= delta, for one and four levels."""
    for (epsilon, delta), levels in itertools.product(GRID, (1, 4)):
        laws = gshm_laws(changed=changed, sketches=levels, epsilon=epsilon, delta=delta)
        within(laws, epsilon, delta)


def test_a_budget_out_of_reach_is_an_error_that_names_it() -> None:
    """Law: rather no noise than noise that is too coarse."""
    with pytest.raises(BudgetError, match="delta=1e-15 at epsilon=1 for 4 sketches"):
        lattice_laws(counters=1000, sketches=4, epsilon=1.0, delta=1e-15, family="gaussian")
    with pytest.raises(BudgetError, match="is too small for 8 sketches"):
        lattice_laws(counters=10**5, sketches=8, epsilon=0.1, delta=1e-6)
    with pytest.raises(ValueError, match="number of counters"):
        sketch_laws(sketches=1, **BUDGET, standard=True)


CALIBRATED = [
    sketch_laws(sketches=1, **BUDGET, family="laplace"),
    sketch_laws(sketches=4, **BUDGET, family="gaussian"),
    lattice_laws(counters=100, sketches=1, **BUDGET, family="laplace"),
    lattice_laws(counters=100, sketches=4, **BUDGET, family="gaussian", merged=True),
    gshm_laws(changed=100, **BUDGET),
]


@pytest.mark.parametrize("laws", CALIBRATED)
def test_narrower_noise_shorter_tables_or_lower_thresholds_are_rejected(laws: Any) -> None:
    """Negative control: a scale 5 % smaller, ends cut by a third, a threshold a tenth lower."""
    family = getattr(laws, "family", "gaussian")
    bound = laws.noise.highest
    assert recomputed(laws, 1.0) <= 1e-6
    narrow = 0.95 * laws.scale
    assert recomputed(laws, 1.0, noise=noise_table(family, narrow, bound), scale=narrow) > 1e-6
    short = noise_table(family, laws.scale, 2 * bound // 3)
    assert recomputed(laws, 1.0, noise=short) > 1e-6
    low = {"t" if isinstance(laws, GshmLaws) else "theta": 9}
    assert recomputed(laws, 1.0, **low) > 1e-6


def test_a_table_that_is_not_of_its_law_costs_what_it_is() -> None:
    """Negative control: the accountant reads the table, not only its name and scale."""
    laws = sketch_laws(sketches=1, **BUDGET, family="gaussian")
    other = noise_table("gaussian", 0.9 * laws.scale, laws.noise.highest)
    assert recomputed(laws, 1.0, noise=other) > 1e-2
    skewed = halves(left=("geometric", 2.0, 9), right=("geometric", 1.0, 9), recentre=False)
    with pytest.raises(ValueError, match="symmetric"):
        BoundedLaw.of(skewed, family="laplace", scale=1.0)


# -- closed laws against convolutions and sums -------------------------------------------------


@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize(
    ("family", "scale", "bound"),
    [("laplace", 2.0, 20), ("gaussian", 2.0, 9), ("gaussian", 4.0, 18)],
)
def test_bounded_costs_are_never_below_the_sum_over_all_outcomes(
    family: str, scale: float, bound: int, levels: int
) -> None:
    """Law: the law of the loss, the cut and the rounding add up to an upper bound, a close one."""
    noise = noise_table(family, scale, bound)
    bounded = BoundedLaw.of(noise, family=family, scale=scale)
    for epsilon in (0.0, 0.3, 0.7, 1.4):
        exact = composed_divergence(noise, levels=levels, epsilon=epsilon)
        claimed = bounded.delta(Move(times=levels), epsilon)
        assert exact <= claimed <= 1.01 * exact + 4 * levels * float(noise.pmf[0])
        assert divergence_by_sums(noise, levels, epsilon) <= claimed


@pytest.mark.parametrize(
    ("move", "shifts"),
    [
        (Move(far=2, near=1), (2, -1)),
        (Move(far=3, near=2), (-3, 1, 1)),
        (Move(near=2), (1, 1, 1)),
        (Move(far=1, near=0, times=3), (1, -1, 1)),
    ],
)
@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_costs_of_moves_in_several_coordinates(family: str, move: Move, shifts: Any) -> None:
    """Law: never below the sum over all outcomes, and close to it; signs do not matter."""
    scale, bound = (5.0, 45) if family == "laplace" else (4.0, 19)
    noise = noise_table(family, scale, bound)
    bounded = BoundedLaw.of(noise, family=family, scale=scale)
    for epsilon in (0.1, 0.4, 0.8):
        exact = moved_divergence([(noise, s) for s in shifts], epsilon)
        claimed = bounded.delta(move, epsilon)
        slack = 4 * sum(float(noise.pmf[: abs(s)].sum()) for s in shifts)
        assert exact <= claimed <= 1.001 * exact + slack


def test_a_move_without_an_entry_of_one_is_refused() -> None:
    """Law: what the bound is not proved for cannot be asked."""
    with pytest.raises(ValueError, match="entry of 1"):
        Move(far=2)


@pytest.mark.parametrize("smaller", [(1, -1), (2, 0), (1, 0), (0, -1), (1, 1)])
@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_smaller_moves_cost_less(family: str, smaller: tuple[int, int]) -> None:
    """Law: clipped values move by less in each coordinate, and the largest move covers them."""
    scale, bound = (5.0, 45) if family == "laplace" else (4.0, 24)
    noise = noise_table(family, scale, bound)
    for epsilon in (0.05, 0.3, 0.5):
        assert (
            moved_divergence([(noise, s) for s in smaller], epsilon)
            <= moved_divergence([(noise, 2), (noise, -1)], epsilon) + 1e-12
        )


@pytest.mark.parametrize(("scale", "move"), [(4.3, Move()), (13.0, Move(far=2, near=1))])
def test_one_block_for_many_integers_only_rounds_up(
    scale: float, move: Move, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: blocks of consecutive integers bound the sum from above, by less than a thousandth."""
    for epsilon in (0.01, 0.5, 1.0):
        exact = unbounded_delta.__wrapped__("gaussian", scale, move, epsilon)
        for blocks in (40, 200):
            monkeypatch.setattr("dpframe.accounting.shifts.BLOCKS", blocks)
            coarse = unbounded_delta.__wrapped__("gaussian", scale, move, epsilon)
            assert exact <= coarse <= (1 + 3000 / blocks**2) * exact
        monkeypatch.undo()


def test_coarse_grids_of_composed_laplace_losses_only_round_up(monkeypatch: Any) -> None:
    """Law: fewer points of the loss are an upper bound."""
    move, delta = Move(far=30, near=29, times=4), unbounded_delta.__wrapped__
    for scale in (100.0, 140.0):
        exact = delta("laplace", scale, move, 1.0)
        monkeypatch.setattr("dpframe.accounting.shifts.LONGEST_LOSS", 240)
        coarse = delta("laplace", scale, move, 1.0)
        monkeypatch.undo()
        assert exact < coarse < 3 * exact


def test_gshm_over_many_counts_is_the_maximum_of_its_formula() -> None:
    """Law: blocks of j (above 200 counts) stay within two percent of j taken one at a time."""
    laws = gshm_laws(changed=150, epsilon=1.0, delta=1e-4)
    noise, options = laws.noise, {"scale": laws.scale, "t": laws.t, "epsilon": 1.0}
    single = gshm_delta(noise, **options, changed=150)
    grouped = gshm_delta(noise, **options, changed=75, sketches=2)
    assert single <= grouped <= 1.02 * single


# -- monotone ----------------------------------------------------------------------------------


@pytest.mark.parametrize("laws", CALIBRATED)
def test_delta_falls_with_epsilon_and_threshold_and_rises_with_levels(laws: Any) -> None:
    """Law: the accountants are monotone in what they should be monotone in."""
    over_epsilon = [recomputed(laws, epsilon) for epsilon in (0.2, 0.5, 0.8, 1.0, 1.5, 3.0)]
    assert over_epsilon == sorted(over_epsilon, reverse=True)
    over_levels = [recomputed(laws, 1.0, sketches=n) for n in (1, 2, 3, 5)]
    assert over_levels == sorted(over_levels)
    name = "t" if isinstance(laws, GshmLaws) else "theta"
    thetas = [getattr(laws, name) * part // 10 for part in (5, 8, 10, 12)]
    over_theta = [recomputed(laws, 1.0, **{name: theta}) for theta in thetas]
    assert over_theta == sorted(over_theta, reverse=True)


def test_visible_counters_grow_as_the_budget_shrinks() -> None:
    """Law: less epsilon, less delta, more levels or more counters never show smaller counters."""

    def rising(values: list[int]) -> bool:
        return values == sorted(values)

    axes: Any = {"epsilon": (4.0, 2.0, 1.0, 0.5), "delta": (1e-3, 1e-6, 1e-9)}
    axes["sketches"] = (1, 2, 4, 8, 16)
    for family in ("laplace", "gaussian"):
        known: Any = {"sketches": 2, **BUDGET, "family": family}
        for made, given in ((sketch_laws, known), (lattice_laws, {**known, "counters": 50})):
            for name, values in axes.items():
                assert rising([made(**{**given, name: value}).visible for value in values])
    standard = {"sketches": 2, **BUDGET, "standard": True}
    assert rising([sketch_laws(**standard, counters=k).visible for k in (2, 50, 1000)])
    assert rising([gshm_laws(changed=k, **BUDGET).visible for k in (1, 2, 20, 300)])
    assert rising([gshm_laws(changed=20, sketches=h, **BUDGET).visible for h in (1, 2, 8)])


# -- pure --------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.7])
@pytest.mark.parametrize(("counters", "levels"), [(2, 1), (1000, 1), (1000, 4)])
def test_the_pure_scale_is_rounded_up(counters: int, levels: int, epsilon: float) -> None:
    """Law: scale times epsilon is at least the sensitivity, exactly, and the scale is a float."""
    scale = pure_scale(counters, epsilon, sketches=levels)
    assert scale * Fraction(epsilon) >= levels * (2 * counters - 1)
    assert scale * Fraction(epsilon) <= levels * (2 * counters - 1) * (1 + Fraction(1, 2**51))
    assert Fraction(float(scale)) == scale
