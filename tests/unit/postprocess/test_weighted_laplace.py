"""Sums of Laplace noise, means and quotients: half widths against characteristic functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpframe.errors import ParameterError
from dpframe.postprocess.weighted_laplace import (
    MARGIN,
    deviation_factor,
    mean_ends,
    ratio_interval,
    share_factor,
    spread_from_end,
    sum_half_width,
    whole_half_width,
)
from tests.members import often

CONFIDENCES = (0.5, 0.8, 0.9, 0.906, 0.915, 0.95, 0.99)
_STEP = 2 * math.pi / 70
"""What wraps around a circle of 70 standard deviations is below 1e-20."""

_AT = np.arange(1, 20_000)


def within(shares: Sequence[float], normal: float, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """P(|X| <= x) of X with variance 1, from shares of its variance; to 1e-8."""
    s = _AT * _STEP
    phi = np.exp(-normal * s * s / 2)
    for share in shares:
        phi = phi / (1 + share * s * s / 2)
    inside = _STEP * x / math.pi + 2 / math.pi * (np.sin(np.outer(x, s)) @ (phi / _AT))
    return np.asarray(inside)


def discrete(scale: float, weights: Sequence[int]) -> NDArray[np.float64]:
    """P(|X| <= x) for x = 0, 1, ...: X the sum of weighted discrete Laplace noises."""
    sd = scale * math.sqrt(2 * sum(w * w for w in weights))
    reach = int(45 * scale * max(weights) + 14 * sd) + 5
    size = 1 << (2 * reach + 1).bit_length()
    angle, p = 2 * np.pi * np.arange(size // 2 + 1) / size, math.exp(-1 / scale)
    phi = np.ones(len(angle))
    for weight, times in zip(*np.unique(weights, return_counts=True), strict=True):
        phi *= ((1 - p) ** 2 / (1 + p * p - 2 * p * np.cos(weight * angle))) ** times
    law = np.fft.irfft(phi, size)
    return np.asarray(law[0] + 2 * np.concatenate([[0.0], np.cumsum(law[1 : size // 2])]))


def weights(seed: int) -> tuple[NDArray[np.float64], float]:
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, 9))
    shares = rng.dirichlet(np.full(k, rng.choice([0.1, 1.0, 10.0])))
    normal = float(rng.choice([0.0, rng.random()]))
    return shares * (1 - normal), normal


@often(300, 1500, "seeds")
def test_no_weights_go_further_than_the_factor(seeds: int) -> None:
    """Also with a normal part, and without the margin: the search that it stands for."""
    x = np.array([deviation_factor(c) / MARGIN for c in CONFIDENCES])
    for seed in range(seeds):
        assert (within(*weights(seed), x) >= np.array(CONFIDENCES) - 1e-7).all()


@often(200, 1500, "seeds")
def test_no_weights_with_that_largest_share_go_further(seeds: int) -> None:
    """Law: of sums of which the largest share is known, none goes beyond its own factor, without
    the margin; the factor never is above that for all weights, and below it where it matters."""
    for c in CONFIDENCES:
        assert all(share_factor(c, m) <= deviation_factor(c) for m in (1e-9, 0.2, 0.7, 1.0))
    for seed in range(seeds):
        shares, normal = weights(seed)
        own = [share_factor(c, max(shares)) / MARGIN for c in CONFIDENCES]
        assert (within(shares, normal, np.array(own)) >= np.array(CONFIDENCES) - 1e-7).all()
    assert share_factor(0.8, 1.0) < 0.91 * deviation_factor(0.8)
    assert share_factor(0.99, 0.05) < 0.84 * deviation_factor(0.99)
    assert share_factor(0.99999, 0.05) == deviation_factor(0.99999)


def test_the_factor_of_another_share_is_rejected_by_the_same_check() -> None:
    """Planted bugs: at 0.8 the factor of one noise for a sum of many, at 0.99 the other way, and
    1.96 for everything."""
    many = [0.05] * 20
    assert within(many, 0.0, np.array([share_factor(0.8, 1.0)]))[0] < 0.8 - 0.01
    assert within([1.0], 0.0, np.array([share_factor(0.99, 0.05)]))[0] < 0.99 - 0.005
    assert within([1.0], 0.0, np.array([1.96]))[0] < 0.95 - 1e-3


def test_some_sum_needs_the_factor() -> None:
    """It is no more than the margin above what one of few sums needs: tight."""
    some = [([1.0], 0.0), ([0.5, 0.5], 0.0), ([], 1.0)]
    for c in CONFIDENCES:
        x = np.array([deviation_factor(c) / MARGIN**2])
        assert min(float(within(*w, x)[0]) for w in some) < c


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.9, 0.95, 0.99])
def test_the_half_width_of_a_plain_sum_is_the_least_one(confidence: float) -> None:
    for scale in (0.3, 1, 1.5, 2, 5, 17, 50):
        for terms in (1, 2, 3, 5, 10, 27, 50, 400):
            inside = discrete(scale, [1] * terms)
            least = int(np.searchsorted(inside, confidence))
            assert sum_half_width(scale, terms, confidence) == least


def test_a_plain_sum_of_huge_noise_is_a_continuous_one() -> None:
    w = sum_half_width(Fraction(2**40), 1, 0.95)
    assert w / 2**40 == pytest.approx(math.log(20), rel=1e-9)
    assert sum_half_width(2.0**40, 5000, 0.95) / 2**40 / 100 == pytest.approx(1.96, rel=1e-3)


def test_half_widths_hold_for_whole_estimates_of_weighted_discrete_noise() -> None:
    """Weights up to 1 with common denominators, and estimates given to the next whole number."""
    rng = np.random.default_rng(3)
    fails = 0
    for _ in range(1000):
        d = int(rng.integers(1, 14))
        m = [int(w) for w in rng.integers(1, d + 1, int(rng.integers(1, 6)))]
        scale = float(rng.choice([1, 1.3, 1.7, 2, 3, 5, 8]))
        inside = discrete(scale, m)
        variance = 2 * scale**2 * sum(w * w for w in m) / d**2
        for c in (0.8, 0.9, 0.95, 0.99):
            h = deviation_factor(c) * math.sqrt(variance)
            assert inside[int((h + 0.5) * d + 1e-9)] >= c
            assert whole_half_width(np.array([variance]), c)[0] >= h + 0.5
            largest = np.array([max(m) ** 2 / sum(w * w for w in m)])
            own = share_factor(c, largest[0]) * math.sqrt(variance)
            assert inside[int((own + 0.5) * d + 1e-9)] >= c
            assert whole_half_width(np.array([variance]), c, largest)[0] >= own + 0.5
            fails += inside[int(h * d + 1e-9)] < c
    assert fails > 10  # planted bug: without the half


def test_half_widths_hold_for_plain_sums_already_as_the_ceiling() -> None:
    for scale in range(1, 51, 7):
        for terms in range(1, 51):
            inside = discrete(scale, [1] * terms)
            for c in (0.8, 0.9, 0.95, 0.99):
                h = deviation_factor(c) / MARGIN * scale * math.sqrt(2 * terms)
                assert inside[math.ceil(h)] >= c


@pytest.mark.parametrize(
    ("found", "given"),
    [
        *((sum_half_width, given) for given in ((0, 1, 0.9), (1, 0, 0.9), (1, 1, 1))),
        *((share_factor, given) for given in ((0, 0.5), (0.9, 0), (0.9, 1.1))),
    ],
)
def test_what_breaks_a_rule_is_refused(found: Any, given: tuple[float, ...]) -> None:
    with pytest.raises(ParameterError, match="must be"):
        found(*given)


HALF, BOUNDS = 3.0, (-3.0, 3.0)
CHECKED = (0.8, 0.95, 0.99)


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
        for confidence in CHECKED:
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


@pytest.mark.parametrize("confidence", CHECKED)
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


DRAWS = 20_000


def held(n: float, d: float, sn: float, sd: float, *, planted: bool = False) -> float:
    """How often intervals at 0.9 hold; ``planted``: the denominator's noise is forgotten."""
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
    """Law: where nobody seems to be there the interval is all there can be; ends in order."""
    draw = np.random.default_rng(3)
    above, below = draw.normal(0, 1e6, 500), draw.normal(0, 3, 500)
    ones = np.ones(500)
    lower, upper = ratio_interval(above, ones, below, ones, factor=2.0, within=(-1.0, 3.0))
    unclear = below < 2
    assert (lower[unclear] == -1).all()
    assert (upper[unclear] == 3).all()
    assert ((lower >= -1) & (lower <= upper) & (upper <= 3)).all()
