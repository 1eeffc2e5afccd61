"""Read the keys that a caller lists, in the same way as data, into nodes.

Keys are public, so errors quote them. Here only ``listed_counts`` depends on the data, and is
private.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sized
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpframe import _duck
from dpframe.budget import PrivacyUnit
from dpframe.common.texts import ascending_order, identifier
from dpframe.counts import CountTree, ListedCells, ListedNodes, python_integers
from dpframe.errors import ColumnError, ParameterError, ParameterTypeError
from dpframe.hierarchy import Hierarchy, columns
from dpframe.hierarchy._base import ROOT, has_zone
from dpframe.hierarchy._date import Date
from dpframe.hierarchy._types import REAL
from dpframe.periods import is_written, read_unit_period
from dpframe.sources.cell_leaves import keyed_sql
from dpframe.sources.frames import (
    MOST,
    arrow_table,
    column_names,
    key_table,
    quote_key,
    require_columns,
)
from dpframe.sources.objects import readable_table
from dpframe.sources.rollup_statement import rollup_statement, source_sql
from dpframe.sources.source_relations import level_and_user_types

DOMAIN = "domain"
"""What callers pass instead of a list, for every value that the hierarchy can hold."""

CHECKED = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT"),
    *("UINTEGER", "UBIGINT", "UHUGEINT", "DECIMAL", "FLOAT", "DOUBLE", "DATE", "TIME", "UUID"),
    *("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"),
    *("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"),
)
"""DuckDB's types, without parameters, whose values are written in one way only."""


def listed_nodes(keys: object, hierarchy: Hierarchy, called: str = "keys") -> ListedNodes:
    """The nodes of some keys, and all nodes above them.

    Parameters
    ----------
    keys
        Values of the column, as a list, tuple, Series or array; for several columns tuples, or a
        pandas, Polars or Arrow frame with these columns. Each key once. Or "domain": every value
        of a hierarchy whose specification says what its values are.
    called
        What messages call the keys.

    Raises
    ------
    ParameterError
        If there are no keys or too many, if one is malformed or repeats, or if there is no
        finite domain.
    ColumnError
        If a frame lacks columns, or their types cannot be read.
    ParameterTypeError
        If ``keys`` is no list and no frame.
    """
    if isinstance(keys, str):
        if keys != DOMAIN:
            raise ParameterError(
                f"keys is the text {keys!r}. Pass a list of keys, [{keys!r}], or 'domain'."
            )
        return _domain_nodes(hierarchy)
    table = _expand_dates(key_table(keys, hierarchy), hierarchy)
    tree, own = _count_key_nodes(table, hierarchy)
    if (own > 1).any():
        at = int(np.argmax(own > 1))
        texts = tuple(key[at].as_py() for key in tree.keys)
        node = hierarchy.label(int(tree.level[at]), texts) if tree.level[at] else ROOT
        raise ParameterError(
            f"{called} has {int(own[at])} keys that mean {quote_key(node)}. List each once, in "
            "one spelling."
        )
    if len(tree.level) > MOST:
        raise ParameterError(
            f"{called} has {len(table)} keys, and with their ancestors {len(tree.level)} nodes. "
            f"List fewer keys: at most {MOST} nodes."
        )
    return _make_listed_nodes(tree, rest=_has_listed_children(tree))


LARGEST_CUBE = 1_000_000
"""Most cells of listed keys: of all dimensions, and of all kinds that are shown."""


def listed_cells(keys: object, cells: Hierarchy) -> ListedCells:
    """The cells of the keys of each dimension.

    Parameters
    ----------
    keys
        A mapping from the column of each dimension to its keys, as for `listed_nodes`; a list of
        such keys, in the order of the dimensions; or a frame, of which each column has the keys of
        a dimension, in any order, repeated or missing.

    Raises
    ------
    ParameterError
        If a dimension has no keys, or several levels; if a key is malformed or repeats; if there
        are more than a million cells.
    ParameterTypeError
        If ``keys`` is no mapping and no list.
    """
    columns = [",".join(one.source_columns) for one in cells.dimensions]
    example = "keys={" + ", ".join(f"{column!r}: [...]" for column in columns) + "}"
    for one in cells.dimensions:
        if one.height > 1:
            raise ParameterError(
                f"keys needs hierarchies of one level; {one.spec} has {one.height}."
            )
    if column_names(keys) is not None:
        given = _values_by_column(keys, cells)
    elif isinstance(keys, Mapping):
        given = {str(column): own for column, own in keys.items()}
    elif isinstance(keys, list) and not any(isinstance(own, tuple | str) for own in keys):
        if len(keys) != len(columns):
            raise ParameterError(f"keys has {len(keys)} lists for {len(columns)} dimensions.")
        given = dict(zip(columns, keys, strict=True))
    else:
        raise ParameterTypeError(f"keys must be {example}; got {type(keys).__name__}.")
    if sorted(given) != sorted(columns):
        wrong = sorted(set(given) ^ set(columns))[0]
        what = "lacks" if wrong in columns else "names"
        raise ParameterError(f"keys {what} {wrong!r}. Pass {example}.")
    axes = []
    for column, one in zip(columns, cells.dimensions, strict=True):
        own = given[column]
        if isinstance(own, Sized) and not len(own):
            raise ParameterError(f"keys[{column!r}] is empty. List its values.")
        axes.append(listed_nodes(own, one, called=f"keys[{column!r}]"))
    sizes = [len(axis.level) - 1 for axis in axes]
    shown = sum(
        math.prod(n for n, k in zip(sizes, kind, strict=True) if k) for kind in cells.kind_order
    )
    if max(shown, finest := math.prod(sizes)) > LARGEST_CUBE:
        raise ParameterError(
            f"keys makes {' x '.join(f'{n:,}' for n in sizes)}, so {max(shown, finest):,} cells: "
            f"list fewer, at most {LARGEST_CUBE:,}."
        )
    names = ",".join(axis.name for axis in axes)
    name = hashlib.sha256(f"{len(axes)} dimensions;{names}".encode()).hexdigest()
    return ListedCells(axes=tuple(axes), name=name)


def _values_by_column(keys: object, cells: Hierarchy) -> dict[str, object]:
    """The different values of each column of a frame, without missing ones."""
    require_columns(cells.source_columns, tuple(map(str, column_names(keys) or ())))
    table = arrow_table(keys, cells.source_columns)
    return {name: pc.unique(table[name]).drop_null() for name in cells.source_columns}


def listed_keys(keys: object, hierarchy: Hierarchy) -> ListedNodes | ListedCells:
    """The nodes of keys of one hierarchy, or the cells of keys of several."""
    if hierarchy.has_cells:
        return listed_cells(keys, hierarchy)
    return listed_nodes(keys, hierarchy)


def _expand_dates(table: pa.Table, hierarchy: Hierarchy) -> pa.Table:
    """The keys, unchanged except for a hierarchy of dates: there a text in the form of the finest
    level, such as ``2026-11`` for a month, becomes the first moment of that period."""
    texts = table[0].combine_chunks()
    texts = texts.dictionary_decode() if pa.types.is_dictionary(texts.type) else texts
    if not isinstance(hierarchy, Date) or not str(texts.type).endswith(("string", "string_view")):
        return table
    first = [_first_moment(text, hierarchy.levels[-1]) for text in texts.to_pylist()]
    return pa.table({table.column_names[0]: pa.array(first, pa.large_string())})


def _first_moment(text: str | None, level: str) -> str | None:
    if text is None or not is_written(text):
        return text
    unit, (start, _) = read_unit_period(text)
    return start.isoformat() if unit == level else text


def _domain_nodes(hierarchy: Hierarchy) -> ListedNodes:
    """All nodes that can occur. Any other value is malformed: it is dropped, or counts at the root
    alone."""
    values = hierarchy.domain_values()
    if values is None:
        raise ParameterError(
            f"keys='domain' needs at most {2**20} values; got {hierarchy.spec}. Pass a list of "
            "keys, number with depth up to 20, or ip with version=4 or version=6 and prefixes up "
            "to 20."
        )
    table = pa.table({hierarchy.source_columns[0]: pa.array(values, type=pa.string())})
    tree, own = _count_key_nodes(table, hierarchy)
    if (own > 1).any():
        raise ParameterError(
            f"keys='domain': {len(values)} intervals of {hierarchy.spec} are too narrow for "
            "floating-point numbers. Lower depth, or pass a list of keys."
        )
    rest = np.zeros(len(tree.level), dtype=np.bool_)
    rest[0] = hierarchy.on_invalid == "count"
    return _make_listed_nodes(tree, rest)


def _count_key_nodes(table: pa.Table, hierarchy: Hierarchy) -> tuple[CountTree, NDArray[np.int64]]:
    """The nodes of keys, and for each node the number of keys that end there. ParameterError for a
    malformed key."""
    invalid: dict[str, Any] = {"invalid": "count"}  # malformed keys must be seen
    hierarchy = replace(hierarchy, **invalid)
    with _duck.register_table(readable_table(table), "the keys") as relation:
        types, _ = level_and_user_types(relation, hierarchy)
        unit = PrivacyUnit()
        found = relation.query(
            rollup_statement(hierarchy, unit, band=1, types=types, seed=0), False
        )
        level = found["level"].cast(pa.int64()).to_numpy()
        texts = tuple(found[name].cast(pa.string()) for name in found.column_names[2:])
        if any(text.null_count > (level <= i).sum() for i, text in enumerate(texts)):
            _refuse_key(relation.query(_malformed_sql(hierarchy, unit, types), False), hierarchy)
    count = found["n"].cast(pa.int64()).to_numpy()
    tree = CountTree.from_preorder(level=level, count=count, keys=texts)
    own = tree.count.copy()
    np.subtract.at(own, tree.parent[1:], tree.count[1:])
    return tree, own


def _malformed_sql(hierarchy: Hierarchy, unit: PrivacyUnit, types: tuple[str, ...]) -> str:
    """A query of the values, as text, of one key that has no node at some level; empty without such
    a key. The hierarchy must count malformed values."""
    source, types = source_sql(hierarchy, unit, types=types, user_type=None, view=_duck.VIEW)
    values = [f"c{i}" for i in range(len(types))]
    rows = keyed_sql(hierarchy, types, "source", ", ".join(values))
    missing = " OR ".join(f"k{i} IS NULL" for i in range(1, hierarchy.key_width + 1))
    texts = ", ".join(f"CAST({value} AS VARCHAR) AS v{i}" for i, value in enumerate(values))
    return (
        f"WITH {source} SELECT {texts} FROM ({rows}) WHERE {missing} "
        f"ORDER BY {ascending_order(*(f'v{i}' for i in range(len(values))))} LIMIT 1"
    )


def _refuse_key(malformed: pa.Table, hierarchy: Hierarchy) -> None:
    """Raise ParameterError for the malformed key in a table of one row."""
    values = tuple(column[0].as_py() for column in malformed.columns)
    several = len(values) > 1
    if isinstance(hierarchy, Date) and is_written(str(values[0])):
        unit, levels = read_unit_period(str(values[0]))[0], hierarchy.levels
        coarser = levels[: levels.index(unit) + 1] if unit in levels else (unit,)
        raise ParameterError(
            f"keys has {quote_key(values[0])}, a {unit}, and {hierarchy.spec} ends at "
            f"{levels[-1]}s. "
            f"List {levels[-1]}s, or pass {replace(hierarchy, levels=coarser).spec!r}."
        )
    raise ParameterError(
        f"keys has {quote_key(values if several else values[0])}, which is malformed, empty or "
        "missing "
        f"for {hierarchy.spec}. Pass a whole value of "
        f"{'every column' if several else 'the column'}."
    )


def _has_listed_children(tree: CountTree) -> NDArray[np.bool_]:
    """Flags of nodes with listed children: such a node can also have children not listed."""
    has = np.zeros(len(tree.level), dtype=np.bool_)
    has[tree.parent[1:]] = True
    return has


def _make_listed_nodes(tree: CountTree, rest: NDArray[np.bool_]) -> ListedNodes:
    return ListedNodes(
        level=tree.level,
        parent=tree.parent,
        keys=tree.keys,
        rest=rest,
        name=_hash_nodes(tree.level, tree.keys, rest),
    )


def _hash_nodes(
    level: NDArray[np.int64], keys: tuple[pa.ChunkedArray, ...], rest: NDArray[np.bool_]
) -> str:
    """A hash of the nodes that does not depend on their order. In each column, the lengths of all
    texts are hashed before the texts."""
    texts = {f"t{i}": key.cast(pa.large_string()) for i, key in enumerate(keys)}
    table = pa.table({**texts, "level": level, "rest": rest.astype(np.int64)})
    table = table.take(pc.sort_indices(table, [(c, "ascending") for c in table.column_names]))
    digest = hashlib.sha256(f"{len(keys)} keys, {len(level)} nodes;".encode())
    for name in ("level", "rest"):
        digest.update(table[name].to_numpy().astype("<i8").tobytes())
    for name in texts:
        lengths = pc.fill_null(pc.binary_length(table[name]), -1)
        digest.update(lengths.to_numpy().astype("<i8").tobytes())
        for chunk in table[name].chunks:
            digest.update("".join(chunk.drop_null().to_pylist()).encode())
    return digest.hexdigest()


def check_key_types(
    listed: ListedNodes | ListedCells, hierarchy: Hierarchy, types: tuple[str, ...]
) -> None:
    """Raise ColumnError for a key that no value of its column can have; ``types`` are DuckDB's.

    Only the kind ``columns`` keeps the types of columns; other kinds read keys and values alike.
    """
    if isinstance(listed, ListedCells):
        each = zip(listed.axes, hierarchy.dimensions, hierarchy.by_dimension(types), strict=True)
        for axis, one, own in each:
            check_key_types(axis, one, own)
        return
    if hierarchy.kind != "columns":
        return
    for level, (column, kind) in enumerate(zip(hierarchy.source_columns, types, strict=True), 1):
        if kind.split("(")[0] in CHECKED and not kind.endswith("]"):
            texts = pc.unique(listed.keys[level - 1].filter(pa.array(listed.level == level)))
            _check_texts(texts, column, "TIMESTAMP" if has_zone(kind) else kind)


def _check_texts(texts: pa.Array, column: str, kind: str) -> None:
    """Raise ColumnError for a key that SQL would write in another way, as a value of type
    ``kind``."""
    hierarchy = columns("value")
    ((_, value),) = hierarchy.key_steps(("value",), (kind,))[0].items()
    (text,) = hierarchy.texts(1, (value,), (kind,))
    read = f"SELECT key, TRY_CAST(key AS {kind}) AS value FROM {identifier(_duck.VIEW)}"
    written = f"SELECT key, CAST({text} AS VARCHAR) AS text FROM ({read})"
    differ = f"FROM ({written}) WHERE key IS DISTINCT FROM text "
    differ += f"ORDER BY {ascending_order('text', 'key', nulls='FIRST')}"
    with _duck.register_table(pa.table({"key": texts}), "the keys") as relation:
        found = relation.query(f"{differ} LIMIT 1", False)
    if not found.num_rows:
        return
    key, text = found["key"][0].as_py(), found["text"][0].as_py()
    outer = kind.split("(")[0]
    if text is None and outer.startswith(("DATE", "TIMESTAMP")) and is_written(key):
        start = read_unit_period(key)[1][0]
        text = start.isoformat(" ") if outer != "DATE" else start.date().isoformat()
    elif text is None or (outer not in REAL and _other_number(key, text)):
        raise ColumnError(
            f"keys has {quote_key(key)}, which column {column!r} of type {outer} cannot hold. "
            "Correct "
            "the key, or cast the column to text."
        )
    raise ColumnError(
        f"keys has {quote_key(key)}, which column {column!r} of type {outer} would show as "
        f"{text!r}. "
        "Write the key so."
    )


def _other_number(key: str, text: str) -> bool:
    """Whether a key is another number than ``text``, because the column's type rounded it."""
    try:
        return Decimal(key) != Decimal(text)
    except InvalidOperation:  # no numbers
        return False


def listed_counts(tree: CountTree, listed: ListedNodes) -> CountTree:
    """The counts of the listed nodes, 0 where the tree has no such node. Private.

    ``tree`` holds every node that is counted. Listed nodes keep their order.
    """
    size = len(listed.level)
    nodes = np.concatenate([listed.level, tree.level])
    for ours, theirs in zip(listed.keys, tree.keys, strict=True):
        both = [*ours.cast(pa.large_string()).chunks, *theirs.cast(pa.large_string()).chunks]
        texts, numbers = _number_values(pa.chunked_array(both, type=pa.large_string()))
        _, nodes = _number_values(pa.array(nodes * texts + numbers))
    place = nodes[size:]  # listed nodes come first and all differ: their numbers are 0, 1, 2, ...
    found = place < size
    count = np.zeros(size, dtype=np.int64)
    np.add.at(count, place[found], tree.count[found])  # a record moves a count by 1 in any case
    return CountTree(
        level=listed.level,
        parent=listed.parent,
        count=count,
        keys=listed.keys,
        types=tree.types,
        sums=tuple(_sums_at_listed(column, place, found, size) for column in tree.sums),
    )


def _sums_at_listed(
    column: pa.ChunkedArray, place: NDArray[np.int64], found: NDArray[np.bool_], size: int
) -> pa.ChunkedArray:
    """Sums of the listed nodes, as whole numbers of up to 38 digits."""
    out = np.zeros(size, dtype=object)
    np.add.at(out, place[found], python_integers(column.filter(pa.array(found))))
    return pa.chunked_array([pa.array(out.tolist(), pa.decimal128(38))])


def _number_values(values: pa.Array | pa.ChunkedArray) -> tuple[int, NDArray[np.int64]]:
    """How many different values there are, and each value's number, from 0 by first occurrence;
    NULL is a value, too."""
    whole = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    encoded = whole.dictionary_encode(null_encoding="encode")
    return len(encoded.dictionary), encoded.indices.to_numpy().astype(np.int64)
