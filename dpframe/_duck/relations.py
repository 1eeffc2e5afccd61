"""Sources as relations for statements. What DuckDB says about a row never leaves them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Self

import duckdb
import pyarrow as pa
from duckdb import DuckDBPyConnection, DuckDBPyRelation

from dpframe._duck.connection_checks import (
    ORDERED,
    check_collation,
    check_row_order,
    operators,
    plan_operators,
)
from dpframe._duck.guards import readable_columns
from dpframe._duck.process_database import ProcessDatabase, process_database
from dpframe._duck.safe_calls import withhold_errors
from dpframe._duck.statement_progress import percent_done, share_of_reading
from dpframe._progress import goes_on, part
from dpframe._sql import literal
from dpframe.errors import SourceError

VIEW = "dpframe_source"
"""Name under which a statement finds its source."""

RELATION = "the DuckDB relation"

REPEATED = {"SEQ_SCAN", "TABLE_SCAN", "PARQUET_SCAN", "READ_PARQUET", "PROJECTION", "FILTER"}
"""Operators that read what is stored; a reader of Arrow can be read once."""

Pieces = Generator[pa.RecordBatch, None, None]
"""Some rows at a time."""


class Relation:
    """A source that a statement can read: public column names and types, and a way to run.

    ``what`` names it in errors, ``stop`` interrupts its connection.
    """

    columns: tuple[str, ...]
    types: tuple[str, ...]

    def __init__(self, what: str, stop: Callable[[], None] | None) -> None:
        self._what, self._stop = what, stop

    def _ask(self, statement: str) -> DuckDBPyRelation | None:
        """Return what a statement selects from the source."""
        raise NotImplementedError

    def _rows(self, statement: str) -> pa.Table:
        return withhold_errors(self._what, lambda: _arrow_rows(self._ask(statement)))

    def query(self, statement: str, progress: bool) -> pa.Table:
        """The rows of a statement."""
        raise NotImplementedError

    def batches(self, statement: str) -> Iterator[pa.RecordBatch]:
        """Rows in the order of the source, a few at a time."""
        check_row_order(self._rows(ORDERED))
        return _read_batches(self._what, partial(self._ask, statement), self._stop)

    def pieces(self, statement: str, progress: bool) -> Pieces:
        """Rows in any order, as they come. To be closed before another statement."""
        raise NotImplementedError

    def repeats(self) -> bool:
        """Whether it can be read again from its start, which costs only what is read then."""
        raise NotImplementedError

    def operators(self, statement: str) -> set[str]:
        """Names of DuckDB's operators that a statement would use."""
        return withhold_errors(self._what, lambda: operators(self._ask, statement))

    def restrict(self, condition: str) -> Relation:
        """The relation with only the rows for which a condition holds: SQL that fails on no row."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Close what is ours."""


class OwnRelation(Relation):
    """A table function or registered Arrow table on a cursor of our own; close after use.

    The cursor is one of ``database``, or of a database of the caller.
    """

    def __init__(
        self,
        cursor: DuckDBPyConnection,
        from_sql: str,
        what: str,
        database: ProcessDatabase | None = None,
    ) -> None:
        super().__init__(what, cursor.interrupt)
        self._cursor, self._from, self._database = cursor, from_sql, database
        self._make_view("")

    def _make_view(self, where: str) -> None:
        """Make the view, anew if there is one."""

        def view(columns: str) -> DuckDBPyRelation:
            self._ready()
            chosen = f"SELECT {columns} FROM {self._from}{where}"
            self._cursor.execute(f"CREATE OR REPLACE TEMP VIEW {VIEW} AS {chosen}")
            return self._cursor.view(VIEW)  # DESCRIBE would plan and run a statement

        def seen() -> tuple[tuple[str, ...], tuple[str, ...]]:
            described = _names_and_types(stored := view("*"))  # a relation that follows the view
            if (columns := readable_columns(described[0], stored.types)) != "*":
                view(columns)
            return described

        self.columns, self.types = withhold_errors(self._what, seen, stop=self._stop)

    def restrict(self, condition: str) -> OwnRelation:
        self._make_view(f" WHERE {condition}")
        return self

    def _ready(self) -> None:
        if self._database is not None:
            self._database.ready()

    def _ask(self, statement: str) -> DuckDBPyRelation | None:
        self._ready()
        return self._cursor.sql(statement)

    def query(self, statement: str, progress: bool) -> pa.Table:
        def run() -> pa.Table:
            self._ready()
            with _show_progress(self._cursor, statement, progress):
                return _arrow_rows(self._cursor.sql(statement))

        def alone() -> pa.Table:
            assert self._database is not None
            with self._database.one_thread():
                return run()

        less = alone if self._database is not None else None
        return withhold_errors(self._what, run, less, self._stop)

    def pieces(self, statement: str, progress: bool) -> Pieces:
        self._ready()
        with _show_progress(self._cursor, statement, progress):
            ask = partial(self._cursor.sql, statement)
            yield from _read_batches(self._what, ask, self._stop, most=PIECE_ROWS)

    def repeats(self) -> bool:
        return self._database is not None  # a file or a frame, and no view of a caller

    def __exit__(self, *error: object) -> None:
        self._cursor.close()


class GivenRelation(Relation):
    """A relation of the caller, run on the caller's own connection, leaving nothing behind."""

    def __init__(self, relation: DuckDBPyRelation) -> None:
        # DuckDB 2 has the connection there, under a private name; other versions stop later
        super().__init__(RELATION, getattr(getattr(relation, "_con", None), "interrupt", None))
        self.columns, self.types = withhold_errors(RELATION, lambda: _names_and_types(relation))
        columns, self._relation = readable_columns(self.columns, relation.types), relation
        if columns != "*":
            self._relation = withhold_errors(RELATION, lambda: relation.project(columns))

    def _ask(self, statement: str) -> DuckDBPyRelation | None:
        return self._relation.query(VIEW, statement)

    def query(self, statement: str, progress: bool) -> pa.Table:
        check_collation(self._rows(ORDERED)["collation"][0].as_py())
        return withhold_errors(RELATION, lambda: _arrow_rows(self._ask(statement)), stop=self._stop)

    def pieces(self, statement: str, progress: bool) -> Pieces:
        check_collation(self._rows(ORDERED)["collation"][0].as_py())
        return _read_batches(RELATION, partial(self._ask, statement), self._stop, most=PIECE_ROWS)

    def repeats(self) -> bool:
        try:
            used = withhold_errors(
                RELATION, lambda: plan_operators(self._ask, f"SELECT * FROM {VIEW}")
            )
        except SourceError:  # the first real reading will say what is wrong
            return False
        return used <= REPEATED

    def restrict(self, condition: str) -> GivenRelation:
        return GivenRelation(withhold_errors(RELATION, lambda: self._relation.filter(condition)))


def _names_and_types(relation: DuckDBPyRelation) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names and types of the columns."""
    return tuple(relation.columns), tuple(str(kind) for kind in relation.types)


def register_table(table: pa.Table, what: str) -> OwnRelation:
    """An Arrow table as a relation; ``what`` names it in errors."""
    ours = process_database()
    cursor = ours.connection.cursor()
    withhold_errors(what, lambda: cursor.register("dpframe_arrow", table))
    return OwnRelation(cursor, "dpframe_arrow", what, ours)


def scan(from_sql: str, what: str) -> OwnRelation:
    """A table function such as read_parquet(...) as a relation."""
    ours = process_database()
    return OwnRelation(ours.connection.cursor(), from_sql, what, ours)


def second_connection_relation(
    con: DuckDBPyConnection,
    from_sql: str,
    search_path: str,
    what: str,
    settings: Mapping[str, str] | None = None,
) -> OwnRelation:
    """A relation as a second connection to the same database sees it; texts compare exactly.

    The second connection gets the ``settings`` of the first one: views can depend on them.
    """

    def connected() -> DuckDBPyConnection:
        cursor = con.cursor()
        for name, value in (settings or {}).items():
            now = f"SELECT current_setting({literal(name)})"
            if cursor.execute(now).fetchall() == [(value,)]:
                continue  # also where they are locked
            try:
                cursor.execute(f"SET {name} = {literal(value)}")
            except duckdb.InvalidInputException:
                raise SourceError(
                    f"{what} is read on a second connection, which cannot be given your {name}. "
                    f"SET GLOBAL {name} = {literal(value)} before the configuration is locked."
                ) from None
        if search_path:
            cursor.execute(f"SET search_path = {literal(search_path)}")
        check_collation(_arrow_rows(cursor.sql(ORDERED))["collation"][0].as_py())
        return cursor

    return OwnRelation(withhold_errors(what, connected), from_sql, what)


def _arrow_rows(result: DuckDBPyRelation | None) -> pa.Table:
    assert result is not None  # every statement is a SELECT
    return without_views(result.to_arrow_table())


def without_views(table: pa.Table) -> pa.Table:
    """A table whose texts have a type that Arrow can take rows of, whatever DuckDB wrote."""
    return table.cast(_schema_without_views(table.schema))


def _schema_without_views(schema: pa.Schema) -> pa.Schema:
    for place, field in enumerate(schema):
        if pa.types.is_string_view(field.type):
            schema = schema.set(place, field.with_type(pa.large_string()))
    return schema


BATCH_ROWS = 1_000_000
"""Rows of a batch, about."""

PIECE_ROWS = 2**16
"""Rows of a piece, at most: who looks at the first ones may need no more."""

BATCH_BYTES = 2**28
"""Bytes of a batch, about: long texts come in smaller batches."""


def _read_batches(
    what: str,
    result: Callable[[], DuckDBPyRelation | None],
    stop: Callable[[], None] | None = None,
    most: int | None = None,
) -> Pieces:
    """The rows in batches: about ``BATCH_ROWS`` rows each, or as they come, at most ``most``."""

    def start() -> pa.RecordBatchReader:
        relation = result()
        assert relation is not None
        given = relation.to_arrow_reader(most or BATCH_ROWS)
        schema = _schema_without_views(given.schema)
        return given if schema == given.schema else given.cast(schema)

    reader, held = withhold_errors(what, start, stop=stop), []
    while (batch := withhold_errors(what, lambda: next(reader, None), stop=stop)) is not None:
        held.append(batch)  # DuckDB returns at most what it reads at once
        rows, size = sum(part.num_rows for part in held), sum(part.nbytes for part in held)
        if most or rows >= BATCH_ROWS or size >= BATCH_BYTES:
            yield withhold_errors(what, partial(join_batches, held))
            held = []
    if held:
        yield withhold_errors(what, partial(join_batches, held))


def join_batches(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch of several with one schema, at least one."""
    if len(batches) == 1:
        return batches[0]
    columns = zip(*(batch.columns for batch in batches), strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.concat_arrays(parts) for parts in columns], schema=batches[0].schema
    )


@contextmanager
def _show_progress(cursor: DuckDBPyConnection, statement: str, wanted: bool) -> Iterator[None]:
    """Percent done, while a statement runs within a step that is shown."""
    if not wanted or not goes_on():
        yield
        return
    cursor.execute("SET enable_progress_bar = true")  # without it nothing is measured
    cursor.execute("SET enable_progress_bar_print = false")
    reading = share_of_reading(cursor, statement)
    with part("counting", done=percent_done(cursor.query_progress, reading)):
        yield
