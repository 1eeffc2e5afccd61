"""The sampler draws from the table that the accountant reads, exactly.

Inverting the bits is checked at every boundary, without chance. Statistics on 1e5 seeded draws
at level 1e-6 follow, each beside a twin with a wrong scale that must be rejected.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import dpframe
from dpframe.noise import (
    TOTAL,
    NoiseTable,
    gaussian_table,
    halves,
    laplace_table,
    operating_system_bits,
    random_seed,
    replaced_bits,
)
from dpframe.testing import seeded_noise

from .naive_accounting import tail

LEVEL, DRAWS = 1e-6, 100_000


def skewed(family: str, left: float, bound: int) -> Callable[[float], NoiseTable]:
    """Two halves, the right one geometric, with scales so many times what they are."""
    return lambda stretch: halves(
        left=(family, left * stretch, bound),  # type: ignore[arg-type]
        right=("geometric", 1.5 * stretch, 28),
        recentre=True,
    )


COIN = NoiseTable("coin", -1, np.array([TOTAL // 2, TOTAL // 2], dtype=np.uint64))
LAWS: dict[str, Callable[[float], NoiseTable]] = {
    "laplace": lambda stretch: laplace_table(3.0 * stretch, 46),
    "gaussian": lambda stretch: gaussian_table(8.0 * stretch, 50),
    "geometric halves": skewed("geometric", 6.0, 120),
    "gaussian left": skewed("gaussian", 17.0, 110),
    "shares of a user": lambda stretch: laplace_table(768.0 * stretch, 12_000),
    "two values": lambda stretch: COIN,
}


@pytest.fixture(params=LAWS)
def law(request: pytest.FixtureRequest) -> NoiseTable:
    """Each of them in turn."""
    return LAWS[request.param](1.0)


def drawn(law: NoiseTable, seed: int) -> NDArray[np.int64]:
    with seeded_noise(seed):
        return law.draw(DRAWS)


def p_value(sample: NDArray[np.int64], law: NoiseTable) -> float:
    """Chi-square of a sample against a table, neighbours pooled to 25 expected draws or more."""
    counts = np.bincount(sample - law.lowest, minlength=len(law.weights))
    seen, expected, pooled = [0], [0.0], law.pmf * len(sample)
    for count, mass in zip(counts, pooled, strict=True):
        if expected[-1] >= 25:
            seen.append(0)
            expected.append(0.0)
        seen[-1] += int(count)
        expected[-1] += float(mass)
    if expected[-1] < 25 and len(expected) > 1:
        last, few = expected.pop(), seen.pop()
        expected[-1] += last
        seen[-1] += few
    return float(stats.chisquare(seen, expected).pvalue)


# -- exactly -----------------------------------------------------------------------------------


def test_the_weights_sum_to_two_to_the_64(law: NoiseTable) -> None:
    """Law: every table is a probability distribution in integers, positive at both ends."""
    assert sum(law.weights.tolist()) == TOTAL
    assert law.weights[0] > 0
    assert law.weights[-1] > 0


def test_rounding_never_loses_weight() -> None:
    """Law: for many scales and bounds the integer weights still sum to exactly 2**64."""
    for scale in np.geomspace(0.2, 3000, 25):
        for bound in (1, 2, 17, 400):
            for table in (laplace_table(scale, bound), gaussian_table(scale, bound)):
                assert sum(table.weights.tolist()) == TOTAL


def test_a_draw_inverts_its_bits_at_every_boundary(law: NoiseTable) -> None:
    """Law: value i is drawn for exactly ``weights[i]`` of the 2**64 integers.

    Both edges of every interval are checked, so the intervals and hence their lengths are exact.
    """
    edges = [0, *accumulate(law.weights.tolist())]
    assert edges[-1] == TOTAL
    firsts, lasts = edges[:-1], [edge - 1 for edge in edges[1:]]
    inside = [i for i, (a, b) in enumerate(pairwise(edges)) if b > a]
    for bits in (firsts, lasts):
        fixed = np.array([bits[i] for i in inside], dtype=np.uint64)
        with replaced_bits(lambda n, fixed=fixed: fixed[:n]):
            values = law.draw(len(inside))
        assert values.tolist() == [law.lowest + i for i in inside]


def test_tails_are_sums_of_weights_from_their_own_side(law: NoiseTable) -> None:
    """Law: what the accountant reads as P(W >= x) and P(W < x) are sums of the drawn weights."""
    step = max(1, len(law.weights) // 200)
    for i in [*range(0, len(law.weights), step), len(law.weights)]:
        above, below = tail(law, law.lowest + i)
        assert law.at_least()[i] == pytest.approx(above, rel=1e-15, abs=0)
        assert law.cumulative_chances()[i] == pytest.approx(below, rel=1e-15, abs=0)


@pytest.mark.parametrize("build", [laplace_table, gaussian_table])
def test_release_laws_are_symmetric_to_the_last_bit(build) -> None:
    """Law: P(V = v) == P(V = -v); released counts are unbiased, one curve serves both sides."""
    for scale, bound in ((0.7, 9), (3.0, 46), (768.0, 12_000)):
        law = build(scale, bound)
        assert law.lowest == -law.highest
        assert np.array_equal(law.weights, law.weights[::-1])


@pytest.mark.parametrize("name", ["geometric halves", "gaussian left"])
def test_a_recentred_law_is_a_coin_flip_at_zero(name: str) -> None:
    """Law: with room, P(W >= 0) is 1/2 up to half of the largest weight."""
    law = LAWS[name](1.0)
    chance = float(law.at_least()[-law.lowest])
    assert abs(chance - 0.5) <= float(law.pmf.max()) / 2 + 1e-12


# -- statistically -----------------------------------------------------------------------------


def test_draws_follow_the_table(law: NoiseTable) -> None:
    """Law: 1e5 draws pass a chi-square test against the pmf of the table at level 1e-6."""
    assert p_value(drawn(law, seed=1), law) > LEVEL


@pytest.mark.parametrize("stretch", [0.9, 1.1])
@pytest.mark.parametrize("name", [n for n in LAWS if n != "two values"])
def test_a_scale_ten_percent_off_is_rejected(name: str, stretch: float) -> None:
    """Negative control: the same test rejects draws whose scale is 10 % off."""
    law, off = LAWS[name](1.0), LAWS[name](stretch)
    sample = np.clip(drawn(off, seed=1), law.lowest, law.highest)
    assert p_value(sample, law) < LEVEL


def test_a_law_moved_by_one_is_rejected() -> None:
    """Negative control: an off-by-one in the inversion would be seen."""
    law = LAWS["geometric halves"](1.0)
    sample = np.clip(drawn(law, seed=1) + 1, law.lowest, law.highest)
    assert p_value(sample, law) < LEVEL


def test_successive_draws_are_independent() -> None:
    """Law: draws of one call and of successive calls show no correlation at level 1e-6.

    Negative control: a draw that is shared by neighbouring rows is rejected.
    """
    law = laplace_table(3.0, 46)
    with seeded_noise(3):
        together = law.draw(DRAWS)
        apart = np.concatenate([law.draw(10) for _ in range(2_000)])
    for sample, independent in (
        (together, True),
        (apart, True),
        (np.repeat(together[: DRAWS // 2], 2), False),
    ):
        p = stats.pearsonr(sample[:-1], sample[1:]).pvalue
        assert (p > LEVEL) == independent


def test_the_bits_come_from_the_operating_system() -> None:
    """Law: the source is os.urandom: uniform in every byte, and never the same twice."""
    bits = operating_system_bits(20_000)
    assert bits.dtype == np.uint64
    assert len(np.unique(bits)) == len(bits)
    assert not np.array_equal(bits, operating_system_bits(20_000))
    for seed in (random_seed(), random_seed()):
        assert 0 <= seed < 2**63


RANDOM = re.compile(
    r"^ *(import|from) (random|secrets|numpy\.random|scipy\.stats)\b|\burandom\b"
    r"|^ *from (numpy|scipy) import .*\b(random|stats)\b|\b(np|numpy)\.random\b",
    re.MULTILINE,
)
ALLOWED = {
    RANDOM: {"noise.py", "gateway/policy.py"},  # tokens of analysts
    re.compile("public_generator"): {
        *("noise.py", "generator.py", "marginals.py", "evaluation/__init__.py")
    },
    re.compile(r"replaced_bits|dpframe\.testing"): {"noise.py", "testing.py"},
}


def test_no_other_module_touches_randomness() -> None:
    """Law: only noise.py reads os.urandom or makes a generator; only testing.py replaces it.

    ``noise.public_generator`` is for drawing from what is released already.
    """
    for path in Path(dpframe.__file__).parent.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for words, files in ALLOWED.items():
            known = path.as_posix().endswith(tuple(f"/{file}" for file in files))
            assert known or not words.search(text), path.name
