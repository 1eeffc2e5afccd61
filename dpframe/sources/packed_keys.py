"""Keys of columns of whole numbers, as sketches count them fastest: one number of 64 bits a node.

A node of level l is the values of its first l columns, each in bits of its own, as many as the
first batch asks for and what is left besides. Where a later value does not fit, sketches go on with
texts, and at last they hold texts in any case: those of :mod:`dpframe.hierarchy.stream_keys`, one
for one, so that a sketch is what it would be of texts from the start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe import _compute as pc
from dpframe._duck import VIEW
from dpframe._sql import identifier
from dpframe.hierarchy import Hierarchy
from dpframe.hierarchy.stream_keys import INVALID_KEY, VALUE
from dpframe.sketches import MisraGries

BITS = 63
"""Of a key, so that it is not negative."""

FITTING = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
"""Types whose values are whole numbers from -2^63 to 2^63 - 1."""


def packable(hierarchy: Hierarchy, types: tuple[str, ...]) -> bool:
    """Whether every level has a column of its own, of whole numbers."""
    return hierarchy.whole_keys(types) and all(kind in FITTING for kind in types)


def numbers_sql(hierarchy: Hierarchy, *, view: str = VIEW) -> str:
    """The columns of the levels, as they are."""
    chosen = ", ".join(
        f"{identifier(c)}::BIGINT AS c{i}" for i, c in enumerate(hierarchy.source_columns)
    )
    some = [f"{identifier(c)} IS NOT NULL" for c in hierarchy.source_columns]
    where = f" WHERE {' AND '.join(some)}" if hierarchy.on_invalid == "drop" else ""
    return f"SELECT {chosen} FROM {view}{where}"


@dataclass(frozen=True, slots=True)
class Packing:
    """Of each column the least value, and the bits that hold it; the largest code is NULL."""

    low: tuple[int, ...]
    bits: tuple[int, ...]

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> Packing | None:
        """One that has room for a batch, and for others like it; None if 63 bits are too few."""
        ends = [_ends(column) for column in batch.columns]
        needed = [(high - low + 2).bit_length() for low, high in ends]
        spare = (BITS - sum(needed)) // len(needed)
        if spare < 0:
            return None
        bits = tuple(n + spare for n in needed)
        middle = [(2**b - 2 - (high - low)) // 2 for b, (low, high) in zip(bits, ends, strict=True)]
        low = (max(low - m, -(2**63)) for m, (low, _) in zip(middle, ends, strict=True))
        return cls(tuple(low), bits)

    def keys(self, batch: pa.RecordBatch) -> list[NDArray[np.int64]] | None:
        """Of every row its node at each level; None if a value does not fit."""
        out, above = [], np.zeros(batch.num_rows, dtype=np.int64)
        for column, least, bits in zip(batch.columns, self.low, self.bits, strict=True):
            low, high = _ends(column)
            if low < least or high > least + 2**bits - 2:
                return None
            codes = column.fill_null(least).to_numpy(zero_copy_only=False) - np.int64(least)
            if column.null_count:
                codes[column.is_null().to_numpy(zero_copy_only=False)] = 2**bits - 1
            above = (above << np.int64(bits)) | codes
            out.append(above)
        return out

    def texts(self, keys: pa.Array, level: int) -> pa.Array:
        """The texts of nodes of a level."""
        numbers = keys.to_numpy(zero_copy_only=False)
        values: list[pa.Array] = []
        for least, bits in zip(self.low[:level][::-1], self.bits[:level][::-1], strict=True):
            codes = numbers & np.int64(2**bits - 1)
            missing = codes == 2**bits - 1
            values.insert(0, pa.array(codes + np.int64(least), pa.int64(), mask=missing))
            numbers = numbers >> np.int64(bits)
        return texts(values)


def texts(values: Sequence[pa.Array]) -> pa.Array:
    """Nodes as texts, from the values of their columns."""
    written = [column.cast(pa.large_string()) for column in values]
    if len(written) == 1:
        return pc.fill_null(_joined(VALUE, written[0], ""), INVALID_KEY)
    quoted = [pc.fill_null(_joined('"', text, '"'), "null") for text in written]
    listed = pc.binary_join_element_wise(*quoted, _large(","))
    return _joined("[", listed, "]")


def _joined(before: str, text: pa.Array, after: str) -> pa.Array:
    return pc.binary_join_element_wise(_large(before), text, _large(after), _large(""))


def _large(text: str) -> pa.Scalar:
    return pa.scalar(text, pa.large_string())


def _ends(column: pa.Array) -> tuple[int, int]:
    """The least and the largest value; 0 where there is none."""
    found = pc.min_max(column).as_py()
    return (0, 0) if found["min"] is None else (found["min"], found["max"])


class Counting:
    """Sketches of no record yet, which count batches of numbers."""

    def __init__(self, sketches: Sequence[MisraGries]) -> None:
        self._sketches = sketches
        self._packing: Packing | None = None
        self._texts = False

    def update(self, batch: pa.RecordBatch) -> None:
        """Count the rows of a batch."""
        if not batch.num_rows:
            return
        if self._packing is None and not self._texts:
            self._packing = Packing.of(batch)
        keys = None if self._packing is None else self._packing.keys(batch)
        if keys is None:
            self.finish()
            values = [column.cast(pa.int64()) for column in batch.columns]
            keys = [texts(values[:level]) for level in range(1, len(values) + 1)]
        for sketch, own in zip(self._sketches, keys, strict=True):
            sketch.update(own)

    def finish(self) -> None:
        """From here on the sketches hold texts."""
        if self._packing is not None:
            packing = self._packing
            for level, sketch in enumerate(self._sketches, 1):
                sketch._rename("text", partial(packing.texts, level=level))
        self._packing, self._texts = None, True
