"""Hierarchical heavy hitters among released nodes, from the finest level up. Post-processing.

Source: the selection of Biswas, Cormode, Kanza, Srivastava and Zhou, "Differentially Private
Hierarchical Heavy Hitters" (2024), Algorithm 3. Everything here is computed from released numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe.hierarchy import INVALID, Hierarchy
from dpframe.hierarchy.stream_keys import unpack_key
from dpframe.tree import NoisyNodes

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
