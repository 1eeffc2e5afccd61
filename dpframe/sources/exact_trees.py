"""Count any source exactly: nodes or cells, and different users at every node."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from dpframe._duck import VIEW, Relation, register_table
from dpframe.budget import PrivacyUnit
from dpframe.common.texts import identifier, literal
from dpframe.counts import Counts, CountTree, ListedNodes, coded_values
from dpframe.dialects import SPARK
from dpframe.errors import ParameterError
from dpframe.hierarchy import Hierarchy
from dpframe.hierarchy._base import check_writable
from dpframe.hierarchy._plain_values import Ip
from dpframe.noise import random_seed
from dpframe.sources.candidates import group_counts, preorder_table
from dpframe.sources.cell_leaves import (
    BEYOND,
    WHOLE_STEPS,
    finest_columns,
)
from dpframe.sources.frames import is_spark, rows_of_frame
from dpframe.sources.keys import check_key_types, listed_counts
from dpframe.sources.portable_sql import Summand, values_to_count
from dpframe.sources.rollup_statement import (
    check_weight_type,
    counts_of,
    in_preorder,
    rollup_statement,
    source_sql,
    tree_of,
)
from dpframe.sources.small_frames import MOST, UserLeaves, counts_small, small_counts
from dpframe.sources.source_relations import (
    canonical,
    hold_columns,
    only_text,
    open_source,
)
from dpframe.sources.spark import SparkFrame, fetch_table
from dpframe.sources.user_rows import KeyRows, text_key_rows, users_at_all, users_at_reported


def node_users(
    source: object,
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    band: int,
    *,
    listed: ListedNodes | None = None,
    progress: bool = False,
) -> CountTree:
    """Numbers of users at nodes with at least ``band`` users, or at the listed nodes. Private.

    Raises ColumnError where a column cannot be read, or a listed key is no value of its column.
    """
    user = str(unit.user)
    if is_spark(source):
        check_readable(source, hierarchy, unit)
        source = pairs_of_spark(source, hierarchy, unit)
    with open_source(source, list(dict.fromkeys([*hierarchy.source_columns, user]))) as relation:
        seen = _tree_column_types(relation, hierarchy, unit, text=only_text(source))
        types = tuple(seen[c] for c in hierarchy.source_columns)
        if listed is not None:
            check_key_types(listed, hierarchy, types)
        own, read = source_sql(
            hierarchy,
            unit,
            types=types,
            user_type=seen[user],
            view=VIEW,
            again=relation.repeats(computed=False),
        )
        asked, most, seed = (relation, hierarchy, read, own), unit.nodes, random_seed()
        assert most is not None
        if listed is None:
            table = users_at_all(
                *asked, band, user_type=seen[user], most=most, seed=seed, progress=progress
            )
            return _unconnected_tree(table, types)
        count = users_at_reported(
            *asked, listed, user_type=seen[user], most=most, seed=seed, progress=progress
        )
    return CountTree(
        level=listed.level, parent=listed.parent, count=count, keys=listed.keys, types=types
    )


def _unconnected_tree(table: pa.Table, types: tuple[str, ...]) -> CountTree:
    """A tree of unconnected nodes: their counts do not add up, and their parents can be missing."""
    level, count = (table[name].cast(pa.int64()).to_numpy() for name in ("level", "n"))
    return CountTree(
        level=level,
        parent=np.full(len(level), -1, dtype=np.int64),
        count=count,
        keys=tuple(table[name] for name in table.column_names[2:]),
        types=types,
    )


def pairs_of_spark(
    frame: object, hierarchy: Hierarchy, unit: PrivacyUnit, values: Sequence[str] = ()
) -> pa.Table:
    """A table of users and their different values, which the Spark cluster finds, with the sums of
    further columns, float64."""
    columns, user = hierarchy.source_columns, str(unit.user)
    found = check_spark(frame, hierarchy, unit, values)
    if taken := {*columns, user} & {*values}:
        raise ParameterError(
            f"column {min(taken)!r} is added up, and a key or the user, too, which a Spark "
            "DataFrame lacks. Add a copy of the column to the frame, and name the copy."
        )

    def ask() -> Any:
        if not values:
            return found.records(columns, user).distinct()
        from pyspark.sql import functions as F

        summed = [
            (F.sum(F.expr(_spark_steps(found, name))).cast("double") / F.lit(WHOLE_STEPS)).alias(
                found.names[name]
            )
            for name in values
        ]
        keys = ["u", *(found.names[column] for column in columns)]
        return found.records([*columns, *values], user).groupBy(*keys).agg(*summed)

    table = fetch_table(ask)
    return pa.table({user: table["u"], **{c: table[found.names[c]] for c in (*columns, *values)}})


def _spark_steps(found: SparkFrame, column: str) -> str:
    """SQL of a value in whole steps, as :func:`.cell_leaves.whole_steps_sql`."""
    d = SPARK
    number = d.as_real(d.identifier(found.names[column]), found.types[column])
    most, end = d.real(sys.float_info.max), d.real(BEYOND)
    cut = f"least(greatest({number}, -{end}), {end}) * {d.real(WHOLE_STEPS)}"
    return f"CASE WHEN {number} BETWEEN -{most} AND {most} THEN {d.wide(f'round({cut})')} END"


FRACTIONS = ("FLOAT", "DOUBLE", "DECIMAL")


def check_spark(
    frame: Any, hierarchy: Hierarchy, unit: PrivacyUnit, beside: Sequence[str] = ()
) -> SparkFrame:
    """The columns of a Spark frame that a question reads.

    Raises ColumnError if one is missing or its type cannot be read, and ParameterError for ``hhh``
    with ``weight``.
    """
    if unit.measured:
        raise ParameterError(
            f"weight ({unit.weight!r}) of hhh needs whole numbers of 128 bits, which Spark lacks. "
            "Pass frame.toArrow(), or write Parquet and pass its path."
        )
    own = [column for column in (unit.user, unit.weight) if column is not None]
    wanted = [*hierarchy.source_columns, *own, *beside]
    source = SparkFrame(frame, tuple(dict.fromkeys(wanted)))
    hierarchy.check_types(tuple(source.types[column] for column in hierarchy.source_columns))
    if unit.weight is not None:
        check_weight_type(unit, source.types[unit.weight])
    return source


def counts_by_spark(
    frame: Any,
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    band: int,
    *,
    listed: ListedNodes | None = None,
    sums: Mapping[str, Summand] | None = None,
) -> Counts:
    """True counts of nodes or cells, with ``sums``. Private."""
    sums = sums or {}
    source, read = _checked_spark_source(frame, hierarchy, unit, sums)
    if listed is not None:
        check_key_types(listed, hierarchy, read)
    with source:
        statement = _spark_rollup_statement(source, hierarchy, unit, band, read, sums)
        table = source.query(statement, only=_listed_table(listed, hierarchy, read))
    if hierarchy.has_cells:
        return group_counts(table, hierarchy, SPARK, read, band=band, sums=tuple(sums))
    rows = preorder_table(table, hierarchy, SPARK, read, own=True, sums=tuple(sums))
    return tree_of(rows, read, tuple(sums))


def _checked_spark_source(
    frame: Any, hierarchy: Hierarchy, unit: PrivacyUnit, sums: Mapping[str, Summand]
) -> tuple[SparkFrame, tuple[str, ...]]:
    """The checked frame, and the types of the columns of the hierarchy."""
    source = check_spark(frame, hierarchy, unit, [added.column for added in sums.values()])
    return source, tuple(source.types[column] for column in hierarchy.source_columns)


def _spark_rollup_statement(
    source: SparkFrame,
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    band: int,
    read: tuple[str, ...],
    sums: Mapping[str, Summand],
) -> str:
    return rollup_statement(
        hierarchy,
        unit,
        band=band,
        types=read,
        seed=random_seed(),
        user_type=source.types[unit.user] if unit.user is not None else None,
        weight_type=source.types[unit.weight] if unit.weight is not None else None,
        view=source.view,
        dialect=SPARK,
        names=source.names,
        sums=sums,
        value_types=source.types,
    )


def _listed_table(
    listed: ListedNodes | None, hierarchy: Hierarchy, types: tuple[str, ...]
) -> pa.Table | None:
    """Listed nodes as the statement writes them: level, t1, ...; None if Spark is to return all
    nodes, as for fractions, which Spark writes in another way than DuckDB.
    """
    if listed is None or any(kind.split("(")[0] in FRACTIONS for kind in types):
        return None
    columns = [column.cast(pa.large_string()) for column in listed.keys]
    if hierarchy.kind == "ip":
        columns = [
            pa.array(map(_address_digits, column.to_pylist()), pa.string()) for column in columns
        ]
    names = [f"t{i}" for i in range(1, len(columns) + 1)]
    return pa.table([pa.array(listed.level), *columns], names=["level", *names])


def _address_digits(address: str | None) -> str | None:
    return None if address is None else f"{int(address):032x}"


def exact_counts(
    source: object,
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    band: int,
    *,
    listed: ListedNodes | None = None,
    progress: bool = False,
    sums: Mapping[str, Summand] | None = None,
    beside: Sequence[str] = (),
    values: Sequence[Summand] = (),
    keep: Callable[[KeyRows], None] | None = None,
) -> Counts:
    """True counts of the nodes or cells at or above the band, or only of listed nodes. Private.

    ``sums`` are as in :func:`rollup_statement`; they read the columns that ``beside`` names, as do
    ``values``. Where rows of users are at hand, ``keep`` gets them with these values.

    Raises ColumnError where a column cannot be read, or a listed key is no value of its column.
    """
    if is_spark(source):
        counts = counts_by_spark(source, hierarchy, unit, band, listed=listed, sums=sums)
        return counts if listed is None else listed_counts(counts.axes[0], listed)
    wanted = [*_columns_to_read(hierarchy, unit), *beside]
    seed = random_seed()  # always drawn, so that later draws do not depend on which code counts
    small = None
    if not sums and counts_small(hierarchy, unit):
        size = rows_of_frame(source)
        if size is not None and size <= MOST:
            source = held = hold_columns(source, wanted)
            small = None if held.types else small_counts(held.table, hierarchy, band)
    if small is not None:
        if listed is None:
            return small
        check_key_types(listed, hierarchy, small.types)
        return listed_counts(small, listed)
    with open_source(source, wanted) as relation:
        types = _tree_column_types(relation, hierarchy, unit, text=only_text(source))
        read = tuple(types[c] for c in hierarchy.source_columns)
        if listed is not None:
            check_key_types(listed, hierarchy, read)
        elif isinstance(hierarchy, Ip) and not sums:
            from dpframe.sources.small_frames import address_nodes

            nodes = address_nodes(relation, hierarchy, unit, read, band, progress=progress)
            if nodes is not None:
                return counts_of(nodes, hierarchy, read)
        user_type = types.get(unit.user or "")
        known: UserLeaves | TextLeaves | None = None
        if user_type is not None:
            from dpframe.sources.small_frames import user_leaves

            asked = (relation, hierarchy, unit, read, user_type)
            known = user_leaves(*asked, seed=seed, progress=progress)
            if known is None:
                rows = text_key_rows(*asked, values, seed=seed, progress=progress)
                if rows is not None:
                    known = rows.shares(unit.grid)
                    if keep is not None:
                        keep(rows)
        if known is None and listed is None:
            known = text_leaves(relation, hierarchy, unit, read, sums or {}, progress=progress)
        statement = rollup_statement(
            hierarchy,
            unit,
            band=band,
            types=read,
            user_type=user_type,
            seed=seed,
            only=listed,
            sums=sums,
            leaves=known.sql if known else None,
            ordered=False,
        )
        if known is None:
            relation.group_by_place(len(sums or ()))
            table = relation.query(statement, progress)
    if known is not None:
        with register_table(known.table, "what users count") as relation:
            table = relation.query(statement, False)
    counts = counts_of(in_preorder(table, hierarchy), hierarchy, read, tuple(sums or ()))
    return counts if listed is None else listed_counts(counts.axes[0], listed)


def check_readable(source: object, hierarchy: Hierarchy, unit: PrivacyUnit) -> None:
    """Raise ColumnError if a source lacks a column, or has one of a type that cannot be read."""
    if is_spark(source):
        check_spark(source, hierarchy, unit)
        return
    with open_source(source, _columns_to_read(hierarchy, unit)) as relation:
        _tree_column_types(relation, hierarchy, unit, text=only_text(source))


def _columns_to_read(hierarchy: Hierarchy, unit: PrivacyUnit) -> list[str]:
    beside = (unit.user, unit.weight)
    return [*hierarchy.source_columns, *(column for column in beside if column is not None)]


def _tree_column_types(
    relation: Relation, hierarchy: Hierarchy, unit: PrivacyUnit, *, text: bool
) -> dict[str, str]:
    """Checked types by column. ``text`` says that a source holds nothing but text, weights too."""
    types = {c: canonical(t) for c, t in zip(relation.columns, relation.types, strict=True)}
    hierarchy.check_types(tuple(types[c] for c in hierarchy.source_columns))
    if unit.user is not None:
        check_writable(unit.user, types[unit.user])
    if unit.weight is not None:
        check_weight_type(unit, types[unit.weight], text=text)
    return types


# -- records at keys of few different texts --------------------------------------------------------
#
# A first statement finds the different texts of each column. A second one counts records by their
# places in these lists, which DuckDB does in half the time that it takes with texts: it looks up
# each text of a Parquet file's dictionary once, and groups small numbers in a table. The counts are
# those of `cell_leaves.record_leaves`, so that it does not matter which of both counts.


FIRST_ROWS, KEYS = 20_480, 2**18
"""Rows that are looked at first, and keys that there may be: more would not be grouped by place."""

TEXTS, LETTERS = 255, 2**15
"""Texts of a column that a statement spells out, and their characters in all."""


@dataclass(frozen=True, slots=True, repr=False)
class TextLeaves:
    """Keys, each once, their numbers of records ``n`` and sums; ``sql`` reads them. Private."""

    table: pa.Table
    sql: str


def text_leaves(
    relation: Relation,
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    types: tuple[str, ...],
    sums: Mapping[str, Summand],
    *,
    progress: bool,
) -> TextLeaves | None:
    """The numbers of records at each finest key, and ``sums`` as for ``rollup_statement``. Private.
    None where texts have to be grouped: where a column has many texts, or NULL, or empty ones."""
    by_record = unit.user is None and unit.weight is None
    if not by_record or not hierarchy.label_columns or {*types} != {"VARCHAR"}:
        return None
    if not relation.reads_columns():
        return None
    columns = [identifier(name) for name in hierarchy.source_columns]
    if _few_texts(relation, columns, f"(FROM {VIEW} LIMIT {FIRST_ROWS})") is None:
        return None
    found = _few_texts(relation, columns, VIEW)
    if found is None:
        return None
    keys, counted = finest_columns(hierarchy), values_to_count(sums)
    read = [
        f"{_place_sql(column, texts)} AS {key}"
        for column, texts, key in zip(columns, found, keys, strict=True)
    ]
    read += [f"{one.sql} AS {name}" for name, one in sums.items() if name not in counted]
    added = [
        f"count({counted[name]}) AS {name}" if name in counted else f"sum({name}) AS {name}"
        for name in sums
    ]
    relation.group_by_place(len(sums))
    own = ", ".join(keys)
    rows = relation.query(
        f"SELECT {', '.join([own, 'count(*) AS n', *added])} "
        f"FROM (SELECT {', '.join(read)} FROM {VIEW}) GROUP BY {own}",
        progress,
    )
    if any(rows[key].null_count for key in keys):  # the file changed since its texts were read
        return None
    coded = {
        key: coded_values(pa.array(texts, pa.string()), rows[key].to_numpy().astype(np.int64) - 1)
        for key, texts in zip(keys, found, strict=True)
    }
    named = ("n", *sums)
    table = pa.table({**coded, **{name: rows[name] for name in named}})
    return TextLeaves(table, f"SELECT {', '.join([own, *named])} FROM {VIEW}")


def _few_texts(relation: Relation, columns: list[str], rows: str) -> list[list[str]] | None:
    """The different texts of every column; None where there are many, none, or missing ones."""
    lists = ", ".join(
        f"list(DISTINCT {c}) AS v{i}, count({c}) AS n{i}" for i, c in enumerate(columns)
    )
    (row,) = relation.query(f"SELECT {lists}, count(*) AS n FROM {rows}", False).to_pylist()
    found = [row[f"v{i}"] or [] for i in range(len(columns))]
    if any(row[f"n{i}"] < row["n"] for i in range(len(columns))):
        return None
    if math.prod(len(texts) + 1 for texts in found) > KEYS:
        return None
    return found if all(map(_can_be_spelled, found)) else None


def _can_be_spelled(texts: list[str]) -> bool:
    """Whether a statement can spell these texts, which are all keys. No SQL has a NUL in it."""
    few = 0 < len(texts) <= TEXTS and sum(map(len, texts)) <= LETTERS
    return few and "" not in texts and not any("\0" in text for text in texts)


def _place_sql(column: str, texts: list[str]) -> str:
    """SQL of the place of a text, from 1. ``list_extract`` tells DuckDB the largest one."""
    places = list(range(1, len(texts) + 1))
    spelled = ", ".join(map(literal, texts))
    return f"list_extract({places}::UTINYINT[], list_position([{spelled}], {column}))"
