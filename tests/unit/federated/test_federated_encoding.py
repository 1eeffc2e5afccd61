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
from dpframe.federated.encoding import CUT, LETTERS, next_bits

anywhere = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""Also on a machine that is busy."""

FIBONACCI = [1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233]
SKEWED = HuffmanEncoding([c * n for c, n in zip("abcdefghijklm", FIBONACCI, strict=True)], "a-mxyz")
ENCODINGS = [
    BinaryEncoding(),
    BinaryEncoding(LETTERS),
    BinaryEncoding("a"),
    BinaryEncoding("aBc é"),
    BinaryEncoding("".join(map(chr, range(0x4E00, 0x4E00 + 600)))),
    HuffmanEncoding(["selfie", "brunch", "the", "tee"]),
    HuffmanEncoding([], "ab"),
    HuffmanEncoding(["a" * 100_000], "abc"),
    SKEWED,
    Encoding("by hand", {"": "0" * 63, CUT: "1", "a": "01", "b": "001" + "0" * 50}),
]
texts = st.text(st.sampled_from("abcABé \0\n\U0001f600-zxyİßΣ\ud800\ufffd一丁"), max_size=30)
lengths = st.integers(1, 300)


def folded(encoding: Encoding, item: str) -> str:
    return item.lower() if encoding.alphabet == encoding.alphabet.lower() else item


def slowly(encoding: Encoding, item: str, length: int) -> str | None:
    """How an item is shown: whole, the characters that fit, or not at all."""
    out, room = "", length
    for c in folded(encoding, item):
        if room and c not in encoding.alphabet:
            return None
        if not room or len(encoding.codes[c]) > room:
            return out + "\u2026"
        out, room = out + c, room - len(encoding.codes[c])
    return out if len(encoding.codes[""]) <= room else out + "\u2026"


def bits_of(packed: np.ndarray, length: int) -> list[str]:
    words = ["".join(format(int(w), "064b") for w in row) for row in packed]
    assert all("1" not in w[length:] for w in words)
    return [w[:length] for w in words]


@anywhere
@given(st.sampled_from(ENCODINGS), texts, lengths)
def test_what_is_encoded_is_what_comes_back(encoding: Encoding, item: str, length: int) -> None:
    """Law: an item that fits comes back whole; one that is cut, as the characters that fit; one
    that cannot be written in the alphabet has no bits."""
    expected = slowly(encoding, item, length)
    assert encoding.label_of(item, length) == expected
    assert encoding.reads(item, length) == (expected is not None)
    if expected is None:
        with pytest.raises(ParameterError, match="outside of the alphabet"):
            encoding.encode(item, length)
        return
    said = encoding.decode(encoding.encode(item, length), length)
    assert (said.label, said.possible, said.ended) == (expected, True, True)


@anywhere
@given(st.sampled_from(ENCODINGS), st.lists(texts, max_size=8), lengths)
def test_labels_tell_items_apart(encoding: Encoding, items: list[str], length: int) -> None:
    """Law: items look alike if and only if they have the same bits, also where they are cut."""
    read = [i for i in items if encoding.reads(i, length)]
    bits = {encoding.encode(i, length) for i in read}
    labels = {(b, encoding.decode(b, length).label) for b in bits}
    assert len({label for _, label in labels}) == len(bits)


@anywhere
@given(st.sampled_from(ENCODINGS), st.text("01", min_size=1, max_size=70))
def test_bits_that_no_item_has_are_not_possible(encoding: Encoding, bits: str) -> None:
    """Law: whatever is possible at full length is the label of an item that one could hold."""
    said = encoding.decode(bits, len(bits))
    assert said.ended or not said.possible
    if said.possible and not said.cut:
        assert encoding.encode(said.text, len(bits)) == bits
    if said.possible and said.cut:
        longer = [said.text + c for c in encoding.alphabet if encoding.fold(c) == c]
        assert bits in {encoding.encode(item, len(bits)) for item in [said.text, *longer]}


@anywhere
@given(st.sampled_from(ENCODINGS), st.lists(texts, max_size=12), lengths)
@example(ENCODINGS[0], ["a" * 500, "", "\0"], 64)
@example(ENCODINGS[0], ["ab" * 500, "b"], 128)
@example(ENCODINGS[0], ["ab\0", "ab", "\0ab"], 65)
def test_packed_bits_are_those_of_items(encoding: Encoding, items: list[str], length: int) -> None:
    """Law: many items at once have the bits that each has alone, and zeros after them."""
    packed, readable = encoding.pack_items(items, length)
    assert packed.shape == (len(items), length // 64 + 2)
    assert readable.tolist() == [encoding.reads(item, length) for item in items]
    read = [item for item in items if encoding.reads(item, length)]
    assert bits_of(packed[readable], length) == [encoding.encode(item, length) for item in read]


@anywhere
@given(st.sampled_from(ENCODINGS), st.lists(texts, min_size=1, max_size=5), lengths, st.data())
def test_next_bits(encoding: Encoding, items: list[str], length: int, data: st.DataObject) -> None:
    """Law: bits of any range, also over the border of a word, are those of the text."""
    start = data.draw(st.integers(0, length - 1))
    size = data.draw(st.integers(1, min(62, length - start)))
    packed, readable = encoding.pack_items(items, length)
    found = next_bits(packed[readable], start, size)
    read = [item for item in items if encoding.reads(item, length)]
    expected = [int(encoding.encode(item, length)[start : start + size], 2) for item in read]
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
@given(st.text("selfibrunchtA", max_size=30), lengths, st.integers(0, 3))
def test_prefixes_that_no_item_has_are_recognised(item: str, length: int, flip: int) -> None:
    """Law: every prefix of an item is possible, and none with a 1 after the end."""
    encoding = ENCODINGS[5]
    bits = encoding.encode(item, 300)
    assert encoding.decode(bits[:length], 300).possible
    ends = sum(len(encoding.codes[c]) for c in item.lower()) + len(encoding.codes[""])
    if ends + flip < 300:
        wrong = bits[: ends + flip] + "1" + bits[ends + flip + 1 :]
        assert not encoding.decode(wrong, 300).possible


def test_the_default_alphabet_covers_what_people_write() -> None:
    """Law: words, numbers, hosts, paths and addresses are read as they are, in six bits a
    character; other scripts are left out by rule, and never shown as something else."""
    default = BinaryEncoding()
    for item in ("covid-19", "10.0.0.1", "a/b_c.txt", "who@example.org", "50% off!", "2026"):
        assert default.label_of(item, 600) == item
    assert {len(code) for code in default.codes.values()} == {6}
    assert default.label_of("Zürich", 600) is None
    assert default.label_of("mmmmmmmmmmmü", 60) == "mmmmmmmmmm\u2026"


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
        {"": "0", CUT: "1"},
        {"": "0", CUT: "10", "ab": "11"},
        {"": "0", CUT: "10", "\0": "11"},
        {"": "0", CUT: "10", "a": "1"},
        {"": "0", CUT: "10", "a": "10"},
        {"": "0", CUT: "10", "a": ""},
        {"": "0", CUT: "10", "a": "1x"},
        {"": "0", CUT: "10", "a": "11" * 32},
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
