"""Items as bits, so that their prefixes form a binary tree: fixed or Huffman codes of characters.

An item is written as the codes of its characters and of the end symbol, then zeros, up to a length
r that is the same for all items. An item that does not fit into r bits is *cut*: it counts as the
characters that fit, then the code for a cut, as far as it fits, and is shown with an ellipsis. An
item with a character outside of the alphabet before the cut is *left out*: nobody reports it. So
every prefix that a device reports can be read. Capitals count as small letters unless the alphabet
has capitals.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpframe.errors import ParameterError, ParameterTypeError

LETTERS = "abcdefghijklmnopqrstuvwxyz'-_."
"""With the end and the cut there are 32: five bits each."""

CHARACTERS = "abcdefghijklmnopqrstuvwxyz0123456789 -_.'/:@&+,!?#%=()*\"$;~|[]"
"""What words, names, hosts and paths are made of. With the end and the cut there are 64: six bits
each."""

END, CUT, ELLIPSIS = "", "\ufffd", "\u2026"

WORD = 64


@dataclass(frozen=True, slots=True)
class DecodedPrefix:
    """What a prefix says of items that have it.

    ``text`` has the characters so far. ``ended``: no character follows, as the item ends or is cut
    here; ``cut``: it is cut, since no more of it fits. ``possible``: an item can have this prefix.
    """

    text: str
    ended: bool
    cut: bool
    possible: bool

    @property
    def label(self) -> str:
        """How an item is shown."""
        return self.text + ELLIPSIS if self.cut else self.text


@dataclass(frozen=True)
class Encoding:
    """A prefix-free code of characters. Public: it must not come from the data.

    ``codes`` maps every character of the alphabet, "" (the end) and U+FFFD (here an item is cut) to
    its bits, a text of "0" and "1".
    """

    name: str
    codes: Mapping[str, str]

    def __post_init__(self) -> None:
        if not {END, CUT} < self.codes.keys() or any(len(c) > 1 or c == "\0" for c in self.codes):
            raise ParameterError("codes need single characters, '' for the end and U+FFFD, no NUL.")
        ordered = sorted(self.codes.values())
        wrong = [b for b in ordered if not b or set(b) - {"0", "1"} or len(b) > WORD - 1]
        if wrong or any(b.startswith(a) for a, b in itertools.pairwise(ordered)):
            raise ParameterError("codes must be 1 to 63 bits, none another's beginning.")

    @property
    def spec(self) -> str:
        """Name and a hash of the code: what a receipt says."""
        table = "\n".join(f"{c} {bits}" for c, bits in sorted(self.codes.items()))
        return f"{self.name}:{hashlib.sha256(table.encode()).hexdigest()[:16]}"

    @property
    def alphabet(self) -> str:
        return "".join(sorted(self.codes.keys() - {END, CUT}))

    def fold(self, item: str) -> str:
        """The item as it is read: small letters if the alphabet has no capitals."""
        return item.lower() if self.folds else item

    @cached_property
    def folds(self) -> bool:
        """Whether capitals are read as small letters."""
        return self.alphabet == self.alphabet.lower()

    @cached_property
    def _longest(self) -> int:
        return max(len(code) for code in self.codes.values())

    def reads(self, item: str, length: int) -> bool:
        """Whether an item can be reported: all characters of it that fit are in the alphabet."""
        return self._symbols(item, length) is not None

    def encode(self, item: str, length: int) -> str:
        """Return ``length`` bits of one item; raise ParameterError if it is left out."""
        symbols = self._symbols(item, length)
        if symbols is None:
            raise ParameterError("item has characters outside of the alphabet. Ask reads() first.")
        return "".join(self.codes[c] for c in symbols)[:length].ljust(length, "0")

    def _symbols(self, item: str, length: int) -> list[str] | None:
        """Return the characters that fit, then end or cut; None if the alphabet lacks one."""
        symbols: list[str] = []
        room = length
        for c in (*self.fold(item), END):
            if room and (c == CUT or c not in self.codes):
                return None
            if not room or len(self.codes[c]) > room:
                return [*symbols, CUT]
            symbols.append(c)
            room -= len(self.codes[c])
        return symbols

    def decode(self, bits: str, length: int) -> DecodedPrefix:
        """Return what a prefix of items of ``length`` bits says; ``length`` bits say all."""
        known = {code: symbol for symbol, code in self.codes.items()}
        text: list[str] = []
        start = 0
        for end in range(1, len(bits) + 1):
            symbol = known.get(bits[start:end])
            if symbol is None:
                continue
            if symbol in (END, CUT):
                cut = symbol == CUT
                possible = "1" not in bits[end:] and not (cut and length - start >= self._longest)
                return DecodedPrefix("".join(text), ended=True, cut=cut, possible=possible)
            start = end
            text.append(symbol)
        rest, whole = bits[start:], len(bits) == length
        begun = [self.codes[CUT]] if whole else self.codes.values()
        possible = any(code.startswith(rest) for code in begun)
        return DecodedPrefix("".join(text), ended=whole, cut=whole, possible=possible)

    def label_of(self, item: str, length: int) -> str | None:
        """Return an item as it is shown where it is found; None if it is left out."""
        if not self.reads(item, length):
            return None
        return self.decode(self.encode(item, length), length).label

    def pack_items(
        self, items: Sequence[str], length: int
    ) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """Return the bits of many items, and which items are not left out.

        Bits are uint64, shape (n, length // 64 + 2), the first bit highest; the second array is
        bool, shape (n,). The bits of items that are left out say nothing.
        """
        fit = length // min(map(len, self.codes.values())) + 1
        read = [self.fold(item)[:fit].replace("\0", CUT) for item in items]
        most = max(1, *map(len, read)) if read else 1
        characters = np.array(read, dtype=f"<U{most}").view(np.uint32).reshape(len(read), most)
        used = np.array([len(item) for item in read], dtype=np.int64)
        order = sorted(self.codes.keys() - {END, CUT})
        points = np.array([ord(c) for c in order], dtype=np.uint32)
        codes = [self.codes[c] for c in (*order, END, CUT)]
        other, end, cut = -1, len(order), len(order) + 1
        value = np.array([int(code, 2) for code in codes], dtype=np.uint64)
        width = np.array([len(code) for code in codes], dtype=np.int64)
        out = np.zeros((len(read), length // WORD + 3), dtype=np.uint64)
        at = np.zeros(len(read), dtype=np.int64)
        readable, goes_on = np.ones((2, len(read)), dtype=np.bool_)
        for j in range(most + 1):
            rows = np.flatnonzero(goes_on)
            if not len(rows):
                break
            symbol = np.full(len(rows), end)
            inside = used[rows] > j
            if j < most and inside.any():
                symbol[inside] = _character_numbers(points, characters[rows[inside], j], other)
            symbol[at[rows] >= length] = cut
            outside = symbol == other
            readable[rows[outside]] = False
            symbol[outside | (at[rows] + width[symbol] > length)] = cut
            _write_codes(out, rows, at[rows], value[symbol], width[symbol])
            at[rows] += width[symbol]
            goes_on[rows[symbol >= end]] = False
        out[:, length // WORD + 1 :] = 0
        rest = length % WORD
        out[:, length // WORD] &= np.uint64((2**rest - 1) << (WORD - rest) if rest else 0)
        return out[:, :-1], readable


def _character_numbers(
    points: NDArray[np.uint32], characters: NDArray[np.uint32], other: int
) -> NDArray[np.int64]:
    """Return the numbers of characters in a sorted alphabet; ``other`` for other characters."""
    place = np.searchsorted(points, characters).clip(0, max(len(points) - 1, 0))
    found = points[place] == characters if len(points) else np.zeros(len(place), dtype=np.bool_)
    return np.where(found, place, other)


def _write_codes(
    out: NDArray[np.uint64],
    rows: NDArray[np.int64],
    at: NDArray[np.int64],
    value: NDArray[np.uint64],
    width: NDArray[np.int64],
) -> None:
    """Write codes into rows from a bit position on; a code can reach into the next word."""
    word, room = at // WORD, WORD - at % WORD
    over = np.maximum(width - room, 0)
    left = np.maximum(room - width, 0)
    out[rows, word] |= (value >> over.astype(np.uint64)) << left.astype(np.uint64)
    crossing = over > 0
    shift = (WORD - over[crossing]).astype(np.uint64)
    out[rows[crossing], word[crossing] + 1] |= value[crossing] << shift


def next_bits(packed: NDArray[np.uint64], start: int, length: int) -> NDArray[np.int64]:
    """Return bits ``start .. start + length`` of every row as numbers, length 1 to 62."""
    word, off = divmod(start, WORD)
    high = packed[:, word] << np.uint64(off)
    if off:
        high |= packed[:, word + 1] >> np.uint64(WORD - off)
    return (high >> np.uint64(WORD - length)).astype(np.int64)


class BinaryEncoding(Encoding):
    """The same number of bits for every character: six for 62 of them, the end and the cut.

    Parameters
    ----------
    alphabet
        Characters that are told apart, 1 to 65,000.

    Examples
    --------
    >>> from dpframe.federated import BinaryEncoding
    >>> BinaryEncoding("ab").encode("ba", 8)
    '10010000'
    """

    def __init__(self, alphabet: str = CHARACTERS) -> None:
        characters = checked_alphabet(alphabet)
        bits = (len(characters) + 1).bit_length()
        symbols = [END, *characters, CUT]
        super().__init__("binary", {c: format(i, f"0{bits}b") for i, c in enumerate(symbols)})


class HuffmanEncoding(Encoding):
    """Short codes for frequent characters, fitted on a public list of items.

    Parameters
    ----------
    public
        Items that may be known to anybody, for example the words of a dictionary or of last year's
        report. Never the private data: the code is sent to all devices and is not paid for.
    alphabet
        As for :class:`BinaryEncoding`; characters that ``public`` lacks get long codes.

    References
    ----------
    Huffman, "A Method for the Construction of Minimum-Redundancy Codes" (1952).
    """

    def __init__(self, public: Iterable[str], alphabet: str = CHARACTERS) -> None:
        characters = checked_alphabet(alphabet)
        fold = alphabet == alphabet.lower()
        counted = dict.fromkeys([END, *characters, CUT], 1)
        for item in checked_items("public", public):
            for c, n in Counter(item.lower() if fold else item).items():
                counted[c if c in counted and c else CUT] += n
            counted[END] += 1
        super().__init__("huffman", _huffman(counted))


def _huffman(counted: Mapping[str, int]) -> dict[str, str]:
    """Return a Huffman code. Among equally frequent symbols the first in the alphabet stays left,
    so one input has one code."""
    waiting = [(n, i, {c: ""}) for i, (c, n) in enumerate(counted.items())]
    heapq.heapify(waiting)
    number = len(waiting)
    while len(waiting) > 1:
        (n, _, left), (m, _, right) = heapq.heappop(waiting), heapq.heappop(waiting)
        joined = {c: "0" + bits for c, bits in left.items()}
        joined.update({c: "1" + bits for c, bits in right.items()})
        heapq.heappush(waiting, (n + m, number, joined))
        number += 1
    return waiting[0][2]


def checked_alphabet(alphabet: object) -> str:
    """Return the different characters, in order; raise ParameterError or ParameterTypeError."""
    if not isinstance(alphabet, str):
        raise ParameterTypeError(
            f"alphabet must be a text of characters; got {type(alphabet).__name__}."
        )
    characters = "".join(dict.fromkeys(alphabet.replace(CUT, "").replace("\0", "")))
    if not 1 <= len(characters) <= 65_000:
        raise ParameterError("alphabet must hold 1 to 65,000 characters, for example 'abc'.")
    return characters


def checked_items(name: str, items: object) -> list[str]:
    """Return a list of texts, or raise ParameterTypeError."""
    if isinstance(items, str | bytes | Mapping) or not isinstance(items, Iterable):
        raise ParameterTypeError(f"{name} must be a list of texts; got {type(items).__name__}.")
    listed = list(items)
    for item in listed:
        if not isinstance(item, str):
            raise ParameterTypeError(f"{name} must be a list of texts; one is {item!r}.")
    return listed
