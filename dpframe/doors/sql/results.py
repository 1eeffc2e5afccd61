"""The columns of a result, as SQL over the rows ``r`` that Python gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpframe._sql import identifier
from dpframe.asking.given import whole
from dpframe.doors.sql.types import NUMBERS
from dpframe.hierarchy import Hierarchy
from dpframe.hierarchy._base import KEPT


def nodes_sql(hierarchy: Hierarchy, types: Sequence[str], rows: str, *, measured: bool) -> str:
    """Nodes of a hierarchy, in their order; their numbers are those of a measure, or counts."""
    names = hierarchy.label_columns
    keys = [f"{_level_value(i, types)} AS {identifier(name)}" for i, name in enumerate(names, 1)]
    numbers = [
        f"r.measure[{i}] AS {identifier(name)}" if measured else _own_column(name)
        for i, name in enumerate(NUMBERS, 1)
    ]
    columns = ", ".join([*map(_own_column, ("level", "prefix")), *keys, *numbers])
    return f"SELECT {columns} FROM {rows}"


def flat_sql(hierarchy: Hierarchy, types: Sequence[str], rows: str, k: object) -> str:
    """Values of one column, largest count first."""
    value = _level_value(1, types)
    columns = ", ".join(map(_own_column, ("count", "lower", "upper")))
    most = "" if k is None else f" LIMIT {whole('k', k, 1, 2**53)}"
    order = f"ORDER BY r.count DESC NULLS LAST, {value} ASC NULLS LAST"
    name = identifier(hierarchy.label_columns[0])
    return f"SELECT {value} AS {name}, {columns} FROM {rows} {order}{most}"


def measured_sql(
    hierarchy: Hierarchy, types: Sequence[str], measures: Mapping[str, str], rows: str
) -> str:
    """Nodes with measures, whose types are given by name; all come as texts."""
    names, nothing = hierarchy.label_columns, [""] * len(hierarchy.label_columns)
    own = [kind if kind in KEPT else "VARCHAR" for kind in (types or nothing)]
    levels = dict(zip(names, own, strict=True))
    return rows_sql({"level": "BIGINT", "prefix": "VARCHAR", **levels, **measures}, rows)


def rows_sql(types: Mapping[str, str], rows: str) -> str:
    """Rows of columns, which come as texts."""
    columns = ", ".join(
        f"TRY_CAST(r[{i}] AS {_type(kind)}) AS {identifier(name)}"  # <other> is no UUID
        for i, (name, kind) in enumerate(types.items(), 1)
    )
    return f"SELECT {columns} FROM {rows}"


def _own_column(name: str) -> str:
    """A column of every result; quoted, as connections can write other names in another case."""
    return f"r.{name} AS {identifier(name)}"


def _level_value(number: int, types: Sequence[str]) -> str:
    """The column of a level, in the type of the source if that is kept."""
    kind = types[number - 1] if types else ""
    text = f"r.keys[{number}]"
    return f"TRY_CAST({text} AS {kind})" if kind in KEPT else text


def _type(name: str) -> str:
    """The type of a column; that of an ENUM lists values of the data's owner, and text will do, as
    it does for a column that holds nothing and has no type."""
    return "VARCHAR" if name.startswith("ENUM") or name == '"NULL"' else name
