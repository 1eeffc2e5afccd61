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
from dpframe.common.texts import file_of_path, identifier
from dpframe.errors import DpframeError, SourceError
from dpframe.hierarchy import Hierarchy
from dpframe.hierarchy._base import check_writable
from dpframe.periods import Period
from dpframe.sources.frames import (
    arrow_table,
    package_of,
    pandas_types,
    without_rows,
)
from dpframe.sources.row_files import PARQUET, File, open_file
from dpframe.sources.spark import (
    PeriodReading,
    PeriodSource,
    SparkFrame,
    is_spark,
    require_columns,
    whole_source,
)


def open_source(source: object, wanted: Sequence[str]) -> AbstractContextManager[_duck.Relation]:
    """The source as a relation with the wanted columns, closed after use unless it was open
    before."""
    if isinstance(source, PeriodSource):
        return _open_period(source, wanted)
    if isinstance(source, _duck.OwnRelation | _duck.GivenRelation):
        require_columns(wanted, source.columns)
        return nullcontext(source)
    if isinstance(source, str | Path):
        return _open_path(source, wanted)
    if isinstance(source, _duck.DuckDBPyRelation):
        given = _duck.GivenRelation(source)
        require_columns(wanted, given.columns)
        return given
    frame = source if isinstance(source, HeldColumns) else hold_columns(source, wanted)
    relation = _duck.register_table(frame.table, frame.what)
    named = zip(relation.columns, relation.types, strict=True)
    relation.types = tuple(frame.types.get(name, kind) for name, kind in named)
    return relation


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HeldColumns:
    """Columns read from a frame; ``what`` the frame is, for messages; and the ``types``, by column,
    that Arrow cannot tell."""

    table: pa.Table
    what: str
    types: Mapping[str, str]


def hold_columns(source: object, wanted: Sequence[str]) -> HeldColumns:
    """Read the wanted columns of a frame."""
    what = f"the {package_of(source)} {type(source).__name__}"
    return HeldColumns(arrow_table(source, wanted), what, pandas_types(source, wanted))


@contextmanager
def _open_period(source: PeriodSource, wanted: Sequence[str]) -> Iterator[_duck.Relation]:
    """The records of a period as a relation."""
    with open_source(source.source, list(dict.fromkeys([*wanted, source.column]))) as relation:
        yield relation.restrict(source.condition(_type_of_column(relation, source.column)))


def period_reading(source: object, period: Period) -> PeriodReading:
    """How a source's column of times is read; ColumnError if that is impossible. Reads no row."""
    if is_spark(source):
        kind = SparkFrame(source, [period.column]).types[period.column]
        return PeriodReading(period=period, kind=kind)
    with open_source(without_rows(source), [period.column]) as relation:
        return PeriodReading(period=period, kind=_type_of_column(relation, period.column))


def _type_of_column(relation: _duck.Relation, column: str) -> str:
    return canonical(relation.types[relation.columns.index(column)])


@contextmanager
def _open_path(path: str | Path, wanted: Sequence[str]) -> Iterator[_duck.Relation]:
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
    raise SourceError(f"{path.label} cannot be read: {said[:1].lower()}{said[1:]}. Check the path.")


UNREADABLE = {
    gzip.BadGzipFile: "its name says gzip, and it is not",
    csv.Error: "its first line is too long, or no CSV",
    ValueError: "it cannot be a path",
}


def read_public_file(path: str, wanted: Sequence[str]) -> pa.Table:
    """The wanted columns of a public file, unchanged."""
    with _open_path(path, wanted) as relation:
        chosen = ", ".join(identifier(name) for name in wanted)
        return relation.query(f"SELECT {chosen} FROM {_duck.VIEW}", False)


def only_text(source: object) -> bool:
    """Whether a source holds nothing but text, as CSV files do, so that types tell nothing."""
    source = whole_source(source)
    return isinstance(source, str | Path) and not str(source).lower().endswith(PARQUET)


def csv_reading(source: object) -> str | None:
    """How CSV files are read, empty text for the defaults; None for any other source."""
    file = whole_source(source)
    return (file.reading if isinstance(file, File) else "") if only_text(file) else None


def describe_source(source: object) -> str:
    """A public description of a source: the path of a file, otherwise the kind of object."""
    if isinstance(source, File):
        return (source.name or f"file {os.path.abspath(file_of_path(source))}") + source.reading
    if isinstance(source, str | Path):
        return f"file {os.path.abspath(file_of_path(source))}"
    if isinstance(source, _duck.DuckDBPyRelation):
        return "DuckDB relation"
    return f"{package_of(source)} {type(source).__name__}"


def relation_types(relation: _duck.Relation) -> dict[str, str]:
    """The names of the types of a relation, by column."""
    return dict(zip(relation.columns, map(canonical, relation.types), strict=True))


def level_and_user_types(
    relation: _duck.Relation, hierarchy: Hierarchy, user: str | None = None
) -> tuple[tuple[str, ...], str | None]:
    """The types of the columns of a hierarchy and of users. ColumnError if one cannot be read."""
    types = relation_types(relation)
    read = tuple(types[column] for column in hierarchy.source_columns)
    hierarchy.check_types(read)
    if user is None:
        return read, None
    check_writable(user, types[user])
    return read, types[user]


def canonical(duckdb_type: str) -> str:
    """The name of a type, ``ENUM`` without values for an ENUM."""
    return "ENUM" if duckdb_type.startswith("ENUM") else duckdb_type
