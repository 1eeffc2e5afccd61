"""The rollup as one SQL statement: bound users, count every level, keep nodes that reach the band.

The statement is pure text, from a plan, the columns' types and a seed. It reads the view
``dpframe_source`` once and returns ``level, n, t1, t2, ...`` in preorder. Its CTEs, in order:

source      the columns that matter, renamed: c0, c1, ..., and the user u or the weight w
keyed       the finest key of every row, k1, k2, ...
pairs       rows per user and key                     (only with a user)
leaves      counts of the finest keys, in units of the grid
level_l     counts of level l, from level l + 1
candidates  nodes at or above the band
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dpframe._duck import VIEW
from dpframe._sql import identifier
from dpframe.budget import PrivacyUnit
from dpframe.hierarchy import Hierarchy
from dpframe.hierarchy._base import text_sql
from dpframe.sources.cell_leaves import (
    cell_result_columns,
    cell_rows,
    group_rows,
    placed_leaves,
    placed_records,
)
from dpframe.sources.listed_join import listed_join
from dpframe.sources.measure_units import measure_sql
from dpframe.sources.record_leaves import (
    finest_columns,
    keyed_sql,
    one_to,
    record_leaves,
    source_columns,
    sum_list,
)
from dpframe.sources.summands import Summand, values_to_count
from dpframe.sources.user_shares import (
    measured_shares,
    row_shares,
    row_shares_of_numbers,
    same_key_sql,
    user_sample_ctes,
)
from dpframe.sources.weights import weight_sql
from dpframe.tree import ListedNodes

if TYPE_CHECKING:
    from dpframe.dialects import Dialect


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
        *_level_ctes(hierarchy, added),
        f"candidates AS ({candidates_sql(hierarchy, types, band, added)})",
    ]
    named = (*result_columns(hierarchy), *added)
    shown = ", ".join(f'{name} AS "{name}"' for name in named)  # quoted, to keep the case
    if extra is not None:
        numbers = one_to(hierarchy.key_width)
        cast = [f'CAST(t{i} AS VARCHAR) AS "t{i}"' for i in numbers]
        cast += [f'CAST(coalesce({name}, 0) AS VARCHAR) AS "{name}"' for name in added]
        shown = ", ".join([*cast, *(f'{sql} AS "{name}"' for name, sql in extra.items())])
    return (
        "WITH "
        + ",\n".join(parts)
        + f'\nSELECT level AS "level", n AS "n", {shown} FROM candidates '
        f"{listed_join(hierarchy, only)}"
        + where
        + (f"ORDER BY {hierarchy.order_by()}" if extra is None else "")
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
) -> tuple[str, tuple[str, ...]]:
    """The CTE ``source``, and the types of its columns; ``beside`` adds columns (SQL by name)."""
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
    source = f"source AS (SELECT {', '.join(chosen + user + weight + more)} FROM {view})"
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


def _level_ctes(hierarchy: Hierarchy, added: tuple[str, ...] = ()) -> list[str]:
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
