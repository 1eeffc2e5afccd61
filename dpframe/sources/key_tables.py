"""Turn listed keys of any form into an Arrow table of the columns that a hierarchy reads."""

from __future__ import annotations

from collections.abc import Sequence, Set
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from dpframe.errors import ColumnError, ParameterError, ParameterTypeError
from dpframe.hierarchy import Hierarchy
from dpframe.sources.frames import arrow_table, from_pandas, package_of
from dpframe.sources.objects import texts_of_objects

MOST = 2_000_000
"""The most nodes that a list can have."""

SHOWN = 80
"""The most characters of a key in a message."""


def key_table(keys: Any, hierarchy: Hierarchy) -> pa.Table:
    """The keys, one per row: typed keys keep their type, Python objects are read as text."""
    names = hierarchy.source_columns
    present = _column_names(keys)
    if present is not None:
        missing = [name for name in names if name not in present]
        if missing:
            raise ColumnError(
                f"keys lacks {_name_columns(missing)}. A frame of keys needs the hierarchy's "
                f"{_name_columns(names)}."
            )
        table = arrow_table(keys, names)
    else:
        typed, values = _key_values(keys)
        if typed is not None and len(names) == 1:
            table = arrow_table(pa.table({names[0]: typed}), names)
        else:
            values = typed.to_pylist() if typed is not None else values
            parts = _key_parts(values, hierarchy)
            table = pa.table(dict(zip(names, map(texts_of_objects, parts), strict=True)))
    if not 1 <= len(table) <= MOST:
        raise ParameterError(f"keys has {len(table)} keys. List 1 to {MOST} keys.")
    return table


def quote_key(key: object) -> str:
    """A key for a message, cut if it is long."""
    try:
        text = repr(key)
    except Exception:  # the repr of the caller's object can raise anything
        text = f"a {type(key).__name__}"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _name_columns(names: Sequence[str]) -> str:
    return ("column " if len(names) == 1 else "columns ") + ", ".join(map(repr, names))


def _column_names(keys: Any) -> list[object] | None:
    """Names of the columns of a frame; None for any other object."""
    module = package_of(keys)
    if isinstance(keys, pa.Table | pa.RecordBatch):
        return list(keys.schema.names)
    if module == "polars" and hasattr(keys, "collect_schema"):
        return list(keys.collect_schema().names())
    return list(keys.columns) if module == "pandas" and hasattr(keys, "columns") else None


def _key_values(keys: Any) -> tuple[pa.Array | None, list[Any]]:
    """An Arrow array and an empty list if the keys have a type, otherwise None and a list."""
    module = package_of(keys)
    if isinstance(keys, list | tuple):
        return None, list(keys)
    if isinstance(keys, pa.Array | pa.ChunkedArray):
        return keys, []
    if isinstance(keys, np.ndarray):
        return (pa.array(keys), []) if _has_type(keys) else (None, keys.tolist())
    if module == "polars" and hasattr(keys, "to_arrow"):
        listed = str(keys.dtype).startswith(("Object", "List", "Array"))
        return (None, keys.to_list()) if listed else (keys.to_arrow(), [])
    if module == "pandas" and hasattr(keys, "dtype"):  # a series, an index or an array
        if keys.dtype == object or getattr(keys, "nlevels", 1) > 1:
            return None, list(keys)
        return from_pandas(keys.to_series() if hasattr(keys, "to_series") else keys), []
    raise ParameterTypeError(
        f"keys must be a list, an array, a frame or 'domain'; got {type(keys).__name__}."
        f"{' Pass list(keys).' * isinstance(keys, range | Set)}"
    )


def _has_type(keys: np.ndarray[Any, Any]) -> bool:
    """Whether Arrow has the array's type, too. In a list, datetimes would become integers."""
    unit = np.datetime_data(keys.dtype)[0] if keys.dtype.kind == "M" else "D"
    return keys.ndim == 1 and keys.dtype.kind in "biufM" and unit in ("D", "s", "ms", "us", "ns")


def _key_parts(values: list[Any], hierarchy: Hierarchy) -> list[list[Any]]:
    """The values by column. A key is one value, or a tuple with one value for every column."""
    names = hierarchy.source_columns
    width = len(names)
    several = hierarchy.kind == "columns"
    parts: list[Any] = []
    for value in values:
        of_parts = isinstance(value, list | tuple)
        if any(isinstance(part, Decimal) for part in (value if of_parts else [value])):
            raise ParameterError(
                f"keys has {quote_key(value)}, and a decimal has no one text. Write the text "
                "that the "
                "result shows."
            )
        if not (several and len(value) == width) if of_parts else width > 1:
            rule = f"a tuple of {width} values, for {_name_columns(names)}"
            raise ParameterError(
                f"keys has {quote_key(value)}. A key must be "
                f"{rule if width > 1 else f'one value of {_name_columns(names)}'}."
            )
        parts.append(value if of_parts else (value,))
    return [[part[i] for part in parts] for i in range(width)]
