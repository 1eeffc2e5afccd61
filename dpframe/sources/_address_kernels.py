"""Compiled code that reads addresses from the bytes of texts, and makes words of their nodes.

It reads only texts that are certainly addresses: dotted decimals, and groups of hexadecimal digits
with or without ``::``. Any other text is *odd*: the SQL statement, which knows all forms, reads it.
"""

# mypy: disable-error-code="no-any-return, assignment"
from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpframe.sketches._compile import compile_loop

Words = NDArray[np.int64]
Unsigned = NDArray[np.uint64]
Bytes = NDArray[np.uint8]

INVALID, FOUR, SIX, ODD = 0, 4, 6, 9
"""What a text is: no address, IPv4, IPv6, or a text for the statement to read."""

_MAPPED = np.uint64(0xFFFF << 32)
_32, _16, _4 = (np.uint64(n) for n in (32, 16, 4))


@compile_loop
def _parse_ipv4(data: Bytes, start: int, end: int) -> int:
    """The number that four decimals up to 255 without leading zeros write, or -1."""
    value, part, dots = 0, -1, 0
    if end - start > 15:
        return -1
    for j in range(start, end):
        digit = np.int64(data[j]) - 48
        if 0 <= digit <= 9:
            if part == 0:
                return -1
            part = digit if part < 0 else 10 * part + digit
            if part > 255:
                return -1
        elif digit == -2 and part >= 0 and dots < 3:
            value, part, dots = value << 8 | part, -1, dots + 1
        else:
            return -1
    return value << 8 | part if dots == 3 and part >= 0 else -1


@compile_loop
def _parse_ipv6(data: Bytes, start: int, end: int, groups: Unsigned) -> bool:
    """Fill ``groups`` from an address in hexadecimal digits; return whether the text is one."""
    n, digits, gap, j = 0, 0, -1, start
    value = np.uint64(0)
    while j < end:
        c = np.int64(data[j])
        if c == 58:
            double = j + 1 < end and data[j + 1] == 58
            if (double and gap >= 0) or (not double and (digits == 0 or j + 1 == end)):
                return False
            if digits > 0:
                if n == 8:
                    return False
                groups[n] = value
                n += 1
            if double:
                gap = n
                j += 1
            value, digits = np.uint64(0), 0
        else:
            lower = c | 32
            if 48 <= c <= 57:
                digit = c - 48
            elif 97 <= lower <= 102:
                digit = lower - 87
            else:
                return False
            value = value << _4 | np.uint64(digit)
            digits += 1
            if digits > 4:
                return False
        j += 1
    if digits > 0:
        if n == 8:
            return False
        groups[n] = value
        n += 1
    if gap < 0:
        return n == 8
    if n > 7:
        return False
    for k in range(n - gap):  # groups behind the gap move to the end
        groups[7 - k] = groups[n - 1 - k]
    for k in range(gap, 8 - (n - gap)):
        groups[k] = 0
    return True


@compile_loop
def parse_addresses(data: Bytes, starts: Words, numbers: Unsigned, kinds: Bytes) -> int:
    """Fill ``numbers``, shape (n, 2), lower word first, and ``kinds``; return the number of odd
    texts."""
    groups, odd = np.zeros(8, np.uint64), 0
    for i in range(starts.shape[0] - 1):
        four = _parse_ipv4(data, starts[i], starts[i + 1])
        if four >= 0:
            kinds[i] = FOUR
            numbers[i, 0], numbers[i, 1] = _MAPPED | np.uint64(four), 0
        elif _parse_ipv6(data, starts[i], starts[i + 1], groups):
            low, high = np.uint64(0), np.uint64(0)
            for k in range(4):
                high, low = high << _16 | groups[k], low << _16 | groups[k + 4]
            numbers[i, 0], numbers[i, 1] = low, high
            kinds[i] = FOUR if high == 0 and low >> _32 == 0xFFFF else SIX
        else:
            kinds[i] = ODD
            odd += 1
    return odd


@compile_loop
def level_words(
    numbers: Unsigned,
    kinds: Bytes,
    reached: Bytes,
    masks: Unsigned,
    words: Words,
    places: Words,
    long: Unsigned,
) -> tuple[int, int]:
    """Write the nodes of a level, for the rows that have a node there, as
    :mod:`dpframe.sketches._encode` writes texts: two words each. Where the second word is negative,
    ``long`` tells nodes apart.

    ``reached`` has, for each kind, the word for ``long``, or 0 if the kind lacks the level.
    ``masks`` has the lower and the upper word for IPv4, then the two words for IPv6. Returns how
    many nodes there are, and how many words of ``long`` are filled.
    """
    n, used = 0, 0
    for i in range(kinds.shape[0]):
        kind = kinds[i]
        if not reached[kind]:
            continue
        if kind == FOUR:
            words[n, 0], words[n, 1] = np.int64(numbers[i, 0] & masks[0]), 0
        elif kind == SIX:
            words[n, 0] = np.int64(numbers[i, 0] & masks[2])
            words[n, 1] = np.int64(numbers[i, 1] & masks[3])
        else:
            words[n, 0], words[n, 1] = -1, -1
        places[n] = used
        if words[n, 1] < 0:
            long[used], long[used + 1] = reached[kind], 0
            used += 2
        n += 1
    places[n] = used
    return n, used
