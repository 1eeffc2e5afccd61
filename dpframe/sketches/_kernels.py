"""The tables of the sketches and their inner loops. Compiled.

A slot is a row of words. Word 0 is ``U``; the rest is the key, ``[U, key]`` for integers and
``[U, first, second, place]`` for text as ``_encode`` puts it, ``place`` being where a long text
stands in the *arena*. Keys are compared in full: equal hashes merge nothing.

``U - alpha`` is the counter, so that "all counters minus one" is ``alpha += 1``. A slot with
``U < alpha`` is free whatever its key; -1 is an empty one. Four slots are a bucket. A key lives at
its home, the slot of its hash, or elsewhere in that bucket (``home ^ j``) or, if that was full, in
one of the next; ``over`` marks the buckets that a search must not end at. ``listed`` holds the
slots with ``U >= alpha``. At most a quarter of the slots is in use at any time: then never all
buckets are marked, and every search ends.

Which of the counters at zero goes first is decided when the sketch is read (``tables.py``).
"""

# mypy: disable-error-code="no-any-return, assignment"
from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpframe.sketches._compiled import compiled, inlined

Words = NDArray[np.int64]
Unsigned = NDArray[np.uint64]
Bytes = NDArray[np.uint8]
Places = NDArray[np.int32]
Text = tuple[Words, Unsigned, Unsigned]
"""For each key of a batch its place among its long texts; those texts; the arena."""

ALPHA, NONZERO, LISTED, OVER, ARENA = range(5)
"""In ``meta``: decrements, positive counters, length of ``listed``, marked buckets, words used."""

BLOCK = 32
"""Records looked at together; found by trial on heavy-tailed keys."""

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio
_MIXER = np.uint64(0xD6E8FEB86659FD93)  # of Pelle Evensen's rrmxmx

_LOWEST = np.array([(bits & -bits).bit_length() - 1 & 3 for bits in range(256)], dtype=np.uint8)
"""Position of the lowest bit among the lower four or, if those are 0, among the upper four."""


# -- keys; loops are compiled once for integers, shape (n,), and once for text, shape (n, 2) -----


@inlined
def _mixed(x: Any) -> Any:
    h = np.uint64(x) * _MULTIPLIER
    return (h ^ (h >> np.uint64(32))) * _MIXER


@compiled
def _hash(keys: Words, i: int) -> Any:
    if keys.ndim == 1:
        return _mixed(keys[i])
    return np.uint64(keys[i, 0]) * _MULTIPLIER ^ np.uint64(keys[i, 1]) * _MIXER


@compiled
def _same(slots: Words, slot: Any, keys: Words, i: int) -> Any:
    """Whether a slot has the words of a key."""
    if keys.ndim == 1:
        return slots[slot, 1] == keys[i]
    return (slots[slot, 1] == keys[i, 0]) & (slots[slot, 2] == keys[i, 1])


@compiled
def _is_long(keys: Words, i: int) -> Any:
    """Whether a key is a text that its two words do not hold."""
    if keys.ndim == 1:
        return False
    return keys[i, 1] < 0


@compiled
def _write(slots: Words, slot: Any, u: int, keys: Words, i: int) -> None:
    slots[slot, 0] = u
    if keys.ndim == 1:
        slots[slot, 1] = keys[i]
    else:
        slots[slot, 1], slots[slot, 2] = keys[i, 0], keys[i, 1]


@compiled
def _stored(text: Text, i: int, at: int) -> bool:
    """Whether a long text is the one at a place of the arena."""
    places, long, arena = text
    same = True
    for j in range(1 + (long[places[i]] + 7) // 8):
        same = same and arena[at + j] == long[places[i] + j]
    return same


@compiled
def _store(text: Text, i: int, meta: Words) -> int:
    """Append a long text to the arena, which has room for it."""
    places, long, arena = text
    at = meta[ARENA]
    for j in range(1 + (long[places[i]] + 7) // 8):
        arena[at + j] = long[places[i] + j]
        meta[ARENA] += 1
    return at


# -- slots ---------------------------------------------------------------------------------------


@compiled
def _shift_to(slots: int) -> Any:
    """What a hash is shifted by to give a slot; the number of slots is a power of two."""
    shift = 64
    while slots > 1:
        slots >>= 1
        shift -= 1
    return np.uint64(shift)


@compiled
def _seat(slots: Words, over: Bytes, meta: Words, home: Any) -> Any:
    """The first free slot from a home on, emptied; marks the full buckets that are passed."""
    while True:
        for j in range(4):
            slot = home ^ np.uint64(j)
            if slots[slot, 0] < meta[ALPHA]:
                slots[slot, 0] = -1
                return slot
        meta[OVER] += 1 - over[home >> np.uint64(2)]
        over[home >> np.uint64(2)] = 1
        home = (home + np.uint64(4)) & np.uint64(slots.shape[0] - 1)


@compiled
def _search(
    slots: Words, over: Bytes, meta: Words, keys: Words, i: int, home: Any, text: Text
) -> Any:
    """The slot of a key, or a free one for it."""
    near = home
    while True:
        for j in range(4):
            slot = near ^ np.uint64(j)
            if (
                slots[slot, 0] >= 0
                and _same(slots, slot, keys, i)
                and (not _is_long(keys, i) or _stored(text, i, slots[slot, 3]))
            ):
                return slot
        if not over[near >> np.uint64(2)]:
            return _seat(slots, over, meta, home)
        near = (near + np.uint64(4)) & np.uint64(slots.shape[0] - 1)


@compiled
def fill(slots: Words, over: Bytes, listed: Places, meta: Words, rows: Words) -> None:
    """Empty a table, and put rows with distinct keys into it."""
    shift = _shift_to(slots.shape[0])
    slots[:, 0] = -1
    over[:] = 0
    meta[OVER] = 0
    for i in range(rows.shape[0]):
        home = _hash(rows[:, 1], i) if rows.shape[1] == 2 else _hash(rows[:, 1:3], i)
        slot = _seat(slots, over, meta, home >> shift)
        slots[slot] = rows[i]
        listed[i] = slot
    meta[LISTED] = rows.shape[0]


@compiled
def _decrement(slots: Words, over: Bytes, listed: Places, meta: Words) -> None:
    """All counters minus one; tidies up where many buckets are marked."""
    alpha = meta[ALPHA] + 1
    kept, zeros = 0, 0
    for i in range(meta[LISTED]):
        slot = np.int64(listed[i])
        u = slots[slot, 0]
        listed[kept] = slot
        kept += np.int64(u >= alpha)
        zeros += np.int64(u == alpha)
    meta[ALPHA], meta[NONZERO], meta[LISTED] = alpha, kept - zeros, kept
    if 16 * meta[OVER] > over.shape[0]:
        rows = np.empty((kept, slots.shape[1]), np.int64)
        for i in range(kept):
            rows[i] = slots[listed[i]]
        fill(slots, over, listed, meta, rows)


@compiled
def compact(slots: Words, meta: Words, old: Unsigned, new: Unsigned) -> None:
    """Move the long texts in use from one arena to another, and empty all other slots."""
    meta[ARENA] = 0
    for slot in range(slots.shape[0]):
        if slots[slot, 0] < meta[ALPHA]:
            slots[slot, 0] = -1
        elif slots[slot, 2] < 0:  # a long text
            at, size = slots[slot, 3], 1 + (np.int64(old[slots[slot, 3]]) + 7) // 8
            new[meta[ARENA] : meta[ARENA] + size] = old[at : at + size]
            slots[slot, 3] = meta[ARENA]
            meta[ARENA] += size


# -- streams -------------------------------------------------------------------------------------


@compiled
def update(
    slots: Words, over: Bytes, listed: Places, meta: Words, keys: Words, text: Text, counters: int
) -> None:
    """Misra-Gries: keys one at a time, in their order.

    Of each block the records of short keys are counted first whose counter exceeds ``BLOCK``.
    It cannot reach zero within the block, and a hit on a counter that stays positive changes
    nothing else: the result is that of the records one at a time.
    """
    shift = _shift_to(slots.shape[0])
    rest, homes = np.empty(BLOCK + 1, np.uint64), np.empty(BLOCK + 1, np.uint64)
    alpha, nonzero, n = meta[ALPHA], meta[NONZERO], meta[LISTED]
    for start in range(0, keys.shape[0], BLOCK):
        left = 0
        for i in range(start, min(start + BLOCK, keys.shape[0])):
            home = _hash(keys, i) >> shift
            u = slots[home, 0]
            heavy = (u > alpha + BLOCK) & _same(slots, home, keys, i) & (not _is_long(keys, i))
            slots[home, 0] = u + np.int64(heavy)
            rest[left], homes[left] = np.uint64(i), home
            left += 1 - np.int64(heavy)
        for r in range(left):
            i, home = rest[r], homes[r]
            own, free = 0, 0
            for j in range(4):
                slot = home ^ np.uint64(j)
                u = slots[slot, 0]
                free |= np.int64(u < alpha) << j
                own |= np.int64(_same(slots, slot, keys, i) & (u >= 0)) << j
            slot = home ^ np.uint64(_LOWEST[np.uint64(own | free << 4)])
            elsewhere = 16 * np.int64(over[home >> np.uint64(2)]) >= free + 32 * own  # or no room
            if _is_long(keys, i) and own != 0:
                elsewhere = not _stored(text, i, slots[slot, 3])
            if elsewhere:
                slot = _search(slots, over, meta, keys, i, home, text)
            u = slots[slot, 0]
            u = u if _same(slots, slot, keys, i) else -1
            if nonzero < counters or u > alpha:  # a counter is at zero, or the key is stored
                _write(slots, slot, max(u, alpha) + 1, keys, i)
                if _is_long(keys, i) and u < 0:
                    slots[slot, 3] = _store(text, i, meta)
                listed[n] = slot
                n += np.int64(u < alpha)
                nonzero += np.int64(u <= alpha)
            else:
                meta[LISTED] = n
                _decrement(slots, over, listed, meta)
                alpha, nonzero, n = meta[ALPHA], meta[NONZERO], meta[LISTED]
    meta[NONZERO], meta[LISTED] = nonzero, n


@compiled
def update_users(
    slots: Words,
    over: Bytes,
    listed: Places,
    meta: Words,
    keys: Words,
    text: Text,
    ends: Words,
    counters: int,
) -> None:
    """Sets of distinct keys, one user after the other; at most one decrement for each."""
    shift = _shift_to(slots.shape[0])
    start = 0
    for end in ends:
        for i in range(start, end):
            slot = _search(slots, over, meta, keys, i, _hash(keys, i) >> shift, text)
            alpha, u = meta[ALPHA], slots[slot, 0]
            u = u if _same(slots, slot, keys, i) else -1
            _write(slots, slot, max(u, alpha) + 1, keys, i)
            if _is_long(keys, i) and u < 0:
                slots[slot, 3] = _store(text, i, meta)
            listed[meta[LISTED]] = slot
            meta[LISTED] += np.int64(u < alpha)
            meta[NONZERO] += np.int64(u <= alpha)
        if meta[NONZERO] > counters:
            _decrement(slots, over, listed, meta)
        start = end
