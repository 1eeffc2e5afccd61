"""True counts on the private side of a release, of one hierarchy or several; and what is released.

``Counts`` are disjoint groups of records, and for every axis, which is a hierarchy, the finest node
above each group. A ``CountTree`` is one axis, whose nodes are the groups; ``CellCounts`` have
several axes. Selection, segments and measures are written once, for both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpframe.errors import SourceError

Ints = NDArray[np.int64]
Places = NDArray[np.int32]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CountTree:
    """Nodes at or above the band: the root first, every node after its ancestors.

    The nodes of one hierarchy are in preorder, the nodes of an axis of cells level by level.

    Parameters
    ----------
    level
        int64, shape (n,); 0 is the root.
    parent
        int64, shape (n,); position of the parent, -1 for the root.
    count
        int64, shape (n,); units of the plan's grid under the node.
    keys
        Columns of length n that name a node together with its level, text or integers.
    types
        DuckDB's types of the columns that are read, in their order; none where nobody knows.
        Public.
    sums
        Further columns of length n, of whole numbers: sums under the node, NULL for 0.
    """

    level: NDArray[np.int64]
    parent: NDArray[np.int64]
    count: NDArray[np.int64]
    keys: tuple[pa.ChunkedArray, ...]
    types: tuple[str, ...] = ()
    sums: tuple[pa.ChunkedArray, ...] = ()

    def __repr__(self) -> str:
        return "CountTree(<private>)"

    @classmethod
    def from_preorder(
        cls,
        level: NDArray[np.int64],
        count: NDArray[np.int64],
        keys: tuple[pa.ChunkedArray, ...],
        types: tuple[str, ...] = (),
        sums: tuple[pa.ChunkedArray, ...] = (),
    ) -> CountTree:
        """The tree of nodes in preorder: a parent is the last node before that is a level higher.

        Raises SourceError if these are no counts of a tree: an accounting by paths would not
        hold for them.
        """
        parent = np.full(len(level), -1, dtype=np.int64)
        above = level == 0
        for depth in range(1, int(level.max(initial=0)) + 1):
            here = level == depth
            before = np.cumsum(above)[here]  # nodes one level higher, up to each node here
            positions = np.append(np.flatnonzero(above), -1)  # none before: the -1 at the end
            parent[here] = positions[before - 1]
            above = here
        below = np.zeros(len(level), dtype=np.int64)
        np.add.at(below, parent[1:], count[1:])
        if level[0] != 0 or (parent[1:] < 0).any() or (below > count).any():
            raise SourceError(
                "the rollup is no tree. The source changed while it was read, or the database "
                "compares values in a way unknown to dpframe."
            )
        return cls(level=level, parent=parent, count=count, keys=keys, types=types, sums=sums)

    def at_level(self, depth: int) -> Ints:
        """Positions of the nodes of one level."""
        return np.flatnonzero(self.level == depth)

    # -- as nodes of users, whose finest nodes are the groups --------------------------------------

    @property
    def counts(self) -> CountTree:
        return self

    @cached_property
    def finest(self) -> Ints:
        """The node of every group."""
        return np.arange(len(self.level))

    def nodes_above(self, found: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which nodes lie above ``found`` nodes; public where these are."""
        above = np.zeros(len(self.level), dtype=np.bool_)
        here = np.flatnonzero(found)
        while len(here):
            here = np.unique(self.parent[here])
            here = here[here >= 0]
            here = here[~above[here]]
            above[here] = True
        return above

    def chosen_nodes(self, chosen: NDArray[np.bool_]) -> Nodes:
        """The chosen nodes, each with its nearest chosen ancestor."""
        return Nodes(
            level=self.level[chosen],
            ancestor=nearest_chosen(self, chosen),
            keys=rows_of(self.keys, np.flatnonzero(chosen)),
        )

    def node_places(self, nodes: Ints) -> Ints:
        """Positions on the axis, one column."""
        return nodes[:, None]

    # -- as counts with one axis, whose nodes are the groups ---------------------------------------

    @property
    def axes(self) -> tuple[CountTree, ...]:
        return (self,)

    @property
    def places(self) -> tuple[Places, ...]:
        return (np.arange(len(self.level), dtype=np.int32),)

    @cached_property
    def own_counts(self) -> Ints:
        """Units under a node that are under none of its children."""
        return self._less_children(self.count)

    @property
    def own_sums(self) -> tuple[Wholes, ...]:
        """The sums of a node without the sums of its children."""
        return tuple(self._less_children(whole_numbers(column)) for column in self.sums)

    def _less_children(self, total: NDArray[Any]) -> NDArray[Any]:
        out, below = total.copy(), self.parent >= 0
        np.subtract.at(out, self.parent[below], total[below])
        return out

    @cached_property
    def _ancestors(self) -> Places:
        """Shape (n, levels + 1): for every node its ancestor at every level, itself at its own
        level, -1 at deeper levels."""
        shape = len(self.level), int(self.level.max(initial=0)) + 1
        table = np.full(shape, -1, dtype=np.int32, order="F")
        table[0, 0] = 0
        for depth in range(1, table.shape[1]):
            here = self.at_level(depth)
            table[here] = table[self.parent[here]]
            table[here, depth] = here
        return table

    def ancestors_at(self, level: int) -> Places:
        """For every node its ancestor at a level, -1 where there is none."""
        if level >= self._ancestors.shape[1]:
            return np.full(len(self.level), -1, dtype=np.int32)
        return self._ancestors[:, level]

    def ranks_at(self, level: int) -> tuple[Places, int]:
        """For every node the rank of its ancestor at a level among the nodes of that level, -1
        where there is none; and how many nodes the level has."""
        here = self.level == level
        rank = (np.cumsum(here) - 1).astype(np.int32)
        nodes = self.ancestors_at(level)
        return np.where(nodes >= 0, rank[nodes], np.int32(-1)), int(here.sum())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class CellCounts:
    """Disjoint groups of records: how many, and the finest node of each axis above them.

    Parameters
    ----------
    axes
        The nodes of every axis.
    places
        For every axis int32, shape (groups,): positions of nodes.
    own_counts
        int64, shape (groups,); units of the plan's grid.
    types
        DuckDB's types of the columns that are read. Public.
    own_sums
        What else was added up: for each a column of whole numbers of any size, shape (groups,).
    """

    axes: tuple[CountTree, ...]
    places: tuple[Places, ...]
    own_counts: Ints
    types: tuple[str, ...] = ()
    own_sums: tuple[Wholes, ...] = ()

    def __repr__(self) -> str:
        return "CellCounts(<private>)"

    def check_sums(self) -> CellCounts:
        """Raise SourceError unless the groups add up to what every node counts: a record in two
        groups would pay twice."""
        for axis, place in zip(self.axes, self.places, strict=True):
            of_groups = np.zeros(len(axis.level), dtype=np.int64)
            np.add.at(of_groups, place, self.own_counts)
            for depth in range(int(axis.level.max(initial=0)), 0, -1):
                here = axis.at_level(depth)
                np.add.at(of_groups, axis.parent[here], of_groups[here])
            if (of_groups != axis.count).any():
                raise SourceError(
                    "the cells do not add up. The source changed while it was read, or the "
                    "database compares values in a way unknown to dpframe."
                )
        return self


Counts = CountTree | CellCounts
"""Groups of records on one axis or several."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CellNodes:
    """All cells of some kinds that have a group, as nodes of several levels. Private.

    The root comes first, then the kinds in the reverse of their order: level 1 is asked last. A
    cell lies above another one where it is as coarse, or coarser, in every dimension.

    Parameters
    ----------
    counts
        The groups.
    kinds
        Kinds of cells, finest first.
    level
        int64, shape (n,).
    group
        int64, shape (n,); one group of every cell.
    lines
        For every level int32, shape (groups,): the cell of every group, -1 where it has none.
    """

    counts: CellCounts
    kinds: tuple[tuple[int, ...], ...]
    level: Ints
    group: Ints
    lines: tuple[Places, ...]

    def __repr__(self) -> str:
        return "CellNodes(<private>)"

    @classmethod
    def from_counts(cls, counts: CellCounts, kinds: tuple[tuple[int, ...], ...]) -> CellNodes:
        """All cells of ``kinds`` that a group is in, and the root, which is all of them."""
        size, groups = 1, len(counts.own_counts)
        lines, level, once = [np.zeros(groups, dtype=np.int32)], [np.zeros(1, dtype=np.int64)], []
        for number, kind in enumerate(reversed(kinds), 1):
            cell, inside = np.zeros(groups, dtype=np.int64), np.ones(groups, dtype=np.bool_)
            for axis, place, depth in zip(counts.axes, counts.places, kind, strict=True):
                node = axis.ancestors_at(depth)[place]
                inside &= node >= 0
                _, cell = np.unique(cell * len(axis.level) + node, return_inverse=True)
            here = np.flatnonzero(inside)
            _, first, cell = np.unique(cell[here], return_index=True, return_inverse=True)
            line = np.full(groups, -1, dtype=np.int32)
            line[here] = size + cell
            lines.append(line)
            level.append(np.full(len(first), number))
            once.append(here[first])
            size += len(first)
        return cls(
            counts=counts,
            kinds=kinds,
            level=np.concatenate(level),
            group=np.concatenate([np.zeros(1, dtype=np.int64), *once]),
            lines=tuple(lines),
        )

    @property
    def types(self) -> tuple[str, ...]:
        return self.counts.types

    @cached_property
    def finest(self) -> Ints:
        """The cell of every group that is asked first; the root where a group is in no cell."""
        cell = np.zeros(len(self.counts.own_counts), dtype=np.int64)
        for line in self.lines:
            cell = np.where(line >= 0, line, cell)
        return cell

    def ancestors_at(self, level: int) -> Places:
        """For every group its cell of a level, -1 where there is none."""
        return self.lines[level]

    def nodes_above(self, found: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which cells lie above ``found`` cells; public where these are."""
        above = np.zeros(len(self.level), dtype=np.bool_)
        levels = [(0,) * len(self.counts.axes), *reversed(self.kinds)]
        for level in np.unique(self.level[found]).tolist():
            groups = self.group[found & (self.level == level)]
            for coarser in range(level):
                if all(a <= b for a, b in zip(levels[coarser], levels[level], strict=True)):
                    above[self.lines[coarser][groups]] = True
        return above

    def chosen_nodes(self, chosen: NDArray[np.bool_]) -> Nodes:
        """The chosen cells; no cell has an ancestor, as several could be the nearest one."""
        rows = np.flatnonzero(chosen)
        places = self.node_places(rows)
        return Nodes(
            level=self.level[rows],
            ancestor=np.full(len(rows), -1, dtype=np.int64),
            keys=keys_of_places(self.counts, places),
        )

    def node_places(self, nodes: Ints) -> Ints:
        """Positions on the axes, one column an axis."""
        levels = np.array([(0,) * len(self.counts.axes), *reversed(self.kinds)], dtype=np.int64)
        depth, group = levels[self.level[nodes]], self.group[nodes]
        out = np.zeros(depth.shape, dtype=np.int64)
        for d, (axis, place) in enumerate(zip(self.counts.axes, self.counts.places, strict=True)):
            for level in np.unique(depth[:, d]).tolist():
                here = depth[:, d] == level
                out[here, d] = axis.ancestors_at(level)[place[group[here]]]
        return out


NodeSet = CountTree | CellNodes
"""The nodes that users have: of one hierarchy, or cells."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Nodes:
    """Reported nodes or cells. Public.

    ``level`` is 0 for the root; the kind of cells asked last is level 1. ``ancestor`` is the
    position of the nearest reported ancestor, -1 if none; no cell has one. ``keys`` has the key
    columns of all axes, one axis after the other.
    """

    level: Ints
    ancestor: Ints
    keys: tuple[pa.ChunkedArray, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoisyNodes(Nodes):
    """What a mechanism released, one entry a reported node or cell, root included. Public.

    ``residual`` and ``count`` are in units of the grid. ``terms`` is the number of independent
    release noises in ``count``; 0 where the count was itself selected upon and no exact law is
    claimed. ``whole`` counts all records of a cell, also those that other cells took.
    ``bounds`` are intervals of sketches, which hold more than the noise of the count, and of
    rounds; ``sketch_error`` is how far counts of each level may be below an upper estimate, only
    for sketches.
    """

    residual: Ints
    count: Ints
    terms: Ints
    whole: Ints | None = None
    bounds: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
    sketch_error: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ListedNodes:
    """Nodes that the caller lists, with all their ancestors, in preorder. Public.

    ``level``, ``parent`` and ``keys`` are as in :class:`CountTree`, keys as text. Below a node
    with ``rest`` True there may be records that no listed node covers: they count in an
    ``<other>`` node one level further down. ``name`` tells lists apart: equal lists have equal
    names.
    """

    level: NDArray[np.int64]
    parent: NDArray[np.int64]
    keys: tuple[pa.ChunkedArray, ...]
    rest: NDArray[np.bool_]
    name: str


@dataclass(frozen=True, kw_only=True, eq=False)
class ListedCells:
    """All cells of keys that the caller lists for each dimension. Public.

    ``axes`` have the keys of one dimension each, of one level. A part is a cell of all dimensions:
    parts are numbered from 1 on, the keys of the last dimension fastest; part 0 are the records
    with a value that is not listed. ``name`` tells lists apart.
    """

    axes: tuple[ListedNodes, ...]
    name: str

    @classmethod
    def of_sizes(cls, sizes: Sequence[int], name: str) -> ListedCells:
        """Cells of so many keys that nobody knows, from which a plan can be made again."""
        axes = (
            ListedNodes(
                level=np.minimum(np.arange(n + 1), 1),
                parent=np.minimum(np.arange(n + 1), 1) - 1,
                keys=(),
                rest=np.zeros(n + 1, dtype=np.bool_),
                name="",
            )
            for n in sizes
        )
        return cls(axes=tuple(axes), name=name)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many keys each dimension has."""
        return tuple(len(axis.level) - 1 for axis in self.axes)

    @cached_property
    def level(self) -> Ints:
        """The level of each part: 0 for what is not listed, 1 for cells."""
        return np.minimum(np.arange(math.prod(self.sizes) + 1), 1)

    @property
    def keys(self) -> tuple[pa.ChunkedArray, ...]:
        """The keys of all axes, one axis after the other, the root first."""
        return tuple(key for axis in self.axes for key in axis.keys)

    @property
    def ancestor(self) -> Ints:
        return self.level - 1

    @property
    def counts(self) -> CellCounts:
        """The axes without a group: nothing is counted yet."""
        none = np.zeros(0, dtype=np.int32)
        axes = (
            CountTree(level=a.level, parent=a.parent, count=np.zeros_like(a.level), keys=a.keys)
            for a in self.axes
        )
        return CellCounts(
            axes=tuple(axes), places=(none,) * len(self.axes), own_counts=np.zeros(0, np.int64)
        )

    def nodes(self, kinds: Sequence[tuple[int, ...]]) -> Nodes:
        """The total, then the cells of all ``kinds``, of which the last one has level 1."""
        order = [(0,) * len(self.axes), *reversed(kinds)]
        places = [
            np.indices([n if k else 1 for n, k in zip(self.sizes, kind, strict=True)])
            .reshape(len(kind), -1) + np.array(kind)[:, None]
            for kind in order
        ]  # fmt: skip
        level = np.repeat(np.arange(len(order)), [one.shape[1] for one in places])
        at = np.concatenate(places, axis=1)
        keys = (key.take(pa.array(at[d])) for d, a in enumerate(self.axes) for key in a.keys)
        ancestor = np.full(len(level), -1, dtype=np.int64)
        return Nodes(level=level, ancestor=ancestor, keys=tuple(keys))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoisyTree:
    """Released counts of nodes whose ancestors are all released, in preorder. Public.

    ``level`` and ``parent`` are as in :class:`CountTree`. ``count`` is in units of the grid, and
    ``lower`` and ``upper`` are an interval for the true count. ``other`` marks what no released
    sibling covers; such a node has the keys of its parent. ``open`` marks the nodes that could
    have children beside the released ones, so that children need not add up to them; ``rest`` is
    an interval for what is missing there, in nodes that have released children. ``variance`` says
    how much a count weighs when counts are made to add up.
    """

    level: NDArray[np.int64]
    parent: NDArray[np.int64]
    count: NDArray[np.int64]
    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    other: NDArray[np.bool_]
    open: NDArray[np.bool_]
    keys: tuple[pa.ChunkedArray, ...]
    rest: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
    variance: NDArray[np.float64] | None = None


Wholes: TypeAlias = NDArray[Any]
"""Whole numbers of any size: int64 where absolute values add up to less than 2**60, else Python's.
Either way they are exact."""

ROOM = 2.0**60
"""Twice the sum of absolute values below this, and noise besides, fit 64 bits."""


def shortest(values: NDArray[Any]) -> Wholes:
    """The same whole numbers, as int64 where they are ``Wholes`` of that type: far faster."""
    try:
        short = values.astype(np.int64, copy=False)
    except OverflowError:
        return values
    fits = np.abs(short.astype(np.float64)).sum() < ROOM
    return short if fits else values.astype(object)


def weighted_sum(a: int, x: Wholes, b: int, y: Wholes) -> Wholes:
    """a x + b y, exactly."""
    if x.dtype == y.dtype == np.int64 and max(abs(a), abs(b)) < ROOM:
        reach = (np.abs(each.astype(np.float64)).sum() for each in (x, y))
        if sum(abs(c) * r for c, r in zip((a, b), reach, strict=True)) < ROOM:
            short: Wholes = a * x + b * y
            return short
    return shortest(a * x.astype(object) + b * y.astype(object))


def whole_numbers(column: pa.ChunkedArray) -> Wholes:
    """A column of sums, which nothing overflows; NULL is 0."""
    try:  # most sums are small, and Arrow is far faster than Python is with decimals
        return shortest(pc.fill_null(column.cast(pa.int64()), 0).to_numpy())
    except pa.ArrowInvalid:
        held = [0 if value is None else int(value) for value in column.to_pylist()]
        out = np.empty(len(held), dtype=object)
        out[:] = held
        return out


def python_integers(column: pa.ChunkedArray) -> NDArray[np.object_]:
    """A column of sums as Python's integers; NULL is 0."""
    return whole_numbers(column).astype(object)


def different_values(column: pa.Array | pa.ChunkedArray) -> tuple[pa.Array, Ints]:
    """Every different value once, NULL too, and for each row the place of its value among these.
    A dictionary has NULL as a value; a value of it that no row has is left out."""
    coded = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if not isinstance(coded, pa.DictionaryArray):
        coded = coded.dictionary_encode(null_encoding="encode")
    different, place = coded.dictionary, coded.indices.to_numpy().astype(np.int64)
    seen = np.zeros(len(different), dtype=np.bool_)
    seen[place] = True
    if not seen.all():
        different, place = different.filter(pa.array(seen)), (np.cumsum(seen) - 1)[place]
    return different, place


def coded_values(different: pa.Array, place: Ints) -> pa.DictionaryArray:
    """The column whose row i has the value ``different[place[i]]``, each value written once."""
    return pa.DictionaryArray.from_arrays(place.astype(np.int32), different)


def rows_of(columns: Sequence[pa.ChunkedArray], rows: Ints) -> tuple[pa.ChunkedArray, ...]:
    """Rows of key columns. A dictionary keeps the values of these rows alone."""
    taken = (column.take(pa.array(rows)) for column in columns)
    return tuple(
        pa.chunked_array([coded_values(*different_values(column))])
        if pa.types.is_dictionary(column.type)
        else column
        for column in taken
    )


def ranks_of_values(values: pa.Array) -> Ints:
    """The ranks, from 0, of values that are all different; a missing value comes first."""
    ranks = np.empty(len(values), dtype=np.int64)
    order = pc.array_sort_indices(values, null_placement="at_start").to_numpy()
    ranks[order] = np.arange(len(values))
    return ranks


def order_of_rows(columns: Sequence[Ints]) -> Ints:
    """Positions of rows in the order of columns of numbers from 0 on, of which the first counts
    most; equal rows keep their order."""
    rows = len(columns[0])
    code, size = np.zeros(rows, dtype=np.int64), 1
    for column in (*columns, np.arange(rows)):
        most = int(column.max(initial=0)) + 1
        if size * most >= 2**63:
            different, code = np.unique(code, return_inverse=True)
            size = len(different)
        code = code * most + column
        size *= most
    return np.argsort(code)  # no two codes are equal


def nearest_chosen(tree: CountTree, chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
    """For every chosen node its nearest strict ancestor that is chosen, as a position among the
    chosen ones; -1 if there is none."""
    nearest = tree.parent[chosen]
    while (passed := (nearest >= 0) & ~chosen[nearest]).any():
        nearest[passed] = tree.parent[nearest[passed]]
    rank = np.cumsum(chosen) - 1
    return np.where(nearest >= 0, rank[nearest], -1)


def keys_of_places(counts: Counts, places: Ints) -> tuple[pa.ChunkedArray, ...]:
    """The key columns of all axes, at places with one column an axis."""
    return tuple(
        column
        for number, axis in enumerate(counts.axes)
        for column in rows_of(axis.keys, places[:, number])
    )


def groups_in_cells(
    counts: Counts, kind: Sequence[int], nodes: NDArray[np.integer[Any]]
) -> tuple[Ints, Ints]:
    """The groups in different cells of one kind, and for each group the row of its cell in
    ``nodes``, which has one column an axis."""
    inside = np.ones(len(counts.own_counts), dtype=np.bool_)
    # cells and groups by the numbers of their nodes; of the first axes, then of one more
    own, group = np.zeros(len(nodes), dtype=np.int64), np.zeros(len(inside), dtype=np.int64)
    for d, (axis, level) in enumerate(zip(counts.axes, kind, strict=True)):
        if not level:
            continue
        lines = axis.ancestors_at(level)[counts.places[d]].astype(np.int64)
        wide = len(axis.level)
        pairs, own = np.unique(own * wide + nodes[:, d], return_inverse=True)
        asked = group * wide + lines
        group = np.minimum(np.searchsorted(pairs, asked), len(pairs) - 1)
        inside &= (lines >= 0) & (pairs[group] == asked)
    row_of = np.zeros(len(nodes), dtype=np.int64)
    row_of[own] = np.arange(len(nodes))
    groups = np.flatnonzero(inside)
    return groups, row_of[group[groups]]


def segments(
    counts: Counts, kinds: Sequence[tuple[int, ...]], level: Ints, nodes: NDArray[np.integer[Any]]
) -> Ints:
    """For every group the row of the first reported cell that has it, 0 for the rest.

    ``kinds`` are asked one after the other; the last kind has level 1. ``nodes`` has one column an
    axis.
    """
    part = np.zeros(len(counts.own_counts), dtype=np.int64)
    free = np.ones(len(part), dtype=np.bool_)
    if len(counts.axes) == 1:  # of the nearest reported node
        tree, places = counts.axes[0], nodes[:, 0]
        part[places], free[places] = np.arange(len(nodes)), False
        for depth in range(1, int(tree.level.max(initial=0)) + 1):
            here = np.flatnonzero((tree.level == depth) & free)
            part[here] = part[tree.parent[here]]
        return part
    for number, kind in enumerate(kinds):
        here = np.flatnonzero(level == len(kinds) - number)
        if len(here):
            groups, row = groups_in_cells(counts, kind, nodes[here])
            first = free[groups]
            part[groups[first]] = here[row[first]]
            free[groups] = False
    return part
