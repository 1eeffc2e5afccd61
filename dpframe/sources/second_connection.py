"""Sources of SQL that a second connection reads, or does not see: refused, or handed over as rows.

A second connection to the same database sees what is committed there: no temporary table, no
registered frame and no CTE of the statement.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpframe._sql import identifier, literal
from dpframe.sources.sql_sources import SqlSource
from dpframe.sources.sql_tables import SOURCE


def not_seen(source: SqlSource, what: str, instead: str) -> str:
    """A statement that fails: as DuckDB says if there is no such source, else with what reads it
    on a second connection, and how it is read instead."""
    refused = literal(
        f"{what} reads the source on a second connection, which does not see it: temporary "
        f"tables, registered frames and tables that are not committed are read {instead}."
    )
    return f"SELECT error({refused}) FROM (SELECT count(*) FROM {source.relation})"


def relation_seen(source: SqlSource, what: str) -> str:
    """One row with the text of a source as ``relation``, for a second connection, and ``settings``
    that it must share; an error where a temporary relation of this connection, which that one does
    not see, has a name that is used."""
    words = "false" if source.qualified else f"regexp_matches({literal(source.relation)}, {NAMED})"
    settings = f"SELECT list({{'name': name, 'value': value}}) FROM duckdb_settings() {SHARED}"
    refused = literal(
        f"{what} reads the source on a second connection, which would read another table than your "
        "temporary table or registered frame of that name: write temp.NAME, or give one of them "
        "another name."
    )
    return (
        f"SELECT CASE WHEN count(*) > 0 THEN error({refused}) ELSE {literal(source.relation)} END "
        f"AS relation, ({settings}) AS settings FROM ("
        "SELECT table_name AS name FROM duckdb_tables() WHERE temporary "
        "UNION ALL SELECT view_name FROM duckdb_views() WHERE temporary AND NOT internal) "
        f"WHERE {words}"
    )


SHARED = "WHERE name IN ('TimeZone', 'Calendar')"
"""Settings that say which day it is in a view that casts times with a zone: a second connection has
its own, and would count a record in another period than a statement of this one."""

NAMED = "'(^|\\W)' || regexp_escape(name) || '(\\W|$)', 'i'"
"""Arguments of regexp_matches: a name as a word of its own."""


def as_list(columns: Sequence[str]) -> str:
    """SQL of all rows of a source as one list of structs, for Python."""
    names = dict.fromkeys(columns)
    packed = ", ".join(f"{identifier(c)} := {SOURCE}.{identifier(c)}" for c in names)
    changed = " ".join(
        f"WHEN NOT starts_with({kind}, 'ENUM(') AND regexp_matches({kind}, {literal(CHANGED)}) "
        f"THEN error({literal(f'column {c!r} has type ')} || {kind} || {literal(CAST_FIRST)})"
        for c in names
        for kind in [f"typeof(any_value({SOURCE}.{identifier(c)}))"]
    )
    return f"CASE {changed} ELSE list(struct_pack({packed})) END"


CHANGED = r"\b(U?HUGEINT|BIT|BIGNUM|VARIANT|UNION|GEOMETRY|TIME WITH TIME ZONE)\b"
"""Types of DuckDB whose values are others in Arrow, or none."""

CAST_FIRST = (
    ", whose values cannot be handed over from a table that only this connection sees: cast the "
    "column, to BIGINT, DOUBLE or VARCHAR, or commit the table."
)
