"""The tables of the sketches and their inner loops. Compiled.

A table is an array of words in buckets of four slots: four words ``U``, then the first words of the
four keys, and for text (as ``encode`` writes it) four second words and four places. A place says
where in the *arena* a long text begins. Keys are compared in full: equal hashes merge nothing.

``U - alpha`` is the counter, so that "all counters minus one" is ``alpha += 1``. A slot with
``U < alpha`` is free, whatever key it holds; in an empty slot ``U`` is -1. A key lies in its home,
which is the slot of its hash, or elsewhere in that bucket, or in a later bucket if that one was
full; ``over`` marks the buckets at which a search must not end. ``listed`` holds the slots with
``U >= alpha``, each as the position of its ``U``. At most a quarter of the slots is in use at any
time, so that never all buckets are marked and every search ends.

Which of the keys at zero goes first is decided when the sketch is read (:class:`.MisraGries`).

**Texts** are encoded as words of 64 bits, so that most comparisons read two words.

Two words hold a whole text of up to 15 bytes: its first eight bytes, then the other seven followed
by the length. For a longer text they hold its first eight bytes and a hash; ``long`` holds its
length in bytes, then the whole text as words. Words are little-endian.

**Numba** compiles these loops.

Only this module loads numba, which takes longer than the rest of ``import dpframe``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

Function = TypeVar("Function", bound=Callable[..., Any])


def compile_loop(function: Function) -> Function:
    """Compile a function at its first call, and keep its code on disk where that can be written.

    Other threads run on while the compiled function runs. numba looks for changes only in the file
    of a function: a compiled function may call others in its own file, never in another file.
    """
    try:
        return cast(Function, numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:  # a read-only installation, and no home directory either
        return cast(Function, numba.njit(nogil=True)(function))


def compile_inline(function: Function) -> Function:
    """Compile a function into its callers: arithmetic in hot loops. Do not use it for functions
    that take arrays: each call would count references to the arrays."""
    return cast(Function, numba.njit(inline="always")(function))


# mypy: disable-error-code="no-any-return"


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


# mypy: disable-error-code="no-any-return, assignment"


Bytes = NDArray[np.uint8]
Places = NDArray[np.int32]
Text = tuple[Words, Unsigned, Unsigned]
"""Where the long text of each key of a batch begins; the long texts of the batch; the arena."""

ALPHA, NONZERO, LISTED, OVER, ARENA = range(5)
"""Positions in ``meta``: decrements, positive counters, length of ``listed``, marked buckets, words
of the arena in use."""

BLOCK = 32
"""Records of a block; the best number in trials on heavy-tailed keys."""

_MIXER = np.uint64(0xD6E8FEB86659FD93)  # from Pelle Evensen's rrmxmx
_2, _3, _4, _8, _12 = (np.uint64(n) for n in (2, 3, 4, 8, 12))
"""Unsigned like hashes: numba would make the sum of signed and unsigned a float."""


def _slot_choices() -> NDArray[np.uint8]:
    """Return a table that chooses a slot in a bucket, by the home of a key and eight bits.

    The lower four bits mark slots that hold the key, the upper four free slots. The choice is the
    key's slot, or else the free slot nearest to its home.
    """
    out = np.zeros((4, 256), np.uint8)
    for home in range(4):
        for bits in range(256):
            wanted = bits & 15 or bits >> 4
            slots = [home ^ j for j in range(4) if wanted >> (home ^ j) & 1]
            out[home, bits] = slots[0] if slots else 0
    return out.reshape(-1)


_CHOICE = _slot_choices()


# -- keys; loops are compiled once for integers, shape (n,), and once for text, shape (n, 2) -----


@compile_inline
def _mix_word(x: Any) -> Any:
    h = np.uint64(x) * _MULTIPLIER
    return (h ^ (h >> np.uint64(32))) * _MIXER


@compile_loop
def _hash_key(keys: Words, i: int) -> Any:
    if keys.ndim == 1:
        return _mix_word(keys[i])
    return np.uint64(keys[i, 0]) * _MULTIPLIER ^ np.uint64(keys[i, 1]) * _MIXER


@compile_loop
def _bucket_start(keys: Words, home: Any) -> Any:
    """Return where the bucket of a home begins."""
    if keys.ndim == 1:
        return home >> _2 << _3
    return home >> _2 << _4


@compile_loop
def _holds_words(table: Words, slot: Any, keys: Words, i: int) -> Any:
    """Whether a slot holds the words of a key."""
    if keys.ndim == 1:
        return table[slot + _4] == keys[i]
    return (table[slot + _4] == keys[i, 0]) & (table[slot + _8] == keys[i, 1])


@compile_loop
def _is_long(keys: Words, i: int) -> Any:
    """Whether a key is a text too long for its two words."""
    if keys.ndim == 1:
        return False
    return keys[i, 1] < 0


@compile_loop
def _holds_long_text(table: Words, slot: Any, text: Text, i: int) -> bool:
    """Whether a slot with the words of key i also holds its long text."""
    places, long, arena = text
    at, same = table[slot + _12], True
    for j in range(1 + (long[places[i]] + 7) // 8):
        same = same and arena[at + j] == long[places[i] + j]
    return same


@compile_loop
def _write_slot(table: Words, slot: Any, u: int, keys: Words, i: int) -> None:
    table[slot] = u
    if keys.ndim == 1:
        table[slot + _4] = keys[i]
    else:
        table[slot + _4], table[slot + _8] = keys[i, 0], keys[i, 1]


@compile_loop
def _store_text(table: Words, slot: Any, text: Text, i: int, meta: Words) -> None:
    """Append a long text to the arena, which has room for it."""
    places, long, arena = text
    table[slot + _12] = meta[ARENA]
    for j in range(1 + (long[places[i]] + 7) // 8):
        arena[meta[ARENA]] = long[places[i] + j]
        meta[ARENA] += 1


# -- slots ---------------------------------------------------------------------------------------


@compile_loop
def _hash_shift(slots: int) -> Any:
    """Return by how many bits a hash is shifted to give a home; ``slots`` is a power of two."""
    shift = 64
    while slots > 1:
        slots >>= 1
        shift -= 1
    return np.uint64(shift)


@compile_loop
def _empty_slot(table: Words, over: Bytes, meta: Words, keys: Words, home: Any) -> Any:
    """Empty and return the first free slot from a home on; mark the full buckets on the way."""
    while True:
        for j in range(4):
            slot = _bucket_start(keys, home) + ((home ^ np.uint64(j)) & _3)
            if table[slot] < meta[ALPHA]:
                table[slot] = -1
                return slot
        meta[OVER] += 1 - over[home >> _2]
        over[home >> _2] = 1
        home = (home + _4) & np.uint64(4 * over.shape[0] - 1)


@compile_loop
def _find_slot(
    table: Words, over: Bytes, meta: Words, keys: Words, i: int, home: Any, text: Text
) -> Any:
    """Return the slot of a key, or a free slot for it."""
    near = home
    while True:
        for j in range(4):
            slot = _bucket_start(keys, near) + np.uint64(j)
            if (
                table[slot] >= 0
                and _holds_words(table, slot, keys, i)
                and (not _is_long(keys, i) or _holds_long_text(table, slot, text, i))
            ):
                return slot
        if not over[near >> _2]:
            return _empty_slot(table, over, meta, keys, home)
        near = (near + _4) & np.uint64(4 * over.shape[0] - 1)


@compile_loop
def fill(
    table: Words, over: Bytes, listed: Places, meta: Words, us: Words, keys: Words, places: Words
) -> None:
    """Empty a table, and put distinct keys with their ``U`` and places into it."""
    shift, width = _hash_shift(4 * over.shape[0]), table.shape[0] // over.shape[0]
    for bucket in range(0, table.shape[0], width):
        table[bucket : bucket + 4] = -1
    over[:] = 0
    meta[OVER], meta[LISTED] = 0, us.shape[0]
    for i in range(us.shape[0]):
        slot = _empty_slot(table, over, meta, keys, _hash_key(keys, i) >> shift)
        _write_slot(table, slot, us[i], keys, i)
        if keys.ndim == 2:
            table[slot + _12] = places[i]
        listed[i] = slot


@compile_loop
def _decrement(table: Words, over: Bytes, listed: Places, meta: Words, keys: Words) -> None:
    """Subtract one from all counters; rebuild the table if many buckets are marked. Only the shape
    of ``keys`` is used: it tells integers from text."""
    alpha = meta[ALPHA] + 1
    kept, zeros = 0, 0
    for i in range(meta[LISTED]):
        slot = listed[i]
        u = table[np.uint64(slot)]
        listed[kept] = slot
        kept += np.int64(u >= alpha)
        zeros += np.int64(u == alpha)
    meta[ALPHA], meta[NONZERO], meta[LISTED] = alpha, kept - zeros, kept
    if 16 * meta[OVER] > over.shape[0]:
        slots = listed[:kept]
        us, places = table[slots], np.zeros(0, np.int64)
        if keys.ndim == 1:
            fill(table, over, listed, meta, us, table[slots + 4], places)
        else:
            words = np.empty((kept, 2), np.int64)
            words[:, 0], words[:, 1], places = table[slots + 4], table[slots + 8], table[slots + 12]
            fill(table, over, listed, meta, us, words, places)


@compile_loop
def compact(table: Words, meta: Words, old: Unsigned, new: Unsigned) -> None:
    """Move the long texts in use from one arena to another, and empty the free slots."""
    meta[ARENA] = 0
    for slot in range(table.shape[0]):
        if slot % 16 >= 4:
            continue
        if table[slot] < meta[ALPHA]:
            table[slot] = -1
        elif table[slot + 8] < 0:  # a long text
            at, size = table[slot + 12], 1 + (np.int64(old[table[slot + 12]]) + 7) // 8
            new[meta[ARENA] : meta[ARENA] + size] = old[at : at + size]
            table[slot + 12] = meta[ARENA]
            meta[ARENA] += size


# -- streams -------------------------------------------------------------------------------------


@compile_loop
def update_counters(
    table: Words, over: Bytes, listed: Places, meta: Words, keys: Words, text: Text, counters: int
) -> None:
    """Count keys by Misra-Gries; the result is the same as for one key at a time, in their order.

    In each block, records of short keys whose counter exceeds ``BLOCK`` are counted first. Such a
    counter cannot reach zero within the block, and adding to a counter that stays positive changes
    nothing else, so that the order within the block does not matter for these records.
    """
    shift = _hash_shift(4 * over.shape[0])
    rest, homes = np.empty(BLOCK + 1, np.uint64), np.empty(BLOCK + 1, np.uint64)
    alpha, nonzero, n = meta[ALPHA], meta[NONZERO], meta[LISTED]
    for start in range(0, keys.shape[0], BLOCK):
        left = 0
        for i in range(start, min(start + BLOCK, keys.shape[0])):
            home = _hash_key(keys, i) >> shift
            slot = _bucket_start(keys, home) + (home & _3)
            u = table[slot]
            heavy = (
                (u > alpha + BLOCK) & _holds_words(table, slot, keys, i) & (not _is_long(keys, i))
            )
            table[slot] = u + np.int64(heavy)
            rest[left], homes[left] = np.uint64(i), home
            left += 1 - np.int64(heavy)
        for r in range(left):
            i, home = rest[r], homes[r]
            bucket = _bucket_start(keys, home)
            own, free = 0, 0
            for j in range(4):
                slot = bucket + np.uint64(j)
                u = table[slot]
                free |= np.int64(u < alpha) << j
                own |= np.int64(_holds_words(table, slot, keys, i) & (u >= 0)) << j
            slot = bucket + np.uint64(_CHOICE[(home & _3) << _8 | np.uint64(own | free << 4)])
            elsewhere = 16 * np.int64(over[home >> _2]) >= free + 32 * own  # or the bucket is full
            if _is_long(keys, i) and own != 0:
                elsewhere = not _holds_long_text(table, slot, text, i)
            if elsewhere:
                slot = _find_slot(table, over, meta, keys, i, home, text)
            u = table[slot]
            u = u if _holds_words(table, slot, keys, i) else -1
            if nonzero < counters or u > alpha:  # a counter is at zero, or the key is stored
                _write_slot(table, slot, max(u, alpha) + 1, keys, i)
                if _is_long(keys, i) and u < 0:
                    _store_text(table, slot, text, i, meta)
                listed[n] = slot
                n += np.int64(u < alpha)
                nonzero += np.int64(u <= alpha)
            else:
                meta[LISTED] = n
                _decrement(table, over, listed, meta, keys)
                alpha, nonzero, n = meta[ALPHA], meta[NONZERO], meta[LISTED]
    meta[NONZERO], meta[LISTED] = nonzero, n


@compile_loop
def update_users(
    table: Words,
    over: Bytes,
    listed: Places,
    meta: Words,
    keys: Words,
    text: Text,
    ends: Words,
    counters: int,
) -> None:
    """Count the sets of distinct keys of users, one user after the other; a user decrements at most
    once. ``ends`` says where the keys of each user end."""
    shift = _hash_shift(4 * over.shape[0])
    start = 0
    for end in ends:
        for i in range(start, end):
            slot = _find_slot(table, over, meta, keys, i, _hash_key(keys, i) >> shift, text)
            alpha, u = meta[ALPHA], table[slot]
            u = u if _holds_words(table, slot, keys, i) else -1
            _write_slot(table, slot, max(u, alpha) + 1, keys, i)
            if _is_long(keys, i) and u < 0:
                _store_text(table, slot, text, i, meta)
            listed[meta[LISTED]] = slot
            meta[LISTED] += np.int64(u < alpha)
            meta[NONZERO] += np.int64(u <= alpha)
        if meta[NONZERO] > counters:
            _decrement(table, over, listed, meta, keys)
        start = end


PARTITION_BLOCK = 8192
"""Records of a block. Each row counts a whole block before the next row, to stay in the cache."""

_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_27, _30, _31, _32 = (np.uint64(n) for n in (27, 30, 31, 32))
"""Unsigned like hashes: numba would make the sum of signed and unsigned a float."""


@compile_inline
def _splitmix64(x: Any) -> Any:
    """Compute ``hot_partition.splitmix64`` of one integer."""
    h = (x ^ (x >> _30)) * _FIRST
    h = (h ^ (h >> _27)) * _SECOND
    return h ^ (h >> _31)


@compile_loop
def update_partition(
    codes: NDArray[np.uint64],
    cells: NDArray[np.int64],
    tables: NDArray[np.int64],
    keys: NDArray[np.uint64],
) -> None:
    """Count codes.

    Parameters
    ----------
    codes
        Leaves, most significant bit first, below 2**depth.
    cells
        Counts of the deepest exact level. ``tables`` has all levels below it, leaves included.
    tables
        Counters, shape (level, row, cell), coarsest level first.
    keys
        Keys of the hashes, shape (level, row, 2): for cells and for signs.
    """
    levels, rows = tables.shape[0], tables.shape[1]
    width = np.uint64(tables.shape[2])
    for start in range(0, codes.shape[0], PARTITION_BLOCK):
        block = codes[start : start + PARTITION_BLOCK]
        shift = np.uint64(levels)
        for code in block:
            cells[code >> shift] += 1
        for level in range(levels):
            shift = np.uint64(levels - 1 - level)
            for row in range(rows):
                table, key = tables[level, row], keys[level, row, 0]
                if rows == 1:
                    for code in block:
                        h = _splitmix64((code >> shift) ^ key)
                        table[(h >> _32) * width >> _32] += 1
                else:
                    other = keys[level, row, 1]
                    for code in block:
                        h = _splitmix64((code >> shift) ^ key)
                        sign = np.int64(_splitmix64((code >> shift) ^ other) >> _31 >> _32)
                        table[(h >> _32) * width >> _32] += 1 - 2 * sign
