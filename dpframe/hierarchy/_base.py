"""The base class of all kinds of hierarchy, and keys of nodes in SQL and in sketches.

**A hierarchy** never sees data.

A hierarchy turns a row into a chain of nodes, coarse to fine. It writes SQL for the rollup: the
key of the finest node of a row (one or several columns), the key of the node one level up, the
number of levels that a row has, an order in which every node follows its ancestors, and the
key as text. People see ``label``.

A NULL key is the ``<invalid>`` node of level 1: NULL, empty and malformed values end there.

**Sketches** hold one text for each node of a row.

``level_key_sql`` goes from the finest node of a row to the nodes above. ``pack_key`` makes one text
of the texts of a node, equal for equal nodes; ``unpack_key`` takes this text apart again.
"""

from __future__ import annotations

import itertools
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeVar
from urllib.parse import quote

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe.common.texts import ascending_order, is_nan, is_unicode
from dpframe.errors import HierarchyError
from dpframe.hierarchy._types import READS, column_type_error

T = TypeVar("T")
Kind = tuple[int, ...]
"""The level of a cell in every dimension, 0 if the cell covers the whole dimension."""

INVALID = "<invalid>"
"""Label of the node of NULL, empty and malformed values."""

OTHER = "<other>"
"""Label of a node for the records under its parent that no released sibling covers."""

ROOT = "*"
"""Label of level 0, everything."""

ALL, REST, MISSING = "(all)", "(the rest)", "(missing)"
"""What people read of everything, of what no other row has, and of missing or malformed values."""

MAX_HEIGHT = 128

MAX_DOMAIN_BITS = 20
"""A finite domain has at most 2**20 values, because all of them are listed."""

OnInvalid = Literal["count", "drop"]


@dataclass(frozen=True)
class Hierarchy(ABC):
    """Base class of the kinds of hierarchy, and of ``Cells``, several hierarchies at once."""

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        self.validate()
        for text in (*self.source_columns, *self.options.values()):
            if not is_unicode(text):
                raise HierarchyError(
                    f"{self.kind}: {text!r} cannot be written in UTF-8: rename the column or "
                    "change the text."
                )
        if not 1 <= self.height <= MAX_HEIGHT:
            raise HierarchyError(
                f"{self.kind} hierarchy has {self.height} levels: it must have 1 to {MAX_HEIGHT}."
            )
        if self.on_invalid not in ("count", "drop"):
            raise HierarchyError(
                f"invalid={self.on_invalid!r} is not known: use 'count' (an {INVALID} node) "
                "or 'drop'."
            )

    # -- the specification -------------------------------------------------------------------

    @property
    @abstractmethod
    def on_invalid(self) -> OnInvalid:
        """What happens to NULL, empty and malformed values: "count" (``<invalid>``) or "drop"."""

    @property
    @abstractmethod
    def height(self) -> int:
        """Number of levels below the root, from the specification alone."""

    @property
    @abstractmethod
    def source_columns(self) -> tuple[str, ...]:
        """Columns that the hierarchy reads."""

    @property
    @abstractmethod
    def level_names(self) -> tuple[str, ...]:
        """A short name of each level, coarse to fine, for people."""

    @property
    @abstractmethod
    def options(self) -> dict[str, str]:
        """Options as text, only options that differ from their default."""

    @property
    def dimensions(self) -> tuple[Hierarchy, ...]:
        """This hierarchy alone; for ``Cells``, each of their hierarchies."""
        return (self,)

    @property
    def has_cells(self) -> bool:
        """Whether these are several hierarchies, which have cells and no tree of nodes."""
        return len(self.dimensions) > 1

    @property
    def kind_order(self) -> tuple[Kind, ...]:
        """The levels as kinds of cells, in the order in which they are asked: finest first."""
        return tuple((level,) for level in range(self.height, 0, -1))

    @property
    def finest_levels(self) -> tuple[int, ...]:
        """The levels that no other level refines, the last level first."""
        return (self.height,)

    def by_dimension(self, values: Sequence[str]) -> list[tuple[str, ...]]:
        """Split by dimension a sequence that has one value for each source column."""
        rest = iter(values)
        return [tuple(itertools.islice(rest, len(one.source_columns))) for one in self.dimensions]

    def by_keys(self, columns: Sequence[T]) -> list[tuple[T, ...]]:
        """Split by dimension a sequence that has one value for each key column."""
        rest = iter(columns)
        return [tuple(itertools.islice(rest, one.key_width)) for one in self.dimensions]

    @property
    def spec(self) -> str:
        """The canonical string; parsing it gives an equal hierarchy."""
        columns = ",".join(_quote_column(c) for c in self.source_columns)
        options = {**self.options, **({"invalid": "drop"} if self.on_invalid == "drop" else {})}
        safe = {"zone": ",-: /"}
        query = "&".join(f"{k}={quote(v, safe=safe.get(k, ',-: '))}" for k, v in options.items())
        return f"{self.kind}:{columns}" + (f"?{query}" if query else "")

    @abstractmethod
    def validate(self) -> None:
        """Raise HierarchyError if the specification breaks a rule of its kind."""

    def check_types(self, types: tuple[str, ...]) -> None:
        """Raise ColumnError if a column's DuckDB type cannot be read; text can always be read."""
        for column, duckdb_type in zip(self.source_columns, types, strict=True):
            READS[self.kind].check(self.kind, column, duckdb_type)
            check_writable(column, duckdb_type)

    def domain_values(self) -> list[str] | None:
        """Return one value of the column, as text, for every possible leaf; None unless the
        specification alone says that there are at most 2**20 leaves."""
        return None

    @property
    def reading(self) -> str:
        """How values are read, in a few words for people; empty if the caller has no choice."""
        return ""

    # -- SQL ---------------------------------------------------------------------------------

    @property
    def reads_text(self) -> bool:
        """Whether equal raw values should be grouped before their keys are computed."""
        return True

    @property
    def key_width(self) -> int:
        """Number of key columns of the finest level."""
        return 1

    @abstractmethod
    def key_steps(
        self, columns: tuple[str, ...], types: tuple[str, ...]
    ) -> tuple[dict[str, str], ...]:
        """Return named SQL expressions, each step using the steps before it; the last step is the
        finest key: k1, k2, ...

        ``columns`` is the SQL of the source columns and ``types`` their DuckDB types.
        """

    def stored_keys(self, columns: tuple[str, ...], types: tuple[str, ...]) -> str | None:
        """Return the SQL of a condition: where it holds, the values of a row are its finest key
        unchanged; where it does not hold, the key has a NULL. Rows may then be grouped before keys
        are made. None if the types do not allow this grouping, or if it would save nothing."""
        return None

    def whole_keys(self, types: tuple[str, ...]) -> bool:
        """Whether all key columns are integers of at most 64 bits, which are cheap to sort by."""
        return False

    @abstractmethod
    def depth(self, keys: tuple[str, ...]) -> str | None:
        """Return the SQL of a row's number of levels, 0 if it ends at the root; None if every row
        has all levels."""

    def rests(self, level: int) -> bool:
        """Whether many rows can end at ``level`` or above, and never share a node of ``level`` with
        rows that go on. Rows that end there need not be grouped again at ``level``."""
        return False

    @abstractmethod
    def coarser(self, level: int, keys: tuple[str, ...]) -> tuple[str, ...]:
        """Return the SQL of the key at ``level`` from the key one level down. A row that ends at
        ``level`` or above keeps its key."""

    @abstractmethod
    def preorder(self, level: int, keys: tuple[str, ...]) -> tuple[str, ...]:
        """Return the SQL of the sort columns s1, s2, ... of a node; see ``order_by``."""

    def order_by(self) -> str:
        """Return an ORDER BY that puts a node after its ancestors, before their later siblings."""
        sorts = len(self.preorder(1, tuple(f"k{i + 1}" for i in range(self.key_width))))
        return ascending_order(*(f"s{i}" for i in range(1, sorts + 1)), "level", nulls="FIRST")

    @abstractmethod
    def texts(self, level: int, keys: tuple[str, ...], types: tuple[str, ...]) -> tuple[str, ...]:
        """Return the SQL of the key columns as VARCHAR or integers; ``label`` takes their texts.
        NULL for key columns that the level does not have. ``types`` are as in ``key_steps``."""

    # -- people ------------------------------------------------------------------------------

    def label(self, level: int, texts: tuple[str | None, ...]) -> str:
        """Return the label, for people, of a node of ``level`` >= 1."""
        return INVALID if texts[0] is None else texts[0]

    def labels(self, level: NDArray[np.int64], keys: Sequence[pa.ChunkedArray]) -> pa.Array:
        """Return the labels of many released nodes, also of level 0, from key columns of texts."""
        texts = zip(*(column.to_pylist() for column in keys), strict=True)
        pairs = zip(level.tolist(), texts, strict=True)
        return pa.array([self.label(n, t) if n else ROOT for n, t in pairs], type=pa.string())

    @property
    def label_columns(self) -> tuple[str, ...]:
        """Names of extra columns of a result, one for each level; only ``columns`` has them."""
        return ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns with the labels of the dimensions; only ``Cells`` have them. Each
        has a second column beside it, ``NAME_level``."""
        return ()

    @abstractmethod
    def lineage(self, level: int, shown: tuple[str, ...]) -> tuple[Hashable, ...]:
        """Return the nodes above a released node of ``level`` >= 1 and the node itself, coarse to
        fine.

        ``shown`` is its label, or its label columns down to its level. A node is represented by
        equal values in all lineages. ValueError if a text that is no label cannot be parsed.
        """


def _quote_column(name: str) -> str:
    """Quote a column name for a specification, whose parser drops white space around names."""
    return quote(name, safe="/.-" if name != name.strip() else " /.-")


def text_sql(column: str, duckdb_type: str) -> str:
    """Return the SQL of a value as text that does not depend on how the column is stored.

    An integer column and a floating-point column give equal text for a whole number, if the float
    holds the number exactly. So a NULL, which turns integers into floats in pandas, changes no text
    of other rows.
    """
    if duckdb_type in ("VARCHAR", "TEXT"):
        return column
    if duckdb_type in ("DOUBLE", "FLOAT"):
        return real_text(f"CAST({column} AS DOUBLE)", f"CAST({column} AS VARCHAR)")
    if duckdb_type in COARSE_TIMES:
        return f"CAST(TRY_CAST({column} AS TIMESTAMP) AS VARCHAR)"
    check_writable(column, duckdb_type)
    return f"CAST({column} AS VARCHAR)"


COARSE_TIMES = ("TIMESTAMP_S", "TIMESTAMP_MS")
"""Types whose times can lie outside the range of microseconds. DuckDB cannot write such times as
text: it closes the whole database when it tries."""

UNWRITABLE = r"\b(TIMESTAMP_M?S|VARIANT|BIGNUM)\b|\bUNION\b.*\b(TIME|TIME_NS|DECIMAL|BIT)\b"
"""Pattern in the names of types that hold times of ``COARSE_TIMES`` inside, or can hold them, and
of types whose malformed values no SQL tells from valid ones (``_duck.connections``)."""

NO_TEXT = "; it can hold values that cannot be written as text. Cast the column."


def check_writable(column: str, duckdb_type: str) -> None:
    """Raise ColumnError if a type can hold values that cannot be written as text."""
    writable = duckdb_type in COARSE_TIMES or duckdb_type.startswith("ENUM")
    if not writable and re.search(UNWRITABLE, duckdb_type):
        raise column_type_error(column, duckdb_type, NO_TEXT)


def real_text(number: str, otherwise: str) -> str:
    """Return the SQL of a DOUBLE as text, NULL for NaN: as an integer if it is a whole number of
    at most 128 bits, else ``otherwise``."""
    return (
        f"CASE WHEN {is_nan(number)} THEN NULL "
        f"WHEN {number} = trunc({number}) AND abs({number}) < {2.0**127!r}::DOUBLE "
        f"THEN CAST(TRY_CAST({number} AS HUGEINT) AS VARCHAR) ELSE {otherwise} END"
    )


LEVEL_COLUMN_TYPES = (
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"),
    *("BOOLEAN", "FLOAT", "DOUBLE", "DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS"),
    *("TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"),
)
"""DuckDB's types that the column of a level keeps; values of other types become text."""


def has_zone(duckdb_type: str) -> bool:
    """Whether a type is a timestamp with a time zone, of any precision; False for lists of them."""
    zoned = "ZONE" in duckdb_type or "TZ" in duckdb_type
    return duckdb_type.startswith("TIMESTAMP") and zoned and not duckdb_type.endswith("]")


def utc_sql(column: str) -> str:
    """Return the SQL that turns a timestamp with a time zone into a timestamp in UTC without one.

    A cast would use the time zone of the session. Infinite times become NULL.
    """
    zoned = f"CAST({column} AS TIMESTAMP WITH TIME ZONE)"
    return f"make_timestamp(epoch_us(CASE WHEN isfinite({zoned}) THEN {zoned} END))"


def check_column_name(kind: str, column: object) -> None:
    if not isinstance(column, str) or not column:
        raise HierarchyError(f"{kind} needs the name of one column, as text; got {column!r}.")


def check_level_number(kind: str, value: object, high: int) -> None:
    """Raise HierarchyError unless ``value`` is a number of levels from 1 to ``high``."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= high:
        raise HierarchyError(f"{kind}: depth must be a whole number in 1 to {high}; got {value!r}.")


def check_increasing(kind: str, name: str, values: object, low: int, high: int) -> None:
    """Raise HierarchyError unless ``values`` are strictly increasing integers in [low, high]."""
    whole = isinstance(values, tuple) and all(
        isinstance(v, int) and not isinstance(v, bool) for v in values
    )
    if not isinstance(values, tuple) or not whole or not values:
        raise HierarchyError(f"{kind}: {name} must be whole numbers; got {values!r}.")
    if any(a >= b for a, b in itertools.pairwise(values)):
        raise HierarchyError(f"{kind}: {name} must increase, coarse to fine; got {values!r}.")
    if values[0] < low or values[-1] > high:
        raise HierarchyError(f"{kind}: {name} must lie in {low} to {high}; got {values!r}.")


class OneColumn(Hierarchy):
    """A kind of hierarchy of the values of one column."""

    column: str
    invalid: OnInvalid

    @property
    def on_invalid(self) -> OnInvalid:
        return self.invalid

    @property
    def source_columns(self) -> tuple[str, ...]:
        return (self.column,)


INVALID_KEY = "!"
"""Stands for a NULL key. Other keys of one text start with VALUE; keys of more texts are JSON."""

VALUE = "="


def pack_key(texts: tuple[str, ...]) -> str:
    """Return the SQL of a node's key from the SQL of the texts of its levels, coarse to fine."""
    if len(texts) == 1:
        return f"coalesce('{VALUE}' || {texts[0]}, '{INVALID_KEY}')"
    listed = ", ".join(f"CAST({text} AS VARCHAR)" for text in texts)
    return f"CAST(to_json(list_value({listed})) AS VARCHAR)"


def level_key_sql(
    hierarchy: Hierarchy, finest: tuple[str, ...], key: Callable[[int, tuple[str, ...]], str]
) -> tuple[list[dict[str, str]], list[str]]:
    """Return the SQL of the nodes of a row from the columns of its finest key.

    The first result are columns to add, name to SQL, one step after the other. The second is the
    SQL that ``key`` returns for each level and the key columns there, coarse to fine; NULL at
    levels that a row does not have.
    """
    depth = hierarchy.depth(finest)
    steps = [] if depth is None else [{"d": depth}]
    columns = {hierarchy.height: finest}
    for level in range(hierarchy.height - 1, 0, -1):
        coarser = hierarchy.coarser(level, columns[level + 1])
        columns[level] = tuple(f"l{level}_{i + 1}" for i in range(len(coarser)))
        steps.append(dict(zip(columns[level], coarser, strict=True)))
    keys = [key(level, columns[level]) for level in range(1, hierarchy.height + 1)]
    if depth is not None:
        keys = [f"CASE WHEN d >= {level} THEN {sql} END" for level, sql in enumerate(keys, 1)]
    return steps, keys


def unpack_key(key: str, width: int) -> tuple[str | None, ...]:
    """Return the texts that ``Hierarchy.label`` takes, ``width`` of them, from a packed key."""
    if not key.startswith("["):
        texts: list[str | None] = [None if key == INVALID_KEY else key.removeprefix(VALUE)]
    else:
        texts = json.loads(key)
    return (*texts, *[None] * (width - len(texts)))
