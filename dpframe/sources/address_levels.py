"""Count the nodes of addresses at or above the band: IPv4 in NumPy, the rest in SQL.

Sorted addresses have sorted nodes at every level, so the count of a node is the difference of two
running totals. In preorder only the root stands before IPv4.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe._duck import VIEW, Relation, register_table
from dpframe.budget import PrivacyUnit
from dpframe.hierarchy import Hierarchy
from dpframe.hierarchy._ip import MAPPED, Ip
from dpframe.sources.address_rows import AddressRows, address_rows, starts_of
from dpframe.sources.rollup_statement import rollup_statement

Ints = NDArray[np.int64]

LEAVES = (
    f"SELECT (high::UHUGEINT << 64) | low AS k1, sum(n)::BIGINT AS n FROM {VIEW} GROUP BY high, low"
)


def address_nodes(
    relation: Relation,
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    types: tuple[str, ...],
    band: int,
    *,
    progress: bool,
) -> pa.Table | None:
    """Nodes at or above the band, as the statement of
    :func:`dpframe.sources.rollup_statement.rollup_statement` returns them. Private. None where SQL
    has to count."""
    if not isinstance(hierarchy, Ip) or types != ("VARCHAR",):
        return None
    if unit.user is not None or unit.weight is not None:
        return None
    found = address_rows(relation, hierarchy, progress=progress)
    if found is None:
        return None
    level, n, number = four_nodes(found, hierarchy.prefixes, band)
    four = pa.table([level, n, pa.array(number).cast(pa.string())], schema=ROOT.schema)
    rest = ROOT
    if found.rest.num_rows:
        statement = rollup_statement(hierarchy, unit, band=band, types=types, seed=0, leaves=LEAVES)
        with register_table(found.rest, "addresses") as others:
            rest = others.query(statement, False).cast(ROOT.schema)
    total = rest["n"][0].as_py() + int(found.n.sum())
    root = pa.table([[0], [total], [None]], schema=ROOT.schema)
    return pa.concat_tables([root, four, rest.slice(1)])


ROOT = pa.table(
    [[0], [0], [None]],
    schema=pa.schema([("level", pa.int64()), ("n", pa.int64()), ("t1", pa.string())]),
)


def four_nodes(found: AddressRows, prefixes: tuple[int, ...], band: int) -> tuple[Ints, Ints, Ints]:
    """Levels, counts and IPv6-mapped numbers of IPv4 nodes at or above the band, in preorder."""
    before = np.concatenate([[0], np.cumsum(found.n)])
    starts = np.arange(len(found.four))
    levels, counts, numbers = [], [], []
    for level in range(len(prefixes), 0, -1):
        below = np.uint32(32 - prefixes[level - 1])
        own = found.four[starts] >> below
        new = starts_of(own)
        starts, own = starts[new], own[new]
        n = np.diff(before[np.append(starts, len(found.four))])
        heavy = n >= band
        counts.append(n[heavy])
        numbers.append((own[heavy] << below).astype(np.int64))
        levels.append(np.full(len(counts[-1]), level))
    reached, number = np.concatenate(levels), np.concatenate(numbers)
    order = np.argsort(number << 8 | reached)
    return reached[order], np.concatenate(counts)[order], number[order] | MAPPED
