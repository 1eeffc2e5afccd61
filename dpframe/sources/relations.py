"""Open any source of rows as a relation that a statement can read."""

from __future__ import annotations

import csv
import gzip
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from dpframe import _duck
from dpframe._paths import named, shown
from dpframe._sql import identifier
from dpframe.errors import DpframeError, SourceError
from dpframe.periods import Period
from dpframe.sources.columns import require
from dpframe.sources.files import PARQUET, File, open_file
from dpframe.sources.frames import arrow_table, pandas_types, rows_of_frame, without_rows
from dpframe.sources.spark import SparkFrame, is_spark
from dpframe.sources.within import Reading, Within, unrestricted


def opened(source: object, wanted: Sequence[str]) -> AbstractContextManager[_duck.Relation]:
    """The source as a relation with the wanted columns, closed after use; an open relation stays
    open."""
    if isinstance(source, Within):
        return _within(source, wanted)
    if isinstance(source, _duck.OwnRelation | _duck.GivenRelation):
        require(wanted, source.columns)
        return nullcontext(source)
    if isinstance(source, str | Path):
        return _file(source, wanted)
    if isinstance(source, _duck.DuckDBPyRelation):
        given = _duck.GivenRelation(source)
        require(wanted, given.columns)
        return given
    frame = source if isinstance(source, Held) else _held(source, wanted)
    relation = _duck.register(frame.table, frame.what)
    named = zip(relation.columns, relation.types, strict=True)
    relation.types = tuple(frame.types.get(name, kind) for name, kind in named)
    return relation


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Held:
    """Columns read from a frame, ``what`` the frame is, and ``types`` that Arrow cannot tell."""

    table: pa.Table
    what: str
    types: Mapping[str, str]


def held(source: object, wanted: Sequence[str], most: int) -> object:
    """The wanted columns of a frame of at most ``most`` rows; any other source is returned
    unchanged."""
    size = rows_of_frame(source)
    return source if size is None or size > most else _held(source, wanted)


def _held(source: object, wanted: Sequence[str]) -> Held:
    what = f"the {type(source).__module__.split('.')[0]} {type(source).__name__}"
    return Held(arrow_table(source, wanted), what, pandas_types(source, wanted))


@contextmanager
def _within(source: Within, wanted: Sequence[str]) -> Iterator[_duck.Relation]:
    """The records of a period as a relation."""
    with opened(source.source, list(dict.fromkeys([*wanted, source.column]))) as relation:
        yield relation.within(source.condition(_type_of(relation, source.column)))


def reading_of(source: object, period: Period) -> Reading:
    """How a source's column of times is read; ColumnError if that is impossible. Reads no row."""
    if is_spark(source):
        kind = SparkFrame(source, [period.column]).types[period.column]
        return Reading(period=period, kind=kind)
    with opened(without_rows(source), [period.column]) as relation:
        return Reading(period=period, kind=_type_of(relation, period.column))


def _type_of(relation: _duck.Relation, column: str) -> str:
    return canonical(relation.types[relation.columns.index(column)])


@contextmanager
def _file(path: str | Path, wanted: Sequence[str]) -> Iterator[_duck.Relation]:
    """A file as a relation."""
    file = path if isinstance(path, File) else File(str(path))
    with ExitStack() as opening:
        yield opening.enter_context(_open_file(file, wanted, opening))


def _open_file(path: File, wanted: Sequence[str], opening: ExitStack) -> _duck.Relation:
    """The file as a relation. Raises SourceError, which quotes no line, for an unreadable file."""
    try:
        return open_file(path, wanted, opening)
    except DpframeError:
        raise
    except (OSError, EOFError, ValueError, csv.Error, zlib.error) as error:
        said = getattr(error, "strerror", None) or UNREADABLE.get(type(error), "it is damaged")
    raise SourceError(
        f"{shown(path)} cannot be read: {said[:1].lower()}{said[1:]}. Check the path."
    )


UNREADABLE = {
    gzip.BadGzipFile: "its name says gzip, and it is not",
    csv.Error: "its first line is too long, or no CSV",
    ValueError: "it cannot be a path",
}


def rows_of(path: str, wanted: Sequence[str]) -> pa.Table:
    """The wanted columns of a public file, unchanged."""
    with _file(path, wanted) as relation:
        chosen = ", ".join(identifier(name) for name in wanted)
        return relation.query(f"SELECT {chosen} FROM {_duck.VIEW}", False)


def only_text(source: object) -> bool:
    """Whether a source holds nothing but text, as CSV files do, so that types tell nothing."""
    source = unrestricted(source)
    return isinstance(source, str | Path) and not str(source).lower().endswith(PARQUET)


def csv_reading(source: object) -> str | None:
    """How CSV files are read, empty by default; None for any other source."""
    file = unrestricted(source)
    return (file.reading if isinstance(file, File) else "") if only_text(file) else None


def describe(source: object) -> str:
    """A public description of a source: the path of a file, otherwise the kind of object."""
    if isinstance(source, File):
        return (source.name or f"file {os.path.abspath(named(source))}") + source.reading
    if isinstance(source, str | Path):
        return f"file {os.path.abspath(named(source))}"
    if isinstance(source, _duck.DuckDBPyRelation):
        return "DuckDB relation"
    return f"{type(source).__module__.split('.')[0]} {type(source).__name__}"


def canonical(duckdb_type: str) -> str:
    """The name of a type without the values of an ENUM."""
    return "ENUM" if duckdb_type.startswith("ENUM") else duckdb_type
