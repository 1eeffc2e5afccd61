"""Convert texts of categories to values of a column's type."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from dpframe.domains._read_values import query_values, single_array
from dpframe.errors import ColumnError
from dpframe.hierarchy import OTHER, columns
from dpframe.hierarchy._base import has_zone

SAME_TEXT = ("VARCHAR", "ENUM", '"NULL"', "BLOB", "PANDAS")


def typed_values(texts: Sequence[str], kind: pa.DataType, is_text: bool) -> pa.Array:
    """Return texts as an array of a type; NULL for ``<other>`` and for values that the type cannot
    hold."""
    if is_text:
        return pa.array(texts, type=kind)
    whole_texts = [
        None if text == OTHER else text[:10] if pa.types.is_date(kind) else text for text in texts
    ]
    try:
        return _cast(whole_texts, kind)
    except pa.ArrowException:
        return pa.concat_arrays([_cast_one(text, kind) for text in whole_texts])


def _cast_one(text: str | None, kind: pa.DataType) -> pa.Array:
    try:
        return _cast([text], kind)
    except pa.ArrowException:
        return pa.nulls(1, kind)


def _cast(texts: list[str | None], kind: pa.DataType) -> pa.Array:
    array = pa.array(texts, type=pa.string())
    if pa.types.is_timestamp(kind):  # as times without a zone first, because texts are in UTC
        array = array.cast(pa.timestamp(kind.unit))
    return array.cast(kind)


def check_listed_values(column: str, texts: list[str], kind: str) -> None:
    """Raise ColumnError if a listed text is no value of a column of this DuckDB type."""
    if kind.split("(")[0] in SAME_TEXT or kind.endswith("]"):
        return
    plain = "TIMESTAMP" if has_zone(kind) else kind
    listed = pa.array(texts, type=pa.string())
    one = columns("value")
    ((_, value),) = one.key_steps(("value",), (plain,))[0].items()
    steps = ({"value": f"TRY_CAST(c0 AS {plain})"}, {"k1": value})
    (text,) = one.texts(1, ("k1",), (plain,))
    found = query_values(listed, steps, f"CAST({text} AS VARCHAR) AS x", "the keys")
    for key, read in zip(texts, single_array(found["x"]).to_pylist(), strict=True):
        if key != read:
            as_written = f": write it as {read!r}" if read is not None else ""
            raise ColumnError(
                f"keys has {key!r}, which is no value of column {column!r} of type "
                f"{kind.split('(')[0]}{as_written}."
            )
