"""Every call into DuckDB. What it says about a failing row never leaves this module."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Protocol

import duckdb
import pyarrow as pa

from dpframe.errors import SourceError

VIEW = "dpframe_source"
"""Name under which a statement finds its source."""


class Relation(Protocol):
    """A source that a statement can read: public column names and types, and a way to run."""

    columns: tuple[str, ...]
    types: tuple[str, ...]

    def query(self, statement: str, progress: bool) -> pa.Table: ...


class OwnRelation:
    """A table function or registered Arrow table on a connection of our own."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection, from_sql: str) -> None:
        self._cursor = cursor
        self._cursor.execute(f"CREATE OR REPLACE TEMP VIEW {VIEW} AS SELECT * FROM {from_sql}")
        described = cursor.execute(f"DESCRIBE {VIEW}").fetchall()
        self.columns = tuple(row[0] for row in described)
        self.types = tuple(str(row[1]) for row in described)

    def query(self, statement: str, progress: bool) -> pa.Table:
        with _progress_shown(self._cursor, progress):
            result = self._cursor.sql(statement)
            assert result is not None  # a SELECT
            return result.to_arrow_table()


class GivenRelation:
    """A relation of the caller, run on the caller's own connection, leaving nothing behind."""

    def __init__(self, relation: duckdb.DuckDBPyRelation) -> None:
        self._relation = relation
        self.columns = tuple(relation.columns)
        self.types = tuple(str(t) for t in relation.types)

    def query(self, statement: str, progress: bool) -> pa.Table:
        result = self._relation.query(VIEW, statement)
        assert result is not None  # a SELECT
        return result.to_arrow_table()


def is_relation(source: object) -> bool:
    return isinstance(source, duckdb.DuckDBPyRelation)


@contextmanager
def guarded(what: str) -> Iterator[None]:
    """Turn DuckDB's errors into one that names the source and quotes nothing."""
    failed: str | None = None
    try:
        yield
    except duckdb.InterruptException:
        failed = "was interrupted"
    except duckdb.OutOfMemoryException:
        failed = "ran out of memory: set a larger memory limit or give it disk space"
    except duckdb.Error as error:
        failed = f"failed ({type(error).__name__}; its text is withheld, it can quote the data)"
    if failed is not None:  # outside of the handler, so that no context holds the original
        raise SourceError(f"reading {what} {failed}.")


@contextmanager
def arrow_relation(table: pa.Table) -> Iterator[OwnRelation]:
    """An Arrow table as a relation."""
    cursor = _own().cursor()
    try:
        cursor.register("dpframe_arrow", table)
        yield OwnRelation(cursor, "dpframe_arrow")
    finally:
        cursor.close()


@contextmanager
def scanned_relation(from_sql: str) -> Iterator[OwnRelation]:
    """A table function such as read_parquet(...) as a relation."""
    cursor = _own().cursor()
    try:
        yield OwnRelation(cursor, from_sql)
    finally:
        cursor.close()


def _own() -> duckdb.DuckDBPyConnection:
    return _connect(os.getpid())


@lru_cache(maxsize=1)
def _connect(pid: int) -> duckdb.DuckDBPyConnection:
    """One in-memory database a process; a forked child makes its own."""
    connection = duckdb.connect(":memory:")
    connection.execute("SET preserve_insertion_order = false")  # every statement sorts
    return connection


@contextmanager
def _progress_shown(cursor: duckdb.DuckDBPyConnection, wanted: bool) -> Iterator[None]:
    """Percent done on stderr while a statement runs, from the second second on."""
    if not wanted or not sys.stderr.isatty():
        yield
        return
    done = threading.Event()

    def show() -> None:
        shown = False
        while not done.wait(0.5 if shown else 1.5):
            percent = max(0.0, cursor.query_progress())
            print(f"\rcounting ... {percent:3.0f} %", end="", file=sys.stderr, flush=True)
            shown = True
        if shown:
            print("\r" + " " * 24 + "\r", end="", file=sys.stderr, flush=True)

    watcher = threading.Thread(target=show, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
