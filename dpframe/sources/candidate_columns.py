"""Read the columns of a result that a warehouse's client returned.

Names can be in upper or lower case, and values of many types.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpframe import _duck
from dpframe._sql import identifier
from dpframe.errors import ColumnError, ParameterTypeError, SourceError
from dpframe.sources.frames import arrow_table

AGAIN = "Run the statement again, and pass its whole result as the client returns it."

NUMBERS = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
"""Arrow types in which a client can return whole numbers."""


def candidate_columns(candidates: object, columns: tuple[str, ...]) -> pa.Table:
    """The columns of the result, in the order of ``columns``."""
    if isinstance(candidates, _duck.DuckDBPyRelation):
        with _duck.GivenRelation(candidates) as relation:
            chosen = ", ".join(map(identifier, _result_names(relation, columns)))
            table = relation.query(f"SELECT {chosen} FROM {_duck.VIEW}", False)
        return table.rename_columns(list(columns))
    named = _result_names(candidates, columns)
    try:
        table = arrow_table(candidates, named)
    except (pa.ArrowException, UnicodeError):
        table = None
    if table is None:  # outside of the handler: no traceback quotes a value
        raise SourceError(f"candidates has values that cannot be read. {AGAIN}")
    return table.rename_columns(list(columns))


def _result_names(candidates: object, columns: tuple[str, ...]) -> list[str]:
    """The names that the result has for the columns: warehouses can change their case."""
    there = [str(name) for name in _column_names_of_result(candidates)]
    found = {name.lower(): name for name in there}
    for name in columns:
        if sum(other.lower() == name for other in there) > 1:
            raise ColumnError(f"candidates has column {name!r} more than once. {AGAIN}")
    missing = [name for name in columns if name not in found]
    if missing:
        raise ColumnError(
            f"candidates has no column {missing[0]!r}; it needs {', '.join(columns)}. {AGAIN}"
        )
    return [found[name] for name in columns]


def _column_names_of_result(candidates: object) -> list[object]:
    names = getattr(candidates, "column_names", None)  # of Arrow
    if names is not None:
        return list(names)
    if not hasattr(candidates, "columns"):
        raise ParameterTypeError(
            f"candidates is {type(candidates).__name__}. Pass a pandas or Polars frame, an Arrow "
            "table or a DuckDB relation."
        )
    return list(candidates.columns)


def integer_column(column: pa.ChunkedArray, name: str) -> NDArray[np.int64]:
    """The column as whole numbers, whatever type it has; SourceError for any other value."""
    kind, numbers = column.type, None
    written = _is_text(kind)  # of objects, such as decimal.Decimal
    if pa.types.is_floating(kind):
        column = pc.if_else(pc.less_equal(pc.abs(column), 2.0**53), column, None)
    if written or any(test(kind) for test in NUMBERS):
        with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
            plain = column.cast(pa.string()).cast(pa.decimal128(38, 4)) if written else column
            numbers = plain.cast(pa.int64())
    if numbers is None or numbers.null_count:
        raise SourceError(f"candidates has no whole numbers in column {name!r}. {AGAIN}")
    found: NDArray[np.int64] = numbers.to_numpy()
    return found


def texts_of_column(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """The column as texts, whatever type of text it has; SourceError for other types."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
        if _is_text(kind):
            chunks = [c.dictionary.cast(pa.string()).take(c.indices) for c in column.chunks]
            column = pa.chunked_array(chunks, pa.string())
    if pa.types.is_null(kind) or _is_text(kind):
        return column.cast(pa.string())
    raise SourceError(f"candidates has no texts in column {name!r}, but {column.type}. {AGAIN}")


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )
