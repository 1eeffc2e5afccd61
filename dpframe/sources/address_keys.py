"""Addresses and paths as sketches count them, from bytes of texts.

**Texts** of addresses are read from their bytes, many at once, in NumPy.

Bytes are looked at side by side, wherever texts begin: a column of ten million IPv4 texts takes a
sixth of a second. These readers read only texts that are certainly addresses; SQL reads the rest,
such as texts with white space, zones, or dotted decimals behind groups.

**Sketches** count addresses fastest as numbers of 128 bits in two words, never as texts.

The bytes of a batch are read; the statement reads the texts that the readers of bytes do not know.
At the end each number becomes the one text that :mod:`dpframe.sources.packed_keys` has for the
node, so that a sketch is as if it had counted texts from the start.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpframe._duck import VIEW, register_table
from dpframe.common.texts import unicode
from dpframe.hierarchy._base import INVALID_KEY, VALUE
from dpframe.hierarchy._plain_values import MAPPED, Ip, Path
from dpframe.sketches import MisraGries
from dpframe.sketches._counters import NUMBERS, keys_of_words
from dpframe.sources.cell_leaves import add_key_steps

Bytes = NDArray[np.uint8]
Flags = NDArray[np.bool_]
Places = NDArray[np.signedinteger]

Groups = NDArray[np.uint16]
Words = NDArray[np.uint64]

BLOCK = 2**13
"""How many texts are read at once: their bytes stay in the processor's cache."""


def text_bytes(texts: pa.Array) -> tuple[Bytes, Places]:
    """The bytes of texts, and where each text begins, then where the last one ends. A NULL is empty
    text, whatever stands below it."""
    texts = pc.fill_null(texts, "") if texts.null_count else texts
    wide = pa.types.is_large_string(texts.type)
    kind = np.dtype(np.int64 if wide else np.int32)
    _, offsets, data = texts.buffers()
    if not len(texts):
        return np.empty(0, np.uint8), np.zeros(1, kind)
    starts = np.frombuffer(offsets, kind, len(texts) + 1, kind.itemsize * texts.offset)
    return np.frombuffer(data or b"", np.uint8), starts


def parse_dotted(texts: pa.Array) -> tuple[NDArray[np.uint32], Flags | None]:
    """The numbers of the texts that are four decimals up to 255 without leading zeros, in the order
    of the texts; and for every text whether it is such an address, None if all texts are."""
    data, starts = text_bytes(texts)
    numbers, flags, others = [np.empty(0, np.uint32)], [], False
    for first in range(0, len(texts), BLOCK):
        own = starts[first : first + BLOCK + 1]
        found, good = _parse_dotted_block(data[own[0] : own[-1]], own - own[0])
        numbers.append(found)
        flags.append(np.ones(len(own) - 1, np.bool_) if good is None else good)
        others |= good is not None
    return np.concatenate(numbers), np.concatenate(flags) if others else None


def _parse_dotted_block(data: Bytes, starts: Places) -> tuple[NDArray[np.uint32], Flags | None]:
    if not len(data):
        return np.empty(0, np.uint32), np.zeros(len(starts) - 1, np.bool_)
    ends = starts[1:] - 1
    digit = data - np.uint8(48)  # smaller bytes wrap around to large ones
    is_digit = digit < 10
    inner = is_digit.copy()
    inner[ends] = False
    goes_on = np.zeros_like(is_digit)  # a digit, and the next byte of the text is one
    np.logical_and(inner[:-1], is_digit[1:], out=goes_on[:-1])
    last = is_digit > goes_on  # of a decimal
    value, bad = _decimals(digit, goes_on)
    between = data == 46
    between[0] = between[-1] = False
    between[1:] &= inner[:-1]
    between[:-1] &= is_digit[1:]
    bad |= ~(is_digit | between)
    places = np.flatnonzero(last)
    if len(places) == 4 * len(ends) and not bad.any() and (places[3::4] == ends).all():
        return _join_octets(value.take(places)), None
    bad[ends] |= ~is_digit[ends]
    return _select_addresses(starts, value, bad, last, places)


def _decimals(digit: Bytes, goes_on: Flags) -> tuple[Bytes, Flags]:
    """For each byte: the decimal that ends there, modulo 256, and whether it is above 255 or
    badly written."""
    on = goes_on.view(np.uint8)
    value, bad = digit.copy(), np.zeros_like(goes_on)
    before = digit * on
    value[1:] += before[:-1] * np.uint8(10)
    hundreds = before[:-2] * on[1:-1]
    bad[2:] = (hundreds > 2) | ((hundreds == 2) & (value[2:] > 55))
    value[2:] += hundreds * np.uint8(100)
    bad[3:] |= goes_on[:-3] & goes_on[1:-2] & goes_on[2:-1]  # four digits
    zero = (digit == 0) & goes_on
    zero[1:] &= ~goes_on[:-1]
    bad |= zero
    return value, bad


def _join_octets(octets: Bytes) -> NDArray[np.uint32]:
    return octets.view(">u4").astype(np.uint32)


def _select_addresses(
    starts: Places, value: Bytes, bad: Flags, last: Flags, places: Places
) -> tuple[NDArray[np.uint32], Flags]:
    """The numbers of the texts that are addresses, and for every text whether it is one."""
    decimals = count_before(last)[starts]
    good = (np.diff(decimals) == 4) & (np.diff(count_before(bad)[starts]) == 0)
    first = decimals[:-1][good]
    return _join_octets(value.take(places[first[:, None] + np.arange(4)].ravel())), good


def count_before(flags: Flags) -> NDArray[np.int32]:
    """How many flags are set before each place; a last entry counts all flags."""
    out = np.zeros(len(flags) + 1, np.int32)
    np.cumsum(flags, out=out[1:])
    return out


# -- IPv6 ------------------------------------------------------------------------------------------


def parse_groups(texts: pa.Array) -> tuple[Words, Flags]:
    """The numbers of the texts that are eight groups of hexadecimal digits, or fewer around one
    ``::`` (RFC 4291, section 2.2), shape (n, 2), the higher word first; and for every text whether
    it is such an address."""
    data, starts = text_bytes(texts)
    words, flags = [np.empty((0, 2), np.uint64)], [np.empty(0, np.bool_)]
    for first in range(0, len(texts), BLOCK // 2):
        own = starts[first : first + BLOCK // 2 + 1]
        found, good = _parse_group_block(data[own[0] : own[-1]], own - own[0])
        words.append(found)
        flags.append(good)
    return np.concatenate(words), np.concatenate(flags)


def _parse_group_block(data: Bytes, starts: Places) -> tuple[Words, Flags]:
    if not len(data):
        return np.empty((0, 2), np.uint64), np.zeros(len(starts) - 1, np.bool_)
    inner = np.ones(len(data), np.bool_)  # the text goes on
    inner[starts[1:] - 1] = False
    digit, is_digit = _hex_digits(data)
    goes_on = is_digit & inner
    goes_on[:-1] &= is_digit[1:]
    value, long = _group_values(digit, goes_on)
    colon = data == 58
    double = colon & inner
    double[:-1] &= colon[1:]
    double[-1] = False
    wrong = long
    wrong |= ~(is_digit | colon)
    wrong[1:] |= double[1:] & double[:-1]  # three colons
    wrong |= _stray_colons(colon, double, is_digit, inner)
    last = is_digit > goes_on  # of a group
    groups, places = count_before(last)[starts], np.flatnonzero(last)
    others = count_before(double.view(np.uint8) + wrong.view(np.uint8) * np.uint8(16))[starts]
    n, gaps = np.diff(groups), np.diff(others)
    good = ((gaps == 0) & (n == 8)) | ((gaps == 1) & (n < 8))
    heads = n.copy()  # groups before the gap
    gap = np.flatnonzero(double)
    owner = np.searchsorted(starts, gap, "right") - 1
    heads[owner] = np.searchsorted(places, gap) - groups[owner]
    return _join_groups(value.take(places), groups[:-1][good], n[good], heads[good]), good


def _hex_digits(data: Bytes) -> tuple[Bytes, Flags]:
    """The value of each byte as a hexadecimal digit, 0 for other bytes; and whether it is one."""
    decimal = data - np.uint8(48)  # smaller bytes wrap around to large ones
    letter = (data | np.uint8(32)) - np.uint8(97)
    is_decimal, is_letter = decimal < 10, letter < 6
    decimal *= is_decimal.view(np.uint8)
    letter += np.uint8(10)
    letter *= is_letter.view(np.uint8)
    decimal += letter
    return decimal, is_decimal | is_letter


def _group_values(digit: Bytes, goes_on: Flags) -> tuple[Groups, Flags]:
    """For each byte: the value of the group that ends there, and whether the group has more than
    four digits."""
    on = goes_on.view(np.uint8)
    carried = digit * on
    low = digit.copy()
    low[1:] += carried[:-1] << np.uint8(4)
    second = carried[:-2] * on[1:-1]
    high = np.zeros_like(digit)
    high[2:] = second
    third = second[:-1] * on[2:-1]
    high[3:] += third << np.uint8(4)
    value = high.astype(np.uint16)
    value <<= np.uint16(8)
    value |= low
    long = np.zeros_like(goes_on)
    long[4:] = goes_on[:-4] & goes_on[1:-3] & goes_on[2:-2] & goes_on[3:-1]
    return value, long


def _stray_colons(colon: Flags, double: Flags, is_digit: Flags, inner: Flags) -> Flags:
    """Flags of single colons that lack a digit on one side."""
    alone = colon & ~double
    alone[1:] &= ~double[:-1]
    between = inner.copy()
    between[:-1] &= is_digit[1:]
    between[-1] = False
    between[1:] &= is_digit[:-1] & inner[:-1]
    between[0] = False
    return alone > between


def _join_groups(values: Groups, first: Places, n: Places, heads: Places) -> Words:
    """The numbers of addresses. For each address, ``first`` is the place of its first group in
    ``values``, ``n`` its number of groups, and ``heads`` how many of them stand before ``::``."""
    out = np.zeros((len(first), 8), ">u2")
    if not len(values):  # every text is ::
        return out.view(">u8").astype(np.uint64)
    last = first + n - 8  # the start of the tail: group k stands k places behind it
    tail = 8 - n + heads
    for k in range(8):
        is_tail = k >= tail
        place = np.where(is_tail, last, first) + k
        np.copyto(out[:, k], values.take(place, mode="clip"), where=is_tail | (k < heads))
    return out.view(">u8").astype(np.uint64)


PIECE = 32_768
"""How many rows are counted at a time: their words stay in the processor's cache."""

ALL = 2**64 - 1

INVALID, FOUR, SIX = 0, 1, 2
"""What a text is: no address, IPv4 or IPv6."""


Kinds = NDArray[np.uint8]


class AddressCounter:
    """Counts batches of one column of texts into sketches of addresses."""

    def __init__(self, sketches: Sequence[MisraGries], hierarchy: Ip) -> None:
        self._hierarchy = hierarchy
        self._pairs = list(zip(sketches, _level_masks(hierarchy), strict=True))
        for sketch in sketches:
            sketch._rename("words", _words_of)

    def update(self, batch: pa.RecordBatch) -> None:
        """Count the rows of a batch."""
        read = read_addresses(batch.column(0).cast(pa.large_string()), self._hierarchy)
        for start in range(0, batch.num_rows, PIECE):
            numbers, kinds = (column[start : start + PIECE] for column in read)
            alike = (kinds == kinds[0]).all()
            for sketch, (reached, masks) in self._pairs:
                here = slice(len(kinds) * reached[kinds[0]]) if alike else reached[kinds]
                own = kinds[here]
                words, missing = numbers[here] & masks[own[:1] if alike else own], own == INVALID
                words[missing] = ALL
                if len(words):
                    sketch._update_words(keys_of_words(words.view(np.int64), missing))

    def finish(self) -> None:
        """Make the sketches hold texts from here on."""
        for sketch, _ in self._pairs:
            sketch._rename("text", _texts_of_words)


def _level_masks(hierarchy: Ip) -> list[tuple[NDArray[np.bool_], Words]]:
    """For each level, by kind of text: whether it has a node there, and the mask of its prefix."""
    four, six = hierarchy.prefixes, hierarchy.prefixes6
    out = []
    for level in range(1, hierarchy.height + 1):
        invalid = level == 1 and hierarchy.on_invalid == "count"
        reached = [invalid, level <= len(four), level <= len(six)]
        bits = 128, 96 + four[min(level, len(four)) - 1], six[min(level, len(six)) - 1]
        whole = [(1 << n) - 1 << 128 - n for n in bits]
        masks = [(mask & ALL, mask >> 64) for mask in whole]
        out.append((np.array(reached), np.array(masks, np.uint64)))
    return out


def read_addresses(texts: pa.Array, hierarchy: Ip) -> tuple[Words, Kinds]:
    """Numbers and kinds of texts."""
    numbers, kinds = np.zeros((len(texts), 2), np.uint64), np.full(len(texts), FOUR, np.uint8)
    four, plain = parse_dotted(texts)
    if plain is None:
        numbers[:, 0] = four | np.uint64(MAPPED)
    else:
        numbers[plain, 0] = four | np.uint64(MAPPED)
        others = np.flatnonzero(~plain)
        words, whole = parse_groups(texts.take(pa.array(others)))
        known, odd = others[whole], others[~whole]
        numbers[known] = words[:, ::-1]
        kinds[known] = _address_kinds(words[:, 1], words[:, 0])
        if len(odd):
            read = _read_by_statement(texts.take(pa.array(odd)), hierarchy)
            numbers[odd], kinds[odd] = read
    if hierarchy.version is not None:
        kinds[kinds != (FOUR if hierarchy.version == 4 else SIX)] = INVALID
    return numbers, kinds


def _address_kinds(low: NDArray[np.uint64], high: NDArray[np.uint64]) -> Kinds:
    """IPv4 for 10.0.0.1 and for ::ffff:a00:1, which are one host."""
    mapped = (high == 0) & (low >> np.uint64(32) == 0xFFFF)
    return np.where(mapped, FOUR, SIX).astype(np.uint8)


def _read_by_statement(texts: pa.Array, hierarchy: Ip) -> tuple[Words, Kinds]:
    """Numbers and kinds of texts; the statement reads each different text once."""
    coded = texts.dictionary_encode("encode")
    rows = f"(SELECT i, c0 COLLATE C AS c0 FROM {VIEW})"
    query = add_key_steps(hierarchy, ("c0",), ("VARCHAR",), rows)
    halves = f"(k1 & {ALL}::UHUGEINT)::UBIGINT AS low, (k1 >> 64)::UBIGINT AS high"
    distinct = pa.table({"i": np.arange(len(coded.dictionary)), "c0": unicode(coded.dictionary)})
    with register_table(distinct, "the texts of a batch") as relation:
        found = relation.query(f"SELECT i, {halves} FROM {query} WHERE k1 IS NOT NULL", False)
    numbers = np.zeros((len(distinct), 2), np.uint64)
    kinds = np.zeros(len(distinct), np.uint8)
    places, low, high = (column.to_numpy() for column in found.columns)
    numbers[places, 0], numbers[places, 1] = low, high
    kinds[places] = _address_kinds(low, high)
    rows = coded.indices.to_numpy()
    return numbers[rows], kinds[rows]


def _texts_of_words(words: pa.Array) -> pa.Array:
    """The text for each node's words; for NULL the text of the node ``<invalid>``."""
    numbers = (None if w is None else int.from_bytes(w, "little") for w in words.to_pylist())
    texts = [INVALID_KEY if n is None else f"{VALUE}{n}" for n in numbers]
    return pa.array(texts, pa.large_string())


def _words_of(texts: pa.Array) -> pa.Array:
    """The words for each node's text; NULL for the node ``<invalid>``."""
    named = (None if t == INVALID_KEY else int(t.removeprefix(VALUE)) for t in texts.to_pylist())
    return pa.array([None if n is None else n.to_bytes(16, "little") for n in named], NUMBERS)


# mypy: disable-error-code="no-any-return"


def splits_by_byte(hierarchy: Path) -> bool:
    """Whether single bytes separate the parts of a path, whatever stands next to them."""
    return len(hierarchy.separator) == 1 and hierarchy.separator.isascii()


class PathCounter:
    """Counts batches of one column of texts into sketches of paths."""

    def __init__(self, sketches: Sequence[MisraGries], hierarchy: Path) -> None:
        self._sketches, self._hierarchy = sketches, hierarchy

    def update(self, batch: pa.RecordBatch) -> None:
        """Count the rows of a batch."""
        texts = unicode(batch.column(0).cast(pa.large_string()))
        for start in range(0, len(texts), PIECE):
            self._count(texts.slice(start, PIECE))

    def _count(self, texts: pa.Array) -> None:
        from dpframe.sources import _kernels as kernels  # loads numba

        data, starts = text_bytes(texts)
        size, rows = int(starts[-1] - starts[0]), len(texts)
        normal, counts = np.empty(size, np.uint8), np.empty(rows, np.int64)
        ends = np.empty((rows, self._hierarchy.height + 1), np.int64)
        kernels.split_paths(data, starts, ord(self._hierarchy.separator), normal, ends, counts)
        counted = self._hierarchy.on_invalid == "count"
        for level, sketch in enumerate(self._sketches, 1):
            invalid = ord(INVALID_KEY) if level == 1 and counted else -1
            keys, offsets = np.empty(size + rows, np.uint8), np.empty(rows + 1, np.int64)
            n = kernels.path_level_keys(
                normal, ends, counts, level, ord(VALUE), invalid, keys, offsets
            )
            if n:
                buffers = [None, pa.py_buffer(offsets), pa.py_buffer(keys)]
                sketch.update(pa.Array.from_buffers(pa.large_string(), n, buffers))

    def finish(self) -> None:
        """Do nothing: the keys of these sketches are always texts."""
