"""Addresses read from the bytes of many texts at once, in NumPy.

Bytes are looked at side by side, wherever texts begin: a column of ten million IPv4 texts takes a
sixth of a second. This module reads only texts that are certainly addresses; SQL reads the rest,
such as texts with white space, zones, or dotted decimals behind groups.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

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
