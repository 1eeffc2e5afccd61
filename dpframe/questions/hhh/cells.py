"""Heavy hitters of several hierarchies at once: the offline mechanism, kind by kind of cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpframe._forking import no_fork
from dpframe.asking.notices import wider_than_numbers
from dpframe.asking.quantities import Quantity
from dpframe.asking.receipt import Receipt
from dpframe.cells import CellCounts, NoisyCells
from dpframe.errors import ParameterError
from dpframe.hierarchy import Cells
from dpframe.mechanisms import cell_hhh
from dpframe.questions.hhh.checks import Asked
from dpframe.questions.hhh.offline import OfflinePlan, offline_laws

if TYPE_CHECKING:
    import pandas as pd

ASSIGNED = (
    "each record counts in the first of these that is reported, so that residuals are of disjoint "
    "records and add up"
)


@dataclass(frozen=True, kw_only=True)
class CellsPlan(OfflinePlan):
    """As for one hierarchy, the number of kinds in the place of its height."""

    held = "lower and upper hold the true residual with the stated confidence, given the selection"

    @property
    def cells(self) -> Cells:
        assert isinstance(self.hierarchy, Cells)
        return self.hierarchy

    @property
    def types(self) -> dict[str, str]:
        """The columns of the result and DuckDB's types of them."""
        number = "DOUBLE" if self.unit.measured else "BIGINT"
        found = {"level": "BIGINT", "prefix": "VARCHAR"}
        for name in self.cells.names:
            found |= {name: "VARCHAR", f"{name}_level": "BIGINT"}
        return found | dict.fromkeys(("residual", "lower", "upper"), number)

    def run(self, counted: CellCounts, /) -> NoisyCells:  # type: ignore[override]
        return cell_hhh.run(
            counted,
            kinds=self.cells.kinds,
            test=self.test_noise,
            release=self.count_noise,
            threshold=self.threshold_units,
            remainder=self.remainder,
            band=self.band,
        )

    def frame(self, noisy: NoisyCells, types: tuple[str, ...] = (), /) -> pd.DataFrame:  # type: ignore[override]
        with no_fork():
            from dpframe.asking.cell_frame import cell_frame  # loads pandas

        return cell_frame(noisy, self)

    def answered(self, facts: Receipt, noisy: NoisyCells, frame: pd.DataFrame, /) -> Receipt:  # type: ignore[override]
        nothing = [] if (frame["level"] > 0).any() else self._nothing_shown(frame, facts)
        cells = frame[frame["level"] > 0]  # of the rest little is left, and that is as it should be
        wide = wider_than_numbers(cells, ("residual", "lower", "upper"))
        return facts.with_notices([*nothing, *wide])

    def receipt(self, name: str | None = None) -> Receipt:
        """With the order in which kinds are asked."""
        order = [self.cells.kind_name(kind) for kind in self.cells.kinds]
        facts = {"order": order, "dimensions": [one.spec for one in self.cells.of]}
        return super().receipt(name).and_also(facts)

    def lines(self) -> list[Quantity]:
        names = list(reversed(self.cells.level_names))
        head, rest = super().lines()[:3], super().lines()[3:]
        kinds = f"{len(names)} kinds of cells, besides the total"
        head[2] = Quantity("hierarchies", self.cells.spec, kinds)
        return [*head, Quantity("order", "; ".join(names), ASSIGNED), *rest]

    def advice(self) -> list[Quantity]:
        return []


def cells_plan(asked: Asked) -> CellsPlan:
    """Choose the noise; what cannot count cells is refused with its reason."""
    if asked.mechanism != "offline":
        raise ParameterError(
            f"mechanism={asked.mechanism!r} does not take several hierarchies at once "
            f"({asked.hierarchy.spec!r}): {WHY.get(asked.mechanism, OF_CHAINS)}. Leave mechanism "
            "out, or pass one hierarchy."
        )
    laws, threshold = offline_laws(asked)
    return CellsPlan(asked=asked, threshold=threshold, laws=laws)


OF_CHAINS = "it counts the nodes of one tree"
WHY: dict[str, Any] = {
    "streaming": "a sketch knows no record that a finer cell has taken, and of cells that overlap "
    "their counts cannot be subtracted from each other",
}
"""Why a mechanism counts no cells."""
