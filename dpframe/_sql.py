"""Quoting: the only place where text becomes part of a SQL statement."""

from __future__ import annotations


def identifier(name: str) -> str:
    """A quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A quoted string."""
    return "'" + text.replace("'", "''") + "'"
