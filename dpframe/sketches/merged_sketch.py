"""Merge many sketches into one, for an aggregator that is trusted with raw data.

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

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal, NoReturn, Self, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe.errors import ParameterError, ParameterTypeError
from dpframe.sketches import streams
from dpframe.sketches._batches import Kind
from dpframe.sketches._sketch import LARGEST, Sketch, check_integer
from dpframe.sketches._state import SketchState, no_entries, sort_entries

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
    seen: streams.Streams = frozenset()
    for sketch in sketches:
        _check_mergeable(sketch, first or sketch, chosen)
        first = first or sketch
        seen = streams.join_streams(seen, sketch._streams)
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
