"""Differences and quotients of two noisy numbers, against every outcome of small tables."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpframe.noise import NoiseTable, UnboundedNoise, gaussian_table, laplace_table
from dpframe.postprocess import joint_noise
from dpframe.postprocess.joint_noise import Noise, difference_half_width, half_width, quotient_ends

LAWS = [laplace_table(0.8, 3), laplace_table(2.0, 9), gaussian_table(1.5, 6)]


def outcomes(noise: Noise) -> dict[int, float]:
    """The law of a sum of draws, one at a time: the slow twin."""
    assert isinstance(noise.law, NoiseTable)
    found = {0: 1.0}
    for _ in range(noise.terms):
        more: dict[int, float] = {}
        for (x, p), (i, q) in itertools.product(found.items(), enumerate(noise.law.pmf)):
            at = x + noise.law.lowest + i
            more[at] = more.get(at, 0.0) + p * q
        found = more
    return found


@given(
    one=st.sampled_from(LAWS),
    other=st.sampled_from(LAWS),
    terms=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    confidence=st.sampled_from([0.5, 0.8, 0.95, 0.999]),
)
def test_half_widths_are_the_least_of_the_convolution(
    one: NoiseTable, other: NoiseTable, terms: tuple[int, int], confidence: float
) -> None:
    """Law: the least w with P(|X - Y| <= w) >= confidence over all pairs of outcomes, the same in
    either order; the sum of both half widths is more where both are noisy."""
    first, second = Noise(one, terms[0]), Noise(other, terms[1])
    found = difference_half_width(first, second, confidence)
    assert found == difference_half_width(second, first, confidence)

    def inside(w: int) -> float:
        pairs = itertools.product(outcomes(first).items(), outcomes(second).items())
        return sum(p * q for (x, p), (y, q) in pairs if abs(x - y) <= w)

    assert inside(found) >= confidence - 1e-10
    assert found == 0 or inside(found - 1) < confidence + 1e-10
    if min(terms) == 0:
        alone = second if terms[0] == 0 else first
        assert found == (half_width(alone.law, alone.terms, confidence) if alone.terms else 0)


def test_noise_without_bounds_is_one_of_tables_up_to_a_scale() -> None:
    """Law: half widths are those of a direct sum over a long stretch."""
    scale = Fraction(7, 2)
    noise = Noise(UnboundedNoise(scale))
    z = np.arange(-400, 401)
    law = np.exp(-np.abs(z) / float(scale))
    law /= law.sum()
    both = np.convolve(law, law)
    middle = len(both) // 2
    for confidence in (0.8, 0.99):
        w = difference_half_width(noise, noise, confidence)
        assert both[middle - w : middle + w + 1].sum() >= confidence - 1e-10
        assert both[middle - w + 1 : middle + w].sum() < confidence
    assert noise.has_table
    assert not Noise(UnboundedNoise(Fraction(10**6))).has_table


def test_more_draws_never_have_less_width() -> None:
    """Law: beyond 32 terms numbers of draws are rounded up, and widths with them."""
    law = laplace_table(2.0, 20)
    widths = [difference_half_width(Noise(law, k), Noise(law), 0.95) for k in range(200)]
    assert widths == sorted(widths)
    exact = half_width(law, 201, 0.95)
    assert exact <= difference_half_width(Noise(law, 200), Noise(law), 0.95) <= 1.06 * exact


def covered(
    above: Noise, below: Noise, n: int, d: int, confidence: float, told: Noise | None = None
) -> float:
    """P(the interval holds n / d), over all outcomes; the noise of d is ``told`` to be another."""
    pairs = list(itertools.product(outcomes(above).items(), outcomes(below).items()))
    top = np.array([float(n + x) for (x, _), _ in pairs])
    under = np.array([float(d + y) for _, (y, _) in pairs])
    low, high = quotient_ends((top, top), above, (under, under), told or below, confidence)
    chance = np.array([p * q for (_, p), (_, q) in pairs])
    return float(chance[(low <= n / d) & (n / d <= high)].sum())


CASES = [
    (n, d, k, confidence)
    for n, d in [(0, 3), (1, 1), (2, 9), (7, 5), (30, 11), (4, 40)]
    for k in (1, 2)
    for confidence in (0.6, 0.9)
]


@pytest.mark.parametrize(("n", "d", "terms", "confidence"), CASES)
def test_quotients_hold_over_all_outcomes(n: int, d: int, terms: int, confidence: float) -> None:
    """Law: a true quotient is in its interval with the confidence at least, exactly."""
    above, below = Noise(LAWS[0], terms), Noise(LAWS[2])
    assert covered(above, below, n, d, confidence) >= confidence - 1e-9
    assert covered(below, above, n, d, confidence) >= confidence - 1e-9


def test_a_denominator_that_is_taken_for_exact_is_noticed() -> None:
    """Planted bug: without the noise of what is divided by, the same check fails."""
    exact = Noise(LAWS[2], 0)
    assert covered(Noise(LAWS[0]), Noise(LAWS[2]), 30, 11, 0.9, exact) < 0.8


@given(
    n=st.integers(5, 80),
    d=st.integers(12, 80),
    confidence=st.sampled_from([0.6, 0.8, 0.95]),
    one=st.sampled_from(LAWS),
    other=st.sampled_from(LAWS),
)
def test_a_ratio_leaves_1_out_where_the_difference_leaves_0_out(
    n: int, d: int, confidence: float, one: NoiseTable, other: NoiseTable
) -> None:
    """Law: both are one test, where what is divided by is beyond all of its noise."""
    above, below = Noise(one), Noise(other)
    half = difference_half_width(above, below, confidence)
    top, under = np.array([float(n)]), np.array([float(d)])
    low, high = quotient_ends((top, top), above, (under, under), below, confidence)
    assert bool(low[0] > 1 + 1e-9 or high[0] < 1 - 1e-9) == (abs(n - d) > half)


def test_without_noise_quotients_are_exact() -> None:
    """Law: zero width; and everything from 0 on where nothing is divided by."""
    still = Noise(LAWS[0], 0)
    n, d = np.array([6.0, 6.0, 0.0]), np.array([4.0, 0.0, 2.0])
    low, high = quotient_ends((n, n), still, (d, d), still, 0.95)
    np.testing.assert_allclose(low, [1.5, 0, 0], atol=1e-9)
    np.testing.assert_allclose(high, [1.5, np.inf, 0], atol=1e-9)
    assert difference_half_width(still, still, 0.999) == 0


def test_wide_laws_are_grouped_outwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: with fewer groups intervals are wider, by little."""
    law = Noise(laplace_table(60.0, 2000))
    ranges = (np.array([900.0]), np.array([900.0])), (np.array([700.0]), np.array([700.0]))
    joint_noise._group_noise_values.cache_clear()
    monkeypatch.setattr(joint_noise, "CELLS", 10**6)
    exact = quotient_ends(ranges[0], law, ranges[1], law, 0.95)
    joint_noise._group_noise_values.cache_clear()
    monkeypatch.setattr(joint_noise, "CELLS", 512)
    found = quotient_ends(ranges[0], law, ranges[1], law, 0.95)
    joint_noise._group_noise_values.cache_clear()
    assert found[0] <= exact[0]
    assert found[1] >= exact[1]
    assert found[1] - found[0] < 1.02 * (exact[1] - exact[0])
