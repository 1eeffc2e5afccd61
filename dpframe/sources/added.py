"""What is added up of a column beside the counts: whole numbers of a row, in the SQL of any engine.

DuckDB's own text is in :mod:`dpframe.steps`; here is that of other engines, which gives the same
numbers: the same floating-point product, and a rounding made of a floor and a comparison, since
engines round a half each in their own way. No value is an error.
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
class Added:
    """A whole number of a row: its "value" in steps, NULL where there is none; or 1 where one is
    "present", or "outside" of the bounds, else 0; or 1 for every "row". Without ``clipped`` a value
    is cut only where sums could overflow."""

    kind: Literal["value", "present", "outside", "row"]
    column: str = ""
    steps: Steps = UNIT
    clipped: bool = True

    @property
    def most(self) -> int:
        """The largest absolute value of one record, which is clipped."""
        return self.steps.most if self.kind == "value" else 1

    @property
    def sql(self) -> str:
        """In DuckDB, BIGINT."""
        column = identifier(self.column)
        if self.kind == "row":
            return "1::BIGINT"
        if self.kind == "outside":
            return f"CAST({outside_sql(column, self.steps)} AS BIGINT)"
        if self.kind == "present":
            return present_sql(column)
        return value_sql(column, self.steps, clipped=self.clipped)

    def scaled(self, d: Dialect, number: str) -> str:
        """In another engine, a double that ``whole`` rounds, from a double; NULL where there is no
        value."""
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
        elif self.steps.decimals < 0:  # of what is rounded to 0 the quotient could underflow
            cut = f"CASE WHEN abs({cut}) < {d.real(1.0)} THEN {d.real(0.0)} ELSE {cut} / {ten} END"
        return f"CASE WHEN {finite} THEN {cut} END"


def counted_values(sums: Mapping[str, Added]) -> dict[str, str]:
    """Of what is "present" the name of the value that is NULL where it is not: counting that one
    is adding up the other."""
    values = {(one.column, one.steps): name for name, one in sums.items() if one.kind == "value"}
    present = {name: (one.column, one.steps) for name, one in sums.items() if one.kind == "present"}
    return {name: values[place] for name, place in present.items() if place in values}


def whole(d: Dialect, scaled: str) -> str:
    """A double rounded to a whole number, halves away from 0, of a type whose sums do not overflow;
    NULL stays so."""
    size = f"abs({scaled})"
    up = f"CASE WHEN {size} - floor({size}) >= {d.real(0.5)} THEN 1 ELSE 0 END"
    rounded = f"({d.whole(f'floor({size})')} + {up})"
    signed = f"CASE WHEN {scaled} < {d.real(0.0)} THEN -{rounded} ELSE {rounded} END"
    return d.addable(f"CASE WHEN {scaled} IS NOT NULL THEN {signed} END")
