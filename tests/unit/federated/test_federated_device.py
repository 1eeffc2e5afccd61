"""What runs on a device: the laws of one report, enumerated, and what it chooses."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpframe.errors import ParameterError, ParameterTypeError
from dpframe.federated import BinaryEncoding, HuffmanEncoding, randomize, select_data
from dpframe.noise import TOTAL, replaced_bits
from dpframe.testing import seeded_noise

LEVEL = 1e-6
ABC = BinaryEncoding("abc")


def likelihood(report: tuple[int, ...], chances: list[Fraction]) -> Fraction:
    """Of a report whose bits are independent."""
    bits = zip(report, chances, strict=True)
    return math.prod((p if bit else 1 - p for bit, p in bits), start=Fraction(1))


def least_uniform(cell: int | None, cells: int, el: float) -> list[Fraction]:
    """The exact chance of every bit of a report: how many of the 2**64 integers make it 1."""
    low, high = [0] * cells, [TOTAL] * cells
    while any(h - lo > 1 for lo, h in zip(low, high, strict=True)):
        middle = [(lo + h) // 2 for lo, h in zip(low, high, strict=True)]
        told = iter([np.array(middle, dtype=np.uint64)] * 2)

        def bits(n: int, told: Any = told, middle: list[int] = middle) -> np.ndarray:
            given = next(told)
            return given if n == cells else given[[cell or 0]]

        with replaced_bits(bits):
            one = randomize(cell, cells, el)
        low = [m if b else lo for m, b, lo in zip(middle, one, low, strict=True)]
        high = [h if b else m for m, b, h in zip(middle, one, high, strict=True)]
    return [Fraction(h, TOTAL) for h in high]


@pytest.mark.parametrize("el", [0.05, 0.7, 2.0, 10.71, 30.0])
def test_a_report_is_exactly_locally_private(el: float) -> None:
    """Law: over all reports and all cells, held or none, ratios are at most e^el, and reach it."""
    cells = [None, 0, 1, 2]
    chances = {c: least_uniform(c, 3, el) for c in cells}
    worst = Fraction(0)
    for report in itertools.product((0, 1), repeat=3):
        seen = [likelihood(report, chances[c]) for c in cells]
        worst = max(worst, max(seen) / min(seen))
    assert math.log(worst) <= el
    assert math.log(worst) > el - 1e-9 * max(1.0, math.exp(el) * 1e-9)


def test_reports_of_half_the_noise_are_rejected() -> None:
    """Planted bug: silent cells that report with half the chance are above el."""
    right = least_uniform(0, 2, 2.0)
    other = [right[1] / 2, right[0]]
    ratio = likelihood((0, 1), other) / likelihood((0, 1), [right[0], right[1] / 2])
    assert math.log(ratio) > 2.0


def chosen(draws: int, items: Mapping[str, int], **asked: Any) -> Counter[str | None]:
    random = np.random.default_rng(3)
    told = {"encoding": ABC, "prefixes": [""], "segment": 3, **asked}
    return Counter(select_data(items, random=random, **told) for _ in range(draws))


def test_a_device_reports_only_below_the_prefixes() -> None:
    """Conditioned, it always has something to say; else only as often as it chose such an item."""
    items, a = {"ab": 1, "b": 1, "c": 1}, ABC.codes["a"]
    below = chosen(300, items, prefixes=[a])
    assert set(below) == {a + ABC.codes["b"]}
    free = chosen(3000, items, prefixes=[a], conditioned=False)
    assert set(free) == {a + ABC.codes["b"], None}
    assert stats.binomtest(free[None], 3000, 2 / 3).pvalue > LEVEL
    assert stats.binomtest(free[None], 3000, 1 / 2).pvalue < LEVEL
    assert chosen(3, items, prefixes=["111"]) == {None: 3}
    assert chosen(3, {}) == {None: 3}


def test_denied_items_are_those_that_look_like_them() -> None:
    """What is found, and comes back as a deny list, is what the server saw: unknown characters are
    one, capitals are small letters."""
    assert chosen(3, {"aé": 1, "AÈ": 2}, deny=["a\ufffd"]) == {None: 3}
    assert set(chosen(30, {"Ab": 1, "c": 1}, deny=["aB"])) == {ABC.codes["c"]}


LETTERS = BinaryEncoding("".join(map(chr, range(0x4E00, 0x4E00 + 2000))))
X, Y, Z = LETTERS.alphabet[:3]


@pytest.mark.parametrize(
    ("encoding", "items", "seen", "law", "wrong"),
    [
        (LETTERS, [X * 30 + Y, X * 30 + Z, Y], Y, 1 / 3, 1 / 2),
        (ABC, ["AB", "ab", "aB", "c"], "c", 1 / 2, 1 / 4),
    ],
    ids=["different, however long their codes are", "one, where their bits are the same"],
)
def test_items_are_what_their_bits_are(
    encoding: BinaryEncoding, items: list[str], seen: str, law: float, wrong: float
) -> None:
    """Law: each item is as likely as any other; the other law is rejected."""
    held, size = dict.fromkeys(items, 1), len(encoding.codes[seen])
    found = chosen(2000, held, encoding=encoding, segment=size)
    assert stats.binomtest(found[encoding.codes[seen]], 2000, law).pvalue > LEVEL
    assert stats.binomtest(found[encoding.codes[seen]], 2000, wrong).pvalue < LEVEL


def test_a_real_device_reports_what_a_server_can_count() -> None:
    """End to end: encoded, chosen, randomised, added up; the held cell stands out."""
    huffman = HuffmanEncoding(["ab", "abc"], "abc")
    with seeded_noise(5):
        bits = [
            select_data({"ab": 1}, encoding=huffman, prefixes=[""], segment=4) for _ in range(300)
        ]
        sums = sum(randomize(int(b or "", 2), 16, 3.0).astype(int) for b in bits)
    assert int(np.argmax(sums)) == int(huffman.encode("ab", 4), 2)


def test_arguments_of_devices_are_checked() -> None:
    with pytest.raises(ParameterTypeError, match="deny"):
        select_data({"a": 1}, encoding=ABC, prefixes=[""], segment=3, deny="a")
    for cell in (-1, 3):
        with pytest.raises(ParameterError, match="from 0 to 2"):
            randomize(cell, 3, 1.0)
