"""The fast side of a comparison: the SQL rollup with nothing pruned, node by node."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa

from dpframe.budget import PrivacyUnit
from dpframe.counts import CountTree
from dpframe.hierarchy import Hierarchy
from dpframe.sources import exact_trees as tables
from dpframe.sources import source_relations
from dpframe.sources.rollup_statement import rollup_statement, tree_of
from tests.naive import Path

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


def exact_counts(
    source: object, hierarchy: Hierarchy, unit: PrivacyUnit = RECORDS, seed: int = 1
) -> dict[Path, int]:
    """Count of every node by path; a node that appears twice is an error. Frames of records are
    counted as a release counts them, too."""
    tree = exact_tree(source, hierarchy, unit, seed)
    if unit == RECORDS and isinstance(source, pd.DataFrame | pa.Table):
        assert said(tables.exact_counts(source, hierarchy, unit, 1)) == said(tree)
    paths = tree_paths(tree, hierarchy)
    assert len(set(paths)) == len(paths)
    return dict(zip(paths, tree.count.tolist(), strict=True))
