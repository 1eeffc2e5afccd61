"""Sums of Laplace noise: half widths against characteristic functions, inverted exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dpframe.errors import ParameterError
from dpframe.postprocess.weighted_laplace import (
    MARGIN,
    deviation_factor,
    share_factor,
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
    """Planted bug: at 0.8 the factor of one noise for a sum of many, at 0.99 the other way."""
    many = [0.05] * 20
    assert within(many, 0.0, np.array([share_factor(0.8, 1.0)]))[0] < 0.8 - 0.01
    assert within([1.0], 0.0, np.array([share_factor(0.99, 0.05)]))[0] < 0.99 - 0.005


def test_the_normal_factor_alone_is_rejected_by_the_same_check() -> None:
    """Planted bug: 1.96 for everything."""
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


@pytest.mark.parametrize(("scale", "terms", "confidence"), [(0, 1, 0.9), (1, 0, 0.9), (1, 1, 1)])
def test_what_breaks_a_rule_is_refused(scale: float, terms: int, confidence: float) -> None:
    with pytest.raises(ParameterError, match="must be"):
        sum_half_width(scale, terms, confidence)


@pytest.mark.parametrize(("confidence", "largest"), [(0, 0.5), (0.9, 0), (0.9, 1.1)])
def test_no_share_is_refused(confidence: float, largest: float) -> None:
    with pytest.raises(ParameterError, match="must be"):
        share_factor(confidence, largest)
