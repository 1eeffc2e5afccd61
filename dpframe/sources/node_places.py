"""SQL that finds where the finest keys of a source lie among reported nodes.

Reported nodes are public, and few; they come into the statement as rows. Two CTEs, over ``keyed``,
which has the finest keys k1, k2, ...:

chosen  the reported nodes: level, key and place
leaves  every finest key; its part, the reported node furthest down, or the root if there is none;
        and n1, n2, ..., its node at each reported level, NULL where that node is not reported
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe._sql import literal
from dpframe.hierarchy import Hierarchy
from dpframe.hierarchy.stream_keys import level_key_sql, pack_key
from dpframe.sources.record_leaves import finest_columns
from dpframe.sources.user_shares import same_key_sql


class PublicNodes(Protocol):
    """Public nodes; the first one is the root."""

    @property
    def level(self) -> NDArray[np.int64]: ...

    @property
    def keys(self) -> tuple[pa.ChunkedArray, ...]: ...


class ReportedNodes(PublicNodes, Protocol):
    """The reported nodes of a selection or a list."""

    @property
    def ancestor(self) -> NDArray[np.int64]: ...


def node_places_ctes(hierarchy: Hierarchy, types: tuple[str, ...], nodes: PublicNodes) -> list[str]:
    """The CTEs ``chosen`` and ``leaves``. ``types`` are the types of the columns as the statement
    reads them."""
    return [
        f"chosen AS ({chosen_nodes(hierarchy, nodes)})",
        f"leaves AS ({leaves_among(hierarchy, types, nodes)})",
    ]


def reported_levels(nodes: PublicNodes) -> list[int]:
    """The levels that have reported nodes, without the root's."""
    return sorted({level for level in nodes.level.tolist() if level})


def keyed_leaves_join(hierarchy: Hierarchy) -> str:
    """The join of ``keyed`` with the leaf of every row. Every row has a leaf. DuckDB overestimates
    the number of leaves; LEFT keeps it from building its hash table of all rows instead of them."""
    return f"keyed LEFT JOIN leaves ON {same_key_sql(finest_columns(hierarchy), 'keyed', 'leaves')}"


def chosen_nodes(hierarchy: Hierarchy, nodes: PublicNodes) -> str:
    """The query of ``chosen``. It has one SELECT of plain rows per level: thousands of expressions
    would take seconds to bind."""
    wide: dict[int, int] = {}

    def width(level: int, columns: tuple[str, ...]) -> str:
        wide[level] = len(columns)
        return ""

    level_key_sql(hierarchy, finest_columns(hierarchy), width)
    texts = list(zip(*(key.cast(pa.string()).to_pylist() for key in nodes.keys), strict=True))
    selects = []
    for level in reported_levels(nodes):
        names = tuple(f"t{i + 1}" for i in range(wide[level]))
        rows = ", ".join(
            f"({', '.join('NULL' if t is None else literal(t) for t in texts[place][: len(names)])}"
            f", {place})"
            for place in np.flatnonzero(nodes.level == level).tolist()
        )
        typed = tuple(f"CAST({name} AS VARCHAR)" for name in names)
        selects.append(
            f"SELECT {level} AS level, {pack_key(typed)} AS key, place FROM (VALUES {rows}) "
            f"AS rows({', '.join(names)}, place)"
        )
    return " UNION ALL ".join(selects or ["SELECT 0 AS level, NULL::VARCHAR AS key, 0 AS place"])


def leaves_among(
    hierarchy: Hierarchy,
    types: tuple[str, ...],
    nodes: PublicNodes,
    keyed: str = "keyed",
    chosen: str = "chosen",
) -> str:
    """The query of ``leaves``, from tables with the names ``keyed`` and ``chosen``."""
    names = finest_columns(hierarchy)

    def key(level: int, columns: tuple[str, ...]) -> str:
        return pack_key(hierarchy.texts(level, columns, types)[: len(columns)])

    steps, texts = level_key_sql(hierarchy, names, key)
    query = f"(SELECT DISTINCT {', '.join(names)} FROM {keyed})"
    for step in steps:
        added = ", ".join(f"{sql} AS {name}" for name, sql in step.items())
        query = f"(SELECT *, {added} FROM {query})"
    levels = reported_levels(nodes)
    named = "".join(f", {texts[level - 1]} AS s{level}" for level in levels)
    joins = " ".join(
        f"LEFT JOIN (SELECT key, place FROM {chosen} WHERE level = {level}) AS p{level} "
        f"ON (s{level} COLLATE C) = p{level}.key"
        for level in levels
    )
    part = ", ".join([*(f"p{level}.place" for level in reversed(levels)), "0"])
    at = "".join(f", p{level}.place AS n{level}" for level in levels)
    keys = ", ".join(f"named.{name} AS {name}" for name in names)
    return (
        f"SELECT {keys}, coalesce({part}) AS part{at} "
        f"FROM (SELECT {', '.join(names)}{named} FROM {query}) AS named {joins}"
    )
