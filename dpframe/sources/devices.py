"""Users of a source as devices with items: the fleet of a federated simulation. Private."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe import _duck
from dpframe.federated.encoding import Encoding
from dpframe.federated.population import Population
from dpframe.hierarchy import Hierarchy
from dpframe.sources.columns import require
from dpframe.sources.relations import canonical, opened
from dpframe.sources.rollup_sql import exact


def count_devices(source: object, hierarchy: Hierarchy, user: str) -> int:
    """Different users of a source; NULL is one of them. Public: neighbours have as many."""
    with opened(source, [*hierarchy.source_columns, user]) as relation:
        return relation_devices(relation, hierarchy, user)


def relation_devices(relation: _duck.Relation, hierarchy: Hierarchy, user: str) -> int:
    """The same for a relation that is open."""
    read = _types(relation, hierarchy, user)
    distinct = f"(SELECT DISTINCT {exact(user, read[user])} AS u FROM {_duck.VIEW})"
    counted = relation.query(f"SELECT count(*) AS n FROM {distinct}", False)
    return int(counted["n"][0].as_py())


def population(
    source: object,
    hierarchy: Hierarchy,
    user: str,
    encoding: Encoding,
    length: int,
    *,
    progress: bool = False,
) -> Population:
    """Devices of a source, with the items of a flat hierarchy as bits."""
    with opened(source, [*hierarchy.source_columns, user]) as relation:
        return relation_population(relation, hierarchy, user, encoding, length, progress=progress)


def relation_population(
    relation: _duck.Relation,
    hierarchy: Hierarchy,
    user: str,
    encoding: Encoding,
    length: int,
    *,
    progress: bool = False,
) -> Population:
    """The same for a relation that is open."""
    table = relation.query(_statement(relation, hierarchy, user), progress)
    device = table["device"].to_numpy()
    devices = int(device.max(initial=-1)) + 1
    known = table["item"].is_valid().to_numpy()
    coded = table["item"].combine_chunks().cast(pa.large_string()).dictionary_encode()
    texts = coded.dictionary.to_pylist()
    times = table["times"].to_numpy()
    number = coded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    packed, code = _different(encoding, texts, length)
    return _merged(packed, device[known], code[number[known]], times[known], devices)


def _different(
    encoding: Encoding, texts: list[str], length: int
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Different bits, and which of them each text has."""
    bits = encoding.packed(texts, length)
    if not len(bits):
        return bits, np.zeros(0, dtype=np.int64)
    packed, code = np.unique(bits, axis=0, return_inverse=True)
    return packed, code.ravel()


def _merged(
    packed: NDArray[np.uint64],
    device: NDArray[np.int64],
    code: NDArray[np.int64],
    times: NDArray[np.int64],
    devices: int,
) -> Population:
    """One entry for each device and item: texts with the same bits are one item."""
    key = device * max(len(packed), 1) + code
    order = np.argsort(key, kind="stable")
    key = key[order]
    first = np.flatnonzero(np.diff(key, prepend=-1))
    added = np.add.reduceat(times[order], first) if len(first) else times[:0]
    key = key[first]
    starts = np.searchsorted(key // max(len(packed), 1), np.arange(devices + 1))
    return Population(
        packed=packed,
        starts=starts.astype(np.int64),
        items=(key % max(len(packed), 1)).astype(np.int32),
        times=np.minimum(added, 2**32 - 1).astype(np.uint32),
    )


def _types(relation: _duck.Relation, hierarchy: Hierarchy, user: str) -> dict[str, str]:
    require([*hierarchy.source_columns, user], relation.columns)
    types = dict(zip(relation.columns, map(canonical, relation.types), strict=True))
    hierarchy.check_types(tuple(types[c] for c in hierarchy.source_columns))
    return types


def _statement(relation: _duck.Relation, hierarchy: Hierarchy, user: str) -> str:
    """Numbers of users, their different items as text (NULL for none), and how often each occurs;
    users together, in the order of their ids: the same by whichever door they come."""
    types = _types(relation, hierarchy, user)
    (column,) = hierarchy.source_columns
    rows = (
        f"(SELECT {exact(user, types[user])} AS u, {exact(column, types[column])} AS c0 "
        f"FROM {_duck.VIEW})"
    )
    for step in hierarchy.key_steps(("c0",), (types[column],)):
        added = ", ".join(f"{sql} AS {name}" for name, sql in step.items())
        rows = f"(SELECT *, {added} FROM {rows})"
    (text,) = hierarchy.texts(1, ("k1",), (types[column],))
    return (
        f"WITH pairs AS (SELECT u, CAST({text} AS VARCHAR) AS item, count(*) AS times FROM {rows} "
        "GROUP BY ALL), "
        "users AS (SELECT u AS id, row_number() OVER (ORDER BY u NULLS FIRST) - 1 AS device "
        "FROM (SELECT DISTINCT u FROM pairs)) "
        "SELECT device, item, times FROM pairs JOIN users ON u IS NOT DISTINCT FROM id "
        "ORDER BY device"
    )
