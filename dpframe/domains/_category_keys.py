"""Build a tree of categories from listed keys. The caller lists them: they are public, and errors
quote them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dpframe.domains._axis import Counts, Mask
from dpframe.domains._read_values import distinct_values, level_texts, single_array
from dpframe.errors import ParameterError, ParameterTypeError
from dpframe.hierarchy import Hierarchy, columns
from dpframe.tree import ListedNodes


@dataclass(frozen=True, eq=False)
class Categories:
    """Nodes, parents before their children; node 0 is the root.

    ``text`` is a node's key at its level. ``itself`` marks nodes that have children and are values
    too. ``other`` says whether there can be values that are not listed.
    """

    level: Counts
    parent: Counts
    text: tuple[str, ...]
    itself: Mask
    other: bool
    name: str


def categories(keys: object, hierarchy: Hierarchy) -> Categories:
    """Return the tree of ``ListedNodes``, a list of values (tuples for several columns) or an Arrow
    table.

    In ``ListedNodes``, only nodes without children are values; a list can also name nodes above.
    """
    if isinstance(keys, ListedNodes):
        return _from_nodes(keys, hierarchy)
    table = _listed_key_table(keys, hierarchy)
    texts = _key_texts(table, hierarchy)
    level, parent, text, itself = [0], [-1], [""], [False]
    known: dict[tuple[int, str], int] = {}
    own: set[int] = set()
    for row, parts in enumerate(zip(*texts, strict=True)):
        if parts[0] is None or (len(table.columns) > 1 and None in parts):
            raise ParameterError(
                f"keys has {_key_value(table, row)!r}, which is malformed, empty or missing for "
                f"{hierarchy.spec}: list values as the data have them."
            )
        node = 0
        for depth, part in enumerate(parts, 1):
            if part is None:
                break
            here = known.setdefault((node, part), len(level))
            if here == len(level):
                level.append(depth)
                parent.append(node)
                text.append(part)
                itself.append(False)
            node = here
        if node in own:
            raise ParameterError(
                f"keys has {_key_value(table, row)!r} twice, maybe in two spellings: list each "
                "key once."
            )
        own.add(node)
    inner = set(parent)
    for node in own & inner:
        itself[node] = True
    other = set(text[1:]) != {"true", "false"}  # a boolean has no other values
    return _make_categories(level, parent, text, itself, other)


def _from_nodes(nodes: ListedNodes, hierarchy: Hierarchy) -> Categories:
    several = hierarchy.kind == "columns"
    if len(nodes.keys) != hierarchy.key_width:
        raise ParameterError(f"keys was listed for another hierarchy than {hierarchy.spec}.")
    keys = [key.to_pylist() for key in nodes.keys]
    level = nodes.level.tolist()
    text = [keys[n - 1 if several else 0][i] if n else "" for i, n in enumerate(level)]
    if max(level) > hierarchy.height or None in text:
        raise ParameterError(f"keys was listed for another hierarchy than {hierarchy.spec}.")
    other = bool(nodes.rest[0]) and set(text[1:]) != {"true", "false"}
    return _make_categories(level, nodes.parent.tolist(), text, [False] * len(level), other)


def _listed_key_table(keys: object, hierarchy: Hierarchy) -> pa.Table:
    names = hierarchy.source_columns
    if isinstance(keys, pa.Table):
        missing = [name for name in names if name not in keys.column_names]
        if missing:
            raise ParameterError(f"keys lacks column {missing[0]!r} of {hierarchy.spec}.")
        table = keys.select(list(names))
    elif isinstance(keys, Sequence) and not isinstance(keys, str | bytes):
        several = len(names) > 1
        rows = [key if several else (key,) for key in keys]
        for key in rows:
            if not isinstance(key, tuple | list) or len(key) != len(names):
                raise ParameterError(
                    f"keys has {key!r}: a key must be a tuple of {len(names)} values, for columns "
                    f"{', '.join(map(repr, names))}."
                )
        values = zip(names, zip(*rows, strict=True), strict=True) if rows else ()
        table = pa.table({name: _object_array(column) for name, column in values})
    else:
        raise ParameterTypeError(
            "keys must be a list of values, or a dict from column to list; got "
            f"{type(keys).__name__}."
        )
    if not len(table):
        raise ParameterError(f"keys is empty: list the values of {', '.join(names)}.")
    return table


def _object_array(values: Sequence[object]) -> pa.Array:
    """Return Python objects as an array, as text if they have no common type."""
    try:
        return pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return pa.array([None if v is None else str(v) for v in values], type=pa.string())


def _key_texts(table: pa.Table, hierarchy: Hierarchy) -> list[list[str | None]]:
    """Return the texts of all keys at each level, one list a level."""
    found: list[list[str | None]] = []
    for name in table.column_names:
        one = columns(name) if hierarchy.kind == "columns" else hierarchy
        values, place = distinct_values(single_array(table[name]))
        found += [texts.take(pa.array(place)).to_pylist() for texts in level_texts(values, one)]
    return found


def _key_value(table: pa.Table, row: int) -> object:
    parts = tuple(column[row].as_py() for column in table.columns)
    return parts if len(parts) > 1 else parts[0]


def _make_categories(
    level: list[int], parent: list[int], text: list[str], itself: list[bool], other: bool
) -> Categories:
    """Return the categories, named by a hash of the nodes in their order. The hash reads the length
    of every text before the text."""
    digest = hashlib.sha256(f"{len(level)} nodes, other {other};".encode())
    for up, own, key in zip(parent, itself, text, strict=True):
        raw = key.encode("utf-8", "surrogatepass")
        digest.update(f"{up} {own:d} {len(raw)}:".encode() + raw)
    return Categories(
        level=np.array(level, dtype=np.int64),
        parent=np.array(parent, dtype=np.int64),
        text=tuple(text),
        itself=np.array(itself, dtype=np.bool_),
        other=other,
        name=digest.hexdigest(),
    )
