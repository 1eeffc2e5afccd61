"""Noisy numbers of different users at every node, each count with noise of its own.

Neighbours: one user with all their records, who is counted once in the total and once at each of at
most ``times[l]`` nodes of level l. Which nodes these are depends on this user and a secret seed
alone. So a user moves at most T = sum of ``times`` counts by 1 each
(:mod:`dpframe.accounting.node_user_laws`).

*Listed keys.* Every listed node is released, also a node without users. There are no ``<other>``
nodes: a user at a listed child can be beside it too, so children leave no remainder.

*Keys that are found.* Think of noise on every possible node. A node is shown if its own noisy count
reaches the threshold of its level; the total is always shown. This is one function of all noisy
counts. No noise is drawn for nodes that one user alone has or where no user takes part, whose count
is 1 or 0: the highest value of the noise plus 1 is below the threshold. Unlike in counts that add
up, no node is shown because of a node below it: above a shown node there can be a node where nobody
takes part.

Stability histograms (Bun, Nissim and Stemmer, 2019), one a level, with exact composition.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe.accounting.node_user_laws import NodeLaws
from dpframe.mechanisms import level_counts
from dpframe.noise import NoiseTable, UnboundedNoise
from dpframe.postprocess.selection_intervals import plain_interval, selected_interval
from dpframe.tree import CountTree, NoisyNodes, NoisyTree


def cost(laws: NodeLaws, *, epsilon: float) -> float:
    """Return delta for one user: for Laplace tables at the epsilon of their scales, for other
    tables at ``epsilon``; 0 for unbounded noise."""
    return level_counts.cost(laws.moved, epsilon=epsilon)


def run_listed_users(tree: CountTree, *, laws: NodeLaws, confidence: float) -> NoisyTree:
    """Perturb every listed node."""
    size = len(tree.level)
    noisy, half, variance = tree.count.copy(), np.zeros(size, dtype=np.int64), np.zeros(size)
    for level, noise in enumerate(laws.levels.noises):
        here = tree.at_level(level)
        noisy[here] += noise.draw(len(here))
        half[here] = level_counts.noise_half_width(noise, confidence)
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
        keys=tuple(key.take(pa.array(kept)) for key in tree.keys),
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
