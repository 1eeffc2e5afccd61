"""The base class of sketches: estimates, streams seen, releases counted, and files."""

from __future__ import annotations

import copy
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpframe._known_arguments import known_arguments
from dpframe.errors import ParameterError, ParameterTypeError
from dpframe.sketches import sketch_files, streams
from dpframe.sketches._batches import Kind, single_column
from dpframe.sketches._counters import Table
from dpframe.sketches._state import SketchState, no_entries

DEFAULT_COUNTERS = 2000
"""Counters of the sketch of a level, if the caller does not say how many."""

LARGEST = 10_000_000
"""Most counters of one sketch: a table of 2 GiB, far more than is useful."""


@known_arguments
class Sketch:
    """Counters of keys. What its methods return is raw data and must not be published."""

    __slots__ = ("_counters", "_released", "_resumed", "_streams", "_unit")

    _NAME: ClassVar[str]
    _counters: int
    _unit: str
    """Whose influence on each counter is at most one: "record" or "user"."""
    _released: int
    """How many private releases contain the records of the sketch."""
    _resumed: int
    """Value of ``_released`` when the caller last asked to go on counting."""
    _streams: streams.Streams
    """Ids of the streams whose records are in the sketch."""

    def __init_subclass__(cls) -> None:
        known_arguments(cls)

    def _new(self, counters: int, unit: str) -> None:
        self._counters, self._unit = counters, unit
        self._released = self._resumed = 0
        self._streams = streams.new_stream_ids()

    def _takes_records(self) -> None:
        if self._released > self._resumed:
            raise ParameterError(
                "the sketch was released and takes no records. Count them in a new sketch, or call "
                "sketch.resume() first: its next release then holds the released records again, "
                "and both count."
            )

    @property
    def _lattice(self) -> int:
        """Counters are multiples of 1 / lattice."""
        return 1

    def _state(self) -> SketchState:
        """Return the content of the sketch, in the order of keys."""
        raise NotImplementedError

    def _entries(self) -> tuple[Kind | None, pa.Array, NDArray[np.int64]]:
        """Return the kind of key, the keys (all with positive counters, in any order) and their
        counters."""
        state = self._state()
        return state.kind, *state.positive()

    def _facts(self) -> dict[str, Any]:
        """Return the parameters of the sketch, for the header of a file."""
        raise NotImplementedError

    @classmethod
    def _restore(cls, facts: dict[str, Any], state: SketchState) -> Self:
        """Make a sketch from a file; ValueError if no sketch can have this content."""
        raise NotImplementedError

    def __copy__(self) -> Self:
        """Return an independent copy: records counted in one are not counted in the other."""
        twin = object.__new__(type(self))
        for kind in type(self).__mro__:
            for name in getattr(kind, "__slots__", ()):
                if hasattr(self, name):
                    setattr(twin, name, copy.copy(getattr(self, name)))
        return twin

    @property
    def counters(self) -> int:
        """Number of counters, k. Public."""
        return self._counters

    @property
    def decrements(self) -> int:
        """How far an estimate can be below the true count. Raw data."""
        return self._state().decrements

    @property
    def total(self) -> int:
        """Records, or items of users, that went in. Raw data."""
        return self._state().total

    def estimate(self, key: object) -> int:
        """Return the counter of a key, rounded down; 0 if the key has no counter. Raw data.

        The true count lies between the estimate and ``estimate + decrements``.

        Parameters
        ----------
        key
            An integer, text or bytes, of the kind that the sketch holds.

        Raises
        ------
        ParameterError, ParameterTypeError
            If the key is missing, out of range, or of another kind.
        """
        kind, keys, counts = self._entries()
        column = single_column([key], kind)
        assert column is not None
        row = pc.index(keys, column.to_arrow()[0]).as_py() if kind else -1
        return int(counts[row]) // self._lattice if row >= 0 else 0

    def top(self, n: int = 10) -> list[tuple[int | str | bytes, int]]:
        """Return the keys with the largest counters, largest first, then by key. Raw data.

        Parameters
        ----------
        n
            How many at most, from 1.

        Raises
        ------
        ParameterError, ParameterTypeError
            If ``n`` is no whole number from 1.
        """
        state = self._state()
        keys, counts = state.positive()
        first = np.argsort(-counts, kind="stable")[: check_integer("n", n, 1)]
        values = (counts[first] // self._lattice).tolist()
        return list(zip(keys.take(pa.array(first)).to_pylist(), values, strict=True))

    def save(self, path: str | Path) -> None:
        """Write the sketch to a file, which then holds raw data.

        The file appears as a whole or not at all, readable by the owner only. It replaces a file of
        that name.

        Parameters
        ----------
        path
            A file of this machine. ``~`` is the user's home directory.

        Raises
        ------
        ParameterError, ParameterTypeError
            If the path is an address such as ``s3://...``, or neither text nor ``pathlib.Path``.
        SourceError
            If the file cannot be written.
        """
        kept = {"released": self._released, "resumed": self._resumed}
        kept |= streams.stream_field(self._streams)
        sketch_files.write_sketch(
            path, {"sketch": self._NAME, **self._facts(), **kept}, self._state()
        )

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a sketch that ``save`` wrote.

        Parameters
        ----------
        path
            A file of this machine, as in ``save``.

        Raises
        ------
        ParameterError, ParameterTypeError
            As in ``save``.
        SourceError
            If there is no such file, or it is truncated, damaged, written by a newer version, or
            holds a sketch of another class.
        """
        return sketch_files.read_file(path, cls._NAME, cls._from_file)

    @classmethod
    def _from_file(cls, facts: dict[str, Any], body: memoryview) -> Self:
        sketch = cls._restore(facts, sketch_files.read_state(facts, body))
        # files written before releases were counted hold sketches without releases
        sketch._released = check_integer("released", facts.get("released", 0), 0)
        sketch._resumed = check_integer("resumed", facts.get("resumed", 0), 0, sketch._released)
        sketch._streams = streams.read_streams(facts)
        return sketch


class CountingSketch(Sketch):
    """A sketch that counts what goes in, in a table of its own."""

    __slots__ = ("_table", "_total")

    _table: Table | None
    """None before the first key, whose kind is the kind of the table."""
    _total: int

    def _new(self, counters: int, unit: str) -> None:
        super()._new(counters, unit)
        self._table, self._total = None, 0

    @property
    def memory(self) -> int:
        """Bytes of the counters and their keys, at most proportional to k and to the length of
        keys. Raw data if keys are text of more than 15 bytes."""
        return 0 if self._table is None else self._table.nbytes

    @property
    def decrements(self) -> int:
        """alpha: how far an estimate can be below the true count. Raw data."""
        return 0 if self._table is None else self._table.decrements

    @property
    def total(self) -> int:
        """Records that went in; for a sketch of users, items, each once a user. Raw data."""
        return self._total

    @property
    def _kind(self) -> Kind | None:
        return None if self._table is None else self._table.kind

    def _entries(self) -> tuple[Kind | None, pa.Array, NDArray[np.int64]]:
        return self._kind, *(no_entries() if self._table is None else self._table.entries())


def check_integer(name: str, value: object, low: int, high: int | None = None) -> int:
    """Return ``value`` as int; raise ParameterTypeError if it is no whole number, ParameterError if
    it is not from ``low`` to ``high``."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ParameterTypeError(f"{name} must be a whole number; got {type(value).__name__}.")
    number = int(value)
    if number < low or (high is not None and number > high):
        limits = f"at least {low}" if high is None else f"from {low} to {high}"
        raise ParameterError(f"{name} ({number}) must be {limits}.")
    return number
