"""True counts of the nodes of a hierarchy, on the private side of a release."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpframe.errors import SourceError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class CountTree:
    """Nodes at or above the band, in preorder: the root first, every node after its ancestors.

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

    def at_level(self, depth: int) -> NDArray[np.int64]:
        """Positions of the nodes of one level."""
        return np.flatnonzero(self.level == depth)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoisyNodes:
    """What a mechanism released, one entry a reported node, root included. Public.

    ``ancestor`` is the position of the nearest reported ancestor, -1 if none. ``residual`` and
    ``count`` are in units of the grid. ``terms`` is the number of independent release noises
    in ``count``; 0 where the count was itself selected upon and no exact law is claimed.
    ``bounds`` are intervals that hold more than the noise of the count, ``sketch_error`` how far
    counts of each level may be below an upper estimate; both only for sketches.
    """

    level: NDArray[np.int64]
    ancestor: NDArray[np.int64]
    residual: NDArray[np.int64]
    count: NDArray[np.int64]
    terms: NDArray[np.int64]
    keys: tuple[pa.ChunkedArray, ...]
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


def python_integers(column: pa.ChunkedArray) -> NDArray[np.object_]:
    """Sums as Python's integers, which nothing overflows; NULL is 0."""
    out = np.zeros(len(column), dtype=object)
    try:  # most sums are small, and Arrow is far faster than Python is with decimals
        out[:] = pc.fill_null(column.cast(pa.int64()), 0).to_numpy()
    except pa.ArrowInvalid:
        out[:] = [0 if value is None else int(value) for value in column.to_pylist()]
    return out


def nearest_chosen(tree: CountTree, chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
    """For every chosen node its nearest strict ancestor that is chosen, as a position among the
    chosen ones; -1 if there is none."""
    nearest = tree.parent[chosen]
    while (passed := (nearest >= 0) & ~chosen[nearest]).any():
        nearest[passed] = tree.parent[nearest[passed]]
    rank = np.cumsum(chosen) - 1
    return np.where(nearest >= 0, rank[nearest], -1)
