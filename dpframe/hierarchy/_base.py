"""What every kind of hierarchy answers; none of them ever sees data.

A hierarchy turns a row into a chain of nodes, coarse to fine. The rollup asks it for SQL: the
key of the finest node of a row (one or several columns), the key of a node one level up, the
number of levels the row really has, an order in which every node follows its ancestors, and
the key as text. People see ``label``.

A NULL key is the ``<invalid>`` node of level 1: NULL, empty and malformed values end there.
"""

from __future__ import annotations

import itertools
import re
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal
from urllib.parse import quote

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe._sql import ascending, is_nan
from dpframe._unicode import is_unicode
from dpframe.errors import ColumnError, HierarchyError
from dpframe.hierarchy._types import READS, named

INVALID = "<invalid>"
"""Label of the node of NULL, empty and malformed values."""

OTHER = "<other>"
"""Label of what the released nodes beside it do not cover."""

ROOT = "*"
"""Label of level 0, everything."""

MAX_HEIGHT = 128

MAX_DOMAIN_BITS = 20
"""A finite domain has at most 2**20 values: all of them are listed."""

OnInvalid = Literal["count", "drop"]


@dataclass(frozen=True)
class Hierarchy(ABC):
    """Base of the kinds. ``invalid`` is "count" (an ``<invalid>`` node) or "drop"."""

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        self.validate()
        for text in (*self.source_columns, *self.options.values()):
            if not is_unicode(text):
                raise HierarchyError(
                    f"{self.kind}: {text!r} is no text that UTF-8 can write: rename the column, or "
                    "pass other text."
                )
        if not 1 <= self.height <= MAX_HEIGHT:
            raise HierarchyError(
                f"{self.kind} hierarchy has {self.height} levels; it must have 1 to {MAX_HEIGHT}."
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
        """What happens to NULL, empty and malformed values."""

    @property
    @abstractmethod
    def height(self) -> int:
        """Levels below the root; from the specification alone."""

    @property
    @abstractmethod
    def source_columns(self) -> tuple[str, ...]:
        """Columns that the hierarchy reads."""

    @property
    @abstractmethod
    def level_names(self) -> tuple[str, ...]:
        """A short name a level, for people."""

    @property
    @abstractmethod
    def options(self) -> dict[str, str]:
        """Options as text, only those that differ from the default."""

    @property
    def dimensions(self) -> tuple[Hierarchy, ...]:
        """Itself; of several hierarchies at once each of them."""
        return (self,)

    @property
    def spec(self) -> str:
        """The canonical string; parsing it gives an equal hierarchy."""
        columns = ",".join(_quoted(c) for c in self.source_columns)
        options = {**self.options, **({"invalid": "drop"} if self.on_invalid == "drop" else {})}
        safe = {"zone": ",-: /"}
        query = "&".join(f"{k}={quote(v, safe=safe.get(k, ',-: '))}" for k, v in options.items())
        return f"{self.kind}:{columns}" + (f"?{query}" if query else "")

    @abstractmethod
    def validate(self) -> None:
        """Raise HierarchyError if the specification breaks a rule of its kind."""

    def check_types(self, types: tuple[str, ...]) -> None:
        """Raise ColumnError if the DuckDB types of the columns cannot be read; text always can."""
        for column, duckdb_type in zip(self.source_columns, types, strict=True):
            READS[self.kind].check(self.kind, column, duckdb_type)
            check_writable(column, duckdb_type)

    def domain_values(self) -> list[str] | None:
        """One value of the column, as text, for every leaf there can be; None if that is not at
        most 2**20 leaves, known from the specification alone."""
        return None

    @property
    def reading(self) -> str:
        """How values are read, where that is a choice; a few words for people."""
        return ""

    # -- SQL ---------------------------------------------------------------------------------

    @property
    def reads_text(self) -> bool:
        """Whether equal raw values should be grouped before their keys are computed."""
        return True

    @property
    def key_width(self) -> int:
        """Key columns of the finest level."""
        return 1

    @abstractmethod
    def key_steps(
        self, columns: tuple[str, ...], types: tuple[str, ...]
    ) -> tuple[dict[str, str], ...]:
        """Named SQL expressions, step upon step; the last step is the finest key: k1, k2, ...

        ``columns`` is the SQL of the source columns and ``types`` their DuckDB types.
        """

    def stored_keys(self, columns: tuple[str, ...], types: tuple[str, ...]) -> str | None:
        """SQL of a condition under which the values of a row are its finest key as they stand, and
        without which the key has a NULL: rows may be grouped before keys are made. None if types do
        not say so, or if that would save nothing."""
        return None

    def whole_keys(self, types: tuple[str, ...]) -> bool:
        """Whether the columns of keys are integers of at most 64 bits, cheap to sort by."""
        return False

    @abstractmethod
    def depth(self, keys: tuple[str, ...]) -> str | None:
        """SQL of the number of levels of a row, 0 if it ends at the root; None if every row has all
        of them."""

    def rests(self, level: int) -> bool:
        """Whether rows that end at ``level`` or above it can be many, and share no node of it with
        rows that go on: they need not be grouped again there."""
        return False

    @abstractmethod
    def coarser(self, level: int, keys: tuple[str, ...]) -> tuple[str, ...]:
        """SQL of the key at ``level`` from the key one level down; unchanged for shorter rows."""

    @abstractmethod
    def preorder(self, level: int, keys: tuple[str, ...]) -> tuple[str, ...]:
        """SQL of the sort columns s1, s2, ... of a node; see ``order_by``."""

    def order_by(self) -> str:
        """ORDER BY that puts every node right after its ancestors and before their siblings."""
        sorts = len(self.preorder(1, tuple(f"k{i + 1}" for i in range(self.key_width))))
        return ascending(*(f"s{i}" for i in range(1, sorts + 1)), "level", nulls="FIRST")

    @abstractmethod
    def texts(self, level: int, keys: tuple[str, ...], types: tuple[str, ...]) -> tuple[str, ...]:
        """SQL of the key, NULL for what the level does not have: VARCHAR, or integers that people
        read as they are. ``types`` are those of ``key_steps``."""

    # -- people ------------------------------------------------------------------------------

    def label(self, level: int, texts: tuple[str | None, ...]) -> str:
        """What people read for a node of ``level`` >= 1."""
        return INVALID if texts[0] is None else texts[0]

    def labels(self, level: NDArray[np.int64], keys: Sequence[pa.ChunkedArray]) -> pa.Array:
        """Labels of many released nodes, those of level 0 included; ``keys`` are text columns."""
        texts = zip(*(column.to_pylist() for column in keys), strict=True)
        pairs = zip(level.tolist(), texts, strict=True)
        return pa.array([self.label(n, t) if n else ROOT for n, t in pairs], type=pa.string())

    @property
    def label_columns(self) -> tuple[str, ...]:
        """Extra columns of the result, one a level; only ``columns`` has them."""
        return ()

    @abstractmethod
    def lineage(self, level: int, shown: tuple[str, ...]) -> tuple[Hashable, ...]:
        """The nodes above a released node of ``level`` >= 1 and itself, coarse to fine.

        ``shown`` is its label, or its label columns down to its level. What stands for a node is
        the same in every lineage. Raises ValueError for text that is no label of this kind.
        """


def _quoted(name: str) -> str:
    """A column name inside a specification, where white space around names does not count."""
    return quote(name, safe="/.-" if name != name.strip() else " /.-")


def text_of(column: str, duckdb_type: str) -> str:
    """SQL of a value as text that does not depend on how the column happened to be stored.

    A whole number reads the same from an integer and a floating-point column, as far as that holds
    it: a NULL elsewhere, which turns integers into floats in pandas, changes no text that is there.
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
"""Types of times that reach beyond microseconds: DuckDB cannot write those, and closes the whole
database when it is asked to."""

UNWRITABLE = r"\b(TIMESTAMP_M?S|VARIANT|BIGNUM)\b|\bUNION\b.*\b(TIME|TIME_NS|DECIMAL|BIT)\b"
"""In the names of types that hold such times inside, or can hold them, and of those whose malformed
values no SQL tells from others (``_duck.guards``)."""

NO_TEXT = (
    "; VARIANT, BIGNUM, unions of times, decimals or BIT, and TIMESTAMP_S and TIMESTAMP_MS inside "
    "of another type, can hold what cannot be written as text. Cast the column."
)


def check_writable(column: str, duckdb_type: str) -> None:
    """Raise ColumnError for a type, other than that of a text, whose values have no text each."""
    writable = duckdb_type in COARSE_TIMES or duckdb_type.startswith("ENUM")
    if not writable and re.search(UNWRITABLE, duckdb_type):
        raise ColumnError(f"column {column!r} has type {named(duckdb_type)}{NO_TEXT}")


def real_text(number: str, otherwise: str) -> str:
    """SQL of a DOUBLE as text, NULL for NaN: whole numbers of 128 bits as integers."""
    return (
        f"CASE WHEN {is_nan(number)} THEN NULL "
        f"WHEN {number} = trunc({number}) AND abs({number}) < {2.0**127!r}::DOUBLE "
        f"THEN CAST(TRY_CAST({number} AS HUGEINT) AS VARCHAR) ELSE {otherwise} END"
    )


KEPT = (
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"),
    *("BOOLEAN", "FLOAT", "DOUBLE", "DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS"),
    *("TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"),
)
"""DuckDB's types that a level column keeps; others show as text."""


def has_zone(duckdb_type: str) -> bool:
    """Whether this is a timestamp with a time zone, of any precision, and no list of them."""
    zoned = "ZONE" in duckdb_type or "TZ" in duckdb_type
    return duckdb_type.startswith("TIMESTAMP") and zoned and not duckdb_type.endswith("]")


def in_utc(column: str) -> str:
    """SQL of a timestamp with a time zone as one without, in UTC; a cast would follow the session.

    NULL for infinite times.
    """
    zoned = f"CAST({column} AS TIMESTAMP WITH TIME ZONE)"
    return f"make_timestamp(epoch_us(CASE WHEN isfinite({zoned}) THEN {zoned} END))"


def one_column(kind: str, column: object) -> None:
    if not isinstance(column, str) or not column:
        raise HierarchyError(f"{kind} needs the name of one column, as text; got {column!r}.")


def depth_within(kind: str, value: object, high: int) -> None:
    """Check a number of levels."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= high:
        raise HierarchyError(f"{kind}: depth must be a whole number in 1 to {high}; got {value!r}.")


def increasing(kind: str, name: str, values: object, low: int, high: int) -> None:
    """Check a tuple of strictly increasing integers within [low, high]."""
    whole = isinstance(values, tuple) and all(
        isinstance(v, int) and not isinstance(v, bool) for v in values
    )
    if not isinstance(values, tuple) or not whole or not values:
        raise HierarchyError(f"{kind}: {name} must be whole numbers; got {values!r}.")
    if any(a >= b for a, b in itertools.pairwise(values)):
        raise HierarchyError(f"{kind}: {name} must increase, coarse to fine; got {values!r}.")
    if values[0] < low or values[-1] > high:
        raise HierarchyError(f"{kind}: {name} must lie in {low} to {high}; got {values!r}.")
