"""Composed privacy losses: never below the exact divergence, and close to it."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpframe.accounting.losses import SLACK, Losses, composed, composed_profile, losses_of
from dpframe.noise import TOTAL, NoiseTable, gaussian, laplace, laplace_gaussian

LAWS = {
    "laplace": laplace(1.5, 4),
    "gaussian": gaussian(1.2, 4),
    "between": laplace_gaussian(2.0, 1.5, 4),
    "two atoms": laplace(0.8, 1),
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


@pytest.mark.parametrize("step", [1e-2, 1e-3, 1e-4])
@pytest.mark.parametrize(
    "names", [["laplace"], ["gaussian"] * 3, ["laplace", "gaussian", "between"], ["two atoms"] * 4]
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
    law = laplace(2.0, 6)  # losses +-1/2
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
    assert composed([(down, 3)]).delta(epsilon) < exact <= composed([(up, 3)]).delta(epsilon)


def test_transforms_round_less_than_the_slack() -> None:
    """Law: where delta is tiny, the transform differs from plain convolution by less than SLACK."""
    for law, times in ((laplace_gaussian(7.0, 14.0, 60), 5), (gaussian(20.0, 150), 9)):
        one = losses_of(law, 1e-3)
        fast = composed([(one, times)])
        mass = one.mass
        for _ in range(times - 1):
            mass = np.convolve(mass, one.mass)
        slow = Losses(one.step, times * one.lowest, mass, fast.infinite)
        for epsilon in (0.5, 1.0, 2.0, 3.0):
            assert abs(fast.delta(epsilon) - slow.delta(epsilon)) < SLACK


def test_what_lies_beyond_the_grid_is_an_infinite_loss() -> None:
    """Law: a grid too short for the losses overstates delta, and never understates it."""
    law = gaussian(1.0, 6)
    short, whole = losses_of(law, 1e-5), losses_of(law, 1e-3)
    assert short.infinite > whole.infinite
    for epsilon in (0.1, 1.0, 2.5):
        assert short.delta(epsilon) >= float(exact_delta([law], epsilon))
