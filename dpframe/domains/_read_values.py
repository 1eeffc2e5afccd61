"""Read values as Arrow arrays, and parse each different text once in DuckDB. Private."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpframe import _duck
from dpframe.common.unicode import unicode
from dpframe.domains._axis import Counts
from dpframe.hierarchy import Hierarchy
from dpframe.hierarchy._base import level_key_sql

Steps = tuple[dict[str, str], ...]


def single_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array; a dictionary is decoded."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):  # without chunks, in older Arrow
            column = pa.concat_arrays(column.chunks)
    if pa.types.is_dictionary(column.type):
        return column.dictionary_decode()
    return column


def distinct_values(column: pa.Array) -> tuple[pa.Array, Counts]:
    """Return the different values, NULL included, and the place of each row among them."""
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    if pa.types.is_null(column.type):
        column = column.cast(pa.string())
    encoded = column.dictionary_encode(null_encoding="encode")
    place = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return unicode(encoded.dictionary), place


def query_values(values: pa.Array, steps: Steps, answer: str, what: str = "a batch") -> pa.Table:
    """Compute the SQL ``answer`` for every value, in order. ``steps`` start from column ``c0``."""
    table = pa.table({"i": np.arange(len(values)), "c0": values})
    query = f"(SELECT i, c0 FROM {_duck.VIEW})"
    for step in steps:
        added = ", ".join(f"{sql} AS {name}" for name, sql in step.items())
        query = f"(SELECT *, {added} FROM {query})"
    with _duck.register_table(table, what) as relation:
        found = relation.query(f"SELECT i, {answer} FROM {query}", False)
    order = pc.sort_indices(found["i"])
    return found.drop_columns(["i"]).take(order).combine_chunks()


def arrow_duckdb_type(values: pa.Array) -> str:
    """Return DuckDB's name of the type of an array."""
    with _duck.register_table(pa.table({"c0": values[:0]}), "a batch") as relation:
        return relation.types[0]


def level_texts(values: pa.Array, hierarchy: Hierarchy) -> list[pa.Array]:
    """Return the nodes of different values of one column, as an array of texts for each level. NULL
    at level 1 means missing or malformed; below, it means that the value has no such level."""
    kind = arrow_duckdb_type(values)
    hierarchy.check_types((kind,))

    def text(level: int, columns: tuple[str, ...]) -> str:
        return f"CAST({hierarchy.texts(level, columns, (kind,))[0]} AS VARCHAR)"

    steps, texts = level_key_sql(hierarchy, ("k1",), text)
    named = ", ".join(f"{sql} AS t{level}" for level, sql in enumerate(texts, 1))
    found = query_values(values, (*hierarchy.key_steps(("c0",), (kind,)), *steps), named)
    return [single_array(column).cast(pa.large_string()) for column in found.columns]
