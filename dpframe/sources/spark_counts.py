"""Count the rollup by Spark: one statement runs there, and returns nodes at or above the band."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from dpframe.budget import PrivacyUnit
from dpframe.dialects import SPARK
from dpframe.errors import ParameterError
from dpframe.hierarchy import Hierarchy
from dpframe.noise import random_seed
from dpframe.sources.candidates import preorder_table
from dpframe.sources.cell_candidates import group_counts
from dpframe.sources.count_rows import tree_of
from dpframe.sources.keys import check_key_types
from dpframe.sources.rollup_statement import rollup_statement
from dpframe.sources.spark import SparkFrame
from dpframe.sources.summands import Summand
from dpframe.sources.weights import check_weight_type
from dpframe.tree import Counts, ListedNodes

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
