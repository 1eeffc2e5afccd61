"""Streaming hierarchical heavy hitters: one Misra-Gries sketch a level, each released once.

Source: the sketch and its release are Algorithms 1 and 2 of Lebeda and Tetek, "Better
Differentially Private Approximate Histograms and Heavy Hitters using the Misra-Gries Sketch"; one
sketch a level and the selection from the leaves up are as in Biswas, Cormode, Kanza, Srivastava and
Zhou, "Differentially Private Hierarchical Heavy Hitters" (2024), Algorithm 3. Neighbours: one
record, which enters at most one key a level.

Deviation from the printed Algorithm 3, needed: its fresh noise for every counter is not private
when all counters of a level move together (docs/soundness_streaming.md). Here one eta a level, in
the published alpha_hat, carries that move.

Everything after ``single_stream`` is post-processing: the selection reads released numbers only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpframe.accounting.sketch_stream import SketchLaws, sketch_delta
from dpframe.hierarchy import Hierarchy
from dpframe.mechanisms.sketch_release import single_stream
from dpframe.mechanisms.upward_selection import ReleasedNodes, report_selection
from dpframe.postprocess.half_widths import half_width
from dpframe.sketches._state import SketchState
from dpframe.tree import NoisyNodes


def cost(laws: SketchLaws, *, epsilon: float) -> float:
    """Return an upper bound on delta of one release at ``epsilon``, from the tables drawn from."""
    return sketch_delta(
        laws.noise,
        family=laws.family,
        scale=laws.scale,
        theta=laws.theta,
        sketches=laws.sketches,
        epsilon=epsilon,
        unshared=laws.unshared,
    )


def run(
    levels: Sequence[SketchState],
    *,
    laws: SketchLaws,
    threshold: int,
    confidence: float,
    hierarchy: Hierarchy,
) -> NoisyNodes:
    """Release every level, then select from the finest up."""
    noisy = [single_stream(state, laws) for state in levels]
    found = ReleasedNodes.of(
        [level.keys for level in noisy],
        [level.upper for level in noisy],
        [max(0, level.decrements) for level in noisy],
        hierarchy,
    )
    nodes, kept = report_selection(found, threshold=threshold)
    one = half_width(laws.noise, 1, confidence)
    two = half_width(laws.noise, 2, confidence)  # Z and eta have the same law
    return replace(
        nodes,
        bounds=((found.lower - two)[kept], (found.upper + one)[kept]),
        sketch_error=tuple(level.decrements for level in noisy),
    )
