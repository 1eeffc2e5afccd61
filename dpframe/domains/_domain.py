"""A domain: several axes, which are cut in turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from dpframe.domains._axis import Axis, Codes, Counts, Mask, types_of_columns
from dpframe.domains._bits import Moves, axis_turns
from dpframe.domains._read_values import single_array
from dpframe.errors import ColumnError, ParameterError
from dpframe.hierarchy import ROOT
from dpframe.noise import PublicRandom

MAX_DEPTH = 60
"""Most bits of a path, which is a 64-bit integer."""

USUAL_DEPTH = 32
"""Most bits of a path if no depth is given: 2**32 cells are more than most tables have rows."""


@dataclass(frozen=True, eq=False, repr=False)
class Domain:
    """All possible rows, as a binary tree of cells that is ``depth`` levels deep.

    Bit t of a path halves axis ``turn[t]``; the highest of ``depth`` bits is the first. A cell of
    level n is given by the first n bits. By default ``depth`` is the sum of the bits of the axes,
    20 for numbers and times, but at most 32.
    """

    axes: tuple[Axis, ...]
    depth: int
    turn: tuple[int, ...]

    @classmethod
    def of(cls, axes: tuple[Axis, ...], depth: int | None) -> Domain:
        """Make a domain: check the depth, and divide its bits among the axes."""
        names = [name for axis in axes for name in axis.columns]
        for name in names:
            if sum(name.lower() == other.lower() for other in names) > 1:
                raise ColumnError(f"columns names {name!r} twice: name each column once.")
        bits = [axis.usual if depth is None else axis.bits for axis in axes]
        needed, most = sum(b > 0 for b in bits), min(MAX_DEPTH, sum(bits))
        if not needed:
            raise ParameterError("columns can hold one value only: list more keys.")
        if depth is None:
            depth = min(USUAL_DEPTH, most)
        if isinstance(depth, bool) or not isinstance(depth, int) or not 1 <= depth <= most:
            raise ParameterError(
                f"depth must be a whole number in 1 to {most} for these columns; got {depth!r}."
            )
        if depth < needed:
            raise ParameterError(
                f"depth ({depth}) is below the number of axes ({needed}): raise depth, or name "
                "fewer columns."
            )
        return cls(axes, depth, axis_turns(bits, depth))

    def __repr__(self) -> str:
        return f"Domain({self.spec!r})"

    @property
    def columns(self) -> tuple[str, ...]:
        """Source columns in the order of the output."""
        return tuple(name for axis in self.axes for name in axis.columns)

    @property
    def spec(self) -> str:
        """The canonical text; lists of keys appear as hashes."""
        return "; ".join([*(axis.spec for axis in self.axes), f"depth={self.depth}"])

    @cached_property
    def diameters(self) -> tuple[float, ...]:
        """Largest l-infinity diameter of a cell at levels 0 to ``depth``; every axis is scaled to
        0 to 1.

        Values of a hierarchy that share n levels have distance 2**-n, equal values 0.
        """
        return tuple(
            max(a.diameter(int(k)) for a, k in zip(self.axes, fixed, strict=True))
            for fixed in self._fixed_bits
        )

    @cached_property
    def _fixed_bits(self) -> Counts:
        """Bits of each axis that a cell of each level fixes, shape (depth + 1, axes)."""
        fixed = np.zeros((self.depth + 1, len(self.axes)), dtype=np.int64)
        for level, axis in enumerate(self.turn, 1):
            fixed[level] = fixed[level - 1]
            fixed[level, axis] += 1
        return fixed

    @cached_property
    def _places(self) -> tuple[tuple[int, ...], ...]:
        """For each axis, the places of its bits in a path, lowest first."""
        places: list[list[int]] = [[] for _ in self.axes]
        for level, axis in enumerate(self.turn):
            places[axis].insert(0, self.depth - 1 - level)
        return tuple(map(tuple, places))

    @cached_property
    def _weave(self) -> tuple[Moves, ...]:
        return tuple(map(Moves.of, self._places))

    @cached_property
    def _unweave(self) -> tuple[Moves, ...]:
        every = range(self.depth)
        return tuple(
            Moves.of([p.index(place) if place in p else -1 for place in every])
            for p in self._places
        )

    def check_types(self, types: Mapping[str, str]) -> None:
        """Raise ColumnError if the DuckDB types of the columns cannot be read."""
        for axis in self.axes:
            named = (str(kind) for kind in types_of_columns(axis.columns, types))
            axis.check_types(tuple("ENUM" if k.startswith("ENUM") else k for k in named))

    def codes(self, batch: pa.Table | pa.RecordBatch) -> Codes:
        """Return the paths of the rows without missing values, in their order. Private.

        The result does not depend on how rows are split into batches.
        """
        out = np.zeros(batch.num_rows, dtype=np.uint64)
        valid: Mask | None = None
        for axis, moves, places in zip(self.axes, self._weave, self._places, strict=True):
            arrays = tuple(single_array(batch.column(name)) for name in axis.columns)
            codes, known = axis.read(arrays, len(places))
            if known is not None:
                valid = known if valid is None else valid & known
            if len(self.axes) == 1:
                out = codes
            elif places:
                moves.add(codes, out)
        return out if valid is None or valid.all() else out[valid]

    def rows(
        self, level: Counts, code: Codes, generator: PublicRandom, types: Mapping[str, pa.DataType]
    ) -> pa.Table:
        """Draw one row from every cell, uniformly, with the names and types of the source."""
        columns: dict[str, pa.Array] = {}
        for axis, (fixed, prefix) in zip(self.axes, self._cells(level, code), strict=True):
            kinds = types_of_columns(axis.columns, types)
            drawn = axis.draw(fixed, prefix, generator, kinds)
            columns.update(zip(axis.columns, drawn, strict=True))
        return pa.table(columns)

    def labels(self, level: Counts, code: Codes) -> pa.Array:
        """Return a label for every cell, ``*`` for level 0."""
        texts: list[list[str]] = []
        for axis, (fixed, prefix) in zip(self.axes, self._cells(level, code), strict=True):
            known: dict[tuple[int, int], str] = {}
            pairs = list(zip(fixed.tolist(), prefix.tolist(), strict=True))
            for pair in pairs:
                if pair not in known:
                    known[pair] = axis.label(*pair)
            texts.append([known[pair] for pair in pairs])
        joined = map(" / ".join, zip(*texts, strict=True))
        cells = zip(level.tolist(), joined, strict=True)
        return pa.array([text if n else ROOT for n, text in cells], type=pa.string())

    def _cells(self, level: Counts, code: Codes) -> list[tuple[Counts, Codes]]:
        """Return for each axis how many bits of its path each cell fixes, and these bits."""
        full = code.astype(np.uint64) << (self.depth - level).astype(np.uint64)
        out = []
        for axis, (moves, places) in enumerate(zip(self._unweave, self._places, strict=True)):
            fixed = self._fixed_bits[level, axis]
            path = np.zeros(len(full), dtype=np.uint64)
            moves.add(full, path)
            out.append((fixed, path >> (len(places) - fixed).astype(np.uint64)))
        return out
