"""SQL that makes the columns of a result from the rows ``r`` that functions in Python return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpframe._sql import identifier
from dpframe.asking.call_arguments import whole_number
from dpframe.doors.sql.types import NUMBERS
from dpframe.hierarchy import Hierarchy
from dpframe.hierarchy._base import LEVEL_COLUMN_TYPES


def nodes_sql(hierarchy: Hierarchy, types: Sequence[str], rows: str, *, measured: bool) -> str:
    """Return the SQL of nodes in the order of ``rows``, with the numbers of a measure if
    ``measured``, else with counts."""
    names = hierarchy.label_columns
    keys = [f"{_level_value(i, types)} AS {identifier(name)}" for i, name in enumerate(names, 1)]
    numbers = [
        f"r.measure[{i}] AS {identifier(name)}" if measured else _own_column(name)
        for i, name in enumerate(NUMBERS, 1)
    ]
    columns = ", ".join([*map(_own_column, ("level", "prefix")), *keys, *numbers])
    return f"SELECT {columns} FROM {rows}"


def flat_sql(hierarchy: Hierarchy, types: Sequence[str], rows: str, k: object) -> str:
    """Return the SQL of values of one column, largest count first: at most ``k``, or all for
    None."""
    value = _level_value(1, types)
    columns = ", ".join(map(_own_column, ("count", "lower", "upper")))
    most = "" if k is None else f" LIMIT {whole_number('k', k, 1, 2**53)}"
    order = f"ORDER BY r.count DESC NULLS LAST, {value} ASC NULLS LAST"
    name = identifier(hierarchy.label_columns[0])
    return f"SELECT {value} AS {name}, {columns} FROM {rows} {order}{most}"


def measured_sql(
    hierarchy: Hierarchy, types: Sequence[str], measures: Mapping[str, str], rows: str
) -> str:
    """Return the SQL of nodes with ``measures``, given as types by name, from ``rows`` of texts."""
    names, nothing = hierarchy.label_columns, [""] * len(hierarchy.label_columns)
    own = [kind if kind in LEVEL_COLUMN_TYPES else "VARCHAR" for kind in (types or nothing)]
    levels = dict(zip(names, own, strict=True))
    return rows_sql({"level": "BIGINT", "prefix": "VARCHAR", **levels, **measures}, rows)


def rows_sql(types: Mapping[str, str], rows: str) -> str:
    """Return the SQL that casts rows of texts to the types of their columns."""
    columns = ", ".join(
        f"TRY_CAST(r[{i}] AS {_cast_type(kind)}) AS {identifier(name)}"  # TRY: <other> is no UUID
        for i, (name, kind) in enumerate(types.items(), 1)
    )
    return f"SELECT {columns} FROM {rows}"


def _own_column(name: str) -> str:
    """Return the SQL of a fixed column, quoted: a connection may change the case of bare names."""
    return f"r.{name} AS {identifier(name)}"


def _level_value(number: int, types: Sequence[str]) -> str:
    """Return the SQL of a level's value: cast to the type in the source if results keep this type,
    else as text."""
    kind = types[number - 1] if types else ""
    text = f"r.keys[{number}]"
    return f"TRY_CAST({text} AS {kind})" if kind in LEVEL_COLUMN_TYPES else text


def _cast_type(name: str) -> str:
    """Return the type of a result's column; VARCHAR for an ENUM, whose type would list values of
    the data's owner, and for a column that holds only NULL and has no type."""
    return "VARCHAR" if name.startswith("ENUM") or name == '"NULL"' else name
