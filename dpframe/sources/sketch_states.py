"""The count step of a streaming plan: make one sketch per level, of records or of users.

A user's rows must be read together and sampled, so DuckDB sorts rows by user, on disk where memory
does not suffice. The sketches stay small. Their input depends only on the set of rows, so a source
of users may have any order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpframe._duck import join_batches
from dpframe.budget import PrivacyUnit
from dpframe.hierarchy import Hierarchy
from dpframe.noise import random_seed
from dpframe.sketches import MisraGries, PrivacyAwareMisraGries, SketchState
from dpframe.sources.record_stream import check_eager, report_progress, update_sketches
from dpframe.sources.source_relations import level_and_user_types, open_source
from dpframe.sources.stream_sql import users_sql


class SketchingPlan(Protocol):
    """What the count step needs to know about a plan."""

    @property
    def hierarchy(self) -> Hierarchy: ...

    @property
    def unit(self) -> PrivacyUnit: ...

    @property
    def counters(self) -> int | None: ...

    @property
    def by_user_sets(self) -> bool:
        """Whether a sketch takes all keys of a user at once, as a set."""


States = tuple[tuple[SketchState, ...], tuple[str, ...]]
"""The states of the sketches of all levels, private; and the types of the columns, public."""


def sketch_states(source: object, plan: SketchingPlan, *, progress: bool = False) -> States:
    """Count a source into one sketch per level."""
    hierarchy, unit, counters = plan.hierarchy, plan.unit, plan.counters or 0
    if unit.user is None:
        check_eager(source)
    user = [] if unit.user is None else [unit.user]
    with open_source(source, [*hierarchy.source_columns, *user]) as relation:
        types, user_type = level_and_user_types(relation, hierarchy, unit.user)
        if unit.user is None:
            sketches = [MisraGries(counters) for _ in range(hierarchy.height)]
            update_sketches(sketches, relation, hierarchy, progress=progress)
            return tuple(sketch._state() for sketch in sketches), types
        seed = random_seed()
        statement = users_sql(hierarchy, unit, types=types, user_type=user_type, seed=seed)
        users = UserSketches(hierarchy.height, counters, unit, by_sets=plan.by_user_sets)
        users.update(report_progress(relation.batches(statement), progress))
        return users.states(), types


class UserSketches:
    """One sketch per level that counts users, numbered in ascending order. Raw data."""

    def __init__(self, height: int, counters: int, unit: PrivacyUnit, *, by_sets: bool) -> None:
        most, self._once = unit.max_contributions, unit.contribution == "items"
        self._sets = [PrivacyAwareMisraGries(counters, most) for _ in range(height * by_sets)]
        self._plain = [MisraGries(counters) for _ in range(height * (not by_sets))]
        self._users = 0

    def update(self, batches: Iterator[pa.RecordBatch]) -> None:
        """Count users and their keys, one column per level. Every call has new users, numbered from
        1."""
        last = self._users
        for batch in _whole_users(batches):
            users = pc.add(batch.column(0).cast(pa.int64()), last)
            self._users = users[-1].as_py()
            for sets, column in zip(
                self._sets, batch.columns[1:], strict=False
            ):  # a user at a time
                known = column.is_valid()
                sets.update_users(users.filter(known), column.filter(known))
            for plain, column in zip(self._plain, batch.columns[1:], strict=False):
                kept = column.is_valid()
                if self._once:  # a user's item counts once at every level
                    kept = pc.and_(kept, _is_new_pair(users, column))
                plain.update(column.filter(kept))

    def states(self) -> tuple[SketchState, ...]:
        """The states of the sketches, one per level."""
        return tuple(sketch._state() for sketch in (*self._sets, *self._plain))


def _is_new_pair(users: pa.Array, keys: pa.Array) -> pa.Array:
    """Flags of rows whose user or key differs from the row before; equal rows stand together."""
    same = pc.and_(pc.equal(users[1:], users[:-1]), pc.equal(keys[1:], keys[:-1]))
    return pa.concat_arrays([pa.array([True]), pc.invert(pc.fill_null(same, False))])


def _whole_users(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows in batches that hold all rows of each of their users."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        users = batch.column(0).to_numpy()
        last = int(np.searchsorted(users, users[-1]))
        if last > 0:
            yield join_batches([*held, batch.slice(0, last)])
            held = []
        held.append(batch.slice(last))
    if held:
        yield join_batches(held)
