"""Batches of keys in any form as columns, and the content of a sketch.

**A batch** of keys, in whatever form it comes, becomes columns of one kind.

The kind follows from types, never from values. Keys that are missing, of mixed types or of another
kind than the sketch's raise an error that names the rule and quotes no key. Text that is not UTF-8
is repaired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AnySet
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpframe.common.texts import arrow_texts, decode_bytes, unicode
from dpframe.errors import DpframeError, ParameterError, ParameterTypeError, SourceError

Kind = Literal["int64", "uint64", "text", "bytes", "words"]
"""Kind of keys. "words" are numbers of 128 bits, or NULL; only the reader of a stream makes
them."""

T = TypeVar("T")

PIECE = 32_768
"""Rows converted at a time, where keys must be converted."""

NAMES = {"int64": "integers", "uint64": "unsigned integers", "text": "text", "bytes": "bytes"}

ACCEPTED = (
    "keys must be integers of up to 64 bits, text or bytes, as a numpy array, a pandas or Polars "
    "series, an Arrow array or reader, a DuckDB relation of one column, or an iterable"
)
NULLS = (
    "keys contain NULL, and a missing value is no key: drop these records, or use a key such as "
    "'<missing>'."
)
FLOATS = (
    "keys are floating-point numbers, whose equality is not exact: convert them to integers or "
    "text."
)
MIXED = "keys are of mixed types: pass integers only, text only or bytes only."
TOO_LARGE = (
    "keys exceed the range of the sketch: -2^63 to 2^63 - 1, or 0 to 2^64 - 1 if its first batch "
    "was uint64. Pass larger keys as text."
)


ARROW_TYPES: dict[Kind | None, pa.DataType] = {
    "int64": pa.int64(),
    "uint64": pa.uint64(),
    "text": pa.large_string(),
    "bytes": pa.large_binary(),
    None: pa.null(),
}
"""Arrow type of the keys of each kind."""


@dataclass(frozen=True, slots=True, repr=False)
class Column:
    """Keys in their order: int64 (which also holds the bits of uint64), or large Arrow text or
    bytes."""

    kind: Kind
    values: Any

    def __len__(self) -> int:
        return len(self.values)

    @classmethod
    def of(cls, kind: Kind, keys: pa.Array) -> Column:
        """Make a column from an Arrow array of one of the four types."""
        integers = kind in ("int64", "uint64")
        return cls(kind, keys.to_numpy().view(np.int64) if integers else keys)

    def to_arrow(self) -> pa.Array:
        """Return the keys in the Arrow type of their kind; text that is not UTF-8 is repaired."""
        if isinstance(self.values, np.ndarray):
            return pa.array(self.values.view(self.kind))
        return unicode(self.values)


SetIterator: type = type(iter(set()))
"""Type of an iterator over a set or frozenset, which has no order of its own either."""


def check_batch_order(batch: object) -> None:
    """Raise ParameterTypeError if a batch has no order of its own, or may have none."""
    if isinstance(batch, (AnySet, SetIterator)):
        raise ParameterTypeError(
            "keys are a set, whose order depends on its content: pass a list in an order of your "
            "own."
        )
    module, name = type(batch).__module__.split(".")[0], type(batch).__name__
    if module in ("duckdb", "_duckdb"):
        raise ParameterTypeError(
            "keys are a DuckDB relation, whose order is not checked here: pass it to a sketch of "
            "dpframe, or its rows as an Arrow table."
        )
    if module == "pyspark":
        raise ParameterTypeError(
            f"a {name} of Spark has no order of its own: use dp.hhh(frame, ..., "
            "mechanism='streaming'), or pass keys from a table or a file."
        )


def key_columns(batch: object, kind: Kind | None) -> Iterator[Column]:
    """Yield a batch as columns of one kind: ``kind``, or the kind of the first keys if the sketch
    has no kind yet (None)."""
    for part in _batch_parts(batch):
        column = _key_column(part, kind)
        if len(column):
            kind = column.kind
            yield column


def single_column(batch: object, kind: Kind | None) -> Column | None:
    """Return a batch as one column; None if the batch is empty."""
    parts = list(key_columns(batch, kind))
    if not parts:
        return None
    values, integers = [part.values for part in parts], parts[0].kind in ("int64", "uint64")
    return Column(parts[0].kind, np.concatenate(values) if integers else pa.concat_arrays(values))


# -- sources as arrays and lists -----------------------------------------------------------------


def _batch_parts(batch: Any) -> Iterator[Any]:
    """Yield the parts of a batch: NumPy arrays of numbers, Arrow arrays, or lists."""
    module = type(batch).__module__.split(".")[0]
    if isinstance(batch, np.ndarray) and batch.ndim:
        yield from _numpy_parts(batch)
    elif isinstance(batch, (np.generic, np.ndarray)):
        yield [batch.item()]
    elif isinstance(batch, (pa.Array, pa.ChunkedArray)):
        yield from _arrow_parts(batch)
    elif module == "pandas" and isinstance(batch, Iterable):
        yield from _pandas_parts(batch)
    elif isinstance(batch, pa.RecordBatch) or hasattr(batch, "__arrow_c_stream__"):
        yield from _stream_parts(batch)
    elif isinstance(batch, dict):
        raise ParameterTypeError(f"{ACCEPTED}; got a mapping.")
    elif isinstance(batch, Iterable) and not isinstance(batch, (str, bytes, bytearray)):
        items = iter(batch)
        while piece := list(islice(items, PIECE)):
            yield piece
    else:
        yield [batch]


def _numpy_parts(array: NDArray[Any]) -> Iterator[Any]:
    if array.ndim > 1:
        raise ParameterError(f"keys must be one-dimensional; got an array of shape {array.shape}.")
    if np.ma.is_masked(array):
        raise ParameterError(NULLS)
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8:
        yield array
        return
    for start in range(0, len(array), PIECE):
        piece = array[start : start + PIECE]
        yield piece if array.dtype.kind in "iuf" else piece.tolist()


def _pandas_parts(series: Any) -> Iterator[Any]:
    if getattr(series, "ndim", 0) != 1:
        raise ParameterTypeError(f"{ACCEPTED}; got a pandas {type(series).__name__}.")
    if isinstance(series.dtype, np.dtype):
        yield from _numpy_parts(series.to_numpy())
        return
    values = series.array
    for start in range(0, len(values), PIECE):
        piece = values[start : start + PIECE]
        try:
            keys = pa.array(piece)
        except Exception:  # text with lone surrogates, or values that are no keys
            yield list(piece)
        else:
            yield from _arrow_parts(keys)


def _arrow_parts(array: pa.Array | pa.ChunkedArray) -> Iterator[Any]:
    for chunk in array.chunks if isinstance(array, pa.ChunkedArray) else [array]:
        if pa.types.is_integer(chunk.type) and not chunk.null_count:
            yield from _numpy_parts(chunk.to_numpy())
        else:
            for start in range(0, len(chunk), PIECE):
                yield chunk.slice(start, PIECE)


def _stream_parts(source: Any) -> Iterator[Any]:
    """Yield the keys of Arrow streams, a record batch at a time, and of other libraries' series."""
    name = type(source).__name__
    opened = _call_reader(name, lambda: _open_stream(source))
    if isinstance(opened, pa.ChunkedArray):
        yield from _arrow_parts(opened)
        return
    if len(opened.schema) != 1:
        raise ParameterError(f"keys must be one column; the {name} has {len(opened.schema)}.")
    while (batch := _call_reader(name, lambda: next(opened, None))) is not None:
        yield from _arrow_parts(batch.column(0))


def _open_stream(source: Any) -> pa.RecordBatchReader | pa.ChunkedArray:
    if isinstance(source, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(source.schema, [source])
    if hasattr(source, "to_arrow_reader"):  # DuckDB, whose own stream reads everything at once
        return source.to_arrow_reader(16 * PIECE)
    if hasattr(source, "dtype"):
        polars = hasattr(source, "to_arrow")
        return pa.chunked_array([source.to_arrow()] if polars else source)
    return pa.RecordBatchReader.from_stream(source)


def _call_reader(name: str, call: Callable[[], T]) -> T:
    """Call a reader. If it fails, name only the type of its error: the text could quote a row."""
    try:
        return call()
    except DpframeError:
        raise  # errors of dpframe quote no data
    except Exception as error:
        failed = type(error).__name__
    raise SourceError(
        f"reading the {name} failed ({failed}; its text is withheld, it can quote the data)."
    )


# -- one kind of key -----------------------------------------------------------------------------


def _key_column(part: Any, kind: Kind | None) -> Column:
    if isinstance(part, list):
        part = _list_array(part)
    if isinstance(part, pa.Array) and pa.types.is_dictionary(part.type):
        part = _decode_dictionary(part)
    if isinstance(part, pa.Array) and part.null_count:
        raise ParameterError(NULLS)
    if isinstance(part, np.ndarray):
        found = pa.from_numpy_dtype(part.dtype.newbyteorder("="))
    else:
        found = part.type
    if pa.types.is_floating(found):
        raise ParameterTypeError(FLOATS)
    if pa.types.is_integer(found):
        return _integer_column(part if isinstance(part, np.ndarray) else part.to_numpy(), kind)
    text = found in arrow_texts()
    wide = pa.large_string() if text else pa.large_binary()
    if not text and not _is_bytes(found):
        raise ParameterTypeError(f"{ACCEPTED}; got {found}: convert it to text.")
    _check_key_kind("text" if text else "bytes", kind)
    return Column("text" if text else "bytes", part.cast(wide))


def _decode_dictionary(array: pa.DictionaryArray) -> pa.Array:
    values = array.dictionary
    if pa.types.is_string_view(values.type):  # Arrow's take does not read views
        values = values.cast(pa.large_string())
    if pa.types.is_binary_view(values.type):
        values = values.cast(pa.large_binary())
    return values.take(array.indices)


def _is_bytes(kind: pa.DataType) -> bool:
    known = (pa.binary(), pa.large_binary(), pa.binary_view())
    return any(map(kind.equals, known)) or bool(pa.types.is_fixed_size_binary(kind))


def _check_key_kind(found: Kind, kind: Kind | None) -> None:
    if kind is not None and NAMES[found].split()[-1] != NAMES[kind].split()[-1]:
        raise ParameterTypeError(
            f"the sketch holds {NAMES[kind]} and the batch {NAMES[found]}: pass keys of one kind."
        )


def _integer_column(values: NDArray[Any], kind: Kind | None) -> Column:
    """Return integers as a column. Check their range if either the batch or the sketch is uint64,
    and not both."""
    own: Kind = "uint64" if values.dtype.kind == "u" and values.dtype.itemsize == 8 else "int64"
    _check_key_kind(own, kind)
    kind = kind or own
    if own != kind and len(values):
        outside = values.max() > 2**63 - 1 if own == "uint64" else values.min() < 0
        if outside:
            raise ParameterError(TOO_LARGE)
    whole = np.ascontiguousarray(values, dtype=np.uint64 if kind == "uint64" else np.int64)
    return Column(kind, whole.view(np.int64))


def _list_array(items: list[Any]) -> Any:
    """Return Python objects as an array: NumPy for integers, Arrow for text and bytes. Raise here,
    outside of every handler, so that no error carries another error that quotes a key."""
    types = set(map(type, items))
    floats = {t for t in types if issubclass(t, (float, np.floating))}
    missing = {t for t in types if t is type(None) or t.__name__ in ("NAType", "NaTType")}
    if missing or (floats and floats < types and any(x != x for x in items if type(x) in floats)):
        raise ParameterError(NULLS)
    if floats:
        raise ParameterTypeError(FLOATS if floats == types else MIXED)
    groups = {_type_group(t) for t in types}
    if groups == {"integers"}:
        return _integer_array(items if types == {int} else list(map(int, items)))
    if groups in ({"text"}, {"bytes"}):
        wide = pa.large_string() if groups == {"text"} else pa.large_binary()
        try:
            return pa.array(items, type=wide)
        except (UnicodeError, pa.ArrowException):  # text with lone surrogates
            return pa.array(
                [decode_bytes(t.encode("utf-8", "surrogatepass")) for t in items], type=wide
            )
    if len(groups) > 1 and groups <= {"integers", "text", "bytes"}:
        raise ParameterTypeError(MIXED)
    names = ", ".join(sorted(t.__name__ for t in types if not _type_group(t)))
    raise ParameterTypeError(f"{ACCEPTED}; got {names or 'no keys'}.")


def _type_group(kind: type) -> str:
    if issubclass(kind, (bool, np.bool_)):
        return ""
    if issubclass(kind, (int, np.integer)):
        return "integers"
    return (
        "text" if issubclass(kind, str) else "bytes" if issubclass(kind, (bytes, bytearray)) else ""
    )


def _integer_array(items: list[int]) -> NDArray[Any]:
    for dtype in (np.int64, np.uint64):
        try:
            return np.array(items, dtype=dtype)
        except OverflowError:
            pass
    raise ParameterError(TOO_LARGE)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class SketchState:
    """The content of a sketch: raw data, for the code of a release.

    Parameters
    ----------
    counters
        k. Not every class of sketch has k entries.
    kind
        Kind of the keys; None if the sketch has seen no key.
    keys
        Arrow array of int64, uint64, large text or large bytes. NULLs for the dummies come first,
        then the keys in ascending order.
    counts
        int64, the counters in units of ``1 / lattice``.
    dummies
        Number of counters at zero that never had a key.
    lattice
        1, or k + 1 where sketches were post-processed before they were added.
    decrements
        Bound on how far an unrounded counter is below the true count of its key, or of a key
        without a counter.
    total
        Records, or items of users, that went in.
    """

    counters: int
    kind: Kind | None
    keys: pa.Array
    counts: NDArray[np.int64]
    dummies: int = 0
    lattice: int = 1
    decrements: int
    total: int

    def __repr__(self) -> str:
        return "SketchState(<private>)"

    @property
    def dummy(self) -> NDArray[np.bool_]:
        """Mask of the dummies."""
        return np.arange(len(self.counts)) < self.dummies

    def post_processed(self) -> SketchState:
        """Apply Algorithm 3 of Lebeda and Tetek without its noise: subtract the sum of all counters
        over k + 1 from each counter, in exact multiples of 1 / (k + 1). No counter is dropped."""
        lattice = self.counters + 1
        if lattice * self.total >= 2**63:
            raise ParameterError("the sketch holds too many records to be post-processed exactly.")
        counts = lattice * self.counts - self.counts.sum()
        return replace(self, counts=counts, lattice=lattice, decrements=-(-self.total // lattice))

    def positive(self) -> tuple[pa.Array, NDArray[np.int64]]:
        """Return the keys with a positive counter, and their counters."""
        rows = np.flatnonzero(self.counts > 0)
        return self.keys.take(pa.array(rows)), self.counts[rows]


def key_order(keys: pa.Array) -> NDArray[np.int64]:
    """Return the positions that sort keys: integers by value, text and bytes by their bytes."""
    if pa.types.is_large_string(keys.type):
        keys = keys.view(pa.large_binary())
    order: Any = pc.array_sort_indices(keys)
    return np.asarray(order.to_numpy(), dtype=np.int64)


def sort_entries(keys: pa.Array, counts: NDArray[np.int64]) -> tuple[pa.Array, NDArray[np.int64]]:
    """Return entries in the order of their keys."""
    order = key_order(keys)
    return keys.take(pa.array(order)), counts[order]


def no_entries() -> tuple[pa.Array, NDArray[np.int64]]:
    """Return no keys and no counters; the keys have no kind."""
    return pa.array([], type=ARROW_TYPES[None]), np.zeros(0, np.int64)
