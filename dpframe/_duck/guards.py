"""SQL that fails on no value that DuckDB holds and cannot write; it depends on the type alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duckdb.sqltypes import DuckDBPyType

from dpframe._duck.process_database import process_database
from dpframe._sql import identifier, literal


def readable_columns(columns: Sequence[str], kinds: Sequence[DuckDBPyType]) -> str:
    """SQL of all columns for a SELECT, with values that DuckDB can compute with, by type alone.

    Columns of type JSON become texts: ``TRY_CAST`` of JSON to a number raises for a text that is no
    JSON. Inside of other types JSON stays, because DuckDB would parse it when it casts back.
    """
    given = zip(map(identifier, columns), kinds, strict=True)
    values = [
        (name, f"CAST({name} AS VARCHAR)" if kind == "JSON" else guard_value(name, kind))
        for name, kind in given
    ]
    changed = ", ".join(f"{value} AS {name}" for name, value in values if value != name)
    return f"* REPLACE ({changed})" if changed else "*"


def guard_value(value: str, kind: DuckDBPyType, depth: int = 0) -> str:
    """SQL of a value on which no cast fails: DuckDB does not check values that Arrow gives it.

    A time becomes the nearest time within the day; other malformed values become NULL.
    """
    if kind.id in ("time", "time_ns"):
        first, last = (f"{kind} '{time}'" for time in ("00:00:00", "24:00:00"))
        near = f"WHEN {value} > {last} THEN {last} WHEN {value} < {first} THEN {first}"
        return f"CASE {near} ELSE {value} END"
    if kind.id in VALID:
        return f"CASE WHEN {VALID[kind.id].format(value)} THEN {value} END"
    if kind.id == "decimal":
        (_, precision), (_, scale) = _type_parts(kind)
        digits = f"{'9' * (precision - scale)}.{'9' * scale}"
        most = f"CAST('0{digits}' AS {kind})"
        return f"CASE WHEN {value} BETWEEN -{most} AND {most} THEN {value} END"
    if kind.id in ("list", "array"):
        items = _guard_items(value, _type_parts(kind)[0][1], depth)
        return value if items == value else f"CAST({items} AS {kind})"
    if kind.id == "map":  # a changed key could be there twice, which no map allows
        own, others = f"map_keys({value})", f"map_values({value})"
        (_, key), (_, other) = _type_parts(kind)
        keys, values = _guard_items(own, key, depth), _guard_items(others, other, depth)
        guard = f"CASE WHEN {keys} IS NOT DISTINCT FROM {own} THEN map({own}, {values}) END"
        return value if (keys, values) == (own, others) else guard
    if kind.id == "struct":
        fields = [
            (name, f"struct_extract({value}, {literal(name)})") for name, _ in _type_parts(kind)
        ]
        inner = [
            (name, field, guard_value(field, inside, depth))
            for (name, field), (_, inside) in zip(fields, _type_parts(kind), strict=True)
        ]
        packed = ", ".join(f"{identifier(name)} := {one}" for name, _, one in inner)
        guard = f"CASE WHEN {value} IS NOT NULL THEN struct_pack({packed}) END"
        return value if all(field == one for _, field, one in inner) else guard
    return value


def _guard_items(value: str, kind: DuckDBPyType, depth: int) -> str:
    """SQL of a list whose items have a type."""
    item = f"x{depth}"
    inside = guard_value(item, kind, depth + 1)
    return value if inside == item else f"list_transform({value}, lambda {item}: {inside})"


def guard_named_type(value: str, name: str) -> str:
    """``guard_value`` for a value whose type is known by name; NULL where it has another type.

    An ENUM, whose name has no values here, needs no guard: DuckDB writes each of its values.
    """
    if name == "ENUM":
        return value
    with process_database().connection.cursor() as cursor:
        cast = f"TRY_CAST({value} AS {name})"
        safe = guard_value(cast, cursor.sqltype(name))
    return value if safe == cast else safe


def _type_parts(kind: DuckDBPyType) -> list[tuple[str, Any]]:
    """What a type is made of, by name: types, and the numbers of a decimal."""
    return kind.children


VALID = {
    "bit": "octet_length({0}) > 0 AND 8 * octet_length({0}) - bit_length({0}) BETWEEN 0 AND 7",
    "time with time zone": (
        "CAST({0} AS TIME) BETWEEN TIME '00:00:00' AND TIME '24:00:00' "
        "AND date_part('timezone', {0}) BETWEEN -57599 AND 57599"
    ),
}
"""SQL by type: whether a value can be written as text. It fails on no value of the type."""
