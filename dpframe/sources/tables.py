"""From whatever holds the rows to a CountTree: open, check columns, one statement, a tree."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe import _duck
from dpframe.noise import random_seed
from dpframe.plan import Plan
from dpframe.sources.columns import require
from dpframe.sources.files import open_file
from dpframe.sources.frames import arrow_table
from dpframe.sources.rollup_sql import rollup_sql
from dpframe.tree import CountTree


def count(source: object, plan: Plan, *, progress: bool = False) -> CountTree:
    """True counts at or above the band of everything the plan asks for. Private."""
    hierarchy, unit = plan.hierarchy, plan.unit
    user = [unit.user] if unit.user is not None else []
    with _opened(source, [*hierarchy.source_columns, *user]) as relation:
        types = {c: canonical(t) for c, t in zip(relation.columns, relation.types, strict=True)}
        read = tuple(types[c] for c in hierarchy.source_columns)
        hierarchy.check_types(read)
        statement = rollup_sql(
            hierarchy,
            unit,
            band=plan.band,
            types=read,
            user_type=types[unit.user] if unit.user is not None else None,
            seed=random_seed(),
        )
        table = relation.query(statement, progress)
    return tree_of(table)


def tree_of(table: pa.Table) -> CountTree:
    """The tree of a rollup's rows: level, n, keys, in preorder."""
    return CountTree.from_preorder(
        level=_numbers(table["level"]),
        count=_numbers(table["n"]),
        keys=tuple(table[name] for name in table.column_names[2:]),
    )


def describe(source: object) -> str:
    """What a source is, publicly: the path of a file, otherwise the kind of object."""
    if isinstance(source, str | Path):
        return f"file {os.path.abspath(source)}"
    if isinstance(source, _duck.DuckDBPyRelation):
        return "DuckDB relation"
    return f"{type(source).__module__.split('.')[0]} {type(source).__name__}"


def check_columns(source: object, wanted: Sequence[str]) -> None:
    """Raise ColumnError for a column that the source does not have; reads names only."""
    if hasattr(source, "columns") and not isinstance(source, str):
        require(wanted, list(source.columns), alone=True)


def _opened(source: object, wanted: Sequence[str]) -> _duck.Relation:
    if isinstance(source, str | Path):
        return open_file(str(source), wanted)
    if isinstance(source, _duck.DuckDBPyRelation):
        given = _duck.GivenRelation(source)
        require(wanted, given.columns)
        return given
    what = f"the {type(source).__module__.split('.')[0]} {type(source).__name__}"
    return _duck.register(arrow_table(source, wanted), what)


def _numbers(column: pa.ChunkedArray) -> NDArray[np.int64]:
    numbers: NDArray[np.int64] = column.cast(pa.int64()).to_numpy()
    return numbers


def canonical(duckdb_type: str) -> str:
    """Types that read alike: ENUM as text."""
    return "ENUM" if duckdb_type.startswith("ENUM") else duckdb_type
