"""The base class of sketches, and merged sketches of many streams.

**Streams**: a sketch records which streams it has seen, so that no stream is merged twice.

A stream has an id, drawn when it begins. Copies, pickles and files of a sketch keep the id, and a
merged sketch has the ids of all its sketches. Two copies that go on with different records still
share their earlier records, so they do not merge. A file from before ids were kept uses its
checksum as the id: it is one stream, however often it is read.

**Merging** makes one sketch of many, for an aggregator that is trusted with raw data.

There are two methods, which a release accounts for differently (Lebeda and Tetek, sections 6, 7):

*bounded*: Agarwal et al. (Mergeable Summaries, 2013). Counters are added, the (k+1)-th largest is
subtracted from all, and counters that are not positive are dropped. There are at most k counters at
any time. Neighbours differ by at most 1 in at most k counters, all in one direction, after any
number of merges in a fixed order.

*sum*: each sketch is first post-processed as in Algorithm 3 of Lebeda and Tetek: the sum of its
counters over k + 1 is subtracted from each counter, and counters that are not positive are dropped.
The results are added. There are up to k counters for each sketch, kept as exact multiples of
1 / (k + 1). Neighbours are at l1 distance at most (2k - 1) / (k + 1) and l2 distance at most
sqrt(k^2 + k - 1) / (k + 1), whatever the number of sketches.

Each record enters exactly one sketch. A record must influence neither which sketch another record
enters, nor the order of merges. Split by source, or by a hash of the record's key or user; *not* by
position in a table: one row less shifts every boundary after it.
"""

from __future__ import annotations

import copy
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, Literal, NoReturn, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpframe.common.calls import known_arguments
from dpframe.errors import ParameterError, ParameterTypeError
from dpframe.sketches import _counters
from dpframe.sketches._batches import Kind, SketchState, no_entries, single_column, sort_entries
from dpframe.sketches._counters import Table

Streams = frozenset[str]


def new_stream_ids() -> Streams:
    """Return the ids of a new sketch: one, just drawn."""
    return frozenset({uuid.uuid4().hex})


def join_streams(seen: Streams, more: Streams) -> Streams:
    """Return all ids of both sets; ParameterError if a stream occurs twice."""
    if seen & more:
        raise ParameterError(
            "a stream occurs twice (itself, a copy, its file or an earlier merge). Merge each "
            "stream once, and count other records in a new sketch, not in a copy."
        )
    return seen | more


def stream_field(streams: Streams) -> dict[str, Any]:
    """Return the field of a file's header that holds the ids."""
    return {"streams": sorted(streams)}


def read_streams(facts: Mapping[str, Any]) -> Streams:
    """Read the ids from the header of a file; ValueError if there are none."""
    found = facts["streams"]
    if not isinstance(found, list) or not found or not all(isinstance(s, str) for s in found):
        raise ValueError("no ids of streams")
    return frozenset(found)


DEFAULT_COUNTERS = 2000
"""Counters of the sketch of a level, if the caller does not say how many."""

LARGEST = 10_000_000
"""Most counters of one sketch: a table of 2 GiB, far more than is useful."""


@known_arguments
class Sketch(ABC):
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
    _streams: Streams
    """Ids of the streams whose records are in the sketch."""

    def __init_subclass__(cls) -> None:
        known_arguments(cls)

    def _new(self, counters: int, unit: str) -> None:
        self._counters, self._unit = counters, unit
        self._released = self._resumed = 0
        self._streams = new_stream_ids()

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

    @abstractmethod
    def _state(self) -> SketchState:
        """Return the content of the sketch, in the order of keys."""

    def _entries(self) -> tuple[Kind | None, pa.Array, NDArray[np.int64]]:
        """Return the kind of key, the keys (all with positive counters, in any order) and their
        counters."""
        state = self._state()
        return state.kind, *state.positive()

    @abstractmethod
    def _facts(self) -> dict[str, Any]:
        """Return the parameters of the sketch, for the header of a file."""

    @classmethod
    @abstractmethod
    def _restore(cls, facts: dict[str, Any], state: SketchState) -> Self:
        """Make a sketch from a file; ValueError if no sketch can have this content."""

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
        kept |= stream_field(self._streams)
        _counters.write_sketch(path, {"sketch": self._NAME, **self._facts(), **kept}, self._state())

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
        return _counters.read_file(path, cls._NAME, cls._from_file)

    @classmethod
    def _from_file(cls, facts: dict[str, Any], body: memoryview) -> Self:
        sketch = cls._restore(facts, _counters.read_state(facts, body))
        # files written before releases were counted hold sketches without releases
        sketch._released = check_integer("released", facts.get("released", 0), 0)
        sketch._resumed = check_integer("resumed", facts.get("resumed", 0), 0, sketch._released)
        sketch._streams = read_streams(facts)
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


Method = Literal["bounded", "sum"]
METHODS: tuple[Method, ...] = ("bounded", "sum")


class MergedSketch(Sketch):
    """Counters of several streams, made by merging sketches. Takes no records. Raw data.

    Privacy
    -------
    Only what ``dpframe.MergedSketch.release`` returns is private; see there. Otherwise see the
    class of the sketches that were merged. A release accounts for the method and for k; it cannot
    use the structure of a single stream, which is lost.
    """

    __slots__ = ("_content", "_method", "_sketches")

    _NAME = "merged"
    _content: SketchState
    _method: Method
    _sketches: int

    def __init__(self, *_: object, **__: object) -> None:
        raise ParameterTypeError("MergedSketch cannot be called: use dp.merge_sketches.")

    @classmethod
    def _from_state(
        cls, content: SketchState, *, counters: int, sketches: int, method: Method, unit: str
    ) -> Self:
        new = object.__new__(cls)
        new._new(counters, unit)
        new._content, new._sketches, new._method = content, sketches, method
        return new

    def __repr__(self) -> str:
        return (
            f"MergedSketch(counters={self._counters}, sketches={self._sketches}, "
            f"method={self._method!r}, <private>)"
        )

    @property
    def method(self) -> Method:
        """How the sketches were merged: "bounded" or "sum". Public."""
        return self._method

    @property
    def sketches(self) -> int:
        """Number of sketches that were merged. Public if it does not depend on the data."""
        return self._sketches

    @property
    def unit(self) -> str:
        """Whose influence the counters bound: "record" or "user". Public."""
        return self._unit

    @property
    def memory(self) -> int:
        """Bytes of counters and keys. Raw data."""
        return int(self._content.keys.nbytes + self._content.counts.nbytes)

    def update(self, batch: object) -> NoReturn:
        """Raise ParameterTypeError: a merged sketch takes no records."""
        raise ParameterTypeError(
            "a merged sketch takes no records: update a new sketch and merge it."
        )

    @property
    def _lattice(self) -> int:
        return self._content.lattice

    def _state(self) -> SketchState:
        return self._content

    def _facts(self) -> dict[str, Any]:
        return {
            "counters": self._counters,
            "sketches": self._sketches,
            "method": self._method,
            "unit": self._unit,
        }

    @classmethod
    def _restore(cls, facts: dict[str, Any], state: SketchState) -> Self:
        k = check_integer("counters", facts["counters"], 2, LARGEST)
        method, unit = facts["method"], facts["unit"]
        sketches = check_integer("sketches", facts["sketches"], 1)
        most = k if method == "bounded" else k * sketches
        if (
            method not in METHODS
            or unit not in ("record", "user")
            or len(state.counts) > most
            or state.counts.min(initial=1) < 1
        ):
            raise ValueError("no sketch has these counters")
        if method == "sum":
            state = replace(state, lattice=k + 1)
        return cls._from_state(state, counters=k, sketches=sketches, method=method, unit=unit)


Made = TypeVar("Made", bound=MergedSketch)


def merge_raw_sketches(sketches: Iterable[Sketch], *, method: str = "bounded") -> MergedSketch:
    """Merge raw sketches as ``dpframe.merge_sketches`` does. With "bounded" a generator can yield
    them, and only one is held at a time.

    >>> from dpframe.sketches import MisraGries
    >>> monday, tuesday = MisraGries(counters=2), MisraGries(counters=2)
    >>> monday.update([4, 4, 4, 7])
    >>> tuesday.update([4, 7, 7, 9])
    >>> merge_raw_sketches([monday, tuesday]).top()
    [(4, 3), (7, 2)]
    """
    return merge_into(sketches, method, MergedSketch)


def merge_into(sketches: Iterable[Sketch], method: str, made: type[Made]) -> Made:
    """Merge sketches as :func:`merge_raw_sketches` does, into a sketch of class ``made``."""
    if method not in METHODS:
        raise ParameterError(f"method ({method!r}) must be one of {', '.join(METHODS)}.")
    if isinstance(sketches, Sketch) or not isinstance(sketches, Iterable):
        raise ParameterTypeError("sketches must be a list of sketches.")
    chosen = METHODS[METHODS.index(method)]
    total = _BoundedMerge() if method == "bounded" else _SumMerge()
    first: Sketch | None = None
    kind: Kind | None = None
    count = released = 0
    seen: Streams = frozenset()
    for sketch in sketches:
        _check_mergeable(sketch, first or sketch, chosen)
        first = first or sketch
        seen = join_streams(seen, sketch._streams)
        state = sketch._state()
        if kind and state.kind and kind != state.kind:
            raise ParameterError(
                f"sketches have different kinds of key ({kind} and {state.kind}): merge sketches "
                "of one kind."
            )
        kind = kind or state.kind
        released = max(released, sketch._released)  # each record is in one sketch only
        count += sketch.sketches if isinstance(sketch, MergedSketch) else 1
        if state.kind is not None:
            total.add(state)
    if first is None:
        raise ParameterError("sketches is empty: give at least one.")
    content = total.content(kind, first._counters)
    new = made._from_state(
        content, counters=first._counters, sketches=count, method=chosen, unit=first._unit
    )
    new._released, new._streams = released, seen
    return new


def _check_mergeable(sketch: object, first: Sketch, method: Method) -> None:
    if not isinstance(sketch, Sketch):
        both = dict.fromkeys(type(one).__name__ for one in (first, sketch))
        raise ParameterTypeError(
            f"sketches must be sketches of one kind; got {' and '.join(both)}."
        )
    if sketch._counters != first._counters:
        raise ParameterError(
            f"counters of the sketches differ ({first._counters} and {sketch._counters}): merge "
            "sketches with equal counters."
        )
    if sketch._unit != first._unit:
        raise ParameterError("sketches of records and of users do not merge: keep them apart.")
    if method == "sum" and sketch._unit == "user":
        raise ParameterError(
            "sketches of users do not merge by method='sum', which needs single records: use "
            "method='bounded'."
        )
    if isinstance(sketch, MergedSketch) and sketch.method != method:
        raise ParameterError(
            f"a sketch merged by {sketch.method!r} does not merge by {method!r}: use one method "
            "throughout."
        )


class _BoundedMerge:
    """Merge one sketch at a time, and keep k counters."""

    def __init__(self) -> None:
        self.keys, self.counts = no_entries()
        self.decrements, self.total = 0, 0

    def add(self, state: SketchState) -> None:
        keys, counts = state.positive()
        if self.total:
            keys, counts = _sum_by_key(
                pa.concat_arrays([self.keys, keys]), np.concatenate([self.counts, counts])
            )
        if len(counts) > (k := state.counters):
            cut = int(np.partition(counts, -k - 1)[-k - 1])
            counts = counts - cut
            kept = np.flatnonzero(counts > 0)
            keys, counts = keys.take(pa.array(kept)), counts[kept]
            self.decrements += cut
        self.keys, self.counts = keys, counts
        self.decrements += state.decrements
        self.total += state.total

    def content(self, kind: Kind | None, counters: int) -> SketchState:
        keys, counts = sort_entries(self.keys, self.counts)
        return SketchState(
            counters=counters,
            kind=kind,
            keys=keys,
            counts=counts,
            decrements=self.decrements,
            total=self.total,
        )


class _SumMerge:
    """Keep all post-processed counters, and add them at the end."""

    def __init__(self) -> None:
        self.keys: list[pa.Array] = []
        self.counts: list[NDArray[np.int64]] = []
        self.total = 0

    def add(self, state: SketchState) -> None:
        self.total += state.total
        if (state.counters + 1) * self.total >= 2**63:
            raise ParameterError(
                "the sketches hold too many records for method='sum': use method='bounded'."
            )
        if state.lattice == 1:
            state = state.post_processed()
        keys, counts = state.positive()
        self.keys.append(keys)
        self.counts.append(counts)

    def content(self, kind: Kind | None, counters: int) -> SketchState:
        keys, counts = no_entries()
        if self.keys:
            keys, counts = sort_entries(
                *_sum_by_key(pa.concat_arrays(self.keys), np.concatenate(self.counts))
            )
        return SketchState(
            counters=counters,
            kind=kind,
            keys=keys,
            counts=counts,
            lattice=counters + 1,
            decrements=-(-self.total // (counters + 1)),
            total=self.total,
        )


def _sum_by_key(keys: pa.Array, counts: NDArray[np.int64]) -> tuple[pa.Array, NDArray[np.int64]]:
    """Return each key once, with the sum of its counters."""
    codes = keys.dictionary_encode()
    sums = np.zeros(len(codes.dictionary), np.int64)
    np.add.at(sums, codes.indices.to_numpy(), counts)
    return codes.dictionary, sums
