"""Count the keys of a stream in bounded memory. Sketches are raw data; nothing here draws noise.

**The sketch of Misra and Gries** is kept in the variant of Lebeda and Tetek.

*Algorithm 1 of Lebeda and Tetek.* There are k counters, which start with dummy keys at 0. For a
record with key x: if x has a counter, it grows by one; else if all counters are positive, all of
them shrink by one; else the smallest key with a counter at zero gives its counter to x, which
starts at 1. Dummies are smaller than all other keys.

*Which key at zero goes first* is not tracked record by record. Let Z be the keys at zero after a
decrement, and follow the sketch until the next decrement. Call it an event when a key gets its
first positive counter in this time. Of r events, let s be of keys in Z. Then the keys left at zero
are Z without these s keys and without the r - s smallest of the other keys in Z. The proof is by
induction. An event of a key outside Z replaces the smallest key left, so that one more of the other
keys is gone. So does an event of a key of Z that is already replaced: the smallest key left takes
its place among the replaced keys. An event of a key that is still at zero removes only this key.
The inner loop therefore only counts free counters. The keys left at zero are the largest ones, and
are told from the replaced keys when the sketch is read.

*Why it can be released.* Take two streams that differ by one record and have the other records in
the same order. Their sketches differ as the structure lemma says
(``tests/privacy/test_sketch_structure.py``), provided that the state after a batch is the state
after its records one at a time. Records are therefore never grouped before they are counted.

**The sketch for users** with several items each is that of Lebeda and Tetek.

*Algorithm 4 (PAMG).* For the set of items of a user: the counter of each item grows by one, and an
item without a counter gets one. Then, if there are more than k counters, all of them shrink by one,
once, and counters at zero are dropped. Adding or leaving out one user moves at most k counters, by
at most 1, all in one direction. Estimates are at most n / (k + 1) too low, where n is the number of
items of all users.

A user comes once, with all items. If a user has more than ``max_items``, only the smallest in the
order of keys count: a choice that depends on this user alone.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpframe.errors import ParameterError, ParameterTypeError
from dpframe.sketches._batches import (
    ARROW_TYPES,
    PIECE,
    Column,
    Kind,
    SketchState,
    check_batch_order,
    key_columns,
    key_order,
    single_column,
    sort_entries,
)
from dpframe.sketches._counters import EncodedKeys, Table, encode_keys
from dpframe.sketches._sketch import (
    DEFAULT_COUNTERS,
    LARGEST,
    CountingSketch,
    MergedSketch,
    check_integer,
    merge_raw_sketches,
)

__all__ = [
    "DEFAULT_COUNTERS",
    "LARGEST",
    "MergedSketch",
    "MisraGries",
    "PrivacyAwareMisraGries",
    "SketchState",
    "merge_raw_sketches",
]


class MisraGries(CountingSketch):
    """Approximate counts of the keys of a stream, in k counters.

    Parameters
    ----------
    counters
        Number of counters, k, from 2. An estimate is at most ``total / (k + 1)`` too low and never
        too high.
    standard
        Remove keys whose counter falls to zero, as most implementations do. Estimates do not
        change, but a private release needs a higher threshold.

    Raises
    ------
    ParameterError, ParameterTypeError
        If ``counters`` is no whole number from 2.

    Privacy
    -------
    Only what ``dpframe.MisraGries.release`` returns is private; see there. The sketch itself is raw
    data, and so are the results of its other methods, its files, the time they take and the memory
    they need. ``repr`` shows parameters only. Neighbours of a later release differ by one record,
    and the order of the other records must not depend on that record: do not count the output of a
    join, a grouping or a set.

    References
    ----------
    Lebeda, Tetek: Better Differentially Private Approximate Histograms and Heavy Hitters using the
    Misra-Gries Sketch. Algorithm 1.

    Examples
    --------
    >>> sketch = MisraGries(counters=2)
    >>> sketch.update(["a", "b", "a", "c", "a"])
    >>> sketch
    MisraGries(counters=2, <private>)
    >>> sketch.estimate("a"), sketch.decrements, sketch.total
    (2, 1, 5)
    """

    __slots__ = ("_standard",)

    _NAME = "misra-gries"

    def __init__(self, counters: int, *, standard: bool = False) -> None:
        self._new(check_integer("counters", counters, 2, LARGEST), "record")
        if not isinstance(standard, bool):
            raise ParameterTypeError(f"standard must be True or False; got {standard!r}.")
        self._standard = standard

    def __repr__(self) -> str:
        standard = ", standard=True" if self._standard else ""
        return f"MisraGries(counters={self._counters}{standard}, <private>)"

    @property
    def standard(self) -> bool:
        """Whether keys at zero are removed at once. Public."""
        return self._standard

    def update(self, batch: object) -> None:
        """Count records, each of weight one, in their order.

        The state afterwards is the state after the records one at a time, however they are split
        into batches.

        Parameters
        ----------
        batch
            Keys as integers of up to 64 bits, text or bytes: a numpy array, a pandas or Polars
            series, an Arrow array, chunked array, reader or table of one column, a DuckDB relation
            of one column, an iterable of Python objects, or a single key. All batches are of one
            kind. Integers of different widths are equal if their values are; text is compared
            exactly, as UTF-8.

        Raises
        ------
        ParameterError, ParameterTypeError
            If a key is missing (NULL, None, NaN), a floating-point number, out of range, or of
            another kind than the rest; if the batch is a set, whose order would depend on its
            content, or a frame of Spark; or if the sketch was released and not resumed.
        SourceError
            If a reader or a relation fails. Also if a relation joins, groups, samples or sorts, or
            its connection does not keep the order of rows: one record could then change the order
            of other records.

        After an error the sketch is as it was before the call.
        """
        self._takes_records()
        check_batch_order(batch)
        table, added = self._table, 0
        parts = key_columns(batch, None if table is None else table.kind)
        following = next(parts, None)
        while following is not None:
            part, following = following, next(parts, None)
            if table is None:
                table = Table(part.kind, self._counters)
            elif following is not None and table is self._table:
                table = copy.copy(table)  # so that an error in a later part changes nothing
            table.update(encode_keys(part), self._counters)
            added += len(part)
        self._table, self._total = table, self._total + added

    def _update_words(self, keys: EncodedKeys) -> None:
        """Count keys of kind "words"; call ``_rename`` first if the sketch holds another kind."""
        if self._table is None:
            self._table = Table("words", self._counters)
        self._table.update(keys, self._counters)
        self._total += len(keys)

    def _rename(self, kind: Kind, renamed: Callable[[pa.Array], pa.Array]) -> None:
        """Give every key another name, one for one. The order of the new names decides which key at
        zero goes next."""
        if self._table is not None:
            keys, counts = self._table.entries()
            self._table = Table.of(
                kind, self._counters, renamed(keys), counts, self._table.decrements
            )

    def _state(self) -> SketchState:
        """Return all k entries, dummies and keys at zero included. A standard sketch has only the
        entries above zero."""
        k, (kind, *entries) = self._counters, self._entries()
        keys, counts = sort_entries(*entries)
        free = k - int((counts > 0).sum())
        zeros = np.flatnonzero(counts == 0)
        lost = zeros if self._standard else zeros[: max(0, len(zeros) - free)]
        kept = np.delete(np.arange(len(counts)), lost)
        dummies = 0 if self._standard else k - len(kept)
        return SketchState(
            counters=k,
            kind=kind,
            keys=pa.concat_arrays([pa.nulls(dummies, keys.type), keys.take(pa.array(kept))]),
            counts=np.concatenate([np.zeros(dummies, np.int64), counts[kept]]),
            dummies=dummies,
            decrements=self.decrements,
            total=self._total,
        )

    def _facts(self) -> dict[str, Any]:
        return {"counters": self._counters, "standard": self._standard}

    @classmethod
    def _restore(cls, facts: dict[str, Any], state: SketchState) -> Self:
        sketch = cls(facts["counters"], standard=facts["standard"])
        k, counts = sketch._counters, state.counts
        full = len(counts) == k or sketch._standard
        removed = state.decrements * (k + 1) + int(counts.sum())
        if (
            len(counts) > k
            or removed != state.total
            or (counts.min(initial=1) < 1 and (sketch._standard or not state.decrements))
            or (state.decrements and not full)
        ):
            raise ValueError("no sketch has these counters")
        if state.kind is not None:
            sketch._table = Table.of(state.kind, k, state.keys, counts, state.decrements)
        sketch._total = state.total
        return sketch


UNSORTED = (
    "users must ascend over all calls, all rows of a user in one call: sort by user first, so that "
    "no user counts twice."
)


class PrivacyAwareMisraGries(CountingSketch):
    """Approximate numbers of users with an item, in k counters, decremented at most once a user.

    Parameters
    ----------
    counters
        Number of counters, k, from 2.
    max_items
        Largest number of items of a user, from 1; further items are left out. While a user is
        counted there are up to ``counters + max_items`` counters.

    Raises
    ------
    ParameterError, ParameterTypeError
        If ``counters`` or ``max_items`` is no whole number in its range.

    Privacy
    -------
    Only what ``dpframe.PrivacyAwareMisraGries.release`` returns is private; see there. The sketch
    itself is raw data, and so are the results of its other methods, its files, the time they take
    and the memory they need. ``repr`` shows parameters only. Neighbours of a later release differ
    by one user with all their items; the order of the other users must not depend on that user.

    References
    ----------
    Lebeda, Tetek: Better Differentially Private Approximate Histograms and Heavy Hitters using the
    Misra-Gries Sketch. Algorithm 4, Lemmas 8 and 9.

    Examples
    --------
    >>> sketch = PrivacyAwareMisraGries(counters=2, max_items=3)
    >>> sketch.update({"a", "b"})
    >>> sketch.update_users([1, 1, 2, 5], ["a", "c", "a", "a"])
    >>> sketch
    PrivacyAwareMisraGries(counters=2, max_items=3, <private>)
    >>> sketch.top()
    [('a', 3)]
    """

    __slots__ = ("_last", "_max_items")

    _NAME = "privacy-aware-misra-gries"

    def __init__(self, counters: int, max_items: int) -> None:
        self._new(check_integer("counters", counters, 2, LARGEST), "user")
        self._max_items = check_integer("max_items", max_items, 1, LARGEST)
        self._last: tuple[Kind, int | str | bytes] | None = None

    def __repr__(self) -> str:
        return (
            f"PrivacyAwareMisraGries(counters={self._counters}, max_items={self._max_items}, "
            "<private>)"
        )

    @property
    def max_items(self) -> int:
        """Largest number of items of a user. Public."""
        return self._max_items

    def update(self, items: object) -> None:
        """Count one user, who must not come again.

        Parameters
        ----------
        items
            All items of the user, in any order, in any form that ``MisraGries.update`` takes, or as
            a set. Repeated items count once.

        Raises
        ------
        ParameterError, ParameterTypeError, SourceError
            As in ``MisraGries.update``. The sketch is then as it was before.
        """
        self._takes_records()
        column = single_column(items, self._kind)
        if column is not None:
            self._add(np.zeros(len(column), np.int64), column)

    def update_users(self, users: object, items: object) -> None:
        """Count many users at once.

        Parameters
        ----------
        users
            The user of each row, in ascending order (text by its bytes, as DuckDB and Arrow sort):
            integers, text or bytes, in any form that ``MisraGries.update`` takes. All rows of a
            user must be in one call, and users of a later call must be greater than users of an
            earlier call. This ensures that a user comes once.
        items
            The item of each row. Repeated items of a user count once.

        Raises
        ------
        ParameterError
            If users are not in ascending order, or there are not as many users as items.
        ParameterError, ParameterTypeError, SourceError
            As in ``MisraGries.update``, for users too: if users or items had no fixed order, they
            would not match. Pass the columns of one table for the rows of a sorting statement:
            ``t = con.sql(...).to_arrow_table()``, ``update_users(t["user"], t["item"])``. The
            sketch is then as it was before.
        """
        self._takes_records()
        check_batch_order(users)
        check_batch_order(items)
        kind, before = self._last or (None, None)
        who, what = single_column(users, kind), single_column(items, self._kind)
        if (0 if who is None else len(who)) != (0 if what is None else len(what)):
            raise ParameterError("users and items must be equally long.")
        if who is None or what is None:
            return
        ids = who.to_arrow()
        if before is not None and not pc.greater(ids[0], pa.scalar(before, ids.type)).as_py():
            raise ParameterError(UNSORTED)
        # text as it came: repairing invalid UTF-8 could change its order
        given = ids if who.kind in ("int64", "uint64") else who.values
        if pc.any(pc.less(given[1:], given[:-1])).as_py():
            raise ParameterError(UNSORTED)
        new = pc.not_equal(given[1:], given[:-1]).to_numpy(zero_copy_only=False)
        self._add(np.concatenate([[0], np.cumsum(new)]), what)
        self._last = who.kind, ids[-1].as_py()

    def _add(self, users: NDArray[np.int64], items: Column) -> None:
        """Count items; ``users`` numbers the user of each row from 0, in ascending order."""
        codes = items.to_arrow().dictionary_encode()
        order = key_order(codes.dictionary)
        keys = encode_keys(Column.of(items.kind, codes.dictionary.take(pa.array(order))))
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        ranks = rank[codes.indices.to_numpy()]
        rows = np.lexsort((ranks, users))
        users, ranks = users[rows], ranks[rows]
        once = np.concatenate([[True], (np.diff(users) != 0) | (np.diff(ranks) != 0)])
        users, ranks = users[once], ranks[once]
        first = np.searchsorted(users, users)  # first row of the user
        kept = np.arange(len(users)) - first < self._max_items
        users, ranks = users[kept], ranks[kept]
        table = self._table or Table(items.kind, self._counters + self._max_items)
        ends = np.append(np.flatnonzero(np.diff(users)) + 1, len(users))
        start = 0
        while start < len(users):
            below = ends[(ends > start) & (ends <= start + PIECE)]
            if not len(below):  # a user with more than PIECE items
                below = ends[ends > start][:1]
            stop = int(below[-1])
            table.update_users(*keys.take(ranks[start:stop]), below - start, self._counters)
            start = stop
        self._table, self._total = table, self._total + len(users)

    def _state(self) -> SketchState:
        kind, keys, counts = self._entries()
        kept = np.flatnonzero(counts > 0)
        keys, counts = sort_entries(keys.take(pa.array(kept)), counts[kept])
        return SketchState(
            counters=self._counters,
            kind=kind,
            keys=keys,
            counts=counts,
            decrements=self.decrements,
            total=self._total,
        )

    def _facts(self) -> dict[str, Any]:
        kind, last = self._last or (None, None)
        return {
            "counters": self._counters,
            "max_items": self._max_items,
            "user_kind": kind,
            "last_user": last.hex() if isinstance(last, bytes) else last,
        }

    @classmethod
    def _restore(cls, facts: dict[str, Any], state: SketchState) -> Self:
        sketch = cls(facts["counters"], facts["max_items"])
        k, counts = sketch._counters, state.counts
        lost = state.decrements * (k + 1) + int(counts.sum())
        if len(counts) > k or counts.min(initial=1) < 1 or lost > state.total:
            raise ValueError("no sketch has these counters")
        if state.kind is not None:
            room = k + sketch._max_items
            sketch._table = Table.of(state.kind, room, state.keys, counts, state.decrements)
        sketch._total = state.total
        if (kind := facts["user_kind"]) is not None:
            last = bytes.fromhex(facts["last_user"]) if kind == "bytes" else facts["last_user"]
            sketch._last = kind, pa.scalar(last, ARROW_TYPES[kind]).as_py()
        return sketch
