"""Discrete Laplace noise without bounds: its law, exactly.

What leading bits decide is compared with the law in a hundred decimal digits, what more bits
decide with a slow twin, and low bits by the tree of decisions, each path of which is weighed.
Statistics on seeded draws come second. Each is beside planted mistakes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpframe import noise
from dpframe.noise import TOTAL, replaced_bits, unbounded_laplace
from dpframe.testing import seeded_noise
from tests.members import few, some

LEVEL, DRAWS = 1e-6, 100_000
DIGITS = 100


def exponential(x: Fraction) -> Fraction:
    """exp(-x) to a hundred digits, by the standard library."""
    with localcontext() as context:
        context.prec = DIGITS
        return Fraction((Decimal(-x.numerator) / Decimal(x.denominator)).exp())


def law(scale: Fraction, z: int) -> Fraction:
    """P(z), to about a hundred digits."""
    q = exponential(1 / scale)
    return (1 - q) / (1 + q) * exponential(abs(z) / scale)


@pytest.mark.parametrize("bits", [32, 64, 160])
@pytest.mark.parametrize("x", [Fraction(1, 10**9), Fraction(1, 7), Fraction(1), Fraction(131, 3)])
def test_exponentials_are_enclosed(x: Fraction, bits: int) -> None:
    """Law: whole numbers on both sides of 2^bits exp(-x), at most three apart."""
    low, high = noise._exponential(x, bits)
    assert low <= exponential(x) * 2**bits <= high <= low + 3
    assert noise._exponential(Fraction(bits), bits) == (0, 1)


SMALL = [
    *(Fraction(1, 10**6), Fraction(3, 10), Fraction(1, 2), Fraction(3), Fraction(47, 3)),
    *(Fraction(16), Fraction(33), Fraction(100), Fraction(1001, 10)),
]


def outcomes(scale: Fraction, m: int, most: int) -> list[Fraction]:
    """The chances of the first outcomes by the law of z: those of all z with these high bits."""
    sides = [(1, 0), (-1, -1)]  # z = g, and z = -1 - g
    return [
        sum((law(scale, sign * (h * 2**m + low) + more) for low in range(2**m)), Fraction(0))
        for h in range(-(-most // 2))
        for sign, more in sides
    ][:most]


def enclose(edges: Sequence[int], chances: Sequence[Fraction], bits: int) -> bool:
    """Whether edges ascend and each pair, from the last, has P(outcome >= j) between it."""
    beyond = 1 - np.cumsum(np.array(chances, dtype=object))
    pairs = list(zip(edges[::2], edges[1::2], strict=True))[::-1]
    return list(edges) == sorted(set(edges)) and all(
        low <= rest * 2**bits <= high <= low + 2
        for (low, high), rest in zip(pairs, beyond, strict=False)
    )


@some("1/1000000", "1/2", "3", "47/3", "1001/10")
@pytest.mark.parametrize("scale", SMALL, ids=str)
def test_what_leading_bits_decide_and_what_they_leave_add_up_to_the_law(scale: Fraction) -> None:
    """Law: every outcome is between what 32 bits decide and this with what they leave, and at 96
    bits it is so again within. What is left is small. Planted mistakes do not pass."""
    m = noise._inverse(scale)[2]
    edges, finer = noise._edges(scale, m, 32), noise._edges(scale, m, 96)
    chances = outcomes(scale, m, len(edges) // 2)
    assert enclose(edges, chances, 32)
    assert enclose(finer, chances, 96)
    for low, high, finer_low, finer_high in zip(
        *(edges[::2][::-1], edges[1::2][::-1], finer[::2][::-1], finer[1::2][::-1]), strict=False
    ):
        assert low << 64 <= finer_low < finer_high <= high << 64
    left = edges[0] + sum(high - low for low, high in zip(edges[::2], edges[1::2], strict=True))
    assert left < 2**32 / 2**21
    for which in (0, len(edges) // 3, len(edges) - 1):
        for by in (-3, 3):
            assert not enclose(
                [*edges[:which], edges[which] + by, *edges[which + 1 :]], chances, 32
            )
    if len(edges) > 8:
        assert not enclose(noise._edges(scale * Fraction(10**6, 10**6 + 1), m, 32), chances, 32)
        fair = [sum(chances[i // 2 * 2 :][:2]) / 2 for i in range(len(chances) // 2 * 2)]
        assert not enclose(edges, fair, 32)  # as if both signs came equally often


@few(4, "scale", [*SMALL, Fraction(10**9), Fraction(2**40, 7), Fraction(2**61, 3)], ids=str)
def test_values_are_those_of_the_outcomes(scale: Fraction) -> None:
    """Law: even outcomes are h 2^m, odd ones the same with all bits flipped; each stands between
    the upper edge of its own and the lower edge of the one before."""
    edges, values, m = noise._inverse(scale)
    n = len(edges) // 2
    assert 8 * 2**m <= scale < 16 * 2**m or (m == 0 and scale < 16)
    assert set(values[1::2]) | {values[0]} == {noise.UNDECIDED}
    for place, value in enumerate(values[2::2].tolist(), 1):
        h, negative = divmod(n - place, 2)
        expected = -1 - (h << m) if negative else h << m
        assert value == (expected if abs(expected) < 2**63 else noise.UNDECIDED)
    assert (edges << np.uint64(32) == 0).all()


def twin(scale: Fraction, m: int, number: Fraction) -> int:
    """The z with low bits 0 of a uniform number, by going through all h."""
    with localcontext() as context:
        context.prec = 2 * DIGITS
        u = Decimal(number.numerator) / Decimal(number.denominator)
        rate = Decimal(scale.denominator) / Decimal(scale.numerator)
        q, r = (-rate).exp(), (-rate * 2**m).exp()
        h, above = 0, Decimal(1)  # P(g >> m >= h)
        while u < above * r:
            h, above = h + 1, above * r
        return h << m if u >= above * (q + r) / (1 + q) else -1 - (h << m)


def given(words: list[int]) -> Callable[[int], Any]:
    """In place of bits: these, one at a time; no more than these are drawn."""

    def bits(n: int) -> Any:
        assert n == 1
        return np.array([words.pop(0)], dtype=np.uint64)

    return bits


@pytest.mark.parametrize("scale", [Fraction(3, 2), Fraction(47, 3), Fraction(100)], ids=str)
def test_draws_are_those_of_a_slow_twin(scale: Fraction) -> None:
    """Law: z has the outcome that its leading bits invert to, and the low bits of its word if a
    coin shows heads, for then they are kept."""
    m = noise._inverse(scale)[2]
    for word in np.random.default_rng(3).integers(0, 2**64, 60, dtype=np.uint64).tolist():
        word |= 2**31  # a coin
        with replaced_bits(given([word])):
            found = int(unbounded_laplace(scale, 1)[0])
        assert found == twin(scale, m, Fraction(word >> 32, 2**32)) ^ (word % 2**m)


@pytest.mark.parametrize("scale", [Fraction(3, 2), Fraction(47, 3), Fraction(100)], ids=str)
def test_what_is_undecided_goes_on_with_more_bits(scale: Fraction) -> None:
    """Law: where 32 bits, or 96, do not decide, more bits of the same number do."""
    edges, _, m = noise._inverse(scale)
    known = [int(edges[at]) >> 32 for at in (0, 1, 2, len(edges) // 4 * 2, len(edges) - 2)]
    known[1] = 0
    for v in known:
        word = v << 32 | 2**31 | (2**m - 1)
        finer = [e - (v << 64) for e in noise._edges(scale, m, 96)]
        ends = [e for e in finer if 0 <= e < 2**64]
        tries = {0, 1, 2**63, 2**64 - 1, *ends, *(e - 1 for e in ends), *(e + 1 for e in ends)}
        for more in sorted(x for x in tries if 0 <= x < 2**64)[:12]:
            for last in (0, 2**63, 2**64 - 1):
                words = [word, more, last, 2**64 - 1]
                number = Fraction((((v << 64 | more) << 64 | last) << 64) + 2**64 - 1, 2**224)
                with replaced_bits(given(words)):
                    found = int(unbounded_laplace(scale, 1)[0])
                assert len(words) < 3  # more were drawn
                assert found == twin(scale, m, number) ^ (2**m - 1)


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


class Rejected(Exception):
    """A path that draws again."""


def leaves(run: Callable[[Choices], Any]) -> Iterator[tuple[Any, float]]:
    """Results of all paths with masses; None where a path was cut, -1 where it was rejected."""
    path: list[int] = []
    while True:
        choices = Choices(path)
        try:
            result = run(choices)
        except Cut:
            result = None
        except Rejected:
            result = -1
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
        if choices.mass < 1e-7:
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


@some("heads0-16-1", "heads0-32-2", "heads1-33/2-1")
@pytest.mark.parametrize(
    ("scale", "m"), [(Fraction(16), 1), (Fraction(33, 2), 1), (Fraction(32), 2)], ids=str
)
@pytest.mark.parametrize("heads", [Fraction(7, 8), Fraction(3, 4)])
def test_low_bits_follow_the_law(
    scale: Fraction, m: int, heads: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: they are kept with probability exp(-low/scale), up to the paths that were cut; not so if
    all coins showed tails more often than one time in eight."""
    kept = [0.0] * 2**m
    lost = 0.0

    def run(choices: Choices) -> int:
        def again(n: int) -> Any:
            raise Rejected

        low = choices.choose([2**-m] * 2**m)
        coin = 2**29 if choices.choose([float(heads), float(1 - heads)]) == 0 else 0
        monkeypatch.setattr(noise, "uniform", uniform(choices))
        with replaced_bits(again):
            return int(noise._low_bits(np.array([low | coin], dtype=np.uint64), scale, m)[0])

    for result, mass in leaves(run):
        if result is None:
            lost += mass
        elif result >= 0:
            kept[result] += mass
    assert lost < 1e-4
    right = [
        p - 1e-12 <= math.exp(-low / scale) / 2**m <= p + lost + 1e-12 for low, p in enumerate(kept)
    ]
    assert all(right) == (heads == Fraction(7, 8))


def test_many_low_bits_come_from_a_word_of_their_own() -> None:
    """Law: with 32 bits that invert and three coins, 29 of a word are left."""
    for scale in (Fraction(2**32), Fraction(2**33 - 1), Fraction(2**33), Fraction(2**57 + 1)):
        edges, _, m = noise._inverse(scale)
        word, low = int(edges[-1]) | 2**31 | 5, 0x123456789ABCDEF0
        words = [word, low]
        with replaced_bits(given(words)):
            found = int(unbounded_laplace(scale, 1)[0])
        assert found == (5 if m <= 29 else low % 2**m)
        assert len(words) == (1 if m <= 29 else 0)
    assert m == 54


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
    assert not fits(doubled, float(scale))  # as if minus zero came, too


def test_planted_pieces_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: 1e6 draws fit; not if all low bits are kept, nor if they are bits that invert, too."""
    scale, right = Fraction(64), noise._low_bits

    def drawn() -> np.ndarray:
        with seeded_noise(14):
            return unbounded_laplace(scale, 10 * DRAWS)

    assert fits(drawn(), float(scale))
    monkeypatch.setattr(noise, "_low_bits", lambda b, s, m: (b & np.uint64(7)).view(np.int64))
    assert not fits(drawn(), float(scale))
    monkeypatch.setattr(noise, "_low_bits", lambda b, s, m: right(b >> np.uint64(32), s, m))
    assert not fits(drawn(), float(scale))


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
    assert (unbounded_laplace(Fraction(1, 2**62 - 1), 1000) == 0).all()


def test_a_draw_beyond_64_bits_is_an_error() -> None:
    """Law: it never wraps. At a scale of 2^61, draws beyond 2^63 are beyond exp(-4)."""
    scale = Fraction(2**61 + 1)
    for chance in (Fraction(1, 58), Fraction(1, 10**6)):
        word = math.floor(chance * 2**32) << 32 | 2**31
        with replaced_bits(given([word, 0, 0])), pytest.raises(OverflowError):
            unbounded_laplace(scale, 1)
    with replaced_bits(given([math.floor(2**32 / 50) << 32 | 2**31, 0])):
        assert 2**62 < abs(int(unbounded_laplace(scale, 1)[0])) < 2**63


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
