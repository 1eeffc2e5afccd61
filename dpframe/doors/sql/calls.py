"""Registered connections, and the arguments that macros pass."""

from __future__ import annotations

import datetime as dt
import re
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpframe import _duck
from dpframe.asking.privacy_receipt import Receipt
from dpframe.asking.question import Question
from dpframe.asking.release import DataScope
from dpframe.common.texts import identifier
from dpframe.counts import ListedNodes
from dpframe.errors import ParameterError, ParameterTypeError, SourceError
from dpframe.hierarchy import Hierarchy, as_hierarchy
from dpframe.ledger import Ledger
from dpframe.questions.question_list import QUESTIONS
from dpframe.sources import sql_tables
from dpframe.sources import sql_tables as sql_sources
from dpframe.sources.frames import require_columns
from dpframe.sources.keys import DOMAIN, listed_nodes
from dpframe.sources.sql_tables import SqlSource, table_source

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


NAMED: dict[str, Question[Any, Any]] = {question.name: question for question in QUESTIONS}

PARAMETERS = {"data", "release"}.union(*(question.plan_arguments for question in QUESTIONS)) - {
    "at_most"
}
"""Parameters of macros whose spelling in messages is changed. ``at_most`` is left out: it is also
an argument of measures, and in texts of measures it keeps its ``=``."""

IN_PYTHON = re.compile(rf"dp\.\w+\([^()]*\)|(?<![^\s(])({'|'.join(PARAMETERS)})=(?!=)(?=(.?))")
"""A call in Python, or an argument in Python's spelling with the character that follows."""


def as_parameters(message: str) -> str:
    """Rewrite the arguments in a message as a macro takes them: ``keys := [...]``."""

    def parameter(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0]
        return f"{found[1]} :=" + " " * (found[2] not in ("", " ", ",", ".", ":", ";"))

    return IN_PYTHON.sub(parameter, message)


SUBJECTS = {
    "by": "['country', 'city']",
    "column": "'page'",
    "hierarchy": "['country', 'city']",
}
"""What stands behind the table in a call, by its name in Python."""


def macro_arguments(
    question: Question[Any, Any], given: Mapping[str, object], session: Session, path: str
) -> dict[str, object]:
    """Return the planning arguments that are not NULL, as plain JSON types.

    Listed keys of a hierarchy are read while the statement is bound. The session keeps them for
    when the statement runs, and the arguments hold their name.
    """
    named = {name: given.get(name) for name in question.plan_arguments}
    subject, example = question.subject, SUBJECTS.get(question.subject)
    tbl = given.get("tbl")
    no_table = isinstance(tbl, list) or ":" in str(tbl)
    if example is not None and named.get(subject) is None and no_table:
        raise ParameterTypeError(
            f"{subject} is missing. The table comes first, as in dp_{question.name}('visits', "
            f"{example}, ...)."
        )
    listed = named.pop("keys") if _lists_nodes(question) and "keys" in named else None
    arguments = {name: as_json_types(value) for name, value in named.items() if value is not None}
    if listed is not None:
        hierarchy = as_hierarchy(arguments.get(question.subject))
        keys = _decimals_as_floats(listed)
        if isinstance(keys, str) and keys != DOMAIN:
            keys = _keys_in_table(keys, hierarchy, session, path)
        if isinstance(keys, list) and keys and all(isinstance(key, dict) for key in keys):
            keys = pa.Table.from_pylist(keys)
        nodes = listed_nodes(keys, hierarchy)
        session.listed[nodes.name] = nodes
        arguments["keys"] = nodes.name
    return arguments


def about_of(facts: Mapping[str, Any]) -> DataScope:
    """Return what a call says about its data: their state and the period."""
    return DataScope.of({"data": facts["data"], "period": facts["arguments"].get("period")})


def plan_call(
    question: Question[Any, Any], arguments: Mapping[str, object], session: Session
) -> Any:
    """Check the planning arguments of a call; return what the call asks for."""
    return question.plan(with_keys(question, arguments, session))


def with_keys(
    question: Question[Any, Any], arguments: Mapping[str, object], session: Session
) -> Mapping[str, object]:
    """Replace the name of listed keys by the keys, which the session has."""
    if _lists_nodes(question) and "keys" in arguments:
        return {**arguments, "keys": session.listed[str(arguments["keys"])]}
    return arguments


def _lists_nodes(question: Question[Any, Any]) -> bool:
    return question.subject in ("hierarchy", "by")


def _keys_in_table(name: str, hierarchy: Hierarchy, session: Session, path: str) -> pa.Table:
    con = session.open_connection()
    wanted = hierarchy.source_columns
    if _duck.describe_relation(con, table_source(name).relation, path) is None:
        raise ParameterError(
            f"keys ({name!r}) is no table that another connection sees. Name a committed table or "
            "view, or pass a list such as ['a', 'b'], or 'domain'."
        )
    with _duck.second_connection_relation(
        con, table_source(name).relation, path, f"keys ({name!r})"
    ) as rows:
        require_columns(wanted, rows.columns)
        chosen = ", ".join(map(identifier, wanted))
        return rows.query(f"SELECT {chosen} FROM {_duck.VIEW}", False)


def as_json_types(value: object) -> object:
    """Convert a value of DuckDB to plain JSON types."""
    if isinstance(value, Mapping):
        return {str(name): as_json_types(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json_types(item) for item in value]
    if isinstance(value, dt.date):  # and times
        return value.isoformat(" ") if isinstance(value, dt.datetime) else value.isoformat()
    return _decimals_as_floats(value)


def _decimals_as_floats(value: object) -> object:
    """Convert decimals to floats: DuckDB reads 1.0 in SQL as a DECIMAL."""
    if isinstance(value, list):
        return [_decimals_as_floats(item) for item in value]
    return float(value) if isinstance(value, Decimal) else value
