"""Quoting: the only place where text becomes part of a SQL statement."""

from __future__ import annotations


def identifier(name: str) -> str:
    """A quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A quoted string."""
    return "'" + text.replace("'", "''") + "'"


def ascending(*columns: str, nulls: str = "LAST") -> str:
    """What stands behind ORDER BY: a connection can have other defaults than DuckDB."""
    return ", ".join(f"{column} ASC NULLS {nulls}" for column in columns)
