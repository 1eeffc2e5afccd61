"""Private releases of Misra-Gries sketches: of one stream, merged, of users, over a universe.

Source: Lebeda and Tetek, "Better Differentially Private Approximate Histograms and Heavy Hitters
using the Misra-Gries Sketch" (PODS 2023). Neighbours: one record more or less, or one user for
sketches of users.

======================  =========================================  ==============================
release of              source                                     cost
======================  =========================================  ==============================
one stream              Algorithm 2                                ``accounting.sketch_stream``
a sum of sketches       Algorithm 3 and section 7                  ``accounting.sketch_lattice``
bounded merges, users   Corollaries 2 and 10, with the Gaussian    ``accounting.sparse_gaussian``
                        sparse histogram mechanism
the top of a universe   Algorithm 3, Laplace noise on everything   ``accounting.sketch_pure``
======================  =========================================  ==============================

Deviation for one stream, for half the variance at the same privacy: alpha_hat = alpha + eta
is published, and for a key U = C + alpha + Z instead of C + eta + Z
(:mod:`dpframe.accounting.sketch_stream`). U has one draw of noise and estimates the most that the
true count can be; the count is at most alpha below that.

Deviation for a sum: noise is drawn on multiples of 1/(k + 1), not on real numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpframe.accounting.sketch_lattice import LatticeLaws
from dpframe.accounting.sketch_pure import PureLaws
from dpframe.accounting.sketch_stream import SketchLaws
from dpframe.accounting.sparse_gaussian import GshmLaws
from dpframe.noise import unbounded_laplace
from dpframe.sketches._state import SketchState


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
