"""Tables named in SQL text: quoting, columns, and values to read whatever their types are.

A macro's SQL is written while the statement is bound, and asks a second connection for columns and
types. That connection does not see temporary tables and registered frames of the first one, nor
what an open transaction did. Then values are read as text, which gives the same nodes more slowly.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dpframe._sql import identifier, literal
from dpframe.budget import PrivacyUnit
from dpframe.errors import ColumnError, ParameterError, ParameterTypeError, SourceError
from dpframe.hierarchy import Hierarchy
from dpframe.sources.columns import require
from dpframe.sources.rollup_sql import rollup_sql
from dpframe.sources.tables import canonical

PART = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([^".]+?))\s*(\.|$)')

SOURCE = "source_rows"
"""What the generated SQL calls the relation."""

TYPES = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT"),
    *("UINTEGER", "UBIGINT", "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL", "VARCHAR", "BLOB", "BIT"),
    *("DATE", "TIME", "TIME WITH TIME ZONE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS"),
    *("TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE", "INTERVAL", "UUID", "JSON", "STRUCT", "MAP"),
    *("UNION", "BIGNUM"),
)
"""DuckDB's types without their parameters, for asking a hierarchy which it refuses."""


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


def query_source(query: object, is_one_select: bool) -> SqlSource:
    """A query of the caller as a relation; the line break ends a comment in it."""
    if not isinstance(query, str):
        raise ParameterTypeError(f"query must be the text of a SELECT; got {query!r}.")
    if not is_one_select:
        raise ParameterError("query must be one SELECT statement that DuckDB can parse.")
    return SqlSource(f"({query.strip().rstrip(';')}\n)", f"query {' '.join(query.split())}")


def statement(
    source: SqlSource,
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    *,
    band: int,
    seed: int,
    columns: list[tuple[str, str]] | None,
) -> str:
    """The rollup of a source; ``columns`` are its names and types, None if nobody could say."""
    user = [unit.user] if unit.user is not None else []
    wanted = list(dict.fromkeys([*hierarchy.source_columns, *user]))
    if columns is None:
        types = dict.fromkeys(wanted, "VARCHAR")
        refused = _refused(hierarchy)
        chosen = [
            _unless_refused(c, _as_text(c), refused if c in hierarchy.source_columns else ())
            for c in wanted
        ]
    else:
        require(wanted, [name for name, _ in columns])
        types = {name: canonical(t) for name, t in columns}
        hierarchy.check_types(tuple(types[c] for c in hierarchy.source_columns))
        chosen = [_still(c, types[c]) for c in wanted]
    return rollup_sql(
        hierarchy,
        unit,
        band=band,
        types=tuple(types[c] for c in hierarchy.source_columns),
        user_type=types[unit.user] if unit.user is not None else None,
        seed=seed,
        view=f"(SELECT {', '.join(chosen)} FROM {source.relation} AS {SOURCE})",
    )


def _named(column: str) -> str:
    """With its table, so that DuckDB says what other columns there are if this one is missing."""
    return f"{SOURCE}.{identifier(column)}"


def _still(column: str, duckdb_type: str) -> str:
    """The column, if it has the type that was seen; decided when the statement is bound."""
    name = _named(column)
    if duckdb_type == "ENUM":
        return name
    changed = literal(f"column {column!r} changed its type: run the statement again.")
    return (
        f"CASE WHEN typeof({name}) = {literal(duckdb_type)} THEN {name} "
        f"ELSE error({changed}) END AS {identifier(column)}"
    )


def _refused(hierarchy: Hierarchy) -> tuple[str, ...]:
    """Types that the hierarchy does not read, in any of its columns."""
    out = []
    for outer in TYPES:
        try:
            hierarchy.check_types((outer,) * len(hierarchy.source_columns))
        except ColumnError:
            out.append(outer)
    return tuple(out)


def _unless_refused(column: str, text: str, refused: tuple[str, ...]) -> str:
    name = _named(column)
    if not refused:
        return f"{text} AS {identifier(column)}"
    names = ", ".join(map(literal, refused))
    message = literal(
        f"column {column!r} has a type that this hierarchy does not read. Cast the column, or "
        "choose another kind of hierarchy."
    )
    return (
        f"CASE WHEN regexp_replace(typeof({name}), '\\(.*', '') IN ({names}) "
        f"THEN error({message}) ELSE {text} END AS {identifier(column)}"
    )


def _as_text(column: str) -> str:
    """Any value as text: what ``hierarchy.text_of`` writes, with the type asked of DuckDB."""
    name = _named(column)
    text = f"CAST({name} AS VARCHAR)"
    number = f"TRY_CAST({text} AS DOUBLE)"
    time = f"TRY_CAST({text} AS TIMESTAMP WITH TIME ZONE)"
    return (
        f"CASE WHEN typeof({name}) IN ('DOUBLE', 'FLOAT') THEN "
        f"CASE WHEN isnan({number}) THEN NULL "
        f"WHEN {number} = trunc({number}) AND abs({number}) <= {2**53} "
        f"THEN CAST(TRY_CAST({number} AS BIGINT) AS VARCHAR) ELSE {text} END "
        f"WHEN typeof({name}) = 'TIMESTAMP WITH TIME ZONE' THEN "
        f"CAST(make_timestamp(epoch_us(CASE WHEN isfinite({time}) THEN {time} END)) AS VARCHAR) "
        f"ELSE {text} END"
    )


def columns_of(described: list[tuple[object, ...]]) -> list[tuple[str, str]]:
    """Names and types from the rows of DESCRIBE."""
    if len({str(row[0]) for row in described}) < len(described):
        raise SourceError("the query has two columns of one name; rename one.")
    return [(str(row[0]), str(row[1])) for row in described]
