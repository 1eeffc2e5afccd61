"""Turn a caller's tables and queries into text that a statement reads."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from dpframe._sql import identifier
from dpframe.errors import ParameterError, ParameterTypeError

PART = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([^".]+?))\s*(\.|$)')


@dataclass(frozen=True, slots=True)
class SqlSource:
    """A relation as SQL text, and its public description."""

    relation: str
    described: str
    qualified: bool = False
    """Whether the name includes the schema or database."""


def table_source(name: object) -> SqlSource:
    """A table, view or registered frame from its name: parts separated by dots, quoted or not."""
    if name is None:
        raise ParameterError("tbl is missing. Name a table, or pass query :=.")
    if not isinstance(name, str):
        raise ParameterTypeError(f"tbl must be a table's name as text; got {name!r}.")
    parts, at = [], 0
    while at < len(name):
        found = PART.match(name, at)
        if found is None or (found[3] == "." and found.end() == len(name)):
            break
        parts.append(found[1].replace('""', '"') if found[1] is not None else found[2])
        at = found.end()
    if not parts or at < len(name) or len(parts) > 3:
        raise ParameterError(
            f"tbl ({name!r}) is no name of a table. Write name, schema.name or "
            'database.schema.name, parts with dots or quotes in "double quotes".'
        )
    quoted = ".".join(map(identifier, parts))
    return SqlSource(quoted, f"table {quoted}", len(parts) > 1)


def query_source(query: object, is_one_select: Callable[[str], bool]) -> SqlSource:
    """A query of the caller as a relation; the line break behind the text ends a comment in it."""
    if not isinstance(query, str):
        raise ParameterTypeError(f"query must be the text of a SELECT; got {query!r}.")
    text = re.sub(r"[;\s]+$", "", query.strip())
    relation = f"({text}\n)"
    if not (is_one_select(text) and is_one_select(f"FROM {relation}")):
        raise ParameterError("query must be one SELECT that DuckDB parses, without parameters.")
    return SqlSource(relation, f"query {text}")
