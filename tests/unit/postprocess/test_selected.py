"""Intervals given the selection: exact enumeration, a slow twin, and bugs that must be seen."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpframe.noise import NoiseTable, gaussian_table, laplace_table, table_from_density
from dpframe.postprocess.joint_noise import sum_widths
from dpframe.postprocess.selection_intervals import (
    _cut_charge,
    _log_moments,
    _step_charge,
    plain_interval,
    remainder_interval,
    selected_interval,
)
from tests.members import in_turn, some

BUMPS = table_from_density(
    "bumps", -9, np.array([3, 1, 2, 1, 5, 1, 1, 9, 1, 20, 1, 9, 1, 1, 5, 1, 2, 1, 3.0])
)
LAWS = {
    "Laplace": laplace_table(5, 57),
    "narrow": laplace_table(0.3, 5),
    "Gaussian": gaussian_table(4, 25),
    "units": laplace_table(5 * 4, 57 * 4),
    "not log-concave": BUMPS,
}
ROUNDING = 1e-11


def selected_misses(law: NoiseTable, n: int, confidence: float, interval: Any) -> tuple[Any, Any]:
    """P(n is below the interval | shown), P(n is above | shown), threshold highest + 2."""
    threshold = law.highest + 2
    noise = np.arange(max(law.lowest, threshold - n), law.highest + 1)
    chance = law.pmf[noise - law.lowest]
    lower, upper = interval(law, threshold, n + noise, confidence)
    return chance[lower > n].sum() / chance.sum(), chance[upper < n].sum() / chance.sum()


def plain(law: NoiseTable, _: int, noisy: Any, confidence: float) -> Any:
    return plain_interval(law, noisy, confidence)


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.95, 0.999])
@pytest.mark.parametrize("name", LAWS)
def test_selected_intervals_cover_given_selection(name: str, confidence: float) -> None:
    """Exactly, for every count that can be shown: each side misses with at most half the error."""
    law = LAWS[name]
    for n in range(2, 2 * law.highest + 7):
        for miss in selected_misses(law, n, confidence, selected_interval):
            assert miss <= (1 - confidence) / 2 + ROUNDING


@pytest.mark.parametrize("name", LAWS)
def test_plain_intervals_fail_near_the_threshold(name: str) -> None:
    """The planted bug: given selection, the interval of the noise alone misses small counts."""
    law = LAWS[name]
    below, _ = selected_misses(law, 2, 0.8, plain)
    assert below == 1
    far = max(sum(selected_misses(law, 3 * law.highest, c, plain)) - 1 + c for c in (0.8, 0.95))
    assert far <= ROUNDING  # and is right far from it


def naive_selected(
    law: NoiseTable, threshold: int, y: int, confidence: Fraction, least: int
) -> Any:
    """The definition, in fractions, count by count."""
    weight = {law.lowest + i: int(w) for i, w in enumerate(law.weights)}

    def mass(low: int, high: int) -> int:
        return sum(w for v, w in weight.items() if low <= v <= high)

    half, kept_low, kept_high = (1 - confidence) / 2, [], [y]
    for n in range(least, y - law.lowest + 2):
        shown = mass(threshold - n, law.highest)
        if mass(y - n, law.highest) > half * shown:
            kept_low.append(n)
        if mass(threshold - n, y - n) > half * shown:
            kept_high.append(n)
    return min(kept_low), max(kept_high)


@some("narrow-1", "not log-concave-1")
@in_turn(("name", ["narrow", "Gaussian", "not log-concave"]), ("least", [1, 9]))
def test_selected_intervals_are_their_definition(name: str, least: int) -> None:
    """Tabulated offsets give the ends that fractions give; beyond the table the plain ones."""
    law = LAWS[name]
    threshold = law.highest + least + 1
    noisy = np.arange(threshold, threshold + 3 * len(law.weights))
    for confidence in (0.8, 0.95):
        lower, upper = selected_interval(law, threshold, noisy, confidence, least)
        for y, low, high in zip(noisy.tolist(), lower.tolist(), upper.tolist(), strict=True):
            exact = naive_selected(law, threshold, y, Fraction(str(confidence)), least)
            assert (low, high) == exact
        far = noisy >= threshold + len(law.weights)
        for end, expected in zip((lower, upper), plain(law, 0, noisy, confidence), strict=True):
            np.testing.assert_array_equal(end[far], expected[far])
        assert (lower <= noisy).all()
        assert (noisy <= upper).all()


def remainder_misses(
    law: NoiseTable, above: NoiseTable, counts: Any, cut: Any, rest: int, told: Any = None
) -> Any:
    """P(rest below), P(rest above the interval), given which children are shown and why."""
    threshold = law.highest + 2
    ranges = [range(above.lowest, above.highest + 1)]
    for n, only in zip(counts, cut, strict=True):
        ranges.append(
            range(max(law.lowest, threshold - n) if only else law.lowest, law.highest + 1)
        )
    noise = np.array(list(itertools.product(*ranges)))
    chance = above.pmf[noise[:, 0] - above.lowest] * law.pmf[noise[:, 1:] - law.lowest].prod(1)
    m, k = len(noise), len(counts)
    lower, upper = remainder_interval(
        above,
        law,
        sum(counts) + rest + noise[:, 0],
        (np.array(counts) + noise[:, 1:]).ravel(),
        np.repeat(np.arange(m), k),
        np.tile(np.array(cut if told is None else told, dtype=np.bool_), m),
        threshold=threshold,
        confidence=0.8,
    )
    assert (lower >= 0).all()
    assert (lower <= upper).all()
    total = chance.sum()
    return chance[lower > rest].sum() / total, chance[upper < rest].sum() / total


TINY = {
    "Laplace": laplace_table(1, 4),
    "Gaussian": gaussian_table(2, 5),
    "narrow": laplace_table(0.1, 2),
}


@pytest.mark.parametrize("name", TINY)
def test_remainders_cover_for_every_tiny_tree(name: str) -> None:
    """All noise enumerated: each side misses with at most half the error, whatever is cut."""
    law = TINY[name]
    above = gaussian_table(1.5, 3)
    counts = [2, 3, law.highest + 2, 2 * law.highest, 40]
    for k in (1, 2):
        for n in itertools.combinations_with_replacement(counts, k):
            for cut in itertools.product([False, True], repeat=k):
                for rest in (0, 50):
                    below, over = remainder_misses(law, above, n, cut, rest)
                    assert below <= 0.1 + ROUNDING, (n, cut)
                    assert over <= 0.1 + ROUNDING, (n, cut)


def test_ignoring_the_cut_is_seen() -> None:
    """The planted bug: a cut child taken for a plain one, and the remainder is above most often."""
    law = laplace_table(1, 4)
    _, over = remainder_misses(
        law, gaussian_table(1.5, 3), (2, 3), (True, True), 50, (False, False)
    )
    assert over > 0.5


def mean_of_e_value(law: NoiseTable, rate: float, cut: int, charge: Any) -> float:
    """E(exp(rate V - charge) given V >= cut), charge for an excess of V - cut."""
    noise = np.arange(max(cut, law.lowest), law.highest + 1)
    chance = law.pmf[noise - law.lowest]
    return float((chance * np.exp(rate * noise - charge[noise - cut])).sum() / chance.sum())


@pytest.mark.parametrize("name", LAWS)
def test_e_values_have_mean_at_most_one(name: str) -> None:
    """What a cut child is charged pays for its noise, at every cut; a little less does not."""
    law = LAWS[name]
    excess = np.arange(3 * len(law.weights))
    cuts = range(law.lowest - 3, law.highest + 1)
    for rate in np.array([0.03, 0.3, 1.5]) / law.sd:
        whole = _log_moments(law, rate)[0]
        mixed = whole + _cut_charge(law, rate, excess, excess, len(excess))
        assert max(mean_of_e_value(law, rate, k, mixed) for k in cuts) <= 1 + 1e-9
        for step in (1, law.highest // 4 + 1, law.highest // 2 + 1):
            paid = _step_charge(law.weights.tobytes(), law.highest, float(rate), step)
            charge = paid + np.where(excess < step, rate * law.highest, whole)
            largest = max(mean_of_e_value(law, rate, k, charge) for k in cuts)
            assert largest == pytest.approx(1, abs=1e-9)


def test_parents_without_children_and_no_parents() -> None:
    """A parent alone has its plain interval; nothing gives nothing."""
    law, none = laplace_table(5, 57), np.zeros(0, dtype=np.int64)
    args: Any = {"threshold": 59, "confidence": 0.9}
    noisy = np.array([500, 7])
    lower, upper = remainder_interval(law, law, noisy, none, none, none > 0, **args)
    low, high = plain_interval(law, noisy, 0.9)
    np.testing.assert_array_equal(lower, np.maximum(low, 0))
    np.testing.assert_array_equal(upper, high)
    assert remainder_interval(law, law, none, none, none, none > 0, **args)[0].shape == (0,)


@pytest.mark.parametrize(
    ("law", "k"),
    [
        (laplace_table(1, 9), 0),
        (laplace_table(1, 9), 7),
        (laplace_table(1, 9), 33),
        (gaussian_table(3, 20), 100),
        (laplace_table(400, 3000), 1),
        (laplace_table(400, 3000), 5),
        (gaussian_table(700, 3000), 40),
    ],
    ids=lambda v: f"{v.family} {v.sd:.0f}" if isinstance(v, NoiseTable) else str(v),
)
def test_width_of_sums(law: NoiseTable, k: int) -> None:
    """Against the dense convolution: never too short, the least or some percent more."""
    size = 1 << ((k + 1) * len(law.weights)).bit_length()
    dense = np.fft.irfft(np.fft.rfft(law.pmf, size) ** (k + 1), size)
    over = np.append(np.cumsum(dense[::-1])[::-1], 0.0)  # P(sum >= i + (k + 1) lowest)
    for tail in (0.1, 0.025, 0.001):
        w = int(sum_widths(law, law, np.array([k]), tail)[0])
        least = int(np.argmax(over <= tail + 1e-12)) + (k + 1) * law.lowest - 1
        assert least <= w
        assert w == least if k <= 32 and law.sd < 200 else w <= 1.07 * least + 1
