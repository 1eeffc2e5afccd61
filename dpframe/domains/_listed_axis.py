"""Categories: listed nodes of any hierarchy. The children of each node are numbered in bits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from dpframe import _compute as pc
from dpframe.domains._axis import (
    Arrays,
    Axis,
    Codes,
    Counts,
    Mask,
    Types,
    decoded_type,
    is_text_type,
    unreadable_column,
)
from dpframe.domains._category_keys import Categories
from dpframe.domains._category_values import check_listed_values, typed_values
from dpframe.domains._read_values import distinct_values, level_texts, single_array
from dpframe.hierarchy import OTHER, Hierarchy, columns
from dpframe.noise import PublicRandom

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
