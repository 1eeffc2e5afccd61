"""From whatever holds the rows to what a mechanism starts from: a CountTree, or sketches."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe.noise import random_seed
from dpframe.plan import Counted, Plan
from dpframe.sources.relations import canonical, opened
from dpframe.sources.rollup_sql import rollup_sql
from dpframe.sources.sketch_states import sketch_states
from dpframe.tree import CountTree


def count(source: object, plan: Plan, *, progress: bool = False) -> Counted:
    """What the mechanism of a plan starts from. Private."""
    if plan.counters is not None:
        return sketch_states(source, plan, progress=progress)
    return exact_counts(source, plan, progress=progress)


def exact_counts(source: object, plan: Plan, *, progress: bool = False) -> CountTree:
    """True counts at or above the band of everything the plan asks for. Private."""
    hierarchy, unit = plan.hierarchy, plan.unit
    user = [unit.user] if unit.user is not None else []
    with opened(source, [*hierarchy.source_columns, *user]) as relation:
        types = {c: canonical(t) for c, t in zip(relation.columns, relation.types, strict=True)}
        read = tuple(types[c] for c in hierarchy.source_columns)
        hierarchy.check_types(read)
        statement = rollup_sql(
            hierarchy,
            unit,
            band=plan.band,
            types=read,
            user_type=types[unit.user] if unit.user is not None else None,
            seed=random_seed(),
        )
        table = relation.query(statement, progress)
    return tree_of(table)


def tree_of(table: pa.Table) -> CountTree:
    """The tree of a rollup's rows: level, n, keys, in preorder."""
    return CountTree.from_preorder(
        level=_numbers(table["level"]),
        count=_numbers(table["n"]),
        keys=tuple(table[name] for name in table.column_names[2:]),
    )


def _numbers(column: pa.ChunkedArray) -> NDArray[np.int64]:
    numbers: NDArray[np.int64] = column.cast(pa.int64()).to_numpy()
    return numbers
