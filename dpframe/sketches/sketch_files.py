"""Write and read sketches as files. Files are raw data; reading one runs no code from it.

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
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe.common.files import content_of, local_file, replace_file
from dpframe.errors import SourceError
from dpframe.sketches._batches import ARROW_TYPES, SketchState, key_order

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
