"""Several hierarchies at once: which kinds of cells there are, and in which order they are asked.

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

from dpframe.errors import HierarchyError, ParameterTypeError
from dpframe.hierarchy._base import MAX_HEIGHT, ROOT, Hierarchy, Kind, OnInvalid
from dpframe.hierarchy._columns import Columns

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
    "contribution='items'": "a user would count at cells of every kind, each with noise",
    "totals with user or weight": "whole counts are of single records",
    "keys": "listed cells overlap, and only a selection decides which of them takes a record",
    "series": "periods are compared node by node of one tree",
    "other questions": "all cells would be counted, and cells that overlap do not add up",
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
