"""Snowflake: written from its reference and parsed in tests, never run there."""

from __future__ import annotations

from typing import ClassVar

from dpframe.dialects._dialect import CAPITALS, REAL, SMALL, ZONED, Dialect, inexact_user_ids
from dpframe.errors import ColumnError


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
