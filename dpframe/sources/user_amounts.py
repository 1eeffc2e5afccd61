"""What users have of columns at their nodes, and its sums with bounds, on the private side.

What a user adds depends on this user, on public numbers and on nothing else; it is in whole
numbers, so that its norm is surely within its bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe.counts import Ints, NodeSet
from dpframe.measures.measure import LARGEST, LEAST


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class UserColumns:
    """What users have of columns at their finest keys, those of the root among them. Private.

    Rows are in the order of users, and of nodes within a user, so that what is added up for a user
    does not depend on others. ``values``: float64, shape (columns, rows).
    """

    user: Ints
    leaf: Ints
    values: NDArray[np.float64]

    def amounts(self, nodes: NodeSet, column: int, part: NDArray[np.bool_]) -> UserAmounts:
        """What users have of a column at and below each node of a ``part`` of the nodes."""
        values, number = self.values[column], np.where(part, np.cumsum(part) - 1, -1)
        above = [nodes.ancestors_at(level) for level in np.unique(nodes.level[part]).tolist()]
        places = [np.where(node >= 0, number[node], -1) for node in above]
        size = int(part.sum())

        def of_some(begin: int, end: int) -> tuple[Ints, NDArray[np.float64]]:
            user, leaf, value = (each[begin:end] for each in (self.user, self.leaf, values))
            at = [place[leaf] for place in places]
            pairs = [(user * size + one)[one >= 0] for one in at]
            amount = np.concatenate([value[:0], *(value[one >= 0] for one in at)])
            pair, where = np.unique(np.concatenate([user[:0], *pairs]), return_inverse=True)
            return pair, np.bincount(where, amount, len(pair))

        firsts = np.searchsorted(self.user, self.user[BLOCK_ROWS::BLOCK_ROWS])  # of whole users
        ends = np.unique([0, *firsts.tolist(), len(self.user)])
        several = [(self.user[:0], values[:0]), *by_threads(of_some, ends.tolist())]
        pair, amount = (np.concatenate(parts) for parts in zip(*several, strict=True))
        return UserAmounts(user=pair // size, node=pair % size, amount=amount, nodes=size)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class UserAmounts:
    """What every user has of a column at some nodes, one row a pair of user and node. Private."""

    user: Ints
    node: Ints
    amount: NDArray[np.float64]
    nodes: int

    def magnitudes(self, lower: float, upper: float) -> Ints:
        """How many users each bin has; a user with what is between the bounds is in the bin of the
        Euclidean norm, a power of two, and in none if the norm is 0."""
        amount = np.clip(self.amount, lower, upper)
        norm = np.sqrt(np.bincount(self.user, amount * amount))
        exponent = np.frexp(norm[norm > 0])[1] - 1
        bins = np.clip(exponent, LEAST, LARGEST) - LEAST
        return np.bincount(bins, minlength=LARGEST - LEAST + 1).astype(np.int64)

    def bounded_sums(self, lower: float, upper: float, bound: float, norm: int, most: int) -> Ints:
        """The sum at every node in whole units, of which ``bound`` has ``norm``.

        What a user has at a node is cut to the bounds, and then to a level of this user, so that
        the Euclidean norm over all nodes is at most ``norm``. A user adds to at most ``most``
        nodes, to those with the most.
        """
        amount = np.clip(self.amount, lower, upper)
        units = np.minimum(np.rint(np.abs(amount) / bound * norm), norm).astype(np.int64)
        squares, many = np.bincount(self.user, units * units), np.bincount(self.user)
        cut = np.flatnonzero(((squares > norm * norm) | (many > most))[self.user])  # the rest fits
        order = cut[np.lexsort([self.node[cut], -units[cut], self.user[cut]])]
        user, cut_units = self.user[order], units[order]
        first = np.flatnonzero(np.diff(user, prepend=-1))
        many = np.diff(np.append(first, len(user)))
        cut_units[np.arange(len(user)) - np.repeat(first, many) >= most] = 0
        levels = _levels_of_users(cut_units, first, many, norm)
        units[order] = np.minimum(cut_units, np.repeat(levels, many))
        return node_sums(self.node, np.where(amount < 0, -units, units), self.nodes)


def _levels_of_users(units: Ints, first: Ints, many: Ints, norm: int) -> Ints:
    """The largest level of each user that keeps the norm of their units, cut to it, within
    ``norm``. A user has ``many`` units from a position in ``first`` on, in descending order."""
    squares = np.append(0, np.cumsum(units * units))
    end = np.repeat(first + many, many)
    row = np.arange(len(units))
    # from one unit on, what comes after it stays whole, and it and all before it are cut alike
    left = norm * norm - (squares[end] - squares[row + 1])
    alike = row - np.repeat(first, many) + 1
    level = np.where(left < 0, -1, floor_root(np.maximum(left, 0) // alike))
    fits = level < units  # cutting reaches this unit; so it does for all units before it
    reached = np.add.reduceat(fits.astype(np.int64), first) if len(first) else first
    last = np.maximum(first + reached - 1, 0)
    return np.where(reached > 0, level[last] if len(level) else 0, norm)


THREADS = 4
"""Threads, at most: each holds an array with one number for every node."""

BLOCK_ROWS = 2**17
"""Rows of users that numpy reads at once, but for users with more: they stay in the cache of a
processor."""


def threads() -> int:
    """How many threads work at once."""
    return min(int(pa.cpu_count()), THREADS)


def by_threads(work: Callable[[int, int], Any], ends: Sequence[int]) -> list[Any]:
    """What threads make of all ranges between ``ends``, in their order."""
    with ThreadPoolExecutor(threads()) as pool:
        each = pool.map if len(ends) > 2 else map  # one range waits for no other
        return list(each(work, ends[:-1], ends[1:]))


def node_sums(at: NDArray[Any], number: Ints, size: int) -> Ints:
    """Sums of whole numbers, which floats hold exactly below 2**53."""
    return np.bincount(at, weights=number, minlength=size).astype(np.int64)


def floor_root(square: Ints) -> Ints:
    """The largest whole number whose square is at most ``square``, below 2**52."""
    root = np.sqrt(square.astype(np.float64)).astype(np.int64)
    root -= root * root > square
    return root + ((root + 1) * (root + 1) <= square)


def ceil_root(square: Ints) -> Ints:
    """The least whole number whose square is at least ``square``, below 2**52."""
    root = floor_root(square)
    return root + (root * root < square)


def mix_bits(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A permutation of 64-bit numbers in which every bit depends on all bits (Steele, Lea, Flood
    2014, SplitMix)."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return bits ^ (bits >> np.uint64(31))
