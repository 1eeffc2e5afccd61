"""Noisy counts of every level: of records, of users, with a relative error, as histograms; and
of magnitudes, for bounds.

**Counts of every node** are one noisy histogram a level, composed over the levels.

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

**Numbers of different users**: each number at a node has noise of its own.

Neighbours: one user with all their records, who is counted once in the total and once at each of at
most ``times[l]`` nodes of level l. Which nodes these are depends on this user and a secret seed
alone. So a user moves at most T = sum of ``times`` counts by 1 each
(:mod:`dpframe.accounting.tree_levels`).

*Listed keys.* Every listed node is released, also a node without users. There are no ``<other>``
nodes: a user at a listed child can be beside it too, so children leave no remainder.

*Keys that are found.* Think of noise on every possible node. A node is shown if its own noisy count
reaches the threshold of its level; the total is always shown. This is one function of all noisy
counts. No noise is drawn for nodes that one user alone has or where no user takes part, whose count
is 1 or 0: the highest value of the noise plus 1 is below the threshold. Unlike in counts that add
up, no node is shown because of a node below it: above a shown node there can be a node where nobody
takes part.

Source: stability histograms (Bun, Nissim and Stemmer, 2019), one a level, with exact composition.

**Counts with a relative error** put each node between two thresholds.

Source: Ghazi, Kamath, Kumar, Manurangsi and Wu, "On Differentially Private Counting on Trees"
(2023), "CT": Algorithms 1 (classification) and 2 (reduction). Neighbours: one record, which moves
every node on one path by 1. Of use for very large counts only (docs/tree_counts.md).

How the printed algorithms are read here (each point is needed):

* c is a whole number in the scales, in Delta, in R and as the cut-off; after the c-th top the
  rest of the tree is bot (Algorithm 1, lines 2 and 6);
* ancestors become top in the same tree of F_i only (Algorithm 2, line 7), and F_(i-1) has all
  maximal subtrees of bot nodes of F_i, also subtrees that no top is near to (line 8).

Deviations, none of which changes what is promised:

* *Noise on whole numbers*, drawn exactly; R and delta are computed for the discrete law.
* *A band.* A node with w + R < tau - Delta - R cannot become top. f_i = max(band - 1, max over
  S_i of w_u) replaces line 5. It still has sensitivity 1, and the law of the output does not
  depend on nodes below the band, so these need not be fetched. Every level is asked about,
  also where no node is at the band, but not the root of a tree once it is top. Trees whose root
  is below the band stay bot and are not looked at. Accuracy is the same: band - 1 < tau - Delta,
  so in the event of Lemma 17 no answer top comes from the clamp, and where the clamped f_i is
  below tau + Delta the true f_i is, too.
* Counts are M_i rounded down, and at most ``largest``; true counts are whole and within both.

Privacy. Fix all that came before, hence the forest. A record changes one tree of the forest, and
in it one node of each level. *Sparse vector* (Dwork and Roth 2014, Algorithm 2 with delta = 0 for
epsilon' = epsilon_i/2; Lemma 17): thresholds carry Laplace noise of scale sigma = 2c/epsilon',
drawn afresh after every top, and queries carry noise of scale 2 sigma. For the answers up to and
with one top, replace the noise of the threshold by 1 more, which keeps every bot, and the noise of
the last query by 2 more, which keeps the top; on whole numbers that costs exactly
e^(1/sigma) e^(2/(2 sigma)) = e^(epsilon'/c). At most c such runs, the last possibly without a top,
cost epsilon'. *Tests* after a top: one count moves by 1. The law of its noise, moved by 1, exceeds
e^(epsilon_i/(2c)) times itself at one value only, which has the chance ``end_mass``. There are at
most c such tests. The chance of a transcript is a product of these factors, since no draw is used
in two factors. So step i is (epsilon_i, c end_mass)-private whatever was seen before, and the steps
together are (sum of epsilon_i, sum of c_i end_mass_i).

Accuracy (Lemma 23, Problem 18). For every node, with chance at least 1 - eta over all noise: if the
node is released, its count is in [lower, upper], else its count is below ``smallest_threshold``.
``lower`` is certain. The case that a tree stops at its c-th top is part of eta: it cannot happen
while all sparse vector noise is within Delta and no tree has more than M_i records. Accuracy needs
``largest`` to be true.

**The baseline** is a noisy histogram on every level, composed. Heavy hitters follow by
post-processing.

The textbook route (stability histograms: Bun, Nissim and Stemmer, 2019; the comparison of Biswas
et al., 2024, section 3). Neighbours: one record, which moves one count on each of the h levels,
and the total with ``remainder``. Bounded integer noise; noisy counts below ``bound + 2`` are not
shown, so a node that only one of two neighbours has is never shown.

Deviation: composition by privacy loss distributions instead of a sum over levels.

**Bounds that the caller does not know**, from a private histogram of magnitudes, looked at once.

Values, or the sums that users add up to, are counted by powers of two. One record, or one user, is
in one bin. So discrete Laplace noise of scale 1/epsilon on every bin, empty or not, is epsilon-DP
(Dwork, McSherry, Nissim, Smith, 2006; bins of powers of two as in Wilson et al., "Differentially
Private SQL with Bounded User Contribution", 2020, section 5.3.2, without their second look). The
bound is chosen from the noisy counts alone. It is the power of two at which the noise of a sum and
the loss by clipping cost least together.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe.accounting.losses import LevelLaws, composed_delta, composed_profile
from dpframe.accounting.relative_steps import RelativeLaws, Step, relative_delta
from dpframe.accounting.tree_levels import FINE_STEP, NodeLaws, TreeLaws, laplace_slips
from dpframe.counts import (
    CountTree,
    ListedNodes,
    NoisyNodes,
    NoisyTree,
    nearest_chosen,
    rows_of,
)
from dpframe.measures.measure import LARGEST, LEAST
from dpframe.noise import NoiseTable, UnboundedNoise, rounded_up, unbounded_laplace
from dpframe.postprocess.selection_intervals import (
    plain_interval,
    remainder_interval,
    selected_interval,
)


def level_counts_cost(laws: TreeLaws, *, epsilon: float) -> float:
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
        keys=rows_of(tree.keys, kept),
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


def user_counts_cost(laws: NodeLaws, *, epsilon: float) -> float:
    """Return delta for one user: for Laplace tables at the epsilon of their scales, for other
    tables at ``epsilon``; 0 for unbounded noise."""
    return level_counts_cost(laws.moved, epsilon=epsilon)


def run_listed_users(tree: CountTree, *, laws: NodeLaws, confidence: float) -> NoisyTree:
    """Perturb every listed node."""
    size = len(tree.level)
    noisy, half, variance = tree.count.copy(), np.zeros(size, dtype=np.int64), np.zeros(size)
    for level, noise in enumerate(laws.levels.noises):
        here = tree.at_level(level)
        noisy[here] += noise.draw(len(here))
        half[here] = noise_half_width(noise, confidence)
        variance[here] = noise.sd**2
    none = np.zeros(size, dtype=np.bool_)
    return NoisyTree(
        level=tree.level,
        parent=tree.parent,
        count=noisy,
        lower=noisy - half,
        upper=noisy + half,
        other=none,
        open=none,
        keys=tree.keys,
        variance=variance,
    )


def run_unlisted_users(
    tree: CountTree, *, laws: NodeLaws, thresholds: tuple[int, ...], confidence: float
) -> NoisyNodes:
    """Perturb every node; show the total, and nodes that reach the threshold of their level."""
    noisy = tree.count.copy()
    shown = tree.level == 0
    lower, upper = np.empty_like(noisy), np.empty_like(noisy)
    for level, noise in enumerate(laws.levels.noises):
        here = tree.at_level(level)
        noisy[here] += noise.draw(len(here))
        if level:
            shown[here] = noisy[here] >= thresholds[level]
            here = here[shown[here]]
        lower[here], upper[here] = _count_intervals(
            noise, level, thresholds[level], noisy[here], confidence
        )
    # public from here on: hidden nodes carry no number
    kept = np.flatnonzero(shown)
    return NoisyNodes(
        level=tree.level[kept],
        ancestor=np.full(len(kept), -1),
        residual=noisy[kept],
        count=noisy[kept],
        terms=np.zeros(len(kept), dtype=np.int64),
        keys=rows_of(tree.keys, kept),
        bounds=(lower[kept], upper[kept]),
    )


def _count_intervals(
    noise: NoiseTable | UnboundedNoise,
    level: int,
    threshold: int,
    noisy: NDArray[np.int64],
    confidence: float,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return intervals for true counts, given that the nodes are shown."""
    assert isinstance(noise, NoiseTable)
    if level == 0:
        return plain_interval(noise, noisy, confidence)
    return selected_interval(noise, threshold, noisy, confidence, least=1)


def relative_counts_cost(laws: RelativeLaws) -> float:
    """Return delta of one release at ``laws.epsilon``, from the laws that ``run`` draws from."""
    return relative_delta(laws)


def run_relative_counts(tree: CountTree, *, laws: RelativeLaws) -> NoisyTree:
    """Reduction, Algorithm 2: classify the nodes that are still bot by ever smaller thresholds."""
    step_of = np.zeros(len(tree.level), dtype=np.int64)  # the i at which a node became top
    for i in range(len(laws.steps), 0, -1):  # line 2
        tops = classify_nodes(
            tree, step_of > 0, step=laws.steps[i - 1], height=laws.height
        )  # line 4
        step_of[tops] = i  # line 7; what is left at 0 is F_(i-1), line 8
    # public from here on
    released = step_of > 0
    released[0] = True
    count, lower, upper = np.array(_answers(laws), dtype=np.int64).T[:, step_of[released]]
    level = tree.level[released]
    return NoisyTree(
        level=level,
        parent=nearest_chosen(tree, released),
        count=count,
        lower=lower,
        upper=upper,
        other=np.zeros(len(level), dtype=bool),
        open=level < laws.height,
        keys=rows_of(tree.keys, np.flatnonzero(released)),
    )


def classify_nodes(
    tree: CountTree, done: NDArray[np.bool_], *, step: Step, height: int
) -> NDArray[np.bool_]:
    """Return which nodes are top: Algorithm 1 on every tree that the nodes not ``done`` form."""
    root = _roots(tree, ~done & (tree.count >= step.band))
    seen = root >= 0
    roots = np.unique(root[seen])
    own = np.searchsorted(roots, root)  # number of the tree of every node seen
    top = np.zeros(len(seen), dtype=bool)
    left = np.full(len(roots), step.tops)
    noisy = step.least + unbounded_laplace(2 * step.scale, len(roots))
    for level in range(height, -1, -1):  # line 3
        here = np.flatnonzero(seen & ~top & (tree.level == level))  # S_i
        ends = tree.level[roots]
        asked = (left > 0) & (ends <= level) & ~((ends == level) & top[roots])  # line 4
        query = np.full(len(roots), step.band - 1)
        np.maximum.at(query, own[here], tree.count[here])  # line 5, clamped
        above = np.zeros(len(roots), dtype=bool)
        asks = unbounded_laplace(4 * step.scale, int(asked.sum()))
        above[asked] = query[asked] + asks >= noisy[asked]  # line 6
        tested = here[above[own[here]]]  # line 10
        tests = truncated_laplace(step.scale, step.bound, len(tested))  # line 11
        passed = tested[tree.count[tested] + tests >= step.cut]  # line 12
        while len(passed):  # line 13
            top[passed] = True
            passed = np.unique(tree.parent[passed[passed != root[passed]]])
        left[above] -= 1
        noisy[above] = step.least + unbounded_laplace(2 * step.scale, int(above.sum()))
    return top


def truncated_laplace(scale: Fraction, bound: int, n: int) -> NDArray[np.int64]:
    """Draw n discrete Laplace values given that they are within ``bound``; exact, by rejection.

    A table would be as long as the largest threshold.
    """
    out = unbounded_laplace(scale, n)
    while (outside := np.abs(out) > bound).any():
        out[outside] = unbounded_laplace(scale, int(outside.sum()))
    return out


def _roots(tree: CountTree, seen: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return for every seen node the position of the root of its tree of seen nodes, which can be
    the node itself; -1 for all other nodes."""
    root = np.where(seen, np.arange(len(seen)), -1)
    for level in range(1, int(tree.level.max(initial=0)) + 1):
        here = np.flatnonzero(seen & (tree.level == level))
        above = root[tree.parent[here]]
        root[here] = np.where(above >= 0, above, here)
    return root


def _answers(laws: RelativeLaws) -> list[tuple[int, int, int]]:
    """Return (count, lower, upper) of the nodes that become top in step 1, 2, ...; the first entry
    is for a root that is released without ever being top."""
    out = []
    for i in range(len(laws.steps) + 1):
        step = laws.steps[i - 1]
        lower = math.ceil((1 - step.alpha) * step.threshold) if i else 0
        upper = math.floor(step.largest if i else laws.lowest)  # (1 + alpha_(i+1)) tau_(i+1)
        upper = max(lower, min(upper, laws.largest))
        out.append((upper, lower, upper))
    return out


def level_histograms_cost(
    laws: LevelLaws, *, height: int, epsilon: float, remainder: bool
) -> float:
    """Delta of all levels together at ``epsilon``."""
    return composed_delta(laws.noise, levels=height + remainder, epsilon=epsilon)


def run_level_histograms(
    tree: CountTree, *, noise: NoiseTable, shown: int, threshold: int, remainder: bool
) -> NoisyNodes:
    """Perturb every level; then select by noisy residuals, which is free."""
    noisy = tree.count + noise.draw(len(tree.count))
    visible = noisy >= shown
    visible[0] = remainder
    # public from here on: hidden nodes carry no number
    residual, selected = _topmost_subtracted(tree, noisy, visible, threshold)
    selected[0] = remainder
    nodes = tree.chosen_nodes(selected)
    return NoisyNodes(
        level=nodes.level,
        ancestor=nodes.ancestor,
        keys=nodes.keys,
        residual=residual[selected],
        count=noisy[selected],
        terms=np.zeros(int(selected.sum()), dtype=np.int64),
    )


def _topmost_subtracted(
    tree: CountTree, noisy: NDArray[np.int64], visible: NDArray[np.bool_], threshold: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Select nodes bottom up; return the residuals of all nodes, and which nodes are selected.

    Residual: noisy count minus the noisy counts of the topmost selected descendants. The selection
    reads the shape of the tree and the noisy counts of visible nodes, nothing else.
    """
    selected = np.zeros(len(noisy), dtype=bool)
    covered = np.zeros(len(noisy), dtype=np.int64)
    for level in range(int(tree.level.max(initial=0)), 0, -1):
        here = tree.at_level(level)
        top = visible[here] & (noisy[here] - covered[here] >= threshold)
        selected[here] = top
        np.add.at(covered, tree.parent[here], np.where(top, noisy[here], covered[here]))
    return noisy - covered, selected


# -- bounds --------------------------------------------------------------------------------------

BINS = LARGEST - LEAST + 1


def run_auto_bounds(exact: NDArray[np.int64], *, epsilon: Fraction) -> NDArray[np.int64]:
    """Return noisy counts of all bins."""
    noisy: NDArray[np.int64] = exact + _bin_noise(epsilon).draw(BINS)
    return noisy


def _bin_noise(epsilon: Fraction) -> UnboundedNoise:
    return UnboundedNoise(rounded_up(1 / epsilon))


FALSE_BINS = 1e-3
"""Expected number of empty bins whose noisy count is taken for real."""


def choose_bound(
    noisy: NDArray[np.int64], *, epsilon: Fraction, spent: Fraction, parts: int
) -> float:
    """Choose the bound, a power of two, from noisy counts; post-processing.

    Parameters
    ----------
    noisy
        Counts of the bins, int64.
    epsilon
        Epsilon that the counts cost.
    spent
        Epsilon of the sum that the bound is for.
    parts
        How many parts have the noise of that sum.
    """
    least = float(_bin_noise(epsilon).scale) * math.log(BINS / (2 * FALSE_BINS))
    real = np.where(noisy >= least, noisy, 0).astype(float)
    if not real.any():
        return 2.0 ** (LEAST + int(np.argmax(noisy)) + 1)
    exponents = np.arange(LEAST, LARGEST + 1, dtype=float)
    ends, middles = 2.0 ** (exponents + 1), 1.5 * 2.0**exponents
    noise = math.sqrt(2 * parts) * ends / float(spent)
    cut = np.array([(real * np.maximum(middles - end, 0)).sum() for end in ends])
    return float(ends[int(np.argmin(noise + cut))])
