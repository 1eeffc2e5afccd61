"""Columns and several hierarchies at once: kinds of cells, and their order.

A *kind* says how fine a cell is: its level in every dimension, 0 if the cell covers the whole
dimension. A record lies in at most one cell of a kind, and in none if it has too few levels. Kinds
are ordered finest first: a kind comes after all kinds that refine it. All of this is public.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NoReturn
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpframe.common.texts import ascending_order
from dpframe.counts import different_values
from dpframe.errors import HierarchyError, ParameterTypeError
from dpframe.hierarchy._base import (
    INVALID,
    MAX_HEIGHT,
    ROOT,
    Hierarchy,
    Kind,
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
        parts = []
        for depth, key in enumerate(keys, 1):
            different, place = different_values(key)
            shown = pa.concat_arrays(
                [pc.fill_null(different, INVALID), pa.array([ROOT, None], different.type)]
            )
            above = len(different) + (depth > 1)  # the root is named in the first column
            parts.append(shown.take(pa.array(np.where(level >= depth, place, above))))
        return pc.binary_join_element_wise(*parts, " / ", null_handling="skip")

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


Form = Literal["product", "nested", "sets"]

CELL_RESULT_COLUMNS = (
    "level",
    "prefix",
    "residual",
    "lower",
    "upper",
    "count",
    "count_lower",
    "count_upper",
)
"""Columns of the result besides the columns of the dimensions."""

CELL_REFUSALS = {
    "mechanism='streaming'": "a sketch does not know which records a finer cell has taken",
    "other mechanisms": "it counts the nodes of one tree",
    "contribution='items'": "leave it out: rounds, the default, count the users of whole cells",
    "totals with user or weight": "whole counts are of single records",
    "series": "periods are compared node by node of one tree",
    "questions other than hhh and rollup": (
        "all cells would be counted, and cells that overlap do not add up"
    ),
}
"""Why several hierarchies are refused where one is taken; docs/cubes.md shows this table."""

BETWEEN = " * "
"""Sign between the dimensions of a product, in specifications and labels."""

UNDER = " > "
"""Sign between dimensions if each lies inside of the dimension before it."""

SETS = "sets"
"""Word before the colon in a specification of grouping sets."""


@dataclass(frozen=True, repr=False)
class Cells(Hierarchy):
    """Dimensions, and the kinds of cells that are asked, finest first, without the total.

    Cells act as a hierarchy for three things: the columns that they read, their height (the number
    of kinds, as a record pays for each) and their specification. They have no chain of nodes, so
    that only ``hhh`` and ``rollup`` can count them.
    """

    of: tuple[Hierarchy, ...]
    kinds: tuple[Kind, ...]
    kind: ClassVar[str] = "cells"

    def __repr__(self) -> str:
        return f"Cells({self.spec!r})"

    def validate(self) -> None:
        columns = [name for one in self.of for name in one.source_columns]
        for name in columns:
            if columns.count(name) > 1:
                raise HierarchyError(
                    f"column {name!r} is in several dimensions: name each column once."
                )
        if len(self.kinds) > MAX_HEIGHT:
            raise too_many_kinds(len(self.kinds))
        for place, kind in enumerate(self.kinds):
            for later in self.kinds[place + 1 :]:
                if all(a <= b for a, b in zip(kind, later, strict=True)):
                    raise HierarchyError(
                        f"cells of {self.kind_name(kind)} come before finer or equal cells of "
                        f"{self.kind_name(later)}: name kinds finest first, each once."
                    )

    @property
    def dimensions(self) -> tuple[Hierarchy, ...]:
        return self.of

    @property
    def kind_order(self) -> tuple[Kind, ...]:
        return self.kinds

    @property
    def finest_levels(self) -> tuple[int, ...]:
        def refined(kind: Kind) -> bool:
            pairs = (zip(kind, other, strict=True) for other in self.kinds if other != kind)
            return any(all(a <= b for a, b in each) for each in pairs)

        levels = range(self.height, 0, -1)
        return tuple(n for n, kind in zip(levels, self.kinds, strict=True) if not refined(kind))

    @property
    def on_invalid(self) -> OnInvalid:
        return "count"  # each dimension says what it drops

    @property
    def height(self) -> int:
        """Number of kinds of cells without the total: a record pays for a cell of each kind."""
        return len(self.kinds)

    @property
    def source_columns(self) -> tuple[str, ...]:
        return tuple(name for one in self.of for name in one.source_columns)

    @property
    def level_names(self) -> tuple[str, ...]:
        """Names of the kinds in the reverse of their order: coarse to fine, as levels are."""
        return tuple(self.kind_name(kind) for kind in reversed(self.kinds))

    def kind_name(self, kind: Kind) -> str:
        """Return the name of a kind: the levels of the dimensions that it does not cover whole."""
        pairs = zip(self.of, kind, strict=True)
        return BETWEEN.join(level_name(one, level) for one, level in pairs if level)

    @property
    def options(self) -> dict[str, str]:
        return {}

    @property
    def form(self) -> Form:
        """How the specification is written: as a product (all kinds), nested (the kinds of one
        chain), or sets of columns."""
        if self.kinds == product_kinds([one.height for one in self.of]):
            return "product"
        chain = self.kinds == nested_kinds([one.height for one in self.of])
        return (
            "nested" if chain and not any(map(is_one_dimension, self.of, self.of[1:])) else "sets"
        )

    @property
    def spec(self) -> str:
        if self.form == "sets":
            names = [quote(one.source_columns[0], safe="/.-") for one in self.of]
            sets = (",".join(itertools.compress(names, kind)) for kind in self.kinds)
            return f"{SETS}:{';'.join(sets)}"
        return (BETWEEN if self.form == "product" else UNDER).join(one.spec for one in self.of)

    def check_types(self, types: tuple[str, ...]) -> None:
        for one, own in zip(self.of, self.by_dimension(types), strict=True):
            one.check_types(own)

    @property
    def reads_text(self) -> bool:
        return True

    @property
    def key_width(self) -> int:
        return sum(one.key_width for one in self.of)

    @property
    def names(self) -> tuple[str, ...]:
        taken, names = set(CELL_RESULT_COLUMNS), []
        for one in self.of:
            name = "_".join(one.source_columns)
            while name.lower() in taken or f"{name}_level".lower() in taken:
                name += "_"
            taken |= {name.lower(), f"{name}_level".lower()}
            names.append(name)
        return tuple(names)

    # -- methods of a chain of nodes, which cells do not have --------------------------------------

    def key_steps(
        self, columns: tuple[str, ...], types: tuple[str, ...]
    ) -> tuple[dict[str, str], ...]:
        refuse_chain()

    def depth(self, keys: tuple[str, ...]) -> str | None:
        refuse_chain()

    def coarser(self, level: int, keys: tuple[str, ...]) -> tuple[str, ...]:
        refuse_chain()

    def preorder(self, level: int, keys: tuple[str, ...]) -> tuple[str, ...]:
        refuse_chain()

    def texts(self, level: int, keys: tuple[str, ...], types: tuple[str, ...]) -> tuple[str, ...]:
        refuse_chain()

    def lineage(self, level: int, shown: tuple[str, ...]) -> tuple[Hashable, ...]:
        refuse_chain()


def is_one_dimension(before: Hierarchy, one: Hierarchy) -> bool:
    """Whether two neighbours of a chain are columns with equal ``invalid``, so that both together
    are one dimension."""
    both = isinstance(one, Columns) and isinstance(before, Columns)
    return both and one.on_invalid == before.on_invalid


def refuse_chain() -> NoReturn:
    """Raise ParameterTypeError. No call gets here: ``as_hierarchy`` refuses several hierarchies."""
    raise ParameterTypeError("several hierarchies at once are no single chain of nodes.")


def level_name(one: Hierarchy, level: int) -> str:
    """Return the name of a level of a dimension, after the column unless the name is the column;
    ``*`` for level 0."""
    if level == 0:
        return ROOT
    name = one.level_names[level - 1]
    return name if isinstance(one, Columns) else f"{one.source_columns[0]} {name}"


def product_kinds(heights: Sequence[int]) -> tuple[Kind, ...]:
    """Return all kinds but the total, sorted by the sum of their levels, largest first. Among equal
    sums, the kind that is finer in an earlier dimension comes first."""
    ranges = [range(height, -1, -1) for height in heights]
    kinds = sorted(itertools.product(*ranges), key=lambda kind: -sum(kind))
    return tuple(kinds[:-1])


def nested_kinds(heights: Sequence[int]) -> tuple[Kind, ...]:
    """Return the kinds of a chain, finest first: each level of a dimension, under the finest level
    of all earlier dimensions."""
    kinds = []
    for i, height in enumerate(heights):
        before, after = tuple(heights[:i]), (0,) * (len(heights) - i - 1)
        kinds += [(*before, level, *after) for level in range(1, height + 1)]
    return tuple(reversed(kinds))


def too_many_kinds(kinds: int) -> HierarchyError:
    """Return the error for more than ``MAX_HEIGHT`` kinds of cells."""
    columns = MAX_HEIGHT.bit_length() - 1
    return HierarchyError(
        f"hierarchies have {kinds} kinds of cells, above {MAX_HEIGHT}: take fewer levels, such as "
        f"'path:p?depth=3', fewer columns (a cube of {columns} has {2**columns - 1}), or "
        "dp.grouping_sets."
    )
