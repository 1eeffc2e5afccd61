"""Spark SQL from 4 on, classic and Connect; Databricks too.

No SQL here depends on the settings of a session: ANSI mode, time zone, or how strings are escaped.
"""

from __future__ import annotations

import re
from typing import ClassVar

from dpframe.dialects._dialect import CAPITALS, SMALL, ZONED, Dialect
from dpframe.errors import ColumnError

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
