"""The different nodes that users have, on the private side of a release, and what they weigh.

All arithmetic is on whole numbers, so that the norm of what a user adds is surely within its bound.
What a user adds depends on this user, on public numbers of the nodes and on nothing else.

*Groups.* The nodes of a user are in groups: their finest nodes are one, and their other nodes of
each band of levels are one more. So few nodes, such as one country, do not weigh less because the
user has many finer ones. Which group a node of a user is in depends on the other nodes of this user
alone. ``shares`` says how the square of a user's norm is divided over the groups.

Compiled loops add up long tables where numba is installed; numpy adds up all others, which takes
longer. Both give the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe.counts import CountTree
from dpframe.errors import DpframeError

Whole = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class UserNodes:
    """The different nodes of every user, by groups. Private.

    Group g of user u has the nodes ``node[starts[i] : starts[i + 1]]``, positions in ``tree``, with
    ``i = u * len(shares) + g``. The first ``searched[i]`` of them take part when nodes are
    searched. The root takes part for no user.
    """

    tree: CountTree
    starts: Whole
    node: NDArray[np.int32]
    searched: Whole
    shares: tuple[int, ...]

    def __repr__(self) -> str:
        return "UserNodes(<private>)"

    @property
    def size(self) -> int:
        """How many nodes there are, with the root."""
        return len(self.tree.level)

    @property
    def users(self) -> int:
        return (len(self.starts) - 1) // len(self.shares)

    @cached_property
    def _group(self) -> NDArray[np.int64]:
        """The group of every pair, as a place in ``starts``."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    @cached_property
    def taking_part(self) -> NDArray[np.bool_]:
        """Which pairs count when nodes are searched."""
        place = np.arange(len(self.node)) - self.starts[self._group]
        return np.asarray(place < self.searched[self._group])

    @property
    def is_searched(self) -> NDArray[np.bool_]:
        """Which nodes at least one user takes part with. Others could be found by noise alone."""
        if (loops := _loops(len(self.node))) is not None:
            return np.asarray(
                loops.mark_first_values(self.starts, self.node, self.searched, self.size)
            )
        return np.bincount(self.node[self.taking_part], minlength=self.size) > 0

    def above(self, found: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which nodes lie above ``found`` nodes; public where these are."""
        above = np.zeros(self.size, dtype=np.bool_)
        here = np.flatnonzero(found)
        while len(here):
            here = np.unique(self.tree.parent[here])
            here = here[here >= 0]
            here = here[~above[here]]
            above[here] = True
        return above

    def weigh(self, importance: Whole, norm: int) -> Whole:
        """What all users give to every node: each a vector of whole numbers whose Euclidean norm is
        at most ``norm``.

        In a group, users give in proportion to the ``importance`` of nodes. The groups in which a
        user has important nodes divide the square of the norm by their shares.
        """
        if (loops := _loops(len(self.node))) is not None:

            def of_some(first: int, last: int) -> Whole:
                some = self.starts[first : last + 1], self.node, self.searched[first:last]
                squares = loops.importance_squares(*some, importance)
                norms = self._norms(squares, norm)
                return np.asarray(loops.value_weights(*some, importance, ceil_root(squares), norms))

            return self._add_up(of_some)
        kept = self.taking_part & (importance[self.node] > 0)
        group, node = self._group[kept], self.node[kept]
        share = importance[node]
        squares = _sums_at(group, share * share, len(self.starts) - 1)
        norms, length = self._norms(squares, norm), ceil_root(squares)
        return _sums_at(node, norms[group] * share // length[group], self.size)

    def _norms(self, squares: Whole, norm: int) -> Whole:
        """The norm of every group of some users, from the squares of the importance there."""
        if len(self.shares) == 1:
            return np.full(len(squares), norm, dtype=np.int64)
        shares = np.where(squares.reshape(-1, len(self.shares)) > 0, np.array(self.shares), 0)
        whole = np.maximum(shares.sum(axis=1, keepdims=True), 1)
        return floor_root((norm * norm * shares // whole).ravel())

    def sizes(self, shown: NDArray[np.bool_], bins: int) -> Whole:
        """How many users have 1, 2 to 3, 4 to 7, ... of the ``shown`` nodes."""
        many = self._count_nodes(shown)
        bits = np.frexp(many[many > 0].astype(np.float64))[1]
        return np.bincount(np.minimum(bits, bins) - 1, minlength=bins).astype(np.int64)

    def count_users(self, shown: NDArray[np.bool_], norm: int, at_most: int) -> Whole:
        """Weights of all users at the ``shown`` nodes alone. A user with up to ``at_most`` of them
        gives the root of norm^2 / at_most to each, a user with n > at_most the root of norm^2 / n:
        rounded down, so that a user's Euclidean norm is at most ``norm``."""
        own = floor_root(norm * norm // np.maximum(self._count_nodes(shown), at_most))
        weight = np.repeat(own, len(self.shares))
        if (loops := _loops(len(self.node))) is not None:

            def at_some(first: int, last: int) -> Whole:
                some = self.starts[first : last + 1]
                return np.asarray(loops.weight_sums(some, self.node, shown, weight[first:last]))

            return self._add_up(at_some)[shown]
        kept = shown[self.node]
        return _sums_at(self.node[kept], weight[self._group[kept]], self.size)[shown]

    def _add_up(self, of_some: Callable[[int, int], Whole]) -> Whole:
        """The sum of what all users add, each thread for a range of them: ``of_some(first, last)``
        is for the groups from ``first`` on and before ``last``."""
        parts, groups = min(pa.cpu_count(), THREADS), len(self.shares)
        at = [np.searchsorted(self.starts, len(self.node) * i // parts) for i in range(parts)]
        ends = [*(int(end) // groups * groups for end in at), len(self.starts) - 1]
        with ThreadPoolExecutor(parts) as threads:
            return np.asarray(sum(threads.map(of_some, ends[:-1], ends[1:])))

    def _count_nodes(self, shown: NDArray[np.bool_]) -> Whole:
        """How many of the ``shown`` nodes every user has."""
        if (loops := _loops(len(self.node))) is not None:
            many = loops.count_found_values(self.starts, self.node, shown)
        else:
            many = np.bincount(self._group[shown[self.node]], minlength=len(self.starts) - 1)
        return np.asarray(many.reshape(-1, len(self.shares)).sum(axis=1), dtype=np.int64)


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


def _sums_at(at: NDArray[Any], number: Whole, size: int) -> Whole:
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
