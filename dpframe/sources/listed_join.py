"""Leave nodes that are not listed out of a statement's result, to save their transport."""

from __future__ import annotations

from dpframe._sql import literal
from dpframe.hierarchy import Hierarchy
from dpframe.tree import ListedNodes

SHORT = 2_000
"""The most listed nodes that a statement spells out."""


def listed_join(hierarchy: Hierarchy, only: ListedNodes | None) -> str:
    """A join that keeps only listed nodes; empty text without a list, or for a long list."""
    if only is None or len(only.level) > SHORT:
        return ""
    columns = [column.to_pylist() for column in only.keys]
    rows = ", ".join(
        f"({level}, {', '.join('NULL' if text is None else literal(text) for text in texts)})"
        for level, texts in zip(only.level.tolist(), zip(*columns, strict=True), strict=True)
    )
    names = [f"v{i}" for i in range(hierarchy.key_width + 1)]
    same = " AND ".join(
        f"(CAST(t{i} AS VARCHAR) COLLATE C) IS NOT DISTINCT FROM v{i}::VARCHAR"
        for i in range(1, hierarchy.key_width + 1)
    )
    return f"SEMI JOIN (VALUES {rows}) AS listed({', '.join(names)}) ON level = v0 AND {same} "
