"""Read a relation into one sketch per level in which users are bounded.

A user's rows must be read together and sampled, so DuckDB sorts rows by user, on disk where memory
does not suffice. The sketches stay small. Their input depends only on the set of rows, so the
source may have any order.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpframe._duck import Relation, join_batches
from dpframe.budget import PrivacyUnit
from dpframe.hierarchy import Hierarchy
from dpframe.hierarchy._base import check_writable
from dpframe.noise import random_seed
from dpframe.sketches import MisraGries, PrivacyAwareMisraGries, SketchState
from dpframe.sources.record_stream import report_progress
from dpframe.sources.source_relations import canonical
from dpframe.sources.stream_sql import users_sql


def user_states(
    relation: Relation,
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    counters: int,
    *,
    by_sets: bool,
    progress: bool = False,
) -> tuple[SketchState, ...]:
    """The states of the sketches of all levels after all users of a relation. Private."""
    types = {c: canonical(t) for c, t in zip(relation.columns, relation.types, strict=True)}
    read = tuple(types[c] for c in hierarchy.source_columns)
    hierarchy.check_types(read)
    user = unit.user or ""
    check_writable(user, types[user])
    statement = users_sql(hierarchy, unit, types=read, user_type=types[user], seed=random_seed())
    sketches = UserSketches(hierarchy.height, counters, unit, by_sets=by_sets)
    sketches.update(report_progress(relation.batches(statement), progress))
    return sketches.states()


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
