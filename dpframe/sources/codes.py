"""Rows of a source as codes of a domain, and its users as devices. Private."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe import _duck
from dpframe.budget import PrivacyUnit
from dpframe.common.texts import ascending_order, identifier
from dpframe.domains import Domain
from dpframe.federated import Population
from dpframe.federated.encoding import Encoding
from dpframe.hierarchy import Hierarchy
from dpframe.hierarchy._base import check_writable
from dpframe.noise import random_seed
from dpframe.sketches.hot_partition import HotPartition
from dpframe.sources.cell_leaves import add_key_steps, row_hash
from dpframe.sources.rollup_statement import exact_column_sql
from dpframe.sources.source_relations import level_and_user_types, open_source, relation_types
from dpframe.sources.stream_batches import report_progress

RECORD = PrivacyUnit()


def schema_of(source: object, domain: Domain) -> pa.Schema:
    """The checked types that a source has for the columns of a domain. Public: no row is read."""
    with open_source(source, domain.columns) as relation:
        return _domain_schema(relation, domain)


def counted_codes(
    source: object,
    domain: Domain,
    sketch: HotPartition,
    unit: PrivacyUnit = RECORD,
    *,
    progress: bool = False,
) -> HotPartition:
    """Count the rows of a source into the sketch, and return the sketch. With ``unit.user``, a
    uniform sample of at most ``unit.max_contributions`` rows per user counts."""
    user = [unit.user] if unit.user is not None else []
    with open_source(source, [*domain.columns, *user]) as relation:
        _domain_schema(relation, domain)
        statement = _domain_rows_sql(domain)
        if unit.user is not None:
            types = relation_types(relation)
            check_writable(unit.user, types[unit.user])
            statement = _user_sample_sql(domain, unit, types, random_seed())
        for batch in report_progress(relation.batches(statement), progress):
            sketch.update(domain.codes(batch))
    return sketch


def _domain_schema(relation: _duck.Relation, domain: Domain) -> pa.Schema:
    types = dict(zip(relation.columns, relation.types, strict=True))
    domain.check_types({name: types[name] for name in domain.columns})
    return relation.query(_domain_rows_sql(domain) + " LIMIT 0", False).schema


def _domain_rows_sql(domain: Domain) -> str:
    return f"SELECT {', '.join(map(identifier, domain.columns))} FROM {_duck.VIEW}"


def _user_sample_sql(domain: Domain, unit: PrivacyUnit, types: dict[str, str], seed: int) -> str:
    """A query of at most ``unit.max_contributions`` rows of each user.

    Rows of a user are ranked by a hash of the user, the row, its number among equal rows and the
    seed: a uniform sample that depends on no other user. NULL ids are one user.
    """
    assert unit.user is not None
    chosen = [f"{exact_column_sql(c, types[c])} AS c{i}" for i, c in enumerate(domain.columns)]
    names = ", ".join(f"c{i}" for i in range(len(chosen)))
    back = ", ".join(f"c{i} AS {identifier(c)}" for i, c in enumerate(domain.columns))
    order = ascending_order(row_hash(f"u, {names}, i", seed), *names.split(", "), "i")
    return (
        f"WITH named AS (SELECT {', '.join(chosen)}, "
        f"{exact_column_sql(unit.user, types[unit.user])} AS u "
        f"FROM {_duck.VIEW}), "
        f"numbered AS (SELECT *, row_number() OVER (PARTITION BY u, {names}) AS i FROM named), "
        f"ranked AS (SELECT *, row_number() OVER (PARTITION BY u ORDER BY {order}) "
        "AS place FROM numbered) "
        f"SELECT {back} FROM ranked WHERE place <= {unit.max_contributions}"
    )


def count_devices(source: object, hierarchy: Hierarchy, user: str) -> int:
    """How many different users a source has; NULL is one. Public: neighbours have as many."""
    with open_source(source, [*hierarchy.source_columns, user]) as relation:
        _, kind = level_and_user_types(relation, hierarchy, user)
        distinct = f"(SELECT DISTINCT {exact_column_sql(user, kind)} AS u FROM {_duck.VIEW})"
        counted = relation.query(f'SELECT count(*) AS "n" FROM {distinct}', False)
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
    """The devices of a source, with the items of a flat hierarchy as bits."""
    with open_source(source, [*hierarchy.source_columns, user]) as relation:
        found = relation.query(_devices_statement(relation, hierarchy, user), progress)
    table = found.combine_chunks()
    del found
    text = table["text"].combine_chunks()
    listed = table.filter(text.is_valid())
    texts = [""] * len(listed)
    for number, item in zip(listed["item"].to_pylist(), listed["text"].to_pylist(), strict=True):
        texts[number] = item
    pairs = table.filter(text.is_null()).drop_columns(["text"])
    del table, text
    devices = int(pairs["device"].to_numpy().max()) + 1 if len(pairs) else 0
    known = pairs.filter(pairs["item"].is_valid())
    del pairs
    device, item, times = (known[name].to_numpy() for name in ("device", "item", "times"))
    return population_of(encoding, texts, length, device, item, times, devices)


def population_of(
    encoding: Encoding,
    texts: list[str],
    length: int,
    device: NDArray[np.integer],
    item: NDArray[np.integer],
    times: NDArray[np.integer],
    devices: int,
) -> Population:
    """The population in which ``device[i]`` has the text ``texts[item[i]]`` ``times[i]`` times.

    ``devices`` is how many devices there are. Texts with equal bits are one item; texts that the
    encoding leaves out are no items.
    """
    packed, readable = encoding.pack_items(texts, length)
    held = readable[item]
    device, item, times = device[held], item[held], times[held]
    code = np.zeros(len(texts), dtype=np.int64)
    if readable.any():
        packed, inverse = np.unique(packed[readable], axis=0, return_inverse=True)
        code[readable] = inverse.ravel()  # numpy 2.0 returns two dimensions
    else:
        packed = packed[:0]
    key = device.astype(np.int64) * max(len(packed), 1) + code[item]
    order = np.argsort(key)
    key, times = key[order], times[order]
    del order
    first = np.flatnonzero(np.diff(key, prepend=-1))
    added = np.add.reduceat(times.astype(np.int64), first) if len(first) else times[:0]
    key = key[first]
    starts = np.searchsorted(key // max(len(packed), 1), np.arange(devices + 1))
    return Population(
        packed=packed,
        starts=starts.astype(np.int64),
        items=(key % max(len(packed), 1)).astype(np.int32),
        times=np.minimum(added, 2**32 - 1).astype(np.uint32),
    )


def _devices_statement(relation: _duck.Relation, hierarchy: Hierarchy, user: str) -> str:
    """A statement that reads the source once and returns two kinds of rows. The first kind has the
    numbers of a user and of an item (NULL for none) and how often the user has the item; the second
    kind has the number of an item and its text. Users are numbered in the order of their ids, so
    that every door numbers them alike."""
    types, user_type = level_and_user_types(relation, hierarchy, user)
    (column,) = hierarchy.source_columns
    rows = add_key_steps(
        hierarchy,
        ("c0",),
        types,
        f"(SELECT {exact_column_sql(user, user_type)} AS u, "
        f"{exact_column_sql(column, *types)} AS c0 FROM {_duck.VIEW})",
    )
    (text,) = hierarchy.texts(1, ("k1",), types)
    return (
        f"WITH pairs AS MATERIALIZED (SELECT u, CAST({text} AS VARCHAR) AS t, "
        f"least(count(*), {2**32 - 1}) AS times FROM {rows} GROUP BY ALL), "
        "users AS (SELECT u AS id, row_number() OVER (ORDER BY u ASC NULLS FIRST) - 1 AS device "
        "FROM (SELECT DISTINCT u FROM pairs)), "
        "items AS MATERIALIZED (SELECT t AS text, row_number() OVER () - 1 AS item "
        "FROM (SELECT DISTINCT t FROM pairs WHERE t IS NOT NULL)) "
        'SELECT device::UINTEGER AS "device", item::UINTEGER AS "item", '
        'times::UINTEGER AS "times", '
        'NULL::VARCHAR AS "text" FROM pairs JOIN users ON u IS NOT DISTINCT FROM id '
        "LEFT JOIN items ON t = text "
        "UNION ALL SELECT NULL, item::UINTEGER, NULL, text FROM items"
    )
