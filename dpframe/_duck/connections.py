"""Connections of the caller: functions for their SQL, and what they can say about a relation."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import duckdb
import pyarrow as pa
from duckdb import DuckDBPyConnection
from duckdb.func import ARROW, SPECIAL

from dpframe._duck.ctrl_c import run_interruptibly
from dpframe._duck.process_database import process_database
from dpframe._forks import renew_in_child
from dpframe._sql import literal


def add_functions(
    con: DuckDBPyConnection,
    texts: dict[str, Callable[..., str]],
    arrows: dict[str, tuple[Callable[..., pa.Array], str]],
) -> None:
    """Add scalar functions of any arguments, unless the database has them: ``texts`` return text,
    foldable while a statement is bound; ``arrows`` take and return Arrow arrays, run once a row.

    A cursor adds them, so that no transaction of the caller takes them back. It looks in the system
    schema, where no macro of the caller has one of their names.
    """
    with _functions_lock, con.cursor() as cursor:
        with suppress(duckdb.InvalidInputException):  # the configuration may be locked
            cursor.execute("SET search_path = 'system.main'")
        for name, text in texts.items():
            with _unless_there():
                cursor.create_function(name, text, None, "VARCHAR", null_handling=SPECIAL)
        for name, (arrow, kind) in arrows.items():
            with _unless_there():
                cursor.create_function(
                    name,
                    arrow,
                    None,
                    kind,
                    type=ARROW,
                    null_handling=SPECIAL,
                    side_effects=True,
                )


def sees_function(con: DuckDBPyConnection, name: str) -> bool:
    """Whether a connection sees a function that another cursor added.

    A transaction sees only what was there when it first used a function. A statement that calls
    one it does not see aborts it.
    """
    try:
        first, second = (con.execute("SELECT txid_current()").fetchone() for _ in range(2))
    except duckdb.TransactionException:  # it was aborted before
        return False
    if first != second:  # each statement is a transaction of its own
        return True
    listed = f"SELECT count(*) FROM duckdb_functions() WHERE function_name = {literal(name)}"
    (count,) = con.execute(listed).fetchone() or (0,)
    return bool(count)


@contextmanager
def _unless_there() -> Iterator[None]:
    """Ignore that a name exists already: trying it is far faster than listing what there is."""
    try:
        yield
    except duckdb.CatalogException as error:
        if "already exists" not in str(error):
            raise


_functions_lock = threading.Lock()
"""Held while functions are looked for and added: a database takes each name once."""


def _renew_lock() -> None:
    global _functions_lock
    _functions_lock = threading.Lock()


renew_in_child(_renew_lock)


_INSIDE = {
    "duckdb_engine": ("_ConnectionWrapper__c",),
    "ibis": ("con",),
    "sql": ("_connection_sqlalchemy",),  # jupysql
    "sqlalchemy": ("driver_connection", "connection"),
}
"""Where objects of other packages, which dpframe does not import, keep a connection."""


def connection_in(given: object) -> DuckDBPyConnection | None:
    """A connection itself, the default one of the module, or the one that an object holds."""
    if given is duckdb:
        return duckdb.default_connection()
    for _ in range(4):  # jupysql holds one of SQLAlchemy, which holds one of duckdb_engine
        if isinstance(given, DuckDBPyConnection):
            return given
        names = _INSIDE.get(type(given).__module__.split(".")[0], ())
        try:
            given = next((getattr(given, name) for name in names if hasattr(given, name)), None)
        except Exception:  # a closed connection of SQLAlchemy
            return None
    return given if isinstance(given, DuckDBPyConnection) else None


def is_open(con: DuckDBPyConnection) -> bool:
    """Whether a connection takes statements."""
    try:
        con.cursor().close()
    except duckdb.ConnectionException:
        return False
    return True


def is_default(con: DuckDBPyConnection) -> bool:
    """Whether a connection is the one of ``duckdb.sql``, which lives on when its object is gone.

    This call starts that connection with its threads if nothing has: a fork then meets them.
    """
    return con is duckdb.default_connection()


def type_name(text: str) -> str | None:
    """DuckDB's own name of a type; None if it has none."""
    try:
        return str(process_database().connection.sqltype(text))
    except duckdb.Error:
        return None


def run_script(con: DuckDBPyConnection, script: str) -> None:
    """Run statements of ours."""
    run_interruptibly(lambda: con.execute(script))


def describe_relation(
    con: DuckDBPyConnection, relation: str, search_path: str
) -> list[tuple[object, ...]] | None:
    """Rows of DESCRIBE from a second connection to the same database; None if it cannot say."""
    try:
        with con.cursor() as cursor:
            if search_path:
                cursor.execute(f"SET search_path = {literal(search_path)}")
            wanted = f"DESCRIBE SELECT * FROM {relation}"
            return run_interruptibly(lambda: cursor.execute(wanted).fetchall())
    except duckdb.Error:
        return None


def is_one_select(text: str) -> bool:
    """Whether DuckDB parses a text as one SELECT statement without parameters."""
    try:
        found = process_database().connection.extract_statements(text)
    except duckdb.Error:
        return False
    select = duckdb.StatementType.SELECT
    return len(found) == 1 and found[0].type == select and not found[0].named_parameters
