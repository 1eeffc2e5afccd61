"""Whole numbers of a row that are added up beside the counts, in the SQL of any engine.

DuckDB's SQL is in :mod:`dpframe.steps`. The SQL of other engines is here, and gives the same
numbers: the same floating-point product, and a rounding made of a floor and a comparison, since
each engine rounds a half in its own way. No value is an error.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dpframe._sql import identifier
from dpframe.steps import Steps, outside_sql, present_sql, reach, value_sql

if TYPE_CHECKING:
    from dpframe.dialects import Dialect

UNIT = Steps(0.0, 1.0)


@dataclass(frozen=True, kw_only=True)
class Summand:
    """A whole number of a row. A "value" is the column's value in steps, or NULL; "present" is 1
    where there is a value, "outside" is 1 where it is out of bounds, else 0; "row" is always 1.
    Without ``clipped`` a value is cut only where sums could overflow."""

    kind: Literal["value", "present", "outside", "row"]
    column: str = ""
    steps: Steps = UNIT
    clipped: bool = True

    @property
    def most(self) -> int:
        """The largest absolute value of one clipped record."""
        return self.steps.most if self.kind == "value" else 1

    @property
    def sql(self) -> str:
        """The SQL for DuckDB; a BIGINT."""
        column = identifier(self.column)
        if self.kind == "row":
            return "1::BIGINT"
        if self.kind == "outside":
            return f"CAST({outside_sql(column, self.steps)} AS BIGINT)"
        if self.kind == "present":
            return present_sql(column)
        return value_sql(column, self.steps, clipped=self.clipped)

    def scale_sql(self, d: Dialect, number: str) -> str:
        """The SQL for another engine, from the SQL of the double ``number``: the double that
        ``rounded_sql`` rounds; NULL where there is no value."""
        most = d.real(sys.float_info.max)
        finite = f"{number} BETWEEN -{most} AND {most}"
        if self.kind == "outside":
            inside = f"{number} BETWEEN {d.real(self.steps.lower)} AND {d.real(self.steps.upper)}"
            return (
                f"CASE WHEN {finite} AND NOT ({inside}) THEN {d.real(1.0)} ELSE {d.real(0.0)} END"
            )
        if self.kind == "present":
            return f"CASE WHEN {finite} THEN {d.real(1.0)} ELSE {d.real(0.0)} END"
        low, high = map(d.real, reach(self.steps, clipped=self.clipped))
        cut = f"least(greatest({number}, {low}), {high})"
        ten = d.real(10.0 ** abs(self.steps.decimals))
        if self.steps.decimals > 0:
            cut = f"{cut} * {ten}"
        elif self.steps.decimals < 0:  # a value that rounds to 0 could underflow in the quotient
            cut = f"CASE WHEN abs({cut}) < {d.real(1.0)} THEN {d.real(0.0)} ELSE {cut} / {ten} END"
        return f"CASE WHEN {finite} THEN {cut} END"


def values_to_count(sums: Mapping[str, Summand]) -> dict[str, str]:
    """For each "present" beside a "value" of the same column and steps, the name of that value. The
    sum of the "present" is the number of rows where the "value" is not NULL."""
    values = {(one.column, one.steps): name for name, one in sums.items() if one.kind == "value"}
    present = {name: (one.column, one.steps) for name, one in sums.items() if one.kind == "present"}
    return {name: values[place] for name, place in present.items() if place in values}


def rounded_sql(d: Dialect, scaled: str) -> str:
    """The SQL that rounds a double to a whole number, halves away from 0. Its type is one whose
    sums do not overflow. NULL stays NULL."""
    size = f"abs({scaled})"
    up = f"CASE WHEN {size} - floor({size}) >= {d.real(0.5)} THEN 1 ELSE 0 END"
    rounded = f"({d.to_integer(f'floor({size})')} + {up})"
    signed = f"CASE WHEN {scaled} < {d.real(0.0)} THEN -{rounded} ELSE {rounded} END"
    return d.addable(f"CASE WHEN {scaled} IS NOT NULL THEN {signed} END")
