"""Rollups of several hierarchies at once: measures on the segments of selected cells."""

from __future__ import annotations

from dataclasses import dataclass

from dpframe.asking.quantities import Quantity
from dpframe.asking.receipt import Receipt
from dpframe.hierarchy import Cells
from dpframe.mechanisms import cell_rollup, rollup
from dpframe.questions.hhh.cells import ASSIGNED, order_of
from dpframe.questions.rollup.plan import RollupPlan

SAID = {
    "mechanism": "measures on the segment of each shown cell: what no cell asked before it has",
    "threshold": "of its own segment from which a cell is shown",
}
"""What lines mean of cells, where that is something else than of nodes."""

WORDS = {
    "one node has of its own": "one segment has",
    "at every node": "in every segment",
    "which nodes are shown": "which cells are shown",
    "pairs of node and value of a user a level": "pairs of segment and value of a user",
}
"""What lines of measures say of nodes, and of cells."""


@dataclass(frozen=True, kw_only=True)
class CellRollupPlan(RollupPlan):
    """As of one hierarchy, with the number of kinds in the place of its height; segments add up to
    everything, and none lies above another."""

    @property
    def cells(self) -> Cells:
        assert isinstance(self.hierarchy, Cells)
        return self.hierarchy

    @property
    def types(self) -> dict[str, str]:
        """The columns of the result and DuckDB's types of them."""
        found = {"level": "BIGINT", "prefix": "VARCHAR"}
        for name in self.cells.names:
            found |= {name: "VARCHAR", f"{name}_level": "BIGINT"}
        return found | super().types

    def run(self, counted: cell_rollup.CountableCells, /) -> rollup.NoisyRollup:  # type: ignore[override]
        """The only noisy step: the selection, then every measure on its segments."""
        assert self.selection is not None  # cells are not listed
        return cell_rollup.run(
            counted,
            kinds=self.cells.kinds,
            selection=rollup.Selection(
                test=self.selection.test_noise, threshold=self.selection.threshold_units
            ),
            band=self.band,
            paid=self.paid,
            read=self.read,
            searching=self.searching,
            counts=self.counts,
        )

    def lines(self) -> list[Quantity]:
        what = "users" if self.unit.user is not None else "records"
        told = dict(SAID)
        told["threshold"] = f"{self.asked.heavy or what} {told['threshold']}"
        names = list(reversed(self.cells.level_names))
        kinds = Quantity(
            "hierarchies", self.cells.spec, f"{len(names)} kinds of cells, besides the total"
        )
        found = []
        for line in super().lines():
            if line.name == "hierarchy":
                found += [kinds, Quantity("order", "; ".join(names), ASSIGNED)]
            elif line.name != "measured":  # every segment is, and nothing above
                found.append(
                    Quantity(line.name, line.value, told.get(line.name) or _of_cells(line))
                )
        return found

    def receipt(self, name: str | None = None) -> Receipt:
        """With the order in which kinds are asked."""
        return super().receipt(name).and_also(order_of(self.cells))


def _of_cells(line: Quantity) -> str:
    """What a line means, in words of cells."""
    meaning = line.meaning
    for nodes, cells in WORDS.items():
        meaning = meaning.replace(nodes, cells)
    return meaning
