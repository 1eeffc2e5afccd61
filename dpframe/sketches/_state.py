"""The content of a sketch, in the form that releases, merges and files read. Private."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpframe.errors import ParameterError
from dpframe.sketches._batches import ARROW_TYPES, Kind


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class SketchState:
    """The content of a sketch: raw data, for the code of a release.

    Parameters
    ----------
    counters
        k. Not every class of sketch has k entries.
    kind
        Kind of the keys; None if the sketch has seen no key.
    keys
        Arrow array of int64, uint64, large text or large bytes. NULLs for the dummies come first,
        then the keys in ascending order.
    counts
        int64, the counters in units of ``1 / lattice``.
    dummies
        Number of counters at zero that never had a key.
    lattice
        1, or k + 1 where sketches were post-processed before they were added.
    decrements
        Bound on how far an unrounded counter is below the true count of its key, or of a key
        without a counter.
    total
        Records, or items of users, that went in.
    """

    counters: int
    kind: Kind | None
    keys: pa.Array
    counts: NDArray[np.int64]
    dummies: int = 0
    lattice: int = 1
    decrements: int
    total: int

    def __repr__(self) -> str:
        return "SketchState(<private>)"

    @property
    def dummy(self) -> NDArray[np.bool_]:
        """Mask of the dummies."""
        return np.arange(len(self.counts)) < self.dummies

    def post_processed(self) -> SketchState:
        """Apply Algorithm 3 of Lebeda and Tetek without its noise: subtract the sum of all counters
        over k + 1 from each counter, in exact multiples of 1 / (k + 1). No counter is dropped."""
        lattice = self.counters + 1
        if lattice * self.total >= 2**63:
            raise ParameterError("the sketch holds too many records to be post-processed exactly.")
        counts = lattice * self.counts - self.counts.sum()
        return replace(self, counts=counts, lattice=lattice, decrements=-(-self.total // lattice))

    def positive(self) -> tuple[pa.Array, NDArray[np.int64]]:
        """Return the keys with a positive counter, and their counters."""
        rows = np.flatnonzero(self.counts > 0)
        return self.keys.take(pa.array(rows)), self.counts[rows]


def key_order(keys: pa.Array) -> NDArray[np.int64]:
    """Return the positions that sort keys: integers by value, text and bytes by their bytes."""
    if pa.types.is_large_string(keys.type):
        keys = keys.view(pa.large_binary())
    order: Any = pc.array_sort_indices(keys)
    return np.asarray(order.to_numpy(), dtype=np.int64)


def sort_entries(keys: pa.Array, counts: NDArray[np.int64]) -> tuple[pa.Array, NDArray[np.int64]]:
    """Return entries in the order of their keys."""
    order = key_order(keys)
    return keys.take(pa.array(order)), counts[order]


def no_entries() -> tuple[pa.Array, NDArray[np.int64]]:
    """Return no keys and no counters; the keys have no kind."""
    return pa.array([], type=ARROW_TYPES[None]), np.zeros(0, np.int64)
