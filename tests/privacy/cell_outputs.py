"""Exact output distributions of cells on tiny lattices, as ``enumerate_outputs`` has them of trees.

A table is a mapping from records to how many there are: ``{("ab", "x"): 3}`` has three records
whose first dimension goes down to ``ab``, by way of ``a``, and whose second one is ``x``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from dpframe.counts import CellCounts, CountTree, NoisyNodes
from dpframe.hierarchy import Kind
from dpframe.hierarchy._cells import product_kinds
from dpframe.mechanisms import offline_hhh
from dpframe.noise import NoiseTable

from .enumerate_outputs import Distribution, NoNoise, ScriptedCoins, law_of

Record = tuple[str, ...]
Table = Mapping[Record, int]
Run = Callable[..., NoisyNodes]
"""``run(cells, *, kinds, test, release, threshold, remainder)``, shipped or with a planted bug."""


@cache
def kinds_of(*heights: int) -> tuple[Kind, ...]:
    """All kinds of cells of dimensions of these heights, in the order that is shipped."""
    return product_kinds(heights)


def counts_of(table: Table) -> CellCounts:
    """All records of a table, nothing pruned."""
    records = [record for record, n in sorted(table.items()) if n]
    wide = len(next(iter(table)))
    axes, places = [], []
    own = np.array([table[r] for r in records], dtype=np.int64)
    for number in range(wide):
        paths = sorted({r[number][:end] for r in records for end in range(1, len(r[number]) + 1)})
        paths = ["", *sorted(paths, key=len)]
        axes.append(
            CountTree(
                level=np.array([len(p) for p in paths], dtype=np.int64),
                parent=np.array([paths.index(p[:-1]) if p else -1 for p in paths], dtype=np.int64),
                count=np.array(
                    [sum(table[r] for r in records if r[number].startswith(p)) for p in paths]
                ),
                keys=(pa.chunked_array([paths], type=pa.string()),),
            )
        )
        places.append(np.array([paths.index(r[number]) for r in records], dtype=np.int32))
    return CellCounts(axes=tuple(axes), places=tuple(places), own_counts=own).check_sums()


def more(table: Table, record: Record, records: int = 1) -> dict[Record, int]:
    """The neighbour with more records at one place."""
    return {**table, record: table.get(record, 0) + records}


def every_selection(
    table: Table, *, test: NoiseTable, run: Run = offline_hhh.run, **options: Any
) -> Distribution:
    """Probability of every set of selected cells, with their true residuals."""
    cells = counts_of(table)
    return law_of(  # type: ignore[no-any-return]
        lambda script: run(cells, test=ScriptedCoins(test, script), release=NoNoise(), **options),
        released,
    )


def released(noisy: NoisyNodes) -> Any:
    """(cell, residual) of every reported cell."""
    names = zip(*(key.to_pylist() for key in noisy.keys), strict=True)
    cells = zip(noisy.level.tolist(), names, strict=True)
    return tuple(zip(cells, noisy.residual.tolist(), strict=True))


def divided(grid: int, records: tuple[Record, ...]) -> list[dict[Record, int]]:
    """Every way to divide one user's units over some records."""
    shares = itertools.product(range(grid + 1), repeat=len(records))
    return [dict(zip(records, units, strict=True)) for units in shares if sum(units) == grid]


def plus(table: Table, user: Table) -> dict[Record, int]:
    return {record: table.get(record, 0) + user.get(record, 0) for record in {*table, *user}}
