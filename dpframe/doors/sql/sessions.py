"""Registered connections, and the plan that the arguments of a macro ask for."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpframe import _duck
from dpframe._sql import identifier
from dpframe.asking.question import Question
from dpframe.asking.receipt import Receipt
from dpframe.errors import ParameterError, SourceError
from dpframe.hierarchy import Hierarchy, as_hierarchy
from dpframe.ledger import Ledger
from dpframe.questions import QUESTIONS
from dpframe.sources import sql_tables
from dpframe.sources.columns import require
from dpframe.sources.keys import DOMAIN, listed_nodes
from dpframe.sources.sql_tables import SqlSource, table_source
from dpframe.tree import ListedNodes

if TYPE_CHECKING:
    from dpframe._duck import DuckDBPyConnection


KINDS: dict[str, Question[Any, Any]] = {question.name: question for question in QUESTIONS}
"""What macros ask; they pass planning arguments in the order of the declaration."""


@dataclass(eq=False, slots=True)
class Session:
    """What one registered connection knows. It keeps none open, but for duckdb's default one."""

    connection: weakref.ref[DuckDBPyConnection]
    ledger: Ledger | None
    kept: DuckDBPyConnection | None = None
    receipts: list[tuple[Receipt, str]] = field(default_factory=list)
    listed: dict[str, ListedNodes] = field(default_factory=dict)

    def opened(self) -> DuckDBPyConnection:
        """The connection, while it is open."""
        con = self.connection()
        if con is None:
            raise SourceError("this connection is closed.")
        return con

    def ledger_for(self, name: str) -> Ledger:
        """The ledger that keeps a release under a name."""
        if self.ledger is None:
            raise ParameterError(
                f"release := {name!r} needs a ledger, which keeps the result: "
                "dpframe.register(con, ledger=...)."
            )
        return self.ledger


sessions: dict[str, Session] = {}
tokens = itertools.count(1)


def session_of(token: str) -> Session:
    session = sessions.get(token)
    if session is None:
        raise SourceError(
            "this connection is no longer registered: call dpframe.register(con), or "
            "dpframe.register(duckdb) for that of duckdb.sql."
        )
    return session


def plan_of(kind: str, arguments: Mapping[str, object], session: Session) -> Any:
    """What a call asks for: its arguments as ``arguments_of`` gave them; NULL is the default."""
    given = {name: value for name, value in arguments.items() if value is not None}
    if isinstance(given.get("keys"), str):
        given["keys"] = session.listed[str(given["keys"])]
    return KINDS[kind].plan(given)


def arguments_of(
    kind: str, given: tuple[object, ...], session: Session, path: str
) -> dict[str, object]:
    """Arguments by name as plain JSON types. A list of keys is kept in the session: it is read
    while the statement is bound, and used again when it runs."""
    arguments = dict(zip(KINDS[kind].planning, map(plain, given), strict=True))
    keys = arguments.get("keys")
    if keys is not None:
        hierarchy = as_hierarchy(arguments["hierarchy"])
        if isinstance(keys, str) and keys != DOMAIN:
            keys = _keys_in_table(keys, hierarchy, session, path)
        if isinstance(keys, list) and keys and all(isinstance(key, dict) for key in keys):
            keys = pa.Table.from_pylist(keys)
        listed = listed_nodes(keys, hierarchy)
        session.listed[listed.name] = listed
        arguments["keys"] = listed.name
    return arguments


def _keys_in_table(name: str, hierarchy: Hierarchy, session: Session, path: str) -> pa.Table:
    con = session.opened()
    wanted = hierarchy.source_columns
    if _duck.describe(con, table_source(name).relation, path) is None:
        raise ParameterError(
            f"keys ({name!r}) is no table that another connection sees: name a table or view that "
            "is committed, pass a list such as ['a', 'b'], or 'domain'."
        )
    with _duck.beside(con, table_source(name).relation, path, f"keys ({name!r})") as rows:
        require(wanted, rows.columns)
        chosen = ", ".join(map(identifier, wanted))
        return rows.query(f"SELECT {chosen} FROM {_duck.VIEW}", False)


def plain(value: object) -> object:
    """DuckDB writes 1.0 as a DECIMAL; for the rest of dpframe numbers are numbers."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    return float(value) if isinstance(value, Decimal) else value


def source_of(tbl: object, query: object) -> SqlSource:
    if query is None:
        return sql_tables.table_source(tbl)
    if tbl is not None:
        raise ParameterError("tbl and query are both given: pass one, tbl := NULL with query :=.")
    return sql_tables.query_source(query, _duck.is_one_select)


def described_by(session: Session, path: str, source: SqlSource) -> list[tuple[str, str]] | None:
    """Columns as a second connection sees them; None if it does not see the relation."""
    con = session.connection()
    described = _duck.describe(con, source.relation, path) if con is not None else None
    return None if described is None else sql_tables.columns_of(described)


def no_connection(given: object) -> str:
    """What to pass instead."""
    kind = type(given)
    if kind.__module__.startswith("sqlalchemy.") and kind.__name__.endswith("Engine"):
        return (
            "con is an engine, which opens connections as it needs them, and each is registered by "
            "itself. Before its first use: @sqlalchemy.event.listens_for(engine, 'connect') above "
            "def registered(con, record): dpframe.register(con, ledger=...)."
        )
    if kind.__module__.startswith("sql.") and kind.__name__ == "DBAPIConnection":
        return (
            "con runs every statement on a cursor of its own, which would have to be registered: "
            "connect jupysql by SQLAlchemy, as in %sql duckdb:///file.db, and register that."
        )
    return (
        "con must be an open DuckDB connection, as from duckdb.connect(), the module duckdb for "
        "its default one, or a connection of SQLAlchemy, ibis or jupysql that holds one; got "
        f"{kind.__name__}."
    )
