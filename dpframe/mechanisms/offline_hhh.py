"""Offline hierarchical heavy hitters with bounded integer noise, and counts of what is reported.

Source: Biswas, Cormode, Kanza, Srivastava and Zhou, "Differentially Private Hierarchical Heavy
Hitters" (2024), Algorithm 1, made sound. Neighbours: one record, or the shares of one user.
A record moves the residual of every node on its path by at most 1, until the first selected
node on that path takes the record out.

Deviations from the printed algorithm, each needed or better:

* no shared gamma (lines 2 and 10): it does not protect a path (docs/soundness.md); the test
  noise of each node carries the whole cost, its left half scaled for all h levels;
* bounded integer noise instead of a tail bound (lines 1, 9 and 12), so that coverage is
  certain and nodes below ``threshold - bound`` need not be looked at;
* with ``remainder`` the residual of the root is released too, always and untested.

*Cells.* The nodes of a path are a special case of the cells of several hierarchies. Kinds of cells
are asked one after the other; of one hierarchy, kinds are its levels. The order is public, and no
kind comes before a kind that refines it. *The first selected cell takes all of its records that no
cell has taken yet.* So the residual of every cell above a record moves by at most 1 until the
record is taken, the residual of every other cell does not move, and a record has at most one cell
of a kind. Therefore the recursion over a path holds with the number of kinds in the place of its
height (docs/guarantees.md). Records whose cell is below the band stay: that cell is not selected,
and they count for the cells above it.

**Counts** of every node are sums of the residuals released below.

The offline mechanism releases a noisy residual for every reported node and for the total. The count
of a node is the sum of the residuals released at or below it, so counts add up by themselves. Nodes
above a reported node are listed too. All of this is post-processing: it costs nothing beyond the
release of the heavy hitters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpframe.accounting.compose import Profile
from dpframe.accounting.path_recursion import (
    LONGEST_TABLE,
    Laws,
    linear_delta,
    linear_parts,
    path_delta,
)
from dpframe.accounting.tree_levels import pure_profile
from dpframe.counts import (
    Counts,
    CountTree,
    Ints,
    Nodes,
    NoisyNodes,
    NoisyTree,
    groups_in_cells,
    keys_of_places,
    rows_of,
)
from dpframe.hierarchy import Kind
from dpframe.noise import NoiseTable
from dpframe.postprocess.joint_noise import half_width

Groups = NDArray[np.int64]
"""Positions of groups of records."""

DENSE = 4
"""Cells are counted in a table of all possible cells if there are at most this many times as many
possible cells as groups, or at most a million."""


def cost(laws: Laws, *, height: int, epsilon: float, remainder: bool) -> float:
    """Return an upper bound on delta of one release at ``epsilon``, from the tables drawn from."""
    if has_profile(laws):
        return path_delta(
            laws.test, laws.release, height=height, epsilon=epsilon, remainder=remainder
        )
    return max(
        linear_delta(
            laws.test,
            laws.release,
            right=laws.right,
            left=laws.left,
            release_scale=laws.release_scale,
            height=height,
            grid=laws.grid,
        )
    )


def has_profile(laws: Laws) -> bool:
    """Whether ``cost`` is computed at its ``epsilon``. If not, it is the same bound for every
    ``epsilon``, and holds for the epsilon that the laws were made for."""
    return laws.grid == 1 and len(laws.test.weights) <= LONGEST_TABLE


def selection_profiles(laws: Laws, *, height: int) -> tuple[Profile, Profile]:
    """Return the profile of the tests and the profile of the released numbers.

    Each profile holds also if questions depend on all earlier answers. Both are upper bounds for
    laws for which ``has_profile`` is False, too.
    """
    tests, releases = linear_parts(
        laws.test,
        laws.release,
        right=laws.right,
        left=laws.left,
        release_scale=laws.release_scale,
        height=height,
        grid=laws.grid,
    )
    return pure_profile(*tests), pure_profile(*releases)


def run(
    counts: Counts,
    *,
    test: NoiseTable,
    release: NoiseTable,
    threshold: int,
    remainder: bool,
    kinds: Sequence[Kind] | None = None,
    band: int = 1,
    totals: NoiseTable | None = None,
) -> NoisyNodes:
    """Select and release, finest kind first; all quantities in units of the grid.

    ``kinds`` are the levels of one hierarchy by default. No noise lifts a cell below the ``band``
    over the threshold. With ``totals`` the whole counts of the selected cells are released, too,
    each with a draw of ``totals``. The selection is public by then. A record is in one cell of each
    kind, and in the total. So it moves at most one whole count for each kind, and one more, each by
    1.
    """
    kinds = level_kinds(counts) if kinds is None else kinds
    kind, places, residual = select(
        counts, kinds=kinds, test=test, threshold=threshold, remainder=remainder, band=band
    )
    whole = None
    if totals is not None:
        whole = whole_counts(counts, kinds, kind, places) + totals.draw(len(kind))
    nodes = selected_nodes(counts, kinds, kind, places)
    noisy = sum_released_residuals(nodes, residual + release.draw(len(residual)))  # line 12
    return noisy if whole is None else replace(noisy, whole=whole)


def level_kinds(counts: Counts) -> list[Kind]:
    """Return the levels of the nodes of one hierarchy, as kinds of cells, finest first."""
    (axis,) = counts.axes
    return [(level,) for level in range(int(axis.level.max(initial=0)), 0, -1)]


def select(
    counts: Counts,
    *,
    kinds: Sequence[Kind],
    test: NoiseTable,
    threshold: int,
    remainder: bool,
    band: int = 1,
) -> tuple[Ints, Ints, Ints]:
    """Return the kinds of the selected cells, their nodes (one column an axis), and their true
    residuals, which are private.

    Cells are in the order of their kinds; nodes of one hierarchy are in the order of the tree.
    """
    nested, deepest = len(counts.axes) == 1, int(counts.axes[0].level.max(initial=0))
    able = [] if nested else _groups_at_band(counts, kinds, band)
    left, found = counts.own_counts.copy(), list[tuple[Ints, Ints, Ints]]()
    for number, kind in enumerate(kinds):  # line 4
        if nested and kind[0] > deepest:
            continue  # nothing to test
        if nested:
            residual, take = _test_nodes(counts.axes[0], left, kind[0])  # line 5
        else:
            residual, take = _test_cells(counts, left, kind, able[number], band)
        noisy = residual + test.draw(len(residual))  # line 9
        top = (residual >= max(band, 1)) & (noisy >= threshold)  # lines 7 and 10
        nodes = take(top)  # line 11
        found.append((np.full(len(nodes), number), nodes, residual[top]))
    if remainder:
        root = np.zeros((1, len(counts.axes)), dtype=np.int64)
        found.append((np.array([len(kinds)]), root, np.array([left.sum()])))
    if not found:
        none = np.zeros(0, dtype=np.int64)
        return none, none.reshape(0, len(counts.axes)), none
    numbers, places, residuals = map(np.concatenate, zip(*found, strict=True))
    if not nested:
        return numbers, places, residuals
    order = np.argsort(places[:, 0])
    return numbers[order], places[order], residuals[order]


Take = Callable[[NDArray[np.bool_]], Ints]
"""Takes the records of selected cells; returns the nodes of these cells, one column an axis."""


def _test_nodes(tree: CountTree, left: Ints, level: int) -> tuple[Ints, Take]:
    """Return the residuals of all nodes of a level, whose records lie there by now.

    Records that no node takes are passed up, so that a tree is walked once.
    """
    here = tree.at_level(level)
    residual = left[here]

    def take(top: NDArray[np.bool_]) -> Ints:
        left[here] = 0
        np.add.at(left, tree.parent[here], np.where(top, 0, residual))
        return here[top][:, None]

    return residual, take


def _test_cells(
    counts: Counts, left: Ints, kind: Kind, able: NDArray[np.bool_], band: int
) -> tuple[Ints, Take]:
    """Return the residuals of the cells of a kind that reach the band."""
    groups = np.flatnonzero(able & (left > 0))
    cell, size = _cell_numbers(counts, kind, groups)
    residual = _records_by_cell(counts, groups, cell, size)
    asked = np.flatnonzero(residual >= max(band, 1))  # numbers without a cell have no records

    def take(top: NDArray[np.bool_]) -> Ints:
        nodes, taken = _nodes_and_groups(counts, kind, groups, cell, asked[top], size)
        left[taken] = 0  # by the first selected cell
        return nodes

    return residual[asked], take


def selected_nodes(counts: Counts, kinds: Sequence[Kind], kind: Ints, places: Ints) -> Nodes:
    """Return selected cells as nodes that are reported; no cell has an ancestor."""
    if len(counts.axes) == 1:
        chosen = np.zeros(len(counts.axes[0].level), dtype=np.bool_)
        chosen[places[:, 0]] = True
        return counts.axes[0].chosen_nodes(chosen)
    return Nodes(
        level=len(kinds) - kind,
        ancestor=np.full(len(kind), -1, dtype=np.int64),
        keys=keys_of_places(counts, places),
    )


def sum_released_residuals(nodes: Nodes, residual: Ints) -> NoisyNodes:
    """Add up the released residuals at or below each selected node, its unconditional count.

    This is post-processing.
    """
    count, terms = residual.copy(), np.ones(len(residual), dtype=np.int64)
    for depth in range(int(nodes.level.max(initial=0)), 0, -1):
        here = np.flatnonzero((nodes.level == depth) & (nodes.ancestor >= 0))
        np.add.at(count, nodes.ancestor[here], count[here])
        np.add.at(terms, nodes.ancestor[here], terms[here])
    return NoisyNodes(
        level=nodes.level,
        ancestor=nodes.ancestor,
        keys=nodes.keys,
        residual=residual,
        count=count,
        terms=terms,
    )


def whole_counts(counts: Counts, kinds: Sequence[Kind], kind: Ints, nodes: Ints) -> Ints:
    """Count all records of the given cells, also those taken by other cells. Private."""
    whole = np.full(len(kind), counts.own_counts.sum(), dtype=np.int64)
    for number in np.unique(kind[kind < len(kinds)]).tolist():
        here = np.flatnonzero(kind == number)
        groups, row = groups_in_cells(counts, kinds[number], nodes[here])
        whole[here] = 0
        np.add.at(whole, here[row], counts.own_counts[groups])
    return whole


def _groups_at_band(counts: Counts, kinds: Sequence[Kind], band: int) -> list[NDArray[np.bool_]]:
    """Return for every kind a mask of the groups whose cell may reach the band; other cells do not.

    Where that saves work, cells are counted: those whose coarser cells may all reach the band.
    """
    able: list[NDArray[np.bool_]] = []
    sparse = not _dense(
        counts.own_counts, _possible_cells(counts)
    )  # else checks cost as much as asking
    for place in range(len(kinds) - 1, -1, -1):
        kind = kinds[place]
        inside = np.ones(len(counts.own_counts), dtype=np.bool_)
        for number, level in enumerate(kind):
            alone = tuple(level if d == number else 0 for d in range(len(kind)))
            if level and (alone == kind or alone not in kinds):  # else ``alone`` decides, below
                axis, places = counts.axes[number], counts.places[number]
                inside &= (axis.ancestors_at(level) >= 0)[places]
        for other, known in zip(kinds[:place:-1], able, strict=True):
            if all(a <= b for a, b in zip(other, kind, strict=True)):
                inside &= known
        # a node of one axis reaches the band; the first kind is counted when it is asked, and no
        # kind is finer
        if sparse and band > 1 and place and sum(map(bool, kind)) > 1:
            groups = np.flatnonzero(inside)
            cell, size = _cell_numbers(counts, kind, groups)
            inside[groups] = (_records_by_cell(counts, groups, cell, size) >= band).take(cell)
        able.append(inside)
    return able[::-1]


def _cell_numbers(counts: Counts, kind: Kind, groups: Groups) -> tuple[Ints, int]:
    """Number the cell of every group, in the order of nodes; return the numbers and their bound.

    In a small table some numbers below the bound have no cell.
    """
    code, size = _cell_codes(counts, kind, groups)
    return (code, size) if _dense(code, size) else _dense_ranks(code, size)


def _nodes_and_groups(
    counts: Counts, kind: Kind, groups: Groups, cell: Ints, top: Ints, size: int
) -> tuple[Ints, Groups]:
    """Return the nodes of the cells ``top``, one column an axis, and the groups in them."""
    chosen, one = np.zeros(size, dtype=np.bool_), np.empty(size, dtype=np.int64)
    chosen[top] = True
    inside = np.flatnonzero(chosen.take(cell))
    taken = groups[inside]
    one[cell[inside]] = taken  # any group of the cell
    pairs = zip(counts.axes, counts.places, kind, strict=True)
    nodes = [axis.ancestors_at(level)[places[one[top]]] for axis, places, level in pairs]
    return np.stack(nodes, axis=1), taken


def _possible_cells(counts: Counts) -> int:
    """Return how many cells one kind can have at most."""
    return math.prod(
        max(axis.ranks_at(level)[1] for level in range(int(axis.level.max()) + 1))
        for axis in counts.axes
    )


def _cell_codes(counts: Counts, kind: Kind, groups: Groups) -> tuple[Ints, int]:
    """Return a code for the cell of every group, and how many codes are possible."""
    code, size = np.zeros(len(groups), dtype=np.int64), 1
    for axis, places, level in zip(counts.axes, counts.places, kind, strict=True):
        if not level:
            continue
        rank, number = axis.ranks_at(level)
        if size == 1:
            code = rank.astype(np.int64).take(_take_groups(places, groups))
        else:
            if size * number >= 2**62:
                code, size = _dense_ranks(code, size)
            code *= number
            code += rank.take(_take_groups(places, groups))
        size *= number
    return code, size


def _records_by_cell(counts: Counts, groups: Groups, cell: Ints, number: int) -> Ints:
    """Return how many records of these groups each cell has."""
    added = np.zeros(number, dtype=np.int64)
    np.add.at(added, cell, _take_groups(counts.own_counts, groups))
    return added


def _take_groups(column: NDArray[Any], groups: Groups) -> NDArray[Any]:
    """Take the values of ``groups``; without a copy if these are all groups."""
    return column if len(groups) == len(column) else column.take(groups)


def _dense(code: Ints, size: int) -> bool:
    """Whether a table of all numbers below ``size`` is worth its memory."""
    return size <= max(DENSE * len(code), 2**20)


def _dense_ranks(code: Ints, size: int) -> tuple[Ints, int]:
    """Return the ranks of numbers below ``size``, and how many different numbers there are."""
    if not _dense(code, size):
        different, rank = np.unique(code, return_inverse=True)
        return rank, len(different)
    there = np.zeros(size, dtype=np.bool_)
    there[code] = True
    place = np.cumsum(there) - 1
    return place.take(code), int(there.sum())


def run_hhh_counts(
    tree: CountTree,
    *,
    test: NoiseTable,
    release: NoiseTable,
    threshold: int,
    confidence: float,
    height: int,
) -> NoisyTree:
    """Release heavy hitters and the remainder; all quantities in units of the grid.

    With certainty, a node that is not reported holds at most ``threshold - test.lowest - 1`` units
    that no reported node below covers; intervals allow for these units.
    """
    _, places, residual = select(
        tree,
        kinds=level_kinds(tree),
        test=test,
        threshold=threshold,
        remainder=True,
    )
    return sum_residuals(
        tree,
        places[:, 0],
        residual + release.draw(len(residual)),
        noise=release,
        hidden=threshold - test.lowest - 1,
        confidence=confidence,
        height=height,
    )


def sum_residuals(
    tree: CountTree,
    reported: NDArray[np.int64],
    residual: NDArray[np.int64],
    *,
    noise: NoiseTable,
    hidden: int,
    confidence: float,
    height: int,
) -> NoisyTree:
    """Add up released residuals; read only positions and keys of released nodes from the tree."""
    n = len(tree.level)
    own, terms = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    own[reported], terms[reported] = residual, 1
    count, shown, bare = own.copy(), terms > 0, np.zeros(n, dtype=np.int64)
    is_reported = terms > 0
    for level in range(int(tree.level.max(initial=0)), 0, -1):
        here = np.flatnonzero((tree.level == level) & shown)
        above = tree.parent[here]
        shown[above] = True
        for values in (count, terms):
            np.add.at(values, above, values[here])
        np.add.at(bare, above, (~is_reported[here]).astype(np.int64))
    kept = np.flatnonzero(shown)
    rank = np.cumsum(shown) - 1
    halves = {int(k): half_width(noise, int(k), confidence) for k in np.unique(terms[kept])}
    half = np.array([halves[int(k)] for k in terms[kept]], dtype=np.int64)
    free = is_reported[kept]
    missing = np.where(free, 0, hidden)
    single = half_width(noise, 1, confidence)
    rest_high = np.where(free, own[kept] + single, hidden)
    rest_low = np.where(free, own[kept] - single - hidden * bare[kept], 0)
    return NoisyTree(
        level=tree.level[kept],
        parent=np.where(tree.parent[kept] >= 0, rank[tree.parent[kept]], -1),
        count=count[kept],
        lower=count[kept] - half,
        upper=count[kept] + half + missing,
        other=np.zeros(len(kept), dtype=np.bool_),
        open=tree.level[kept] < height,
        keys=rows_of(tree.keys, kept),
        rest=(np.maximum(rest_low, 0), np.maximum(rest_high, 0)),
        variance=np.maximum(terms[kept], 1) * noise.sd**2,
    )
