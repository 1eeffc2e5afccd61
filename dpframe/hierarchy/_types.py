"""Which types of columns each kind of hierarchy reads, and what to do with columns of other types.

Types are public: if a type alone shows that no value of a column can be read, every door says so
before anything is charged. Texts can always hold something readable. Names are DuckDB's, without
parameters; LIST stands for lists and arrays, PANDAS for a dtype of pandas that has no Arrow type
and is read as text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from dpframe.common.texts import identifier
from dpframe.errors import ColumnError

WHOLE = (
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER"),
    *("UBIGINT", "UHUGEINT"),
)
REAL = ("FLOAT", "DOUBLE")
TIMES = (
    *("DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"),
    *("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ", "TIMESTAMPTZ_NS"),
)
TEXTS = ("VARCHAR", "ENUM", '"NULL"')
NESTED = ("LIST", "STRUCT", "MAP", "UNION")
OTHERS = (
    *("BOOLEAN", "DECIMAL", "UUID", "BLOB", "BIT", "JSON", "VARIANT", "INTERVAL", "TIME"),
    *("TIME_NS", "TIME WITH TIME ZONE", "BIGNUM", "INET", "PANDAS"),
)

KNOWN = (*WHOLE, *REAL, *TIMES, *TEXTS, *NESTED, *OTHERS)
"""All types that are known by name. A statement that finds a type only when it runs has a case for
each of them."""

FINE_PERIODS = tuple(
    f"period[{unit}]" for unit in ("D", "B", "h", "H", "min", "T", "s", "S", "ms", "us", "ns")
)
"""Dtypes of periods that pandas writes as the time at which they begin."""

Advice = Callable[[str, str], str]
"""Makes advice from the expressions of a column in pandas and in SQL."""


def outer_type(duckdb_type: str) -> str:
    """Return the name of a type without parameters, which can include the values of an ENUM; LIST
    for lists and arrays."""
    return "LIST" if duckdb_type.endswith("]") else duckdb_type.split("(")[0]


def type_label(duckdb_type: str) -> str:
    """Return the name of a type for messages, without parameters: pandas' name or DuckDB's."""
    if duckdb_type.startswith("PANDAS("):
        return duckdb_type.removeprefix("PANDAS(").removesuffix(")")
    return duckdb_type.split("(")[0]


@dataclass(frozen=True, slots=True)
class ReadableTypes:
    """The types that a kind reads, by name and in words, and advice for other types by name.

    ``pandas`` are the dtypes without an Arrow type that the kind reads; None means all.
    """

    types: tuple[str, ...]
    words: str
    advice: dict[tuple[str, ...], Advice] = field(default_factory=dict)
    pandas: tuple[str, ...] | None = ()

    def holds(self, duckdb_type: str) -> bool:
        """Whether a column of this type can hold a value that the kind reads."""
        if outer_type(duckdb_type) == "PANDAS":
            return self.pandas is None or type_label(duckdb_type) in self.pandas
        return outer_type(duckdb_type) in self.types

    def check(self, kind: str, column: str, duckdb_type: str) -> None:
        """Raise ColumnError if the kind does not read the type; the message says what to do."""
        if not self.holds(duckdb_type):
            raise unreadable_type(f"{kind} reads", column, duckdb_type, self.words, self.advice)


def unreadable_type(
    who_reads: str,
    column: str,
    duckdb_type: str,
    words: str,
    advice: dict[tuple[str, ...], Advice],
    otherwise: str = "Choose another column, or another kind of hierarchy.",
) -> ColumnError:
    """Return the error for a column whose type holds no readable value; the message has advice."""
    name = (
        type_label(duckdb_type).split("[")[0]
        if "PANDAS(" in duckdb_type
        else outer_type(duckdb_type)
    )
    found = (say for names, say in advice.items() if name in names)
    say = next(found, lambda _, __: otherwise)
    advised = say(f"df[{column!r}]", identifier(column))
    return column_type_error(column, duckdb_type, f"; {who_reads} {words}. {advised}")


def column_type_error(column: str, duckdb_type: str, behind_type: str) -> ColumnError:
    """Return the error for a column's type, from what its message says behind the type."""
    error = ColumnError(f"column {column!r} has type {type_label(duckdb_type)}{behind_type}")
    error.behind_type = behind_type
    return error


def _from_json(_: str, sql: str) -> str:
    return f"Take the text out of it, in SQL {sql} ->> '$'."


def _from_blob(df: str, sql: str) -> str:
    return f"Make text of it, in pandas {df}.str.decode('utf-8'), in SQL decode({sql})."


def _write_addresses(df: str, sql: str) -> str:
    octets = ", ".join(f"({sql}::BIGINT >> {shift}) & 255" for shift in (24, 16, 8, 0))
    return (
        "Write IPv4 addresses in network order as text: in pandas "
        f"{df}.map(ipaddress.IPv4Address).astype(str), in SQL concat_ws('.', {octets})."
    )


def _unix_times(df: str, sql: str) -> str:
    return (
        f"Seconds since 1970: pd.to_datetime({df}, unit='s'), in SQL to_timestamp({sql}); "
        f"milliseconds: unit='ms', epoch_ms({sql}); days such as 20251231: pd.to_datetime({df}"
        ".astype('Int64').astype(str), format='%Y%m%d', errors='coerce'), "
        f"try_strptime({sql}::BIGINT::VARCHAR, '%Y%m%d'). Pass years as columns:..."
    )


def _period_beginnings(df: str, _: str) -> str:
    return f"Pass their beginnings, {df}.dt.to_timestamp(), or the periods as columns:..."


def _convert_to_seconds(df: str, sql: str) -> str:
    return f"Pass seconds: {df}.dt.total_seconds() in pandas, epoch({sql}) in SQL."


def _zero_or_one(df: str, sql: str) -> str:
    return f"Convert it to 0 and 1: {df}.astype('Int64') in pandas, CAST({sql} AS INTEGER) in SQL."


def _use_date(_: str, __: str) -> str:
    return "Read times by date:COLUMN, in synthesize by time:COLUMN."


def _middles(df: str, _: str) -> str:
    return f"Pass their middles, pd.IntervalIndex({df}).mid."


def _join_parts(df: str, sql: str) -> str:
    text = f"in pandas {df}.map('/'.join), in SQL array_to_string({sql}, '/')"
    return f"Join its parts to one text, {text}."


def _one_field(_: str, sql: str) -> str:
    return f"Take one of its fields, in SQL {sql}.FIELD."


COMMON: dict[tuple[str, ...], Advice] = {
    ("JSON",): _from_json,
    ("BLOB",): _from_blob,
    ("LIST",): _join_parts,
    ("STRUCT",): _one_field,
}

TIME_ADVICE: dict[tuple[str, ...], Advice] = {
    (*WHOLE, *REAL, "DECIMAL"): _unix_times,
    ("period",): _period_beginnings,
    **COMMON,
}

NUMBER_ADVICE: dict[tuple[str, ...], Advice] = {
    (*TIMES, "period"): _use_date,
    ("INTERVAL",): _convert_to_seconds,
    ("interval",): _middles,
    ("BOOLEAN",): _zero_or_one,
    **COMMON,
}

ADDRESS_ADVICE: dict[tuple[str, ...], Advice] = {WHOLE: _write_addresses, **COMMON}

ANYTHING = tuple(name for name in KNOWN if name not in NESTED)

READS = {
    "ip": ReadableTypes((*TEXTS, "BLOB", "INET"), "text", ADDRESS_ADVICE),
    "date": ReadableTypes(
        (*TEXTS, *TIMES), "dates, timestamps and ISO 8601 text", TIME_ADVICE, FINE_PERIODS
    ),
    "number": ReadableTypes(
        (*WHOLE, *REAL, "DECIMAL", "BOOLEAN", "VARIANT", "JSON", *TEXTS),
        "numbers and text",
        NUMBER_ADVICE,
    ),
    "domain": ReadableTypes((*TEXTS, "BLOB"), "text", COMMON),
    "path": ReadableTypes(ANYTHING, "text, and other single values as text", COMMON, None),
    "code": ReadableTypes(ANYTHING, "text, and other single values as text", COMMON, None),
    "columns": ReadableTypes(KNOWN, "every type", {}, None),
}
"""The types that each kind reads, for all doors."""
