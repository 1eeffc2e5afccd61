"""Counts of all nodes with a relative error: each node between two thresholds.

Source: Ghazi, Kamath, Kumar, Manurangsi and Wu, "On Differentially Private Counting on Trees"
(2023), "CT": Algorithms 1 (classification) and 2 (reduction). Neighbours: one record, which moves
every node on one path by 1. Of use for very large counts only (docs/relative_counts.md).

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
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpframe.accounting.relative_steps import RelativeLaws, Step, relative_delta
from dpframe.noise import unbounded_laplace
from dpframe.tree import CountTree, NoisyTree, nearest_chosen


def cost(laws: RelativeLaws) -> float:
    """Return delta of one release at ``laws.epsilon``, from the laws that ``run`` draws from."""
    return relative_delta(laws)


def run(tree: CountTree, *, laws: RelativeLaws) -> NoisyTree:
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
        keys=tuple(column.take(np.flatnonzero(released)) for column in tree.keys),
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
