"""Rollups of several hierarchies at once: measures on the segments of selected cells."""

from __future__ import annotations

from dataclasses import dataclass

from dpframe.asking.card import Line
from dpframe.hierarchy import Cells
from dpframe.mechanisms import cell_rollup, rollup
from dpframe.questions.hhh.cells_plan import ORDER_MEANING, cells_facts, cells_line
from dpframe.questions.rollup.lines import RollupWords, rollup_lines
from dpframe.questions.rollup.plan import RollupPlan

CELL_WORDS = RollupWords(
    mechanism="measures on the segment of each shown cell: what no cell asked before it has",
    nodes="cells",
    threshold="of its own segment from which a cell is shown",
    everywhere="in every segment",
    own="one segment has",
    pairs="pairs of segment and value of a user",
)


@dataclass(frozen=True, kw_only=True)
class CellRollupPlan(RollupPlan):
    """The plan for several hierarchies: the number of kinds of cells takes the place of the height.

    Segments add up to everything, and no segment lies above another one."""

    @property
    def cells(self) -> Cells:
        assert isinstance(self.hierarchy, Cells)
        return self.hierarchy

    @property
    def types(self) -> dict[str, str]:
        """The columns of the result, with DuckDB's types."""
        found = {"level": "BIGINT", "prefix": "VARCHAR"}
        for name in self.cells.names:
            found |= {name: "VARCHAR", f"{name}_level": "BIGINT"}
        return found | super().types

    def run(self, counted: cell_rollup.CountableCells, /) -> rollup.NoisyRollup:  # type: ignore[override]
        """The only noisy step: the selection, then every measure on the segments of cells."""
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

    def lines(self) -> list[Line]:
        """The lines of a rollup, and the order in which kinds of cells are asked."""
        names = reversed(self.cells.level_names)
        order = Line("order", "; ".join(names), ORDER_MEANING)
        return rollup_lines(self, CELL_WORDS, [cells_line(self.cells), order])

    @property
    def facts(self) -> dict[str, object]:
        """The facts of a rollup, and the order in which kinds of cells are asked."""
        return {**super().facts, **cells_facts(self.cells)}
