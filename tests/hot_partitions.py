"""PrivHP as printed, with dictionaries and whole numbers: the slow twin of the shipped one.

``Rule`` names the mistakes that it can be asked to make.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray

from dpframe.mechanisms.privhp_partition import Partition
from dpframe.sketches.hot_partition import Shape

Node = tuple[int, int]
"""(level, code)."""
Cell = tuple[int, int, int]
"""(level, row, cell)."""
Grown = tuple[tuple[int, int, float, bool], ...]
"""(level, code, count, leaf) of every node, sorted."""

MASK = 2**64 - 1


@dataclass(frozen=True)
class Rule:
    """How a broken twin differs; by default it does not."""

    peeks: bool = False  # hot nodes by true counts


AS_PRINTED = Rule()


def codes_of(values: Iterable[int]) -> NDArray[np.uint64]:
    return np.array(list(values), np.uint64)


def mix(x: int) -> int:
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


def key(shape: Shape, level: int, row: int, which: int) -> int:
    """``which``: 0 for cells, 1 for signs."""
    place = (level * shape.rows + row) * 2 + which
    return mix(mix(shape.seed) + (place + 1) * 0x9E3779B97F4A7C15 & MASK)


def cell(shape: Shape, level: int, row: int, code: int) -> int:
    return (mix(code ^ key(shape, level, row, 0)) >> 32) * shape.width >> 32


def sign(shape: Shape, level: int, row: int, code: int) -> int:
    if shape.rows == 1:
        return 1
    return -1 if mix(code ^ key(shape, level, row, 1)) >> 63 else 1


def empty(shape: Shape) -> tuple[dict[Node, int], dict[Cell, int]]:
    """All counters, in the order in which noise is drawn."""
    exact = {(level, c): 0 for level in range(shape.exact + 1) for c in range(2**level)}
    below = range(shape.exact + 1, shape.depth + 1)
    cells = {
        (level, i, c): 0 for level in below for i in range(shape.rows) for c in range(shape.width)
    }
    return exact, cells


def counted(codes: Iterable[int], shape: Shape) -> tuple[dict[Node, int], dict[Cell, int]]:
    """Algorithm 2, lines 12 to 18, without noise."""
    exact, cells = empty(shape)
    for code in codes:
        for level in range(shape.depth + 1):
            prefix = int(code) >> shape.depth - level
            if level <= shape.exact:
                exact[level, prefix] += 1
            else:
                for i in range(shape.rows):
                    at = cell(shape, level, i, prefix)
                    cells[level, i, at] += sign(shape, level, i, prefix)
    return exact, cells


def query(cells: dict[Cell, int], shape: Shape, level: int, code: int) -> int:
    """Algorithm 1."""
    rows = range(shape.rows)
    return median(
        sign(shape, level, i, code) * cells[level, i, cell(shape, level, i, code)] for i in rows
    )


def enforce(tree: dict[Node, float], level: int, code: int) -> None:
    """Algorithm 4."""
    v, v0, v1 = (level, code), (level + 1, 2 * code), (level + 1, 2 * code + 1)
    for child in (v0, v1):
        if tree[child] < 0:
            tree[child] = 0.0
    surplus = tree[v0] + tree[v1] - tree[v]
    if tree[v0] - surplus / 2 < 0:
        tree[v0], tree[v1] = 0.0, tree[v]
    elif tree[v1] - surplus / 2 < 0:
        tree[v1], tree[v0] = 0.0, tree[v]
    else:
        tree[v0] -= surplus / 2
        tree[v1] -= surplus / 2


def grow(
    exact: dict[Node, int],
    cells: dict[Cell, int],
    shape: Shape,
    *,
    rule: Rule = AS_PRINTED,
    true: Callable[[Node], int] = lambda node: 0,
) -> Grown:
    """Algorithm 3. ``true`` tells what a sound one never asks."""
    tree: dict[Node, float] = {node: float(n) for node, n in exact.items()}
    tree[0, 0] = max(tree[0, 0], 0.0)
    inner = set()
    for level, code in sorted(exact):
        if level < shape.exact:
            enforce(tree, level, code)
            inner.add((level, code))
    hot = list(range(2**shape.exact))
    for level in range(shape.exact, shape.depth):
        for code in hot:
            for child in (2 * code, 2 * code + 1):
                tree[level + 1, child] = float(query(cells, shape, level + 1, child))
            enforce(tree, level, code)
            inner.add((level, code))
        candidates = [code for at, code in tree if at == level + 1]
        size = true if rule.peeks else tree.__getitem__
        hot = sorted(candidates, key=lambda code: (-size((level + 1, code)), code))[: shape.hot]
    return tuple((*node, n, node not in inner) for node, n in sorted(tree.items()))


def noisy(
    counters: dict[Node, int], cells: dict[Cell, int], noise: Sequence[int]
) -> tuple[dict[Node, int], dict[Cell, int]]:
    """Counters with noise, in the order of :func:`empty`."""
    n = len(counters)
    return (
        {node: c + int(z) for (node, c), z in zip(counters.items(), noise[:n], strict=True)},
        {at: c + int(z) for (at, c), z in zip(cells.items(), noise[n:], strict=True)},
    )


def content(partition: Partition) -> Grown:
    columns = (partition.level, partition.code, partition.count, partition.leaf)
    return tuple(zip(*(column.tolist() for column in columns), strict=True))
