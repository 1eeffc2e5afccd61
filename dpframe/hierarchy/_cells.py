"""Several hierarchies at once: which kinds of cells there are, and in which order they are asked.

A *kind* says how fine a cell is in every dimension: a level of each, 0 where the cell covers all
of it. A record lies in one cell of a kind at most, in none where it has not so many levels. Kinds
stand finest first: none before one that refines it. All of that is public.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NoReturn, TypeVar
from urllib.parse import quote

from dpframe.errors import HierarchyError, ParameterTypeError
from dpframe.hierarchy._base import MAX_HEIGHT, ROOT, Hierarchy, OnInvalid
from dpframe.hierarchy._columns import Columns

T = TypeVar("T")
Kind = tuple[int, ...]
Form = Literal["product", "nested", "sets"]

OF_CELLS = ("level", "prefix", "residual", "lower", "upper", "count", "count_lower", "count_upper")
"""Columns that the result has beside those of the dimensions."""

BETWEEN = " * "
"""Between the dimensions of a product, in specifications and labels."""

UNDER = " > "
"""Between dimensions of which each lies in the one before."""

SETS = "sets"
"""The kind of grouping sets, in text."""


@dataclass(frozen=True, repr=False)
class Cells(Hierarchy):
    """Dimensions, and the kinds of cells that are asked, finest first, without the total.

    It is a hierarchy in what it reads, how many kinds a record pays for and how it is written; it
    has no chain of nodes, which is all that other questions can count.
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
                    f"column {name!r} is in several dimensions: a cell would ask it twice. Name "
                    "each column once."
                )
        if len(self.kinds) > MAX_HEIGHT:
            raise too_many(len(self.kinds))
        for place, kind in enumerate(self.kinds):
            for later in self.kinds[place + 1 :]:
                if all(a <= b for a, b in zip(kind, later, strict=True)):
                    raise HierarchyError(
                        f"cells of {self.kind_name(kind)} are asked before those of "
                        f"{self.kind_name(later)}, which are as fine or finer: name kinds finest "
                        "first, each once."
                    )

    @property
    def dimensions(self) -> tuple[Hierarchy, ...]:
        return self.of

    @property
    def on_invalid(self) -> OnInvalid:
        return "count"  # each dimension says what it drops

    @property
    def height(self) -> int:
        """Kinds of cells above a record, besides the total: what a record pays for."""
        return len(self.kinds)

    @property
    def source_columns(self) -> tuple[str, ...]:
        return tuple(name for one in self.of for name in one.source_columns)

    @property
    def level_names(self) -> tuple[str, ...]:
        """Kinds by name, the last one asked first, as levels are: coarse to fine."""
        return tuple(self.kind_name(kind) for kind in reversed(self.kinds))

    def kind_name(self, kind: Kind) -> str:
        """What cells of a kind are of: a level of some dimensions."""
        pairs = zip(self.of, kind, strict=True)
        return BETWEEN.join(level_name(one, level) for one, level in pairs if level)

    @property
    def options(self) -> dict[str, str]:
        return {}

    @property
    def form(self) -> Form:
        """How it is written: all kinds, those of one chain, or sets of columns."""
        if self.kinds == product_kinds([one.height for one in self.of]):
            return "product"
        chain = self.kinds == nested_kinds([one.height for one in self.of])
        return "nested" if chain and not any(map(one_dimension, self.of, self.of[1:])) else "sets"

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

    def by_dimension(self, values: Sequence[str]) -> list[tuple[str, ...]]:
        """What belongs to the source columns, dimension by dimension."""
        rest = iter(values)
        return [tuple(itertools.islice(rest, len(one.source_columns))) for one in self.of]

    def by_keys(self, columns: Sequence[T]) -> list[tuple[T, ...]]:
        """Columns of keys, side by side, dimension by dimension."""
        rest = iter(columns)
        return [tuple(itertools.islice(rest, one.key_width)) for one in self.of]

    @property
    def reads_text(self) -> bool:
        return True

    @property
    def key_width(self) -> int:
        return sum(one.key_width for one in self.of)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the labels of the dimensions: each has another, ``NAME_level``."""
        taken, names = set(OF_CELLS), []
        for one in self.of:
            name = "_".join(one.source_columns)
            while name.lower() in taken or f"{name}_level".lower() in taken:
                name += "_"
            taken |= {name.lower(), f"{name}_level".lower()}
            names.append(name)
        return tuple(names)

    # -- a chain of nodes, which cells are not -----------------------------------------------------

    def key_steps(
        self, columns: tuple[str, ...], types: tuple[str, ...]
    ) -> tuple[dict[str, str], ...]:
        no_chain()

    def depth(self, keys: tuple[str, ...]) -> str | None:
        no_chain()

    def coarser(self, level: int, keys: tuple[str, ...]) -> tuple[str, ...]:
        no_chain()

    def preorder(self, level: int, keys: tuple[str, ...]) -> tuple[str, ...]:
        no_chain()

    def texts(self, level: int, keys: tuple[str, ...], types: tuple[str, ...]) -> tuple[str, ...]:
        no_chain()

    def lineage(self, level: int, shown: tuple[str, ...]) -> tuple[Hashable, ...]:
        no_chain()


def one_dimension(before: Hierarchy, one: Hierarchy) -> bool:
    """Whether columns inside of columns are more of their levels."""
    both = isinstance(one, Columns) and isinstance(before, Columns)
    return both and one.on_invalid == before.on_invalid


def no_chain() -> NoReturn:
    """Nobody gets here: ``as_hierarchy`` hands out cells to those alone who ask for them."""
    raise ParameterTypeError("several hierarchies at once have no one chain of nodes.")


def level_name(one: Hierarchy, level: int) -> str:
    """A level of a dimension by name, with its column where the name does not say it."""
    if level == 0:
        return ROOT
    name = one.level_names[level - 1]
    return name if isinstance(one, Columns) else f"{one.source_columns[0]} {name}"


def product_kinds(heights: Sequence[int]) -> tuple[Kind, ...]:
    """All kinds but the total, by how many levels they have together, the most first; ties in the
    order of the dimensions: the first one is the finer."""
    ranges = [range(height, -1, -1) for height in heights]
    kinds = sorted(itertools.product(*ranges), key=lambda kind: -sum(kind))
    return tuple(kinds[:-1])


def nested_kinds(heights: Sequence[int]) -> tuple[Kind, ...]:
    """The kinds of a chain: all levels of a dimension below the finest ones of those before."""
    kinds = []
    for i, height in enumerate(heights):
        before, after = tuple(heights[:i]), (0,) * (len(heights) - i - 1)
        kinds += [(*before, level, *after) for level in range(1, height + 1)]
    return tuple(reversed(kinds))


def too_many(kinds: int) -> HierarchyError:
    """More kinds of cells than a record can pay for."""
    columns = MAX_HEIGHT.bit_length() - 1
    return HierarchyError(
        f"these hierarchies have {kinds} kinds of cells, and at most {MAX_HEIGHT} can be "
        "accounted for: take fewer levels, such as 'ip:src?prefixes=16,32' or 'path:p?depth=3', "
        f"fewer columns (a cube of {columns} has {2**columns - 1}), or name the sets that matter: "
        "dp.grouping_sets."
    )
