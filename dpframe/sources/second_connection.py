"""Refuse sources of SQL that a second connection does not see, or hand them over as rows.

A second connection to the same database sees only what is committed there: no temporary table, no
registered frame and no CTE of the statement.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpframe._sql import identifier, literal
from dpframe.sources.sql_sources import SqlSource
from dpframe.sources.sql_tables import SOURCE


def unseen_source_sql(source: SqlSource, what: str, instead: str) -> str:
    """A statement that always fails: with DuckDB's error if the source does not exist, else with a
    message. The message says that ``what`` reads on a second connection, and that a source that is
    not seen there is read ``instead``."""
    refused = literal(
        f"{what} reads on a second connection, which does not see the source. Temporary tables, "
        f"registered frames and uncommitted tables are read {instead}."
    )
    return f"SELECT error({refused}) FROM (SELECT count(*) FROM {source.relation})"


def visible_relation_sql(source: SqlSource, what: str) -> str:
    """A query of one row: the text of a source as ``relation``, and the ``settings`` that a second
    connection must share. The query fails if the text uses the name of a temporary relation of this
    connection, which the second connection does not see."""
    words = "false" if source.qualified else f"regexp_matches({literal(source.relation)}, {NAMED})"
    settings = f"SELECT list({{'name': name, 'value': value}}) FROM duckdb_settings() {SHARED}"
    refused = literal(
        f"{what} reads on a second connection, where your temporary table or registered frame is "
        "another table. Write temp.NAME, or rename one of them."
    )
    return (
        f"SELECT CASE WHEN count(*) > 0 THEN error({refused}) ELSE {literal(source.relation)} END "
        f"AS relation, ({settings}) AS settings FROM ("
        "SELECT table_name AS name FROM duckdb_tables() WHERE temporary "
        "UNION ALL SELECT view_name FROM duckdb_views() WHERE temporary AND NOT internal) "
        f"WHERE {words}"
    )


SHARED = "WHERE name IN ('TimeZone', 'Calendar')"
"""Settings that decide the day in a view that casts times with a zone. With other settings, a
second connection could count a record in another period than a statement of this connection."""

NAMED = "'(^|\\W)' || regexp_escape(name) || '(\\W|$)', 'i'"
"""Arguments of regexp_matches that find a name as a whole word."""


def rows_as_list_sql(columns: Sequence[str]) -> str:
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
"""Types of DuckDB whose values change in Arrow, or do not exist there."""

CAST_FIRST = (
    ", which cannot be handed over from a table that only this connection sees. Cast the column to "
    "BIGINT, DOUBLE or VARCHAR, or commit the table."
)
