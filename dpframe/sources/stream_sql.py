"""Records as a stream: one row a record, in the source's order, one key a level.

Pure text, beside ``rollup_sql``: the same keys, without grouping. The statement reads the view
once and returns ``l1, l2, ...``: the node of the record at each level as text, NULL where the
record does not reach. Equal nodes have equal texts, and ``texts_of`` takes a text apart again.
"""

from __future__ import annotations

import json

from dpframe._duck import VIEW
from dpframe.hierarchy import Hierarchy
from dpframe.sources.rollup_sql import exact

INVALID_KEY = "!"
"""Stands for a NULL key; every other key starts with VALUE."""

VALUE = "="


def stream_sql(hierarchy: Hierarchy, *, types: tuple[str, ...], view: str = VIEW) -> str:
    """The statement; ``types`` are the DuckDB types of ``hierarchy.source_columns``."""
    named = zip(hierarchy.source_columns, types, strict=True)
    chosen = ", ".join(f"{exact(column, t)} AS c{i}" for i, (column, t) in enumerate(named))
    query = f"(SELECT {chosen} FROM {view})"
    columns = tuple(f"c{i}" for i in range(len(hierarchy.source_columns)))
    for step in hierarchy.key_steps(columns, types):
        query = _with(query, step)
    finest = tuple(f"k{i + 1}" for i in range(hierarchy.key_width))
    where = ""
    if hierarchy.on_invalid == "drop":
        where = " WHERE " + " AND ".join(f"{key} IS NOT NULL" for key in finest)
    depth = hierarchy.depth(finest)
    if depth is not None:
        query = _with(query, {"d": depth})
    keys, shown = finest, {hierarchy.height: finest}
    for level in range(hierarchy.height - 1, 0, -1):
        above = hierarchy.coarser(level, keys)
        names = tuple(f"l{level}_{i + 1}" for i in range(len(above)))
        query = _with(query, dict(zip(names, above, strict=True)))
        keys = shown[level] = names
    selects = []
    for level in range(1, hierarchy.height + 1):
        texts = hierarchy.texts(level, shown[level], types)
        key = _packed(texts[: len(shown[level])])
        if depth is not None:
            key = f"CASE WHEN d >= {level} THEN {key} END"
        selects.append(f"{key} AS l{level}")
    return f"SELECT {', '.join(selects)} FROM {query}{where}"


def texts_of(key: str, width: int) -> tuple[str | None, ...]:
    """The texts that ``Hierarchy.label`` takes, from a key of the stream."""
    if not key.startswith("["):
        texts: list[str | None] = [None if key == INVALID_KEY else key.removeprefix(VALUE)]
    else:
        texts = json.loads(key)
    return (*texts, *[None] * (width - len(texts)))


def _with(query: str, columns: dict[str, str]) -> str:
    added = ", ".join(f"{sql} AS {name}" for name, sql in columns.items())
    return f"(SELECT *, {added} FROM {query})"


def _packed(texts: tuple[str, ...]) -> str:
    if len(texts) == 1:
        return f"coalesce('{VALUE}' || {texts[0]}, '{INVALID_KEY}')"
    listed = ", ".join(f"CAST({text} AS VARCHAR)" for text in texts)
    return f"CAST(to_json(list_value({listed})) AS VARCHAR)"
