"""The fast side of a comparison: the SQL rollup with nothing pruned, node by node; and cells as a
release counts them, cell by cell."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa

from dpframe.budget import PrivacyUnit
from dpframe.counts import Counts, CountTree
from dpframe.hierarchy import Cells, Hierarchy, Kind
from dpframe.mechanisms.offline_hhh import select
from dpframe.sources import exact_trees as tables
from dpframe.sources import source_relations, sql_tables
from dpframe.sources.rollup_statement import rollup_statement, tree_of
from tests.naive import Cell, Path

RECORDS = PrivacyUnit()


def exact_tree(
    source: object, hierarchy: Hierarchy, unit: PrivacyUnit = RECORDS, seed: int = 1
) -> CountTree:
    """All nodes of a source, as a release would read them with band 1."""
    beside = [column for column in (unit.user, unit.weight) if column is not None]
    wanted = [*hierarchy.source_columns, *beside]
    with source_relations.open_source(source, wanted) as relation:
        found_types = map(source_relations.canonical, relation.types)
        types: dict[str | None, str] = dict(zip(relation.columns, found_types, strict=True))
        read = tuple(types[c] for c in hierarchy.source_columns)
        hierarchy.check_types(read)
        statement = rollup_statement(
            hierarchy, unit, band=1, types=read, user_type=types.get(unit.user), seed=seed
        )
        found = relation.query(statement, False)
    return tree_of(found)


def said(tree: CountTree) -> list[list[object]]:
    """Nodes in their order: levels, parents, counts and keys as texts."""
    keys = [column.cast("string").to_pylist() for column in tree.keys]
    return [tree.level.tolist(), tree.parent.tolist(), tree.count.tolist(), *keys]


def tree_paths(tree: CountTree, hierarchy: Hierarchy) -> list[Path]:
    """The path of every node, read off its ancestors."""
    as_text = [column.cast("string").to_pylist() for column in tree.keys]
    texts = list(zip(*as_text, strict=True))
    paths: list[Path] = []
    for i, (level, parent) in enumerate(
        zip(tree.level.tolist(), tree.parent.tolist(), strict=True)
    ):
        if level == 0:
            assert (i, parent) == (0, -1)
            paths.append(())
            continue
        assert parent < i
        assert tree.level[parent] == level - 1
        if hierarchy.kind == "columns":
            key = texts[i][level - 1]
            assert texts[i] == (
                *texts[parent][: level - 1],
                key,
                *[None] * (hierarchy.height - level),
            )
        else:
            key = None if texts[i][0] is None else hierarchy.label(level, texts[i])
        paths.append((*paths[parent], key))
    return paths


def node_counts(tree: CountTree, hierarchy: Hierarchy) -> dict[Path, int]:
    """Count of every node by path; a node that appears twice is an error."""
    paths = tree_paths(tree, hierarchy)
    assert len(set(paths)) == len(paths)
    return dict(zip(paths, tree.count.tolist(), strict=True))


def exact_counts(
    source: object, hierarchy: Hierarchy, unit: PrivacyUnit = RECORDS, seed: int = 1
) -> dict[Path, int]:
    """Counts by path. Frames of records are counted as a release counts them, too."""
    tree = exact_tree(source, hierarchy, unit, seed)
    if unit == RECORDS and isinstance(source, pd.DataFrame | pa.Table):
        assert said(tables.exact_counts(source, hierarchy, unit, 1)) == said(tree)
    return node_counts(tree, hierarchy)


def columns_of_t(con: duckdb.DuckDBPyConnection) -> Any:
    """Names and types of the table t."""
    return sql_tables.described_columns(con.execute("DESCRIBE t").fetchall())


def tree_by_sql(
    con: duckdb.DuckDBPyConnection,
    hierarchy: Hierarchy,
    unit: PrivacyUnit = RECORDS,
    columns: Any = None,
    *,
    seed: int = 1,
    only: Any = None,
) -> CountTree:
    """What the statement of the SQL front door counts in the table t of a connection."""
    statement = sql_tables.table_rollup_statement(
        sql_tables.table_source("t"), hierarchy, unit,
        band=1, seed=seed, columns=columns, only=only,
    )  # fmt: skip
    return tree_of(con.sql(statement).to_arrow_table())


# -- cells ---------------------------------------------------------------------------------------


class Silent:
    """In place of a NoiseTable: no noise."""

    def draw(self, n: int) -> np.ndarray:
        return np.zeros(n, dtype=np.int64)


def nodes(counts: Counts, cells: Cells) -> list[list[Path]]:
    """The path of every node of every dimension."""
    found = []
    for one, axis in zip(cells.of, counts.axes, strict=True):
        texts = list(zip(*(key.to_pylist() for key in axis.keys), strict=True))
        paths: list[Path] = [()]
        for place in range(1, len(axis.level)):
            level, parent = int(axis.level[place]), int(axis.parent[place])
            key: Any = None if texts[place][0] is None else one.label(level, texts[place])
            if one.kind == "columns":
                key = texts[place][level - 1]
            assert len(paths[parent]) == level - 1
            paths.append((*paths[parent], key))
        assert len(set(paths)) == len(paths)
        found.append(paths)
    return found


def reported(
    source: object,
    cells: Cells,
    *,
    threshold: int,
    band: int = 1,
    unit: PrivacyUnit = RECORDS,
    kinds: tuple[Kind, ...] | None = None,
) -> dict[tuple[int, Cell], int]:
    """What cells report without noise, from the statement and the mechanism of every release."""
    counts = tables.exact_counts(source, cells, unit, band)
    paths = nodes(counts, cells)
    kind, places, residual = select(
        counts,
        kinds=cells.kinds if kinds is None else kinds,
        test=Silent(),  # type: ignore[arg-type]
        threshold=threshold,
        remainder=True,
        band=band,
    )
    named = (
        (k, tuple(paths[i][place] for i, place in enumerate(row)))
        for k, row in zip(kind.tolist(), places.tolist(), strict=True)
    )
    return dict(zip(named, residual.tolist(), strict=True))
