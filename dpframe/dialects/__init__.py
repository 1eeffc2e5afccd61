"""SQL dialects in which a rollup can be written: what each engine says in its own way.

DuckDB is not among them: the package runs it, and the hierarchies themselves write its statement.
For every other engine, the few operations of :class:`Dialect` give equal nodes, with all keys as
text. Here are PostgreSQL from 14 on, and Spark SQL from 4 on, which tests run.

**Spark SQL** is that of classic and Connect sessions, and of Databricks.

None of its SQL depends on the settings of a session: ANSI mode, time zone, or how strings are
escaped.
"""

from __future__ import annotations

import re
from typing import ClassVar

from dpframe.dialects._dialect import (
    CAPITALS,
    REAL,
    SMALL,
    SPACES,
    WHOLE,
    ZONED,
    BigQuery,
    Dialect,
    Snowflake,
    canonical_type,
)
from dpframe.errors import ColumnError

__all__ = [
    "DIALECTS",
    "POSTGRES",
    "REAL",
    "SPACES",
    "SPARK",
    "TESTED_DIALECTS",
    "WHOLE",
    "ZONED",
    "Dialect",
    "canonical_type",
]

LONGEST_TEXT = 1_000_000
"""Most bytes of a text that is read. Functions of texts fail if their result has a gigabyte, and a
text that compresses well can reach it."""

INTEGERS = "'smallint', 'integer', 'bigint'"

LONGEST_NUMBER = 10_000
"""Most characters of a number that is read. A NUMERIC has at most 16383 digits after its point."""


class Postgres(Dialect):
    name: ClassVar[str] = "postgres"
    text_type: ClassVar[str] = "TEXT"
    real_type: ClassVar[str] = "DOUBLE PRECISION"
    own_types: ClassVar[dict[str, str]] = {"float": "DOUBLE", "char": "VARCHAR"}

    def rows(self, query: str) -> str:
        # without OFFSET the planner copies a column's expression to every place that reads it
        return f"({query} OFFSET 0) AS step"

    def literal(self, text: str) -> str:
        quoted = text.replace("'", "''")
        if "\\" in text:  # E'' does not depend on standard_conforming_strings
            return "E'" + quoted.replace("\\", "\\\\") + "'"
        return f"'{quoted}'"

    def cast_text(self, value: str) -> str:
        return f'(CAST({value} AS TEXT) COLLATE "C")'

    def text(self, value: str, kind: str) -> str:
        text = super().text(value, kind)
        if kind != "VARCHAR":
            return text
        return f"CASE WHEN octet_length({text}) <= {LONGEST_TEXT} THEN {text} END"

    def typed_column(self, column: str, kind: str) -> str:
        kinds = {"BOOLEAN": "'boolean'", **dict.fromkeys(WHOLE, INTEGERS)}
        kinds |= {**dict.fromkeys(REAL, "'real', 'double precision'")}
        names = f"'numeric', {INTEGERS}" if kind.startswith("DECIMAL") else kinds.get(kind)
        if (
            names is None
        ):  # texts hold every value, and comparing other types with times fails early
            return column
        return f"CASE WHEN CAST(pg_typeof({column}) AS TEXT) IN ({names}) THEN {column} END"

    def identity(self, value: str, kind: str) -> str:
        outer = kind.split("(")[0]
        if outer in REAL:  # the text of a double depends on the session
            bits = f"encode(float8send(CAST({value} AS DOUBLE PRECISION)), 'hex')"
            zero = f"WHEN {value} = 0 THEN '0'"  # 0 and -0 are equal, but their bits differ
            return f"CASE WHEN {self.is_nan(value)} THEN 'nan' {zero} ELSE {bits} END"
        if outer in ("DATE", "TIMESTAMP", ZONED):
            return self.cast_text(f"extract(epoch FROM {value})")
        if outer == "DECIMAL":  # 1.0 equals 1.00
            return self.cast_text(f"trim_scale(CAST({value} AS NUMERIC))")
        whole = self.cast_text(value)
        if kind != "VARCHAR":
            return whole
        return (
            f"CASE WHEN octet_length({whole}) <= {LONGEST_TEXT} THEN {whole} "
            f"ELSE {self.concat(f'md5({whole})', self.cast_text(f'octet_length({whole})'))} END"
        )

    def trim(self, text: str, characters: str) -> str:
        return f"btrim({text}, {self.literal(characters)})"

    def lower(self, text: str) -> str:
        # "C" lowers ASCII only, and ICU lowers a final sigma by its neighbours
        simple = f"translate({text}, {self.literal(CAPITALS)}, {self.literal(SMALL)})"
        return f'(lower({simple} COLLATE "und-x-icu") COLLATE "C")'

    def matches(self, text: str, pattern: str) -> str:
        return f"{text} ~ {self.literal(f'^({pattern})$')}"

    def extract(self, text: str, pattern: str) -> str:
        return f"substring({text} FROM {self.literal('^' + pattern)})"

    def piece(self, text: str, separator: str, number: int) -> str:
        return f"split_part({text}, {self.literal(separator)}, {number})"

    def parts(self, text: str, separator: str, most: int) -> str:
        by = self.literal(separator)
        return f"array_to_string((array_remove(string_to_array({text}, {by}), ''))[1:{most}], {by})"

    def first_parts(self, key: str, separator: str, number: int) -> str:
        by = self.literal(separator)
        return f"array_to_string((string_to_array({key}, {by}))[1:{number}], {by})"

    def last_parts(self, key: str, separator: str, number: int) -> str:
        by = self.literal(separator)
        first = f"greatest({self.part_count(key, separator)} - {number - 1}, 1)"
        return f"array_to_string((string_to_array({key}, {by}))[{first}:], {by})"

    def quotient(self, a: str, b: str) -> str:
        return f"({a} / {b})"

    def is_nan(self, value: str) -> str:
        return f"{value} = 'NaN'"

    def parsed_real(self, text: str) -> str:
        # PostgreSQL fails at text that a double cannot hold, and at numbers that round to 0
        short = f"CASE WHEN length({text}) <= {LONGEST_NUMBER} THEN {text} END"
        big = f"{text} ~ '^[^eE]*[1-9].*[eE][+]?0*[1-9][0-9]{{3}}'"
        small = f"({text} ~ '[eE]-0*[1-9][0-9]{{3}}' OR NOT {text} ~ '^[^eE]*[1-9]')"
        inside = f"CAST(CASE WHEN NOT {big} AND NOT {small} THEN {short} END AS NUMERIC)"
        return (
            f"CASE WHEN {small} THEN 0 WHEN {big} THEN "
            f"CASE WHEN left({text}, 1) = '-' THEN {self._inf('-')} ELSE {self._inf('')} END "
            f"ELSE {self._clamp(inside)} END"
        )

    def as_real(self, value: str, kind: str) -> str:
        if kind == "BOOLEAN":
            return f"CAST(CAST({value} AS INTEGER) AS DOUBLE PRECISION)"
        if kind.startswith("DECIMAL"):
            return self._clamp(f"CAST({value} AS NUMERIC)")
        return f"CAST({value} AS DOUBLE PRECISION)"

    def _inf(self, sign: str) -> str:
        return f"CAST('{sign}Infinity' AS DOUBLE PRECISION)"

    def _clamp(self, number: str) -> str:
        """Return a double from a NUMERIC of any size."""
        return (
            f"CASE WHEN {number} = 'NaN' THEN NULL WHEN {number} > 1e308 THEN {self._inf('')} "
            f"WHEN {number} < -1e308 THEN {self._inf('-')} "
            f"WHEN abs({number}) < 2.5e-324 THEN 0 "
            f"WHEN abs({number}) < 5e-324 THEN sign({number}) * {self.real(5e-324)} "
            f"ELSE CAST({number} AS DOUBLE PRECISION) END"
        )

    def time_text(self, value: str, kind: str) -> str:
        if kind == "DATE":
            inside = f"{value} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31'"
            return self.cast_text(f"CASE WHEN {inside} THEN to_char({value}, 'YYYY-MM-DD') END")
        if kind == ZONED:  # its text would depend on the session
            value = f"({value} AT TIME ZONE 'UTC')"
        inside = (
            f"{value} BETWEEN TIMESTAMP '0001-01-01' AND TIMESTAMP '9999-12-31 23:59:59.999999'"
        )
        text = f"rtrim(rtrim(to_char({value}, 'YYYY-MM-DD HH24:MI:SS.US'), '0'), '.')"
        return self.cast_text(f"CASE WHEN {inside} THEN {text} END")

    def add_days(self, date: str, days: str) -> str:
        year, month, day = (f"CAST({self.piece(date, '-', i)} AS INTEGER)" for i in (1, 2, 3))
        moved = f"(make_date({year}, {month}, {day}) + CAST({days} AS INTEGER))"
        return self.time_text(moved, "DATE")

    def hash_of(self, texts: list[str], seed: int) -> str:
        return f"(hashtextextended({self.concat(*texts)}, {seed}) & {2**63 - 1})"


EPOCH = "TIMESTAMP_NTZ'1970-01-01 00:00:00'"


class Spark(Dialect):
    name: ClassVar[str] = "spark"
    text_type: ClassVar[str] = "STRING"
    own_types: ClassVar[dict[str, str]] = {
        "float": "FLOAT",
        "timestamp": ZONED,
        **dict.fromkeys(("decimal", "dec", "numeric"), "DECIMAL(10,0)"),
    }

    def moment_literal(self, text: str) -> str:
        return f"TIMESTAMP'{text}+00:00'"

    def timestamp_literal(self, text: str) -> str:
        return f"TIMESTAMP_NTZ'{text}'"

    def identifier(self, name: str) -> str:
        if "${" in name:
            raise ColumnError(
                f"column {name!r} has '${{' in its name, Spark's sign of a variable: rename it."
            )
        return "`" + name.replace("`", "``") + "`"

    def with_levels(self, rows: str, depth: str, height: int) -> str:
        return f"{rows} LATERAL VIEW explode(sequence(0, {depth})) levels AS level"

    def literal(self, text: str) -> str:
        if re.fullmatch(r"[^$'\"\\\x00-\x1f\x7f-\U0010ffff]*", text):
            return f"'{text}'"
        # no setting changes the meaning of hexadecimal digits
        return f"CAST(X'{text.encode().hex().upper()}' AS STRING)"

    def cast_text(self, value: str) -> str:
        return f"CAST({value} AS STRING)"

    def typed_column(self, column: str, kind: str) -> str:
        if kind in ("VARCHAR", "DECIMAL", "TIMESTAMP", ZONED):
            return column
        return f"try_cast({column} AS {kind})"

    def text(self, value: str, kind: str) -> str:
        text = super().text(value, kind)
        return f"make_valid_utf8({text})" if kind == "VARCHAR" else text

    def trim(self, text: str, characters: str) -> str:
        return f"trim(BOTH {self.literal(characters)} FROM {text})"

    def lower(self, text: str) -> str:
        # Java lowers a final sigma and a dotted I by their neighbours
        return f"lower(translate({text}, {self.literal(CAPITALS)}, {self.literal(SMALL)}))"

    def matches(self, text: str, pattern: str) -> str:
        return f"{text} RLIKE {self.literal(f'^({pattern})' + chr(92) + 'z')}"

    def extract(self, text: str, pattern: str) -> str:
        return f"regexp_extract({text}, {self.literal('^' + pattern)}, 1)"

    def piece(self, text: str, separator: str, number: int) -> str:
        return f"split_part({text}, {self.literal(separator)}, {number})"

    def parts(self, text: str, separator: str, most: int) -> str:
        kept = f"array_remove({self._split(text, separator)}, '')"
        return f"array_join(slice({kept}, 1, {most}), {self.literal(separator)})"

    def first_parts(self, key: str, separator: str, number: int) -> str:
        if len(separator) == 1:
            return f"substring_index({key}, {self.literal(separator)}, {number})"
        parts = f"slice({self._split(key, separator)}, 1, {number})"
        return f"array_join({parts}, {self.literal(separator)})"

    def last_parts(self, key: str, separator: str, number: int) -> str:
        return f"substring_index({key}, {self.literal(separator)}, -{number})"

    def _split(self, text: str, separator: str) -> str:
        quoted = "".join(c if c.isalnum() or not c.isascii() else "\\" + c for c in separator)
        return f"split({text}, {self.literal(quoted)}, -1)"

    def quotient(self, a: str, b: str) -> str:
        return f"({a} DIV {b})"

    def to_integer(self, value: str) -> str:
        return f"try_cast({value} AS BIGINT)"

    def addable(self, value: str) -> str:
        return f"CAST({value} AS DECIMAL(18,0))"  # one machine word; sums get ten digits more

    def is_nan(self, value: str) -> str:
        return f"isnan({value})"

    def is_integral(self, value: str) -> str:
        return f"{value} = rint({value})"  # Spark's floor returns a BIGINT

    def identity(self, value: str, kind: str) -> str:
        if kind == "VARCHAR":  # bytes unrepaired: no client reads them
            return self.cast_text(value)
        if kind not in ("TIMESTAMP", ZONED):
            return super().identity(value, kind)
        instant, text = self.cast_text(self._micros(value)), self.cast_text(value)
        # two times can have one text in the time zone of the session
        return f"CASE WHEN {self._is_zoned(value)} THEN {instant} ELSE {text} END"

    def parsed_real(self, text: str) -> str:
        return f"try_cast({text} AS DOUBLE)"

    def as_real(self, value: str, kind: str) -> str:
        return f"try_cast({value} AS DOUBLE)"

    def time_text(self, value: str, kind: str) -> str:
        if kind != "DATE":  # decide by the values which kind of timestamp the column is
            instant = f"timestampadd(MICROSECOND, {self._micros(value)}, {EPOCH})"
            wall = f"try_cast({value} AS TIMESTAMP_NTZ)"
            value = f"CASE WHEN {self._is_zoned(value)} THEN {instant} ELSE {wall} END"
        return self._within_years(f"CAST({value} AS STRING)")

    def _is_zoned(self, value: str) -> str:
        return f"typeof({value}) = 'timestamp'"

    def _micros(self, value: str) -> str:
        return f"unix_micros(try_cast({value} AS TIMESTAMP_LTZ))"

    def add_days(self, date: str, days: str) -> str:
        moved = f"date_add(try_cast({date} AS DATE), CAST({days} AS INT))"
        return self._within_years(f"CAST({moved} AS STRING)")

    def _within_years(self, text: str) -> str:
        return f"CASE WHEN {text} RLIKE '^[0-9]{{4}}-' AND {text} >= '0001' THEN {text} END"

    def hash_of(self, texts: list[str], seed: int) -> str:
        return f"(xxhash64(CAST({seed} AS BIGINT), {', '.join(texts)}) & {2**63 - 1})"


SPARK = Spark()
POSTGRES = Postgres()

TESTED_DIALECTS = (POSTGRES, SPARK)
"""Dialects whose statements tests run and compare with DuckDB's. Other dialects are only parsed."""

DIALECTS: dict[str, Dialect] = {
    **{d.name: d for d in (*TESTED_DIALECTS, Snowflake(), BigQuery())},
    "databricks": SPARK,
}
"""All dialects by name."""
