"""Values that DuckDB holds and cannot write: SQL that is no error on any of them, by type alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duckdb.sqltypes import DuckDBPyType

from dpframe._duck.own import own
from dpframe._sql import identifier, literal


def readable(columns: Sequence[str], kinds: Sequence[DuckDBPyType]) -> str:
    """All columns in a SELECT, with values that DuckDB can compute with, by their types alone.

    Those of type JSON are texts: ``TRY_CAST`` of JSON to a number raises for a text that is no
    JSON. Inside of other types it stays, because DuckDB would parse it when it casts back.
    """
    given = zip(map(identifier, columns), kinds, strict=True)
    values = [
        (name, f"CAST({name} AS VARCHAR)" if kind == "JSON" else guarded(name, kind))
        for name, kind in given
    ]
    changed = ", ".join(f"{value} AS {name}" for name, value in values if value != name)
    return f"* REPLACE ({changed})" if changed else "*"


def guarded(value: str, kind: DuckDBPyType, depth: int = 0) -> str:
    """SQL of a value that no cast fails on: DuckDB looks at none that it is given by Arrow.

    Times are the nearest within the day, and other values that are malformed are missing.
    """
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
        items = _guarded_items(value, _parts(kind)[0][1], depth)
        return value if items == value else f"CAST({items} AS {kind})"
    if kind.id == "map":  # a key that has to change could be there twice then: no map has one
        own, others = f"map_keys({value})", f"map_values({value})"
        (_, key), (_, other) = _parts(kind)
        keys, values = _guarded_items(own, key, depth), _guarded_items(others, other, depth)
        guard = f"CASE WHEN {keys} IS NOT DISTINCT FROM {own} THEN map({own}, {values}) END"
        return value if (keys, values) == (own, others) else guard
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


def _guarded_items(value: str, kind: DuckDBPyType, depth: int) -> str:
    """SQL of a list whose items have a type."""
    item = f"x{depth}"
    inside = guarded(item, kind, depth + 1)
    return value if inside == item else f"list_transform({value}, lambda {item}: {inside})"


def guarded_as(value: str, name: str) -> str:
    """``guarded`` of a value whose type is known by name, and NULL where it is another one."""
    with own().connection.cursor() as cursor:
        cast = f"TRY_CAST({value} AS {name})"
        safe = guarded(cast, cursor.sqltype(name))
    return value if safe == cast else safe


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
