"""The rollup in a dialect other than DuckDB's, and what it adds up.

**The rollup** is one SQL statement in a dialect other than DuckDB's, with the same nodes.

The statement is pure text, like that of ``rollup_statement``. It returns ``level, n, t1, t2, ...``
in any order; the driver puts the rows into preorder (``sources.candidates``). For several
hierarchies at once it returns groups of records (``portable_groups``).

**Cells**: SQL makes the finest cells of rows that can matter, in engines other than DuckDB.

The groups equal the cells of ``sources.cell_leaves``. Columns of a group are ``n``, its levels
``l1, l2, ...`` in the dimensions, and its keys there as texts, ``t1, t2, ...``. Windows over
``leaves`` count the nodes, so that a row is in one group, however an engine computes the leaves; a
join with counted nodes would read the leaves once more.

**Measures**: whole numbers of a row are added up beside the counts, in the SQL of any engine.

DuckDB's SQL is in :mod:`dpframe.measures.bins`. The SQL of other engines is here, and gives the
same numbers: the same floating-point product, and a rounding made of a floor and a comparison,
since each engine rounds a half in its own way. No value is an error.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from dpframe.budget import PrivacyUnit
from dpframe.common.texts import ascending_order, identifier
from dpframe.counts import ListedNodes
from dpframe.dialects import WHOLE, Dialect
from dpframe.hierarchy import Hierarchy
from dpframe.hierarchy.portable import Keys
from dpframe.hierarchy.portable_kinds import CellKeys, add_key_steps, keys_of, level_key_names
from dpframe.measures.bins import Steps, outside_sql, present_sql, reach, value_sql
from dpframe.sources.cell_leaves import one_to

UNIT = Steps(0.0, 1.0)


@dataclass(frozen=True, kw_only=True)
class Summand:
    """A whole number of a row. A "value" is the column's value in steps, or NULL; "present" is 1
    where there is a value, "outside" is 1 where it is out of bounds, else 0; "row" is always 1.
    Without ``clipped`` a value is cut only where sums could overflow."""

    kind: Literal["value", "present", "outside", "row"]
    column: str = ""
    steps: Steps = UNIT
    clipped: bool = True

    @property
    def most(self) -> int:
        """The largest absolute value of one clipped record."""
        return self.steps.most if self.kind == "value" else 1

    @property
    def sql(self) -> str:
        """The SQL for DuckDB; a BIGINT."""
        column = identifier(self.column)
        if self.kind == "row":
            return "1::BIGINT"
        if self.kind == "outside":
            return f"CAST({outside_sql(column, self.steps)} AS BIGINT)"
        if self.kind == "present":
            return present_sql(column)
        return value_sql(column, self.steps, clipped=self.clipped)

    def scale_sql(self, d: Dialect, number: str) -> str:
        """The SQL for another engine, from the SQL of the double ``number``: the double that
        ``rounded_sql`` rounds; NULL where there is no value."""
        most = d.real(sys.float_info.max)
        finite = f"{number} BETWEEN -{most} AND {most}"
        if self.kind == "outside":
            inside = f"{number} BETWEEN {d.real(self.steps.lower)} AND {d.real(self.steps.upper)}"
            return (
                f"CASE WHEN {finite} AND NOT ({inside}) THEN {d.real(1.0)} ELSE {d.real(0.0)} END"
            )
        if self.kind == "present":
            return f"CASE WHEN {finite} THEN {d.real(1.0)} ELSE {d.real(0.0)} END"
        low, high = map(d.real, reach(self.steps, clipped=self.clipped))
        cut = f"least(greatest({number}, {low}), {high})"
        ten = d.real(10.0 ** abs(self.steps.decimals))
        if self.steps.decimals > 0:
            cut = f"{cut} * {ten}"
        elif self.steps.decimals < 0:  # a value that rounds to 0 could underflow in the quotient
            cut = f"CASE WHEN abs({cut}) < {d.real(1.0)} THEN {d.real(0.0)} ELSE {cut} / {ten} END"
        return f"CASE WHEN {finite} THEN {cut} END"


def values_to_count(sums: Mapping[str, Summand]) -> dict[str, str]:
    """For each "present" beside a "value" of the same column and steps, the name of that value. The
    sum of the "present" is the number of rows where the "value" is not NULL."""
    values = {(one.column, one.steps): name for name, one in sums.items() if one.kind == "value"}
    present = {name: (one.column, one.steps) for name, one in sums.items() if one.kind == "present"}
    return {name: values[place] for name, place in present.items() if place in values}


def rounded_sql(d: Dialect, scaled: str) -> str:
    """The SQL that rounds a double to a whole number, halves away from 0. Its type is one whose
    sums do not overflow. NULL stays NULL."""
    size = f"abs({scaled})"
    up = f"CASE WHEN {size} - floor({size}) >= {d.real(0.5)} THEN 1 ELSE 0 END"
    rounded = f"({d.to_integer(f'floor({size})')} + {up})"
    signed = f"CASE WHEN {scaled} < {d.real(0.0)} THEN -{rounded} ELSE {rounded} END"
    return d.addable(f"CASE WHEN {scaled} IS NOT NULL THEN {signed} END")


def group_columns(dimensions: int, width: int) -> tuple[str, ...]:
    """The columns of the result behind ``n``: levels, and keys as texts."""
    return (*(f"l{i}" for i in one_to(dimensions)), *(f"t{i}" for i in one_to(width)))


def portable_groups(
    keys: CellKeys, band: int, added: tuple[str, ...], extra: Mapping[str, str]
) -> tuple[list[str], str]:
    """The CTEs over ``leaves``, and the statement that reads them."""
    d, several = keys.dialect, keys.of
    numbers = one_to(len(several))
    levels = {i: one_to(one.hierarchy.height) for i, one in zip(numbers, several, strict=True)}
    query, have = keys.level_query("leaves", ["n", *added], levels)
    reached = {(i, level): f"m{i}_{level}" for i, each in levels.items() for level in each}
    counted = []
    for (i, level), name in reached.items():
        there = f"CASE WHEN depth_{i} >= {level} THEN 1 ELSE 0 END"
        by = ", ".join([there, *level_key_names(several[i - 1].width, i, level)])
        counted.append(f"{d.to_integer(f'sum(n) OVER (PARTITION BY {by})')} AS {name}")
    query = f"SELECT {', '.join([*have, *counted])} FROM {d.rows(query)}"
    chosen = []
    for i in numbers:
        cases = " ".join(
            f"WHEN depth_{i} >= {level} AND m{i}_{level} >= {band} THEN {level}"
            for level in reversed(levels[i])
        )
        chosen.append(f"CASE {cases} ELSE 0 END AS l{i}")
    query = f"SELECT {', '.join([*have, *chosen])} FROM {d.rows(query)}"
    texts, nothing = list[str](), list[str]()
    for i, one in zip(numbers, several, strict=True):
        for j in range(one.width):
            cases = " ".join(
                f"WHEN {level} THEN {level_key_names(one.width, i, level)[j]}"
                for level in levels[i]
            )
            texts.append(f"CASE l{i} {cases} END")
        nothing += one.root_key()
    names = group_columns(len(several), keys.width)
    own, t = names[: len(several)], names[len(several) :]
    shown = ", ".join([*own, *(f"{sql} AS {name}" for sql, name in zip(texts, t, strict=True))])
    none = ", ".join(
        [*(f"0 AS {name}" for name in own)]
        + [f"{sql} AS {name}" for sql, name in zip(nothing, t, strict=True)]
    )
    more = "".join(f", {name}" for name in added)
    zeros = "".join(f", {d.addable('0')} AS {name}" for name in added)
    summed = "".join(f", sum({name}) AS {name}" for name in added)
    parts = [
        f"placed AS ({query})",
        f"parted AS (SELECT {shown}, n{more} FROM placed\n"
        f"UNION ALL SELECT {none}, {d.to_integer('0')} AS n{zeros})",
        f"candidates AS (SELECT {', '.join(names)}, {d.to_integer('sum(n)')} AS n{summed} "
        f"FROM parted GROUP BY {', '.join(names)})",
    ]
    result = ["n", *own, *(f"{d.cast_text(name)} AS {name}" for name in t)]
    result += [f"{d.cast_text(f'coalesce({name}, 0)')} AS {name}" for name in added]
    result += [f"{sql} AS {name}" for name, sql in extra.items()]
    return parts, f"SELECT {', '.join(result)} FROM candidates"


def portable_sql(
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    dialect: Dialect,
    *,
    band: int,
    types: tuple[str, ...],
    seed: int,
    user_type: str | None,
    weight_type: str | None,
    view: str,
    only: ListedNodes | None = None,
    extra: Mapping[str, str] | None = None,
    names: Mapping[str, str] | None = None,
    sums: Mapping[str, Summand] | None = None,
    value_types: Mapping[str, str] | None = None,
) -> str:
    """The statement. ``types`` are canonical names, ``extra`` are more columns of the result, and
    ``names`` maps columns to their names in the view, if these differ. ``sums`` are for records
    only, of columns with ``value_types``.

    Keys and sums come as texts, so that no client reads them as floating-point numbers.
    """
    keys = keys_of(hierarchy, dialect, types)
    added = tuple(sums or ())
    parts = [
        portable_source_sql(
            keys,
            unit,
            user_type,
            weight_type,
            view,
            names or {},
            values=sums or {},
            value_types=value_types or {},
        ),
        *(
            _portable_user_leaves(keys, unit, seed)
            if unit.user is not None
            else _record_leaf_ctes(keys, unit, added)
        ),
    ]
    if isinstance(keys, CellKeys):
        groups, result = portable_groups(keys, band, added, extra or {})
        return "WITH " + ",\n".join([*parts, *groups]) + f"\n{result}"
    parts += _node_ctes(keys, added)
    own = [f"t{i}" for i in range(1, keys.width + 1)]
    shown = {name: dialect.cast_text(name) for name in own}
    shown |= {name: dialect.cast_text(f"coalesce({name}, 0)") for name in added}
    texts = ", ".join(f"{sql} AS {name}" for name, sql in shown.items())
    more = "".join(f", {sql} AS {name}" for name, sql in (extra or {}).items())
    return (
        "WITH " + ",\n".join(parts) + f"\nSELECT level, n, {texts}{more} FROM candidates "
        f"WHERE (n >= {band} OR level = 0){_listed_condition(keys, own, only)}"
    )


LISTED = 2_000
"""The most listed nodes that a statement spells out."""


def _listed_condition(keys: Keys, names: list[str], only: ListedNodes | None) -> str:
    """A condition that keeps only listed nodes, to save transport; empty for a long list, or where
    texts cannot be compared."""
    if only is None or len(only.level) > LISTED or not keys.texts_are_the_same:
        return ""
    columns = [column.cast("string").to_pylist() for column in only.keys]
    if any("\n" in (text or "") for column in columns for text in column):
        return ""  # nodes are compared by their texts in lines
    d, mark, none = keys.dialect, "'='", "'!'"
    own = [f"coalesce({d.concat(mark, d.cast_text(name))}, {none})" for name in names]
    listed = [
        "\n".join([str(level), *("!" if t is None else f"={keys.wire(t)}" for t in texts)])
        for level, texts in zip(only.level.tolist(), zip(*columns, strict=True), strict=True)
    ]
    node = d.concat(d.cast_text("level"), *(p for sql in own for p in (d.literal("\n"), sql)))
    return f" AND {node} IN ({', '.join(map(d.literal, listed))})"


def portable_source_sql(
    keys: Keys | CellKeys,
    unit: PrivacyUnit,
    user_type: str | None,
    weight_type: str | None,
    view: str,
    names: Mapping[str, str],
    *,
    values: Mapping[str, Summand],
    value_types: Mapping[str, str],
    beside: Mapping[str, str] | None = None,
) -> str:
    """The CTE ``source``: c0, c1, ..., the user u or the weight w, the columns ``beside`` (SQL by
    name), and ``values``."""
    d = keys.dialect

    def read(column: str, kind: str) -> str:
        return d.typed_column(d.identifier(names.get(column, column)), kind)

    columns = list(map(read, keys.hierarchy.source_columns, keys.types))
    chosen = {f"c{i}": sql for i, sql in enumerate(keys.values(columns))}
    if unit.user is not None:
        kind = user_type or "VARCHAR"
        chosen["u"] = user_sql(d, read(unit.user, kind), kind)
    if unit.weight is not None:
        kind = weight_type or "VARCHAR"
        chosen["w"] = _portable_weight_sql(d, read(unit.weight, kind), kind, unit.most)
    chosen |= beside or {}
    scaled = {}
    for name, value in values.items():
        kind = value_types[value.column]
        scaled[name] = value.scale_sql(d, d.as_real(read(value.column, kind), kind))
    first = ", ".join(f"{sql} AS {name}" for name, sql in {**chosen, **scaled}.items())
    if not scaled:
        return f"source AS (SELECT {first} FROM {view})"
    own = ", ".join([*chosen, *(f"{rounded_sql(d, name)} AS {name}" for name in scaled)])
    return f"source AS (SELECT {own} FROM {d.rows(f'SELECT {first} FROM {view}')})"


def user_sql(d: Dialect, column: str, kind: str) -> str:
    """SQL of a text that identifies the user, ``=`` and the id; NULL ids are one user, ``!``."""
    return f"coalesce({d.concat(chr(39) + '=' + chr(39), f'({d.identity(column, kind)})')}, '!')"


DIGITS = "[0-9]+([.]0*)?"
"""A pattern for the text of a whole number that is not negative."""


def _portable_weight_sql(d: Dialect, column: str, kind: str, most: int) -> str:
    """SQL of a weight, from 1 to ``most``: larger numbers are ``most``, anything else is 0."""
    number, text = column, d.text(column, kind)
    whole = f"{column} >= 1"
    if kind == "VARCHAR":
        number = d.parsed_real(f"CASE WHEN {d.matches(text, DIGITS)} THEN {text} END")
        whole = f"{number} >= 1"
    elif kind not in WHOLE:  # a decimal, which engines round in comparisons
        whole = f"{whole} AND {d.matches(d.cast_text(column), DIGITS)}"
    return (
        f"CASE WHEN {whole} THEN CASE WHEN {number} >= {most} THEN {d.to_integer(str(most))} "
        f"ELSE {d.to_integer(number)} END ELSE {d.to_integer('0')} END"
    )


def key_names(keys: Keys | CellKeys) -> list[str]:
    return [f"k{i}" for i in range(1, keys.width + 1)]


def portable_keyed_sql(keys: Keys | CellKeys, rows: str, kept: str, where: str = "") -> str:
    """A query of ``rows`` with their finest keys and ``kept`` columns, without rows that the
    hierarchy drops."""
    if isinstance(keys, CellKeys):
        return keys.key_query(rows, kept.split(", ") if kept else [], where)
    query, wanted = add_key_steps(keys, f"SELECT * FROM {rows}{where}"), key_names(keys)
    dropped = ""
    if keys.hierarchy.on_invalid == "drop":
        dropped = " WHERE " + " AND ".join(f"{name} IS NOT NULL" for name in wanted)
    select = ", ".join([*wanted, kept] if kept else wanted)
    return f"SELECT {select} FROM {keys.dialect.rows(query)}{dropped}"


def _whole_sum_sql(keys: Keys | CellKeys, column: str) -> str:
    return keys.dialect.to_integer(f"sum({column})")


def _record_leaf_ctes(
    keys: Keys | CellKeys, unit: PrivacyUnit, added: tuple[str, ...] = ()
) -> list[str]:
    weighted = unit.weight is not None
    where = " WHERE w > 0" if weighted else ""
    names = ", ".join(key_names(keys))
    n, more = _whole_sum_sql(keys, "w") if weighted else "count(*)", _sum_list(added)
    if keys.reads_text:  # group equal texts first: each is read once
        own = _source_column_list(keys)
        return [
            f"texts AS (SELECT {own}, {n} AS n{more} FROM source{where} GROUP BY {own})",
            f"keyed AS ({portable_keyed_sql(keys, 'texts', ', '.join(['n', *added]))})",
            f"leaves AS (SELECT {names}, {_whole_sum_sql(keys, 'n')} AS n{more} FROM keyed "
            f"GROUP BY {names})",
        ]
    kept = ["w"] if weighted else list(added)
    return [
        f"keyed AS ({portable_keyed_sql(keys, 'source', ', '.join(kept), where)})",
        f"leaves AS (SELECT {names}, {n} AS n{more} FROM keyed GROUP BY {names})",
    ]


def _source_column_list(keys: Keys | CellKeys) -> str:
    return ", ".join(f"c{i}" for i in range(len(keys.types)))


def _sum_list(added: tuple[str, ...]) -> str:
    return "".join(f", sum({name}) AS {name}" for name in added)


def _portable_user_leaves(keys: Keys | CellKeys, unit: PrivacyUnit, seed: int) -> list[str]:
    """CTEs of counts in which each user weighs what the unit allows, with any number of rows."""
    names = ", ".join(key_names(keys))
    bounded = (
        _share_ctes(keys, unit.grid, seed) if unit.grid > 1 else _sample_ctes(keys, unit, seed)
    )
    return [
        *bounded,
        f"leaves AS (SELECT {names}, {_whole_sum_sql(keys, 'n')} AS n FROM bounded GROUP BY "
        f"{names})",
    ]


def _share_ctes(keys: Keys | CellKeys, grid: int, seed: int) -> list[str]:
    """CTEs as for DuckDB: ``grid`` units for each user, rounded with the user's random offset."""
    d, names = keys.dialect, ", ".join(key_names(keys))
    order = ascending_order(*key_names(keys))
    if keys.reads_text:
        own = _source_column_list(keys)
        pairs = [
            f"texts AS (SELECT u, {own}, count(*) AS m FROM source GROUP BY u, {own})",
            f"keyed AS ({portable_keyed_sql(keys, 'texts', 'u, m')})",
            f"pairs AS (SELECT u, {names}, {_whole_sum_sql(keys, 'm')} AS m FROM keyed GROUP BY "
            f"u, {names})",
        ]
    else:
        pairs = [
            f"keyed AS ({portable_keyed_sql(keys, 'source', 'u')})",
            f"pairs AS (SELECT u, {names}, count(*) AS m FROM keyed GROUP BY u, {names})",
        ]
    upto = d.to_integer(
        f"sum(m) OVER (PARTITION BY u ORDER BY {order} "
        "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    )
    total = d.to_integer("sum(m) OVER (PARTITION BY u)")
    units = [d.quotient(f"({grid} * {cut} + h)", "total") for cut in ("upto", "(upto - m)")]
    offset = d.remainder(d.hash_of(["u"], seed), "total")
    return [
        *pairs,
        f"running AS (SELECT u, {names}, m, {upto} AS upto, {total} AS total FROM pairs)",
        f"offsets AS (SELECT {names}, m, upto, total, {offset} AS h FROM running)",
        f"bounded AS (SELECT {names}, {units[0]} - {units[1]} AS n FROM offsets)",
    ]


def _sample_ctes(keys: Keys | CellKeys, unit: PrivacyUnit, seed: int) -> list[str]:
    """CTEs as for DuckDB: rows ranked by a hash of user, number among equal rows, key and seed."""
    d, names = keys.dialect, ", ".join(key_names(keys))
    order = ascending_order("h", *key_names(keys), "i")
    mark, none = "'='", "'!'"
    marked = [f"coalesce({d.concat(mark, d.cast_text(k))}, {none})" for k in key_names(keys)]
    spaced = [part for text in marked for part in ("'\t'", text)]
    h = d.hash_of(["u", "'\t'", d.cast_text("i"), *spaced], seed)
    return [
        f"keyed AS ({portable_keyed_sql(keys, 'source', 'u')})",
        f"numbered AS (SELECT u, {names}, "
        f"row_number() OVER (PARTITION BY u, {names} ORDER BY u ASC NULLS LAST) - 1 AS i "
        "FROM keyed)",
        f"hashes AS (SELECT u, {names}, i, {h} AS h FROM numbered)",
        f"ranked AS (SELECT {names}, "
        f"row_number() OVER (PARTITION BY u ORDER BY {order}) AS place FROM hashes)",
        f"bounded AS (SELECT {names}, 1 AS n FROM ranked WHERE place <= {unit.max_contributions})",
    ]


def _node_ctes(keys: Keys, added: tuple[str, ...]) -> list[str]:
    """CTEs that repeat every leaf at each of its levels, then count. Leaves and levels are computed
    once; engines would compute a chain of CTEs again and again."""
    d, height = keys.dialect, keys.hierarchy.height
    names, texts = ", ".join(key_names(keys)), [f"t{i}" for i in range(1, keys.width + 1)]
    depth = keys.depth() or str(height)
    shown = ", ".join(f"{sql} AS {t}" for sql, t in zip(keys.at_level(), texts, strict=True))
    none = ", ".join(f"{sql} AS {t}" for sql, t in zip(keys.root_key(), texts, strict=True))
    more = "".join(f", {name}" for name in added)
    zeros = "".join(f", {d.addable('0')} AS {name}" for name in added)
    return [
        f"deep AS (SELECT {names}, n{more}, {d.small(depth)} AS d FROM leaves)",
        f"nodes AS (SELECT level, {shown}, n{more} FROM {d.with_levels('deep', 'd', height)}\n"
        f"UNION ALL SELECT 0 AS level, {none}, {d.to_integer('0')} AS n{zeros})",
        f"candidates AS (SELECT level, {', '.join(texts)}, {_whole_sum_sql(keys, 'n')} AS "
        f"n{_sum_list(added)} "
        f"FROM nodes GROUP BY level, {', '.join(texts)})",
    ]
