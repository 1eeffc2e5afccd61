"""From whatever holds the rows to one sketch a level in which users are bounded.

A user's rows have to be found together and sampled, so DuckDB sorts them by user, on disk where
memory does not suffice. The sketches stay small. What they are fed depends on the set of rows only,
so the source may come in any order.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpframe._duck import Relation, together
from dpframe.noise import random_seed
from dpframe.plan import Plan
from dpframe.sketches import MisraGries, PrivacyAwareMisraGries, SketchState
from dpframe.sources.relations import canonical
from dpframe.sources.stream import shown
from dpframe.sources.stream_sql import users_sql


def user_states(
    relation: Relation, plan: Plan, *, progress: bool = False
) -> tuple[SketchState, ...]:
    """What the sketches of all levels hold after all users of a relation. Private."""
    hierarchy, unit = plan.hierarchy, plan.unit
    types = {c: canonical(t) for c, t in zip(relation.columns, relation.types, strict=True)}
    read = tuple(types[c] for c in hierarchy.source_columns)
    hierarchy.check_types(read)
    statement = users_sql(
        hierarchy, unit, types=read, user_type=types[unit.user or ""], seed=random_seed()
    )
    batches = shown(relation.batches(statement), progress)
    count = _sets if plan.by_user_sets else _records
    return count(batches, plan)


def _sets(batches: Iterator[pa.RecordBatch], plan: Plan) -> tuple[SketchState, ...]:
    """A user at a time."""
    counters, most = plan.counters or 0, plan.unit.max_contributions
    sketches = [PrivacyAwareMisraGries(counters, most) for _ in range(plan.height)]
    for batch in _whole_users(batches):
        for sketch, column in zip(sketches, batch.columns[1:], strict=True):
            known = column.is_valid()
            sketch.update_users(batch.column(0).filter(known), column.filter(known))
    return tuple(sketch._state() for sketch in sketches)


def _records(batches: Iterator[pa.RecordBatch], plan: Plan) -> tuple[SketchState, ...]:
    """A record at a time, or an item of a user, once at every level."""
    sketches = [MisraGries(plan.counters or 0) for _ in range(plan.height)]
    once = plan.unit.contribution == "items"
    for batch in _whole_users(batches):
        for sketch, column in zip(sketches, batch.columns[1:], strict=True):
            kept = column.is_valid()
            if once:
                kept = pc.and_(kept, _new(batch.column(0), column))
            sketch.update(column.filter(kept))
    return tuple(sketch._state() for sketch in sketches)


def _new(users: pa.Array, keys: pa.Array) -> pa.Array:
    """Which rows have another user or key than the row before; equal ones stand together."""
    same = pc.and_(pc.equal(users[1:], users[:-1]), pc.equal(keys[1:], keys[:-1]))
    return pa.concat_arrays([pa.array([True]), pc.invert(pc.fill_null(same, False))])


def _whole_users(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows, all of a user in one batch."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        users = batch.column(0).to_numpy()
        last = int(np.searchsorted(users, users[-1]))
        if last > 0:
            yield together([*held, batch.slice(0, last)])
            held = []
        held.append(batch.slice(last))
    if held:
        yield together(held)
