"""The base class of the axes of a domain. The specification of an axis is public."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe.errors import ColumnError, HierarchyError
from dpframe.hierarchy._types import COMMON, READS, unreadable_type
from dpframe.noise import PublicRandom

Codes: TypeAlias = NDArray[np.uint64]
Counts: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]
Arrays: TypeAlias = tuple[pa.Array, ...]
Types: TypeAlias = tuple[pa.DataType, ...]

MAX_BITS = 48
"""Most halvings that stay exact in the 53 bits of a double."""

USUAL_BITS = 20
"""Halvings of an interval if no depth is given: down to a millionth of it."""


class Axis(ABC):
    """One column, or the columns of one hierarchy, as paths of at most ``bits`` bits."""

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Columns that the axis reads and gives back."""

    @property
    @abstractmethod
    def bits(self) -> int:
        """The most bits that a path can have."""

    @property
    def usual(self) -> int:
        """The most bits if no depth is given."""
        return self.bits

    @property
    @abstractmethod
    def spec(self) -> str:
        """The canonical text."""

    @abstractmethod
    def check_types(self, types: tuple[str, ...]) -> None:
        """Raise ColumnError if the DuckDB types of the columns cannot be read."""

    @abstractmethod
    def read(self, columns: Arrays, bits: int) -> tuple[Codes, Mask | None]:
        """Return a path of ``bits`` bits for each row, and which rows have one (None: all).
        Private."""

    @abstractmethod
    def draw(self, fixed: Counts, prefix: Codes, generator: PublicRandom, types: Types) -> Arrays:
        """Draw a value of every cell for each column. The first ``fixed`` bits of the value's path
        are ``prefix``."""

    @abstractmethod
    def label(self, fixed: int, prefix: int) -> str:
        """Return the label of a cell, for people."""

    def diameter(self, fixed: int) -> float:
        """Return the largest distance of two values that share ``fixed`` bits; 1 for the whole
        axis."""
        return 2.0**-fixed


def decoded_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values; for a dictionary, the type of its entries."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def is_text_type(kind: pa.DataType) -> bool:
    """Whether a plain type is text."""
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(test(kind) for test in tests)


def check_limit(kind: str, limit: object) -> None:
    """Raise HierarchyError unless ``limit`` is None or a possible number of halvings."""
    if limit is not None and (
        isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_BITS
    ):
        raise HierarchyError(
            f"{kind}: depth must be a whole number in 1 to {MAX_BITS}; got {limit!r}."
        )


def unreadable_column(kind: str, column: str, given: object, readable: str) -> ColumnError:
    """Return the error for a column of a type that an axis cannot read."""
    plain_type = str(given).split("<")[0]  # without parameters, which can be values of an ENUM
    reads = READS.get("date" if kind == "time" else kind)  # none for a list of keys
    advice = reads.advice if reads is not None else COMMON
    return unreadable_type(f"{kind} reads", column, plain_type, readable, advice)


def types_of_columns(columns: tuple[str, ...], types: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the types of some columns; ColumnError if a column does not exist."""
    for name in columns:
        if name not in types:
            raise ColumnError(f"column {name!r} does not exist.")
    return tuple(types[name] for name in columns)
