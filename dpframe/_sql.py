"""Quoting: the only place where text becomes part of a SQL statement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duckdb import list_type
from duckdb.sqltypes import DuckDBPyType


def identifier(name: str) -> str:
    """A quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A quoted string."""
    return "'" + text.replace("'", "''") + "'"


def is_nan(number: str) -> str:
    """SQL of whether a floating-point number is NaN.

    ``isnan`` and comparisons are not enough: DuckDB answers them from the statistics of a Parquet
    file, in which NaN is left out, so that a NaN seems to lie between the other numbers.
    """
    return f"NOT (isfinite({number}) OR isinf({number}))"


def readable(columns: Sequence[str], kinds: Sequence[DuckDBPyType]) -> str:
    """All columns in a SELECT, with values that DuckDB can compute with, by their types alone."""
    given = zip(map(identifier, columns), kinds, strict=True)
    values = [(name, guarded(name, kind)) for name, kind in given]
    changed = ", ".join(f"{value} AS {name}" for name, value in values if value != name)
    return f"* REPLACE ({changed})" if changed else "*"


def guarded(value: str, kind: DuckDBPyType, depth: int = 0) -> str:
    """SQL of a value that no cast fails on: DuckDB looks at none that it is given by Arrow.

    JSON is text, because ``TRY_CAST`` of it to a number raises for a text that is no JSON. Times
    are the nearest within the day, and other values that are malformed are missing.
    """
    if kind == "JSON":
        return f"CAST({value} AS VARCHAR)"
    if kind.id in ("time", "time_ns"):
        first, last = (f"{kind} '{time}'" for time in ("00:00:00", "24:00:00"))
        near = f"WHEN {value} > {last} THEN {last} WHEN {value} < {first} THEN {first}"
        return f"CASE {near} ELSE {value} END"
    if kind.id in VALID:
        return f"CASE WHEN {VALID[kind.id].format(value)} THEN {value} END"
    if kind.id == "decimal":
        (_, precision), (_, scale) = _parts(kind)
        digits = f"{'9' * (precision - scale)}.{'9' * scale}"
        most = f"CAST('0{digits}' AS {kind})"
        return f"CASE WHEN {value} BETWEEN -{most} AND {most} THEN {value} END"
    if kind.id in ("list", "array"):
        item = f"x{depth}"
        inside = guarded(item, _parts(kind)[0][1], depth + 1)
        changed = f"list_transform({value}, lambda {item}: {inside})"
        return value if inside == item else f"CAST({changed} AS {kind})"
    if kind.id == "map":  # a key that has to change could be there twice then: no map has one
        keys, values = (
            guarded(f"map_{part}({value})", list_type(inner), depth)
            for part, (_, inner) in zip(("keys", "values"), _parts(kind), strict=True)
        )
        own = f"map_keys({value})"
        guard = f"CASE WHEN {keys} IS NOT DISTINCT FROM {own} THEN map({own}, {values}) END"
        return value if (keys, values) == (own, f"map_values({value})") else guard
    if kind.id == "struct":
        fields = [(name, f"struct_extract({value}, {literal(name)})") for name, _ in _parts(kind)]
        inner = [
            (name, field, guarded(field, inside, depth))
            for (name, field), (_, inside) in zip(fields, _parts(kind), strict=True)
        ]
        packed = ", ".join(f"{identifier(name)} := {one}" for name, _, one in inner)
        guard = f"CASE WHEN {value} IS NOT NULL THEN struct_pack({packed}) END"
        return value if all(field == one for _, field, one in inner) else guard
    return value


def _parts(kind: DuckDBPyType) -> list[tuple[str, Any]]:
    """What a type is made of, by name: types, and the numbers of a decimal."""
    return kind.children


VALID = {
    "bit": "octet_length({0}) > 0 AND 8 * octet_length({0}) - bit_length({0}) BETWEEN 0 AND 7",
    "time with time zone": (
        "CAST({0} AS TIME) BETWEEN TIME '00:00:00' AND TIME '24:00:00' "
        "AND date_part('timezone', {0}) BETWEEN -57599 AND 57599"
    ),
}
"""Whether a value of a type can be written as text, which is no error for any of them."""


def ascending(*columns: str, nulls: str = "LAST") -> str:
    """What stands behind ORDER BY: a connection can have other defaults than DuckDB."""
    return ", ".join(f"{column} ASC NULLS {nulls}" for column in columns)
