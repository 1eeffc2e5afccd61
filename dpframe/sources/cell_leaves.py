"""SQL for the finest cells of rows, each at the finest nodes of its dimensions that can matter.

A cell has no more records than each of its nodes: where a node of one dimension is below the band,
no cell at or below that node can be reported. So the records of such a node are counted at its
nearest ancestor that reaches the band, and few cells remain. Nothing is lost: the records count for
every coarser cell. CTEs, for the dimension d:

keyed_d    its stored values with their finest keys and how often each occurs (for records only)
values_d   its finest keys, with the nodes above them and how many levels they have
node_d_l   its nodes of level l that reach the band, with their places
places_d   the place of every finest key at each level, NULL where the node is below the band
cells      counts of the finest cells, by the places of their nodes

Where records are counted, each dimension reads a value once, and rows are joined to the places of
the dimension. Where users or weights are counted, shares are rounded at the finest keys of all
dimensions, so these CTEs read ``leaves``.

The place of a node is its number within its level, times ``PLACES``, plus the level; place 0 is all
of a dimension.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpframe._sql import ascending_order
from dpframe.hierarchy import Hierarchy
from dpframe.sources.record_leaves import (
    finest_columns,
    keyed_sql,
    one_to,
    source_columns,
    sum_list,
)
from dpframe.sources.user_shares import same_key_sql

PLACES = 256
"""Larger than the number of levels of any dimension."""


def places_in(cells: Hierarchy) -> int:
    """How many columns of places the result has: a cell needs one per dimension, and a node needs
    its own place and its parent's."""
    return max(2, len(cells.dimensions))


def cell_result_columns(cells: Hierarchy) -> tuple[str, ...]:
    """The columns of the result behind ``level`` and ``n``: the number of a node's dimension (0 for
    a cell), the places, and the key of a node as texts."""
    width = max(one.key_width for one in cells.dimensions)
    return tuple(f"t{i}" for i in one_to(1 + places_in(cells) + width))


def placed_leaves(
    cells: Hierarchy, types: tuple[str, ...], band: int, added: tuple[str, ...] = ()
) -> list[str]:
    """The CTEs over ``leaves``. ``types`` are the types of the columns of ``source``; ``added``
    names further columns, which are added up."""
    parts, joins, start = ["leaf AS MATERIALIZED (SELECT * FROM leaves)"], [], 0
    for number, (one, own) in enumerate(
        zip(cells.dimensions, cells.by_dimension(types), strict=True), 1
    ):
        keys = tuple(f"k{i}" for i in range(start + 1, start + one.key_width + 1))
        pairs = list(zip(keys, finest_columns(one), strict=True))
        chosen = ", ".join(f"{key} AS {name}" for key, name in pairs)
        values = f"(SELECT {chosen}, sum(n) AS n FROM leaf GROUP BY {', '.join(keys)})"
        parts += dimension_ctes(one, own, number, values, band)
        joins.append(places_join("leaf", f"places_{number}", f"p{number}", pairs))
        start += one.key_width
    counted = "sum(leaf.n)::BIGINT"
    return [*parts, counted_cells(cells, counted, f"leaf {' '.join(joins)}", added=added)]


def placed_records(cells: Hierarchy, types: tuple[str, ...], band: int) -> list[str]:
    """The CTEs over ``source``, where every row counts once.

    If all values are keys, as in a cube, rows are grouped by all columns first, which leaves few
    rows. Pairs of addresses or paths are nearly as many as rows, so rows are joined to places
    first.
    """
    parts, joins, start = list[str](), list[str](), 0
    every = ", ".join(source_columns(cells))
    rows, counted = "texts", "sum(texts.n)::BIGINT"
    found = f"SELECT {every}, count(*) AS n FROM source GROUP BY {every}"
    if any(one.kind != "columns" for one in cells.dimensions):
        counted, found = "count(*)", f"SELECT {every} FROM source"
    # materialized: a source can be a query that returns other rows each time it is read
    parts.append(f"texts AS MATERIALIZED ({found})")
    for number, (one, own) in enumerate(
        zip(cells.dimensions, cells.by_dimension(types), strict=True), 1
    ):
        columns = [f"c{i}" for i in range(start, start + len(own))]
        pairs = list(zip(columns, source_columns(one), strict=True))
        chosen = ", ".join(f"{column} AS {name}" for column, name in pairs)
        texts = f"(SELECT {chosen}, {counted} AS n FROM {rows} GROUP BY {', '.join(columns)})"
        kept = ", ".join([*source_columns(one), "n"])
        parts.append(f"keyed_{number} AS MATERIALIZED ({keyed_sql(one, own, texts, kept)})")
        keys = ", ".join(finest_columns(one))
        values = f"(SELECT {keys}, sum(n) AS n FROM keyed_{number} GROUP BY {keys})"
        parts += dimension_ctes(one, own, number, values, band)
        named = ", ".join(f"k.{name} AS {name}" for name in source_columns(one))
        on = same_key_sql(finest_columns(one), "k", "p")
        parts.append(
            f"map_{number} AS MATERIALIZED (SELECT {named}, {_finest_place_sql(one, 'p')} AS place "
            f"FROM keyed_{number} AS k JOIN places_{number} AS p ON {on})"
        )
        joins.append(places_join(rows, f"map_{number}", f"p{number}", pairs))
        start += len(own)
    found = f"{rows} {' '.join(joins)}"
    if counted == "count(*)":
        return [*parts, counted_cells(cells, counted, found, mapped=True)]
    return [*parts, *_grouped_cells(cells, found)]


def _grouped_cells(cells: Hierarchy, rows: str) -> list[str]:
    """The CTEs ``placed`` and ``cells``, from rows grouped by all values. Only groups with a value
    below the band, which can share a cell, are grouped again. NULL and empty text can share a cell,
    too, but two groups of one cell are as good as one."""
    numbers = one_to(len(cells.dimensions))
    places = ", ".join(f"p{i}.place AS place_{i}" for i in numbers)
    groups = ", ".join(f"place_{i}" for i in numbers)
    pairs = zip(numbers, cells.dimensions, strict=True)
    finest_of_all = " AND ".join(f"place_{i} % {PLACES} = {one.height}" for i, one in pairs)
    return [
        f"placed AS MATERIALIZED (SELECT {places}, texts.n AS n FROM {rows})",
        f"cells AS (SELECT {groups}, n FROM placed WHERE {finest_of_all} UNION ALL "
        f"SELECT {groups}, sum(n)::BIGINT AS n FROM placed WHERE NOT ({finest_of_all}) "
        f"GROUP BY {groups})",
    ]


def places_join(rows: str, places: str, name: str, pairs: list[tuple[str, str]]) -> str:
    on = " AND ".join(f"{rows}.{key} IS NOT DISTINCT FROM {name}.{value}" for key, value in pairs)
    return f"JOIN {places} AS {name} ON {on}"


def counted_cells(
    cells: Hierarchy, counted: str, rows: str, *, mapped: bool = False, added: tuple[str, ...] = ()
) -> str:
    """The CTE ``cells``: counts by the places of all dimensions, and sums of ``added`` columns."""
    numbers = one_to(len(cells.dimensions))
    found = [
        f"p{i}.place" if mapped else _finest_place_sql(cells.dimensions[i - 1], f"p{i}")
        for i in numbers
    ]
    places = ", ".join(f"{place} AS place_{i}" for i, place in zip(numbers, found, strict=True))
    groups, more = ", ".join(map(str, numbers)), sum_list(added)
    return f"cells AS (SELECT {places}, {counted} AS n{more} FROM {rows} GROUP BY {groups})"


def cell_rows(cells: Hierarchy, added: tuple[str, ...] = ()) -> str:
    """The query of the result: nodes of every dimension, and cells, which have ``added`` sums."""
    none = "".join(f", NULL AS {name}" for name in added)
    own = "".join(f", {name}" for name in added)
    zero = "".join(f", 0 AS {name}" for name in added)
    names, wide = cell_result_columns(cells), places_in(cells)
    selects = []
    for number, one in enumerate(cells.dimensions, 1):
        for level in one_to(one.height):
            texts = [f"s{i}" for i in one_to(one.key_width)]
            rows = f"node_{number}_{level} AS node"
            if level > 1:
                rows += (
                    f" JOIN (SELECT place_{level} AS place, min(place_{level - 1}) AS above FROM "
                    f"places_{number} WHERE place_{level} IS NOT NULL GROUP BY 1) AS line "
                    "USING (place)"
                )
            filled = _result_select_list(
                names, wide, number, ["place", "above" if level > 1 else "0"], texts
            )
            counted = "n::BIGINT AS n"  # without the cast, all counts would have 128 bits
            selects.append(f"SELECT {level} AS level, {counted}, {filled}{none} FROM {rows}")
    places = [f"place_{i}" for i in one_to(len(cells.dimensions))]
    filled = _result_select_list(names, wide, 0, places, [])
    selects.append(f"SELECT 0 AS level, n, {filled}{own} FROM cells")
    nothing = _result_select_list(names, wide, 0, ["0"] * len(cells.dimensions), [])
    selects.append(f"SELECT 0 AS level, 0 AS n, {nothing}{zero}")  # so an empty source has a row
    shown = ", ".join(f'{name} AS "{name}"' for name in (*names, *added))
    return (
        f'SELECT level AS "level", n AS "n", {shown} FROM ({" UNION ALL ".join(selects)}) AS found'
    )


def group_rows(cells: Hierarchy, added: tuple[str, ...], extra: Mapping[str, str]) -> str:
    """The query of the result for another client: only groups, with the levels and texts of their
    nodes in the columns of ``sources.portable_groups``."""
    joins, shown, start = [], [f'n{i}.level AS "l{i}"' for i in one_to(len(cells.dimensions))], 0
    for number, one in enumerate(cells.dimensions, 1):
        own = one_to(one.key_width)
        nodes = [f"SELECT 0 AS place, 0 AS level{''.join(f', NULL AS s{i}' for i in own)}"]
        nodes += [
            f"SELECT place, {level}{''.join(f', CAST(s{i} AS VARCHAR)' for i in own)} "
            f"FROM node_{number}_{level}"
            for level in one_to(one.height)
        ]
        joins.append(
            f"JOIN ({' UNION ALL '.join(nodes)}) AS n{number} "
            f"ON rows.place_{number} = n{number}.place"
        )
        shown += [f'n{number}.s{i} AS "t{start + i}"' for i in own]
        start += one.key_width
    places = [f"place_{i}" for i in one_to(len(cells.dimensions))]
    groups, zero = ", ".join(places), ", ".join(f"0 AS {place}" for place in places)
    none = "".join(f", 0 AS {name}" for name in added)
    rows = (
        f"SELECT {groups}, sum(n)::BIGINT AS n{sum_list(added)} FROM (SELECT * FROM cells "
        f"UNION ALL SELECT {zero}, 0 AS n{none}) GROUP BY {groups}"
    )
    shown += [f'CAST(coalesce(rows.{name}, 0) AS VARCHAR) AS "{name}"' for name in added]
    shown += [f'{sql} AS "{name}"' for name, sql in extra.items()]
    return f'SELECT rows.n AS "n", {", ".join(shown)} FROM ({rows}) AS rows {" ".join(joins)}'


def _result_select_list(
    names: Sequence[str], wide: int, number: int, places: Sequence[str], texts: Sequence[str]
) -> str:
    """The select list of all columns of the result, NULL where a kind of row has no value."""
    values = [f"{number}", *places, *["NULL"] * (wide - len(places))]
    kinds = ["BIGINT"] * len(values)
    values += [*texts, *["NULL"] * (len(names) - len(values) - len(texts))]
    kinds += ["VARCHAR"] * (len(values) - len(kinds))
    columns = zip(values, kinds, names, strict=True)
    return ", ".join(f"CAST({value} AS {kind}) AS {name}" for value, kind, name in columns)


def _finest_place_sql(one: Hierarchy, rows: str) -> str:
    """SQL for the place of the finest node that reaches the band, 0 if none does."""
    levels = range(one.height, 0, -1)
    return f"coalesce({', '.join(f'{rows}.place_{level}' for level in levels)}, 0)"


def dimension_ctes(
    one: Hierarchy,
    types: tuple[str, ...],
    number: int,
    values: str,
    band: int,
    *,
    kept: Sequence[str] = (),
) -> list[str]:
    """CTEs of the nodes and places of one dimension, from its finest keys and their counts. If
    ``kept`` columns identify the keys, keys can be of any level, which is in column ``d``."""
    names, columns = finest_columns(one), {one.height: finest_columns(one)}
    depth = "d" if kept else one.depth(names)
    query = values if kept else f"(SELECT *, {depth or one.height} AS d FROM {values})"
    for level in range(one.height - 1, 0, -1):
        coarser = one.coarser(level, columns[level + 1])
        columns[level] = tuple(f"l{level}_{i}" for i in one_to(len(coarser)))
        pairs = zip(coarser, columns[level], strict=True)
        query = f"(SELECT *, {', '.join(f'{sql} AS {name}' for sql, name in pairs)} FROM {query})"
    parts = [f"values_{number} AS MATERIALIZED (FROM {query})"]
    joins, places = [], []
    for level in one_to(one.height):
        own = columns[level]
        reached = f"WHERE d >= {level} " if depth is not None else ""
        found = (
            f"SELECT {', '.join(own)}, sum(n) AS n FROM values_{number} {reached}"
            f"GROUP BY {', '.join(own)} HAVING sum(n) >= {band}"
        )
        if level == one.height and not kept:  # every key occurs once
            reached = f" AND d >= {level}" if depth is not None else ""
            found = f"SELECT {', '.join(own)}, n FROM values_{number} WHERE n >= {band}{reached}"
        shown = one.texts(level, own, types)
        texts = ", ".join(f"{sql} AS s{i}" for i, sql in enumerate(shown, 1))
        place = (
            f"row_number() OVER (ORDER BY {ascending_order(*own)}) * {PLACES} + {level} AS place"
        )
        parts.append(
            f"node_{number}_{level} AS MATERIALIZED (SELECT {', '.join(own)}, n, {texts}, {place} "
            f"FROM ({found}))"
        )
        node = f"n{level}"
        on = same_key_sql(own, "v", node) + (f" AND v.d >= {level}" if depth is not None else "")
        joins.append(f"LEFT JOIN node_{number}_{level} AS {node} ON {on}")
        places.append(f"{node}.place AS place_{level}")
    shown_keys = ", ".join(f"v.{name} AS {name}" for name in kept or names)
    parts.append(
        f"places_{number} AS MATERIALIZED (SELECT {shown_keys}, {', '.join(places)} "
        f"FROM values_{number} AS v {' '.join(joins)})"
    )
    return parts
