"""One sketch per level for records that come in pieces: counting, merging, files. Raw data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar, cast

from dpframe.common.calls import known_arguments
from dpframe.errors import ParameterError, ParameterTypeError
from dpframe.hierarchy import INVALID, Hierarchy, as_hierarchy
from dpframe.hierarchy._base import unpack_key
from dpframe.sketches import (
    DEFAULT_COUNTERS,
    LARGEST,
    MergedSketch,
    MisraGries,
    SketchState,
    sketch_files,
)
from dpframe.sketches import _sketch as streams
from dpframe.sketches._sketch import Method, check_integer, merge_into
from dpframe.sources.record_stream import updated_sketches

NAME = "streaming-hhh"
"""The name of :class:`StreamingHHH` in files."""


@known_arguments
class StreamingHHH:
    """One Misra-Gries sketch per level of a hierarchy, of one stream or merged. Raw data."""

    __slots__ = (
        *("_counters", "_hierarchy", "_levels", "_method", "_released", "_resumed"),
        "_streams",
    )

    def __init__(
        self, hierarchy: str | Sequence[str] | Hierarchy, counters: int = DEFAULT_COUNTERS
    ) -> None:
        self._hierarchy = as_hierarchy(hierarchy)
        self._counters = check_integer("counters", counters, 2, LARGEST)
        levels = range(self._hierarchy.height)
        self._levels: list[MisraGries] | list[MergedSketch] = [MisraGries(counters) for _ in levels]
        self._method: Method | None = None
        self._released = self._resumed = 0
        self._streams = streams.new_stream_ids()

    def __repr__(self) -> str:
        how = f", sketches={self.sketches}, method={self._method!r}" if self._method else ""
        spec = self._hierarchy.spec
        return f"StreamingHHH({spec!r}, counters={self._counters}{how}, <private>)"

    # -- public -------------------------------------------------------------------------------

    @property
    def hierarchy(self) -> Hierarchy:
        """The hierarchy. Public."""
        return self._hierarchy

    @property
    def counters(self) -> int:
        """Number of counters of each sketch, k. Public."""
        return self._counters

    @property
    def method(self) -> Method | None:
        """How streams were merged, "bounded" or "sum"; None for one stream. Public."""
        return self._method

    @property
    def sketches(self) -> int:
        """Number of streams that were merged, 1 for one stream. Public if it does not depend on the
        data."""
        first = self._levels[0]
        return first.sketches if isinstance(first, MergedSketch) else 1

    @property
    def releases(self) -> int:
        """How often these sketches were released; after a merge, counted on from the largest number
        among the merged streams. Public."""
        return self._released

    # -- counting -----------------------------------------------------------------------------

    def update(self, source: object, *, progress: bool = True) -> None:
        """Count the records of a source, in its order.

        The state afterwards does not depend on how the records are split into calls.

        Parameters
        ----------
        source
            As for :func:`dpframe.hhh`: a pandas or Polars frame, Arrow table or record batch,
            DuckDB relation, or path of parquet or CSV files.
        progress
            Whether notebooks and terminals show steps longer than two seconds, and their time.

        Raises
        ------
        ColumnError
            If the source lacks a column, or the hierarchy cannot read its type.
        ParameterError
            If the stream was released and not resumed.
        ParameterTypeError
            If the source is of no known kind, or the stream is merged.
        SourceError
            If the source cannot be read, or joins, groups, samples or sorts: one record could then
            change the order of others.

        After an error the sketches are as they were before the call.
        """
        if self._method is not None:
            raise ParameterTypeError(
                "merged streams take no records. Update a new one, and merge it."
            )
        if self._released > self._resumed:
            raise ParameterError(
                "the sketches were released, and take no records. Use a new StreamingHHH, or call "
                "resume(): their next release then holds the old records again, and both count."
            )
        streams = cast(list[MisraGries], self._levels)
        self._levels = updated_sketches(streams, source, self._hierarchy, progress=progress)

    @property
    def decrements(self) -> tuple[int, ...]:
        """How far estimates of each level can be below the true count, coarse to fine. Raw data."""
        return tuple(level.decrements for level in self._levels)

    @property
    def total(self) -> int:
        """How many records went in, without dropped records and records that end at the root. Raw
        data."""
        return self._levels[0].total

    @property
    def memory(self) -> int:
        """Bytes of counters and keys, at most proportional to k, to the number of levels and to
        the length of keys. Raw data."""
        return sum(level.memory for level in self._levels)

    def estimate(self, level: int, label: str | Sequence[str]) -> int:
        """The counter of a node, 0 if it has none. Raw data.

        The true count lies between the estimate and ``estimate + decrements[level - 1]``.

        Parameters
        ----------
        level
            From 1, coarse, to the height of the hierarchy.
        label
            The node as releases show it under ``prefix``. For a hierarchy of columns also the
            values of its columns down to the level.

        Raises
        ------
        ParameterError, ParameterTypeError
            If ``level`` is no level of the hierarchy, or ``label`` is no text or texts.
        """
        if isinstance(label, str):
            wanted = [node for node in self._nodes(level) if node[1] == label]
        elif isinstance(label, Sequence) and all(isinstance(value, str) for value in label):
            wanted = [node for node in self._nodes(level) if node[2] == tuple(label)]
        else:
            raise ParameterTypeError(
                f"label must be text, as in column prefix; got {type(label).__name__}."
            )
        return max((count for count, *_ in wanted), default=0)

    def top(self, n: int = 10, level: int | None = None) -> list[tuple[int, str, int]]:
        """Nodes with the largest counters as (level, label, estimate), largest first. Raw data.

        Parameters
        ----------
        n
            The most nodes to return, from 1.
        level
            Only nodes of this level. By default nodes of all levels; the estimate of a node
            includes the nodes below it.

        Raises
        ------
        ParameterError, ParameterTypeError
            If ``n`` or ``level`` is out of range, or no whole number.
        """
        most = check_integer("n", n, 1)
        levels = range(1, self._hierarchy.height + 1) if level is None else [level]
        found = [(-count, at, label) for at in levels for count, label, _ in self._nodes(at)]
        return [(at, label, -count) for count, at, label in sorted(found)[:most]]

    def _nodes(self, level: int) -> list[tuple[int, str, tuple[str, ...]]]:
        """The counter, label and label columns of every node of a level."""
        hierarchy = self._hierarchy
        state = self._levels[check_integer("level", level, 1, hierarchy.height) - 1]._state()
        keys, counts = state.positive()
        texts = [unpack_key(key, hierarchy.key_width) for key in keys.to_pylist()]
        return [
            (
                count // state.lattice,
                hierarchy.label(level, text),
                tuple(INVALID if t is None else t for t in text[:level]),
            )
            for count, text in zip(counts.tolist(), texts, strict=True)
        ]

    # -- merging and files --------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the sketches to one file, which then holds raw data.

        The file appears as a whole or not at all, readable by the owner only, and replaces a file
        of that name. It keeps the number of releases. SourceError if it cannot be written.
        """
        facts = {
            "sketch": NAME,
            "hierarchy": self._hierarchy.spec,
            "counters": self._counters,
            "method": self._method,
            "sketches": self.sketches,
            "released": self._released,
            "resumed": self._resumed,
            **streams.stream_field(self._streams),
        }
        sketch_files.write_levels(path, facts, self._states())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what ``save`` wrote.

        SourceError if there is no such file, or it is truncated, damaged, of a newer version, or of
        another class.
        """
        return sketch_files.read_file(
            path,
            NAME,
            lambda facts, body: cls._restore(facts, sketch_files.read_levels(facts, body)),
        )

    @classmethod
    def _restore(cls, facts: dict[str, Any], states: list[SketchState]) -> Self:
        new = cls(str(facts["hierarchy"]), facts["counters"])
        totals = [state.total for state in states]
        if len(states) != new._hierarchy.height or totals != sorted(totals, reverse=True):
            raise ValueError("no stream has these sketches")
        common = {**facts, "unit": "record", "standard": False}
        if facts["method"] is None:
            new._levels = [MisraGries._restore(common, state) for state in states]
        else:
            new._levels = [MergedSketch._restore(common, state) for state in states]
        new._method = facts["method"]
        new._released = check_integer("released", facts["released"], 0)
        new._resumed = check_integer("resumed", facts["resumed"], 0, new._released)
        new._streams = streams.read_streams(facts)
        return new

    def _states(self) -> tuple[SketchState, ...]:
        return tuple(level._state() for level in self._levels)


Made = TypeVar("Made", bound=StreamingHHH)


def merged_streams(given: Iterable[object], method: str, made: type[Made]) -> Made:
    """Merge streams of one hierarchy and one k, level by level, in the order of the streams."""
    chosen: list[StreamingHHH] = []
    seen: streams.Streams = frozenset()
    for stream in given:
        if not isinstance(stream, StreamingHHH):
            raise ParameterTypeError(
                f"a StreamingHHH merges only with its own type; got {type(stream).__name__}."
            )
        if chosen and stream.hierarchy != chosen[0].hierarchy:
            raise ParameterError(
                f"hierarchies of the streams differ ({chosen[0].hierarchy.spec!r} and "
                f"{stream.hierarchy.spec!r}). Merge streams of one hierarchy."
            )
        seen = streams.join_streams(seen, stream._streams)
        chosen.append(stream)
    first = chosen[0]
    merged = [
        merge_into((stream._levels[level] for stream in chosen), method, MergedSketch)
        for level in range(first.hierarchy.height)
    ]
    new = made(first.hierarchy, first.counters)
    new._levels, new._method = merged, merged[0].method
    new._released = max(stream._released for stream in chosen)  # a record is in one of them
    new._streams = seen
    return new
