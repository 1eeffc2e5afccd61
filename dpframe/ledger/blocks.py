"""Blocks of time: the part of an axis that a release reads, and what every block has spent.

What has been spent along an axis is a tree of sums, read and written along two paths. A charge with
blocks adds its cost where the blocks begin and takes it off where they end; what a moment has spent
is the sum up to that moment. A node of the tree holds the sum over the moments below the node, and
the largest running sum over these moments. So the fullest block of any stretch is known from the
nodes along its two ends, however many blocks and charges there are.

A node has a digest of its children, and every entry of the history has the digest of the root,
under its seal: reading a node that was changed raises LedgerError.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from itertools import accumulate, groupby
from typing import Any, NamedTuple

from dpframe.errors import ParameterError, ParameterTypeError
from dpframe.ledger.store import Units, damage_error

FARTHEST = 2**47
"""Seconds from 1970 to either end of an axis: four million years, beyond all calendars."""

NULL_FIRST, NULL_LAST = -FARTHEST, 1 - FARTHEST
"""The one second that stands for NULL times: no period of times reaches it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """The part of an axis that a release reads: ``first <= time < last``.

    A release that is charged with blocks reads only records whose time on the axis lies in them;
    whoever charges it vouches for that. Releases whose blocks do not overlap cost a ledger what
    the dearest of them costs (docs/decisions/0022-blocks.md).

    Parameters
    ----------
    axis
        The column, and how its times are read: two readings of one column are two axes.
    first, last
        Whole seconds since 1970 in that reading, half open, less than ``FARTHEST`` away.
        :meth:`of_null` makes the block of the records whose time is NULL.

    Raises
    ------
    ParameterError, ParameterTypeError
        An axis without a name, ends that are no whole numbers, or no time between them.

    Examples
    --------
    >>> Blocks(axis="when as written", first=0, last=86400).overlaps(
    ...     Blocks(axis="when as written", first=86400, last=2 * 86400))
    False
    """

    axis: str
    first: int
    last: int

    def __post_init__(self) -> None:
        if not isinstance(self.axis, str):
            raise ParameterTypeError(f"axis must be a text; got {type(self.axis).__name__}.")
        if not self.axis or "\0" in self.axis:
            raise ParameterError(
                f"axis ({self.axis!r}) must name a column and how its times are read."
            )
        for name, value in (("first", self.first), ("last", self.last)):
            if isinstance(value, bool) or not isinstance(value, int):
                raise ParameterTypeError(
                    f"{name} must be a whole number of seconds since 1970; got {value!r}."
                )
        if (self.first, self.last) == (NULL_FIRST, NULL_LAST):
            return
        for name, value in (("first", self.first), ("last", self.last)):
            if not -FARTHEST < value < FARTHEST:
                raise ParameterError(f"{name} ({value!r}) must be less than 2**47 s from 1970.")
        if self.first >= self.last:
            raise ParameterError(
                f"first ({self.first!r}) must be before last ({self.last!r}), the first second "
                "after the block."
            )

    @classmethod
    def of_null(cls, axis: str) -> Blocks:
        """The block of the records whose time is NULL."""
        return cls(axis=axis, first=NULL_FIRST, last=NULL_LAST)

    @property
    def is_null(self) -> bool:
        """Whether this is the block of NULL times."""
        return self.first == NULL_FIRST

    def overlaps(self, other: Blocks) -> bool:
        """Whether a record may be in both blocks: always, if their axes differ."""
        return self.axis != other.axis or (self.first < other.last and other.first < self.last)


def block_text(first: int, last: int) -> str:
    """A stretch of an axis as people read it: its first moment, and the first moment after it."""
    if (first, last) == (NULL_FIRST, NULL_LAST):
        return "NULL"
    return f"{moment_text(first)} to before {moment_text(last)}"


def moment_text(seconds: int) -> str:
    """Seconds since 1970 as date and time, whatever the zone they are read in; "ever" for an end of
    the axis."""
    if seconds <= NULL_LAST or seconds >= FARTHEST:
        return "ever"
    try:
        time = datetime(1970, 1, 1) + timedelta(seconds=seconds)
    except OverflowError:
        return f"{seconds} s since 1970"
    whole_day = (time.hour, time.minute, time.second) == (0, 0, 0)
    return time.date().isoformat() if whole_day else time.isoformat(sep=" ")


Span = tuple[int, int, Units]
"""The first second, the second after the last, and what was charged for the seconds between."""


def stretches(charges: Iterable[Span]) -> list[tuple[int, int, Units, int]]:
    """Stretches of time that the same charges read, in order: begin, end, and the cost and number
    of these charges."""
    events = sorted(
        event
        for first, last, (epsilon, delta) in charges
        for event in ((first, 1, epsilon, delta), (last, -1, -epsilon, -delta))
    )
    found: list[tuple[int, int, Units, int]] = []
    number = epsilon = delta = since = 0
    for time, now in groupby(events, key=lambda event: event[0]):
        if number:
            found.append((since, time, (epsilon, delta), number))
        for _, one, e, d in now:
            number, epsilon, delta = number + one, epsilon + e, delta + d
        since = time
    return found


def worst_window(charges: Sequence[Span], seconds: int) -> Units:
    """The largest cost of all charges that touch one window of ``seconds`` seconds, wherever it
    begins.

    A window that begins at s touches [first, last) if first - seconds < s < last, and s need not be
    a whole second: between k and k + 1 it does for first - seconds <= k < last. NULL times are in
    no window with other times; all of them together count as one more window.
    """
    times = [(first - seconds, last, cost) for first, last, cost in charges if first != NULL_FIRST]
    null = [span for span in charges if span[0] == NULL_FIRST]
    sums = [sums for *_, sums, _ in (*stretches(times), *stretches(null))]
    return max((e for e, _ in sums), default=0), max((d for _, d in sums), default=0)


def fullest_moment(charges: Iterable[tuple[int, int, Fraction]]) -> Fraction:
    """The most that charges (first, last, cost) spend at any moment; 0 without charges."""
    events = sorted(
        event for first, last, cost in charges for event in ((first, cost), (last, -cost))
    )
    return max(accumulate(cost for _, cost in events), default=Fraction(0))


BITS = 6
"""A node has up to 2**BITS children: few levels, and groups that take one read."""

ROOT = 8
"""Level of the root, which is in the last entry; 2**(BITS * ROOT) places hold every second."""


class Node(NamedTuple):
    """Sums over the moments below a node, and the largest running sums over these moments, in units
    of the store."""

    epsilon: int
    delta: int
    top_epsilon: int
    top_delta: int
    digest: str

    @property
    def top(self) -> Units:
        return self.top_epsilon, self.top_delta


class Top(NamedTuple):
    """What the fullest block of an axis has spent, and the digest of its root."""

    epsilon: int
    delta: int
    digest: str


LEAST = -(2**63)
"""Below every sum."""

NOTHING = Node(0, 0, 0, 0, "")


def tops_of(text: str | None) -> dict[str, Top]:
    """The fullest block of every axis, from the text in an entry; none in older formats."""
    return {axis: Top(*top) for axis, top in json.loads(text or "{}").items()}


def parent_node(children: Iterable[tuple[int, Node]]) -> Node:
    """The parent of these nodes, pairs of place and node in the order of places."""
    epsilon = delta = 0
    top_epsilon = top_delta = LEAST
    written = []
    for place, (e, d, most_e, most_d, digest) in children:
        top_epsilon = max(top_epsilon, epsilon + most_e)
        top_delta = max(top_delta, delta + most_d)
        epsilon += e
        delta += d
        written.append((place, e, d, most_e, most_d, digest))
    if not written:
        return NOTHING
    digest = hashlib.sha256(repr(written).encode()).hexdigest()[:32]
    return Node(epsilon, delta, top_epsilon, top_delta, digest)


def moment_node(epsilon: int, delta: int) -> Node:
    """The node of a single moment, from what begins there less what ends there."""
    return Node(epsilon, delta, epsilon, delta, "")


def build_nodes(charges: Iterable[tuple[int, int, Units]]) -> dict[tuple[int, int], Node]:
    """All nodes of an axis, by level and place, from what was charged: first, last and cost."""
    moments: dict[int, Units] = {}
    for first, last, (epsilon, delta) in charges:
        for time, sign in ((first, 1), (last, -1)):
            e, d = moments.get(time + FARTHEST, (0, 0))
            moments[time + FARTHEST] = e + sign * epsilon, d + sign * delta
    level = [(place, moment_node(*moments[place])) for place in sorted(moments)]
    nodes = {(0, place): node for place, node in level}
    for height in range(1, ROOT + 1):
        level = [
            (up, parent_node(group)) for up, group in groupby(level, key=lambda one: one[0] >> BITS)
        ]
        nodes |= {(height, place): node for place, node in level}
    return nodes


class Segments:
    """The trees of a ledger within one transaction; without ``db``, of a ledger without trees."""

    def __init__(self, db: sqlite3.Connection | None, tops: dict[str, Top]) -> None:
        self._db = db
        self.tops = dict(tops)
        self._groups: dict[tuple[str, int, int], dict[int, Node]] = {}
        self._known_fullest: dict[Blocks, Units] = {}

    def top(self, axis: str) -> Units:
        """What the fullest block of an axis has spent."""
        top = self.tops.get(axis, NOTHING)
        return top[:2] if isinstance(top, Top) else (0, 0)

    def fullest(self, blocks: Blocks) -> Units:
        """The most epsilon, and the most delta, that any moment of these blocks has spent."""
        if blocks not in self._known_fullest:
            sums = [sums for sums, *_ in self._largest_sums(blocks.axis, blocks.first, blocks.last)]
            most = max(e for e, _ in sums), max(d for _, d in sums)
            self._known_fullest[blocks] = most
        return self._known_fullest[blocks]

    def stretch(self, axis: str, first: int, last: int, which: int) -> tuple[int, int]:
        """The part between ``first`` and ``last`` in which the sum of epsilon (``which`` 0) or of
        delta (1) is largest: from, to."""
        sums, level, place, before = max(
            self._largest_sums(axis, first, last), key=lambda found: found[0][which]
        )
        begin = first
        while level > 0:
            for at, child in self._children(axis, level, place).items():
                if before[which] + child.top[which] == sums[which]:
                    level, place = level - 1, at
                    break
                before = before[0] + child.epsilon, before[1] + child.delta
        if level == 0:
            begin = place - FARTHEST
        found = self._rows(
            "SELECT min(place) FROM segments WHERE axis = ? AND level = 0 AND place > ?",
            (axis, begin + FARTHEST),
        )
        end = found[0][0] if found else None
        return begin, last if end is None else min(last, end - FARTHEST)

    def add(self, blocks: Blocks, cost: Units) -> str:
        """Write a charge. Return ``tops`` as the text that the entry stores."""
        axis, changed = blocks.axis, set()
        before = self.fullest(blocks)
        self._known_fullest = {blocks: (before[0] + cost[0], before[1] + cost[1])}
        for time in (blocks.first, blocks.last):
            self._sum_to(axis, time)  # reads and checks the whole path
        for time, sign in ((blocks.first, 1), (blocks.last, -1)):
            place = time + FARTHEST
            group = self._groups[axis, 1, place >> BITS]
            was = group.get(place, NOTHING)
            group[place] = moment_node(was.epsilon + sign * cost[0], was.delta + sign * cost[1])
            changed.add(place)
        rows = []
        for level in range(ROOT):
            for place in changed:
                if level:
                    group = dict(sorted(self._groups[axis, level, place].items()))
                    self._groups[axis, level, place], node = group, parent_node(group.items())
                    self._groups.setdefault((axis, level + 1, place >> BITS), {})[place] = node
                else:
                    node = self._groups[axis, 1, place >> BITS][place]
                rows.append((axis, level, place, *node))
            changed = {place >> BITS for place in changed}
        if self._db is not None:
            self._db.executemany(WRITE, rows)
        group = dict(sorted(self._groups[axis, ROOT, 0].items()))
        self._groups[axis, ROOT, 0], root = group, parent_node(group.items())
        self.tops[axis] = Top(root.top_epsilon, root.top_delta, root.digest)
        return json.dumps(self.tops)

    def check(self, charges: dict[str, list[tuple[int, int, Units]]]) -> None:
        """Compare all trees with the charges of the history; LedgerError if they differ."""
        if charges.keys() != self.tops.keys():
            raise damage_error("its axes differ from its history")
        count = 0
        for axis, of_axis in charges.items():
            nodes = build_nodes(of_axis)
            root = nodes.pop((ROOT, 0))
            count += len(nodes)
            rows = self._rows(f"SELECT level, place, {NODE} FROM segments WHERE axis = ?", (axis,))
            written = {(level, place): node for level, place, *node in rows}
            if written != {key: list(node) for key, node in nodes.items()} or (
                self.tops[axis] != root[2:]
            ):
                raise damage_error("the spending of its blocks differs from its history")
        if [(count,)] != self._rows("SELECT count(*) FROM segments", ()):
            raise damage_error("its blocks differ from its history")

    def _rows(self, query: str, values: tuple[object, ...]) -> list[Any]:
        return [] if self._db is None else self._db.execute(query, values).fetchall()

    def _children(self, axis: str, level: int, place: int) -> dict[int, Node]:
        """The children of a node, which is the root or was read as a child before."""
        if (axis, level, place) not in self._groups:
            first = place << BITS
            rows = self._rows(
                f"SELECT place, {NODE} FROM segments WHERE axis = ? AND level = ? "
                "AND place BETWEEN ? AND ? ORDER BY place ASC NULLS FIRST",
                (axis, level - 1, first, first + 2**BITS - 1),
            )
            group = {row[0]: Node(*row[1:]) for row in rows}
            if parent_node(group.items()) != self._stored_node(axis, level, place):
                raise damage_error("the spending of its blocks was changed")
            self._groups[axis, level, place] = group
        return self._groups[axis, level, place]

    def _stored_node(self, axis: str, level: int, place: int) -> Node:
        """A node as stored with its parent's children, or the root as the last entry stores it."""
        if level < ROOT:
            return self._groups[axis, level + 1, place >> BITS].get(place, NOTHING)
        return Node(0, 0, *self.tops[axis]) if axis in self.tops else NOTHING

    def _sum_to(self, axis: str, time: int) -> Units:
        """What a moment has spent."""
        moment = time + FARTHEST
        epsilon = delta = 0
        for level in range(ROOT, 0, -1):
            path = moment >> BITS * (level - 1)
            for place, child in self._children(axis, level, moment >> BITS * level).items():
                if place < path or (level == 1 and place == path):
                    epsilon, delta = epsilon + child.epsilon, delta + child.delta
        return epsilon, delta

    def _largest_sums(
        self, axis: str, first: int, last: int
    ) -> Iterator[tuple[Units, int, int, Units]]:
        """Sums of which the largest is the most that is spent between ``first`` and ``last``.

        These are the sum at ``first``, and the largest sum in each node in between.

        Each comes with level, place and what was spent before; level -1 is the beginning itself.
        """
        yield self._sum_to(axis, first), -1, first, (0, 0)
        open_, low, high = [(ROOT, 0, (0, 0))], first + FARTHEST + 1, last + FARTHEST
        while open_:
            level, place, before = open_.pop()
            for at, child in self._children(axis, level, place).items():
                begin, end = at << BITS * (level - 1), (at + 1) << BITS * (level - 1)
                if low <= begin and end <= high:
                    sums = before[0] + child.top_epsilon, before[1] + child.top_delta
                    yield sums, level - 1, at, before
                elif begin < high and low < end:
                    open_.append((level - 1, at, before))
                before = before[0] + child.epsilon, before[1] + child.delta


NODE = "epsilon, delta, top_epsilon, top_delta, digest"
WRITE = (
    f"INSERT INTO segments (axis, level, place, {NODE}) VALUES (?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT DO UPDATE SET epsilon = excluded.epsilon, delta = excluded.delta, "
    "top_epsilon = excluded.top_epsilon, top_delta = excluded.top_delta, digest = excluded.digest"
)
