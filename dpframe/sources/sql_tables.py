"""Tables named in SQL text: quoting, columns, and values to read whatever their types are.

A macro's SQL is written while the statement is bound, and asks a second connection for columns and
types. That connection does not see temporary tables and registered frames of the first one, nor
what an open transaction did. Where nobody knows a type, values are read as text: the same nodes,
more slowly. A type that is known is checked when the statement is bound on the first connection.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dpframe._sql import identifier, literal
from dpframe.budget import PrivacyUnit
from dpframe.errors import ColumnError, ParameterError, ParameterTypeError
from dpframe.hierarchy import Hierarchy
from dpframe.hierarchy._base import in_utc
from dpframe.sources.columns import require
from dpframe.sources.keys import check_key_types
from dpframe.sources.relations import canonical
from dpframe.sources.rollup_sql import rollup_sql
from dpframe.sources.weights import check_weight_type, most, weight_sql
from dpframe.tree import ListedNodes

PART = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([^".]+?))\s*(\.|$)')

SOURCE = "source_rows"
"""What the generated SQL calls the relation."""

TYPED = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT"),
    *("UINTEGER", "UBIGINT", "UHUGEINT", "DECIMAL", "DATE", "TIMESTAMP", "TIMESTAMP_S"),
    *("TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS", "UUID"),
)
"""DuckDB's types, without parameters, that are read faster as they are than as text."""

TYPES = (
    *(*TYPED, "FLOAT", "DOUBLE", "VARCHAR", "ENUM", "JSON", "BLOB", "BIT", "TIME", "TIME_NS"),
    *("TIME WITH TIME ZONE", "INTERVAL", "STRUCT", "MAP", "UNION", "BIGNUM", "VARIANT", '"NULL"'),
)
"""DuckDB's types, without parameters, for asking a hierarchy which ones it reads."""

ELSEWHERE = (
    "It was looked up as other connections see it: write temp.NAME for a temporary table, and "
    "commit changes to the table first."
)

COMMITTED = "It is read as other connections see it: commit changes to the table first."


@dataclass(frozen=True, slots=True)
class SqlSource:
    """A relation as SQL text, and what is said of it publicly."""

    relation: str
    described: str


def table_source(name: object) -> SqlSource:
    """A table, view or registered frame from its name: parts separated by dots, quoted or not."""
    if name is None:
        raise ParameterError(
            "tbl is missing: give the name of a table, view or registered frame, or query :=."
        )
    if not isinstance(name, str):
        raise ParameterTypeError(f"tbl must be the name of a table, as text; got {name!r}.")
    parts, at = [], 0
    while at < len(name):
        found = PART.match(name, at)
        if found is None or (found[3] == "." and found.end() == len(name)):
            break
        parts.append(found[1].replace('""', '"') if found[1] is not None else found[2])
        at = found.end()
    if not parts or at < len(name) or len(parts) > 3:
        raise ParameterError(
            f"tbl ({name!r}) must be the name of a table: name, schema.name or "
            'database.schema.name, parts with dots or quotes in "double quotes".'
        )
    quoted = ".".join(map(identifier, parts))
    return SqlSource(quoted, f"table {quoted}")


def query_source(query: object, is_one_select: Callable[[str], bool]) -> SqlSource:
    """A query of the caller as a relation; the line break ends a comment in it."""
    if not isinstance(query, str):
        raise ParameterTypeError(f"query must be the text of a SELECT; got {query!r}.")
    text = re.sub(r"[;\s]+$", "", query.strip())
    relation = f"({text}\n)"
    if not (is_one_select(text) and is_one_select(f"FROM {relation}")):
        raise ParameterError(
            "query must be one SELECT statement that DuckDB can parse, without parameters."
        )
    return SqlSource(relation, f"query {text}")


def statement(
    source: SqlSource,
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    *,
    band: int,
    seed: int,
    columns: list[tuple[str, str]] | None,
    only: ListedNodes | None = None,
) -> str:
    """The rollup of a source; ``columns`` are its names and types, None if nobody could say."""
    user = [unit.user] if unit.user is not None else []
    wanted = list(dict.fromkeys([*hierarchy.source_columns, *user]))
    seen = {} if columns is None else _seen(wanted, hierarchy, columns, ELSEWHERE, unit.weight)
    if seen and only is not None:
        check_key_types(only, hierarchy, tuple(seen[c] for c in hierarchy.source_columns))
    read = {c: _read(c, seen.get(c), hierarchy) for c in wanted}
    chosen = [f"{sql} AS {identifier(c)}" for c, (sql, _) in read.items()]
    if unit.weight is not None:  # under a name of its own: it can be a level, too
        weight = weight_sql(f"{SOURCE}.{identifier(unit.weight)}", unit.weight, most(unit))
        unit = replace(unit, weight=_free("w", wanted))
        chosen.append(f"{weight} AS {unit.weight}")
    return rollup_sql(
        hierarchy,
        unit,
        band=band,
        types=tuple(read[c][1] for c in hierarchy.source_columns),
        user_type=read[unit.user][1] if unit.user is not None else None,
        seed=seed,
        view=f"(SELECT {', '.join(chosen)} FROM {source.relation} AS {SOURCE})",
        only=only,
    )


def level_types(hierarchy: Hierarchy, columns: list[tuple[str, str]] | None) -> tuple[str, ...]:
    """Types of the columns that are levels; none for other kinds, and where nobody could say."""
    seen = dict(columns or ())
    if not hierarchy.label_columns or not set(hierarchy.source_columns) <= seen.keys():
        return ()
    return tuple(canonical(seen[c]) for c in hierarchy.source_columns)


def _free(name: str, taken: Sequence[str]) -> str:
    while name in {other.lower() for other in taken}:
        name += "_"
    return name


def check_stored(hierarchy: Hierarchy, unit: PrivacyUnit, columns: list[tuple[str, str]]) -> None:
    """Raise ColumnError if a source, which another connection reads, has not the columns."""
    user = [unit.user] if unit.user is not None else []
    _seen([*hierarchy.source_columns, *user], hierarchy, columns, COMMITTED)


def not_seen(source: SqlSource, what: str, instead: str) -> str:
    """A statement that fails: as DuckDB says if there is no such source, else with what reads it
    on a second connection, and how it is read instead."""
    refused = literal(
        f"{what} reads the source on a second connection, which does not see it: temporary "
        f"tables, registered frames and tables that are not committed are read {instead}."
    )
    return f"SELECT error({refused}) FROM (SELECT count(*) FROM {source.relation})"


def _seen(
    wanted: Sequence[str],
    hierarchy: Hierarchy,
    columns: list[tuple[str, str]],
    where: str,
    weight: str | None = None,
) -> dict[str, str]:
    """Types by name, after a check that the wanted ones are there and can be read."""
    seen = {name: canonical(t) for name, t in columns}
    try:
        require([*wanted, *([weight] if weight is not None else [])], [name for name, _ in columns])
        hierarchy.check_types(tuple(seen[c] for c in hierarchy.source_columns))
        if weight is not None:
            check_weight_type(weight, seen[weight])
    except ColumnError as error:
        raise ColumnError(f"{error} {where}") from None
    return seen


def _read(column: str, seen: str | None, hierarchy: Hierarchy) -> tuple[str, str]:
    """SQL of a column's values, and its type; ``seen`` is the type that the table seems to have."""
    name = f"{SOURCE}.{identifier(column)}"
    in_hierarchy = column in hierarchy.source_columns
    if in_hierarchy and hierarchy.kind == "number":
        return f"TRY_CAST({name} AS DOUBLE)", "DOUBLE"
    if in_hierarchy and hierarchy.reads_text:
        return _as_text(name), "VARCHAR"
    if seen is not None and seen.split("(")[0] in TYPED:
        return _still(column, name, seen), seen
    utc = _zoned_as_text(name)
    if in_hierarchy and hierarchy.kind == "date":
        utc = f"{utc} || '+00'"  # which a text has to say, if the hierarchy names a zone
    text = f"CASE WHEN {_is_zoned(name)} THEN {utc} ELSE {_as_text(name)} END"
    if in_hierarchy:
        text = _unless_refused(name, text, hierarchy)
    return text, "VARCHAR"


def _still(column: str, name: str, duckdb_type: str) -> str:
    """The column, if it has the type that was seen; decided when the statement is bound."""
    other = literal(
        f"column {column!r} is {duckdb_type} for other connections and has another type here: "
        "commit changes to the table first, or name the table in full, such as temp.NAME."
    )
    return (
        f"CASE WHEN typeof({name}) = {literal(duckdb_type)} "
        f"THEN TRY_CAST({name} AS {duckdb_type}) ELSE error({other}) END"
    )


def _unless_refused(name: str, text: str, hierarchy: Hierarchy) -> str:
    """``text``, or the hierarchy's own words about a type that it does not read."""
    width = len(hierarchy.source_columns)
    try:
        hierarchy.check_types((UNKNOWN,) * width)
    except ColumnError as error:
        before, after = (literal(part) for part in str(error).split(UNKNOWN, 1))
    else:
        return text
    outer = f"split_part(typeof({name}), '(', 1)"
    read = ", ".join(literal(t) for t in TYPES if _reads(hierarchy, (t,) * width))
    return (
        f"CASE WHEN {outer} IN ({read}) AND NOT ends_with(typeof({name}), ']') THEN {text} "
        f"ELSE error({before} || {outer} || {after}) END"
    )


UNKNOWN = "\ufffc"
"""Stands for a type that no hierarchy knows."""


def _reads(hierarchy: Hierarchy, types: tuple[str, ...]) -> bool:
    try:
        hierarchy.check_types(types)
    except ColumnError:
        return False
    return True


def _as_text(name: str) -> str:
    """Any value as text: what ``hierarchy.text_of`` writes, with the type asked of DuckDB."""
    text, number = f"CAST({name} AS VARCHAR)", f"TRY_CAST({name} AS DOUBLE)"
    return (
        f"CASE WHEN typeof({name}) IN ('DOUBLE', 'FLOAT') THEN "
        f"CASE WHEN isnan({number}) THEN NULL "
        f"WHEN {number} = trunc({number}) AND abs({number}) <= {2**53} "
        f"THEN CAST(TRY_CAST({number} AS BIGINT) AS VARCHAR) ELSE {text} END "
        f"ELSE {text} END"
    )


def _is_zoned(name: str) -> str:
    return f"typeof({name}) IN ('TIMESTAMP WITH TIME ZONE', 'TIMESTAMPTZ_NS')"


def _zoned_as_text(name: str) -> str:
    """In UTC, whatever the zone of the session."""
    return f"CAST({in_utc(f'TRY_CAST({name} AS TIMESTAMP WITH TIME ZONE)')} AS VARCHAR)"


def columns_of(described: list[tuple[object, ...]]) -> list[tuple[str, str]]:
    """Names and types from the rows of DESCRIBE."""
    return [(str(row[0]), str(row[1])) for row in described]
