"""Tables that hold all releases of a family, with the period as a column: ``ips_all``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import pyarrow as pa

from dpframe.ledger import StoredResult
from dpframe.publishing.names import TableNames
from dpframe.publishing.results_tables import Table, period_of

OURS = {
    "release": "Name of the release in the ledger",
    "period": "The period that was counted, or the numbers at the end of the name of the release",
}

Published = tuple[TableNames, StoredResult, Table]


def family_tables(published: Sequence[Published]) -> list[Table]:
    """Return a table for each family: the rows of its releases, oldest first.

    Views would be too slow: DuckDB takes 5 s to read a view of 2,000 tables, minutes for 9,000.
    """
    families: dict[str, list[Published]] = {}
    for one in published:
        families.setdefault(one[0].whole, []).append(one)
    return [_family_table(name, members) for name, members in families.items()]


def _family_table(name: str, members: Sequence[Published]) -> Table:
    parts: list[dict[str, pa.ChunkedArray]] = []
    called, meanings = {column: column for column in OURS}, dict(OURS)
    for named, stored, table in members:
        n, period = table.rows.num_rows, period_of(named, json.loads(stored.receipt))
        part = {
            column: pa.chunked_array([pa.array([text] * n, pa.string())])
            for column, text in zip(OURS, (stored.name, period), strict=True)
        }
        renamed = rename_reserved_columns(table.rows.column_names)
        for own, values, meaning in zip(renamed, table.rows.columns, table.meanings, strict=True):
            # DuckDB takes City and city for one column
            column = called.setdefault(own.casefold(), own)
            part[column], meanings[column] = values, meaning
        parts.append(part)
    lengths = [table.rows.num_rows for _, _, table in members]
    return Table(
        name=name,
        rows=pa.table(
            {
                column: stack_columns(
                    part.get(column, pa.chunked_array([pa.nulls(n)]))
                    for part, n in zip(parts, lengths, strict=True)
                )
                for column in meanings
            }
        ),
        comment=f"All releases of the family {members[0][0].family!r}, oldest first: one row a "
        "release and node. A node that only some of them report is no zero in the others. Comments "
        "on columns are those of the newest release that has them; guarantees are in dp_releases",
        meanings=tuple(meanings.values()),
    )


def rename_reserved_columns(columns: Sequence[str]) -> list[str]:
    """Name a release's columns in the table: a name that is ours already gets ``_`` at its end."""
    taken = {column.casefold() for column in columns}
    out = []
    for column in columns:
        name = column
        while name.casefold() in OURS or (name != column and name.casefold() in taken):
            name += "_"
        out.append(name)
    return out


def stack_columns(parts: Iterable[pa.ChunkedArray]) -> pa.ChunkedArray:
    """Concatenate columns in a type that holds all of them: text, if no other does."""
    tables = [pa.table({"": part}) for part in parts]
    try:
        return pa.concat_tables(tables, promote_options="permissive").column(0)
    except (pa.ArrowTypeError, pa.ArrowInvalid):
        texts = [pa.table({"": table.column(0).cast(pa.string())}) for table in tables]
        return pa.concat_tables(texts).column(0)
