"""Sketches of a streaming plan: one a level, of records or of users, also on Spark.

A user's rows must be read together and sampled, so DuckDB sorts rows by user, on disk where memory
does not suffice. The sketches stay small. Their input depends only on the set of rows, so a source
of users may have any order.

**On Spark** workers make sketches of partitions, which are merged.

Rows are shuffled by a hash of the record, or of the user, into as many partitions as the session
shuffles into, sorted within each partition, and sketched by the Python of the workers, which needs
dpframe.

*Why neighbours stay neighbours.* The release of merged sketches protects a record that enters one
sketch, if the order of the other records does not depend on that record (``streaming_hhh``).

* Which partition: ``pmod(hash(record), partitions)``, a function of the record alone. Cutting by
  position would move rows of every partition after the record.
* Which order: a shuffle delivers rows as its tasks finish, and in another order if a task is
  retried. So the rows of a partition are sorted, by a hash of the record and then by all its
  columns: a total order on records, in which one more record is inserted somewhere and no other
  records change places. Rows that compare as equal have equal keys. Users are sorted by their id,
  and a user's rows are sampled and sorted by a function of that user and the seed, so one more user
  is inserted as a block.
* Which sketch: a worker begins a new sketch wherever the number of the partition, a column,
  changes. Spark can deal partitions to tasks in any way that leaves each partition in one task.
* Retries: the result of a worker is a function of its rows, and of the seed that the driver drew.
  A source whose rows change when they are read again (``rand()``) is no table, and not protected.

*What travels.* For a sum, Spark adds the workers' counters, and counters at or above the band go to
the driver: no noise lifts the other counters over the threshold. For a bounded merge, at most
``counters`` counters for each level and partition travel.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpframe._duck import Relation, join_batches, one_task, register_table
from dpframe._version import __version__
from dpframe.budget import PrivacyUnit
from dpframe.errors import SourceError
from dpframe.hierarchy import Hierarchy
from dpframe.noise import random_seed
from dpframe.sketches import MergedSketch, MisraGries, PrivacyAwareMisraGries, SketchState
from dpframe.sketches._batches import sort_entries
from dpframe.sketches._sketch import merge_raw_sketches
from dpframe.sources.frames import arrow_table
from dpframe.sources.packed_keys import users_sql
from dpframe.sources.source_relations import level_and_user_types, open_source
from dpframe.sources.spark import OTHER_VERSION, SparkFrame, fetch_table
from dpframe.sources.stream_batches import check_eager, report_progress, update_sketches


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


COUNTED = pa.schema(
    {"part": pa.int32(), "level": pa.int32(), "key": pa.binary(), "value": pa.int64()}
)
COUNTED_SQL = "part int, level int, key binary, value long"
"""What workers return: positive counters, with the numbers of their partition and level."""

HELD_ROWS = 1_000_000
HELD_BYTES = 2**28
"""About how much a worker holds at a time, but at least all rows of one user."""


class PartitionedPlan(SketchingPlan, Protocol):
    """What this module needs to know about a plan."""

    @property
    def counters(self) -> int: ...

    @property
    def partitions(self) -> int: ...

    @property
    def method(self) -> Literal["sum", "bounded"]: ...

    @property
    def band(self) -> int: ...


def partitioned_states(frame: Any, plan: PartitionedPlan) -> tuple[SketchState, ...]:
    """The states of the merged sketches, one per level, after all rows of a DataFrame. Private."""
    from pyspark.sql import functions as F

    hierarchy, user = plan.hierarchy, plan.unit.user
    wanted = tuple(dict.fromkeys([*hierarchy.source_columns, *([user] if user else [])]))
    source = SparkFrame(frame, wanted)
    hierarchy.check_types(tuple(source.types[c] for c in hierarchy.source_columns))
    columns = [source.names[c] for c in hierarchy.source_columns]
    unit = columns if user is None else ["u"]
    read = columns if user is None else [*columns, "u"]
    worker = Worker(
        hierarchy=hierarchy,
        unit=plan.unit,
        counters=plan.counters,
        by_sets=plan.by_user_sets,
        seed=random_seed(),
        version=__version__,
    )

    def asked() -> Any:
        rows = source.records(hierarchy.source_columns, user).repartition(plan.partitions, *unit)
        part = F.expr(f"pmod(hash({', '.join(unit)}), {plan.partitions})").alias("part")
        hashed = rows.select(part, F.xxhash64(*unit).alias("hashed"), *read)
        first = ["part", "hashed", *unit] if user is None else ["part", *unit]
        counted = hashed.sortWithinPartitions(*first).mapInArrow(worker, COUNTED_SQL)
        if plan.method == "bounded":
            return counted
        added = counted.groupBy("level", "key").agg(F.sum("value").alias("value"))
        return added.where(F.col("value") >= plan.band)

    table = fetch_table(asked)
    return _sum_states(table, plan) if plan.method == "sum" else _bounded_states(table, plan)


def _sum_states(table: pa.Table, plan: PartitionedPlan) -> tuple[SketchState, ...]:
    """For each level, the counters of a sum that reach the band, as the state of a sketch."""
    levels = [_level_counters(table, level) for level in range(1, plan.hierarchy.height + 1)]
    return tuple(
        SketchState(
            counters=plan.counters,
            kind="text" if len(keys) else None,
            keys=keys,
            counts=counts,
            lattice=plan.counters + 1,
            decrements=0,  # not known, and not released
            total=int(counts.sum()),
        )
        for keys, counts in levels
    )


def _bounded_states(table: pa.Table, plan: PartitionedPlan) -> tuple[SketchState, ...]:
    """For each level, the state of the users' sketches, merged in the order of the partitions'
    numbers, which data do not decide."""
    different = table.group_by(["part", "level", "key"]).aggregate([]).num_rows
    if different != table.num_rows:  # so if a session has its own function "hash"
        raise SourceError("rows of one partition reached several workers.")
    parts = np.asarray(table["part"].to_numpy())
    of = {int(part): table.filter(pa.array(parts == part)) for part in np.unique(parts)}
    return tuple(
        merge_raw_sketches(
            _partition_sketch(of.get(part, table[:0]), level, plan)
            for part in range(plan.partitions)
        )._state()
        for level in range(1, plan.hierarchy.height + 1)
    )


def _partition_sketch(table: pa.Table, level: int, plan: PartitionedPlan) -> MergedSketch:
    keys, counts = _level_counters(table, level)
    state = SketchState(
        counters=plan.counters,
        kind="text" if len(keys) else None,
        keys=keys,
        counts=counts,
        decrements=0,
        total=int(counts.sum()),
    )
    return MergedSketch._from_state(
        state, counters=plan.counters, sketches=1, method="bounded", unit="user"
    )


def _level_counters(table: pa.Table, level: int) -> tuple[pa.Array, Any]:
    rows = table.filter(pa.array(table["level"].to_numpy() == level)).combine_chunks()
    keys = rows["key"].cast(pa.large_string())
    whole = keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
    return sort_entries(whole, rows["value"].to_numpy().astype(np.int64))


@dataclass(frozen=True, kw_only=True)
class Worker:
    """Sketches the batches of a task, with columns for the partition, the hash, the hierarchy and,
    if users are protected, the user."""

    hierarchy: Hierarchy
    unit: PrivacyUnit
    counters: int
    by_sets: bool
    seed: int
    version: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if self.version != __version__:  # the receipt states facts of the driver's version
            raise SourceError(OTHER_VERSION)
        with one_task():
            yield from self._sketch_batches(batches)

    def _sketch_batches(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        part, sketches = -1, None
        for rows in _regroup_batches(batches, whole_users=self.unit.user is not None):
            here = rows.column(0)[0].as_py()
            if sketches is None or here != part:
                if sketches is not None:
                    yield self._positive_counters(part, sketches)
                part, sketches = here, self._new()
            self._update_sketches(
                sketches, pa.Table.from_batches([rows]).select(rows.schema.names[2:])
            )
        if sketches is not None:
            yield self._positive_counters(part, sketches)

    def _new(self) -> list[MisraGries] | UserSketches:
        height = self.hierarchy.height
        if self.unit.user is None:
            return [MisraGries(self.counters) for _ in range(height)]
        return UserSketches(height, self.counters, self.unit, by_sets=self.by_sets)

    def _update_sketches(self, sketches: list[MisraGries] | UserSketches, rows: pa.Table) -> None:
        names = [*self.hierarchy.source_columns, *([self._user()] if self.unit.user else [])]
        table = arrow_table(rows.rename_columns(names), names)
        with register_table(table, "a partition") as relation:
            if isinstance(sketches, UserSketches):
                sketches.update(relation.batches(self._users(relation)))
            else:
                update_sketches(sketches, relation, self.hierarchy)

    def _user(self) -> str:
        """A name for the column of users that no column of the hierarchy has."""
        name, taken = "u", {column.lower() for column in self.hierarchy.source_columns}
        while name in taken:
            name += "u"
        return name

    def _users(self, relation: Relation) -> str:
        types, user_type = level_and_user_types(relation, self.hierarchy, self._user())
        unit = replace(self.unit, user=self._user())
        return users_sql(self.hierarchy, unit, types=types, user_type=user_type, seed=self.seed)

    def _positive_counters(
        self, part: int, sketches: list[MisraGries] | UserSketches
    ) -> pa.RecordBatch:
        """The positive counters of all levels; after Algorithm 3, unless ``by_sets``."""
        if isinstance(sketches, UserSketches):
            states = sketches.states()
        else:
            states = tuple(sketch._state() for sketch in sketches)
        levels, keys, values = [], [], []
        for number, state in enumerate(states, 1):
            held, counts = (state if self.by_sets else state.post_processed()).positive()
            levels.append(np.full(len(counts), number, np.int32))
            keys.append(held.cast(pa.large_string()))
            values.append(counts)
        level = np.concatenate(levels)
        key = pa.concat_arrays(keys).cast(pa.large_binary()).cast(pa.binary())
        value = np.concatenate(values)
        parts = np.full(len(level), part, np.int32)
        return pa.RecordBatch.from_arrays(
            [pa.array(parts), pa.array(level), key, pa.array(value)], schema=COUNTED
        )


def _regroup_batches(
    batches: Iterator[pa.RecordBatch], *, whole_users: bool
) -> Iterator[pa.RecordBatch]:
    """The rows in larger batches of one partition each. With ``whole_users``, a batch ends with the
    last row of a user."""
    held: list[pa.RecordBatch] = []
    number = size = 0
    for batch in batches:
        for rows in _split_by_partition(batch):
            if held and held[-1].column(0)[-1].as_py() != rows.column(0)[0].as_py():
                yield join_batches(held)
                held, number, size = [], 0, 0
            if number + rows.num_rows >= HELD_ROWS or size + rows.nbytes >= HELD_BYTES:
                end = _last_user(rows) if whole_users else rows.num_rows
                if end:
                    yield join_batches([*held, rows.slice(0, end)])
                    held, number, size, rows = [], 0, 0, rows.slice(end)
            if rows.num_rows:
                held.append(rows)
                number, size = number + rows.num_rows, size + rows.nbytes
    if held:
        yield join_batches(held)


def _split_by_partition(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    ends = [*(np.flatnonzero(np.diff(batch.column(0).to_numpy())) + 1), batch.num_rows]
    start = 0
    for end in ends:
        if end > start:
            yield batch.slice(start, int(end) - start)
        start = int(end)


def _last_user(rows: pa.RecordBatch) -> int:
    """The place where the rows of the last user begin, or of the last users with one hash."""
    hashed = rows.column(1).to_numpy()
    others = np.flatnonzero(hashed != hashed[-1])
    return int(others[-1]) + 1 if len(others) else 0
