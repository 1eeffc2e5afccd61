"""Encode texts as words of 64 bits, so that most comparisons read two words. Compiled.

Two words hold a whole text of up to 15 bytes: its first eight bytes, then the other seven followed
by the length. For a longer text they hold its first eight bytes and a hash; ``long`` holds its
length in bytes, then the whole text as words. Words are little-endian.
"""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

import sys

import numpy as np
from numpy.typing import NDArray

from dpframe.sketches._compile import compile_loop

Words = NDArray[np.int64]
Unsigned = NDArray[np.uint64]

LONG = np.uint64(255 << 56)
"""Last byte of the second word of a text of more than 15 bytes. It makes the word negative."""

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio
_HIGH = np.uint64(0x8080808080808080)
"""Bits that are 0 in every ASCII text."""

_HEAD = np.array([(1 << 8 * min(8, n)) - 1 for n in range(16)], dtype=np.uint64)
_TAIL = np.array([(1 << 8 * max(0, n - 8)) - 1 for n in range(16)], dtype=np.uint64)
"""Masks, by length n: which bytes of the first and of the second word belong to the text."""

assert sys.byteorder == "little", "sketches of text need a little-endian processor"


@compile_loop
def encode(
    data: Unsigned, starts: Words, words: Words, places: Words, long: Unsigned
) -> tuple[int, bool]:
    """Encode texts that lie one after the other.

    ``data[i]`` is the word that begins at byte i; nine more words follow the last text. Text i is
    the bytes from ``starts[i]`` to ``starts[i + 1]``, counted from ``starts[0]``. Fills ``words``,
    shape (n, 2), ``long``, and ``places``: where in ``long`` each text begins. Returns how many
    words of ``long`` are filled, at most one for every four bytes, and whether all texts are ASCII.
    """
    used, seen, origin = 0, np.uint64(0), starts[0]
    for i in range(starts.shape[0] - 1):
        start, n = np.uint64(starts[i] - origin), starts[i + 1] - starts[i]
        size = np.uint64(min(n, 15))
        first, second = data[start] & _HEAD[size], data[start + np.uint64(8)] & _TAIL[size]
        words[i, 0], words[i, 1] = np.int64(first), np.int64(second) | n << 56
        seen |= first | second
        places[i] = used
        if n > 15:
            h = np.uint64(n)
            long[used] = n
            for j in range(0, n, 8):
                word = data[start + np.uint64(j)] & _HEAD[np.uint64(min(8, n - j))]
                used += 1
                long[used] = word
                seen |= word
                h = (h ^ word) * _MULTIPLIER
                h ^= h >> np.uint64(32)
            used += 1
            words[i, 1] = np.int64(h | LONG)
    return used, seen & _HIGH == 0
