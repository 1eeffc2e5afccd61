"""Sources as relations for statements, after checks of the connection; and database files."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Self

import duckdb
import pyarrow as pa
from duckdb import DuckDBPyConnection, DuckDBPyRelation

from dpframe._duck.connections import (
    ProcessDatabase,
    process_database,
    read_limits,
    readable_columns,
    released_database,
    run_interruptibly,
    set_limits,
    withhold_errors,
)
from dpframe.common.progress import goes_on, part
from dpframe.common.texts import identifier, literal
from dpframe.errors import SourceError

ORDERED = (
    "SELECT current_setting('preserve_insertion_order') AS \"kept\", "
    "current_setting('default_collation') AS \"collation\""
)


def check_row_order(setting: pa.Table) -> None:
    """Raise SourceError if the order of rows is left to chance, or if different texts are equal."""
    check_collation(setting["collation"][0].as_py())
    if not setting["kept"][0].as_py():
        raise SourceError(
            "the connection reads rows in any order, but a sketch needs the table's order. "
            "SET preserve_insertion_order = true first."
        )


def check_collation(name: str | None) -> None:
    """Raise SourceError for a default collation under which different texts are equal."""
    if name not in (None, "", "binary", "C", "c"):
        raise SourceError(
            "the connection has a default collation that makes different texts equal. "
            "RESET default_collation first."
        )


def operators(ask: Callable[[str], DuckDBPyRelation | None], statement: str) -> set[str]:
    """Names of the operators of a plan, as written and as it will run: optimising depends on the
    data, and can hide what the statement does."""

    def rows(query: str) -> list[tuple[Any, ...]]:
        answer = ask(query)
        return answer.fetchall() if answer is not None else []

    ((before, locked),) = rows(
        "SELECT current_setting('explain_output'), current_setting('lock_configuration')"
    )
    both = before.lower() == "all"
    if locked and not both:
        raise SourceError(
            "a sketch cannot see what the source does: the configuration is locked. "
            "SET explain_output = 'all' before locking it and pass a relation, or use "
            "mechanism='offline'."
        )
    if not both:
        rows("SET explain_output = 'all'")
    try:
        plans = rows(f"EXPLAIN (FORMAT json) {statement}")
    finally:
        if not both:
            rows(f"SET explain_output = {literal(before)}")
    plan = dict(plans)
    if not {"logical_plan", "physical_plan"} <= plan.keys():
        raise SourceError("DuckDB does not say what the source does. Use mechanism='offline'.")
    inlined = {"CTE", "CTE_SCAN"}  # unless they are in the plan that runs
    return (_operator_names(plan["logical_plan"]) - inlined) | _operator_names(
        plan["physical_plan"]
    )


def plan_operators(ask: Callable[[str], DuckDBPyRelation | None], statement: str) -> set[str]:
    """Names of the operators of a plan, as the connection explains it."""
    answer = ask(f"EXPLAIN (FORMAT json) {statement}")
    rows = answer.fetchall() if answer is not None else []
    return set().union(*(_operator_names(plan) for _, plan in rows))


def _operator_names(plan: str) -> set[str]:
    waiting, found = json.loads(plan), set()
    while waiting:
        node = waiting.pop()
        found.add(str(node["name"]))
        if "Sample Method" in node.get("extra_info", {}):  # of a scan that samples by itself
            found.add("SAMPLE")
        waiting.extend(node.get("children", ()))
    return found


READING = 0.9
"""What the steps before any grouping take of the whole, about."""

BREAKS = ("GROUP_BY", "AGGREGATE", "ORDER_BY", "WINDOW", "TOP_N", "DISTINCT")
"""Parts of names of operators that are read again when all rows have come."""

GROUPS = ("GROUP_BY", "AGGREGATE", "DISTINCT", "CTE_SCAN")


def share_of_reading(cursor: DuckDBPyConnection, statement: str) -> float:
    """The share that DuckDB will report when a statement is at its first grouping; 1 if unknown."""
    try:
        rows = cursor.execute(f"EXPLAIN (FORMAT json) {statement}").fetchall()
        steps = [step for root in json.loads(rows[-1][1]) for step in _plan_steps(root)]
        before = sum(weight for weight, grouped in steps if not grouped)
        return before / sum(weight for weight, _ in steps)
    except (duckdb.Error, ValueError, LookupError, TypeError, ArithmeticError):
        return 1.0  # another version's plan: DuckDB's percentage is shown as it is


def percent_done(said: Callable[[], float], reading: float) -> Callable[[], float]:
    """A function of what is done, in percent, from what DuckDB says, in percent."""

    def done() -> float:
        part = max(0.0, said()) / 100
        if reading >= 1 or reading <= 0:
            return 100 * part
        after = max(0.0, part - reading) / (1 - reading)
        return 100 * (READING * min(1.0, part / reading) + (1 - READING) * after)

    return done


def _plan_steps(node: dict[str, Any]) -> Iterator[tuple[int, bool]]:
    """Weights of what DuckDB counts as steps, and whether they come after a grouping."""
    children = node["children"]
    if not children or any(name in node["name"] for name in BREAKS):
        told = int(node["extra_info"].get("Estimated Cardinality") or 1)
        yield max(1, told), _follows_grouping(node)
    for child in children:
        yield from _plan_steps(child)


def _follows_grouping(node: dict[str, Any]) -> bool:
    return any(name in node["name"] for name in GROUPS) or any(
        map(_follows_grouping, node["children"])
    )


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
        if limits := read_limits():
            set_limits(con, limits)
        con.execute("SET enable_progress_bar_print = false")  # it would be among our own output
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


VIEW = "dpframe_source"
"""Name under which a statement finds its source."""

NUMBERED = "dpframe_numbered"
"""The table of the rows of a query with their numbers."""

RELATION = "the DuckDB relation"

REPEATED = {"SEQ_SCAN", "TABLE_SCAN", "PARQUET_SCAN", "READ_PARQUET"}
"""Operators that read what is stored; a reader of Arrow can be read once."""

COMPUTED = {"PROJECTION", "FILTER"}
"""Operators that compute from rows. A plan does not say by which functions."""

Pieces = Generator[pa.RecordBatch, None, None]
"""Some rows at a time."""


PLACE_BITS, PLACE_BYTES = 18, 2**24
"""Bits of keys that DuckDB groups by place, where it takes 12 by itself: 1e7 rows of 100,000 keys
are counted in 0.13 s of a processor instead of 0.27. More places do not stay in the cache."""


class Relation(ABC):
    """A source that a statement can read: public column names and types, and a way to run.

    ``what`` names it in errors, ``stop`` interrupts its connection.
    """

    columns: tuple[str, ...]
    types: tuple[str, ...]

    def __init__(self, what: str, stop: Callable[[], None] | None) -> None:
        self._what, self._stop = what, stop

    @abstractmethod
    def _ask(self, statement: str) -> DuckDBPyRelation | None:
        """Return what a statement selects from the source."""

    def _rows(self, statement: str) -> pa.Table:
        return withhold_errors(self._what, lambda: _arrow_rows(self._ask(statement)))

    @abstractmethod
    def query(self, statement: str, progress: bool) -> pa.Table:
        """The rows of a statement."""

    def group_by_place(self, sums: int) -> None:  # noqa: B027  the caller's connection stays as it is
        """Let statements with so many sums group by whole numbers whose statistics leave up to
        2**``PLACE_BITS`` keys in a table with a place for each, of ``PLACE_BYTES`` a thread at
        most. Rows come in another order then, with the same values."""

    def batches(self, statement: str) -> Iterator[pa.RecordBatch]:
        """Rows in the order of the source, a few at a time."""
        check_row_order(self._rows(ORDERED))
        return _read_batches(self._what, partial(self._ask, statement), self._stop)

    @abstractmethod
    def pieces(self, statement: str, progress: bool) -> Pieces:
        """Rows in any order, as they come. To be closed before another statement."""

    @abstractmethod
    def repeats(self, *, computed: bool = True) -> bool:
        """Whether it can be read again from its start, which costs only what is read then. Unless
        ``computed``, nothing computes its rows, so that random() cannot change them in between."""

    def reads_columns(self) -> bool:
        """Whether a column can be read alone, and each different value of it once in a while."""
        return False

    def operators(self, statement: str) -> set[str]:
        """Names of DuckDB's operators that a statement would use."""
        return withhold_errors(self._what, lambda: operators(self._ask, statement))

    @abstractmethod
    def restrict(self, condition: str) -> Relation:
        """The relation with only the rows for which a condition holds: SQL that fails on no row."""

    def __enter__(self) -> Self:
        return self

    @abstractmethod
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
            self._rows_sql = f"SELECT {columns} FROM {self._from}{where}"
            self._cursor.execute(f"CREATE OR REPLACE TEMP VIEW {VIEW} AS {self._rows_sql}")
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

    def derive(
        self, name: str, shown: str, rows: str, tables: Mapping[str, pa.Table], number: str | None
    ) -> OwnRelation:
        """The rows of a query over this relation as ``name``, with the columns ``shown``, and over
        tables. Takes the place of this relation.

        With ``number`` rows have a column of that name with their numbers. They are written down,
        so that each has one number whenever it is read.
        """

        def derived() -> str:
            self._ready()
            for table, content in tables.items():
                self._cursor.register(table, content)
            named = f"CREATE TEMP VIEW {identifier(name)} AS SELECT {shown} FROM ({self._rows_sql})"
            self._cursor.execute(named)
            if number is None:
                return f"({rows})"
            numbered = f"SELECT row_number() OVER () AS {identifier(number)}, * FROM ({rows})"
            self._cursor.execute(f"CREATE TEMP TABLE {NUMBERED} AS {numbered}")
            return NUMBERED

        self._from = withhold_errors(self._what, derived, stop=self._stop)
        self._make_view("")
        return self

    def _ready(self) -> None:
        if self._database is not None:
            self._database.ready()

    def _ask(self, statement: str) -> DuckDBPyRelation | None:
        self._ready()
        return self._cursor.sql(statement)

    def group_by_place(self, sums: int) -> None:
        if self._database is not None:
            bits = min(PLACE_BITS, (PLACE_BYTES // (8 + 24 * sums)).bit_length() - 1)
            self._cursor.execute(f"SET perfect_ht_threshold = {max(bits, 12)}")

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

    def repeats(self, *, computed: bool = True) -> bool:
        return self._database is not None  # a file or a frame, and no view of a caller

    def reads_columns(self) -> bool:
        return self._database is not None and "read_parquet(" in self._from

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

    def repeats(self, *, computed: bool = True) -> bool:
        try:
            used = withhold_errors(
                RELATION, lambda: plan_operators(self._ask, f"SELECT * FROM {VIEW}")
            )
        except SourceError:  # the first real reading will say what is wrong
            return False
        return used <= (REPEATED | COMPUTED if computed else REPEATED)

    def restrict(self, condition: str) -> GivenRelation:
        return GivenRelation(withhold_errors(RELATION, lambda: self._relation.filter(condition)))

    def __exit__(self, *error: object) -> None:
        """Leave the relation open, which is the caller's."""


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


KEPT_READINGS = 256
"""Parsed texts, written trees and bound statements that are kept: functions of public texts."""


def query_tree(text: str) -> dict[str, Any]:
    """The statements of a text as DuckDB parses them, or its ``error_message`` and ``position``.

    Nothing is looked up, and nothing runs. RecursionError if it is nested too deeply.
    """
    tree = _json_of("json_serialize_sql", text)
    if "max_expression_depth" in tree.get("error_message", ""):
        raise RecursionError
    return tree


def query_text(tree: Mapping[str, Any]) -> str:
    """The text of a tree that :func:`query_tree` returned, or of one that was made like it.
    RecursionError if it is nested too deeply."""
    try:
        (found,) = _one_row("SELECT json_deserialize_sql($1)", json.dumps(tree))
    except duckdb.SerializationException:
        raise RecursionError from None
    return str(found)


def _json_of(function: str, text: str) -> dict[str, Any]:
    (found,) = _one_row(f"SELECT {function}($1)", text)
    tree: dict[str, Any] = json.loads(found)
    return tree


@lru_cache(maxsize=KEPT_READINGS)  # tools send the same texts again and again
def _one_row(statement: str, value: str) -> tuple[Any, ...]:
    with process_database().connection.cursor() as cursor:
        row: tuple[Any, ...] = cursor.execute(statement, [value]).fetchall()[0]
        return row


def bound_columns(
    tables: Mapping[str, Mapping[str, str]], statement: str
) -> list[tuple[str, str]] | str:
    """Names and types of what a statement selects from empty tables, whose columns have names and
    types; or what DuckDB says against the statement. No row is at hand."""
    found = _bound_columns(tuple((name, *one.items()) for name, one in tables.items()), statement)
    return found if isinstance(found, str) else [*found]


@lru_cache(maxsize=KEPT_READINGS)
def _bound_columns(
    tables: tuple[tuple[Any, ...], ...], statement: str
) -> tuple[tuple[str, str], ...] | str:
    with released_database().cursor() as cursor:
        for name, *columns in tables:
            listed = ", ".join(f"{identifier(c)} {kind}" for c, kind in columns)
            cursor.execute(f"CREATE TEMP TABLE {identifier(name)} ({listed})")
        try:
            bound = cursor.sql(statement)  # DESCRIBE would plan and run a statement
            return tuple(zip(*_names_and_types(bound), strict=True))
        except duckdb.Error as error:
            return str(error).split("\n")[0].rstrip(".!")


def select_from_tables(tables: Mapping[str, pa.Table], statement: str, what: str) -> pa.Table:
    """What a statement selects from tables, in a database that reaches no file and no setting."""
    with released_database().cursor() as cursor:

        def run() -> pa.Table:
            for name, table in tables.items():
                cursor.register(name, table)
            return _arrow_rows(cursor.sql(statement))

        return withhold_errors(what, run, stop=cursor.interrupt)


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
