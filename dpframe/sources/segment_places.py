"""SQL that finds the segment of reported cells in which each record lies.

A segment has the records of a reported cell that no reported cell asked before it has. CTEs over
``keyed``, which has the finest keys of all dimensions, k1, k2, ...; for the dimension d:

keyed_d   its finest keys
chosen_d  its nodes that reported cells have
leaves_d  its finest keys, with the places of their nodes at every level of ``chosen_d``
reported  the reported cells, by the places of their nodes
leaves    every finest key, and its part: of the reported cells that hold the key, the place of the
          cell asked first, or 0, the rest, if there is none
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe.hierarchy import Hierarchy, Kind
from dpframe.sources.node_places import (
    ReportedNodes,
    chosen_nodes,
    leaves_among,
    node_places_ctes,
    reported_levels,
)
from dpframe.sources.record_leaves import finest_columns

Texts = tuple[str | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _DimensionNodes:
    """The nodes of one dimension that reported cells have. Public."""

    level: NDArray[np.int64]
    keys: tuple[pa.ChunkedArray, ...]


def leaf_places_ctes(
    hierarchy: Hierarchy, types: tuple[str, ...], nodes: ReportedNodes
) -> list[str]:
    """The CTEs up to ``leaves``, of one hierarchy or of cells. The leaves of cells have a part, and
    no nodes at levels."""
    if hierarchy.has_cells:
        return _segment_ctes(hierarchy, types, nodes)
    return node_places_ctes(hierarchy, types, nodes)


def _segment_ctes(cells: Hierarchy, types: tuple[str, ...], nodes: ReportedNodes) -> list[str]:
    kinds = [(0,) * len(cells.dimensions), *reversed(cells.kind_order)]
    depth = np.array([kinds[level] for level in nodes.level.tolist()], dtype=np.int64)
    parts, joins, places, start = list[str](), list[str](), list[list[int]](), 0
    for d, (one, own) in enumerate(
        zip(cells.dimensions, cells.by_dimension(types), strict=True), 1
    ):
        here = slice(start, start + one.key_width)
        line, place = _distinct_nodes(depth[:, d - 1], nodes.keys[here])
        places.append(place)
        names, keys = finest_columns(one), finest_columns(cells)[here]
        start += one.key_width
        if not len(line.level):
            continue
        shown = ", ".join(f"{key} AS {name}" for key, name in zip(keys, names, strict=True))
        parts += [
            f"keyed_{d} AS (SELECT DISTINCT {shown} FROM keyed)",
            f"chosen_{d} AS ({chosen_nodes(one, line)})",
            f"leaves_{d} AS ({leaves_among(one, own, line, f'keyed_{d}', f'chosen_{d}')})",
        ]
        pairs = zip(keys, names, strict=True)
        on = " AND ".join(f"keyed.{key} IS NOT DISTINCT FROM l{d}.{name}" for key, name in pairs)
        joins.append(f"JOIN leaves_{d} AS l{d} ON {on}")
    asked = list(reversed(reported_levels(nodes)))
    found = [f"r{level}" for level in asked]
    joins += [
        _cell_join(name, level, kinds[level]) for name, level in zip(found, asked, strict=True)
    ]
    part = ", ".join([*(f"{name}.place" for name in found), "0"])
    every = ", ".join(finest_columns(cells))
    chosen = ", ".join(f"keyed.{name} AS {name}" for name in finest_columns(cells))
    return [
        *parts,
        f"reported AS ({_cell_rows_sql(nodes, places)})",
        f"leaves AS (SELECT {chosen}, coalesce({part}) AS part "
        f"FROM (SELECT DISTINCT {every} FROM keyed) AS keyed {' '.join(joins)})",
    ]


def _distinct_nodes(
    depth: NDArray[np.int64], keys: Sequence[pa.ChunkedArray]
) -> tuple[_DimensionNodes, list[int]]:
    """The different nodes of a dimension, and for each cell the place of its node among them, -1
    where the dimension is rolled up."""
    texts = zip(*(key.cast(pa.string()).to_pylist() for key in keys), strict=True)
    numbers: dict[tuple[int, Texts], int] = {}
    place = [
        numbers.setdefault((level, text), len(numbers)) if level else -1
        for level, text in zip(depth.tolist(), texts, strict=True)
    ]
    levels = np.array([level for level, _ in numbers], dtype=np.int64)
    columns = zip(*(text for _, text in numbers), strict=True) if numbers else [[] for _ in keys]
    return (
        _DimensionNodes(
            level=levels,
            keys=tuple(pa.chunked_array([pa.array(list(c), pa.string())]) for c in columns),
        ),
        place,
    )


def _cell_join(name: str, level: int, kind: Kind) -> str:
    """The join with the reported cells of a kind, whose place it adds."""
    used = [(d, depth) for d, depth in enumerate(kind, 1) if depth]
    on = " AND ".join(f"{name}.p{d} = l{d}.n{depth}" for d, depth in used)
    chosen = ", ".join(["place", *(f"p{d}" for d, _ in used)])
    return f"LEFT JOIN (SELECT {chosen} FROM reported WHERE level = {level}) AS {name} ON {on}"


def _cell_rows_sql(nodes: ReportedNodes, places: Sequence[Sequence[int]]) -> str:
    rows = ", ".join(
        f"({', '.join(map(str, row))})"
        for row in zip(range(len(nodes.level)), nodes.level.tolist(), *places, strict=True)
    )
    names = ", ".join(f"p{d}" for d in range(1, len(places) + 1))
    return f"SELECT * FROM (VALUES {rows}) AS cells(place, level, {names})"
