"""One text for a node of a level, as sketches hold it: equal nodes have equal texts.

``packed`` writes it in SQL from the texts of the node, ``texts_of`` takes it apart again.
"""

from __future__ import annotations

import json

INVALID_KEY = "!"
"""Stands for a NULL key; every other key starts with VALUE."""

VALUE = "="


def packed(texts: tuple[str, ...]) -> str:
    """SQL of the key from the SQL of the texts of a node down to its level."""
    if len(texts) == 1:
        return f"coalesce('{VALUE}' || {texts[0]}, '{INVALID_KEY}')"
    listed = ", ".join(f"CAST({text} AS VARCHAR)" for text in texts)
    return f"CAST(to_json(list_value({listed})) AS VARCHAR)"


def texts_of(key: str, width: int) -> tuple[str | None, ...]:
    """The texts that ``Hierarchy.label`` takes, from a key of the stream."""
    if not key.startswith("["):
        texts: list[str | None] = [None if key == INVALID_KEY else key.removeprefix(VALUE)]
    else:
        texts = json.loads(key)
    return (*texts, *[None] * (width - len(texts)))
