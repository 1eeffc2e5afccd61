"""Every call into DuckDB. What it says about a failing row never leaves this module."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

import duckdb
import pyarrow as pa
from duckdb import DuckDBPyConnection, DuckDBPyRelation
from duckdb.func import ARROW, SPECIAL

from dpframe._sql import identifier, literal
from dpframe.errors import SourceError

__all__ = [
    "VIEW",
    "DuckDBPyConnection",
    "DuckDBPyRelation",
    "GivenRelation",
    "OwnRelation",
    "Relation",
    "add_functions",
    "check_collation",
    "create_database",
    "describe",
    "is_one_select",
    "opened",
    "register",
    "run_script",
    "scan",
]

VIEW = "dpframe_source"
"""Name under which a statement finds its source."""

RELATION = "the DuckDB relation"

OLDEST = "v1.0.0"
"""DuckDB that can read the files of results: programs that show them lag behind."""

T = TypeVar("T")


class Relation(Protocol):
    """A source that a statement can read: public column names and types, and a way to run."""

    columns: tuple[str, ...]
    types: tuple[str, ...]

    def query(self, statement: str, progress: bool) -> pa.Table: ...

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
        setting = "SELECT current_setting('default_collation') AS name"
        collation = _withheld(RELATION, lambda: _rows(self._relation.query(VIEW, setting)))
        check_collation(collation["name"][0].as_py())
        return _withheld(RELATION, lambda: _rows(self._relation.query(VIEW, statement)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """The connection is the caller's."""


def check_collation(name: str | None) -> None:
    """Raise SourceError for a default collation under which different texts are equal."""
    if name not in (None, "", "binary", "C", "c"):
        raise SourceError(
            "the connection has a default collation, under which texts that differ count as one: "
            "RESET default_collation first."
        )


def register(table: pa.Table, what: str) -> OwnRelation:
    """An Arrow table as a relation; ``what`` names it in errors."""
    cursor = _connect(os.getpid()).cursor()
    _withheld(what, lambda: cursor.register("dpframe_arrow", table))
    return OwnRelation(cursor, "dpframe_arrow", what)


def scan(from_sql: str, what: str) -> OwnRelation:
    """A table function such as read_parquet(...) as a relation."""
    return OwnRelation(_connect(os.getpid()).cursor(), from_sql, what)


def add_functions(
    con: DuckDBPyConnection,
    texts: dict[str, Callable[..., str]],
    arrows: dict[str, tuple[Callable[..., pa.Array], str]],
) -> None:
    """Scalar functions of any arguments, unless the database has them: some give text, foldable
    while a statement is bound; some take and give Arrow arrays, run once for every row.

    A cursor adds them, so that no transaction of the caller takes them back, and looks where no
    macro of the caller has one of their names.
    """
    with _adding, con.cursor() as cursor:
        with suppress(duckdb.InvalidInputException):  # the configuration may be locked
            cursor.execute("SET search_path = 'system.main'")
        found = cursor.execute(
            "SELECT function_name FROM duckdb_functions() WHERE database_name = 'system' "
            "AND starts_with(function_name, '__dpframe_')"
        ).fetchall()
        names = {row[0] for row in found}
        for name, text in texts.items():
            if name not in names:
                cursor.create_function(name, text, None, "VARCHAR", null_handling=SPECIAL)
        for name, (arrow, kind) in arrows.items():
            if name not in names:
                cursor.create_function(
                    name,
                    arrow,
                    None,
                    kind,
                    type=ARROW,
                    null_handling=SPECIAL,
                    side_effects=True,
                )


_adding = threading.Lock()
"""Held while functions are looked for and added: a database takes each name once."""


def run_script(con: DuckDBPyConnection, script: str) -> None:
    """Run statements of ours."""
    con.execute(script)


def describe(
    con: DuckDBPyConnection, relation: str, search_path: str
) -> list[tuple[object, ...]] | None:
    """Rows of DESCRIBE from a second connection to the same database; None if it cannot say."""
    try:
        with con.cursor() as cursor:
            if search_path:
                cursor.execute(f"SET search_path = {literal(search_path)}")
            return cursor.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
    except duckdb.Error:
        return None


def is_one_select(text: str) -> bool:
    """Whether DuckDB parses a text as one SELECT statement without parameters."""
    try:
        found = duckdb.extract_statements(text)
    except duckdb.Error:
        return False
    select = duckdb.StatementType.SELECT
    return len(found) == 1 and found[0].type == select and not found[0].named_parameters


def create_database(path: Path, tables: Mapping[str, pa.Table], script: str) -> None:
    """A new database file of released tables and what a script of ours adds; OSError if not."""
    try:
        with duckdb.connect(path, config={"storage_compatibility_version": OLDEST}) as con:
            for name, table in tables.items():
                con.register("rows of the table", table)
                con.execute(f'CREATE TABLE {identifier(name)} AS FROM "rows of the table"')
            con.unregister("rows of the table")
            con.execute(script)
            con.execute("CHECKPOINT")  # all of it in the one file
    except duckdb.Error as error:
        raise OSError(str(error)) from error


@contextmanager
def opened(path: Path, name: str) -> Iterator[Callable[[str], list[tuple[Any, ...]]]]:
    """Ask a file of released tables, read-only, under a name.

    OSError says why it cannot be read, BlockingIOError that it is open for writing. For files of
    public results only: nothing is withheld.
    """
    with duckdb.connect(":memory:") as con:
        try:
            # a type, or DuckDB would fetch extensions for files of other kinds
            con.execute(
                f"ATTACH {literal(str(path))} AS {identifier(name)} (TYPE duckdb, READ_ONLY)"
            )
            yield lambda statement: con.execute(statement).fetchall()
        except duckdb.Error as error:
            held = "lock on file" in str(error) or "already attached" in str(error)
            raise (BlockingIOError if held else OSError)(str(error)) from error


def _rows(result: DuckDBPyRelation | None) -> pa.Table:
    assert result is not None  # every statement is a SELECT
    return result.to_arrow_table()


def _withheld(what: str, call: Callable[[], T]) -> T:
    """Run a call; DuckDB's errors become one that names the source and quotes nothing."""
    try:
        return call()
    except duckdb.InterruptException:
        failed = "was interrupted"
    except duckdb.OutOfMemoryException:
        failed = "ran out of memory: set a larger memory limit or give it disk space"
    except duckdb.Error as error:
        failed = f"failed ({type(error).__name__}; its text is withheld, it can quote the data)"
    # outside of every handler: no traceback or context holds the original
    raise SourceError(f"reading {what} {failed}.")


@lru_cache(maxsize=1)
def _connect(process: int) -> DuckDBPyConnection:
    """One in-memory database a process; a forked child makes its own."""
    connection = duckdb.connect(":memory:")
    spill = tempfile.mkdtemp(prefix="dpframe-")  # raw keys: not in the working directory
    atexit.register(shutil.rmtree, spill, ignore_errors=True)
    connection.execute(f"SET temp_directory = {literal(spill)}")
    return connection


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
