"""Registered connections, and the sources that their statements name."""

from __future__ import annotations

import itertools
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dpframe import _duck
from dpframe.asking.receipt import Receipt
from dpframe.errors import ParameterError, SourceError
from dpframe.ledger import Ledger
from dpframe.sources import sql_sources, sql_tables
from dpframe.sources.sql_sources import SqlSource
from dpframe.tree import ListedNodes

if TYPE_CHECKING:
    from dpframe._duck import DuckDBPyConnection


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


def source_of(tbl: object, query: object) -> SqlSource:
    if query is None:
        return sql_sources.table_source(tbl)
    if tbl is not None:
        raise ParameterError("tbl and query are both given: pass one, tbl := NULL with query :=.")
    return sql_sources.query_source(query, _duck.is_one_select)


def described_by(session: Session, path: str, source: SqlSource) -> list[tuple[str, str]] | None:
    """Columns as a second connection sees them; None if it does not see the relation."""
    con = session.connection()
    described = _duck.describe(con, source.relation, path) if con is not None else None
    return None if described is None else sql_tables.columns_of(described)


def no_connection(given: object) -> str:
    """What to pass instead."""
    kind = type(given)
    if kind.__module__.startswith("sql.") and kind.__name__ == "DBAPIConnection":
        return (
            "con runs every statement on a cursor of its own, which would have to be registered: "
            "connect jupysql by SQLAlchemy, as in %sql duckdb:///file.db, and register that."
        )
    return (
        "con must be an open DuckDB connection, as from duckdb.connect(), the module duckdb for "
        "its default one, or an engine or connection of SQLAlchemy, ibis or jupysql that holds "
        "one; got "
        f"{kind.__name__}."
    )
