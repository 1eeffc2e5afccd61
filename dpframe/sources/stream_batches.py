"""One sketch per level: for records that come in pieces, and for the rows of any source.

Read the rows of any source into one sketch per level, in one pass and bounded memory.

Records enter the sketches one after the other in the order of the source. That order must not
depend on any one record, so only sources that are read in stored order are allowed: a table, a
frame or a file, filtered and projected, and no query that joins, groups, samples or sorts.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpframe._duck import VIEW, DuckDBPyRelation, GivenRelation, Relation, register_table
from dpframe.common.calls import known_arguments
from dpframe.common.progress import step
from dpframe.common.texts import unicode
from dpframe.errors import ParameterError, ParameterTypeError, SourceError, class_name
from dpframe.hierarchy import INVALID, Hierarchy, as_hierarchy
from dpframe.hierarchy._base import unpack_key
from dpframe.hierarchy._plain_values import Ip
from dpframe.hierarchy._plain_values import Path as PathHierarchy
from dpframe.sketches import (
    DEFAULT_COUNTERS,
    LARGEST,
    MergedSketch,
    MisraGries,
    SketchState,
    _counters,
)
from dpframe.sketches import _sketch as streams
from dpframe.sketches._sketch import Method, check_integer, merge_into
from dpframe.sources.address_keys import AddressCounter, PathCounter, splits_by_byte
from dpframe.sources.frames import is_foreign, is_spark, package_of
from dpframe.sources.packed_keys import (
    PackedKeyCounter,
    keys_sql,
    packable,
    stream_sql,
    texts_sql,
    values_sql,
)
from dpframe.sources.source_relations import level_and_user_types, open_source, whole_source

IN_ORDER = (
    *("SEQ_SCAN", "TABLE_SCAN", "EMPTY_RESULT", "RANGE", "PROJECTION"),
    *("PANDAS_SCAN", "PYTHON_ARROW_SCAN", "ARROW_SCAN", "PARQUET_SCAN", "READ_PARQUET"),
    *("READ_CSV", "READ_CSV_AUTO", "FILTER", "UNION"),
)
"""DuckDB's operators that return rows in the order in which they are stored."""

REMEMBERED = 500_000
"""The most texts whose keys are kept at a time, unless one batch has more."""

REMEMBERED_BYTES = 2**28


def sketch_source(
    source: object, hierarchy: Hierarchy, counters: int, *, progress: bool = False
) -> tuple[SketchState, ...]:
    """The states of one sketch per level after all records of a source. Private."""
    empty = [MisraGries(counters) for _ in range(hierarchy.height)]
    counted = updated_sketches(empty, source, hierarchy, progress=progress)
    return tuple(sketch._state() for sketch in counted)


def updated_sketches(
    sketches: Sequence[MisraGries],
    source: object,
    hierarchy: Hierarchy,
    *,
    progress: bool = False,
) -> list[MisraGries]:
    """Copies of one sketch per level that have also counted the records of a source."""
    check_eager(source)
    with open_source(source, hierarchy.source_columns) as relation:
        copies = [copy.copy(sketch) for sketch in sketches]
        update_sketches(copies, relation, hierarchy, progress=progress)
    return copies


def check_eager(source: object) -> None:
    """Raise SourceError for a lazy frame, a foreign frame, or a frame of Spark."""
    source = whole_source(source)
    if is_spark(source):
        raise SourceError(
            "a sketch needs ordered rows, and a Spark DataFrame has no order. Use "
            "dp.hhh(frame, ..., mechanism='streaming')."
        )
    if package_of(source) == "polars" and type(source).__name__ == "LazyFrame":
        raise SourceError(
            "a sketch needs ordered rows, and a lazy frame has no order. Pass frame.collect(), or "
            "use mechanism='offline' of hhh."
        )
    if is_foreign(source):
        raise SourceError(
            f"a sketch needs ordered rows, and the order of {class_name(source)} is unknown. Pass "
            "an Arrow table, or use mechanism='offline' of hhh."
        )


def update_sketches(
    sketches: Sequence[MisraGries],
    relation: Relation,
    hierarchy: Hierarchy,
    *,
    progress: bool = False,
) -> None:
    """Update one sketch per level with the rows of a relation."""
    types, _ = level_and_user_types(relation, hierarchy)
    counter, statement = _batch_counter(sketches, hierarchy, types)
    _check_operators(relation, statement)
    for batch in report_progress(relation.batches(statement), progress):
        counter.update(batch)
    counter.finish()


class BatchCounter(Protocol):
    """Counts the batches of a statement into sketches, which hold texts before and afterwards."""

    def update(self, batch: pa.RecordBatch) -> None: ...

    def finish(self) -> None: ...


def _batch_counter(
    sketches: Sequence[MisraGries], hierarchy: Hierarchy, types: tuple[str, ...]
) -> tuple[BatchCounter, str]:
    """The fastest counter for columns of these types, and the statement that it counts. Only types,
    which are public, and whether the sketches are new decide."""
    if packable(hierarchy, types) and not any(sketch.total for sketch in sketches):
        return PackedKeyCounter(sketches, hierarchy), values_sql(hierarchy, types)
    if not hierarchy.reads_text or types != ("VARCHAR",):
        return TextCounter(sketches, _text_columns), stream_sql(hierarchy, types=types)
    counter: BatchCounter = TextCounter(sketches, _TextKeys(hierarchy))
    if isinstance(hierarchy, Ip):
        counter = AddressCounter(sketches, hierarchy)
    elif isinstance(hierarchy, PathHierarchy) and splits_by_byte(hierarchy):
        counter = PathCounter(sketches, hierarchy)
    return counter, texts_sql(hierarchy)


class TextCounter:
    """Counts batches whose keys are texts."""

    def __init__(
        self,
        sketches: Sequence[MisraGries],
        keys: Callable[[pa.RecordBatch], Sequence[pa.Array]],
    ) -> None:
        self._sketches, self._keys = sketches, keys

    def update(self, batch: pa.RecordBatch) -> None:
        """Count the rows of a batch."""
        for sketch, column in zip(self._sketches, self._keys(batch), strict=True):
            sketch.update(column.drop_null() if column.null_count else column)

    def finish(self) -> None:
        """Do nothing: the keys of these sketches are always texts."""


def _check_operators(relation: Relation, statement: str) -> None:
    moving = sorted(relation.operators(statement).difference(IN_ORDER))
    if moving:
        raise SourceError(
            "a sketch needs rows in stored order, and this source can change it "
            f"({', '.join(moving)}). Pass a table, a frame or files, or use mechanism='offline' of "
            "hhh."
        )


def ordered_keys(keys: object) -> object:
    """The keys unchanged, or for a DuckDB relation a reader of its rows. SourceError if the
    relation may not keep the stored order."""
    if not isinstance(keys, DuckDBPyRelation):
        return keys
    relation, statement = GivenRelation(keys), f"SELECT * FROM {VIEW}"
    _check_operators(relation, statement)
    schema = relation.query(f"{statement} LIMIT 0", False).schema
    return pa.RecordBatchReader.from_batches(schema, relation.batches(statement))


def _text_columns(batch: pa.RecordBatch) -> list[pa.Array]:
    return [unicode(column.cast(pa.large_string())) for column in batch.columns]


class _TextKeys:
    """Finds the keys of texts, once for each text as long as it is remembered."""

    def __init__(self, hierarchy: Hierarchy) -> None:
        self._hierarchy, self._statement = hierarchy, keys_sql(hierarchy)
        self._texts = pa.array([], pa.large_string())
        self._found = [pa.array([], pa.large_string()) for _ in range(hierarchy.height)]

    def __call__(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The keys of every row, one array per level."""
        coded = batch.column(0).cast(pa.large_string()).dictionary_encode("encode")
        coded = pa.DictionaryArray.from_arrays(coded.indices, unicode(coded.dictionary))
        known = pc.index_in(coded.dictionary, self._texts)
        if known.null_count:
            new = coded.dictionary.filter(known.is_null())
            if (
                len(self._texts) + len(new) > REMEMBERED
                or self._texts.nbytes + new.nbytes > REMEMBERED_BYTES
            ):  # forget everything: the whole batch is new
                self._texts, self._found = self._texts[:0], [keys[:0] for keys in self._found]
                new = coded.dictionary
            self._learn(new)
            known = pc.index_in(coded.dictionary, self._texts)
        rows = known.take(coded.indices)
        return [keys.take(rows) for keys in self._found]

    def _learn(self, texts: pa.Array) -> None:
        distinct = pa.table({"i": np.arange(len(texts)), "c0": texts})
        with register_table(distinct, "the texts of a batch") as relation:
            found = relation.query(self._statement, False)
        place = np.full(len(texts), -1, dtype=np.int64)
        place[found["i"].to_numpy()] = np.arange(len(found))
        rows = pa.array(place, mask=place < 0)
        new = [
            column.cast(pa.large_string()).combine_chunks().take(rows)
            for column in found.columns[1:]
        ]
        self._texts = pa.concat_arrays([self._texts, texts])
        self._found = [pa.concat_arrays(both) for both in zip(self._found, new, strict=True)]


def report_progress(batches: Iterator[pa.RecordBatch], wanted: bool) -> Iterator[pa.RecordBatch]:
    """Yield the batches unchanged, and if ``wanted`` show how long sketching takes."""
    with step("sketching", wanted):
        yield from batches


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
        _counters.write_levels(path, facts, self._states())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what ``save`` wrote.

        SourceError if there is no such file, or it is truncated, damaged, of a newer version, or of
        another class.
        """
        return _counters.read_file(
            path,
            NAME,
            lambda facts, body: cls._restore(facts, _counters.read_levels(facts, body)),
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
