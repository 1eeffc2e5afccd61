"""Hierarchical heavy hitters of many streams: sketches merged level by level, each released once.

Source: the release of a merge is section 7 of Lebeda and Tetek, "Better Differentially Private
Approximate Histograms and Heavy Hitters using the Misra-Gries Sketch": a sum of sketches follows
their Algorithm 3, a bounded merge their Corollary 2 with the Gaussian sparse histogram mechanism of
Wilkins, Kifer, Zhang and Karrer (2024). The sketches, one a level, and the selection are as in
:mod:`dpframe.mechanisms.streaming_hhh`. Neighbours: one record, which enters one of the streams
and there at most one key a level. Which stream it enters must not depend on other records.

Cost: the laws are for all h levels together. On one level of a sum a record moves the counters by
at most ``(k, 1, ..., 1)/(k + 1)``. On one level of a bounded merge it moves at most k counters by
1, all in one direction, which may differ on the next level (``accounting.sketch_lattice``,
``accounting.sparse_gaussian``). No alpha_hat is released: the decrements of a merge have another
sensitivity.

Everything after the draw is post-processing: the selection reads released numbers only.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpframe.accounting.sketch_lattice import LatticeLaws
from dpframe.accounting.sparse_gaussian import GshmLaws
from dpframe.hierarchy import Hierarchy
from dpframe.mechanisms.sketch_release import release_sparse, release_sum
from dpframe.mechanisms.upward_selection import ReleasedNodes, report_selection
from dpframe.sketches._state import SketchState
from dpframe.tree import NoisyNodes


def run(
    levels: Sequence[SketchState],
    *,
    laws: LatticeLaws | GshmLaws,
    threshold: int,
    hierarchy: Hierarchy,
) -> NoisyNodes:
    """Release every level, then select from the finest up; ``threshold`` in units of the laws."""
    if laws.sketches != len(levels):
        raise ValueError("the laws are for another number of levels.")
    noisy = [
        release_sum(state, laws) if isinstance(laws, LatticeLaws) else release_sparse(state, laws)
        for state in levels
    ]
    keys, values = [level.keys for level in noisy], [level.values for level in noisy]
    found = ReleasedNodes.of(keys, values, [0] * len(noisy), hierarchy)
    return report_selection(found, threshold=threshold)[0]
