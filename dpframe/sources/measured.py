"""From whatever holds the rows to what a rollup measures on the parts of a selection. Private."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpframe._sql import identifier
from dpframe.budget import PrivacyUnit
from dpframe.hierarchy import Hierarchy
from dpframe.hierarchy._types import REAL, WHOLE, Advice, outer, refused
from dpframe.sources.counting import exact_counts
from dpframe.sources.keys import check_key_types
from dpframe.sources.parts import Reported, parts_statement
from dpframe.sources.relations import canonical, only_text, opened
from dpframe.steps import value_sql
from dpframe.tree import CountTree, ListedNodes, whole_numbers
from dpframe.vectors import Vector

NUMBERS = (*WHOLE, *REAL, "DECIMAL", "BOOLEAN", '"NULL"')
"""DuckDB's types, without parameters, whose values are added up."""

ADVICE: dict[tuple[str, ...], Advice] = {
    ("VARCHAR", "ENUM"): lambda df, sql: (
        f"Make numbers of it, in pandas pd.to_numeric({df}, errors='coerce'), in SQL "
        f"TRY_CAST({sql} AS DOUBLE)."
    ),
    ("INTERVAL",): lambda df, sql: (
        f"Seconds are {df}.dt.total_seconds() in pandas, epoch({sql}) in SQL."
    ),
}


def check_value_type(column: str, duckdb_type: str, *, text: bool = False) -> None:
    """Raise ColumnError unless a column holds numbers, by its type alone, which is public.

    ``text`` lets texts pass: a CSV file has nothing else.
    """
    if text and duckdb_type == "VARCHAR":
        return
    if outer(duckdb_type) not in NUMBERS:
        raise refused(
            "a measure adds up", column, duckdb_type, "numbers", ADVICE, "Name another column."
        )


def check_values(source: object, vectors: Sequence[Vector]) -> None:
    """Raise ColumnError for a column that a source lacks, or that holds no numbers."""
    wanted = _columns(vectors)
    with opened(source, wanted) as relation:
        types = dict(zip(relation.columns, map(canonical, relation.types), strict=True))
    for column in wanted:
        check_value_type(column, types[column], text=only_text(source))


def _columns(vectors: Sequence[Vector]) -> list[str]:
    return list(dict.fromkeys(v.column for v in vectors if v.column is not None))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RecordParts:
    """Of records: sums under every node, which came with the counts."""

    tree: CountTree
    names: tuple[str, ...]

    def __repr__(self) -> str:
        return "RecordParts(<private>)"

    def parts(
        self,
        vectors: Sequence[Vector],
        nodes: Reported,
        chosen: NDArray[np.int64],
    ) -> list[NDArray[np.object_]]:
        """Every vector, one number a node; ``chosen`` are the places of nodes in the tree."""
        held = dict(zip(self.names, self.tree.sums, strict=True))
        below = nodes.ancestor >= 0

        def own(totals: NDArray[np.object_]) -> NDArray[np.object_]:
            out = totals.copy()
            np.subtract.at(out, nodes.ancestor[below], totals[below])
            return out

        def column(name: str) -> NDArray[np.object_]:
            return own(whole_numbers(held[name].take(chosen)))

        out = []
        for v, place in zip(vectors, _places(vectors), strict=True):
            if v.kind == "rows":
                out.append(own(self.tree.count[chosen].astype(object)))
            elif v.kind == "sum":
                out.append(column(f"x{place}"))
            elif v.kind == "present":
                out.append(column(f"y{place}"))
            else:
                out.append(column(f"x{place}") - v.bounds.middle * column(f"y{place}"))
        return out


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class UserParts:
    """Of users: counted when the parts are known."""

    tree: CountTree
    source: object
    hierarchy: Hierarchy
    unit: PrivacyUnit
    progress: bool

    def __repr__(self) -> str:
        return "UserParts(<private>)"

    def parts(
        self,
        vectors: Sequence[Vector],
        nodes: Reported,
        chosen: NDArray[np.int64],
    ) -> list[NDArray[np.object_]]:
        """Every vector, one number a node."""
        if not vectors:
            return []
        wanted = [*self.hierarchy.source_columns, str(self.unit.user), *_columns(vectors)]
        with opened(self.source, list(dict.fromkeys(wanted))) as relation:
            types = dict(zip(relation.columns, map(canonical, relation.types), strict=True))
            statement = parts_statement(
                self.hierarchy,
                self.unit,
                vectors,
                nodes,
                types=tuple(types[c] for c in self.hierarchy.source_columns),
                user_type=types[str(self.unit.user)],
            )
            table = relation.query(statement, self.progress)
        part = table["part"].cast("int64").to_numpy()
        out = []
        for i in range(len(vectors)):
            entries = np.zeros(len(nodes.level), dtype=object)
            entries[part] = whole_numbers(table[f"v{i}"])
            out.append(entries)
        return out


def measured(
    source: object,
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    band: int,
    vectors: Sequence[Vector],
    *,
    listed: ListedNodes | None = None,
    progress: bool = False,
) -> RecordParts | UserParts:
    """What a rollup starts from. Private.

    Raises ColumnError where a column cannot be read, or a listed key is no value of its column.
    """
    check_values(source, vectors)
    if unit.user is None:
        sums = _sums(vectors)
        tree = exact_counts(
            source,
            hierarchy,
            unit,
            band,
            listed=listed,
            progress=progress,
            sums=sums,
            beside=_columns(vectors),
        )
        return RecordParts(tree, tuple(sums))
    if listed is None:
        tree = exact_counts(source, hierarchy, unit, band, progress=progress)
    else:
        tree = _uncounted(source, hierarchy, unit, listed)
    return UserParts(tree, source, hierarchy, unit, progress)


def _sums(vectors: Sequence[Vector]) -> Mapping[str, str]:
    """SQL of what is added up, by name."""
    out = {}
    for v, place in zip(vectors, _places(vectors), strict=True):
        if v.column is not None:
            value = value_sql(identifier(v.column), v.bounds, clipped=True)
            if v.kind in ("sum", "centred"):
                out[f"x{place}"] = value
            if v.kind in ("present", "centred"):
                out[f"y{place}"] = f"CASE WHEN {value} IS NULL THEN 0 ELSE 1 END"
    return out


def _places(vectors: Sequence[Vector]) -> list[int]:
    """One number for all vectors of a column with the same bounds."""
    numbers: dict[object, int] = {}
    return [numbers.setdefault((v.column, v.steps), len(numbers)) for v in vectors]


def _uncounted(
    source: object, hierarchy: Hierarchy, unit: PrivacyUnit, listed: ListedNodes
) -> CountTree:
    """Listed nodes, of which nothing is counted yet."""
    with opened(source, [*hierarchy.source_columns, str(unit.user)]) as relation:
        seen = dict(zip(relation.columns, map(canonical, relation.types), strict=True))
    types = tuple(seen[c] for c in hierarchy.source_columns)
    hierarchy.check_types(types)
    check_key_types(listed, hierarchy, types)
    return CountTree(
        level=listed.level,
        parent=listed.parent,
        count=np.zeros(len(listed.level), dtype=np.int64),
        keys=listed.keys,
        types=types,
    )
