"""BigQuery: written from its reference and parsed in tests, never run there."""

from __future__ import annotations

from typing import ClassVar

from dpframe.dialects._dialect import CAPITALS, REAL, SMALL, ZONED, Dialect, inexact_user_ids
from dpframe.errors import ColumnError


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
