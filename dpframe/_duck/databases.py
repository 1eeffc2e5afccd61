"""Database files of released tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from dpframe._duck.ctrl_c import run_interruptibly
from dpframe._sql import identifier, literal
from dpframe.errors import SourceError

OLDEST = "v1.0.0"
"""The oldest DuckDB that can read results files. Programs that show these files often have an older
DuckDB than the one that writes them."""


def create_database(path: Path, tables: Mapping[str, pa.Table], script: str) -> None:
    """Make a database file of released tables and what a script of ours adds; OSError if not."""
    try:
        with duckdb.connect(path, config={"storage_compatibility_version": OLDEST}) as con:
            for name, table in tables.items():
                con.register("rows of the table", table)
                create = f'CREATE TABLE {identifier(name)} AS FROM "rows of the table"'
                run_interruptibly(partial(con.execute, create), con.interrupt)
            con.unregister("rows of the table")
            run_interruptibly(lambda: con.execute(script))
            run_interruptibly(lambda: con.execute("CHECKPOINT"))  # all of it in the one file
    except duckdb.Error as error:
        raise OSError(str(error)) from error


@contextmanager
def open_database(path: Path, name: str) -> Iterator[Callable[[str], list[tuple[Any, ...]]]]:
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
            yield lambda statement: run_interruptibly(
                lambda: con.execute(statement).fetchall(), con.interrupt
            )
        except duckdb.Error as error:
            held = "lock on file" in str(error) or "already attached" in str(error)
            raise (BlockingIOError if held else OSError)(str(error)) from error


@contextmanager
def select_from_database(path: Path, query: str) -> Iterator[duckdb.DuckDBPyRelation]:
    """What a query selects in a database file of a caller, which is opened read-only.

    SourceError if the file or the query cannot be read. DuckDB reads no rows to say so, but what
    it says can quote a file that it looked into: its words are withheld, its kind of error is not.
    """
    try:
        con = duckdb.connect(path, read_only=True)
    except duckdb.Error as error:
        raise SourceError(
            f"{str(path)!r} cannot be opened as a database of DuckDB ({type(error).__name__}). "
            "Check the path, and that nobody has it open for writing."
        ) from None
    with con:
        with suppress(duckdb.Error):  # without ICU nothing depends on it
            con.execute("SET TimeZone = 'UTC'")  # what a query casts is the same on every machine
        failed = None
        try:
            relation = con.sql(query)
        except duckdb.Error as error:
            failed = type(error).__name__
        if failed is not None:  # outside of the handler: no context holds the original
            raise SourceError(
                f"the query {query[:200]!r} cannot be read ({failed}). Try it in DuckDB on "
                f"{str(path)!r}."
            )
        if relation is None:
            raise SourceError(f"the query {query[:200]!r} selects nothing. Write one SELECT.")
        yield relation
