"""Hierarchies of numbers in bins, which are halved level by level."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

from dpframe.budget import as_float
from dpframe.common.texts import is_nan
from dpframe.errors import HierarchyError
from dpframe.hierarchy._base import (
    INVALID,
    MAX_DOMAIN_BITS,
    OneColumn,
    OnInvalid,
    check_column_name,
    check_level_number,
)

MAX_DEPTH = 48
"""Most halvings that stay exact in the 53 bits of a double."""


@dataclass(frozen=True)
class Number(OneColumn):
    """[lower, upper] cut into halves, quarters, ...; ``depth_limit`` levels of binary splits.

    Values outside the bounds, infinities too, count in the nearest interval. NaN, and text that is
    no number, are invalid. The bounds are public and must not come from the data.
    """

    column: str
    lower: float
    upper: float
    depth_limit: int = 10
    invalid: OnInvalid = "count"
    kind: ClassVar[str] = "number"

    def validate(self) -> None:
        check_column_name("number", self.column)
        for name, value in (("lower", self.lower), ("upper", self.upper)):
            bound = as_float(value)
            if bound is None:
                raise HierarchyError(f"number: {name} must be a number; got {value!r}.")
            if not abs(bound) <= 1e300:  # also refuses NaN
                raise HierarchyError(f"number: {name} must be finite; got {value!r}.")
            object.__setattr__(self, name, bound)  # so that equal specifications have equal bins
        if self.lower >= self.upper:
            raise HierarchyError(
                f"number: lower ({self.lower!r}) must be less than upper ({self.upper!r})."
            )
        check_level_number("number", self.depth_limit, MAX_DEPTH)

    @property
    def height(self) -> int:
        return self.depth_limit

    @property
    def level_names(self) -> tuple[str, ...]:
        return tuple(f"1/{2**i}" for i in range(1, self.height + 1))

    @property
    def options(self) -> dict[str, str]:
        out = {"lower": _short_number(self.lower), "upper": _short_number(self.upper)}
        if self.depth_limit != 10:
            out["depth"] = str(self.depth_limit)
        return out

    def domain_values(self) -> list[str] | None:
        """Return the middles of the finest intervals; None for more than 2**20 intervals."""
        if self.depth_limit > MAX_DOMAIN_BITS:
            return None
        bins, span = 2**self.depth_limit, self.upper - self.lower
        return [repr(self.lower + span * ((i + 0.5) / bins)) for i in range(bins)]

    @property
    def reads_text(self) -> bool:
        return False

    def key_steps(
        self, columns: tuple[str, ...], types: tuple[str, ...]
    ) -> tuple[dict[str, str], ...]:
        bins = 2**self.depth_limit
        low, high = f"{float(self.lower)!r}::DOUBLE", f"{float(self.upper)!r}::DOUBLE"
        width = f"({high} - {low})"
        return (
            {"x": f"TRY_CAST({columns[0]} AS DOUBLE)"},
            {
                "k1": f"CASE WHEN x IS NULL OR {is_nan('x')} THEN NULL "
                f"WHEN x <= {low} THEN 0::BIGINT WHEN x >= {high} THEN {bins - 1}::BIGINT "
                f"ELSE least(floor((x - {low}) / {width} * {bins})::BIGINT, {bins - 1}) END"
            },
        )

    def depth(self, keys: tuple[str, ...]) -> str | None:
        return f"CASE WHEN {keys[0]} IS NULL THEN 1 ELSE {self.height} END"

    def coarser(self, level: int, keys: tuple[str, ...]) -> tuple[str, ...]:
        return (f"{keys[0]} >> 1",)

    def preorder(self, level: int, keys: tuple[str, ...]) -> tuple[str, ...]:
        return (f"{keys[0]} << {self.height - level}",)

    def texts(self, level: int, keys: tuple[str, ...], types: tuple[str, ...]) -> tuple[str, ...]:
        return (f"{keys[0]}::VARCHAR",)

    def label(self, level: int, texts: tuple[str | None, ...]) -> str:
        if texts[0] is None:
            return INVALID
        index, bins = int(texts[0]), 2**level
        span = self.upper - self.lower
        low, high = (self.lower + span * (i / bins) for i in (index, index + 1))
        end = "]" if index == bins - 1 else ")"
        return f"[{_short_number(low)}, {_short_number(high)}{end}"

    def lineage(self, level: int, shown: tuple[str, ...]) -> tuple[Hashable, ...]:
        if shown[0] == INVALID:
            return shown
        low = float(shown[0][1:].partition(",")[0])
        index = round((low - self.lower) / (self.upper - self.lower) * 2**level)
        return tuple(index >> (level - n) for n in range(1, level + 1))


def _short_number(x: float) -> str:
    """Return a number the way people write it, in text that reads back exactly."""
    return str(int(x)) if float(x).is_integer() and abs(x) < 1e15 else repr(float(x))
