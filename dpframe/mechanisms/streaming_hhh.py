"""Streaming hierarchical heavy hitters: one sketch a level, each released once, then a selection.

Source: sketches and their releases are those of Lebeda and Tetek, "Better Differentially Private
Approximate Histograms and Heavy Hitters using the Misra-Gries Sketch"; one sketch a level and the
selection from the leaves up are as in Biswas, Cormode, Kanza, Srivastava and Zhou, "Differentially
Private Hierarchical Heavy Hitters" (2024), Algorithm 3. Neighbours: one record, which enters at
most one key a level, or one user, for sketches that take one user at a time. Of several streams,
which are merged level by level, a record or user enters one, which must not depend on others.

Cost: the laws are for all h levels together.

One stream (Algorithms 1 and 2)
    One count a level, or the sketch error, moves by 1 (``accounting.sketch_stream``). Deviation
    from the printed Algorithm 3 of Biswas et al., needed: its fresh noise for every counter is not
    private when all counters of a level move together (docs/soundness_streaming.md). Here one eta a
    level, in the published alpha_hat, carries that move.
A sum of sketches (Algorithm 3 and section 7)
    A record moves the counters of a level by at most ``(k, 1, ..., 1)/(k + 1)``
    (``accounting.sketch_lattice``).
A bounded merge, or sketches of users (Corollaries 2 and 10)
    At most k counters of a level move by 1, all in one direction, which may differ on the next
    level (``accounting.sparse_gaussian``, after Wilkins, Kifer, Zhang and Karrer, 2024).

Only one stream has an alpha_hat: the decrements of a merge, or of users, have another sensitivity.

Everything after the draws is post-processing: the selection reads released numbers only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpframe.hierarchy import Hierarchy
from dpframe.mechanisms.sketch_release import SketchedLaws, release_sketch
from dpframe.mechanisms.upward_selection import ReleasedNodes, report_selection
from dpframe.postprocess.half_widths import half_width
from dpframe.sketches._state import SketchState
from dpframe.tree import NoisyNodes


def run(
    levels: Sequence[SketchState],
    *,
    laws: SketchedLaws,
    threshold: int,
    confidence: float,
    hierarchy: Hierarchy,
) -> NoisyNodes:
    """Release every level, then select from the finest up; ``threshold`` in units of the laws."""
    if laws.sketches != len(levels):
        raise ValueError("the laws are for another number of levels.")
    noisy = [release_sketch(state, laws) for state in levels]
    errors = [level.decrements for level in noisy if level.decrements is not None]
    found = ReleasedNodes.of(
        [level.keys for level in noisy],
        [level.values for level in noisy],
        [max(0, error) for error in errors or [0] * len(noisy)],
        hierarchy,
    )
    nodes, kept = report_selection(found, threshold=threshold)
    if not errors:
        return nodes
    one = half_width(laws.noise, 1, confidence)
    two = half_width(laws.noise, 2, confidence)  # Z and eta have the same law
    bounds = (found.lower - two)[kept], (found.upper + one)[kept]
    return replace(nodes, bounds=bounds, sketch_error=tuple(errors))
