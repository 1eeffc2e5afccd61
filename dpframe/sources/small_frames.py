"""Count small frames in NumPy: by columns of texts and whole numbers, and by IPv4 addresses.

DuckDB takes some milliseconds to plan a statement, however few rows there are. Here the place of a
value among the values of its level stands for the value, and the place of a path for the node. The
tree equals the tree of :mod:`dpframe.sources.rollup_statement`, node by node and in the same order.
The choice between the two modules depends on the data, so both must return equal counts
(docs/decisions/0035).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpframe._duck.memory_limits import read_limits
from dpframe.budget import PrivacyUnit
from dpframe.hierarchy import Hierarchy
from dpframe.hierarchy._columns import Columns
from dpframe.hierarchy._ip import MAPPED, Ip
from dpframe.sources.address_bytes import parse_dotted
from dpframe.tree import CountTree

MOST = 50_000
"""The most rows: above, DuckDB can be faster, depending on how many different values there are."""

CELLS = 4_000_000
"""The most places that are held, of 8 bytes each: a node has one at every level."""

TEXTS = (pa.string(), pa.large_string())

KINDS = {
    **dict.fromkeys(TEXTS, "VARCHAR"),
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.uint8(): "UTINYINT",
    pa.uint16(): "USMALLINT",
    pa.uint32(): "UINTEGER",
    pa.uint64(): "UBIGINT",
}
"""DuckDB's names of types whose values can be keys unchanged: equal values have equal bytes."""

Ints = NDArray[np.int64]


def counts_small(hierarchy: Hierarchy, unit: PrivacyUnit) -> bool:
    """Whether the hierarchy and unit can be counted here, if rows are few and types fit. If the
    environment sets limits, DuckDB counts, which heeds or refuses them, for any number of rows."""
    by_record = unit.user is None and unit.weight is None
    return isinstance(hierarchy, Columns | Ip) and by_record and not read_limits()


def small_counts(table: pa.Table, hierarchy: Hierarchy, band: int) -> CountTree | None:
    """True counts of the nodes at or above the band. Private. None where DuckDB has to count."""
    columns = [table[name].combine_chunks() for name in hierarchy.source_columns]
    kinds = tuple(KINDS.get(column.type, "") for column in columns)
    by_address = isinstance(hierarchy, Ip)
    levels = len(hierarchy.prefixes) if isinstance(hierarchy, Ip) else len(columns)
    few = table.num_rows <= MOST and table.num_rows * levels**2 <= CELLS
    if not few or not all(kinds):
        return None
    placed = (
        _prefix_places(columns[0], hierarchy) if by_address else [_value_places(c) for c in columns]
    )
    if placed is None:
        return None
    if hierarchy.on_invalid == "drop":
        valid = np.logical_and.reduce([place > 0 for place, _ in placed])
        placed = [(place[valid], values) for place, values in placed]
    level, count, at = _preorder_nodes([place for place, _ in placed], [len(v) for _, v in placed])
    kept = (count >= band) | (level == 0)
    pairs = zip(placed, at[:, kept], strict=True)
    keys = [values.take(pa.array(own)) for (_, values), own in pairs]
    if by_address:  # a node's own key is the finest key that it has
        keys = [pc.coalesce(*reversed(keys))]
    return CountTree.from_preorder(
        level=level[kept],
        count=count[kept],
        keys=tuple(pa.chunked_array([key]) for key in keys),
        types=kinds,
    )


def _value_places(column: pa.Array) -> tuple[Ints, pa.Array]:
    """The place of every value among the different values, and these values in order. Place 0 is
    NULL and empty text, even if neither occurs."""
    coded = column.dictionary_encode(null_encoding="encode")
    values = coded.dictionary
    order = pc.array_sort_indices(values, null_placement="at_start").to_numpy()
    known = values.is_valid().to_numpy(zero_copy_only=False)[order]
    if values.type in TEXTS:
        known &= pc.binary_length(values).fill_null(0).to_numpy()[order] > 0
    places = np.empty(len(values), dtype=np.int64)
    places[order] = np.cumsum(known)
    return places[coded.indices.to_numpy()], _behind_null(values.take(pa.array(order[known])))


def _behind_null(values: pa.Array) -> pa.Array:
    return pa.concat_arrays([pa.nulls(1, values.type), values])


def _prefix_places(column: pa.Array, hierarchy: Hierarchy) -> list[tuple[Ints, pa.Array]] | None:
    """For every level the places and values that ``_value_places`` would return; values are the
    texts of keys. None unless all texts are IPv4 addresses in dotted decimals without leading
    zeros."""
    assert isinstance(hierarchy, Ip)
    if hierarchy.version == 6 or column.type not in TEXTS or column.null_count:
        return None
    coded = column.dictionary_encode()
    numbers, others = parse_dotted(coded.dictionary)
    if others is not None:
        return None
    addresses = numbers.astype(np.int64)
    rows, out = coded.indices.to_numpy(), []
    for bits in hierarchy.prefixes:
        found, place = np.unique(addresses >> (32 - bits) << (32 - bits), return_inverse=True)
        out.append((place[rows] + 1, _behind_null(pa.array(found + MAPPED).cast(pa.string()))))
    return out


def _preorder_nodes(places: Sequence[Ints], sizes: Sequence[int]) -> tuple[Ints, Ints, Ints]:
    """The level, the count, and the places at every level (0 below the node), of all nodes in
    preorder."""
    path, rows = np.zeros(len(places[0]), dtype=np.int64), len(places[0])
    counts, at = [np.array([rows])], [np.zeros((len(places), 1), dtype=np.int64)]
    parents: list[Ints] = []
    for depth, (place, size) in enumerate(zip(places, sizes, strict=True)):
        found, path, count = _count_codes(path * size + place, len(counts[-1]) * size)
        above = found // size
        here = at[-1][:, above]
        here[depth] = found % size
        counts, parents, at = [*counts, count], [*parents, above], [*at, here]
    first = [np.arange(len(counts[-1]))]  # the first leaf of every node, finest level first
    for above, count in zip(reversed(parents), reversed(counts[:-1]), strict=True):
        first.append(first[-1][np.searchsorted(above, np.arange(len(count)))] if rows else count)
    level = np.repeat(np.arange(len(counts)), [len(count) for count in counts])
    order = np.lexsort((level, np.concatenate(first[::-1])))
    return level[order], np.concatenate(counts)[order], np.concatenate(at, axis=1)[:, order]


def _count_codes(codes: Ints, size: int) -> tuple[Ints, Ints, Ints]:
    """The different codes, below ``size``, in order; the place of each row's code among them; and
    the number of rows of each code."""
    if size > 4 * len(codes):
        return np.unique(codes, return_inverse=True, return_counts=True)
    times = np.bincount(codes, minlength=size)
    found = np.flatnonzero(times)
    return found, (np.cumsum(times > 0) - 1)[codes], times[found]
