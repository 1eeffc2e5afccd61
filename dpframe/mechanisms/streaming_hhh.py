"""Streaming hierarchical heavy hitters: one Misra-Gries sketch a level, each released once.

Source: the sketch and its release are Algorithms 1 and 2 of Lebeda and Tetek, "Better
Differentially Private Approximate Histograms and Heavy Hitters using the Misra-Gries Sketch"; one
sketch a level and the selection from the leaves up as in Biswas, Cormode, Kanza, Srivastava and
Zhou, "Differentially Private Hierarchical Heavy Hitters" (2024), Algorithm 3. Neighbours: one
record, which enters at most one key a level.

Deviation from the printed Algorithm 3, needed: its fresh noise for every counter is not private
when all counters of a level move together (docs/soundness.md). Here one eta a level, in the
published alpha_hat, carries that move.

Everything after ``single_stream`` is post-processing: the selection reads released numbers only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe.accounting.sketches import SketchLaws, sketch_delta
from dpframe.hierarchy import INVALID, Hierarchy
from dpframe.hierarchy.stream_keys import texts_of
from dpframe.mechanisms.sketch_release import NoisySketch, single_stream
from dpframe.postprocess.intervals import half_width
from dpframe.sketches._state import SketchState
from dpframe.tree import NoisyNodes

Key = tuple[str | None, ...]


def cost(laws: SketchLaws, *, epsilon: float) -> float:
    """Delta of one release at ``epsilon``, an upper bound computed from the tables drawn from."""
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
    found = _released(noisy, hierarchy)
    chosen, residual = selected(found, threshold=threshold)
    kept = np.flatnonzero(chosen)
    rank = np.cumsum(chosen) - 1
    ancestor = _chosen_above(found.above, chosen)[kept]
    one = half_width(laws.noise, 1, confidence)
    two = half_width(laws.noise, 2, confidence)  # Z and eta have one law
    columns = list(zip(*(found.keys[i] for i in kept), strict=True)) or [()] * hierarchy.key_width
    return NoisyNodes(
        level=found.level[kept],
        ancestor=np.where(ancestor >= 0, rank[ancestor], -1),
        residual=residual[kept],
        count=found.upper[kept],
        terms=np.ones(len(kept), dtype=np.int64),
        keys=tuple(pa.chunked_array([pa.array(column, pa.string())]) for column in columns),
        bounds=((found.lower - two)[kept], (found.upper + one)[kept]),
        sketch_error=tuple(level.decrements for level in noisy),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Released:
    """Released nodes of all levels. Public.

    ``above`` is the position of the nearest released ancestor, -1 if none. But for the noise the
    true count lies between ``lower`` = U - alpha_hat and ``upper`` = U.
    """

    level: NDArray[np.int64]
    above: NDArray[np.int64]
    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    keys: list[Key]


def selected(found: Released, *, threshold: int) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Post-processing: nodes whose count U, less that of the topmost selected nodes below them,
    reaches the threshold; and that difference.

    Decrements take from a heavy key, which is there all along, all of their error: U is the better
    estimate of a heavy node. But where the sketch error is not well below the threshold, U would
    lift light keys over it: there the lower end of the node must reach it too.
    """
    count = found.upper
    error = found.upper - found.lower
    sure = (2 * error < threshold) | (found.lower >= threshold)
    covered, chosen = np.zeros_like(count), np.zeros(len(count), dtype=bool)
    for level in range(int(found.level.max(initial=0)), 0, -1):
        here = np.flatnonzero(found.level == level)
        chosen[here] = sure[here] & (count[here] - covered[here] >= threshold)
        inner = here[found.above[here] >= 0]
        passed = np.where(chosen[inner], count[inner], covered[inner])
        np.add.at(covered, found.above[inner], passed)
    return chosen, count - covered


def _chosen_above(above: NDArray[np.int64], chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The nearest selected ancestor of every node."""
    ancestor = above.copy()
    while (passed_over := (ancestor >= 0) & ~chosen[ancestor]).any():
        ancestor[passed_over] = above[ancestor[passed_over]]
    return ancestor


def _released(noisy: Sequence[NoisySketch], hierarchy: Hierarchy) -> Released:
    """All levels together."""
    sizes = [len(level.upper) for level in noisy]
    depth = np.repeat(np.arange(1, len(noisy) + 1), sizes).astype(np.int64)
    upper = np.concatenate([level.upper for level in noisy])
    error = np.repeat([max(0, level.decrements) for level in noisy], sizes).astype(np.int64)
    lower = upper - error
    keys = [texts_of(key, hierarchy.key_width) for level in noisy for key in level.keys.to_pylist()]
    return Released(
        level=depth,
        above=_nearest(depth, keys, hierarchy),
        lower=lower,
        upper=upper,
        keys=keys,
    )


def _nearest(
    depth: NDArray[np.int64], keys: Sequence[Key], hierarchy: Hierarchy
) -> NDArray[np.int64]:
    """Position of the nearest released ancestor of every node, -1 if there is none."""
    lines = [
        hierarchy.lineage(int(level), _shown(hierarchy, int(level), key))
        for level, key in zip(depth, keys, strict=True)
    ]
    where = {(len(line), line[-1]): i for i, line in enumerate(lines)}
    nearest = np.full(len(keys), -1, dtype=np.int64)
    for i, line in enumerate(lines):
        found = (where.get((at, line[at - 1])) for at in range(len(line) - 1, 0, -1))
        nearest[i] = next((j for j in found if j is not None), -1)
    return nearest


def _shown(hierarchy: Hierarchy, level: int, key: Key) -> tuple[str, ...]:
    """What people read of a node, as ``Hierarchy.lineage`` takes it."""
    if hierarchy.label_columns:
        return tuple(INVALID if text is None else text for text in key[:level])
    return (hierarchy.label(level, key),)
