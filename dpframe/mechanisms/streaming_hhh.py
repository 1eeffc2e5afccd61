"""Streaming heavy hitters: releases of sketches, and the selection upwards.

**Streams** have one sketch a level, each released once. A selection follows.

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
    level (``accounting.sketch_stream``, after Wilkins, Kifer, Zhang and Karrer, 2024).

Only one stream has an alpha_hat: the decrements of a merge, or of users, have another sensitivity.

Everything after the draws is post-processing: the selection reads released numbers only.

**Releases of sketches** are of one stream, of merged streams, of users, or over a universe.

Source: Lebeda and Tetek, "Better Differentially Private Approximate Histograms and Heavy Hitters
using the Misra-Gries Sketch" (PODS 2023). Neighbours: one record more or less, or one user for
sketches of users.

======================  =========================================  ==============================
release of              source                                     cost
======================  =========================================  ==============================
one stream              Algorithm 2                                ``accounting.sketch_stream``
a sum of sketches       Algorithm 3 and section 7                  ``accounting.sketch_lattice``
bounded merges, users   Corollaries 2 and 10, with the Gaussian    ``accounting.sketch_stream``
                        sparse histogram mechanism
the top of a universe   Algorithm 3, Laplace noise on everything   ``accounting.sketch_lattice``
======================  =========================================  ==============================

Deviation for one stream, for half the variance at the same privacy: alpha_hat = alpha + eta
is published, and for a key U = C + alpha + Z instead of C + eta + Z
(:mod:`dpframe.accounting.sketch_stream`). U has one draw of noise and estimates the most that the
true count can be; the count is at most alpha below that.

Deviation for a sum: noise is drawn on multiples of 1/(k + 1), not on real numbers.

**The selection** finds hierarchical heavy hitters among released nodes, from the finest level up.

Source: the selection of Biswas, Cormode, Kanza, Srivastava and Zhou, "Differentially Private
Hierarchical Heavy Hitters" (2024), Algorithm 3. All of it is computed from released numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpframe.accounting.sketch_lattice import LatticeLaws, PureLaws
from dpframe.accounting.sketch_stream import GshmLaws, SketchLaws
from dpframe.counts import NoisyNodes
from dpframe.hierarchy import INVALID, Hierarchy
from dpframe.hierarchy._base import unpack_key
from dpframe.noise import unbounded_laplace
from dpframe.postprocess.joint_noise import half_width
from dpframe.sketches._batches import SketchState

Key = tuple[str | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReleasedNodes:
    """Released nodes of all levels. Public.

    ``above`` is the position of the nearest released ancestor, -1 if none. Except for the noise,
    the true count lies between ``lower`` = U - alpha_hat and ``upper`` = U; where no alpha_hat is
    released, both are the noisy count. ``width`` is the number of texts in a key.
    """

    level: NDArray[np.int64]
    above: NDArray[np.int64]
    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    keys: list[Key]
    width: int

    @classmethod
    def of(
        cls,
        keys: Sequence[pa.Array],
        upper: Sequence[NDArray[np.int64]],
        error: Sequence[int],
        hierarchy: Hierarchy,
    ) -> ReleasedNodes:
        """Join all levels, coarse to fine; ``error`` is how far ``lower`` is below ``upper``."""
        sizes = [len(values) for values in upper]
        depth = np.repeat(np.arange(1, len(sizes) + 1), sizes).astype(np.int64)
        highest = np.concatenate(upper)
        texts = [
            unpack_key(key, hierarchy.key_width) for level in keys for key in level.to_pylist()
        ]
        return cls(
            level=depth,
            above=_nearest_released(depth, texts, hierarchy),
            lower=highest - np.repeat(error, sizes).astype(np.int64),
            upper=highest,
            keys=texts,
            width=hierarchy.key_width,
        )


def report_selection(
    found: ReleasedNodes, *, threshold: int
) -> tuple[NoisyNodes, NDArray[np.int64]]:
    """Select nodes; return them with their counts U, and their positions in ``found``."""
    chosen, residual = select_upward(found, threshold=threshold)
    kept = np.flatnonzero(chosen)
    rank = np.cumsum(chosen) - 1
    ancestor = nearest_selected_ancestor(found.above, chosen)[kept]
    columns = list(zip(*(found.keys[i] for i in kept), strict=True)) or [()] * found.width
    nodes = NoisyNodes(
        level=found.level[kept],
        ancestor=np.where(ancestor >= 0, rank[ancestor], -1),
        residual=residual[kept],
        count=found.upper[kept],
        terms=np.ones(len(kept), dtype=np.int64),
        keys=tuple(pa.chunked_array([pa.array(column, pa.string())]) for column in columns),
    )
    return nodes, kept


def select_upward(
    found: ReleasedNodes, *, threshold: int
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Select nodes whose count U, less U of the topmost selected nodes below, reaches the
    threshold.

    Returns which nodes are selected, and the differences. Post-processing.

    A heavy key is stored all along, so every decrement lowers its counter, and U is the better
    estimate of a heavy node. But where the sketch error is not well below the threshold, U would
    lift light keys over the threshold. A node with such an error must reach the threshold with
    ``lower`` too.
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


def nearest_selected_ancestor(
    above: NDArray[np.int64], chosen: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Return the position of the nearest selected ancestor of every node, -1 if there is none."""
    ancestor = above.copy()
    while (passed_over := (ancestor >= 0) & ~chosen[ancestor]).any():
        ancestor[passed_over] = above[ancestor[passed_over]]
    return ancestor


def _nearest_released(
    depth: NDArray[np.int64], keys: Sequence[Key], hierarchy: Hierarchy
) -> NDArray[np.int64]:
    """Return the position of the nearest released ancestor of every node, -1 if there is none."""
    lines = [
        hierarchy.lineage(int(level), _label_texts(hierarchy, int(level), key))
        for level, key in zip(depth, keys, strict=True)
    ]
    where = {(len(line), line[-1]): i for i, line in enumerate(lines)}
    nearest = np.full(len(keys), -1, dtype=np.int64)
    for i, line in enumerate(lines):
        found = (where.get((at, line[at - 1])) for at in range(len(line) - 1, 0, -1))
        nearest[i] = next((j for j in found if j is not None), -1)
    return nearest


def _label_texts(hierarchy: Hierarchy, level: int, key: Key) -> tuple[str, ...]:
    """Return the texts of a node that people read, as ``Hierarchy.lineage`` takes them."""
    if hierarchy.label_columns:
        return tuple(INVALID if text is None else text for text in key[:level])
    return (hierarchy.label(level, key),)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoisySketch:
    """The released numbers of a sketch. Public.

    ``keys`` ascend; ``values`` (int64) are in units of ``1/unit`` of a count: U of each key for one
    stream. ``decrements`` is alpha_hat, which can be negative; None where it is not released.
    """

    keys: pa.Array
    values: NDArray[np.int64]
    unit: int = 1
    decrements: int | None = None


SketchedLaws = SketchLaws | LatticeLaws | GshmLaws
"""Laws with a threshold, which hides what only one of two neighbours stores."""


def release_sketch(state: SketchState, laws: SketchedLaws) -> NoisySketch:
    """Release a sketch by its laws."""
    return (
        single_stream(state, laws) if isinstance(laws, SketchLaws) else release_counts(state, laws)
    )


def single_stream(state: SketchState, laws: SketchLaws) -> NoisySketch:
    """Release the sketch of one stream. Dummies are left out: their noise would reach nobody."""
    keys, counts = state.keys[state.dummies :], state.counts[state.dummies :]
    decrements = state.decrements + int(laws.shared.draw(1)[0])
    upper = counts + state.decrements + laws.noise.draw(len(counts))
    kept = np.flatnonzero(upper >= decrements + laws.least)
    return NoisySketch(keys=keys.take(pa.array(kept)), values=upper[kept], decrements=decrements)


def release_counts(state: SketchState, laws: LatticeLaws | GshmLaws) -> NoisySketch:
    """Release a sum of post-processed sketches, of which a record enters one; or whole counts, of
    which a record or user moves at most k by 1, in one direction."""
    if state.lattice != laws.unit or not laws.covers(state.counters):
        raise ValueError("laws are not for these sketches.")
    keys, counts = state.positive()
    values = counts + laws.noise.draw(len(counts))
    kept = np.flatnonzero(values >= laws.least)
    return NoisySketch(keys=keys.take(pa.array(kept)), values=values[kept], unit=laws.unit)


def release_universe_top(state: SketchState, universe: pa.Array, laws: PureLaws) -> NoisySketch:
    """Release the k largest noisy values of a universe; equal values in the order of keys.

    ``universe`` is public, ascending and without duplicates.
    """
    if state.lattice == 1 and laws.unit > 1:
        state = state.post_processed()
    if state.lattice != laws.unit:
        raise ValueError("laws are not for the unit of this sketch.")
    values = values_on_universe(state, universe) + unbounded_laplace(laws.scale, len(universe))
    first = np.argsort(-values, kind="stable")[: state.counters]
    kept = np.sort(first)
    return NoisySketch(keys=universe.take(pa.array(kept)), values=values[kept], unit=laws.unit)


def values_on_universe(state: SketchState, universe: pa.Array) -> NDArray[np.int64]:
    """Return the value of every element of the universe: 0 if it is not stored, or stored below 0.

    Keys of another type match nothing. They raise no error, which would tell that a key exists.
    """
    keys, counts = state.positive()
    values = np.zeros(len(universe), dtype=np.int64)
    numbers = [pa.types.is_integer(each.type) for each in (keys, universe)]
    if not len(keys) or (keys.type != universe.type and not all(numbers)):
        return values
    if keys.type != universe.type:  # signed and unsigned integers
        keys, counts = _common_integers(keys, counts, universe.type)
    rows = pc.index_in(keys, value_set=universe)
    stored = np.flatnonzero(rows.is_valid().to_numpy(zero_copy_only=False))
    values[rows.take(pa.array(stored)).to_numpy()] = counts[stored]
    return values


def _common_integers(
    keys: pa.Array, counts: NDArray[np.int64], to: pa.DataType
) -> tuple[pa.Array, NDArray[np.int64]]:
    """Keep integers that both types can hold, as type ``to``, with their counts."""
    numbers = keys.to_numpy()
    fits = numbers <= 2**63 - 1 if pa.types.is_signed_integer(to) else numbers >= 0
    kept = np.flatnonzero(fits)
    return keys.take(pa.array(kept)).cast(to), counts[kept]


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
