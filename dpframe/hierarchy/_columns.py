"""Several columns as levels, coarse to fine: country, state, city."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpframe._sql import ascending_order
from dpframe.errors import HierarchyError
from dpframe.hierarchy._base import (
    INVALID,
    ROOT,
    Hierarchy,
    OnInvalid,
    has_zone,
    text_sql,
    utc_sql,
)

RESERVED = ("level", "prefix", "residual", "count", "lower", "upper")
"""Names of columns of results, which a level column cannot have."""


@dataclass(frozen=True)
class Columns(Hierarchy):
    """One level for each column. Equal values under different parents are different nodes.

    NULL, NaN and empty text make an ``<invalid>`` node under their parent, and the levels below
    it still count.
    """

    columns: tuple[str, ...]
    invalid: OnInvalid = "count"
    kind: ClassVar[str] = "columns"

    def validate(self) -> None:
        names = self.columns
        if (
            not isinstance(names, tuple)
            or not names
            or not all(isinstance(n, str) and n for n in names)
        ):
            hint = ""
            if isinstance(names, tuple) and any(isinstance(n, list | tuple) for n in names):
                hint = " Sets of columns are dp.grouping_sets, several hierarchies dp.product."
            raise HierarchyError(
                f"columns needs the names of columns, coarse to fine; got {names!r}.{hint}"
            )
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            raise HierarchyError(f"columns names {twice[0]!r} twice: name each column once.")

    @property
    def on_invalid(self) -> OnInvalid:
        return self.invalid

    @property
    def height(self) -> int:
        return len(self.columns)

    @property
    def source_columns(self) -> tuple[str, ...]:
        return self.columns

    @property
    def level_names(self) -> tuple[str, ...]:
        return self.columns

    @property
    def options(self) -> dict[str, str]:
        return {}

    @property
    def reads_text(self) -> bool:
        return False

    @property
    def key_width(self) -> int:
        return len(self.columns)

    def key_steps(
        self, columns: tuple[str, ...], types: tuple[str, ...]
    ) -> tuple[dict[str, str], ...]:
        pairs = zip(columns, types, strict=True)
        return ({f"k{i}": _column_key_sql(c, t) for i, (c, t) in enumerate(pairs, 1)},)

    def stored_keys(self, columns: tuple[str, ...], types: tuple[str, ...]) -> str | None:
        texts = [t == "VARCHAR" for t in types]
        if not any(texts) or not all(
            a or _is_its_key(t) for a, t in zip(texts, types, strict=True)
        ):
            return None
        pairs = zip(columns, texts, strict=True)
        return " AND ".join(f"{c} <> ''" if text else f"{c} IS NOT NULL" for c, text in pairs)

    def whole_keys(self, types: tuple[str, ...]) -> bool:
        return all(map(_is_whole, types))

    def depth(self, keys: tuple[str, ...]) -> str | None:
        return None

    def coarser(self, level: int, keys: tuple[str, ...]) -> tuple[str, ...]:
        return keys[:level]

    def preorder(self, level: int, keys: tuple[str, ...]) -> tuple[str, ...]:
        return ()

    def order_by(self) -> str:
        # levels that a node does not have are NULL, like invalid keys: the level breaks the tie
        return ascending_order(
            *(f"t{i}" for i in range(1, self.height + 1)), "level", nulls="FIRST"
        )

    def texts(self, level: int, keys: tuple[str, ...], types: tuple[str, ...]) -> tuple[str, ...]:
        pairs = zip(keys[:level], types, strict=False)
        here = [k if _is_whole(t) else f"CAST({k} AS VARCHAR)" for k, t in pairs]
        return (*here, *["NULL"] * (self.height - level))

    def label(self, level: int, texts: tuple[str | None, ...]) -> str:
        return " / ".join(INVALID if t is None else t for t in texts[:level])

    def labels(self, level: NDArray[np.int64], keys: Sequence[pa.ChunkedArray]) -> pa.Array:
        """Return what ``label`` returns for each node, ``*`` at level 0, a column at a time."""
        joined = pc.fill_null(keys[0], INVALID)
        out = pc.if_else(pa.array(level == 0), ROOT, joined)
        for depth, key in enumerate(keys[1:], 2):
            joined = pc.binary_join_element_wise(joined, pc.fill_null(key, INVALID), " / ")
            out = pc.if_else(pa.array(level >= depth), joined, out)
        return out.combine_chunks() if isinstance(out, pa.ChunkedArray) else out

    @property
    def label_columns(self) -> tuple[str, ...]:
        return tuple(self._free(c) if c.lower() in RESERVED else c for c in self.columns)

    def lineage(self, level: int, shown: tuple[str, ...]) -> tuple[Hashable, ...]:
        return tuple(shown[:n] for n in range(1, level + 1))

    def _free(self, reserved: str) -> str:
        name, taken = f"{reserved}_", {c.lower() for c in self.columns}
        while name.lower() in taken:
            name += "_"
        return name


ONE_TEXT_A_VALUE = ("BOOLEAN", "DATE", "TIMESTAMP", "UUID", "DECIMAL", "HUGEINT", "UHUGEINT")
"""Types, besides integers of at most 64 bits, in which each value has exactly one text and each
text means one value. Times with a zone are grouped by their time in UTC, values of other types by
their text."""


def _is_whole(duckdb_type: str) -> bool:
    """Whether values are integers of at most 64 bits, which sort faster than their texts."""
    return duckdb_type.removeprefix("U") in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")


def _is_its_key(duckdb_type: str) -> bool:
    return _is_whole(duckdb_type) or duckdb_type.split("(")[0] in ONE_TEXT_A_VALUE


def _column_key_sql(column: str, duckdb_type: str) -> str:
    if _is_its_key(duckdb_type):
        return column
    if has_zone(duckdb_type):
        return utc_sql(column)
    return f"nullif({text_sql(column, duckdb_type)}, '')"
