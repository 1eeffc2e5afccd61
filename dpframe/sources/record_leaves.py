"""SQL that counts how many records have each finest key.

Stored values are grouped before keys are made: where texts are stored as a dictionary, an
expression over every row costs more than all the rest. Different values can have one key: NULL and
empty text, or texts that a kind parses. CTEs, over ``source``:

texts   counts of stored values
keyed   the finest key of each value, k1, k2, ...
leaves  counts of the finest keys, in units of the grid
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dpframe.budget import PrivacyUnit
from dpframe.hierarchy import Hierarchy
from dpframe.sources.measure_units import units_sql


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
