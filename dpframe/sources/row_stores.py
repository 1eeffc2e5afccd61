"""Read a query of SQLite or PostgreSQL into an Arrow table whose types no value decides.

A column has the type that the database declares for it. A value that is not of that type, or that
Arrow cannot hold, is NULL: no value raises an error, or changes how other values are read. Columns
of types not listed here are read as text, as in a CSV file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa

from dpframe.common.calls import import_extra
from dpframe.common.texts import decode_bytes, identifier
from dpframe.errors import ParameterError, SourceError

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

ADDRESSES = ("postgresql://", "postgres://")

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
    missing = "a source in PostgreSQL needs psycopg. Run pip install 'psycopg[binary]'."
    psycopg = import_extra("psycopg", missing, ParameterError)
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


# -- both ------------------------------------------------------------------------------------------


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
