"""The measures of a released rollup, read from its receipt: their columns, what can be drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from dpframe.measure_texts import parse_measure
from dpframe.measures import AUTO

ReleasedKind = Literal["count", "sum", "mean", "distinct", "clipped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedMeasure:
    """A measure of a release: the column of its number, and two for the ends of its interval.

    ``of`` is the column of the source, None if rows are counted. ``signed`` says whether the true
    value can be below 0.
    """

    name: str
    kind: ReleasedKind
    of: str | None
    spec: str
    signed: bool

    @property
    def columns(self) -> tuple[str, str, str]:
        """The columns of the value and of its lower and upper end."""
        return self.name, f"{self.name}_lower", f"{self.name}_upper"

    @property
    def adds_up(self) -> bool:
        """Whether the value of a node is the sum of the values of its parts."""
        return self.kind in ("count", "sum", "clipped")

    @property
    def has_whole_values(self) -> bool:
        """Whether its values are whole numbers."""
        return self.kind in ("count", "distinct", "clipped")

    @property
    def has_areas(self) -> bool:
        """Whether widths in a chart can show the measure: no part is ever more than the whole."""
        return self.adds_up and not self.signed


def receipt_measures(facts: Mapping[str, Any]) -> list[ReleasedMeasure]:
    """Return the measures of a receipt in the order of their columns; [] without named measures."""
    out = []
    for name, said in (facts.get("measures") or {}).items():
        _, measure = parse_measure(said["spec"])
        own = {"of": measure.column, "spec": said["spec"]}
        lower = AUTO if said["lower"] is None else said["lower"]
        signed = measure.kind in ("sum", "mean") and (lower == AUTO or not lower >= 0)
        out.append(ReleasedMeasure(name=name, kind=measure.kind, signed=signed, **own))
        if measure.clipped:
            cut = f"{name}_clipped"
            out.append(ReleasedMeasure(name=cut, kind="clipped", signed=False, **own))
    return out


def digits_for_width(half: float) -> int:
    """Return the decimals to show of a value, so that two digits of the half width are seen."""
    if not math.isfinite(half) or half <= 0:
        return 0
    return min(12, max(0, 1 - math.floor(math.log10(half))))
