"""Where the rows of a report are: files, a database, or what Python holds."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dpframe import _duck
from dpframe._known_arguments import shown
from dpframe._paths import ADDRESS, named
from dpframe._sql import identifier
from dpframe.errors import ParameterError, ParameterTypeError, SourceError
from dpframe.sources.relations import describe
from dpframe.sources.row_stores import ADDRESSES, of_postgres, of_sqlite

PERIOD = "{period}"
"""Stands in the name of a file for the text of a period."""

SQLITE = b"SQLite format 3\0"
"""How a file of SQLite begins, whatever its name."""

KEYS = ("file", "database", "table", "sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSource:
    """A Parquet or CSV file, or a pattern of several; ``{period}`` in it is the period."""

    file: str

    def path(self, period: str) -> str:
        return self.file.replace(PERIOD, period)

    def described(self, period: str) -> str:
        return describe(self.path(period))

    def stands_for(self, period: str) -> object:
        """What says the types that a plan asks for, without being read."""
        return self.path(period)

    @contextmanager
    def opened(self, period: str) -> Iterator[object]:
        yield self.path(period)


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenSource:
    """Anything that a question takes, from Python."""

    given: Any

    def described(self, period: str) -> str:
        return describe(self.given)

    def stands_for(self, period: str) -> object:
        return self.given

    @contextmanager
    def opened(self, period: str) -> Iterator[object]:
        yield self.given


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSource:
    """A table, or what a statement selects, in a file of DuckDB or SQLite, or in PostgreSQL.

    DuckDB reads what a period needs; of the others all is held in memory while a run lasts.
    """

    database: str
    query: str

    def described(self, period: str) -> str:
        if self.database.startswith(ADDRESSES):
            at = urlsplit(self.database)  # never who asks, or with which password
            return f"{self.query} in PostgreSQL {at.hostname or 'localhost'}{at.path}"
        return f"{self.query} in {os.path.abspath(named(self.database))}"

    def stands_for(self, period: str) -> object:
        return None

    @contextmanager
    def opened(self, period: str) -> Iterator[object]:
        if self.database.startswith(ADDRESSES):
            yield of_postgres(self.database, self.query)
            return
        path = named(self.database)
        if not path.is_file():
            raise SourceError(f"{self.database!r} does not exist: check the path of the database.")
        with path.open("rb") as file:
            is_sqlite = file.read(len(SQLITE)) == SQLITE
        if is_sqlite:
            yield of_sqlite(path, self.query)
            return
        with _duck.selected(path, self.query) as relation:
            yield relation


Source = FileSource | GivenSource | DatabaseSource


def as_source(given: object, base: Path, where: str) -> Source:
    """A source as it is declared; paths are relative to ``base``."""
    if isinstance(given, str | Path):
        return FileSource(file=based(given, base))
    if not isinstance(given, Mapping):
        return GivenSource(given=given)
    if "file" in given:
        if len(given) > 1:
            raise ParameterError(f"{where} names a file: leave the other keys out.")
        if not isinstance(given["file"], str | Path):
            raise ParameterTypeError(f"file of {where} must be a path; got {given['file']!r}.")
        return FileSource(file=based(given["file"], base))
    database, table, sql = (given.get(key) for key in ("database", "table", "sql"))
    if not isinstance(database, str | Path):
        raise ParameterError(
            f"{where} must name a file, or a database with a table or sql: for example "
            "{ database = 'shop.duckdb', table = 'sales' }."
        )
    if (table is None) == (sql is None):
        raise ParameterError(f"{where} must name one of table and sql, beside its database.")
    if not isinstance(chosen := sql if table is None else table, str):
        raise ParameterTypeError(f"table or sql of {where} must be text; got {shown(chosen)}.")
    query = chosen if table is None else f"SELECT * FROM {_quoted(chosen)}"
    return DatabaseSource(database=based(database, base), query=query)


def based(path: str | Path, base: Path) -> str:
    """A path relative to the folder of the file that names it."""
    text = os.fspath(path)
    return text if text.startswith("~") or ADDRESS.match(text) else os.path.join(base, text)


def _quoted(table: str) -> str:
    return ".".join(identifier(part) for part in table.split("."))
