"""Intervals of quotients hold what they say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpframe.postprocess.weighted_laplace import deviation_factor, ratio_interval

DRAWS = 20_000


def held(n: float, d: float, sn: float, sd: float, *, planted: bool = False) -> float:
    """How often intervals at 0.9 hold the true quotient; ``planted``: the denominator's noise is
    forgotten."""
    draw = np.random.default_rng(7)
    above, below = n + draw.laplace(0, sn, DRAWS), d + draw.laplace(0, sd, DRAWS)
    ones = np.ones(DRAWS)
    lower, upper = ratio_interval(
        above,
        2 * sn * sn * ones,
        below,
        (1e-9 if planted else 2 * sd * sd) * ones,
        factor=deviation_factor(0.9),
        within=(-50.0, 50.0),
    )
    return float(((lower <= n / d) & (n / d <= upper)).mean())


CASES = [(0, 100, 50, 1), (4000, 100, 50, 1), (4000, 100, 1, 5), (-900, 20, 30, 5), (10, 1, 50, 5)]


@pytest.mark.parametrize("case", CASES)
def test_intervals_hold_the_quotient(case: tuple[float, float, float, float]) -> None:
    """Law: at least as often as stated, up to five standard errors of the count."""
    assert held(*case) >= 0.9 - 5 * math.sqrt(0.09 / DRAWS)


def test_a_forgotten_noise_is_found() -> None:
    """The same check rejects intervals without the noise of the denominator."""
    assert held(4000, 100, 1, 5, planted=True) < 0.9 - 5 * math.sqrt(0.09 / DRAWS)


def test_without_a_denominator_everything_is_possible() -> None:
    """Law: where nobody seems to be there the interval is all there can be, and ends are in order
    within it everywhere."""
    draw = np.random.default_rng(3)
    above, below = draw.normal(0, 1e6, 500), draw.normal(0, 3, 500)
    ones = np.ones(500)
    lower, upper = ratio_interval(above, ones, below, ones, factor=2.0, within=(-1.0, 3.0))
    unclear = below < 2
    assert (lower[unclear] == -1).all()
    assert (upper[unclear] == 3).all()
    assert ((lower >= -1) & (lower <= upper) & (upper <= 3)).all()
