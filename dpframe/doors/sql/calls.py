"""What a macro is called with: planning arguments by name, and what they ask for."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa

from dpframe import _duck
from dpframe._sql import identifier
from dpframe.asking.about import About
from dpframe.asking.question import Question
from dpframe.doors.sql.sessions import Session
from dpframe.errors import ParameterError
from dpframe.hierarchy import Hierarchy, as_hierarchy
from dpframe.questions.listed import QUESTIONS
from dpframe.sources.columns import require
from dpframe.sources.keys import DOMAIN, listed_nodes
from dpframe.sources.sql_sources import table_source

NAMED: dict[str, Question[Any, Any]] = {question.name: question for question in QUESTIONS}

PARAMETERS = {"data", "release"}.union(*(question.planning for question in QUESTIONS)) - {"at_most"}
"""Of macros; ``at_most`` is one of measures too, whose texts have ``=``."""

IN_PYTHON = re.compile(rf"dp\.\w+\([^()]*\)|(?<![^\s(])({'|'.join(PARAMETERS)})=(?!=)(?=(.?))")
"""A call of Python, or an argument as Python writes it, and what follows."""


def as_parameters(message: str) -> str:
    """A message with arguments as a macro takes them: ``keys := [...]``."""

    def parameter(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0]
        return f"{found[1]} :=" + " " * (found[2] not in ("", " ", ",", ".", ":", ";"))

    return IN_PYTHON.sub(parameter, message)


def arguments_of(
    question: Question[Any, Any], given: Mapping[str, object], session: Session, path: str
) -> dict[str, object]:
    """Planning arguments that are not NULL, which stands for the default, as plain JSON types.

    Keys of a hierarchy are kept in the session: they are read while the statement is bound, and
    used again when it runs.
    """
    named = {name: given.get(name) for name in question.planning}
    listed = named.pop("keys") if _lists_nodes(question) and "keys" in named else None
    arguments = {name: plain(value) for name, value in named.items() if value is not None}
    if listed is not None:
        hierarchy = as_hierarchy(arguments.get(question.about))
        keys = _numbers(listed)
        if isinstance(keys, str) and keys != DOMAIN:
            keys = _keys_in_table(keys, hierarchy, session, path)
        if isinstance(keys, list) and keys and all(isinstance(key, dict) for key in keys):
            keys = pa.Table.from_pylist(keys)
        nodes = listed_nodes(keys, hierarchy)
        session.listed[nodes.name] = nodes
        arguments["keys"] = nodes.name
    return arguments


def about_of(facts: Mapping[str, Any]) -> About:
    """What a call says of its data: a state, a period."""
    return About.of({"data": facts["data"], "period": facts["arguments"].get("period")})


def asked_by(
    question: Question[Any, Any], arguments: Mapping[str, object], session: Session
) -> Any:
    """What a call asks for, its arguments as ``arguments_of`` gave them."""
    return question.plan(with_keys(question, arguments, session))


def with_keys(
    question: Question[Any, Any], arguments: Mapping[str, object], session: Session
) -> Mapping[str, object]:
    """Arguments with the keys that the session has for them."""
    if _lists_nodes(question) and "keys" in arguments:
        return {**arguments, "keys": session.listed[str(arguments["keys"])]}
    return arguments


def _lists_nodes(question: Question[Any, Any]) -> bool:
    return question.about in ("hierarchy", "by")


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
    """A value of DuckDB as one of JSON."""
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dt.date):  # and times
        return value.isoformat(" ") if isinstance(value, dt.datetime) else value.isoformat()
    return _numbers(value)


def _numbers(value: object) -> object:
    """DuckDB writes 1.0 as a DECIMAL; for the rest of dpframe numbers are numbers."""
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    return float(value) if isinstance(value, Decimal) else value
