"""Keep counters of keys in arrays of fixed size, and sketches in files. Everything here is private.

Files are raw data; reading one runs no code from it.

::

    16 bytes  "dpframe sketch" and two zero bytes
     4 bytes  version of the format          little-endian, like all that follows
     4 bytes  length of the header
              header                         JSON: class, parameters, kind, totals, sizes
     8 n      counters                       int64
              keys, in ascending order       n times 8 bytes, or n + 1 offsets and the bytes
    32 bytes  SHA-256 of all before it

The header holds the fields that all sketches have and the parameters of the class. Tables are not
stored: equal states give equal files, however they came about. A file with one sketch for each
level has counters and keys level by level; ``levels`` in its header describes each level. The file
of a sketch that never stores keys, such as ``PrivHP``, has counters only, in an order that follows
from the parameters.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe.common.files import content_of, local_file, replace_file
from dpframe.common.texts import unicode
from dpframe.errors import SourceError
from dpframe.sketches._batches import ARROW_TYPES, Column, Kind, SketchState, key_order

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


T = TypeVar("T")

MAGIC = b"dpframe sketch\0\0"
FORMAT = 1
PREFIX = len(MAGIC) + 8
CHECKSUM = 32


def write_sketch(path: str | os.PathLike[str], facts: dict[str, Any], state: SketchState) -> None:
    """Write a sketch to a new file, which then replaces the old one."""
    own, body = _state_section(state)
    _write_content(path, facts | own, body)


def write_levels(
    path: str | os.PathLike[str], facts: dict[str, Any], states: Sequence[SketchState]
) -> None:
    """Write one sketch for each level, as ``write_sketch`` does."""
    sections = [_state_section(state) for state in states]
    body = b"".join(part for _, part in sections)
    _write_content(path, facts | {"levels": [own for own, _ in sections], "bytes": len(body)}, body)


def write_counts(
    path: str | os.PathLike[str], facts: dict[str, Any], counts: Sequence[NDArray[np.int64]]
) -> None:
    """Write arrays of counters one after the other, as ``write_sketch`` does."""
    body = b"".join(part.astype("<i8").tobytes() for part in counts)
    _write_content(path, facts | {"bytes": len(body)}, body)


def _state_section(state: SketchState) -> tuple[dict[str, Any], bytes]:
    keys, counts = state.keys[state.dummies :], state.counts[state.dummies :]
    body = counts.astype("<i8").tobytes() + _key_bytes(keys)
    own = {
        "kind": state.kind,
        "entries": len(counts),
        "bytes": len(body),
        "decrements": state.decrements,
        "total": state.total,
    }
    return own, body


def _write_content(path: str | os.PathLike[str], facts: dict[str, Any], body: bytes) -> None:
    header = json.dumps(facts).encode()
    start = MAGIC + FORMAT.to_bytes(4, "little") + len(header).to_bytes(4, "little")
    content = start + header + body
    with replace_file(local_file(path), "the sketch", private=True) as file:
        file.write(content + hashlib.sha256(content).digest())


def read_file(
    path: str | os.PathLike[str], name: str, restored: Callable[[dict[str, Any], memoryview], T]
) -> T:
    """Read a sketch whose header says ``name``; ``restored`` makes it from header and body."""
    file = local_file(path)
    facts, body = _split_content(content_of(file, MAGIC, "sketch"), str(file))
    found = facts.get("sketch")
    if not isinstance(found, str) or found not in CLASSES:
        raise _damage_error(str(file))
    if found != name:
        raise SourceError(
            f"{str(file)!r} holds no {CLASSES[name]}: read it with {CLASSES[found]}.load."
        )
    why = _damage_error(str(file))
    try:
        return restored(facts, body)
    except MemoryError:
        why = SourceError(f"{str(file)!r} needs more memory than there is.")
    except Exception:  # damaged content can raise anything, and the text could quote a key
        pass
    raise why


CLASSES = {
    "misra-gries": "MisraGries",
    "privacy-aware-misra-gries": "PrivacyAwareMisraGries",
    "merged": "MergedSketch",
    "streaming-hhh": "StreamingHHH",
    "privhp": "PrivHP",
}
"""Class that reads a file, by the name in its header."""


def _split_content(content: bytes, path: str) -> tuple[dict[str, Any], memoryview]:
    """Return header and body of a file; raise if version, sizes or checksum are wrong."""
    version = int.from_bytes(content[len(MAGIC) : len(MAGIC) + 4], "little")
    if len(content) >= PREFIX and version > FORMAT:
        raise SourceError(
            f"{path!r} was written by a newer version of dpframe (format {version}, above "
            f"{FORMAT}): update dpframe."
        )
    end = len(content) - CHECKSUM
    size = int.from_bytes(content[len(MAGIC) + 4 : PREFIX], "little")
    view = memoryview(content)
    if end < PREFIX + size or hashlib.sha256(view[:end]).digest() != content[end:]:
        raise _damage_error(path)
    facts: Any = None
    with contextlib.suppress(ValueError, RecursionError):
        facts = json.loads(content[PREFIX : PREFIX + size])
    if not isinstance(facts, dict) or facts.get("bytes") != end - PREFIX - size:
        raise _damage_error(path)
    facts.setdefault("streams", [content[end:].hex()])  # older files have no ids of streams
    return facts, view[PREFIX + size : end]


def _damage_error(path: str) -> SourceError:
    return SourceError(
        f"{path!r} is truncated or damaged: restore it from a copy, or count the stream again."
    )


def read_levels(facts: dict[str, Any], body: memoryview) -> list[SketchState]:
    """Read the state of the sketch of each level."""
    states = []
    for own in facts["levels"]:
        size = _check_record_number(own["bytes"])
        states.append(read_state({**own, "counters": facts["counters"]}, body[:size]))
        body = body[size:]
    _check_section_size(len(body), 0)
    return states


def read_counts(body: memoryview) -> NDArray[np.int64]:
    """Read counters, all in one array."""
    return np.frombuffer(body, "<i8").astype(np.int64)


def read_state(facts: dict[str, Any], body: memoryview) -> SketchState:
    """Read the state of a sketch."""
    n, kind = _check_record_number(facts["entries"]), facts["kind"]
    counts = np.frombuffer(body, "<i8", n).astype(np.int64)
    keys = _bytes_keys(body[8 * n :], n, kind)
    order = key_order(keys)
    if not np.array_equal(order, np.arange(n)) or len(keys.unique()) != n or (counts < 0).any():
        raise ValueError("keys out of order or negative counters")
    return SketchState(
        counters=_check_record_number(facts["counters"]),
        kind=kind,
        keys=keys,
        counts=counts,
        decrements=_check_record_number(facts["decrements"]),
        total=_check_record_number(facts["total"]),
    )


def _check_record_number(value: object) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError("not a number of records")
    return value


def _key_bytes(keys: pa.Array) -> bytes:
    if pa.types.is_null(keys.type):
        return b""
    if pa.types.is_integer(keys.type):
        return bytes(keys.to_numpy().astype(f"<{keys.type.to_pandas_dtype()().dtype.kind}8"))
    texts = [text.encode() if isinstance(text, str) else text for text in keys.to_pylist()]
    offsets = np.cumsum([0, *map(len, texts)])
    return bytes(offsets.astype("<i8")) + b"".join(texts)


def _bytes_keys(body: memoryview, n: int, kind: Any) -> pa.Array:
    if kind in ("int64", "uint64"):
        _check_section_size(len(body), 8 * n)
        return pa.array(np.frombuffer(body, f"<{kind[0]}8").astype(kind))
    if kind is None:
        _check_section_size(len(body) + n, 0)
        return pa.array([], type=ARROW_TYPES[None])
    offsets: NDArray[np.int64] = np.frombuffer(body, "<i8", n + 1).astype(np.int64)
    texts = bytes(body[8 * (n + 1) :])
    if offsets[0] != 0 or (np.diff(offsets) < 0).any():
        raise ValueError("offsets out of order")
    _check_section_size(len(texts), int(offsets[-1]))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(texts)]
    keys = pa.Array.from_buffers(ARROW_TYPES[kind], n, buffers)
    keys.validate(full=True)
    return keys


def _check_section_size(found: int, expected: int) -> None:
    if found != expected:
        raise ValueError("sizes do not match")
