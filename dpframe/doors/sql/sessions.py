"""Registered connections, and the sources that their statements name."""

from __future__ import annotations

import itertools
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dpframe import _duck
from dpframe.asking.privacy_receipt import Receipt
from dpframe.errors import ParameterError, SourceError
from dpframe.ledger import Ledger
from dpframe.sources import sql_sources, sql_tables
from dpframe.sources.sql_sources import SqlSource
from dpframe.tree import ListedNodes

if TYPE_CHECKING:
    from dpframe._duck import DuckDBPyConnection


@dataclass(eq=False, slots=True)
class Session:
    """The state of a registered connection. A session keeps only duckdb's default connection
    open."""

    connection: weakref.ref[DuckDBPyConnection]
    ledger: Ledger | None
    kept: DuckDBPyConnection | None = None
    receipts: list[tuple[Receipt, str]] = field(default_factory=list)
    listed: dict[str, ListedNodes] = field(default_factory=dict)

    def open_connection(self) -> DuckDBPyConnection:
        """Return the connection; SourceError if it is closed."""
        con = self.connection()
        if con is None:
            raise SourceError("this connection is closed. Register an open one.")
        return con


sessions: dict[str, Session] = {}
tokens = itertools.count(1)


def session_of(token: str) -> Session:
    session = sessions.get(token)
    if session is None:
        raise SourceError(
            "this connection is no longer registered. Call dpframe.register(con), or "
            "dpframe.register(duckdb) for duckdb.sql."
        )
    return session


def statement_source(tbl: object, query: object) -> SqlSource:
    if query is None:
        return sql_sources.table_source(tbl)
    if tbl is not None:
        raise ParameterError("tbl and query are both given. Pass tbl := NULL with query :=.")
    return sql_sources.query_source(query, _duck.is_one_select)


def columns_seen(session: Session, path: str, source: SqlSource) -> list[tuple[str, str]] | None:
    """Return names and types of a source's columns as a second connection sees them; None if it
    does not see the source."""
    con = session.connection()
    described = _duck.describe_relation(con, source.relation, path) if con is not None else None
    return None if described is None else sql_tables.described_columns(described)
