"""Read the rows of any source into one sketch per level, in one pass and bounded memory.

Records enter the sketches one after the other in the order of the source. That order must not
depend on any one record, so only sources that are read in stored order are allowed: a table, a
frame or a file, filtered and projected, and no query that joins, groups, samples or sorts.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpframe._duck import VIEW, DuckDBPyRelation, GivenRelation, Relation, register_table
from dpframe.common.files import step
from dpframe.common.texts import unicode
from dpframe.errors import SourceError, class_name
from dpframe.hierarchy import Hierarchy
from dpframe.hierarchy._ip import Ip
from dpframe.hierarchy._number import Path
from dpframe.sketches import MisraGries
from dpframe.sketches._batches import SketchState
from dpframe.sources.address_keys import AddressCounter, PathCounter, splits_by_byte
from dpframe.sources.frames import is_foreign, package_of
from dpframe.sources.packed_keys import (
    PackedKeyCounter,
    keys_sql,
    packable,
    stream_sql,
    texts_sql,
    values_sql,
)
from dpframe.sources.source_relations import level_and_user_types, open_source
from dpframe.sources.spark import is_spark, whole_source

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
    elif isinstance(hierarchy, Path) and splits_by_byte(hierarchy):
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
