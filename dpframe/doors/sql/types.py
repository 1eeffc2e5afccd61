"""Rows that cross between DuckDB and Python: candidates in, results, plans and ledgers out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpframe._duck import without_views
from dpframe._sql import literal
from dpframe.asking.explanation import Explanation
from dpframe.asking.privacy_receipt import Receipt
from dpframe.asking.release import Release
from dpframe.errors import SourceError
from dpframe.hierarchy import Hierarchy
from dpframe.ledger import Ledger, StoredResult
from dpframe.ledger.history import period_in

if TYPE_CHECKING:
    import pandas as pd

ROWS = (
    "STRUCT(level BIGINT, prefix VARCHAR, keys VARCHAR[], residual BIGINT, count BIGINT, "
    "lower BIGINT, upper BIGINT, measure DOUBLE[])[]"
)
NUMBERS = ("residual", "count", "lower", "upper")
"""Columns of a node's numbers: whole for counts; of a measure, all four are in ``measure``."""

BUDGET = (
    "STRUCT(ledger VARCHAR, accountant VARCHAR, epsilon DOUBLE, delta DOUBLE, "
    "spent_epsilon DOUBLE, spent_delta DOUBLE, left_epsilon DOUBLE, left_delta DOUBLE, "
    "plain_epsilon DOUBLE, saved_epsilon DOUBLE, releases BIGINT, reserved BIGINT, "
    "unread_epsilon DOUBLE, unread_delta DOUBLE, protects VARCHAR)[]"
)
RELEASES = (
    "STRUCT(number BIGINT, time VARCHAR, release VARCHAR, release_id VARCHAR, source VARCHAR, "
    "mechanism VARCHAR, hierarchy VARCHAR, neighbours VARCHAR, epsilon DOUBLE, delta DOUBLE, "
    "stored BOOLEAN, receipt VARCHAR, period VARCHAR)[]"
)


TEXTS = "VARCHAR[][]"
"""Type of rows with any columns: a text for each column, which the statement casts."""


def plan_sql(plan: Explanation[Any]) -> str:
    """Return the SQL of the rows that explain a plan: quantity, value, meaning."""
    rows = ", ".join(
        f"({literal(q.name)}, {literal(q.value_text)}, {literal(q.meaning_text)})"
        for q in plan.lines
    )
    return f"SELECT * FROM (VALUES {rows}) AS plan(quantity, value, meaning)"


def stored_types(stored: StoredResult, hierarchy: Hierarchy) -> tuple[str, ...]:
    """Return DuckDB's types of a stored result's level columns; older versions kept text."""
    schema = stored.to_arrow().schema
    return tuple(_duckdb_type(schema.field(name).type) for name in hierarchy.label_columns)


def arrow_types(table: pa.Table) -> dict[str, str]:
    """Return the DuckDB types of a table's columns by name: VARCHAR for all but numbers, booleans
    and times."""
    return {field.name: _duckdb_type(field.type) for field in table.schema}


def _duckdb_type(kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        zoned = "TIMESTAMPTZ_NS" if kind.unit == "ns" else "TIMESTAMP WITH TIME ZONE"
        plain = {"s": "TIMESTAMP_S", "ms": "TIMESTAMP_MS", "ns": "TIMESTAMP_NS"}
        return zoned if kind.tz else plain.get(kind.unit, "TIMESTAMP")
    return OF_ARROW.get(kind, "VARCHAR")


OF_ARROW = {
    pa.int64(): "BIGINT",
    pa.uint64(): "UBIGINT",
    pa.bool_(): "BOOLEAN",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.date32(): "DATE",
}


def candidate_rows(listed: pa.ListScalar) -> pa.Table:
    """Return a list of candidates as a table, sorted by their numbers ``i``; SourceError if one is
    missing."""
    table = without_views(pa.Table.from_struct_array(listed.values))
    position = table["i"].to_numpy()
    if (np.diff(position) != 1).any():
        order = np.argsort(position)
        if (position[order] != np.arange(1, len(order) + 1)).any():
            raise SourceError("candidates are missing. Run the statement again.")
        table = table.take(pa.array(order))
    return table.drop_columns(["i"])


def result_rows(result: Release) -> pa.Array:
    """Return a result as one list of rows, of type ``ROWS``."""
    table = pa.Table.from_pandas(result.frame, preserve_index=False).combine_chunks()
    names = table.column_names
    numbers = [_one_array(table[name]) for name in NUMBERS]
    measured = any(pa.types.is_floating(column.type) for column in numbers)
    none = pa.nulls(len(table), pa.int64())
    columns = {
        "level": _one_array(table["level"]),
        "prefix": _one_array(table["prefix"].cast(pa.string())),
        "keys": _side_by_side(
            [_one_array(table[name].cast(pa.string())) for name in names[2:-4]], len(table)
        ),
        **dict(zip(NUMBERS, [none] * 4 if measured else numbers, strict=True)),
        "measure": pa.nulls(len(table), pa.list_(pa.float64())),
    }
    if measured:
        columns["measure"] = _side_by_side(numbers, len(table), pa.float64())
    return _one_list(pa.StructArray.from_arrays(list(columns.values()), names=list(columns)))


def text_rows(table: pa.Table) -> pa.Array:
    """Return a table as one list of rows, each a list of texts."""
    texts = [_one_array(column.cast(pa.string())) for column in table.columns]
    return _one_list(_side_by_side(texts, table.num_rows))


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks()


def _side_by_side(
    columns: list[pa.Array], rows: int, kind: pa.DataType | None = None
) -> pa.ListArray:
    """Return a list for each row: its values in ``columns``, in their order."""
    wide = len(columns)
    order = (np.arange(rows)[:, None] + rows * np.arange(wide)).ravel()
    values = pa.concat_arrays([pa.array([], kind or pa.string()), *columns]).take(pa.array(order))
    return pa.ListArray.from_arrays(pa.array(wide * np.arange(rows + 1), pa.int32()), values)


def budget_rows(ledger: Ledger | None) -> pa.Array:
    """Return the summary of a ledger as one list with one row, or NULL without a ledger."""
    return _one_list(_as_rows(ledger.summary())) if ledger is not None else _no_rows()


def release_rows(ledger: Ledger | None, receipts: Sequence[tuple[Receipt, str]]) -> pa.Array:
    """Return the releases of a ledger as one list; without a ledger, the ``receipts`` of a
    connection, or NULL for none."""
    if ledger is not None:
        return _one_list(_as_rows(ledger.releases()))
    rows = [
        {
            **{name: facts.get(name) for name in FACTS},
            "number": number,
            "source": source,
            "stored": False,
            "receipt": facts.to_json(),
            "period": period_in(facts),
        }
        for number, (facts, source) in enumerate(receipts, 1)
    ]
    return pa.array([rows]) if rows else _no_rows()


FACTS = (
    *("number", "time", "release", "release_id", "source", "mechanism", "hierarchy"),
    *("neighbours", "epsilon", "delta", "stored", "receipt"),
)


def _as_rows(frame: pd.DataFrame) -> pa.StructArray:
    table = pa.Table.from_pandas(frame, preserve_index=False)
    arrays = [column.combine_chunks() for column in table.columns]
    return pa.StructArray.from_arrays(arrays, names=table.column_names)


def _no_rows() -> pa.Array:
    return pa.array([None])


def _one_list(rows: pa.Array) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array([0, len(rows)], pa.int32()), rows)
