"""Items as bits: what is encoded comes back, fast and slow agree, and codes are prefix-free."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dpframe.errors import ParameterError, ParameterTypeError
from dpframe.federated import BinaryEncoding, Encoding, HuffmanEncoding
from dpframe.federated.encoding import UNKNOWN, next_bits

anywhere = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""Also on a machine that is busy."""

FIBONACCI = [1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233]
SKEWED = HuffmanEncoding([c * n for c, n in zip("abcdefghijklm", FIBONACCI, strict=True)], "a-mxyz")
ENCODINGS = [
    BinaryEncoding(),
    BinaryEncoding("a"),
    BinaryEncoding("aBc é"),
    BinaryEncoding("".join(map(chr, range(0x4E00, 0x4E00 + 600)))),
    HuffmanEncoding(["selfie", "brunch", "the", "tee"]),
    HuffmanEncoding([], "ab"),
    HuffmanEncoding(["a" * 100_000], "abc"),
    SKEWED,
    Encoding("by hand", {"": "0" * 63, UNKNOWN: "1", "a": "01", "b": "001" + "0" * 50}),
]
texts = st.text(st.sampled_from("abcABé \0\n\U0001f600-zxyİßΣ\ud800\ufffd一丁"), max_size=30)
lengths = st.integers(1, 300)


def read(encoding: Encoding, item: str) -> str:
    """What can be told of an item: folded, unknown characters as one."""
    known = set(encoding.alphabet)
    folded = item.lower() if encoding.alphabet == encoding.alphabet.lower() else item
    return "".join(c if c in known else UNKNOWN for c in folded)


def bits_of(packed: np.ndarray, length: int) -> list[str]:
    words = ["".join(format(int(w), "064b") for w in row) for row in packed]
    assert all("1" not in w[length:] for w in words)
    return [w[:length] for w in words]


@anywhere
@given(st.sampled_from(ENCODINGS), texts, lengths)
def test_what_is_encoded_is_what_comes_back(encoding: Encoding, item: str, length: int) -> None:
    """Law: an item that fits comes back whole; one that is cut, as the characters that fit."""
    whole = sum(len(encoding.codes[c]) for c in read(encoding, item)) + len(encoding.codes[""])
    said = encoding.decode(encoding.encode(item, length))
    assert said.possible
    if whole <= length:
        assert (said.text, said.rest, said.ended) == (read(encoding, item), "", True)
    else:
        assert not said.ended
        assert read(encoding, item).startswith(said.text)
        cut = "".join(encoding.codes[c] for c in said.text) + said.rest
        assert cut == encoding.encode(item, length)


@anywhere
@given(st.sampled_from(ENCODINGS), st.lists(texts, max_size=12), lengths)
@example(ENCODINGS[0], ["a" * 500, "", "\0"], 64)
@example(ENCODINGS[0], ["ab" * 500, "b"], 128)
@example(ENCODINGS[0], ["ab\0", "ab", "\0ab"], 65)
def test_packed_bits_are_those_of_single_items(
    encoding: Encoding, items: list[str], length: int
) -> None:
    """Law: many items at once have the bits that each has alone, and zeros after them."""
    packed = encoding.packed(items, length)
    assert packed.shape == (len(items), length // 64 + 2)
    assert bits_of(packed, length) == [encoding.encode(item, length) for item in items]


@anywhere
@given(st.sampled_from(ENCODINGS), st.lists(texts, min_size=1, max_size=5), lengths, st.data())
def test_next_bits_are_read_anywhere(
    encoding: Encoding, items: list[str], length: int, data: st.DataObject
) -> None:
    """Law: bits of any range, also over the border of a word, are those of the text."""
    start = data.draw(st.integers(0, length - 1))
    size = data.draw(st.integers(1, min(62, length - start)))
    found = next_bits(encoding.packed(items, length), start, size)
    expected = [int(encoding.encode(item, length)[start : start + size], 2) for item in items]
    assert found.tolist() == expected


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda e: e.name)
def test_codes_are_prefix_free(encoding: Encoding) -> None:
    """Law: no code begins another, and they fit into a binary tree (Kraft)."""
    codes = list(encoding.codes.values())
    if len(codes) < 100:
        assert not any(b.startswith(a) for a, b in itertools.permutations(codes, 2))
    assert sum(2.0 ** -len(code) for code in codes) <= 1


@anywhere
@given(st.lists(st.text("abcde", max_size=8), max_size=20))
def test_a_huffman_code_is_shortest(public: list[str]) -> None:
    """Law: its mean length is within entropy and entropy + 1, and fills the tree."""
    encoding = HuffmanEncoding(public, "abcde")
    counted = Counter(dict.fromkeys(encoding.codes, 1))
    counted.update(c for item in public for c in item)
    counted[""] += len(public)
    total = sum(counted.values())
    entropy = -sum(n / total * math.log2(n / total) for n in counted.values())
    mean = sum(n / total * len(encoding.codes[c]) for c, n in counted.items())
    assert entropy - 1e-9 <= mean < entropy + 1
    assert sum(2.0 ** -len(code) for code in encoding.codes.values()) == 1


@anywhere
@given(texts.map(lambda t: t.replace("\ufffd", "?")), lengths, st.integers(0, 3))
def test_prefixes_that_no_item_has_are_recognised(item: str, length: int, flip: int) -> None:
    """Law: every prefix of an item is possible, and none with a 1 after the end."""
    encoding = ENCODINGS[4]
    bits = encoding.encode(item, 300)
    assert encoding.decode(bits[:length]).possible
    ends = sum(len(encoding.codes[c]) for c in read(encoding, item)) + len(encoding.codes[""])
    if ends + flip < 300:
        wrong = bits[: ends + flip] + "1" + bits[ends + flip + 1 :]
        assert not encoding.decode(wrong).possible


def test_different_cut_items_look_different() -> None:
    """Law: two items that differ in the bits of a character that is cut are not shown alike."""
    abc = BinaryEncoding()
    one, other = (abc.decode(abc.encode(item, 13)) for item in ("abcd", "abzz"))
    assert one.text == other.text == "ab"
    assert (one.rest, other.rest) == (abc.codes["c"][:3], abc.codes["z"][:3])


def test_the_name_of_a_code_tells_codes_apart() -> None:
    """Law: what receipts say depends on every code, and on nothing else."""
    names = {encoding.spec for encoding in ENCODINGS}
    assert len(names) == len(ENCODINGS)
    assert BinaryEncoding("ab").spec == BinaryEncoding("aabb").spec != BinaryEncoding("ba").spec
    public = ["one", "two", "three"]
    assert HuffmanEncoding(public).spec == HuffmanEncoding(public[::-1]).spec


@pytest.mark.parametrize(
    "codes",
    [
        {"": "0"},
        {"": "0", UNKNOWN: "1"},
        {"": "0", UNKNOWN: "10", "ab": "11"},
        {"": "0", UNKNOWN: "10", "\0": "11"},
        {"": "0", UNKNOWN: "10", "a": "1"},
        {"": "0", UNKNOWN: "10", "a": "10"},
        {"": "0", UNKNOWN: "10", "a": ""},
        {"": "0", UNKNOWN: "10", "a": "1x"},
        {"": "0", UNKNOWN: "10", "a": "11" * 32},
    ],
)
def test_codes_that_cannot_be_read_back_are_refused(codes: dict[str, str]) -> None:
    with pytest.raises(ParameterError):
        Encoding("wrong", codes)


@pytest.mark.parametrize("alphabet", ["", "\ufffd", "\0", "".join(map(chr, range(32, 70_000)))])
def test_alphabets_are_checked(alphabet: str) -> None:
    with pytest.raises(ParameterError, match="alphabet"):
        BinaryEncoding(alphabet)


def test_public_items_are_texts() -> None:
    for wrong in ("abc", [1], {"a": 1}, 3):
        with pytest.raises(ParameterTypeError, match="public"):
            HuffmanEncoding(wrong)  # type: ignore[arg-type]
