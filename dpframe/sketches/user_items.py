"""The different values that users have, on the private side of a release, and what they weigh.

All arithmetic is on whole numbers, so that the norm of what a user adds is surely within its bound.
What a user adds depends on this user, on public numbers of the values and on nothing else.

Compiled loops add up long tables where numba is installed; numpy adds up all others, which takes
longer. Both give the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe.errors import DpframeError

Whole = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class UserItems:
    """The different values of every user. Private.

    The values of user ``u`` are ``value[starts[u]:starts[u + 1]]``, numbers from 0 on; ``keys`` has
    the text of every number. The first ``items`` values of every user count when values are
    searched.
    """

    starts: Whole
    value: NDArray[np.int32]
    items: int
    keys: pa.ChunkedArray
    types: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return "UserItems(<private>)"

    @property
    def values(self) -> int:
        """How many different values there are."""
        return len(self.keys)

    @property
    def user(self) -> NDArray[np.int32]:
        """The user of every pair."""
        users = np.arange(len(self.starts) - 1, dtype=np.int32)
        return np.repeat(users, np.diff(self.starts))

    @property
    def taking_part(self) -> NDArray[np.bool_]:
        """Which pairs count when values are searched."""
        many = np.diff(self.starts)
        place = np.arange(len(self.value)) - np.repeat(self.starts[:-1], many)
        return np.asarray(place < self.items)

    @property
    def is_searched(self) -> NDArray[np.bool_]:
        """Which values at least one user takes part with; one user adds at most ``items`` of them.
        Other values could be found by noise alone."""
        if (loops := _loops(len(self.value))) is not None:
            return np.asarray(
                loops.mark_first_values(self.starts, self.value, self.items, self.values)
            )
        part = self.value[self.taking_part]
        return np.asarray(np.bincount(part, minlength=self.values) > 0)

    def weigh(self, importance: Whole, norm: int) -> Whole:
        """What all users give to every value. Each gives in proportion to the ``importance`` of
        values: a vector of whole numbers whose Euclidean norm is at most ``norm``."""
        if (loops := _loops(len(self.value))) is not None:

            def of_some(first: int, last: int) -> Whole:
                some = self.starts[first : last + 1], self.value, self.items, importance
                length = ceil_root(loops.importance_squares(*some))
                return np.asarray(loops.value_weights(*some, length, norm))

            return self._add_up(of_some)
        kept = self.taking_part & (importance[self.value] > 0)
        user, value = self.user[kept], self.value[kept]
        share = importance[value]
        length = ceil_root(_sums_at(user, share * share))
        return _sums_at(value, norm * share // length[user], self.values)

    def sizes(self, found: NDArray[np.bool_], bins: int) -> Whole:
        """How many users have 1, 2 to 3, 4 to 7, ... of the ``found`` values."""
        many = self._count_values(found)
        bits = np.frexp(many[many > 0].astype(np.float64))[1]
        return np.bincount(np.minimum(bits, bins) - 1, minlength=bins).astype(np.int64)

    def count_users(self, found: NDArray[np.bool_], norm: int, at_most: int) -> Whole:
        """Weights of all users at the ``found`` values alone. A user with up to ``at_most`` of them
        gives the root of norm^2 / at_most to each, a user with n > at_most the root of norm^2 / n:
        rounded down, so that a user's Euclidean norm is at most ``norm``."""
        weight = floor_root(norm * norm // np.maximum(self._count_values(found), at_most))
        if (loops := _loops(len(self.value))) is not None:

            def at_some(first: int, last: int) -> Whole:
                some = self.starts[first : last + 1]
                return np.asarray(loops.weight_sums(some, self.value, found, weight[first:last]))

            return self._add_up(at_some)[found]
        kept = found[self.value]
        user, value = self.user[kept], self.value[kept]
        return _sums_at(value, weight[user], self.values)[found]

    def _add_up(self, of_some: Callable[[int, int], Whole]) -> Whole:
        """The sum of what all users add, each thread for a range of them: ``of_some(first, last)``
        is for the users from ``first`` on and before ``last``."""
        parts = min(pa.cpu_count(), THREADS)
        ends = [np.searchsorted(self.starts, len(self.value) * i // parts) for i in range(parts)]
        ends.append(len(self.starts) - 1)
        with ThreadPoolExecutor(parts) as threads:
            return np.asarray(sum(threads.map(of_some, ends[:-1], ends[1:])))

    def _count_values(self, found: NDArray[np.bool_]) -> Whole:
        """How many of the ``found`` values every user has."""
        if (loops := _loops(len(self.value))) is not None:
            return np.asarray(loops.count_found_values(self.starts, self.value, found))
        kept = self.user[found[self.value]]
        return np.bincount(kept, minlength=len(self.starts) - 1).astype(np.int64)


LONG = 2**20
"""Pairs from which on loops are compiled."""

THREADS = 4
"""Threads, at most: each holds an array with one number for every value."""


def _loops(pairs: int) -> Any:
    """The compiled loops, if there are enough pairs and a library that compiles them; else None."""
    if pairs < LONG:
        return None
    try:
        from dpframe.sketches import _kernels as _weights
    except DpframeError:  # numba is not installed
        return None
    return _weights


def _sums_at(at: NDArray[np.int32], number: Whole, size: int = 0) -> Whole:
    """Sums of whole numbers, which floats hold exactly below 2**53."""
    return np.bincount(at, weights=number, minlength=size).astype(np.int64)


def floor_root(square: Whole) -> Whole:
    """The largest whole number whose square is at most ``square``, below 2**52."""
    root = np.sqrt(square.astype(np.float64)).astype(np.int64)
    root -= root * root > square
    return root + ((root + 1) * (root + 1) <= square)


def ceil_root(square: Whole) -> Whole:
    """The least whole number whose square is at least ``square``, below 2**52."""
    root = floor_root(square)
    return root + (root * root < square)
