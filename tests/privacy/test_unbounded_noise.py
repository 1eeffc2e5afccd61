"""Discrete Laplace noise without bounds: the law of the sampler, by the tree of its decisions.

Every branch of a run is followed and weighed exactly; statistics on seeded draws come second, each
beside a planted mistake.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpframe import noise
from dpframe.noise import TOTAL, replaced_bits, unbounded_laplace
from dpframe.testing import seeded_noise
from tests.members import few

LEVEL, DRAWS = 1e-6, 100_000


class Choices:
    """Replays one path through a tree of choices; new ones take the first branch."""

    def __init__(self, path: list[int]) -> None:
        self.path, self.place, self.mass = path, 0, 1.0
        self.widths: list[int] = []

    def choose(self, weights: list[float]) -> int:
        if self.place == len(self.path):
            self.path.append(0)
        chosen = self.path[self.place]
        self.place += 1
        self.widths.append(len(weights))
        self.mass *= weights[chosen]
        return chosen


class Cut(Exception):
    """A path that is not followed."""


def leaves(run: Callable[[Choices], Any]) -> Iterator[tuple[Any, float]]:
    """Results of all paths with their masses; None where a path was cut."""
    path: list[int] = []
    while True:
        choices = Choices(path)
        try:
            result = run(choices)
        except Cut:
            result = None
        yield result, choices.mass
        del path[choices.place :]
        while path and path[-1] == choices.widths[len(path) - 1] - 1:
            path.pop()
        if not path:
            return
        path[-1] += 1


def uniform(choices: Choices) -> Callable[[int, int], Any]:
    """In place of ``noise.uniform``, for one draw at a time."""

    def below(n: int, size: int) -> Any:
        if choices.mass < 1e-9:
            raise Cut
        return np.full(size, choices.choose([1 / n] * n) if size else 0)

    return below


def test_uniform_integers_are_uniform() -> None:
    """Law: bits beyond the last multiple of n are drawn again; all residues come equally often."""
    for n in (1, 2, 3, 7, 10**6 + 3, 2**61 + 1):
        last = TOTAL // n * n
        given = [0, 1, n - 1, n, 2 * n - 1, last - 1] + ([last, TOTAL - 1] if last < TOTAL else [])
        feed = [np.array(given, dtype=np.uint64), np.full(2, 5, dtype=np.uint64)]
        if n == 1:
            assert noise.uniform(1, 3).tolist() == [0, 0, 0]
            continue
        with replaced_bits(lambda size, feed=feed: feed.pop(0)[:size]):
            found = noise.uniform(n, len(given)).tolist()
        assert found == [x % n if x < last else 5 % n for x in given]


@few(3, ("u", "t"), [(0, 3), (1, 1), (1, 2), (1, 5), (2, 3), (2, 2)])
def test_the_chance_of_an_exponential_is_exact(u: int, t: int, monkeypatch: Any) -> None:
    """Law: P(true) = exp(-u/t), up to the paths that were cut."""
    true = lost = 0.0

    def run(choices: Choices) -> bool:
        monkeypatch.setattr(noise, "uniform", uniform(choices))
        return bool(noise._exp_chance(np.array([u]), t)[0])

    for result, mass in leaves(run):
        true += mass if result else 0.0
        lost += mass if result is None else 0.0
    assert lost < 1e-5
    assert true - 1e-12 <= math.exp(-u / t) <= true + lost + 1e-12


@pytest.mark.parametrize("scale", [Fraction(3, 2), Fraction(1, 2), Fraction(2), Fraction(5, 3)])
def test_accepted_values_follow_the_law(scale: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: one round accepts z with a probability proportional to exp(-|z|/scale)."""
    found: dict[int, float] = {}

    def run(choices: Choices) -> int:
        def chance(u: Any, t: int) -> Any:
            p = math.exp(-u[0] / t) if len(u) else 1.0
            if choices.mass < 1e-15:
                raise Cut
            return np.full(len(u), choices.choose([p, 1 - p]) == 0 if len(u) else True)

        calls = 0

        def below(n: int, size: int) -> Any:
            nonlocal calls
            calls += 1
            if calls > 2:
                raise Cut  # a second round: the first was rejected
            return np.full(size, choices.choose([1 / n] * n))

        monkeypatch.setattr(noise, "uniform", below)
        monkeypatch.setattr(noise, "_exp_chance", chance)
        return int(unbounded_laplace(scale, 1)[0])

    for z, mass in leaves(run):
        if z is not None:
            found[z] = found.get(z, 0.0) + mass
    total = sum(found.values())
    p = math.exp(-1 / scale)
    for z in range(-8, 9):
        assert found[z] / total == pytest.approx((1 - p) / (1 + p) * p ** abs(z), rel=1e-9)


def fits(draws: np.ndarray, scale: float) -> bool:
    """Chi-square on single values, tails pooled, at level ``LEVEL``."""
    p, reach = math.exp(-1 / scale), math.ceil(4 * scale)
    z = np.arange(-reach, reach + 1)
    inside = (1 - p) / (1 + p) * p ** np.abs(z)
    tail = p ** (reach + 1) / (1 + p)
    expected = np.concatenate([[tail], inside, [tail]]) * len(draws)
    clipped = np.clip(draws, -reach - 1, reach + 1) + reach + 1
    return bool(
        stats.chisquare(np.bincount(clipped, minlength=len(expected)), expected).pvalue > LEVEL
    )


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(0.7), Fraction(19), Fraction(7, 3)])
def test_draws_follow_the_law_and_a_wrong_scale_is_rejected(scale: Fraction) -> None:
    """Law: 1e5 draws fit; those of a scale that is 5 % off, or with zero twice, do not."""
    with seeded_noise(11):
        draws = unbounded_laplace(scale, DRAWS)
    assert fits(draws, float(scale))
    assert not fits(draws, float(scale) * 1.05)
    doubled = np.concatenate([draws, np.zeros(int((draws == 0).sum()), np.int64)])
    assert not fits(doubled, float(scale))  # as if minus zero were not rejected


def test_scales_near_the_end_of_the_range_do_not_overflow() -> None:
    """Law: whole numbers of any size in between; the scale comes out."""
    scale = Fraction(2**58 + 1)
    with seeded_noise(12):
        draws = unbounded_laplace(scale, 2000).astype(np.float64)
    assert np.abs(draws).mean() == pytest.approx(float(scale), rel=0.15)
    for wrong in (Fraction(0), Fraction(-1), Fraction(2**62), Fraction(1, 2**62)):
        with pytest.raises(ValueError, match="scale"):
            unbounded_laplace(wrong, 1)
    assert len(unbounded_laplace(Fraction(3), 0)) == 0


LARGE = [
    *(Fraction(10**10), Fraction(10**15), Fraction(2**54), Fraction(2**56)),
    *(Fraction(10**16 + 1, 3), Fraction(5 * 10**9 + 1, 2**20), Fraction(10**12 * 7 + 1, 2**20)),
]


def in_buckets(draws: np.ndarray, scale: Fraction) -> bool:
    """Chi-square over 40 buckets between quantiles of the exact law, at level ``LEVEL``."""
    p = math.exp(-1 / float(scale))
    rate = 1 / float(scale)
    ends = sorted(
        {0, *(sign * round(-math.log(2 * k / 40) / rate) for k in range(1, 20) for sign in (1, -1))}
    )

    def up_to(z: int) -> float:
        tail = math.exp(-(z + 1) * rate if z >= 0 else z * rate) / (1 + p)
        return 1 - tail if z >= 0 else tail

    expected = np.diff([0.0, *map(up_to, ends), 1.0]) * len(draws)
    found = np.histogram(draws, bins=[-(2**62) * 2, *(z + 1 for z in ends), 2**63 - 1])[0]
    return bool(stats.chisquare(found, expected * found.sum() / expected.sum()).pvalue > LEVEL)


@pytest.mark.parametrize("scale", LARGE, ids=str)
def test_draws_of_large_scales_follow_the_law_and_a_wrong_scale_is_rejected(scale: Any) -> None:
    """Law: 1e5 draws fit their pmf bucket by bucket; those of a scale 5 % off do not. Parity and
    low digits are even, too: nothing of a double is left."""
    with seeded_noise(13):
        draws = unbounded_laplace(scale, DRAWS)
    assert in_buckets(draws, scale)
    assert not in_buckets(draws, scale * Fraction(21, 20))
    assert not in_buckets(draws, scale * Fraction(19, 20))
    low = np.bincount(draws % 8, minlength=8)
    assert stats.chisquare(low).pvalue > LEVEL
    assert stats.binomtest(int((draws < 0).sum()), int((draws != 0).sum())).pvalue > LEVEL
