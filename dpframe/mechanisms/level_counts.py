"""Noisy counts of every node: one noisy histogram a level, composed over the levels.

The additive mechanism of Ghazi, Kamath, Kumar, Manurangsi, Wu, "On Differentially Private Counting
on Trees" (2023), Corollary 15, with integer noise; where keys are unknown, as stability histograms
(Bun, Nissim and Stemmer, 2019). Neighbours: one record, which moves one count on each of the
levels 0 to h by 1, or one user, whose records together weigh 1.

*Known keys.* Every listed node is released, also with a count of 0. A listed node with listed
children gets an ``<other>`` node: the records below it that no listed child covers. It is on the
level of these children, so a record still moves one count a level, and every released node is one
that both neighbours have. Unbounded noise makes this pure.

*Unknown keys.* Think of noise on all nodes that either neighbour has; this is what the accounting
covers. A node is shown if its noisy count reaches the threshold of its level, or if the noisy count
of a node below it reaches its own; the total is always shown. What is shown is a function of these
noisy counts, and the function is the same for both neighbours: a node that only one neighbour has
counts at most 1 there, so bounded noise cannot lift it over the threshold, and a node above a shown
node is in both.

Deviations: exact composition instead of Lemmas 13 and 14; ancestors of shown nodes are shown with
their own noisy counts, so that counts can be made to add up.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe.accounting.losses import composed_profile
from dpframe.accounting.tree_levels import FINE_STEP, TreeLaws, laplace_slips
from dpframe.noise import NoiseTable, UnboundedNoise
from dpframe.postprocess.selection_intervals import (
    plain_interval,
    remainder_interval,
    selected_interval,
)
from dpframe.tree import CountTree, ListedNodes, NoisyTree


def cost(laws: TreeLaws, *, epsilon: float) -> float:
    """Return delta of all levels together: for Laplace tables at the epsilon of their scales, for
    other tables at ``epsilon``; 0 for unbounded noise."""
    tables = [n for n in laws.noises if isinstance(n, NoiseTable)]
    if not tables:
        return 0.0
    if laws.family == "laplace":
        return laplace_slips(tables, laws.scales, laws.grid)
    return composed_profile(tables, epsilons=(epsilon,), step=epsilon * FINE_STEP)[0][1]


def run_listed_counts(
    tree: CountTree, *, laws: TreeLaws, listed: ListedNodes, confidence: float
) -> NoisyTree:
    """Perturb every listed node and every ``<other>`` node."""
    above = _add_other_nodes(listed)
    count = np.zeros(len(above.level), dtype=np.int64)
    count[~above.other] = tree.count
    covered = np.zeros(len(count), dtype=np.int64)
    inner = ~above.other
    inner[0] = False  # the root is below nothing
    np.add.at(covered, above.parent[inner], count[inner])
    others = above.other
    count[others] = (count - covered)[above.parent[others]]
    noisy, half, variance = count.copy(), np.zeros_like(count), np.zeros(len(count))
    for level, noise in enumerate(laws.noises):
        here = np.flatnonzero(above.level == level)
        noisy[here] += noise.draw(len(here))
        variance[here] = noise.sd**2
        half[here] = noise_half_width(noise, confidence)
    return NoisyTree(
        level=above.level,
        parent=above.parent,
        count=noisy,
        lower=noisy - half,
        upper=noisy + half,
        other=others,
        open=np.zeros(len(count), dtype=np.bool_),
        keys=above.keys,
        variance=variance,
    )


def noise_half_width(noise: NoiseTable | UnboundedNoise, confidence: float) -> int:
    """Return half the width of the interval of a count with one draw of this noise."""
    if isinstance(noise, UnboundedNoise):
        return noise.half_width(confidence)
    low, _ = plain_interval(noise, np.zeros(1, dtype=np.int64), confidence)
    return -int(low[0])


def run_unknown_counts(
    tree: CountTree,
    *,
    laws: TreeLaws,
    thresholds: tuple[int, ...],
    confidence: float,
) -> NoisyTree:
    """Perturb every level; show nodes that reach their threshold, and all nodes above them."""
    height = len(laws.noises) - 1
    noisy = tree.count.copy()
    shown = np.zeros(len(noisy), dtype=np.bool_)
    below = np.zeros(len(noisy), dtype=np.bool_)  # has a shown descendant
    for depth in range(height, -1, -1):
        here = tree.at_level(depth)
        noisy[here] += laws.noises[depth].draw(len(here))
        shown[here] = (noisy[here] >= thresholds[depth]) | below[here] | (depth == 0)
        below[tree.parent[here[shown[here]]]] |= depth > 0
    # public from here on: hidden nodes carry no number
    kept = np.flatnonzero(shown)
    rank = np.cumsum(shown) - 1
    level, count, cut = tree.level[kept], noisy[kept], ~below[kept]
    cut[0] = False
    parent = np.where(tree.parent[kept] >= 0, rank[tree.parent[kept]], -1)
    lower, upper = np.empty_like(count), np.empty_like(count)
    rest = np.zeros((2, len(count)), dtype=np.int64)
    variance = np.empty(len(count))
    for depth, noise in enumerate(laws.noises):
        assert isinstance(noise, NoiseTable)
        at = level == depth
        variance[at] = noise.sd**2
        plain, own = at & ~cut, at & cut
        lower[plain], upper[plain] = plain_interval(noise, count[plain], confidence)
        lower[own], upper[own] = selected_interval(
            noise, thresholds[depth], count[own], confidence, least=1
        )
        if depth:
            rest += _rests(laws, thresholds, depth, level, parent, count, cut, confidence)
    return NoisyTree(
        level=level,
        parent=parent,
        count=count,
        lower=lower,
        upper=upper,
        other=np.zeros(len(count), dtype=np.bool_),
        open=level < height,
        keys=tuple(column.take(pa.array(kept)) for column in tree.keys),
        rest=(rest[0], rest[1]),
        variance=variance,
    )


def _rests(
    laws: TreeLaws,
    thresholds: tuple[int, ...],
    depth: int,
    level: NDArray[np.int64],
    parent: NDArray[np.int64],
    count: NDArray[np.int64],
    cut: NDArray[np.bool_],
    confidence: float,
) -> NDArray[np.int64]:
    """Return intervals, shape (2, nodes), for what parents of shown nodes at ``depth`` have outside
    these children; 0 for all other nodes."""
    out = np.zeros((2, len(count)), dtype=np.int64)
    here = np.flatnonzero(level == depth)
    parents, group = np.unique(parent[here], return_inverse=True)
    if len(parents):
        above, own = laws.noises[depth - 1], laws.noises[depth]
        assert isinstance(above, NoiseTable)
        assert isinstance(own, NoiseTable)
        out[:, parents] = remainder_interval(
            above,
            own,
            count[parents],
            count[here],
            group,
            cut[here],
            threshold=thresholds[depth],
            confidence=confidence,
        )
    return out


def _add_other_nodes(listed: ListedNodes) -> NoisyTree:
    """Return listed and ``<other>`` nodes; each ``<other>`` follows everything below its parent."""
    n = len(listed.level)
    last = np.arange(n)  # the last node of each subtree, in preorder
    for level in range(int(listed.level.max(initial=0)), 0, -1):
        here = np.flatnonzero(listed.level == level)
        np.maximum.at(last, listed.parent[here], last[here])
    rests = np.flatnonzero(listed.rest)
    # after the subtree; where several subtrees end, the deepest parent comes first
    at = np.concatenate([np.arange(n), last[rests]])
    other = np.concatenate([np.zeros(n, dtype=np.int64), np.ones(len(rests), dtype=np.int64)])
    depth = np.concatenate([listed.level, listed.level[rests] + 1])
    order = np.lexsort((-depth * other, other, at))
    new = np.empty(len(order), dtype=np.int64)
    new[order] = np.arange(len(order))
    parent = np.concatenate([listed.parent, rests])
    source = np.concatenate([np.arange(n), rests])[order]
    zeros = np.zeros(len(order), dtype=np.int64)
    return NoisyTree(
        level=depth[order],
        parent=np.where(parent[order] >= 0, new[parent[order]], -1),
        count=zeros,
        lower=zeros,
        upper=zeros,
        other=other[order] == 1,
        open=zeros == 1,
        keys=tuple(column.take(pa.array(source)) for column in listed.keys),
    )
