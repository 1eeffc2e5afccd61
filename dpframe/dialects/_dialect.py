"""What a rollup asks of an engine: one method a difference, which returns SQL; BigQuery and
Snowflake.

No value of a column makes the SQL fail. A method that a dialect does not override returns standard
SQL that the engines share.
"""

from __future__ import annotations

import re
import sys
from abc import ABC, abstractmethod
from typing import ClassVar

from dpframe.errors import ColumnError

SPACES = " \xa0\u1680\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
"""What DuckDB's trim removes: Unicode's space separators, but no tabs and no line ends."""

CAPITALS, SMALL = "\u03a3\u0130", "\u03c3i"
"""Letters that engines lower by their neighbours or into several letters, and DuckDB one by one."""

WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
"""Types of integers of at most 64 bits, which stay integers."""

REAL = ("DOUBLE", "FLOAT")
ZONED = "TIMESTAMP WITH TIME ZONE"

ALIASES = {
    "VARCHAR": "text string varchar character char bpchar nvarchar citext name json enum uuid",
    "BOOLEAN": "boolean bool",
    "TINYINT": "tinyint byte byteint int1",
    "SMALLINT": "smallint short int2 smallserial",
    "INTEGER": "integer int int4 serial utinyint usmallint",
    "BIGINT": "bigint long int8 int64 bigserial uinteger",
    "FLOAT": "float4 real",
    "DOUBLE": "double float8 float64",
    "DECIMAL": "decimal numeric number bignumeric dec hugeint ubigint uhugeint",
    "DATE": "date",
    "TIMESTAMP": "timestamp datetime timestamp_ntz timestampntz timestamp_s timestamp_ms",
    ZONED: "timestamptz timestamp_ltz timestamp_tz timestampltz",
}
"""For each type that statements know, the names that engines have for it, without parameters."""

TYPE_OF = {name: kind for kind, names in ALIASES.items() for name in names.split()}

SPELLED = {
    "character varying": "VARCHAR",
    "double precision": "DOUBLE",
    "timestamp with time zone": ZONED,
    "timestamp with local time zone": ZONED,
    "timestamp without time zone": "TIMESTAMP",
}


class Dialect(ABC):
    """The SQL of one engine."""

    name: ClassVar[str]
    text_type: ClassVar[str] = "VARCHAR"
    real_type: ClassVar[str] = "DOUBLE"
    own_types: ClassVar[dict[str, str]] = {}
    """Names of types that mean something else in this engine, without their parameters."""

    def rows(self, query: str) -> str:
        """Return a query to put into FROM, whose columns are computed once."""
        return f"({query}) AS step"

    def with_levels(self, rows: str, depth: str, height: int) -> str:
        """Return a FROM clause that repeats each of ``rows`` with a column ``level`` from 0 to its
        ``depth``."""
        levels = " UNION ALL ".join(f"SELECT {level} AS level" for level in range(height + 1))
        return f"{rows} JOIN ({levels}) AS levels ON level <= {depth}"

    # -- names and values ---------------------------------------------------------------------

    def identifier(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    @abstractmethod
    def literal(self, text: str) -> str:
        """Return a string literal that no setting of the session changes."""

    def real(self, value: float) -> str:
        """Return the literal of a finite double."""
        return f"CAST('{float(value)!r}' AS {self.real_type})"

    def cast_text(self, value: str) -> str:
        """Return any value as text that is compared by its bytes."""
        return f"CAST({value} AS {self.text_type})"

    def moment(self, text: str, kind: str) -> str:
        """Return a bound for times of a type, from text YYYY-MM-DD HH:MM:SS, in UTC if zoned."""
        if kind == "DATE":
            return f"DATE '{text[:10]}'"
        return self.moment_literal(text) if kind == ZONED else self.timestamp_literal(text)

    def moment_literal(self, text: str) -> str:
        return f"TIMESTAMP WITH TIME ZONE '{text}+00'"

    def timestamp_literal(self, text: str) -> str:
        return f"TIMESTAMP '{text}'"

    def null_text(self) -> str:
        return f"CAST(NULL AS {self.text_type})"

    # -- texts ---------------------------------------------------------------------------------

    @abstractmethod
    def trim(self, text: str, characters: str) -> str:
        """Return a text without these characters at both ends."""

    @abstractmethod
    def lower(self, text: str) -> str:
        """Return a text in lower case, letter by letter, beyond ASCII too."""

    @abstractmethod
    def matches(self, text: str, pattern: str) -> str:
        """Return whether a pattern matches a whole text.

        Patterns use only what all engines share: classes, groups, bounds, ``\\t\\n\\f\\r``. No
        group is repeated without a bound, because engines recurse there.
        """

    @abstractmethod
    def extract(self, text: str, pattern: str) -> str:
        """Match a pattern at the start of a text, and return its only group; NULL or '' if it does
        not match."""

    @abstractmethod
    def piece(self, text: str, separator: str, number: int) -> str:
        """Return a piece between separators, numbered from 1; NULL or '' if there are fewer."""

    @abstractmethod
    def parts(self, text: str, separator: str, most: int) -> str:
        """Return the first ``most`` parts that are not empty, joined; '' if there are none."""

    @abstractmethod
    def first_parts(self, key: str, separator: str, number: int) -> str:
        """Return the first parts of a text that has no empty parts."""

    @abstractmethod
    def last_parts(self, key: str, separator: str, number: int) -> str:
        """Return the last parts of a text that has no empty parts."""

    def part_count(self, key: str, separator: str) -> str:
        removed = f"length({key}) - length({self.replace(key, separator, '')})"
        if len(separator) > 1:
            removed = self.quotient(f"({removed})", str(len(separator)))
        return f"{removed} + 1"

    def replace(self, text: str, old: str, new: str) -> str:
        return f"replace({text}, {self.literal(old)}, {self.literal(new)})"

    def without(self, text: str, characters: str) -> str:
        """Return a text without any of these characters."""
        return f"translate({text}, {self.literal(characters)}, '')"

    def concat(self, *texts: str) -> str:
        """Return texts concatenated; NULL if a text is NULL."""
        return f"({' || '.join(texts)})"

    def pad(self, text: str, width: int) -> str:
        """Return a text padded with zeros on its left."""
        return f"lpad({text}, {width}, '0')"

    # -- numbers --------------------------------------------------------------------------------

    def to_integer(self, value: str) -> str:
        """Return a 64-bit integer from a number that is an integer, or from digits."""
        return f"CAST({value} AS BIGINT)"

    def small(self, value: str) -> str:
        """Return an integer as a position in a text, which needs a smaller type."""
        return f"CAST({value} AS INTEGER)"

    def addable(self, value: str) -> str:
        """Return a 64-bit integer in a type that also holds the sum over all rows."""
        return f"CAST({value} AS DECIMAL(38,0))"

    def wide(self, value: str) -> str:
        """Return a whole number of up to 38 digits."""
        return f"CAST({value} AS DECIMAL(38,0))"

    @abstractmethod
    def quotient(self, a: str, b: str) -> str:
        """Return the quotient, rounded down, of integers that are not negative."""

    def remainder(self, a: str, b: str) -> str:
        return f"({a} % {b})"

    @abstractmethod
    def is_nan(self, value: str) -> str:
        """Return whether a double is NaN."""

    @abstractmethod
    def parsed_real(self, text: str) -> str:
        """Return a double from text such as ``-1.5e3``; infinite, or 0, if it is out of range."""

    @abstractmethod
    def as_real(self, value: str, kind: str) -> str:
        """Return a double from a number or boolean."""

    # -- times ---------------------------------------------------------------------------------

    @abstractmethod
    def time_text(self, value: str, kind: str) -> str:
        """Return a date or timestamp as text ``YYYY-MM-DD[ HH:MM:SS[.ffffff]]``, in UTC if it has a
        zone; NULL outside the years 1 to 9999."""

    @abstractmethod
    def add_days(self, date: str, days: str) -> str:
        """Return a date ``YYYY-MM-DD`` some days later; NULL outside the years 1 to 9999."""

    # -- users -----------------------------------------------------------------------------------

    @abstractmethod
    def hash_of(self, texts: list[str], seed: int) -> str:
        """Return an integer from 0 to 2**63 - 1 that depends on texts and a secret seed only.

        A text either contains no separator or is the first one; no text is NULL.
        """

    # -- columns -----------------------------------------------------------------------------------

    def text(self, value: str, kind: str) -> str:
        """Return a value as the text that hierarchies read; NULL for NaN.

        It equals DuckDB's text except for decimals, fractions of doubles and doubles beyond 64
        bits; ``ColumnKeys`` parses these again on the driver.
        """
        outer = kind.split("(")[0]
        if outer in REAL:
            least, most = self.real(-sys.float_info.max), self.real(sys.float_info.max)
            return (
                f"CASE WHEN {self.is_nan(value)} THEN NULL WHEN {value} > {most} THEN 'inf' "
                f"WHEN {value} < {least} THEN '-inf' "
                f"WHEN {self.is_whole(value)} "
                f"THEN {self.cast_text(self.to_integer(value))} ELSE {self.cast_text(value)} END"
            )
        if outer in ("DATE", "TIMESTAMP", ZONED):
            return self.time_text(value, outer)
        return self.cast_text(value)

    def typed_column(self, column: str, kind: str) -> str:
        """Return a column that really has its declared type. If an engine would convert another
        type, and fail at some values, values of that other type are NULL."""
        return column

    def identity(self, value: str, kind: str) -> str:
        """Return a text of a value: equal for equal values, different for different values."""
        text = self.text(value, kind)
        if kind in REAL:
            return f"CASE WHEN {self.is_nan(value)} THEN 'nan' ELSE {text} END"
        if kind.split("(")[0] in ("DATE", "TIMESTAMP", ZONED):
            return f"coalesce({text}, {self.cast_text(value)})"
        return text

    def is_whole(self, value: str) -> str:
        """Return whether a double is a whole number of 64 bits."""
        return f"abs({value}) <= {self.real(2.0**63 - 1024)} AND {self.is_integral(value)}"

    def is_integral(self, value: str) -> str:
        """Return whether a finite double, however large, is a whole number."""
        return f"{value} = floor({value})"

    def canonical(self, name: str) -> str:
        """Return the type that statements know for this engine's name of a type; '' if there is
        none."""
        plain = re.sub(r"\(.*?\)", "", name.lower()).strip()
        plain = re.sub(r"\s+", " ", plain)
        found = self.own_types.get(plain, canonical_type(plain))
        digits = re.search(r"\(\s*([0-9]{1,2})\s*(?:,\s*([0-9]{1,2})\s*)?\)", name)
        if found.startswith("DECIMAL") and digits:
            return f"DECIMAL({digits[1]},{digits[2] or 0})"
        return found


def inexact_user_ids(kind: str, engine: str) -> str:
    """Return the message for ids for which the engine has no text that tells all of them apart."""
    return (
        f"user: ids of type {kind} have no exact text in {engine}: cast them to text or whole "
        "numbers, by table= with a query in parentheses."
    )


def canonical_type(plain: str) -> str:
    """Return the type that statements know for a lower-case name; '' if there is none."""
    return SPELLED.get(plain) or TYPE_OF.get(plain, "")


class BigQuery(Dialect):
    name: ClassVar[str] = "bigquery"
    text_type: ClassVar[str] = "STRING"
    real_type: ClassVar[str] = "FLOAT64"
    own_types: ClassVar[dict[str, str]] = {"float": "DOUBLE", "timestamp": ZONED, "json": ""}

    def moment_literal(self, text: str) -> str:
        return f"TIMESTAMP '{text}+00'"

    def timestamp_literal(self, text: str) -> str:
        return f"DATETIME '{text}'"

    def identifier(self, name: str) -> str:
        return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"

    def literal(self, text: str) -> str:
        escaped = text.replace("\\", "\\\\").replace("'", "\\'")
        return "'" + escaped.replace("\n", "\\n").replace("\r", "\\r") + "'"

    def trim(self, text: str, characters: str) -> str:
        return f"TRIM({text}, {self.literal(characters)})"

    def lower(self, text: str) -> str:
        return f"LOWER(TRANSLATE({text}, {self.literal(CAPITALS)}, {self.literal(SMALL)}))"

    def matches(self, text: str, pattern: str) -> str:
        return f"REGEXP_CONTAINS({text}, {self.literal(f'^({pattern})$')})"

    def extract(self, text: str, pattern: str) -> str:
        return f"REGEXP_EXTRACT({text}, {self.literal('^' + pattern)})"

    def piece(self, text: str, separator: str, number: int) -> str:
        return f"SPLIT({text}, {self.literal(separator)})[SAFE_ORDINAL({number})]"

    def parts(self, text: str, separator: str, most: int) -> str:
        return self._joined_where(
            text, separator, f"WHERE part <> '' ORDER BY place ASC NULLS FIRST LIMIT {most}"
        )

    def first_parts(self, key: str, separator: str, number: int) -> str:
        return self._joined_where(
            key, separator, f"WHERE place < {number} ORDER BY place ASC NULLS FIRST"
        )

    def last_parts(self, key: str, separator: str, number: int) -> str:
        first = f"{self.part_count(key, separator)} - {number}"
        return self._joined_where(
            key, separator, f"WHERE place >= {first} ORDER BY place ASC NULLS FIRST"
        )

    def _joined_where(self, text: str, separator: str, chosen: str) -> str:
        by = self.literal(separator)
        parts = f"SELECT part FROM UNNEST(SPLIT({text}, {by})) AS part WITH OFFSET AS place"
        return f"ARRAY_TO_STRING(ARRAY({parts} {chosen}), {by})"

    def to_integer(self, value: str) -> str:
        return f"CAST({value} AS INT64)"

    def small(self, value: str) -> str:
        return f"CAST({value} AS INT64)"

    def addable(self, value: str) -> str:
        return f"CAST({value} AS NUMERIC)"

    def quotient(self, a: str, b: str) -> str:
        return f"DIV({a}, {b})"

    def remainder(self, a: str, b: str) -> str:
        return f"MOD({a}, {b})"

    def cast_text(self, value: str) -> str:
        return f"COLLATE(CAST({value} AS STRING), '')"

    def identity(self, value: str, kind: str) -> str:
        outer = kind.split("(")[0]
        if outer in REAL:
            raise ColumnError(inexact_user_ids(kind, "BigQuery"))
        return self.cast_text(f"UNIX_MICROS({value})" if outer == ZONED else value)

    def is_nan(self, value: str) -> str:
        return f"IS_NAN({value})"

    def parsed_real(self, text: str) -> str:
        return f"SAFE_CAST({text} AS FLOAT64)"

    def as_real(self, value: str, kind: str) -> str:
        integer = f"CAST({value} AS INT64)" if kind == "BOOLEAN" else value
        return f"CAST({integer} AS FLOAT64)"

    def time_text(self, value: str, kind: str) -> str:
        if kind == "DATE":
            return f"FORMAT_DATE('%E4Y-%m-%d', {value})"
        if kind == ZONED:
            return f"FORMAT_TIMESTAMP('%E4Y-%m-%d %H:%M:%E*S', {value}, 'UTC')"
        return f"FORMAT_DATETIME('%E4Y-%m-%d %H:%M:%E*S', {value})"

    def add_days(self, date: str, days: str) -> str:
        moved = f"SAFE.DATE_ADD(SAFE_CAST({date} AS DATE), INTERVAL {days} DAY)"
        return self.time_text(moved, "DATE")

    def hash_of(self, texts: list[str], seed: int) -> str:
        digest = f"TO_HEX(MD5({self.concat(repr(str(seed)), self.literal('|'), *texts)}))"
        digits = f"SUBSTR({digest}, 1, 15)"
        return f"CAST({self.concat(repr('0x'), digits)} AS INT64)"


class Snowflake(Dialect):
    name: ClassVar[str] = "snowflake"
    own_types: ClassVar[dict[str, str]] = {"float": "DOUBLE", "real": "DOUBLE", "float4": "DOUBLE"}

    def moment_literal(self, text: str) -> str:
        return f"CAST('{text} +00:00' AS TIMESTAMP_TZ)"

    def timestamp_literal(self, text: str) -> str:
        return f"CAST('{text}' AS TIMESTAMP_NTZ)"

    def literal(self, text: str) -> str:
        return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"

    def cast_text(self, value: str) -> str:
        return f"COLLATE(CAST({value} AS VARCHAR), '')"

    def trim(self, text: str, characters: str) -> str:
        return f"TRIM({text}, {self.literal(characters)})"

    def lower(self, text: str) -> str:
        return f"LOWER(TRANSLATE({text}, {self.literal(CAPITALS)}, {self.literal(SMALL)}))"

    def matches(self, text: str, pattern: str) -> str:
        return f"REGEXP_LIKE({text}, {self.literal(pattern)})"  # it matches whole texts

    def extract(self, text: str, pattern: str) -> str:
        return f"REGEXP_SUBSTR({text}, {self.literal('^' + pattern)}, 1, 1, 'e', 1)"

    def piece(self, text: str, separator: str, number: int) -> str:
        return f"SPLIT_PART({text}, {self.literal(separator)}, {number})"

    def parts(self, text: str, separator: str, most: int) -> str:
        by = self.literal(separator)
        kept = f"ARRAY_REMOVE(SPLIT({text}, {by}), TO_VARIANT(''))"
        return f"ARRAY_TO_STRING(ARRAY_SLICE({kept}, 0, {most}), {by})"

    def first_parts(self, key: str, separator: str, number: int) -> str:
        by = self.literal(separator)
        return f"ARRAY_TO_STRING(ARRAY_SLICE(SPLIT({key}, {by}), 0, {number}), {by})"

    def last_parts(self, key: str, separator: str, number: int) -> str:
        by, count = self.literal(separator), self.part_count(key, separator)
        first = f"GREATEST({count} - {number}, 0)"
        return f"ARRAY_TO_STRING(ARRAY_SLICE(SPLIT({key}, {by}), {first}, {count}), {by})"

    def quotient(self, a: str, b: str) -> str:
        return f"CAST(({a} - MOD({a}, {b})) / {b} AS BIGINT)"  # "/" rounds to few decimals

    def remainder(self, a: str, b: str) -> str:
        return f"MOD({a}, {b})"

    def identity(self, value: str, kind: str) -> str:
        outer = kind.split("(")[0]
        if outer in REAL:
            raise ColumnError(inexact_user_ids(kind, "Snowflake"))
        if outer in ("DATE", "TIMESTAMP", ZONED):
            named = "TIMESTAMP_TZ" if outer == ZONED else "TIMESTAMP_NTZ"
            return self.cast_text(f"DATE_PART(EPOCH_NANOSECOND, CAST({value} AS {named}))")
        return self.cast_text(value)

    def is_nan(self, value: str) -> str:
        return f"{value} = CAST('NaN' AS DOUBLE)"

    def parsed_real(self, text: str) -> str:
        return f"TRY_TO_DOUBLE({text})"

    def as_real(self, value: str, kind: str) -> str:
        integer = f"CAST({value} AS INTEGER)" if kind == "BOOLEAN" else value
        return f"CAST({integer} AS DOUBLE)"

    def time_text(self, value: str, kind: str) -> str:
        if kind == "DATE":
            text = f"TO_CHAR({value}, 'YYYY-MM-DD')"
        else:
            if kind == ZONED:
                value = f"CAST(CONVERT_TIMEZONE('UTC', {value}) AS TIMESTAMP_NTZ)"
            text = f"RTRIM(RTRIM(TO_CHAR({value}, 'YYYY-MM-DD HH24:MI:SS.FF6'), '0'), '.')"
        return f"CASE WHEN YEAR({value}) BETWEEN 1 AND 9999 THEN {text} END"

    def add_days(self, date: str, days: str) -> str:
        moved = f"DATEADD(day, {days}, TRY_TO_DATE({date}, 'YYYY-MM-DD'))"
        return self.time_text(moved, "DATE")

    def hash_of(self, texts: list[str], seed: int) -> str:
        joined = self.concat(f"'{seed}'", "'\t'", *texts)
        return f"MOD(MD5_NUMBER_LOWER64({joined}), {2**63})"
