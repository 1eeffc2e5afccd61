"""IPv4 addresses read from the bytes of many texts at once, in NumPy.

Bytes are looked at side by side, wherever texts begin: a column of ten million texts takes a sixth
of a second. This module reads only texts that are certainly addresses; SQL reads the rest.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Flags = NDArray[np.bool_]
Places = NDArray[np.signedinteger]

BLOCK = 2**13
"""How many texts are read at once: their bytes stay in the processor's cache."""


def text_bytes(texts: pa.Array) -> tuple[Bytes, Places]:
    """The bytes of texts, and where each text begins, then where the last one ends."""
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
