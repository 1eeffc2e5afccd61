"""Keep counters of keys in arrays of fixed size. Everything here is private."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe.common.texts import unicode
from dpframe.sketches._batches import ARROW_TYPES, Column, Kind

ROOM = 16_384
"""About how many words the keys of one step of an update may add to the arena."""


WORDS_MISSING, WORDS_NUMBER = 1, 8
"""Marks, in ``long``, of keys of kind "words" whose second word is negative. A long text has its
length in this place."""


NUMBERS = pa.binary(16)
"""Arrow type of kind "words", little-endian."""


@dataclass(frozen=True, slots=True, repr=False)
class EncodedKeys:
    """Keys as words: integers, shape (n,), or text as ``_kernels.encode`` writes it, shape (n, 2).

    Key i owns the words ``long[places[i] : places[i + 1]]``.
    """

    words: NDArray[np.int64]
    places: NDArray[np.int64]
    long: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.words)

    def take(self, rows: NDArray[np.int64]) -> tuple[EncodedKeys, int]:
        """Return the keys at some rows, and how many words of an arena they can need."""
        if not len(self.long):
            return EncodedKeys(self.words[rows], self.places, self.long), 0
        places, ends = self.places[rows], self.places[rows + 1]
        return EncodedKeys(self.words[rows], places, self.long), int((ends - places).sum())


def encode_keys(column: Column) -> EncodedKeys:
    """Return the keys of a column in the form that the kernels read."""
    if column.kind in ("int64", "uint64"):
        return EncodedKeys(column.values, np.zeros(0, np.int64), np.zeros(0, np.uint64))
    if column.kind == "words":
        return _encode_words(column.values)
    from dpframe.sketches._kernels import encode

    array = column.values
    _, offsets, data = array.buffers()
    starts = np.frombuffer(offsets, np.int64, len(array) + 1, 8 * array.offset)
    size = int(starts[-1] - starts[0])
    bytes_ = np.zeros(size + 16, np.uint8)
    if size:
        bytes_[:size] = np.frombuffer(data, np.uint8, size, int(starts[0]))
    overlapping = np.ndarray(size + 9, np.uint64, bytes_.data, strides=(1,))
    words, places = np.empty((len(array), 2), np.int64), np.empty(len(array) + 1, np.int64)
    long = np.empty(size // 4, np.uint64)
    used, ascii_ = encode(overlapping, starts, words, places, long)
    if column.kind == "text" and not ascii_ and (whole := unicode(array)) is not array:
        return encode_keys(Column("text", whole))
    places[-1] = used
    return EncodedKeys(words, places, long[:used])


def _encode_words(array: pa.Array) -> EncodedKeys:
    """Return numbers of 128 bits, and NULLs, as keys."""
    missing = array.is_null().to_numpy(zero_copy_only=False)
    raw = b"".join(key or b"\xff" * 16 for key in array.to_pylist())
    return keys_of_words(np.frombuffer(raw, np.int64).reshape(-1, 2), missing)


def keys_of_words(words: NDArray[np.int64], missing: NDArray[np.bool_]) -> EncodedKeys:
    """Return numbers of 128 bits, lower word first, as keys; the words of a ``missing`` one are -1.
    Where the second word is negative, a mark in ``long`` tells numbers from missing ones."""
    negative = words[:, 1] < 0
    places = np.zeros(len(words) + 1, np.int64)
    if negative.any():
        np.cumsum(2 * negative, out=places[1:])
    long = np.zeros(int(places[-1]), np.uint64)
    long[::2] = np.where(missing[negative], WORDS_MISSING, WORDS_NUMBER)
    return EncodedKeys(words, places, long)


@dataclass(frozen=True, slots=True, repr=False)
class StoredEntries:
    """Entries of a table that is not built yet: its room, keys (those at zero included), their
    counters, and the decrements."""

    room: int
    keys: pa.Array
    counts: NDArray[np.int64]
    decrements: int


class Table:
    """Counters of keys of one kind, in the layout that ``_kernels`` describes."""

    __slots__ = ("arena", "held", "kind", "listed", "meta", "over", "words")

    def __init__(self, kind: Kind, room: int) -> None:
        """``room`` is the largest number of positive counters at any time."""
        self.kind: Kind = kind
        self.held: StoredEntries | None = None
        self._make(room)

    @classmethod
    def of(
        cls, kind: Kind, room: int, keys: pa.Array, counts: NDArray[np.int64], decrements: int
    ) -> Table:
        """Return a table with the entries of a file. Until its first update it needs memory for
        these entries only, however much room the file asks for."""
        table = object.__new__(cls)
        table.kind, table.held = kind, StoredEntries(room, keys, counts, decrements)
        return table

    def _make(self, room: int) -> None:
        buckets = 4
        while buckets < 2 * room:  # a quarter full, with keys at zero that are not replaced yet
            buckets *= 2
        self.words = np.zeros((buckets, 2 if self.kind in ("int64", "uint64") else 4, 4), np.int64)
        self.words[:, 0] = -1
        self.over = np.zeros(buckets, np.uint8)
        self.listed = np.zeros(2 * room + 1, np.int32)
        self.meta = np.zeros(5, np.int64)
        self.arena = np.zeros(0, np.uint64)

    def __repr__(self) -> str:
        return "Table(<private>)"

    def __copy__(self) -> Table:
        twin = object.__new__(Table)
        twin.kind, twin.held = self.kind, self.held
        if self.held is not None:
            return twin
        for name in ("words", "over", "listed", "meta", "arena"):
            setattr(twin, name, getattr(self, name).copy())
        return twin

    @property
    def nbytes(self) -> int:
        if self.held is not None:
            return int(self.held.keys.nbytes + self.held.counts.nbytes)
        arrays = (self.words, self.over, self.listed, self.meta, self.arena)
        return sum(array.nbytes for array in arrays)

    @property
    def decrements(self) -> int:
        return int(self.meta[0]) if self.held is None else self.held.decrements

    @property
    def _arrays(self) -> tuple[Any, Any, Any, Any]:
        return self.words.reshape(-1), self.over, self.listed, self.meta

    def update(self, keys: EncodedKeys, counters: int) -> None:
        from dpframe.sketches import _kernels

        self._open()
        step = len(keys) // (1 + len(keys.long) // ROOM) + 1
        for start in range(0, len(keys), step):
            words, places = keys.words[start : start + step], keys.places[start : start + step + 1]
            room = int(places[-1] - places[0]) if len(keys.long) else 0
            text = (places, keys.long, self._arena(room))
            _kernels.update_counters(*self._arrays, words, text, counters)

    def update_users(
        self, keys: EncodedKeys, room: int, ends: NDArray[np.int64], counters: int
    ) -> None:
        from dpframe.sketches import _kernels

        self._open()
        text = (keys.places, keys.long, self._arena(room))
        _kernels.update_users(*self._arrays, keys.words, text, ends, counters)

    def _arena(self, words: int) -> NDArray[np.uint64]:
        """Return the arena with room for ``words`` more. If it is too full, move the texts in use
        to a new arena."""
        used = int(self.meta[4])
        if used + words > len(self.arena):
            from dpframe.sketches import _kernels

            kept = np.zeros(used, np.uint64)
            _kernels.compact(self.words.reshape(-1), self.meta, self.arena, kept)
            used = int(self.meta[4])
            self.arena = np.zeros(2 * used + words, np.uint64)
            self.arena[:used] = kept[:used]
        return self.arena

    def entries(self) -> tuple[pa.Array, NDArray[np.int64]]:
        """Return keys, including keys at zero, and their counters, in no order."""
        if self.held is not None:
            return self.held.keys, self.held.counts
        rows = self.words[:, 0] >= self.meta[0]
        counts = self.words[:, 0][rows] - self.meta[0]
        first = self.words[:, 1][rows]
        if self.kind in ("int64", "uint64"):
            return Column(self.kind, first).to_arrow(), counts
        second, places = self.words[:, 2][rows], self.words[:, 3][rows]
        if self.kind == "words":
            return self._numbers(first, second, places), counts
        long = second < 0
        keys = [_short_texts(first[~long], second[~long]), self._long_texts(places[long])]
        counts = np.concatenate([counts[~long], counts[long]])
        return pa.concat_arrays(keys).cast(ARROW_TYPES[self.kind]), counts

    def _numbers(
        self, first: NDArray[np.int64], second: NDArray[np.int64], places: NDArray[np.int64]
    ) -> pa.Array:
        """Return keys of kind "words" as an Arrow array: numbers and NULLs."""
        missing = second < 0
        missing[missing] = self.arena[places[missing]] == WORDS_MISSING
        both = np.stack([first, second], axis=1)
        numbers = [
            None if no else row.tobytes() for no, row in zip(missing.tolist(), both, strict=True)
        ]
        return pa.array(numbers, NUMBERS)

    def _long_texts(self, places: NDArray[np.int64]) -> pa.Array:
        texts = []
        for place in places.tolist():
            size = int(self.arena[place])
            words = self.arena[place + 1 : place + 1 + (size + 7) // 8]
            texts.append(words.tobytes()[:size])
        return pa.array(texts, type=pa.large_binary())

    def _open(self) -> None:
        """Build the table from the entries of a file, before the first update."""
        if self.held is None:
            return
        from dpframe.sketches import _kernels

        held = self.held
        self._make(held.room)
        content = encode_keys(Column.of(self.kind, held.keys))
        self.arena = content.long
        positive = int((held.counts > 0).sum())
        self.meta[:] = held.decrements, positive, 0, 0, len(self.arena)
        counts = held.counts + held.decrements
        _kernels.fill(*self._arrays, counts, content.words, content.places)
        self.held = None


def _short_texts(first: NDArray[np.int64], second: NDArray[np.int64]) -> pa.Array:
    """Return texts of up to 15 bytes, which fit into their two words."""
    letters = np.stack([first, second], axis=1).view(np.uint8)
    lengths = letters[:, 15].astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    kept = letters[:, :15][np.arange(15) < lengths[:, None]]
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(kept)]
    return pa.Array.from_buffers(pa.large_binary(), len(first), buffers)
