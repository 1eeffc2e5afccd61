"""Sources as relations for statements. What DuckDB says about a row never leaves this file."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from types import TracebackType
from typing import Protocol, Self, TypeVar

import duckdb
import pyarrow as pa
from duckdb import DuckDBPyConnection, DuckDBPyRelation

from dpframe._duck.checks import ORDERED, check_collation, check_order, operators
from dpframe._sql import literal
from dpframe.errors import DpframeError, SourceError

VIEW = "dpframe_source"
"""Name under which a statement finds its source."""

RELATION = "the DuckDB relation"

T = TypeVar("T")


class Relation(Protocol):
    """A source that a statement can read: public column names and types, and a way to run."""

    columns: tuple[str, ...]
    types: tuple[str, ...]

    def query(self, statement: str, progress: bool) -> pa.Table: ...

    def batches(self, statement: str) -> Iterator[pa.RecordBatch]:
        """Rows in the order of the source, a few at a time."""
        ...

    def operators(self, statement: str) -> set[str]:
        """Names of DuckDB's operators that a statement would use."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


class OwnRelation:
    """A table function or registered Arrow table on a connection of our own; close after use."""

    def __init__(self, cursor: DuckDBPyConnection, from_sql: str, what: str) -> None:
        self._cursor, self._what = cursor, what

        def describe() -> list[tuple[object, ...]]:
            cursor.execute(f"CREATE OR REPLACE TEMP VIEW {VIEW} AS SELECT * FROM {from_sql}")
            return cursor.execute(f"DESCRIBE {VIEW}").fetchall()

        described = _withheld(what, describe)
        self.columns = tuple(str(row[0]) for row in described)
        self.types = tuple(str(row[1]) for row in described)

    def query(self, statement: str, progress: bool) -> pa.Table:
        def run() -> pa.Table:
            with _progress_shown(self._cursor, progress):
                return _rows(self._cursor.sql(statement))

        return _withheld(self._what, run)

    def batches(self, statement: str) -> Iterator[pa.RecordBatch]:
        check_order(_withheld(self._what, lambda: _rows(self._cursor.sql(ORDERED))))
        return _batches(self._what, lambda: self._cursor.sql(statement))

    def operators(self, statement: str) -> set[str]:
        return _withheld(self._what, lambda: operators(self._cursor.sql, statement))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._cursor.close()


class GivenRelation:
    """A relation of the caller, run on the caller's own connection, leaving nothing behind."""

    def __init__(self, relation: DuckDBPyRelation) -> None:
        self._relation = relation
        self.columns: tuple[str, ...] = _withheld(RELATION, lambda: tuple(relation.columns))
        self.types: tuple[str, ...] = _withheld(
            RELATION, lambda: tuple(str(t) for t in relation.types)
        )

    def query(self, statement: str, progress: bool) -> pa.Table:
        setting = "SELECT current_setting('default_collation') AS \"name\""
        collation = _withheld(RELATION, lambda: _rows(self._relation.query(VIEW, setting)))
        check_collation(collation["name"][0].as_py())
        return _withheld(RELATION, lambda: _rows(self._relation.query(VIEW, statement)))

    def batches(self, statement: str) -> Iterator[pa.RecordBatch]:
        check_order(_withheld(RELATION, lambda: _rows(self._relation.query(VIEW, ORDERED))))
        return _batches(RELATION, lambda: self._relation.query(VIEW, statement))

    def operators(self, statement: str) -> set[str]:
        ask = partial(self._relation.query, VIEW)
        return _withheld(RELATION, lambda: operators(ask, statement))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """The connection is the caller's."""


def register(table: pa.Table, what: str) -> OwnRelation:
    """An Arrow table as a relation; ``what`` names it in errors."""
    cursor = _connect(os.getpid()).cursor()
    _withheld(what, lambda: cursor.register("dpframe_arrow", table))
    return OwnRelation(cursor, "dpframe_arrow", what)


def scan(from_sql: str, what: str) -> OwnRelation:
    """A table function such as read_parquet(...) as a relation."""
    return OwnRelation(_connect(os.getpid()).cursor(), from_sql, what)


def beside(con: DuckDBPyConnection, from_sql: str, search_path: str, what: str) -> OwnRelation:
    """A relation as a second connection to the same database sees it; texts compare exactly."""

    def connected() -> DuckDBPyConnection:
        cursor = con.cursor()
        if search_path:
            cursor.execute(f"SET search_path = {literal(search_path)}")
        check_collation(_rows(cursor.sql(ORDERED))["collation"][0].as_py())
        return cursor

    return OwnRelation(_withheld(what, connected), from_sql, what)


def _rows(result: DuckDBPyRelation | None) -> pa.Table:
    assert result is not None  # every statement is a SELECT
    return without_views(result.to_arrow_table())


def without_views(table: pa.Table) -> pa.Table:
    """Texts in a type that Arrow can take rows of, whatever the connection writes."""
    return table.cast(_schema(table.schema))


def _schema(schema: pa.Schema) -> pa.Schema:
    for place, field in enumerate(schema):
        if pa.types.is_string_view(field.type):
            schema = schema.set(place, field.with_type(pa.large_string()))
    return schema


BATCH_ROWS = 1_000_000
"""Rows of a batch, about."""

BATCH_BYTES = 2**28
"""Bytes of a batch, about: long texts come in smaller batches."""


def _batches(what: str, result: Callable[[], DuckDBPyRelation | None]) -> Iterator[pa.RecordBatch]:
    def start() -> pa.RecordBatchReader:
        relation = result()
        assert relation is not None
        given = relation.to_arrow_reader(BATCH_ROWS)
        schema = _schema(given.schema)
        return given if schema == given.schema else given.cast(schema)

    reader, held = _withheld(what, start), []
    while (batch := _withheld(what, lambda: next(reader, None))) is not None:
        held.append(batch)  # DuckDB gives at most what it reads at once
        rows, size = sum(part.num_rows for part in held), sum(part.nbytes for part in held)
        if rows >= BATCH_ROWS or size >= BATCH_BYTES:
            yield _withheld(what, partial(together, held))
            held = []
    if held:
        yield _withheld(what, partial(together, held))


def together(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch of several with one schema, at least one."""
    columns = zip(*(batch.columns for batch in batches), strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.concat_arrays(parts) for parts in columns], schema=batches[0].schema
    )


def _withheld(what: str, call: Callable[[], T]) -> T:
    """Run a call; DuckDB's errors become one that names the source and quotes nothing."""
    try:
        return call()
    except duckdb.InterruptException:
        failed = "was interrupted"
    except duckdb.OutOfMemoryException:
        failed = "ran out of memory: set a larger memory limit or give it disk space"
    except DpframeError:
        raise
    except Exception as error:  # in a stream Arrow passes on what DuckDB says
        failed = f"failed ({type(error).__name__}; its text is withheld, it can quote the data)"
        if type(error).__name__ == "ResourceInUseException":
            failed = "failed: its connection has an unfinished result, fetch all of that first"
        if isinstance(error, duckdb.FatalException | duckdb.InternalException):
            _connect.cache_clear()  # that database answers no more
    # outside of every handler: no traceback or context holds the original
    raise SourceError(f"reading {what} {failed}.")


@lru_cache(maxsize=1)
def _connect(process: int) -> DuckDBPyConnection:
    """One in-memory database a process; a forked child makes its own."""
    try:
        spill = tempfile.mkdtemp(prefix="dpframe-")  # raw keys: not in the working directory
    except OSError:
        raise SourceError(
            "there is no temporary folder that can be written to: set TMPDIR to one."
        ) from None
    connection = duckdb.connect(":memory:")
    atexit.register(shutil.rmtree, spill, ignore_errors=True)
    connection.execute(f"SET temp_directory = {literal(spill)}")
    return connection


@contextmanager
def one_task() -> Iterator[None]:
    """For a process that works on tasks beside others and may end without its atexit: one thread,
    and no files left."""
    connection = _connect(os.getpid())
    connection.execute("SET threads = 1")
    (spill,) = connection.execute("SELECT current_setting('temp_directory')").fetchone() or ("",)
    try:
        yield
    finally:
        _connect.cache_clear()
        connection.close()
        shutil.rmtree(spill, ignore_errors=True)


@contextmanager
def _progress_shown(cursor: DuckDBPyConnection, wanted: bool) -> Iterator[None]:
    """Percent done on stderr while a statement runs, from the second second on."""
    if not wanted or not sys.stderr.isatty():
        yield
        return
    cursor.execute("SET enable_progress_bar = true")  # without it nothing is measured
    cursor.execute("SET enable_progress_bar_print = false")
    done = threading.Event()
    start = time.monotonic()

    def show() -> None:
        shown = False
        while not done.wait(0.5 if shown else 1.5):
            percent, seconds = max(0.0, cursor.query_progress()), time.monotonic() - start
            line = f"\rcounting ... {percent:3.0f} %, {seconds:.0f} s "
            print(line, end="", file=sys.stderr, flush=True)
            shown = True
        if shown:
            print("\r" + " " * 36 + "\r", end="", file=sys.stderr, flush=True)

    watcher = threading.Thread(target=show, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
