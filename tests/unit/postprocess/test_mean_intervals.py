"""Intervals of means have, for every value, the factor that this value needs."""

from __future__ import annotations

import numpy as np
import pytest

from dpframe.postprocess.weighted_laplace import (
    deviation_factor,
    mean_ends,
    share_factor,
    spread_from_end,
)
from tests.members import often
from tests.unit.postprocess.test_weighted_laplace import within

HALF, BOUNDS = 3.0, (-3.0, 3.0)
CONFIDENCES = (0.8, 0.95, 0.99)


def share_at(mean: float, largest: float) -> float:
    """The largest share of one noise in what decides whether a mean fits."""
    u = (1 + mean / HALF) / 2
    return largest * max(u, 1 - u) ** 2 / (u**2 + (1 - u) ** 2)


@often(40, 300, "seeds")
def test_ends_are_those_of_all_values_that_fit(seeds: int) -> None:
    """Law: the first and the last value m with |q - m| <= f(m) t sqrt(half^2 + m^2), on a fine
    grid; all between the bounds where no value fits, or where nothing is known."""
    grid = np.linspace(*BOUNDS, 4001)
    for seed in range(seeds):
        random = np.random.default_rng(seed)
        q, t = random.uniform(-3.5, 3.5, 1), 10 ** random.uniform(-3, -0.5, 1)
        largest = random.choice([1.0, 0.5, random.uniform(0.01, 1)], 1)
        for confidence in CONFIDENCES:
            f = [share_factor(confidence, share_at(m, float(largest[0]))) for m in grid.tolist()]
            fits = grid[np.abs(q - grid) <= np.array(f) * t * np.hypot(HALF, grid)]
            low, high = mean_ends(q, t, largest, confidence, half=HALF, within=BOUNDS)
            if len(fits):
                assert low[0] - 1e-9 <= fits[0] <= low[0] + 0.0016
                assert high[0] + 1e-9 >= fits[-1] >= high[0] - 0.0016
            one, other = mean_ends(q, t, None, confidence, half=HALF, within=BOUNDS)
            assert (one[0] <= low[0] and high[0] <= other[0]) or abs(q[0]) > HALF
    unknown = np.array([np.nan])
    assert mean_ends(q, unknown, largest, 0.9, half=HALF, within=BOUNDS) == BOUNDS
    far = mean_ends(np.array([9.0]), np.array([0.01]), largest, 0.9, half=HALF, within=BOUNDS)
    assert far == BOUNDS


@often(40, 300, "seeds")
def test_an_end_tells_what_it_was_made_of(seeds: int) -> None:
    """Law: t is between what an end tells, and these are one number unless the end is where the
    factor changes."""
    alike = 0
    for seed in range(seeds):
        random = np.random.default_rng(seed)
        q, t = random.uniform(-2.5, 2.5, 50), 10 ** random.uniform(-3, -1, 50)
        largest = random.uniform(0.01, 1, 50)
        ends = mean_ends(q, t, largest, 0.8, half=HALF, within=BOUNDS)
        for end in ends:
            inside = np.abs(end) < HALF
            low, high = spread_from_end(q, end, largest, 0.8, half=HALF)
            assert (low[inside] <= t[inside] * (1 + 1e-9)).all()
            assert (t[inside] <= high[inside] * (1 + 1e-9)).all()
            alike += int((high[inside] <= low[inside] * (1 + 1e-12)).sum())
    assert alike > 80 * seeds


@pytest.mark.parametrize("confidence", CONFIDENCES)
def test_the_factor_of_a_value_is_enough_and_little_more(confidence: float) -> None:
    """Law: (1 - u) eA - u eB stays within it with the confidence, and where single noises decide at
    most 2 points more often. Planted bug: one factor for every mixture is further off than that,
    and that of the noise of A alone is not enough."""
    held, before, planted = [], [], []
    for largest in (1.0, 0.8, 0.6):
        rest = [largest] if largest == 1 else [largest, 1 - largest]
        for u in (0.5, 0.4, 0.3, 0.15, 0.02):
            shares = np.array([w**2 * s for w in (1 - u, u) for s in rest])
            shares /= shares.sum()
            factors = [
                share_factor(confidence, share_at((2 * u - 1) * HALF, largest)),
                deviation_factor(confidence),
                share_factor(confidence, largest),
            ]
            for found, factor in zip((held, before, planted), factors, strict=True):
                found.append(float(within(shares.tolist(), 0.0, np.array([factor]))[0]))
    assert confidence <= min(held) <= max(held) < confidence + 0.02
    if confidence == 0.8:
        assert max(before) > confidence + 0.03
        assert min(planted) < confidence - 0.01
