"""The measures of a released rollup, from its receipt: their columns, and what can be drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from dpframe.measure_texts import parsed
from dpframe.measures import AUTO

Shown = Literal["count", "sum", "mean", "distinct", "clipped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownMeasure:
    """One number a node: its column in a release, and two more for the ends of its interval.

    ``of`` is the column of the source, None for what counts rows; ``signed`` says whether the true
    value can be below 0.
    """

    name: str
    kind: Shown
    of: str | None
    spec: str
    signed: bool

    @property
    def columns(self) -> tuple[str, str, str]:
        """Value, lower and upper end."""
        return self.name, f"{self.name}_lower", f"{self.name}_upper"

    @property
    def adds_up(self) -> bool:
        """Whether a node has what its parts have together."""
        return self.kind in ("count", "sum", "clipped")

    @property
    def whole(self) -> bool:
        """Whether its values are whole numbers."""
        return self.kind in ("count", "distinct", "clipped")

    @property
    def drawn(self) -> bool:
        """Whether widths can show it: parts that are never more than the whole."""
        return self.adds_up and not self.signed


def shown_measures(facts: Mapping[str, Any]) -> list[ShownMeasure]:
    """The measures of a receipt, in the order of their columns; none of other questions."""
    out = []
    for name, said in (facts.get("measures") or {}).items():
        _, measure = parsed(said["spec"])
        own = {"of": measure.column, "spec": said["spec"]}
        lower = AUTO if said["lower"] is None else said["lower"]
        signed = measure.kind in ("sum", "mean") and (lower == AUTO or not lower >= 0)
        out.append(ShownMeasure(name=name, kind=measure.kind, signed=signed, **own))
        if measure.clipped:
            cut = f"{name}_clipped"
            out.append(ShownMeasure(name=cut, kind="clipped", signed=False, **own))
    return out


def digits(half: float) -> int:
    """Decimals that a value is shown with whose interval has this half width: two digits of it."""
    if not math.isfinite(half) or half <= 0:
        return 0
    return min(12, max(0, 1 - math.floor(math.log10(half))))
