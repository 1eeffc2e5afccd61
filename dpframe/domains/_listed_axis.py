"""Categories: listed nodes of any hierarchy. The children of each node are numbered in bits.

The caller lists the keys: they are public, and errors quote them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpframe.counts import ListedNodes
from dpframe.domains._axis import (
    Arrays,
    Axis,
    Codes,
    Counts,
    Mask,
    Types,
    decoded_type,
    distinct_values,
    is_text_type,
    level_texts,
    query_values,
    single_array,
    unreadable_column,
)
from dpframe.errors import ColumnError, ParameterError, ParameterTypeError
from dpframe.hierarchy import OTHER, Hierarchy, columns
from dpframe.hierarchy._base import has_zone
from dpframe.noise import PublicRandom


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


# -- Convert texts of categories to values of a column's type -------------------------------------


SAME_TEXT = ("VARCHAR", "ENUM", '"NULL"', "BLOB", "PANDAS")


def typed_values(texts: Sequence[str], kind: pa.DataType, is_text: bool) -> pa.Array:
    """Return texts as an array of a type; NULL for ``<other>`` and for values that the type cannot
    hold."""
    if is_text:
        return pa.array(texts, type=kind)
    whole_texts = [
        None if text == OTHER else text[:10] if pa.types.is_date(kind) else text for text in texts
    ]
    try:
        return _cast(whole_texts, kind)
    except pa.ArrowException:
        return pa.concat_arrays([_cast_one(text, kind) for text in whole_texts])


def _cast_one(text: str | None, kind: pa.DataType) -> pa.Array:
    try:
        return _cast([text], kind)
    except pa.ArrowException:
        return pa.nulls(1, kind)


def _cast(texts: list[str | None], kind: pa.DataType) -> pa.Array:
    array = pa.array(texts, type=pa.string())
    if pa.types.is_timestamp(kind):  # as times without a zone first, because texts are in UTC
        array = array.cast(pa.timestamp(kind.unit))
    return array.cast(kind)


def check_listed_values(column: str, texts: list[str], kind: str) -> None:
    """Raise ColumnError if a listed text is no value of a column of this DuckDB type."""
    if kind.split("(")[0] in SAME_TEXT or kind.endswith("]"):
        return
    plain = "TIMESTAMP" if has_zone(kind) else kind
    listed = pa.array(texts, type=pa.string())
    one = columns("value")
    ((_, value),) = one.key_steps(("value",), (plain,))[0].items()
    steps = ({"value": f"TRY_CAST(c0 AS {plain})"}, {"k1": value})
    (text,) = one.texts(1, ("k1",), (plain,))
    found = query_values(listed, steps, f"CAST({text} AS VARCHAR) AS x", "the keys")
    for key, read in zip(texts, single_array(found["x"]).to_pylist(), strict=True):
        if key != read:
            as_written = f": write it as {read!r}" if read is not None else ""
            raise ColumnError(
                f"keys has {key!r}, which is no value of column {column!r} of type "
                f"{kind.split('(')[0]}{as_written}."
            )


# -------------------------------------------------------------------------------------------------
# Categories: listed nodes of any hierarchy. The children of each node are numbered in bits.


MAX_BITS = 60
"""Most bits of a path; categories that differ only in later bits share a path."""

NOT_LISTED = ("STRUCT", "MAP", "UNION", "INTERVAL", "BIGNUM", "VARIANT")
"""DuckDB's types, without parameters, whose values cannot be categories. Neither can lists."""

READABLE = "text, numbers, booleans, dates and times"

SHOWN = 3
"""Most categories that a label names."""


@dataclass(frozen=True, eq=False)
class ListedAxis(Axis):
    """Listed values under their nodes. A value below a listed value counts as the listed value.

    All values that are not listed are one more value, ``<other>``: the last child of the root. It
    is drawn as this text, and as NULL in columns of other types. Booleans have no such child. If a
    value is missing or malformed in one column, the whole row is.
    """

    hierarchy: Hierarchy
    categories: Categories

    @property
    def columns(self) -> tuple[str, ...]:
        return self.hierarchy.source_columns

    @property
    def bits(self) -> int:
        return min(MAX_BITS, sum(self._level_bits))

    @property
    def spec(self) -> str:
        spec = self.hierarchy.spec
        return f"{spec}{'&' if '?' in spec else '?'}keys={self.categories.name[:16]}"

    @cached_property
    def _numbers(self) -> tuple[Counts, Counts]:
        """For every node, its number among its siblings and how many children it has."""
        number = np.zeros(len(self.categories.level), dtype=np.int64)
        count = self.categories.itself.astype(np.int64)  # the node itself comes first
        for node, parent in enumerate(self.categories.parent.tolist()):
            if parent >= 0:
                number[node] = count[parent]
                count[parent] += 1
        count[0] += self.categories.other
        return number, count

    @cached_property
    def _level_bits(self) -> tuple[int, ...]:
        _, count = self._numbers
        level = self.categories.level
        height = int(level.max())
        return tuple(int(max(count[level == n].max() - 1, 0)).bit_length() for n in range(height))

    @cached_property
    def _leaves(self) -> tuple[Codes, Counts, Counts]:
        """The path and the node (-1: ``<other>``) of every value, in the order of paths; and for
        every node the place of its value, -1 if it is no value."""
        number, count = self._numbers
        code = [0] * len(number)
        for node, parent in enumerate(self.categories.parent.tolist()):
            if parent >= 0:
                bits = self._level_bits[int(self.categories.level[node]) - 1]
                code[node] = code[parent] << bits | int(number[node])
        total = sum(self._level_bits)
        below = [total - sum(self._level_bits[:n]) for n in range(len(self._level_bits) + 1)]
        found: list[tuple[int, int]] = []
        for node, n in enumerate(self.categories.level.tolist()):
            if node and (count[node] == 0 or self.categories.itself[node]):
                found.append((code[node] << below[n], node))
        if self.categories.other:
            found.append((int(count[0] - 1) << below[1], -1))
        found.sort()
        paths = np.array([path >> (total - self.bits) for path, _ in found], dtype=np.uint64)
        nodes = np.array([node for _, node in found], dtype=np.int64)
        place = np.full(len(number), -1, dtype=np.int64)
        place[nodes[nodes >= 0]] = np.flatnonzero(nodes >= 0)
        return paths, nodes, place

    @cached_property
    def _lookups(self) -> list[tuple[pa.Array, Counts, Counts]]:
        """For each level, its texts, and the sorted pairs of parent and text with their nodes."""
        out = []
        for n in range(1, int(self.categories.level.max()) + 1):
            nodes = np.flatnonzero(self.categories.level == n)
            texts = pa.array([self.categories.text[i] for i in nodes], type=pa.large_string())
            vocabulary, number = distinct_values(texts)
            pairs = self.categories.parent[nodes] * len(vocabulary) + number
            order = np.argsort(pairs)
            out.append((vocabulary, pairs[order], nodes[order]))
        return out

    @cached_property
    def _texts(self) -> list[list[str]]:
        """The texts of all values in order, one list for each source column."""
        _, nodes, _ = self._leaves
        lists, here = [], nodes
        for _ in self.columns:
            lists.append([OTHER if i < 0 else self._value(i) for i in here.tolist()])
            here = np.where(here < 0, -1, self.categories.parent[here])
        return lists[::-1]

    def _value(self, node: int) -> str:
        """Return the text of a node as a value of the column; a year or month is its first day."""
        text = self.categories.text[node]
        if self.hierarchy.kind == "date":
            text += {4: "-01-01", 7: "-01"}.get(len(text), "")
        return text

    def check_types(self, types: tuple[str, ...]) -> None:
        for column, kind in zip(self.columns, types, strict=True):
            if kind.endswith("]") or kind.split("(")[0] in NOT_LISTED:
                raise unreadable_column("a list of keys", column, kind, READABLE)
        self.hierarchy.check_types(types)
        if self.hierarchy.kind == "columns":
            listed = [[t for t in texts if t != OTHER] for texts in self._texts]
            for column, texts, kind in zip(self.columns, listed, types, strict=True):
                check_listed_values(column, list(dict.fromkeys(texts)), kind)

    def read(self, columns: Arrays, bits: int) -> tuple[Codes, Mask | None]:
        ids, valid, place = self._ids(columns)
        paths, nodes, of_node = self._leaves
        other = int(np.flatnonzero(nodes < 0)[0]) if self.categories.other else -1
        node = np.zeros(len(valid), dtype=np.int64)
        value = np.full(len(valid), other, dtype=np.int64)
        going = np.ones(len(valid), dtype=np.bool_)
        _, count = self._numbers
        for (texts, pairs, children), (text, ended) in zip(self._lookups, ids, strict=True):
            pair = node * len(texts) + text
            at = np.minimum(np.searchsorted(pairs, pair), len(pairs) - 1)
            found = (text >= 0) & (pairs[at] == pair) & going
            itself = ended & going & self.categories.itself[node]
            value[itself] = of_node[node[itself]]
            node = np.where(found, children[at], node)
            leaf = found & (count[node] == 0)
            value[leaf] = of_node[node[leaf]]
            going = found & ~leaf
        itself = going & self.categories.itself[node]  # values that end at the last level
        value[itself] = of_node[node[itself]]
        valid &= value >= 0
        codes = paths[value] >> np.uint64(self.bits - bits)
        if place is not None:
            codes, valid = codes[place], valid[place]
        return codes, valid

    def _ids(
        self, arrays: tuple[pa.Array, ...]
    ) -> tuple[list[tuple[Counts, Mask]], Mask, Counts | None]:
        """Return for each level the number of each row's text (-1 if it is not listed) and which
        rows end there; then which rows are valid. For a single column all this is of its different
        values, and the third result is the place of each row among them."""
        several = self.hierarchy.kind == "columns" and len(arrays) > 1
        ids: list[tuple[Counts, Mask]] = []
        valid: Mask | None = None
        place: Counts | None = None
        for name, array in zip(self.columns, arrays, strict=True):
            values, place = distinct_values(single_array(array))
            one = columns(name) if self.hierarchy.kind == "columns" else self.hierarchy
            levels = level_texts(values, one)
            here = levels[0].is_valid().to_numpy(zero_copy_only=False)
            here = here[place] if several else here.copy()
            valid = here if valid is None else valid & here
            for texts in levels[: len(self._lookups) - len(ids)]:
                number = pc.index_in(texts, self._lookups[len(ids)][0]).fill_null(-1)
                text = number.to_numpy(zero_copy_only=False).astype(np.int64)
                ended = texts.is_null().to_numpy(zero_copy_only=False)
                text[ended] = -1  # NULL is no text of the list
                ids.append((text[place], ended[place]) if several else (text, ended))
        assert valid is not None
        return ids, valid, None if several else place

    def draw(self, fixed: Counts, prefix: Codes, generator: PublicRandom, types: Types) -> Arrays:
        first, last = self._places_below(fixed, prefix)
        count = np.maximum(last - first, 1)
        at = first + np.minimum(np.floor(generator.random(len(first)) * count), count - 1)
        rows = pa.array(at.astype(np.int64))
        kinds = [
            pa.string() if pa.types.is_null(decoded_type(k)) else decoded_type(k) for k in types
        ]
        return tuple(
            typed_values(texts, kind, is_text_type(kind)).take(rows)
            for texts, kind in zip(self._texts, kinds, strict=True)
        )

    def _places_below(self, fixed: Counts, prefix: Codes) -> tuple[Counts, Counts]:
        """Return from which place and up to which place the values of each cell lie. For an empty
        cell, in which no value can lie, it is the value that shares most bits with it."""
        paths, _, _ = self._leaves
        free = (self.bits - fixed).astype(np.uint64)
        start = prefix << free
        first = np.searchsorted(paths, start, side="left")
        last = np.searchsorted(paths, start | ((np.uint64(1) << free) - np.uint64(1)), "right")
        empty = first == last
        left, right = np.maximum(first - 1, 0), np.minimum(first, len(paths) - 1)
        nearest = np.where((paths[left] ^ start) <= (paths[right] ^ start), left, right)
        return np.where(empty, nearest, first), np.where(empty, nearest + 1, last)

    def label(self, fixed: int, prefix: int) -> str:
        name = ",".join(self.columns)
        if fixed == 0:
            return f"{name} *"
        first, last = self._places_below(np.array([fixed]), np.array([prefix], dtype=np.uint64))
        shown = range(int(first[0]), min(int(last[0]), int(first[0]) + SHOWN))
        # a value of several columns is shown with the texts of all columns
        values = [">".join(texts[i] for texts in self._texts) for i in shown]
        if self._texts[0][shown[-1]] == OTHER:
            values[-1] = OTHER
        more = int(last[0] - first[0]) - len(values)
        return f"{name} {', '.join(values)}" + (f", ... ({more} more)" if more else "")

    def diameter(self, fixed: int) -> float:
        """Return 2**-n if n levels are equal; 0 if all levels are."""
        if fixed >= sum(self._level_bits):
            return 0.0
        levels = [sum(self._level_bits[: n + 1]) for n in range(len(self._level_bits))]
        return 2.0 ** -sum(bits <= fixed for bits in levels)
