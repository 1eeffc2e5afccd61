"""What users have in every part of a selection, each bounded as a whole; one statement.

A part is what a reported node covers and no reported node below it does. Parts are public, so that
a bound may depend on them, on the one user and on nothing else. The statement reads the view
``dpframe_source`` and returns ``part, v0, v1, ...``. Its CTEs, in order:

source   the columns that matter, renamed, with the user u and values in steps
keyed    the finest key of every row, k1, k2, ...
pairs    rows, sums and numbers of values of a user and key
chosen   the reported nodes: their level, key and part
leaves   the part of every finest key
users    the same as pairs, of a user and part
bounded  the same, bounded over all parts of a user
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe._duck import VIEW
from dpframe._sql import identifier, literal
from dpframe.budget import PrivacyUnit
from dpframe.hierarchy import Hierarchy
from dpframe.hierarchy.stream_keys import level_keys, packed
from dpframe.sources.rollup_statement import keyed, source_sql
from dpframe.steps import value_sql
from dpframe.vectors import GRID, Vector


class Reported(Protocol):
    """Reported nodes, of a selection or a list; the first one is the root."""

    @property
    def level(self) -> NDArray[np.int64]: ...

    @property
    def ancestor(self) -> NDArray[np.int64]: ...

    @property
    def keys(self) -> tuple[pa.ChunkedArray, ...]: ...


def parts_statement(
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    vectors: Sequence[Vector],
    nodes: Reported,
    *,
    types: tuple[str, ...],
    user_type: str,
) -> str:
    """The statement; ``types`` are the DuckDB types of ``hierarchy.source_columns``."""
    values = {
        f"x{i}": value_sql(identifier(v.column), v.bounds, clipped=v.kind != "sum")
        for i, v in enumerate(vectors)
        if v.column is not None
    }
    source, types = source_sql(
        hierarchy, unit, types=types, user_type=user_type, view=VIEW, beside=values
    )
    keys = ", ".join(f"k{i + 1}" for i in range(hierarchy.key_width))
    rows, more = "source", "".join(f", {x}" for x in values)
    summed = "".join(f", sum({x}) AS {x}, count({x}) AS n{x}" for x in values)
    again = "".join(f", sum({x}) AS {x}, sum(n{x}) AS n{x}" for x in values)
    select = "".join(f", {_bounded(i, v)} AS v{i}" for i, v in enumerate(vectors))
    total = "".join(f", sum(v{i}) AS v{i}" for i in range(len(vectors)))
    same = " AND ".join(
        f"pairs.k{i + 1} IS NOT DISTINCT FROM leaves.k{i + 1}" for i in range(hierarchy.key_width)
    )
    parts = [
        source,
        f"keyed AS ({keyed(hierarchy, types, rows, 'u' + more)})",
        f"pairs AS (SELECT u, {keys}, count(*) AS m{summed} FROM keyed GROUP BY u, {keys})",
        f"chosen(level, key, part) AS ({_chosen(hierarchy, types, nodes)})",
        f"leaves AS ({_leaves(hierarchy, types, nodes, keys)})",
        f"users AS (SELECT u, part, sum(m) AS m{again} FROM pairs JOIN leaves ON {same} "
        "GROUP BY u, part)",
        f"bounded AS (SELECT part{select} FROM users WINDOW w AS (PARTITION BY u))",
    ]
    return f"WITH {', '.join(parts)} SELECT part{total} FROM bounded GROUP BY part"


def _bounded(i: int, vector: Vector) -> str:
    """SQL of what one user adds to one part, HUGEINT; what they add to all is at most ``most``."""
    x = f"x{i}"
    if vector.kind == "users":
        return f"{GRID}::HUGEINT * m // sum(m) OVER w"
    if vector.kind == "rows":
        most = vector.most // GRID
        return f"{GRID}::HUGEINT * m * {most} // greatest(sum(m) OVER w, {most})"
    if vector.kind == "present":
        return f"coalesce({GRID}::HUGEINT * n{x} // nullif(sum(n{x}) OVER w, 0), 0)"
    if vector.kind == "centred":
        centred = f"{x} - {vector.bounds.middle}::HUGEINT * n{x}"
        return f"coalesce(({centred}) // nullif(sum(n{x}) OVER w, 0), 0)"
    return _total(x, vector)


def _total(x: str, vector: Vector) -> str:
    """The sum of a user: what is above 0 is scaled down to the upper bound, what is below to the
    lower one, and both together to the larger of the two; towards 0, in whole steps."""
    high, low = max(vector.bounds.high, 0), max(-vector.bounds.low, 0)
    value = f"coalesce({x}, 0)::HUGEINT"
    above, below = f"greatest({value}, 0)", f"greatest(-{value}, 0)"
    ups, downs = f"sum({above}) OVER w", f"sum({below}) OVER w"
    cut = (
        f"({above} * {high} // greatest({ups}, {high}, 1)"
        f" - {below} * {low} // greatest({downs}, {low}, 1))"
    )
    together = f"least({ups}, {high}) + least({downs}, {low})"
    return f"{cut} * {vector.most} // greatest({together}, {vector.most})"


def _chosen(hierarchy: Hierarchy, types: tuple[str, ...], nodes: Reported) -> str:
    """Reported nodes as rows."""
    wide: dict[int, int] = {}

    def width(level: int, columns: tuple[str, ...]) -> str:
        wide[level] = len(columns)
        return ""

    level_keys(hierarchy, tuple(f"k{i + 1}" for i in range(hierarchy.key_width)), width)
    texts = list(zip(*(key.cast(pa.string()).to_pylist() for key in nodes.keys), strict=True))
    rows = []
    for part, (level, text) in enumerate(zip(nodes.level.tolist(), texts, strict=True)):
        if level:
            own = tuple("NULL::VARCHAR" if t is None else literal(t) for t in text[: wide[level]])
            rows.append(f"({level}, {packed(own)}, {part})")
    return f"VALUES {', '.join(rows or ['(0, NULL, 0)'])}"


def _leaves(hierarchy: Hierarchy, types: tuple[str, ...], nodes: Reported, keys: str) -> str:
    """The part of every finest key: the reported node furthest down, the root if there is none."""
    finest = tuple(f"k{i + 1}" for i in range(hierarchy.key_width))

    def key(level: int, columns: tuple[str, ...]) -> str:
        return packed(hierarchy.texts(level, columns, types)[: len(columns)])

    steps, level_texts = level_keys(hierarchy, finest, key)
    query = f"(SELECT DISTINCT {keys} FROM pairs)"
    for step in steps:
        added = ", ".join(f"{sql} AS {name}" for name, sql in step.items())
        query = f"(SELECT *, {added} FROM {query})"
    levels = sorted({level for level in nodes.level.tolist() if level}, reverse=True)
    texts = "".join(f", {level_texts[level - 1]} AS s{level}" for level in levels)
    joins = " ".join(
        f"LEFT JOIN (SELECT key, part FROM chosen WHERE level = {level}) AS p{level} "
        f"ON (s{level} COLLATE C) = p{level}.key"
        for level in levels
    )
    found = ", ".join([*(f"p{level}.part" for level in levels), "0"])
    named = ", ".join(f"named.{key}" for key in finest)
    return (
        f"SELECT {named}, coalesce({found}) AS part FROM (SELECT {keys}{texts} FROM {query}) "
        f"AS named {joins}"
    )
