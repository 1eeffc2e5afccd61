"""Composed privacy losses: never below the exact divergence, and close to it."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpframe.accounting.losses import Losses, compose_losses, composed_profile, losses_of
from dpframe.noise import TOTAL, NoiseTable, gaussian_table, laplace_gaussian_table, laplace_table
from tests.members import in_turn, some

LAWS = {
    "laplace": laplace_table(1.5, 4),
    "gaussian": gaussian_table(1.2, 4),
    "between": laplace_gaussian_table(2.0, 1.5, 4),
    "two atoms": laplace_table(0.8, 1),
}


def exact_delta(laws: list[NoiseTable], epsilon: float) -> Fraction:
    """Sum of max(P - t Q, 0) over all outcomes, in fractions."""
    t = Fraction(math.exp(epsilon))
    total = Fraction(0)
    spans = [range(law.lowest, law.highest + 2) for law in laws]
    for outcome in itertools.product(*spans):
        p = q = Fraction(1)
        for law, value in zip(laws, outcome, strict=True):
            weights = law.weights.tolist()
            at, moved = value - law.lowest, value - 1 - law.lowest
            p *= Fraction(weights[at], TOTAL) if at < len(weights) else 0
            q *= Fraction(weights[moved], TOTAL) if moved >= 0 else 0
        total += max(p - t * q, Fraction(0))
    return total


@some(0, 8)
@in_turn(
    (
        "names",
        [["laplace"], ["gaussian"] * 3, ["laplace", "gaussian", "between"], ["two atoms"] * 4],
    ),
    ("step", [1e-2, 1e-3, 1e-4]),
)
def test_composed_delta_is_an_upper_bound_and_close(names: list[str], step: float) -> None:
    """Law: exact <= computed <= exact + what the grid can cost, at many epsilons."""
    laws = [LAWS[name] for name in names]
    for epsilon in (0.0, 0.3, 1.0, 1.7, 3.0):
        exact = float(exact_delta(laws, epsilon))
        computed = composed_profile(laws, epsilons=(epsilon,), step=step)[0][1]
        assert exact <= computed <= exact + 2 * len(laws) * step + 1e-12


def test_the_bound_is_exact_where_losses_lie_on_the_grid() -> None:
    """Law: a geometric law whose loss is a multiple of the step loses nothing to the grid."""
    law = laplace_table(2.0, 6)  # losses +-1/2
    for epsilon in (0.5, 1.0):
        exact = float(exact_delta([law, law], epsilon))
        computed = composed_profile([law, law], epsilons=(epsilon,), step=1e-3)[0][1]
        assert computed == pytest.approx(exact, rel=1e-6)


def test_rounding_down_is_rejected() -> None:
    """Planted bug: losses rounded down to the grid are below the exact delta."""
    law, step, epsilon = LAWS["gaussian"], 0.2, 0.5
    up = losses_of(law, step)
    pmf = np.append(law.pmf, 0.0)
    moved = np.append(0.0, law.pmf)
    finite = (pmf > 0) & (moved > 0)
    below = np.floor(np.log(pmf[finite] / moved[finite]) / step).astype(np.int64)
    mass = np.bincount(below - below.min(), pmf[finite])
    down = Losses(step, int(below.min()), mass, up.infinite)
    exact = float(exact_delta([law] * 3, epsilon))
    assert (
        compose_losses([(down, 3)]).delta(epsilon)
        < exact
        <= compose_losses([(up, 3)]).delta(epsilon)
    )


LONG = {
    "between": (laplace_gaussian_table(7.0, 14.0, 60), 5),
    "gaussian": (gaussian_table(20.0, 150), 9),
    "long tables": (gaussian_table(12.0, 150), 3),
}


def plainly(one: Losses, times: int) -> Losses:
    """Composed by sums of products of positive numbers: every mass is right to 1e-12 of itself."""
    mass = one.mass
    for _ in range(times - 1):
        mass = np.convolve(mass, one.mass)
    infinite = 1 - (1 - one.infinite) ** times
    return Losses(one.step, times * one.lowest, mass, infinite)


@pytest.mark.parametrize("name", LONG)
def test_what_transforms_round_is_added_and_little(name: str) -> None:
    """Law: plain <= claimed <= plain (1 + 1e-3), for every delta down to 1e-15."""
    law, times = LONG[name]
    one = replace(losses_of(law, 1e-3), infinite=0.0)  # a mass that would hide what is small
    plain = plainly(one, times)
    exact = {epsilon: plain.delta(epsilon) for epsilon in np.linspace(0.0, 2.0, 41).tolist()}
    assert min(exact.values()) < 1e-15
    for epsilon, delta in exact.items():
        claimed = compose_losses([(one, times)], epsilon).delta(epsilon)
        assert delta * (1 - 1e-11) <= claimed
        assert delta < 1e-15 or claimed <= delta * (1 + 1e-3)


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0])
def test_rounding_bounds_the_masses(name: str, epsilon: float) -> None:
    """Law: the norm of what all masses are off is at most ``rounding``, and not a 2000th of it."""
    law, times = LONG[name]
    one = losses_of(law, 1e-3)
    fast, plain = compose_losses([(one, times)], epsilon), plainly(one, times)
    off = fast.mass - plain.mass * np.exp(fast.tilt * fast.losses - fast.scale)
    assert fast.rounding / 2000 < np.linalg.norm(off) <= fast.rounding


def test_a_transform_without_a_tilt_says_little_of_a_small_delta() -> None:
    """Why masses are tilted: without, what is rounded is more than the delta itself."""
    law, times = LONG["gaussian"]
    one = replace(losses_of(law, 1e-3), infinite=0.0)
    exact = plainly(one, times).delta(1.2)
    assert compose_losses([(one, times)], 1.2).delta(1.2) == pytest.approx(exact, rel=1e-9)
    assert compose_losses([(one, times)]).delta(1.2) > 1000 * exact


def test_what_lies_beyond_the_grid_is_an_infinite_loss() -> None:
    """Law: a grid too short for the losses overstates delta, and never understates it."""
    law = gaussian_table(1.0, 6)
    short, whole = losses_of(law, 1e-5), losses_of(law, 1e-3)
    assert short.infinite > whole.infinite
    for epsilon in (0.1, 1.0, 2.5):
        assert short.delta(epsilon) >= float(exact_delta([law], epsilon))


def test_losses_that_are_infinite_but_for_rounding_compose() -> None:
    """So narrow a Gaussian at a large epsilon: the delta of two is 1."""
    part = Losses(step=1.0, lowest=0, mass=np.array([1e-17]), infinite=1.0)
    for infinite in (1.0, 1.0 + 2**-52):
        assert compose_losses([(replace(part, infinite=infinite), 2)], 50.0).delta(50.0) == 1.0
