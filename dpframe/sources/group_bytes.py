"""IPv6 addresses read from the bytes of many texts at once, in NumPy, as IPv4 in ``address_bytes``.

An address has eight groups of hexadecimal digits, or fewer around one ``::`` (RFC 4291, section
2.2). SQL reads texts with dotted decimals, white space or zones.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe.sources.address_bytes import Bytes, Flags, Places, count_before, text_bytes

Groups = NDArray[np.uint16]
Words = NDArray[np.uint64]

BLOCK = 2**12
"""Texts that are read at once."""


def parse_groups(texts: pa.Array) -> tuple[Words, Flags]:
    """The numbers of the texts that are such addresses, shape (n, 2), the higher word first; and
    for every text whether it is such an address."""
    data, starts = text_bytes(texts)
    words, flags = [np.empty((0, 2), np.uint64)], [np.empty(0, np.bool_)]
    for first in range(0, len(texts), BLOCK):
        own = starts[first : first + BLOCK + 1]
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
