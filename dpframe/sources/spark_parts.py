"""Count by Spark what a rollup measures when the parts are known; and values by powers of two, by
DuckDB or Spark.

This module does in Spark what :mod:`dpframe.sources.segment_places` does in DuckDB, with the
reported nodes in a small temporary view. A statement reads the frame once: every row gets its part,
or its node of each reported level, by joins with that view.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence

import pyarrow as pa

from dpframe._duck import VIEW
from dpframe.budget import PrivacyUnit
from dpframe.common.texts import identifier
from dpframe.dialects import REAL, SPARK
from dpframe.hierarchy import Hierarchy
from dpframe.hierarchy.portable import Keys
from dpframe.hierarchy.portable_kinds import CellKeys, dimensions, keys_of, level_key_names
from dpframe.measures.bins import ValueKind
from dpframe.measures.measure import LARGEST, LEAST, AutoBound, BinVectors, Distinct, Vector
from dpframe.noise import random_seed
from dpframe.sources.cell_leaves import BEYOND, WHOLE_STEPS
from dpframe.sources.exact_trees import check_spark
from dpframe.sources.portable_sql import (
    Summand,
    key_names,
    portable_keyed_sql,
    portable_source_sql,
    user_sql,
)
from dpframe.sources.rollup_statement import exact_column_sql
from dpframe.sources.segment_places import (
    ReportedNodes,
    of_user,
    record_part_sql,
    reported_levels,
    user_total_columns,
    value_indices,
    value_places,
    vector_summands,
)
from dpframe.sources.spark import SparkFrame


def magnitudes_statement(searched: AutoBound, *, user: str | None, user_type: str | None) -> str:
    """The statement, which returns ``bin``, from 0, and ``n``.

    A record, or a user, is in at most one bin, which depends only on its values. Empty bins are
    left out.
    """
    number = f"TRY_CAST({identifier(searched.column)} AS DOUBLE)"
    sign = "" if searched.side == "upper" else "-"
    cut = f"least(greatest({sign}{number}, 0), {BEYOND!r}::DOUBLE)"
    units = f"CAST(ceil({cut} * {WHOLE_STEPS!r}::DOUBLE) AS HUGEINT)"
    value = f"CASE WHEN isfinite({number}) THEN {units} END"
    rows = f"SELECT {value} AS x FROM {VIEW}"
    if user is not None:
        by = exact_column_sql(user, user_type)
        gathered = "sum" if searched.of_total else "max"
        each = f"SELECT {by} AS u, {value} AS x FROM {VIEW}"
        rows = f"SELECT {gathered}(x) AS x FROM ({each}) GROUP BY u"
    exponent = "CAST(floor(log2(greatest(CAST(x AS DOUBLE), 1))) AS BIGINT)"
    inside = f"least({exponent}, {LARGEST - LEAST})"
    return f"SELECT {inside} AS bin, count(*) AS n FROM ({rows}) WHERE x > 0 GROUP BY bin"


FULL = 10**24
"""The steps to which totals of one user in one part are cut: times a bound, they fit 38 digits."""


def parts_by_spark(
    frame: object,
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    vectors: Sequence[Vector],
    nodes: ReportedNodes,
) -> pa.Table:
    """The columns ``part, v0, v1, ...``, as ``parts_statement`` returns them. Private."""
    d, by_user = SPARK, unit.user is not None
    values = vector_summands(vectors, by_user=by_user)
    numbered = list(zip(value_indices(vectors, by_user=by_user), vectors, strict=True))
    columns = [added.column for added in values.values()]
    source = check_spark(frame, hierarchy, unit, columns)
    keys = _spark_keys(source, hierarchy)
    own = ["u"] if by_user else []
    by = ", ".join([*own, "part"])
    summed = ""
    for name, added in values.items():
        x = f"sum({name})"
        if not added.clipped:
            x = f"coalesce({x}, 0)"  # greatest skips NULL
            x = f"least(greatest({x}, {d.wide(str(-FULL))}), {d.wide(str(FULL))})"
        summed += f", {x} AS {name}, count({name}) AS n{name}"
    bounded = of_user if by_user else record_part_sql
    shown = "".join(f", {d.wide(bounded(*one, d))} AS v{i}" for i, one in enumerate(numbered))
    total = "".join(f", sum(v{i}) AS v{i}" for i in range(len(vectors)))
    parts = [
        _spark_source_cte(source, keys, unit, values=values),
        f"keyed AS ({portable_keyed_sql(keys, 'source', ', '.join([*own, *values]))})",
        f"placed AS ({_row_places_sql(keys, nodes, source.listed, [*own, *values])})",
        f"sums AS (SELECT {by}, count(*) AS m{summed} FROM placed GROUP BY {by})",
    ]
    if by_user:
        whole = dict(w for one in numbered for w in user_total_columns(*one, d).items())
        needed = "".join(
            f", {d.wide(f'sum({sql}) OVER (PARTITION BY u)')} AS {name}"
            for name, sql in whole.items()
        )
        parts.append(f"users AS (SELECT sums.*{needed} FROM sums)")
    statement = (
        f"WITH {', '.join(parts)} SELECT part{total} FROM "
        f"(SELECT part{shown} FROM {'users' if by_user else 'sums'}) GROUP BY part"
    )
    with source:
        return source.rows_with_table(statement, _reported_table(keys, nodes))


def distinct_by_spark(
    frame: object,
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    distinct: Distinct,
    nodes: ReportedNodes,
) -> pa.Table:
    """The columns ``place, n``; by user ``held``, as ``distinct_statement`` returns it. Private."""
    d, seed = SPARK, random_seed()
    source = check_spark(frame, hierarchy, unit, [distinct.column])
    keys = _spark_keys(source, hierarchy)
    value = d.identifier(source.names[distinct.column])
    own = ["v"] if unit.user is None else ["u", "v"]
    pair, levels = ", ".join(own), reported_levels(nodes)
    parts = [
        _spark_source_cte(source, keys, unit, beside={"v": value}),
        f"keyed AS ({portable_keyed_sql(keys, 'source', pair, ' WHERE v IS NOT NULL')})",
        f"placed AS ({_row_places_sql(keys, nodes, source.listed, own)})",
    ]
    if unit.user is None:
        several = isinstance(keys, CellKeys)  # every row is in one segment
        each = ["part"] if several else [d.to_integer("0"), *(f"n{level}" for level in levels)]
        statement = (
            f"SELECT place, count(DISTINCT v) AS n FROM placed LATERAL VIEW "
            f"explode(array({', '.join(each)})) places AS place WHERE place IS NOT NULL "
            "GROUP BY place"
        )
    else:
        held = ", ".join(["h", *value_places(hierarchy, nodes)])
        hashed = held.replace("h", f"{d.hash_of(['v'], seed)} AS h", 1)
        statement = (
            f"SELECT collect_list(struct({held})) AS held FROM "
            f"(SELECT DISTINCT u, {hashed} FROM placed) GROUP BY u"
        )
    with source:
        return source.rows_with_table(
            f"WITH {', '.join(parts)} {statement}", _reported_table(keys, nodes)
        )


def bins_by_spark(
    frame: object,
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    vectors: BinVectors,
    nodes: ReportedNodes,
) -> pa.Table:
    """The columns ``part, bin, n``, as ``bins_statement`` returns them. Private."""
    d, by_user = SPARK, unit.user is not None
    source = check_spark(frame, hierarchy, unit, [vectors.column])
    keys = _spark_keys(source, hierarchy)
    own = ["u", "v"] if by_user else ["v"]
    if vectors.each == "row":
        column, kind = d.identifier(source.names[vectors.column]), source.types[vectors.column]
        beside = {"v": _binned_value_sql(column, kind, vectors.value)}
        cte = _spark_source_cte(source, keys, unit, beside=beside)
    else:
        added = Summand(kind="value", column=vectors.column, steps=vectors.steps, clipped=False)
        cte = _spark_source_cte(source, keys, unit, values={"v": added})
    parts = [
        cte,
        f"keyed AS ({portable_keyed_sql(keys, 'source', ', '.join(own), ' WHERE v IS NOT NULL')})",
        f"placed AS ({_row_places_sql(keys, nodes, source.listed, own)})",
    ]
    if vectors.each != "row":
        rows = _user_bins_sql(vectors, several=isinstance(keys, CellKeys), nodes=nodes)
        statement = f"WITH {', '.join(parts)} {rows}"
    else:
        by = ", ".join([*own[:-1], "part"])
        literal = d.real if vectors.value == "number" else _microseconds_before
        place = vectors.bins.place_sql("v", literal)
        parts += [
            f"binned AS (SELECT {by}, {place} AS bin FROM placed)",
            f"sums AS (SELECT {by}, bin, count(*) AS n FROM binned GROUP BY {by}, bin)",
        ]
        n = "n"
        if by_user:
            parts.append("users AS (SELECT *, sum(n) OVER (PARTITION BY u) AS all_n FROM sums)")
            n = d.quotient(f"{vectors.unit} * n", "all_n")
        statement = (
            f"WITH {', '.join(parts)} SELECT part, bin, sum({n}) AS n FROM "
            f"{'users' if by_user else 'sums'} GROUP BY part, bin"
        )
    with source:
        return source.rows_with_table(statement, _reported_table(keys, nodes))


def _user_bins_sql(vectors: BinVectors, *, several: bool, nodes: ReportedNodes) -> str:
    """A query of ``part, bin, n`` for the total or mean of each user at every node."""
    d, levels = SPARK, [] if several else reported_levels(nodes)
    times = " * n" if vectors.each == "mean" else ""

    def edge(value: float) -> str:
        return f"({d.wide(str(vectors.steps.of(value)))}{times})"

    place = vectors.bins.place_sql("x", edge)
    total = f"least(greatest(sum(v), {d.wide(str(-FULL))}), {d.wide(str(FULL))})"
    root = "part" if several else d.to_integer("0")
    each = " UNION ALL ".join(
        f"SELECT p AS part, {place} AS bin, count(*) OVER (PARTITION BY u) AS k FROM "
        f"(SELECT u, p, {total} AS x, count(*) AS n FROM "
        f"(SELECT u, v, {at} AS p FROM placed) WHERE p IS NOT NULL GROUP BY u, p)"
        for at in (root, *(f"n{level}" for level in levels))
    )
    share = d.quotient(str(vectors.unit), "k")
    return f"SELECT part, bin, sum({share}) AS n FROM ({each}) GROUP BY part, bin"


def _binned_value_sql(column: str, kind: str, value: ValueKind) -> str:
    """SQL of a value that is put in bins: a double, or the microseconds of a time since 1970; NULL
    for what is no value."""
    d, day = SPARK, 86_400_000_000
    if value == "number":
        number, most = d.as_real(column, kind), d.real(sys.float_info.max)
        return f"CASE WHEN {number} BETWEEN -{most} AND {most} THEN {number} END"
    if kind == "TIMESTAMP WITH TIME ZONE":
        return f"unix_micros({column})"
    days = f"{d.to_integer(f'unix_date(CAST({column} AS DATE))')} * {day}"
    if kind == "DATE":
        return days
    clock = f"hour({column}) * 3600 + minute({column}) * 60 + extract(SECOND FROM {column})"
    return f"{days} + {d.to_integer(f'({clock}) * 1000000')}"


def _microseconds_before(edge: float) -> str:
    """The least whole number of microseconds that is not below an edge in seconds."""
    micros = math.floor(edge * 1e6) - 1
    while micros / 1e6 < edge:
        micros += 1
    return SPARK.to_integer(str(micros))


def magnitudes_by_spark(frame: object, unit: PrivacyUnit, searched: AutoBound) -> pa.Table:
    """The columns ``bin, n``, as ``magnitudes_statement`` returns them. Private."""
    d = SPARK
    wanted = [searched.column, *([] if unit.user is None else [unit.user])]
    source = SparkFrame(frame, tuple(dict.fromkeys(wanted)))
    kind = source.types[searched.column]
    number = d.as_real(d.identifier(source.names[searched.column]), kind)
    most, sign = d.real(sys.float_info.max), "" if searched.side == "upper" else "-"
    cut = (
        f"least(greatest({sign}{number}, {d.real(0.0)}), {d.real(BEYOND)}) * {d.real(WHOLE_STEPS)}"
    )
    fraction = f"CASE WHEN {number} BETWEEN -{most} AND {most} THEN {cut} END"
    # from 2**53 on every double is whole, and ceil ends at 2**63
    units = f"CASE WHEN y < {d.real(2.0**53)} THEN {d.wide('ceil(y)')} ELSE {d.wide('y')} END"
    own = ""
    if unit.user is not None:
        kind = source.types[unit.user]
        own = f", {user_sql(d, d.identifier(source.names[unit.user]), kind)} AS u"
    rows = (
        f"SELECT {units} AS x{own and ', u'} FROM (SELECT {fraction} AS y{own} FROM {source.view})"
    )
    if own:
        gathered = "sum" if searched.of_total else "max"
        rows = f"SELECT {gathered}(x) AS x FROM ({rows}) GROUP BY u"
    bins = range(LARGEST - LEAST, 0, -1)
    inside = f"CASE {' '.join(f'WHEN x >= {2**e} THEN {e}' for e in bins)} ELSE 0 END"
    statement = (
        f"SELECT bin, count(*) AS n FROM (SELECT {inside} AS bin FROM ({rows}) WHERE x > 0) "
        "GROUP BY bin"
    )
    with source:
        return source.query(statement)


def _spark_keys(source: SparkFrame, hierarchy: Hierarchy) -> Keys | CellKeys:
    types = tuple(source.types[column] for column in hierarchy.source_columns)
    return keys_of(hierarchy, SPARK, types)


def _spark_source_cte(
    source: SparkFrame,
    keys: Keys | CellKeys,
    unit: PrivacyUnit,
    *,
    values: Mapping[str, Summand] | None = None,
    beside: Mapping[str, str] | None = None,
) -> str:
    return portable_source_sql(
        keys,
        unit,
        None if unit.user is None else source.types[unit.user],
        None,
        source.view,
        source.names,
        values=values or {},
        value_types=source.types,
        beside=beside,
    )


def _reported_table(keys: Keys | CellKeys, nodes: ReportedNodes) -> pa.Table:
    """Reported nodes without the root: level, t1, ... as the statement writes them, and place."""
    below = [place for place, level in enumerate(nodes.level.tolist()) if level]
    columns: dict[str, object] = {
        "level": pa.array(nodes.level[below].tolist(), pa.int64()),
        "place": pa.array(below, pa.int64()),
    }
    wires = [one.wire for one in dimensions(keys) for _ in range(one.width)]
    for i, (key, wire) in enumerate(zip(nodes.keys, wires, strict=True), 1):
        texts = key.take(pa.array(below, pa.int64())).cast(pa.string()).to_pylist()
        wired = [None if text is None else wire(text) for text in texts]
        columns[f"t{i}"] = pa.array(wired, pa.string())
    return pa.table(columns)


def _row_places_sql(
    keys: Keys | CellKeys, nodes: ReportedNodes, listed: str, kept: list[str]
) -> str:
    """A query of the ``kept`` columns of ``keyed`` with ``part``, the place of the reported node
    furthest down (0 for the root), and n1, n2, ..., the place of the node at each reported level,
    NULL where that node is not reported. For cells, a level is a kind, and the part is the place of
    the reported cell that is asked first.
    """
    d, levels = keys.dialect, reported_levels(nodes)
    rows, matched = _match_conditions(keys, levels, kept)
    joins = ""
    for level, same in zip(levels, matched, strict=True):
        nodes_there = f"SELECT {_node_texts_sql(keys)}, place FROM {listed} WHERE level = {level}"
        joins += f" LEFT JOIN ({nodes_there}) AS p{level} ON {' AND '.join(same)}"
    part = ", ".join([*(f"p{level}.place" for level in reversed(levels)), d.to_integer("0")])
    places = "".join(f", p{level}.place AS n{level}" for level in levels)
    own = "".join(f"named.{name}, " for name in kept)
    return f"SELECT {own}coalesce({part}) AS part{places} FROM ({rows}) AS named{joins}"


def _match_conditions(
    keys: Keys | CellKeys, levels: Sequence[int], kept: list[str]
) -> tuple[str, list[list[str]]]:
    """A query of ``keyed`` with its keys at the levels, and for every level the conditions under
    which a row is at a reported node."""
    if isinstance(keys, CellKeys):
        cells = keys.hierarchy
        kinds = [cells.kind_order[len(cells.kind_order) - level] for level in levels]
        numbered = list(enumerate(zip(*kinds, strict=True), 1))
        asked = {number: sorted({*own} - {0}) for number, own in numbered}
        rows, _ = keys.level_query("keyed", kept, asked)
        return rows, [
            _kind_conditions(keys, kind, level) for kind, level in zip(kinds, levels, strict=True)
        ]
    depth = keys.dialect.small(keys.depth() or str(keys.hierarchy.height))
    have = [*key_names(keys), *kept, "d"]
    query, matched = f"SELECT {', '.join(have[:-1])}, {depth} AS d FROM keyed", []
    for level in levels:
        query = f"SELECT {', '.join(have)}, {level} AS level FROM ({query})"
        shown = enumerate(keys.at_level(), 1)
        texts = {f"t{level}_{i}": keys.dialect.cast_text(sql) for i, sql in shown}
        added = ", ".join(f"{sql} AS {name}" for name, sql in texts.items())
        query, have = f"SELECT {', '.join(have)}, {added} FROM ({query})", [*have, *texts]
        same = [f"named.{t} <=> p{level}.t{i}" for i, t in enumerate(texts, 1)]
        matched.append([f"named.d >= {level}", *same])
    return query, matched


def _kind_conditions(keys: CellKeys, kind: Sequence[int], level: int) -> list[str]:
    """The conditions under which a row is in a reported cell of a kind."""
    same, start = list[str](), 1
    for number, (one, depth) in enumerate(zip(keys.of, kind, strict=True), 1):
        if depth:
            same.append(f"named.depth_{number} >= {depth}")
            for i, name in enumerate(level_key_names(one.width, number, depth), start):
                text = keys.dialect.cast_text(f"named.{name}")
                same.append(f"{text} <=> p{level}.t{i}")
        start += one.width
    return same


def _node_texts_sql(keys: Keys | CellKeys) -> str:
    """SQL for the texts of reported nodes as Spark writes the texts of rows: fractions differ."""
    d, out = keys.dialect, list[str]()
    for one in dimensions(keys):
        for i in range(one.width):
            name = f"t{len(out) + 1}"
            kind, text = one.types[i] if one.hierarchy.kind == "columns" else "", name
            if kind in REAL or kind.startswith("DECIMAL"):
                text = d.text(f"try_cast({text} AS {kind})", kind)
            out.append(f"{text} AS {name}")
    return ", ".join(out)
