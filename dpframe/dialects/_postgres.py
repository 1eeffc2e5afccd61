"""PostgreSQL from 14 on, with ICU."""

from __future__ import annotations

from typing import ClassVar

from dpframe.dialects._dialect import CAPITALS, REAL, SMALL, WHOLE, ZONED, Dialect

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
