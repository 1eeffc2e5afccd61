"""Where the rows of a report are: in files, in a database, or in an object of Python."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dpframe import _duck
from dpframe._known_arguments import shown_value
from dpframe._paths import ADDRESS, file_of_path
from dpframe._sql import identifier
from dpframe.errors import ParameterError, ParameterTypeError, SourceError
from dpframe.sources.row_files import UTF_8, File
from dpframe.sources.row_stores import ADDRESSES, read_postgres, read_sqlite
from dpframe.sources.source_relations import describe_source

PERIOD = "{period}"
"""Placeholder for the text of a period, in the name of a file."""

SQLITE = b"SQLite format 3\0"
"""First bytes of a SQLite database, whatever the name of its file."""

HOW_CSV = ("delimiter", "encoding")
"""Keys that may be declared together with ``file``, for reading CSV files."""

KEYS = ("file", *HOW_CSV, "database", "table", "sql")


class Source:
    """Where the rows of a period are."""

    def object_for(self, period: str) -> Any:
        """Return an object from which a plan learns the types of columns without reading rows; None
        if there is no such object."""
        raise NotImplementedError

    def describe(self, period: str) -> str:
        return describe_source(self.object_for(period))

    @contextmanager
    def open(self, period: str) -> Iterator[object]:
        yield self.object_for(period)


@dataclass(frozen=True, kw_only=True)
class FileSource(Source):
    """A Parquet or CSV file, or a pattern of files; ``{period}`` stands for a period's text."""

    file: str
    delimiter: str | None = None
    encoding: str = UTF_8

    def object_for(self, period: str) -> File:
        file = self.file.replace(PERIOD, period)
        return File(file, delimiter=self.delimiter, encoding=self.encoding)


@dataclass(frozen=True, kw_only=True)
class GivenSource(Source):
    """An object of Python that a question takes as its source."""

    given: Any

    def object_for(self, period: str) -> Any:
        return self.given


@dataclass(frozen=True, kw_only=True)
class DatabaseSource(Source):
    """A table or the rows of a query, in a file of DuckDB or SQLite, or in PostgreSQL.

    DuckDB reads what a period needs; rows of SQLite and PostgreSQL stay in memory during a run.
    """

    database: str
    query: str

    def object_for(self, period: str) -> None:
        return None

    def describe(self, period: str) -> str:
        if self.database.startswith(ADDRESSES):
            at = urlsplit(self.database)  # leave out user and password
            return f"{self.query} in PostgreSQL {at.hostname or 'localhost'}{at.path}"
        return f"{self.query} in {os.path.abspath(file_of_path(self.database))}"

    @contextmanager
    def open(self, period: str) -> Iterator[object]:
        if self.database.startswith(ADDRESSES):
            yield read_postgres(self.database, self.query)
            return
        path = file_of_path(self.database)
        if not path.is_file():
            raise SourceError(f"{self.database!r} does not exist. Check the path of the database.")
        with path.open("rb") as file:
            is_sqlite = file.read(len(SQLITE)) == SQLITE
        if is_sqlite:
            yield read_sqlite(path, self.query)
            return
        with _duck.select_from_database(path, self.query) as relation:
            yield relation


def as_source(given: object, base: Path, where: str) -> Source:
    """Make a source from its declaration; paths are relative to ``base``, ``where`` is for
    messages."""
    if isinstance(given, File):
        given = {"file": str(given), "delimiter": given.delimiter, "encoding": given.encoding}
    if isinstance(given, str | Path):
        return FileSource(file=path_from_base(given, base))
    if not isinstance(given, Mapping):
        return GivenSource(given=given)
    if "file" in given:
        if not {*given} <= {"file", *HOW_CSV}:
            raise ParameterError(f"{where} names a file. Leave the other keys out.")
        if not isinstance(given["file"], str | Path):
            raise ParameterTypeError(f"file of {where} must be a path; got {given['file']!r}.")
        how = {key: given[key] for key in HOW_CSV if key in given}
        return FileSource(file=path_from_base(given["file"], base), **how)
    database, table, sql = (given.get(key) for key in ("database", "table", "sql"))
    if not isinstance(database, str | Path):
        raise ParameterError(
            f"{where} must name a file or a database. Write for example "
            "{ database = 'shop.duckdb', table = 'sales' }."
        )
    if (table is None) == (sql is None):
        raise ParameterError(f"{where} must name either table or sql beside database.")
    if not isinstance(chosen := sql if table is None else table, str):
        raise ParameterTypeError(
            f"table or sql of {where} must be text; got {shown_value(chosen)}."
        )
    query = chosen
    if table is not None:
        query = f"SELECT * FROM {'.'.join(map(identifier, chosen.split('.')))}"
    return DatabaseSource(database=path_from_base(database, base), query=query)


def path_from_base(path: str | Path, base: Path) -> str:
    """Return a path as a path below ``base``, unless it is absolute, an address or in ~."""
    text = os.fspath(path)
    return text if text.startswith("~") or ADDRESS.match(text) else os.path.join(base, text)
