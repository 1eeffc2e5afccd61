"""The rollup as one SQL statement, and the counts in its rows.

It bounds users, counts every level, and keeps nodes that reach the band. The statement is pure
text, from a plan, the columns' types and a seed. It reads the view ``dpframe_source`` once and
returns ``level, n, t1, t2, ...`` in preorder. Its CTEs, in order:

source      the columns that matter, renamed: c0, c1, ..., and the user u or the weight w
keyed       the finest key of every row, k1, k2, ...
pairs       rows per user and key                     (only with a user)
leaves      counts of the finest keys, in units of the grid
level_l     counts of level l, from level l + 1
candidates  nodes at or above the band
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpframe._duck import VIEW
from dpframe.budget import PrivacyUnit
from dpframe.common.texts import identifier, literal
from dpframe.counts import (
    CellCounts,
    Counts,
    CountTree,
    Ints,
    ListedNodes,
    coded_values,
    different_values,
    order_of_rows,
    ranks_of_values,
    whole_numbers,
)
from dpframe.hierarchy import Hierarchy
from dpframe.hierarchy._base import text_sql
from dpframe.hierarchy._types import REAL, WHOLE, Advice, outer_type, unreadable_type
from dpframe.sources.cell_leaves import (
    cell_result_columns,
    cell_rows,
    finest_columns,
    group_rows,
    keyed_sql,
    measure_sql,
    measured_shares,
    one_to,
    placed_leaves,
    placed_records,
    places_in,
    record_leaves,
    row_shares,
    row_shares_of_numbers,
    same_key_sql,
    source_columns,
    sum_list,
    user_sample_ctes,
)
from dpframe.sources.portable_sql import Summand, values_to_count

if TYPE_CHECKING:
    from dpframe.dialects import Dialect

READ = (*WHOLE, '"NULL"')
"""DuckDB's types, without parameters, that hold weights; decimals without digits after the point
do too."""

MEASURED = (*READ, *REAL, "DECIMAL")
"""Types that hold a measure."""

HUNDREDTHS = "Count hundredths, max_weight too"


def fraction_advice(df: str) -> str:
    """Advice on questions that add up fractions; ``df`` is how pandas writes the column."""
    column = df.removeprefix("df[").removesuffix("]")
    return (
        f" Sums of fractions: df.dp.rollup(by, {{'total': dp.sum({column}, lower=0, upper=...)}}, "
        f"...). Heavy by fractions: df.dp.hhh(..., weight={column}, max_weight=...)."
    )


ADVICE: dict[tuple[str, ...], Advice] = {
    REAL: lambda df, sql: (
        f"{HUNDREDTHS}: in pandas ({df} * 100).round().astype('Int64'), in SQL CAST(round({sql} * "
        f"100) AS BIGINT). Floats by a missing value: {df}.astype('Int64').{fraction_advice(df)}"
    ),
    ("DECIMAL",): lambda df, sql: (
        f"{HUNDREDTHS}: in pandas ({df}.astype('Float64') * 100).round().astype('Int64'), in SQL "
        f"CAST(round({sql} * 100) AS BIGINT).{fraction_advice(df)}"
    ),
    ("VARCHAR", "ENUM"): lambda df, sql: (
        f"{HUNDREDTHS}: in pandas (pd.to_numeric({df}, errors='coerce') * 100).round()"
        f".astype('Int64'), in SQL CAST(round(TRY_CAST({sql} AS DOUBLE) * 100) AS BIGINT). For "
        "whole numbers leave out * 100."
    ),
}

MEASURE_ADVICE: dict[tuple[str, ...], Advice] = {
    ("VARCHAR", "ENUM"): lambda df, sql: (
        f"Make numbers of it, in pandas pd.to_numeric({df}, errors='coerce'), in SQL "
        f"TRY_CAST({sql} AS DOUBLE)."
    ),
    ("INTERVAL",): lambda df, sql: (
        f"Seconds are {df}.dt.total_seconds() in pandas, epoch({sql}) in SQL."
    ),
}

OTHERWISE = "Cast the column to whole numbers (BIGINT), or name another one."
NUMBERS = "Cast the column to numbers (DOUBLE), or name another one."


def check_weight_type(unit: PrivacyUnit, duckdb_type: str, *, text: bool = False) -> None:
    """Raise ColumnError unless the type of the weight's column, which is public, is a type of whole
    numbers, or of any numbers if the weight is a measure.

    A fraction of a record would count 0, and columns of floating-point numbers hold fractions.
    ``text`` lets texts pass: a CSV file has nothing else.
    """
    column, kind = unit.weight or "", outer_type(duckdb_type)
    if text and duckdb_type == "VARCHAR":
        return
    if unit.measured:
        if kind not in MEASURED:
            raise unreadable_type(
                "a measure is read from", column, duckdb_type, "numbers", MEASURE_ADVICE, NUMBERS
            )
        return
    whole_decimal = duckdb_type.startswith("DECIMAL(") and duckdb_type.endswith(",0)")
    if kind not in READ and not whole_decimal:
        raise unreadable_type(
            "a weight is read from", column, duckdb_type, "whole numbers", ADVICE, OTHERWISE
        )


def weight_sql(value: str, most: int) -> str:
    """SQL of a weight, BIGINT in 0 to ``most``, from the SQL of a value: a whole number, or a text
    that is read as one.

    Larger weights become ``most``. NULL, negative numbers and texts that are no whole number are 0.
    No value is an error, nor is a type, since ``check_weight_type`` has checked it.
    """
    number = f"TRY_CAST({value} AS DOUBLE)"
    return (
        f"CASE WHEN isfinite({number}) AND {number} >= 1 AND {number} = floor({number}) "
        f"THEN TRY_CAST(least({number}, {most}::DOUBLE) AS BIGINT) ELSE 0::BIGINT END"
    )


SHORT = 2_000
"""The most listed nodes that a statement spells out."""


def listed_join(hierarchy: Hierarchy, only: ListedNodes | None) -> str:
    """A join that keeps only listed nodes; empty text without a list, or for a long list."""
    if only is None or len(only.level) > SHORT:
        return ""
    columns = [column.to_pylist() for column in only.keys]
    rows = ", ".join(
        f"({level}, {', '.join('NULL' if text is None else literal(text) for text in texts)})"
        for level, texts in zip(only.level.tolist(), zip(*columns, strict=True), strict=True)
    )
    names = [f"v{i}" for i in range(hierarchy.key_width + 1)]
    same = " AND ".join(
        f"(CAST(t{i} AS VARCHAR) COLLATE C) IS NOT DISTINCT FROM v{i}::VARCHAR"
        for i in range(1, hierarchy.key_width + 1)
    )
    return f"SEMI JOIN (VALUES {rows}) AS listed({', '.join(names)}) ON level = v0 AND {same} "


def rollup_statement(
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    *,
    band: int,
    types: tuple[str, ...],
    seed: int,
    user_type: str | None = None,
    view: str = VIEW,
    only: ListedNodes | None = None,
    valid: tuple[str, str] | None = None,
    dialect: Dialect | None = None,
    weight_type: str | None = None,
    extra: Mapping[str, str] | None = None,
    names: Mapping[str, str] | None = None,
    sums: Mapping[str, Summand] | None = None,
    value_types: Mapping[str, str] | None = None,
    leaves: str | None = None,
    ordered: bool = True,
) -> str:
    """The statement; ``types`` are the DuckDB types of ``hierarchy.source_columns``.

    ``valid`` is the name and the SQL of a condition on types, which fails for the whole result or
    not at all; its CTE comes first, where none of our names hides a table.
    If ``only`` is a short list, nodes that are not listed can be left out, to save transport.
    In a ``dialect`` other than DuckDB's, types are those of :mod:`dpframe.dialects`, ``names`` maps
    columns to their names in the view, if these differ, and rows come in any order:
    ``sources.candidates`` sorts them.
    With ``extra`` columns in the result (SQL by name), keys are texts, for any client.
    ``sums`` are whole numbers of a row of the view, by name: the result has their sum at every
    node, behind the keys. They are for records only; a dialect needs the ``value_types`` of their
    columns. ``leaves`` is a query of the finest keys and their counts, n, where these are known.
    Unless ``ordered``, nodes of columns come in any order, for :func:`in_preorder`.
    """
    if dialect is not None:
        from dpframe.sources.portable_sql import portable_sql

        return portable_sql(
            hierarchy,
            unit,
            dialect,
            band=band,
            types=types,
            seed=seed,
            user_type=user_type,
            weight_type=weight_type,
            view=view,
            only=only,
            extra=extra,
            names=names,
            sums=sums,
            value_types=value_types,
        )
    counted = values_to_count(sums or {})
    beside = {name: added.sql for name, added in (sums or {}).items() if name not in counted}
    source, types = source_sql(
        hierarchy, unit, types=types, user_type=user_type, view=view, beside=beside
    )
    added = tuple(sums or ())
    parts = [*([f"{valid[0]} AS (SELECT {valid[1]} AS ok)"] if valid else []), source]
    where = f"WHERE (SELECT ok FROM {valid[0]}) " if valid else ""
    if hierarchy.has_cells:
        rows = cell_rows(hierarchy) if extra is None else group_rows(hierarchy, added, extra)
        if _each_row_counts_one(hierarchy, unit) and not added:
            parts += placed_records(hierarchy, types, band)
            return f"WITH {', '.join(parts)} {rows} {where}"
    if leaves is not None:
        parts = [f"leaves AS ({leaves})"]
    elif unit.user is None:
        parts += record_leaves(hierarchy, unit, types, seed, added, counted)
    else:
        parts += _user_leaf_ctes(hierarchy, unit, types, seed)
    if hierarchy.has_cells:
        parts += placed_leaves(hierarchy, types, band, added)
        return f"WITH {', '.join(parts)} {rows} {where}"
    parts += [
        *level_ctes(hierarchy, added),
        f"candidates AS ({candidates_sql(hierarchy, types, band, added)})",
    ]
    named = (*result_columns(hierarchy), *added)
    shown = ", ".join(f'{name} AS "{name}"' for name in named)  # quoted, to keep the case
    if extra is not None:
        numbers = one_to(hierarchy.key_width)
        cast = [f'CAST(t{i} AS VARCHAR) AS "t{i}"' for i in numbers]
        cast += [f'CAST(coalesce({name}, 0) AS VARCHAR) AS "{name}"' for name in added]
        shown = ", ".join([*cast, *(f'{sql} AS "{name}"' for name, sql in extra.items())])
    in_order = extra is None and (ordered or not hierarchy.label_columns)
    return (
        "WITH "
        + ",\n".join(parts)
        + f'\nSELECT level AS "level", n AS "n", {shown} FROM candidates '
        f"{listed_join(hierarchy, only)}"
        + where
        + (f"ORDER BY {hierarchy.order_by()}" if in_order else "")
    )


def result_columns(hierarchy: Hierarchy) -> tuple[str, ...]:
    """The columns of the result behind ``level`` and ``n``."""
    if hierarchy.has_cells:
        return cell_result_columns(hierarchy)
    return tuple(f"t{i}" for i in one_to(hierarchy.key_width))


def _each_row_counts_one(cells: Hierarchy, unit: PrivacyUnit) -> bool:
    """Whether every row counts once, and none is dropped."""
    dropped = any(one.on_invalid == "drop" for one in cells.dimensions)
    return unit.user is None and unit.weight is None and not dropped


def source_sql(
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    *,
    types: tuple[str, ...],
    user_type: str | None,
    view: str,
    beside: Mapping[str, str] | None = None,
    again: bool = False,
) -> tuple[str, tuple[str, ...]]:
    """The CTE ``source``, and the types of its columns; ``beside`` adds columns (SQL by name).
    ``again`` says that the source may be read once more where it stands, so that nothing holds its
    rows."""
    named = zip(hierarchy.source_columns, types, strict=True)
    columns = [_grouped_column_sql(*pair, hierarchy.reads_text) for pair in named]
    chosen = [f"{sql} AS c{i}" for i, (sql, _) in enumerate(columns)]
    user = [f"{exact_column_sql(unit.user, user_type)} AS u"] if unit.user is not None else []
    weight = []
    if unit.weight is not None:
        value = identifier(unit.weight)
        read = measure_sql(value, unit.worth) if unit.measured else weight_sql(value, unit.most)
        weight = [f"{read} AS w"]
    more = [f"{sql} AS {name}" for name, sql in (beside or {}).items()]
    rows = f"SELECT {', '.join(chosen + user + weight + more)} FROM {view}"
    source = f"source AS {'NOT MATERIALIZED ' if again else ''}({rows})"
    return source, tuple(kind for _, kind in columns)


def _grouped_column_sql(column: str, kind: str, text: bool) -> tuple[str, str]:
    """SQL of a column, and the type of that SQL. Where a kind reads ``text``, values that can be
    grouped only by their text become text."""
    if text and kind.split("(")[0] not in ONE_TEXT:
        return text_sql(identifier(column), kind), "VARCHAR"
    return exact_column_sql(column, kind), kind


ONE_TEXT = (
    *("VARCHAR", "ENUM", "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"),
    *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT", "DECIMAL", "FLOAT", "DOUBLE"),
    *("DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "UUID"),
    *("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS", "PANDAS"),
)
"""Types whose equal values have equal texts, so that they can be grouped before they are read. With
other types, such as INTERVAL and lists, one record could choose the text for all."""


def exact_column_sql(column: str, duckdb_type: str | None) -> str:
    """SQL of a column whose texts are equal only if their bytes are, whatever its collation."""
    return identifier(column) + (" COLLATE C" if duckdb_type == "VARCHAR" else "")


def _user_leaf_ctes(
    hierarchy: Hierarchy, unit: PrivacyUnit, types: tuple[str, ...], seed: int
) -> list[str]:
    """CTEs of counts in which each user weighs what the unit allows, with any number of rows."""
    if unit.contribution == "items":
        raise AssertionError("users at nodes are no sums of leaves: use sources.node_user_counts")
    names, grid = finest_columns(hierarchy), unit.grid
    if grid > 1 and not unit.measured:
        return _row_share_ctes(hierarchy, types, grid=grid, seed=seed)
    keys = ", ".join(names)
    return [
        *user_pairs(hierarchy, types, measured=unit.measured),
        *(
            measured_shares(names, grid=grid, seed=seed)
            if grid > 1
            else user_sample_ctes(keys, unit, seed)
        ),
        f"leaves AS (SELECT {keys}, sum(n)::BIGINT AS n FROM bounded GROUP BY {keys})",
    ]


def user_pairs(
    hierarchy: Hierarchy, types: tuple[str, ...], *, measured: bool = False
) -> list[str]:
    """CTEs up to ``pairs``: users and finest keys, with m, the number of their rows, or if
    ``measured`` the sum of their weights."""
    keys = ", ".join(finest_columns(hierarchy))
    rows, kept, kind = ("sum(w)::HUGEINT", ", w", "HUGEINT") if measured else COUNTED
    own = ", ".join(source_columns(hierarchy))
    if hierarchy.reads_text:
        return [
            f"texts AS (SELECT u, {own}, {rows} AS m FROM source GROUP BY u, {own})",
            f"keyed AS ({keyed_sql(hierarchy, types, 'texts', 'u, m')})",
            f"pairs AS (SELECT u, {keys}, sum(m)::{kind} AS m FROM keyed GROUP BY u, {keys})",
        ]
    return [
        f"keyed AS ({keyed_sql(hierarchy, types, 'source', f'u{kept}')})",
        f"pairs AS (SELECT u, {keys}, {rows} AS m FROM keyed GROUP BY u, {keys})",
    ]


COUNTED = ("count(*)", "", "BIGINT")


def _row_share_ctes(
    hierarchy: Hierarchy, types: tuple[str, ...], *, grid: int, seed: int
) -> list[str]:
    names = finest_columns(hierarchy)
    if hierarchy.whole_keys(types):
        parts = [f"keyed AS ({keyed_sql(hierarchy, types, 'source', 'u')})"]
        return parts + row_shares_of_numbers(names, grid=grid, seed=seed, keyed="keyed")
    read, own, kept = "source", names, "u"
    if hierarchy.reads_text:  # each text is parsed once
        own = source_columns(hierarchy)
        read, kept = "texts", ", ".join(own)
    parts = [f"keyed AS ({keyed_sql(hierarchy, types, read, kept)})"]
    rows = f"keyed LEFT JOIN numbered ON {same_key_sql(names, 'keyed', 'numbered')}"
    if hierarchy.reads_text:
        parts = [f"texts AS (SELECT DISTINCT {kept} FROM source)", *parts]
        places = f"(SELECT {kept}, leaf FROM {rows}) AS places"
        rows = f"source JOIN {places} ON {same_key_sql(own, 'source', 'places')}"
    return parts + row_shares(names, grid=grid, seed=seed, keyed="keyed", placed=rows)


def level_ctes(hierarchy: Hierarchy, added: tuple[str, ...] = ()) -> list[str]:
    """CTEs: level_h from the leaves, then each level from the one below. A key ends at level d."""
    depth = hierarchy.depth(finest_columns(hierarchy))
    height = hierarchy.height
    ends = ", d" if depth is not None else ""
    length = "" if depth is None else f", {depth} AS d"
    more = "".join(f", {name}" for name in added)
    own = f"{', '.join(finest_columns(hierarchy))}{length}"
    parts = [f"level_{height} AS (SELECT {own}, n{more} FROM leaves)"]
    for level in range(height - 1, 0, -1):
        keys = hierarchy.coarser(level, finest_columns(hierarchy))
        named = [f"{sql} AS k{i}" for i, sql in enumerate(keys, 1)]
        if hierarchy.rests(level):
            parts.append(
                f"level_{level} AS (SELECT {', '.join(finest_columns(hierarchy))}, d, n{more} "
                f"FROM level_{level + 1} WHERE d <= {level} UNION ALL SELECT {', '.join(named)}, "
                f"{level}, sum(n)::BIGINT{sum_list(added)} FROM level_{level + 1} "
                f"WHERE d > {level} GROUP BY {', '.join(str(i) for i in one_to(len(keys)))})"
            )
            continue
        groups = ", ".join(str(i) for i in one_to(len(keys) + (1 if ends else 0)))
        shorter = f", least(d, {level}) AS d" if ends else ""
        parts.append(
            f"level_{level} AS (SELECT {', '.join(named)}{shorter}, sum(n)::BIGINT AS n"
            f"{sum_list(added)} FROM level_{level + 1} GROUP BY {groups})"
        )
    return parts


def candidates_sql(
    hierarchy: Hierarchy,
    types: tuple[str, ...],
    band: int,
    added: tuple[str, ...] = (),
    root: tuple[str, str] = ("coalesce(sum(n), 0)::BIGINT", "level_1"),
) -> str:
    """A query of the nodes at or above the band, from ``level_l``. ``root`` is the SQL of the
    root's count, and of the table that it reads."""
    width = hierarchy.key_width
    keys = finest_columns(hierarchy)
    ragged = hierarchy.depth(keys) is not None
    sorts = len(hierarchy.preorder(1, keys))
    selects = []
    for level in one_to(hierarchy.height):
        texts = hierarchy.texts(level, keys, types)
        columns = [f"{level} AS level", "n"]
        columns += [f"{sql} AS s{i}" for i, sql in enumerate(hierarchy.preorder(level, keys), 1)]
        columns += [f"{sql} AS t{i}" for i, sql in enumerate(texts, 1)]
        columns += added
        here = f" AND d = {level}" if ragged else ""
        selects.append(f"SELECT {', '.join(columns)} FROM level_{level} WHERE n >= {band}{here}")
    nulls = [f"NULL AS s{i}" for i in one_to(sorts)] + [f"NULL AS t{i}" for i in one_to(width)]
    nulls += [f"sum({name})" for name in added]
    total = f"SELECT 0, {root[0]}, {', '.join(nulls)} FROM {root[1]}"
    return "\nUNION ALL ".join([*selects, total])


def counts_of(
    table: pa.Table, hierarchy: Hierarchy, types: tuple[str, ...] = (), sums: Sequence[str] = ()
) -> Counts:
    """The counts in the rows of ``rollup_statement``: nodes in preorder, or nodes of dimensions and
    groups."""
    if hierarchy.has_cells:
        return _cells_of(table, hierarchy, types, sums)
    return tree_of(table, types, sums)


def in_preorder(table: pa.Table, hierarchy: Hierarchy) -> pa.Table:
    """The rows of a statement that was not ``ordered``, in the order of ``Columns.order_by``.

    Here keys are sorted by the ranks of their different values, which takes DuckDB longer. Texts
    stay coded: each different one is written once."""
    if not hierarchy.label_columns:
        return table
    coded = {name: different_values(table[name]) for name in result_columns(hierarchy)}
    ranks = [ranks_of_values(different)[place] for different, place in coded.values()]
    order = order_of_rows([*ranks, _int64_values(table["level"])])
    texts = {
        name: coded_values(different, place[order])
        for name, (different, place) in coded.items()
        if pa.types.is_string(different.type) or pa.types.is_large_string(different.type)
    }
    rows = table.select([name for name in table.column_names if name not in texts]).take(order)
    return pa.table(
        {name: texts[name] if name in texts else rows[name] for name in table.column_names}
    )


def tree_of(table: pa.Table, types: tuple[str, ...] = (), sums: Sequence[str] = ()) -> CountTree:
    """The tree in rows in preorder: level, n, keys and ``sums``."""
    return CountTree.from_preorder(
        level=_int64_values(table["level"]),
        count=_int64_values(table["n"]),
        keys=tuple(table[name] for name in table.column_names[2:] if name not in sums),
        types=types,
        sums=tuple(table[name] for name in sums),
    )


def _cells_of(
    table: pa.Table, cells: Hierarchy, types: tuple[str, ...], sums: Sequence[str]
) -> CellCounts:
    """The counts in the rows of ``sources.cell_leaves``, which come in any order.

    Raises SourceError where the groups do not add up to the nodes.
    """
    names = cell_result_columns(cells)
    number = _int64_values(table[names[0]])
    rows = _take_rows(table, np.flatnonzero(number == 0))
    own = _int64_values(rows["n"])
    found = [
        _dimension_axis(table, cells, d, np.flatnonzero(number == d), int(own.sum()))
        for d in one_to(len(cells.dimensions))
    ]
    placed = [
        _positions_among(_int64_values(rows[names[d]]), known).astype(np.int32)
        for d, (_, known) in enumerate(found, 1)
    ]
    return CellCounts(
        axes=tuple(axis for axis, _ in found),
        places=tuple(placed),
        own_counts=own,
        types=types,
        own_sums=tuple(whole_numbers(rows[name]) for name in sums),
    ).check_sums()


def _dimension_axis(
    table: pa.Table, cells: Hierarchy, dimension: int, here: Ints, total: int
) -> tuple[CountTree, Ints]:
    """The axis of a dimension and the places of its nodes, from the rows ``here``. Both begin with
    the root: place 0, and the ``total`` of all groups."""
    names, wide = cell_result_columns(cells), places_in(cells)
    rows = _take_rows(table, here)
    level, place = _int64_values(rows["level"]), _int64_values(rows[names[1]])
    order = np.lexsort([place, level])  # whatever the order of the rows
    rows = rows.take(order)
    own = np.concatenate([[0], place[order]])
    texts = names[1 + wide : 1 + wide + cells.dimensions[dimension - 1].key_width]
    axis = CountTree(
        level=np.concatenate([[0], level[order]]),
        parent=np.concatenate([[-1], _positions_among(_int64_values(rows[names[2]]), own)]),
        count=np.concatenate([[total], _int64_values(rows["n"])]),
        keys=tuple(_below_root(rows[name]) for name in texts),
    )
    return axis, own


def _take_rows(table: pa.Table, rows: Ints) -> pa.Table:
    """The rows with these ascending numbers; no copy is made if they follow each other."""
    if len(rows) and rows[-1] - rows[0] + 1 == len(rows):
        return table.slice(int(rows[0]), len(rows))
    return table.take(rows)


def _positions_among(wanted: Ints, known: Ints) -> Ints:
    """The position in ``known`` of each wanted place. Most often there are more wanted places than
    numbers up to the last place, and a lookup table of all these numbers is fastest."""
    last = int(known.max())
    if last <= max(4 * len(wanted), 2**16):
        table = np.zeros(last + 1, dtype=np.int64)
        table[known] = np.arange(len(known))
        return table[wanted]
    order = np.argsort(known)
    found: Ints = order[np.searchsorted(known, wanted, sorter=order)]
    return found


def _below_root(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    return pa.chunked_array([pa.nulls(1, pa.string()), *pc.cast(texts, pa.string()).chunks])


def _int64_values(column: pa.ChunkedArray) -> NDArray[np.int64]:
    numbers: NDArray[np.int64] = column.cast(pa.int64()).to_numpy()
    return numbers
