"""The nodes of a row in SQL, and one text for each node, as sketches hold it.

``level_key_sql`` goes from the finest node of a row to the nodes above. ``pack_key`` makes one text
of the texts of a node, equal for equal nodes; ``unpack_key`` takes this text apart again.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from dpframe.hierarchy._base import Hierarchy

INVALID_KEY = "!"
"""Stands for a NULL key. Other keys of one text start with VALUE; keys of more texts are JSON."""

VALUE = "="


def pack_key(texts: tuple[str, ...]) -> str:
    """Return the SQL of a node's key from the SQL of the texts of its levels, coarse to fine."""
    if len(texts) == 1:
        return f"coalesce('{VALUE}' || {texts[0]}, '{INVALID_KEY}')"
    listed = ", ".join(f"CAST({text} AS VARCHAR)" for text in texts)
    return f"CAST(to_json(list_value({listed})) AS VARCHAR)"


def level_key_sql(
    hierarchy: Hierarchy, finest: tuple[str, ...], key: Callable[[int, tuple[str, ...]], str]
) -> tuple[list[dict[str, str]], list[str]]:
    """Return the SQL of the nodes of a row from the columns of its finest key.

    The first result are columns to add, name to SQL, one step after the other. The second is the
    SQL that ``key`` returns for each level and the key columns there, coarse to fine; NULL at
    levels that a row does not have.
    """
    depth = hierarchy.depth(finest)
    steps = [] if depth is None else [{"d": depth}]
    columns = {hierarchy.height: finest}
    for level in range(hierarchy.height - 1, 0, -1):
        coarser = hierarchy.coarser(level, columns[level + 1])
        columns[level] = tuple(f"l{level}_{i + 1}" for i in range(len(coarser)))
        steps.append(dict(zip(columns[level], coarser, strict=True)))
    keys = [key(level, columns[level]) for level in range(1, hierarchy.height + 1)]
    if depth is not None:
        keys = [f"CASE WHEN d >= {level} THEN {sql} END" for level, sql in enumerate(keys, 1)]
    return steps, keys


def unpack_key(key: str, width: int) -> tuple[str | None, ...]:
    """Return the texts that ``Hierarchy.label`` takes, ``width`` of them, from a packed key."""
    if not key.startswith("["):
        texts: list[str | None] = [None if key == INVALID_KEY else key.removeprefix(VALUE)]
    else:
        texts = json.loads(key)
    return (*texts, *[None] * (width - len(texts)))
