"""Items as bits, and what runs on the device: one item, reported in disguise.

**Items** are bits, so that their prefixes form a binary tree: fixed or Huffman codes of characters.

An item is written as the codes of its characters and of the end symbol, then zeros, up to a length
r that is the same for all items. An item that does not fit into r bits is *cut*: it counts as the
characters that fit, then the code for a cut, as far as it fits, and is shown with an ellipsis. An
item with a character outside of the alphabet before the cut is *left out*: nobody reports it. So
every prefix that a device reports can be read. Capitals count as small letters unless the alphabet
has capitals.

**A device** chooses one item, and reports it in disguise.

Chadha et al. (2023), Algorithm 3 (DeviceSide): data selection, then one-hot encoding with
asymmetric binary randomised response.

**PI-RAPPOR** reports a few numbers in place of a vector of all cells.

Feldman, Talwar, "Lossless Compression of Efficient Private Local Randomizers" (2021), Algorithms 3
to 5, with the speed-up of Chadha et al. (2023), Appendix B. A report is a random affine function
over a prime field; the bit that it reports for a cell w is whether its value at w is among the
c smallest elements. Bits have the chances of one-hot reports. The bit of the held cell is
independent of any other bit; two other bits need not be independent if a cell is held.

There are three differences. First, the appendix takes c = floor(q / (e^el + 1)), so that a0 = c/q
is below 1/(e^el + 1) and the local epsilon, log((q - c)/c), above el: with el = 4 and 16
completions (q = 59, c = 1) it is 4.06. Here c is rounded up. Second, q is also at least
(e^el + 1)/(e^el - 1), so that c stays below q/2, where likelihood ratios turn over. Third, the bits
of one report are not independent altogether, so the exact accountant of sums does not hold: use
``accountant="shuffle"``.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpframe.errors import ParameterError, ParameterTypeError
from dpframe.noise import PublicRandom, biased_flips, device_choices, uniform

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
            raise ParameterError("codes need single characters, '' for the end, U+FFFD, no NUL.")
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


LARGEST = 2**31
"""Largest size of the field: products stay within 64 bits."""


class PiRappor:
    """Local randomiser and frequency oracle for the cells of one iteration.

    Parameters
    ----------
    prefixes
        Number of prefixes of the iteration.
    segment
        Bits below each prefix: cell number = prefix number * 2^segment + value.
    local_epsilon
        el, above 0.

    Privacy
    -------
    :meth:`randomize` is el-differentially private in the local model.

    Examples
    --------
    >>> from dpframe.federated import PiRappor
    >>> oracle = PiRappor(1, 3, local_epsilon=4.0)
    >>> sums = oracle.aggregate(oracle.randomize(5) for _ in range(400))
    >>> int(sums.argmax())
    5
    """

    def __init__(self, prefixes: int, segment: int, local_epsilon: float) -> None:
        if not local_epsilon > 0:
            raise ParameterError(f"local_epsilon ({local_epsilon:g}) must be above 0.")
        odds = math.exp(min(local_epsilon, 30.0))
        least = max(odds + 1, 2**segment, (odds + 1) / math.expm1(min(local_epsilon, 30.0)))
        if least >= LARGEST:
            raise ParameterError(
                f"segment ({segment}) and local_epsilon ({local_epsilon:g}) need over 2^31 "
                "elements. Lower the segment, or move local_epsilon towards 1."
            )
        self.prefixes, self.segment = prefixes, segment
        self.field = _prime(math.ceil(least))
        self.small = math.ceil(self.field / (math.exp(local_epsilon) + 1))
        self.local_epsilon = math.log((self.field - self.small) / self.small)
        self._digits = 0
        while self.field**self._digits < prefixes:
            self._digits += 1

    @property
    def silence(self) -> float:
        """a0: the probability with which the bit of a cell that is not held is 1."""
        return self.small / self.field

    def randomize(self, cell: int | None) -> NDArray[np.int64]:
        """Return what a device sends: int64, shape (d + 1,). Pass None to report nothing."""
        slopes = uniform(self.field, self._digits + 1)
        if cell is None:
            return np.append(uniform(self.field, 1), slopes)
        if not 0 <= cell < self.prefixes << self.segment:
            raise ParameterError(f"cell ({cell}) must be from 0 to {self._cells - 1}.")
        high = int(uniform(2, 1)[0]) == 0
        value = int(uniform(self.field - self.small if high else self.small, 1)[0])
        value += self.small if high else 0
        point = np.append(self._points(np.array([cell >> self.segment]))[0], cell % self._values)
        inner = int(sum(int(a) * int(b) for a, b in zip(slopes, point, strict=True)))
        return np.append((value - inner) % self.field, slopes)

    def aggregate(self, reports: Iterable[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Return the sums of the bits of all cells: int64, shape (prefixes * 2^segment,)."""
        sums = np.zeros((self.prefixes, self._values), dtype=np.int64)
        points = self._points(np.arange(self.prefixes))
        rows = np.repeat(np.arange(self.prefixes), self.small)
        for report in reports:
            start = np.full(self.prefixes, int(report[0]))
            for slope, column in zip(report[1:-1], points.T, strict=True):
                start = (start + slope * column) % self.field
            last = int(report[-1])
            if last == 0:
                sums[start < self.small] += 1
                continue
            inverse = pow(last, -1, self.field)
            values = (np.arange(self.small) - start[:, None]) % self.field * inverse % self.field
            inside = values.ravel() < self._values
            np.add.at(sums, (rows[inside], values.ravel()[inside]), 1)
        return sums.ravel()

    def estimate(self, sums: NDArray[np.int64], *, devices: int) -> NDArray[np.float64]:
        """Return unbiased estimates of how many devices hold each cell."""
        return np.asarray((sums - devices * self.silence) / (0.5 - self.silence))

    @property
    def _values(self) -> int:
        return 1 << self.segment

    @property
    def _cells(self) -> int:
        return self.prefixes << self.segment

    def _points(self, prefixes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return prefix numbers as digits to the base of the field."""
        digits = [prefixes // self.field**i % self.field for i in range(self._digits)]
        return np.stack(digits, axis=1) if digits else np.zeros((len(prefixes), 0), dtype=np.int64)


def _prime(least: int) -> int:
    """Return the smallest prime from ``least`` on."""
    n = least
    while any(n % d == 0 for d in range(2, math.isqrt(n) + 1)):
        n += 1
    return n


Selection = Literal["unweighted", "weighted"]


def select_data(
    items: Mapping[str, int],
    *,
    encoding: Encoding,
    prefixes: Sequence[str],
    segment: int,
    deny: Sequence[str] = (),
    selection: Selection = "unweighted",
    conditioned: bool = True,
    random: PublicRandom | None = None,
) -> str | None:
    """Choose the bits that a device reports in an iteration; None if it has nothing to report.

    Parameters
    ----------
    items
        The user's items, and how often each occurs. Items with characters outside of the alphabet
        are left out.
    encoding
        Items as bits; see :class:`BinaryEncoding`.
    prefixes
        The prefixes of the iteration, bits of one length; [""] in the first.
    segment
        Bits that are asked for below a prefix, from 1.
    deny
        Items that are known already and must not be reported.
    selection
        "unweighted": all different items are equally likely; "weighted": by frequency.
    conditioned
        True: one of the items below a prefix. False: one of all items; nothing if it is below no
        prefix.

    Notes
    -----
    How an item is chosen does not matter for privacy: a report hides all of them.

    Examples
    --------
    >>> from dpframe.federated import BinaryEncoding, select_data
    >>> abc = BinaryEncoding("abc")
    >>> select_data({"ab": 3, "b": 1}, encoding=abc, prefixes=["001"], segment=3)
    '001010'
    """
    length = len(prefixes[0]) + segment if prefixes else segment
    known = checked_items("deny", deny)
    widest = max(map(len, encoding.codes.values()))
    ends = [widest * (len(encoding.fold(item)) + 1) for item in (*items, *known)]
    whole = max([length, *ends])  # nothing is cut: bits differ as items do
    denied = {encoding.encode(item, whole) for item in known if encoding.reads(item, whole)}
    live = set(prefixes)
    coded: dict[str, int] = {}
    for item, times in items.items():
        if not encoding.reads(item, whole):
            continue
        bits = encoding.encode(item, whole)
        if bits not in denied and times > 0:
            coded[bits] = coded.get(bits, 0) + times
    if conditioned:
        coded = {
            bits: n for bits, n in coded.items() if _prefix_bits(bits, length, segment) in live
        }
    if not coded:
        return None
    weights = np.array([1 if selection == "unweighted" else n for n in coded.values()], dtype=float)
    generator = random if random is not None else device_choices()
    bits = list(coded)[int(generator.choice(len(coded), p=weights / weights.sum()))]
    return bits[:length] if _prefix_bits(bits, length, segment) in live else None


def _prefix_bits(bits: str, length: int, segment: int) -> str:
    return bits[: length - segment]


def randomize(cell: int | None, cells: int, local_epsilon: float) -> NDArray[np.bool_]:
    """Return a one-hot vector in disguise: what a device sends.

    The held cell reports 1 with probability 1/2, every other cell with 1/(e^el + 1), rounded up to
    a multiple of 2^-64. A device without anything to report sends a randomised vector of zeros.

    Parameters
    ----------
    cell
        The cell of the chosen item, 0 to cells - 1, or None.
    cells
        The number of cells.
    local_epsilon
        el, above 0.

    Returns
    -------
    numpy.ndarray
        bool, shape (cells,).

    Privacy
    -------
    el-differential privacy in the local model, for replacing the cell or removing it: two cells
    differ, with likelihood ratios of at most (1 - a0)/(1/2) times (1/2)/a0 = e^el.

    References
    ----------
    Erlingsson, Pihur, Korolova, "RAPPOR" (2014); Chadha et al. (2023), Section IV.B.
    """
    if cell is not None and not 0 <= cell < cells:
        raise ParameterError(f"cell ({cell}) must be from 0 to {cells - 1}.")
    report = biased_flips(cells, local_epsilon)
    if cell is not None:
        report[cell] = biased_flips(1, 0.0)[0]
    return report
