"""Paths as sketches count them: the texts of :mod:`dpframe.sources.stream_sql`, which compiled code
makes from the bytes of a batch instead of lists of parts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from dpframe._unicode import unicode
from dpframe.hierarchy._path import Path
from dpframe.hierarchy.stream_keys import INVALID_KEY, VALUE
from dpframe.sketches import MisraGries
from dpframe.sources.address_bytes import text_bytes

PIECE = 32_768
"""Rows whose keys are made at a time."""


def splits_by_byte(hierarchy: Path) -> bool:
    """Whether single bytes separate the parts of a path, whatever stands next to them."""
    return len(hierarchy.separator) == 1 and hierarchy.separator.isascii()


class PathCounter:
    """Counts batches of one column of texts into sketches of paths."""

    def __init__(self, sketches: Sequence[MisraGries], hierarchy: Path) -> None:
        self._sketches, self._hierarchy = sketches, hierarchy

    def update(self, batch: pa.RecordBatch) -> None:
        """Count the rows of a batch."""
        texts = unicode(batch.column(0).cast(pa.large_string()))
        for start in range(0, len(texts), PIECE):
            self._count(texts.slice(start, PIECE))

    def _count(self, texts: pa.Array) -> None:
        from dpframe.sources import _path_kernels as kernels

        data, starts = text_bytes(texts)
        size, rows = int(starts[-1] - starts[0]), len(texts)
        normal, counts = np.empty(size, np.uint8), np.empty(rows, np.int64)
        ends = np.empty((rows, self._hierarchy.height + 1), np.int64)
        kernels.split_paths(data, starts, ord(self._hierarchy.separator), normal, ends, counts)
        counted = self._hierarchy.on_invalid == "count"
        for level, sketch in enumerate(self._sketches, 1):
            invalid = ord(INVALID_KEY) if level == 1 and counted else -1
            keys, offsets = np.empty(size + rows, np.uint8), np.empty(rows + 1, np.int64)
            n = kernels.path_level_keys(
                normal, ends, counts, level, ord(VALUE), invalid, keys, offsets
            )
            if n:
                buffers = [None, pa.py_buffer(offsets), pa.py_buffer(keys)]
                sketch.update(pa.Array.from_buffers(pa.large_string(), n, buffers))

    def finish(self) -> None:
        """Do nothing: the keys of these sketches are always texts."""
