"""SQL for the finest keys and cells of rows, with weights of users and measures.

**Records**: SQL counts how many records have each finest key.

Stored values are grouped before keys are made: where texts are stored as a dictionary, an
expression over every row costs more than all the rest. Different values can have one key: NULL and
empty text, or texts that a kind parses. CTEs, over ``source``:

texts   counts of stored values
keyed   the finest key of each value, k1, k2, ...
leaves  counts of the finest keys, in units of the grid

**Users**: SQL divides a user's weight into whole units, over the user's rows or by their weights.

By rows: among a user's ``total`` rows, in the order of their keys, row i gets the units between
``floor((grid (i - 1) + offset) / total)`` and ``floor((grid i + offset) / total)``. All rows of a
user get ``grid`` units, and a key gets the sum of its rows. Grouping by user and key first would
give the same number, since the terms between cancel out. But where most groups have one row, such
grouping would take longer than all the rest, and so would sorting texts instead of their numbers.

CTEs, over rows with the user u and the key of the row:

numbered  every finest key and its number, leaf, in ascending order of the keys
ranked    for every row its leaf, its place i among the rows of its user, and their total
bounded   units of every leaf
leaves    units of every finest key

**Measures** such as bytes or revenue become partial shares: whole units, by row or by user.

The weight w of each row is read as ``round(min(w, max_weight) / max_weight * WHOLE)``, so that only
whole numbers are added up. Sums are cut to units; ``max_weight`` has ``SHARE_GRID`` units. One unit
of privacy moves the units below the nodes of a level by at most ``SHARE_GRID`` together, whatever
the offsets of the rounding are:

rows
    Every finest key has ``floor((sum + offset) / PART)`` units; the offset is a hash of the key and
    a secret seed. One more row adds at most WHOLE to one sum, and so 0 to SHARE_GRID units to one
    key. Equal rows are not all rounded alike, as they would be if each row were rounded.
users
    The SQL for users adds up a user's weights in the order of the keys, divides by their
    total, or by WHOLE if that is larger, and rounds with one offset for the user.

Both are unbiased: every number in the range of an offset is equally likely.

**Cells**: SQL makes the finest cells of rows, each at the finest nodes of its dimensions that can
matter.

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
from types import MappingProxyType

from dpframe.budget import SHARE_GRID, PrivacyUnit
from dpframe.common.texts import ascending_order, is_nan
from dpframe.hierarchy import Hierarchy
from dpframe.measures.measure import LARGEST, LEAST

WHOLE = 2**40
"""The whole number as which ``max_weight`` is read. 2^64 rows of it add up to less than 2^127."""

PART = WHOLE // SHARE_GRID
"""One unit, in the whole numbers as which weights are read."""


def measure_sql(value: str, most: float) -> str:
    """SQL of a weight, BIGINT in 0 to WHOLE, from the SQL of a number or of a number's text.

    ``most`` and more, infinity too, is WHOLE. NULL, NaN, negative numbers and other text are 0. No
    value is an error.
    """
    number, bound = f"TRY_CAST({value} AS DOUBLE)", f"{most!r}::DOUBLE"
    return (
        f"CASE WHEN {number} > 0 AND NOT {is_nan(number)} "
        f"THEN CAST(least({number}, {bound}) / {bound} * {WHOLE}::DOUBLE AS BIGINT) "
        "ELSE 0::BIGINT END"
    )


WHOLE_STEPS = 2.0**-LEAST
"""How many steps of 2**LEAST make 1."""

BEYOND = 2.0 ** (LARGEST + 1)
"""A value beyond all bounds, to which larger values are cut: sums of such values fit 128 bits."""


def whole_steps_sql(column: str) -> str:
    """SQL of a value in whole steps of 2**LEAST, HUGEINT, and cut beyond all bounds; NULL for what
    is no value. Sums of such numbers are exact; one of floating-point numbers depends on the order
    of all rows, and so on other users."""
    number, end = f"TRY_CAST({column} AS DOUBLE)", f"{BEYOND!r}::DOUBLE"
    cut = f"least(greatest({number}, -{end}), {end})"
    return (
        f"CASE WHEN isfinite({number}) "
        f"THEN CAST(round({cut} * {WHOLE_STEPS!r}::DOUBLE) AS HUGEINT) END"
    )


def units_sql(total: str, keys: str, seed: int) -> str:
    """SQL of the units of a finest key, BIGINT, from the SQL of the sum of its weights."""
    offset = f"(hash({keys}, {seed}::UBIGINT) % {PART}::UBIGINT)::HUGEINT"
    return f"(({total} + {offset}) // {PART}::HUGEINT)::BIGINT"


def row_shares(keys: Sequence[str], *, grid: int, seed: int, keyed: str, placed: str) -> list[str]:
    """The CTEs. ``keyed`` is a table that has all ``keys``. ``placed`` is a FROM clause of rows
    with the columns ``u`` and ``leaf``, and may read the CTE ``numbered``.

    The offset of a user depends only on that user and the seed. All rows of the user share it,
    though equal ids can have different hashes (numbers in a VARIANT, text without case in a
    STRUCT).
    """
    names = ", ".join(keys)
    return [
        f"numbered AS MATERIALIZED (SELECT {names}, row_number() OVER (ORDER BY "
        f"{ascending_order(*keys)}) AS leaf FROM (SELECT DISTINCT {names} FROM {keyed}))",
        _ranked_cte(["leaf"], seed, placed),
        f"bounded AS (SELECT leaf, {_row_units_sql(grid)} AS n FROM ranked GROUP BY leaf)",
        f"leaves AS (SELECT {names}, n FROM bounded JOIN numbered USING (leaf))",
    ]


def row_shares_of_numbers(keys: Sequence[str], *, grid: int, seed: int, keyed: str) -> list[str]:
    """The CTEs ``ranked`` and ``leaves``, from the rows of ``keyed``, which have the user u and
    keys that are whole numbers."""
    names = ", ".join(keys)
    return [
        _ranked_cte(keys, seed, keyed),
        f"leaves AS (SELECT {names}, {_row_units_sql(grid)} AS n FROM ranked GROUP BY {names})",
    ]


def _ranked_cte(keys: Sequence[str], seed: int, rows: str) -> str:
    return (
        f"ranked AS (SELECT {', '.join(keys)}, row_number() OVER (PARTITION BY u ORDER BY "
        f"{ascending_order(*keys)}) AS i, count(*) OVER (PARTITION BY u) AS total, "
        f"min({user_hash('u', seed)}) OVER (PARTITION BY u) AS h FROM {rows})"
    )


def _row_units_sql(grid: int) -> str:
    offset = "(h % total::UBIGINT)::BIGINT"
    return f"sum(({grid} * i + {offset}) // total - ({grid} * (i - 1) + {offset}) // total)::BIGINT"


def measured_shares(keys: Sequence[str], *, grid: int, seed: int) -> list[str]:
    """The CTEs ``running`` and ``bounded`` over ``pairs``, in which m is the weight of a user and
    key.

    A user whose measures add up to less than WHOLE gets proportionally fewer units.
    """
    names, order, offset = ", ".join(keys), ascending_order(*keys), "(h % total)::HUGEINT"
    return [
        f"running AS (SELECT {names}, m, sum(m) OVER (PARTITION BY u ORDER BY {order} "
        f"ROWS UNBOUNDED PRECEDING)::HUGEINT AS upto, "
        f"greatest(sum(m) OVER (PARTITION BY u), {WHOLE})::HUGEINT AS total, "
        f"min({user_hash('u', seed)}) OVER (PARTITION BY u) AS h FROM pairs)",
        f"bounded AS (SELECT {names}, ({grid} * upto + {offset}) // total "
        f"- ({grid} * (upto - m) + {offset}) // total AS n FROM running)",
    ]


def user_sample_ctes(keys: str, unit: PrivacyUnit, seed: int) -> list[str]:
    """CTEs of a uniform sample of at most ``max_contributions`` rows of each user, over all keys.

    Rows are ranked by a hash of user, key, number among equal rows and seed, so the sample depends
    neither on the order of the rows nor on other users.
    """
    order = ascending_order(row_hash(f"u, {keys}, i", seed), *keys.split(", "), "i")
    return [
        f"rows AS (SELECT u, {keys}, unnest(range(m)) AS i FROM pairs)",
        f"bounded AS (SELECT u, {keys}, 1 AS n FROM rows QUALIFY row_number() OVER "
        f"(PARTITION BY u ORDER BY {order}) "
        f"<= {unit.max_contributions})",
    ]


def user_hash(user: str, seed: int) -> str:
    """SQL of the hash from which the offset of a user follows."""
    return f"hash({user}, {seed}::UBIGINT)"


def row_hash(row: str, seed: int) -> str:
    """SQL of the hash by which a user's rows are sampled.

    DuckDB adds a number to a hash by an exclusive or, which keeps rows together that agree in
    their first bits: the second hash separates them.
    """
    return f"hash(hash({row}, {seed}::UBIGINT))"


def same_key_sql(keys: Sequence[str], one: str, other: str) -> str:
    """The condition that joins two relations on all columns of a key."""
    return " AND ".join(f"{one}.{key} IS NOT DISTINCT FROM {other}.{key}" for key in keys)


def one_to(n: int) -> range:
    """The numbers 1 to n."""
    return range(1, n + 1)


def finest_columns(hierarchy: Hierarchy) -> tuple[str, ...]:
    """The columns of the finest key."""
    return tuple(f"k{i}" for i in one_to(hierarchy.key_width))


def keyed_sql(hierarchy: Hierarchy, types: tuple[str, ...], rows: str, kept: str) -> str:
    """A query of ``rows`` with their finest keys and ``kept`` columns, without rows that the
    hierarchy drops."""
    query, valid, width, read = rows, [], 0, 0
    several = len(hierarchy.dimensions) > 1
    for one in hierarchy.dimensions:
        here = slice(read, read := read + len(one.source_columns))
        own = source_columns(hierarchy)[here], types[here]
        query = add_key_steps(one, *own, query)
        made = [name for step in one.key_steps(*own) for name in step]
        named = [
            f"{'q' if several else 'k'}{i}" for i in range(width + 1, width + one.key_width + 1)
        ]
        width += one.key_width
        if several:  # the steps of all dimensions have the same names
            kept_as = ", ".join(
                f"{k} AS {q}" for k, q in zip(finest_columns(one), named, strict=True)
            )
            query = f"(SELECT * EXCLUDE ({', '.join(made)}), {kept_as} FROM {query})"
        if one.on_invalid == "drop":
            valid += [f"{name} IS NOT NULL" for name in named]
    keys = tuple(f"q{i} AS k{i}" if several else f"k{i}" for i in one_to(width))
    select = ", ".join([*keys, kept] if kept else keys)
    where = f" WHERE {' AND '.join(valid)}" if valid else ""
    return f"SELECT {select} FROM {query}{where}"


def add_key_steps(
    hierarchy: Hierarchy, columns: tuple[str, ...], types: tuple[str, ...], query: str
) -> str:
    """A subquery with the columns of ``key_steps`` beside the columns of a query."""
    for step in hierarchy.key_steps(columns, types):
        query = add_columns(query, step)
    return query


def add_columns(query: str, columns: Mapping[str, str]) -> str:
    """A subquery with more columns, from their SQL by name."""
    added = ", ".join(f"{sql} AS {name}" for name, sql in columns.items())
    return f"(SELECT *, {added} FROM {query})"


def source_columns(hierarchy: Hierarchy) -> tuple[str, ...]:
    """The names in ``source`` of the columns that are read."""
    return tuple(f"c{i}" for i in range(len(hierarchy.source_columns)))


def record_leaves(
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    types: tuple[str, ...],
    seed: int,
    added: tuple[str, ...] = (),
    counted: Mapping[str, str] = MappingProxyType({}),
) -> list[str]:
    """The CTEs. ``added`` names the sums beside the counts. A name that ``counted`` maps to a value
    is no sum: it counts the rows where the value is not NULL."""
    keys, columns = ", ".join(finest_columns(hierarchy)), source_columns(hierarchy)
    of_rows = "".join(
        f", count({counted[name]}) AS {name}" if name in counted else f", sum({name}) AS {name}"
        for name in added
    )
    read = tuple(name for name in added if name not in counted)
    weighted = unit.weight is not None
    kind = "HUGEINT" if unit.measured else "BIGINT"
    rows = f"sum(w)::{kind}" if weighted else "count(*)"

    def counts(total: str, chosen: str, more: str, of: str) -> str:
        n = units_sql(total, keys, seed) if unit.measured else total
        return f"SELECT {chosen}, {n} AS n{more} FROM {of}"

    some = " WHERE w > 0" if weighted and not added else ""
    stored = hierarchy.stored_keys(columns, types)
    if not hierarchy.reads_text and stored is None:
        source = f"(FROM source{some})" if some else "source"
        wanted = ", ".join([*(["w"] if weighted else []), *read])
        return [
            f"keyed AS ({keyed_sql(hierarchy, types, source, wanted)})",
            f"leaves AS ({counts(rows, keys, of_rows, 'keyed')} GROUP BY {keys})",
        ]
    own, kept = ", ".join(columns), ("n", *added)
    others = "texts" if stored is None else f"(FROM texts WHERE ({stored}) IS NOT TRUE)"
    leaves = f"{counts(f'sum(n)::{kind}', keys, sum_list(added), 'keyed')} GROUP BY {keys}"
    if stored is not None:
        pairs = zip(columns, finest_columns(hierarchy), strict=True)
        chosen = ", ".join(f"{column} AS {key}" for column, key in pairs)
        as_they_are = f"(SELECT {chosen}, {', '.join(kept)} FROM texts WHERE {stored})"
        more = "".join(f", {name}" for name in added)
        leaves = f"{counts('n', keys, more, as_they_are)} UNION ALL {leaves}"
    return [
        f"texts AS (SELECT {own}, {rows} AS n{of_rows} FROM source{some} GROUP BY {own})",
        f"keyed AS ({keyed_sql(hierarchy, types, others, ', '.join(kept))})",
        f"leaves AS ({leaves})",
    ]


def sum_list(added: tuple[str, ...]) -> str:
    """The end of a select list: sums of sums, each under its old name."""
    return "".join(f", sum({name}) AS {name}" for name in added)


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
    nodes in the columns of ``portable_sql.portable_groups``."""
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
