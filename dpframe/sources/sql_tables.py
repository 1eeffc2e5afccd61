"""Tables and queries of SQL that a caller names.

**Tables** named in SQL text: names are quoted, columns found, and values of any type read.

A macro's SQL is written while the statement is bound, and asks a second connection for columns and
types. That connection does not see temporary tables and registered frames of the first connection,
nor changes of an open transaction. A column whose type is unknown is read as text: that gives the
same nodes, more slowly. A known type is checked when the first connection binds the statement.

**Sources that a second connection does not see** are refused, or handed over as rows.

A second connection to the same database sees only what is committed there: no temporary table, no
registered frame and no CTE of the statement.

**Queries of SQLite or PostgreSQL** are read into an Arrow table whose types no value decides.

A column has the type that the database declares for it. A value that is not of that type, or that
Arrow cannot hold, is NULL: no value raises an error, or changes how other values are read. Columns
of types not listed here are read as text, as in a CSV file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from dpframe._duck import guard_named_type
from dpframe.budget import PrivacyUnit
from dpframe.common.files import postgres_driver
from dpframe.common.texts import decode_bytes, identifier, literal
from dpframe.counts import ListedNodes
from dpframe.errors import ColumnError, ParameterError, ParameterTypeError, SourceError
from dpframe.hierarchy import Hierarchy
from dpframe.hierarchy._base import (
    COARSE_TIMES,
    NO_TEXT,
    UNWRITABLE,
    check_writable,
    real_text,
    utc_sql,
)
from dpframe.hierarchy._types import KNOWN
from dpframe.periods import Period
from dpframe.sources.frames import require_columns
from dpframe.sources.keys import check_key_types
from dpframe.sources.rollup_statement import check_weight_type, rollup_statement, weight_sql
from dpframe.sources.source_relations import PeriodReading, canonical, condition_of_any, kind_sql


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


SOURCE = "source_rows"
"""The alias of the relation in the generated SQL."""

TYPED = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT"),
    *("UINTEGER", "UBIGINT", "UHUGEINT", "DECIMAL", "DATE", "TIMESTAMP", "TIMESTAMP_S"),
    *("TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS", "UUID"),
)
"""DuckDB's types, without parameters, that are read faster unchanged than as text."""

ELSEWHERE = (
    "Other connections see the table so: write temp.NAME for a temporary table, or commit changes "
    "first."
)

COMMITTED = "Other connections see the table so: commit changes first."


def table_rollup_statement(
    source: SqlSource,
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    *,
    band: int,
    seed: int,
    columns: list[tuple[str, str]] | None,
    only: ListedNodes | None = None,
    reading: PeriodReading | Period | None = None,
) -> str:
    """The rollup of a source; ``columns`` are its names and types, None if unknown. ``reading``
    restricts the source to the rows of a period; a :class:`Period` if the type is unknown."""
    user = [unit.user] if unit.user is not None else []
    wanted = list(dict.fromkeys([*hierarchy.source_columns, *user]))
    seen = {} if columns is None else _checked_column_types(hierarchy, unit, columns, ELSEWHERE)
    if seen and only is not None:
        check_key_types(only, hierarchy, tuple(seen[c] for c in hierarchy.source_columns))
    read = {c: _column_values_sql(c, seen.get(c), hierarchy) for c in wanted}
    typed = {c: kind for c, (_, kind) in read.items() if _is_typed(kind) and kind == seen.get(c)}
    chosen = [f"{sql} AS {identifier(c)}" for c, (sql, _) in read.items()]
    given, rows = unit, f"{source.relation} AS {SOURCE}"
    if isinstance(reading, Period):
        time = f"{SOURCE}.{identifier(reading.column)}"
        rows += f" WHERE {condition_of_any(reading, time)}"
    elif reading is not None:
        time = f"{SOURCE}.{identifier(reading.period.column)}"
        safe = time if reading.how == "text" else f"TRY_CAST({time} AS {reading.kind})"
        rows += f" WHERE {reading.condition(safe)}"
        typed[reading.period.column] = dict(columns or ())[reading.period.column]
    if unit.weight is not None:  # under a new name: the column can be a level, too
        value = f"{SOURCE}.{identifier(unit.weight)}"
        value = _guarded_value_sql(value, seen[unit.weight]) if seen else _castable(value)
        weight = f"TRY_CAST({value} AS DOUBLE)" if unit.measured else weight_sql(value, unit.most)
        unit = replace(unit, weight=_unused_name("w", wanted))
        chosen.append(f"{weight} AS {unit.weight}")
    return rollup_statement(
        hierarchy,
        unit,
        band=band,
        types=tuple(read[c][1] for c in hierarchy.source_columns),
        user_type=read[unit.user][1] if unit.user is not None else None,
        seed=seed,
        view=f"(SELECT {', '.join(chosen)} FROM {rows})",
        only=only,
        valid=valid_sql(source, hierarchy, given, typed),
    )


def table_period_reading(period: Period, columns: list[tuple[str, str]]) -> PeriodReading:
    """How the column of a period is read; ColumnError if it is missing or holds no times."""
    try:
        require_columns([period.column], [name for name, _ in columns])
    except ColumnError as error:
        raise ColumnError(f"{error} {ELSEWHERE}") from None
    return PeriodReading(period=period, kind=canonical(dict(columns)[period.column]))


def kind_of_times(source: SqlSource, period: Period) -> str:
    """SQL of the type of a period's column, in a source of unknown columns; no row is read."""
    column = identifier(period.column)
    none = f"SELECT {column} FROM {source.relation} AS {SOURCE} LIMIT 0"
    return f"(SELECT {kind_sql(f'any_value({column})')} FROM ({none}))"


def level_types(hierarchy: Hierarchy, columns: list[tuple[str, str]] | None) -> tuple[str, ...]:
    """Types of the columns that are levels; empty for other kinds, and if types are unknown."""
    seen = dict(columns or ())
    if hierarchy.has_cells:
        return tuple(canonical(seen[c]) for c in hierarchy.source_columns) if seen else ()
    if not hierarchy.label_columns or not set(hierarchy.source_columns) <= seen.keys():
        return ()
    return tuple(canonical(seen[c]) for c in hierarchy.source_columns)


def _unused_name(name: str, taken: Sequence[str]) -> str:
    while name in {other.lower() for other in taken}:
        name += "_"
    return name


def check_stored(hierarchy: Hierarchy, unit: PrivacyUnit, columns: list[tuple[str, str]]) -> None:
    """Raise ColumnError if a source that another connection reads lacks a column, or has one of a
    type that cannot be read."""
    _checked_column_types(hierarchy, unit, columns, COMMITTED)


def _checked_column_types(
    hierarchy: Hierarchy, unit: PrivacyUnit, columns: list[tuple[str, str]], where: str
) -> dict[str, str]:
    """Types by name, after a check that columns of hierarchy and unit exist and are readable."""
    seen = {name: canonical(t) for name, t in columns}
    wanted = dict.fromkeys([*hierarchy.source_columns, unit.user, unit.weight])
    try:
        require_columns([c for c in wanted if c is not None], [name for name, _ in columns])
    except ColumnError as error:
        raise ColumnError(f"{error} {where}") from None
    hierarchy.check_types(tuple(seen[c] for c in hierarchy.source_columns))
    if unit.user is not None:
        check_writable(unit.user, seen[unit.user])
    if unit.weight is not None:
        check_weight_type(unit, seen[unit.weight])
    return seen


def _column_values_sql(column: str, seen: str | None, hierarchy: Hierarchy) -> tuple[str, str]:
    """SQL of a column's values, and the type of this SQL; ``seen`` is the type that the column has
    for another connection, None if unknown."""
    name = _guarded_value_sql(f"{SOURCE}.{identifier(column)}", seen)
    held = [one for one in hierarchy.dimensions if column in one.source_columns]
    in_hierarchy, hierarchy = bool(held), held[0] if held else hierarchy
    if in_hierarchy and hierarchy.kind == "number":
        return _double_sql(name, seen), "DOUBLE"
    if in_hierarchy and hierarchy.reads_text:
        return _as_text(name), "VARCHAR"
    if seen is not None and _is_typed(seen):
        return f"TRY_CAST({name} AS {seen})", seen
    utc = _zoned_as_text(name)
    if in_hierarchy and hierarchy.kind == "date":
        utc = f"{utc} || '+00'"  # if the hierarchy names a zone, a text must have an offset
    text = f"CASE WHEN {_is_zoned(name)} THEN {utc} ELSE {_as_text(name)} END"
    return text, "VARCHAR"


def _guarded_value_sql(value: str, seen: str | None) -> str:
    """SQL of a value on which no cast fails; unchanged if the type, ``seen``, is unknown."""
    return value if seen is None else guard_named_type(value, seen)


def _is_typed(kind: str) -> bool:
    return kind.split("(")[0] in TYPED


def valid_sql(
    source: SqlSource, hierarchy: Hierarchy, unit: PrivacyUnit, typed: Mapping[str, str]
) -> tuple[str, str] | None:
    """A name that the source does not use, and a condition with this name; None if every type is
    readable.

    The condition fails, with the message of every door, if a column's type cannot be read, or
    differs from the type in ``typed``. It does not depend on rows, which are private.
    """
    cases = {column: [_type_differs_sql(column, kind)] for column, kind in typed.items()}
    for one in hierarchy.dimensions:
        if len(one.source_columns) > 1:  # of kind columns, which reads every type that has texts
            continue
        column = one.source_columns[0]
        check = _refusal_cases(column, lambda kind, one=one: one.check_types((kind,)))  # type: ignore[misc]
        cases.setdefault(column, []).append(check)
    for text in (*hierarchy.source_columns, unit.user):
        if text is not None and text not in typed:
            cases.setdefault(text, []).append(_unwritable_sql(text))
    if unit.weight is not None:
        check = _refusal_cases(unit.weight, partial(check_weight_type, unit))
        cases.setdefault(unit.weight, []).append(check)
    asked = [(column, " ".join(parts)) for column, parts in cases.items() if any(parts)]
    if not asked:
        return None
    values, conditions = [], []
    for i, (column, when) in enumerate(asked):
        values.append(f"any_value({SOURCE}.{identifier(column)}) AS {VALUE}{i}")
        conditions.append(f"CASE {when} ELSE true END".replace(f"({VALUE})", f"({VALUE}{i})"))
    typed_only = f"SELECT {', '.join(values)} FROM {source.relation} AS {SOURCE} WHERE false"
    name = _unused_name(VALID, re.findall(r"\w+", source.relation.lower()))
    return name, f"(SELECT {' AND '.join(conditions)} FROM ({typed_only}))"


VALID = "dpframe_valid"
VALUE = "dpframe_value"
"""A name that stands for the column whose type a condition asks."""


def _type_differs_sql(column: str, kind: str) -> str:
    other = literal(
        f"column {column!r} is {kind} for other connections and has another type here. "
        "Commit changes to the table first, or name the table in full, such as temp.NAME."
    )
    return f"WHEN typeof({VALUE}) <> {literal(kind)} THEN error({other})"


FRACTIONS = "DECIMAL(18,3)"

EXAMPLES = {"DECIMAL": "DECIMAL(18,0)", "LIST": "LIST[]"}
"""Full types, where a check looks at more than the name."""

ASKED = (*KNOWN, FRACTIONS, UNKNOWN := "\ufffc")
"""Types for which a check is called; the last stands for unknown types."""


def _refusal_cases(column: str, check: Callable[[str], None]) -> str:
    """Cases of SQL that raise the error of ``check`` for the type of VALUE."""
    refused: dict[str, list[str]] = {}
    for name in ASKED:
        try:
            check(EXAMPLES.get(name, name))
        except ColumnError as error:
            refused.setdefault(error.behind_type, []).append(name)
    kind = f"typeof({VALUE})"
    name = f"split_part({kind}, '(', 1)"
    family = (
        f"CASE WHEN ends_with({kind}, ']') THEN 'LIST' WHEN {name} = 'DECIMAL' "
        f"AND NOT ends_with({kind}, ',0)') THEN {literal(FRACTIONS)} "
        f"WHEN {name} NOT IN ({', '.join(map(literal, KNOWN))}) THEN {literal(UNKNOWN)} "
        f"ELSE {name} END"
    )
    return " ".join(
        f"WHEN {family} IN ({', '.join(map(literal, names))}) "
        f"THEN {_type_error_sql(column, behind)}"
        for behind, names in refused.items()
    )


def _as_text(name: str) -> str:
    """SQL of any value as text, as ``text_sql`` of hierarchies writes it; DuckDB finds the type."""
    kind, text = f"typeof({name})", f"CAST({name} AS VARCHAR)"
    return (
        f"CASE WHEN {kind} IN ('DOUBLE', 'FLOAT') "
        f"THEN {real_text(f'TRY_CAST({name} AS DOUBLE)', text)} "
        f"WHEN {kind} IN ({', '.join(map(literal, COARSE_TIMES))}) "
        f"THEN CAST(TRY_CAST({name} AS TIMESTAMP) AS VARCHAR) "
        f"WHEN {_is_unwritable(kind)} THEN NULL ELSE {text} END"  # errors are raised for types only
    )


def _double_sql(name: str, seen: str | None) -> str:
    """SQL of a number. JSON is read by its text: ``TRY_CAST`` raises for texts that are no JSON."""
    value = name if seen else _castable(name)
    number, of_text = (f"TRY_CAST({v} AS DOUBLE)" for v in (value, f"CAST({value} AS VARCHAR)"))
    if seen:
        return of_text if seen == "JSON" else number
    return f"CASE WHEN typeof({name}) = 'JSON' THEN {of_text} ELSE {number} END"


def _castable(name: str) -> str:
    """SQL of a value, NULL where any cast of it could close the database."""
    return f"CASE WHEN {_is_unwritable(f'typeof({name})')} THEN NULL ELSE {name} END"


def _is_unwritable(kind: str) -> str:
    """SQL for whether ``check_writable`` refuses a type."""
    coarse = ", ".join(map(literal, COARSE_TIMES))
    return (
        f"NOT starts_with({kind}, 'ENUM(') AND {kind} NOT IN ({coarse}) "
        f"AND regexp_matches({kind}, {literal(UNWRITABLE)})"
    )


def _unwritable_sql(column: str) -> str:
    """A case of SQL that raises the error of ``check_writable`` for the type of VALUE."""
    kind = f"typeof({VALUE})"
    return f"WHEN {_is_unwritable(kind)} THEN {_type_error_sql(column, NO_TEXT)}"


def _type_error_sql(column: str, behind_type: str) -> str:
    """SQL that raises the error of ``column_type_error`` for the type of VALUE."""
    name = f"split_part(typeof({VALUE}), '(', 1)"
    return f"error({literal(f'column {column!r} has type ')} || {name} || {literal(behind_type)})"


def _is_zoned(name: str) -> str:
    return f"typeof({name}) IN ('TIMESTAMP WITH TIME ZONE', 'TIMESTAMPTZ_NS')"


def _zoned_as_text(name: str) -> str:
    """SQL of a time as text in UTC, whatever the zone of the session."""
    return f"CAST({utc_sql(f'TRY_CAST({name} AS TIMESTAMP WITH TIME ZONE)')} AS VARCHAR)"


def described_columns(described: list[tuple[object, ...]]) -> list[tuple[str, str]]:
    """Names and types from the rows of DESCRIBE."""
    return [(str(row[0]), str(row[1])) for row in described]


BATCH = 100_000
"""How many rows are fetched at once."""

Read = tuple[Callable[[str], str], pa.DataType]
"""The SQL that reads a column, and the type of its result."""

VIEW = "dpframe_rows"


# -- SQLite ----------------------------------------------------------------------------------------

_WHOLE: Read = (lambda c: f"CASE typeof({c}) WHEN 'integer' THEN {c} END", pa.int64())
_REAL: Read = (
    lambda c: f"CASE WHEN typeof({c}) IN ('integer', 'real') THEN CAST({c} AS REAL) END",
    pa.float64(),
)
_TEXT: Read = (lambda c: f"CAST({c} AS TEXT)", pa.string())

AFFINITIES: tuple[tuple[tuple[str, ...], Read], ...] = (
    (("INT", "BOOL"), _WHOLE),
    (("CHAR", "CLOB", "TEXT", "DATE", "TIME"), _TEXT),
    (("REAL", "FLOA", "DOUB", "NUM", "DEC"), _REAL),
)
"""How to read a declared type: as the first entry of which the type contains a word (SQLite,
"Datatypes", 3.1). Other columns are read as text."""


def read_sqlite(path: Path, query: str) -> pa.Table:
    """The rows of a query of a SQLite file, which is opened read-only. SourceError if the query
    cannot be read."""
    import sqlite3  # late: few sources are files of SQLite

    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
            db.text_factory = decode_bytes
            db.execute(f"CREATE TEMP VIEW {VIEW} AS {query}")
            declared = db.execute(f"PRAGMA table_info({VIEW})").fetchall()
            reads = {str(row[1]): _affinity(str(row[2])) for row in declared}
            return _fetch_table(db.execute(_select_columns_sql(reads, VIEW)), reads)
    except sqlite3.Error as raised:
        error = type(raised).__name__
    # outside of the handler: no context holds the original
    raise SourceError(_query_message(query, f"{str(path)!r}", error))


def _affinity(declared: str) -> Read:
    kind = declared.upper()
    return next((read for words, read in AFFINITIES if any(w in kind for w in words)), _TEXT)


# -- PostgreSQL ------------------------------------------------------------------------------------

_FINITE = "abs({c}) < 1e300 AND ({c} = 0 OR abs({c}) > 1e-300)"
_YEARS = "{c} >= '0001-01-02' AND {c} < '9999-12-31'"


def _read_if(condition: str, then: str, kind: pa.DataType) -> Read:
    return (lambda c: f"CASE WHEN {condition} THEN {then} END".replace("{c}", c), kind)


TYPES: dict[int, Read] = {
    16: (lambda c: c, pa.bool_()),
    **dict.fromkeys((20, 21, 23), (lambda c: c, pa.int64())),
    **dict.fromkeys((700, 701), (lambda c: c, pa.float64())),
    1700: _read_if(_FINITE, "CAST({c} AS double precision)", pa.float64()),
    1082: _read_if(_YEARS, "{c}", pa.date32()),
    1114: _read_if(_YEARS, "{c}", pa.timestamp("us")),
    1184: _read_if(_YEARS, "{c}", pa.timestamp("us", "UTC")),
}
"""How to read a type, by its number in pg_type: boolean, integers, floats, numeric, date, times.
Other types are read as text."""


def read_postgres(address: str, query: str) -> pa.Table:
    """The rows of a query of a PostgreSQL server. SourceError, which quotes no value, if the query
    cannot be read."""
    psycopg = postgres_driver("a source in PostgreSQL")
    try:
        with psycopg.connect(address, client_encoding="UTF8", autocommit=False) as db:
            db.execute("SET TRANSACTION READ ONLY")
            db.execute("SET LOCAL TIME ZONE 'UTC'")
            inner = f"({query}\n) AS {VIEW}"
            known = db.execute(f"SELECT * FROM {inner} LIMIT 0".encode()).description or ()
            text: Read = (lambda c: f"CAST({c} AS text)", pa.string())
            reads = {column.name: TYPES.get(column.type_code, text) for column in known}
            with db.cursor(VIEW) as cursor:
                cursor.execute(_select_columns_sql(reads, inner).encode())
                return _fetch_table(cursor, reads)
    except (psycopg.Error, UnicodeError) as raised:
        error = type(raised).__name__
    raise SourceError(_query_message(query, "PostgreSQL", error))


# -- SQLite and PostgreSQL -------------------------------------------------------------------------


def _select_columns_sql(reads: dict[str, Read], source: str) -> str:
    if not reads:
        raise SourceError("the query of a source selects no column. Name some.")
    columns = (f"{sql(identifier(name))} AS {identifier(name)}" for name, (sql, _) in reads.items())
    return f"SELECT {', '.join(columns)} FROM {source}"


def _fetch_table(cursor: Any, reads: dict[str, Read]) -> pa.Table:
    schema = pa.schema([(name, kind) for name, (_, kind) in reads.items()])
    return pa.Table.from_batches(_fetch_batches(cursor, schema), schema)


def _fetch_batches(cursor: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    while rows := cursor.fetchmany(BATCH):
        columns: Iterable[Sequence[object]] = zip(*rows, strict=True)
        arrays = [pa.array(c, field.type) for c, field in zip(columns, schema, strict=True)]
        yield pa.record_batch(arrays, schema=schema)


def _query_message(query: str, where: str, error: str) -> str:
    """The message about a failed query, without the database's words, which can quote a row."""
    return (
        f"the query {query[:200]!r} cannot be read in {where} ({error}). Try it there, and check "
        "the path or address."
    )
