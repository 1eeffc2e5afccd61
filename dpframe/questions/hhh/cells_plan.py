"""Heavy hitters of several hierarchies at once: the offline mechanism, kind by kind of cells."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from dpframe.accounting.levels import LevelLaws, level_laws
from dpframe.asking.card import Line, noise_line
from dpframe.asking.draws import Draw, DrawList, counts_game
from dpframe.asking.frame_notices import wide_interval_notices
from dpframe.asking.level_plan import cell_columns
from dpframe.asking.privacy_receipt import Receipt
from dpframe.budget import Budget
from dpframe.errors import ParameterError
from dpframe.hierarchy._cells import CELL_REFUSALS
from dpframe.noise import NoiseTable, law_facts
from dpframe.postprocess.half_widths import half_width
from dpframe.questions.hhh.checks import HhhArguments
from dpframe.questions.hhh.offline import OfflinePlan, offline_laws
from dpframe.tree import NoisyNodes

if TYPE_CHECKING:
    import pandas as pd

TOTALS_SHARE = 0.5
"""Part of epsilon and delta for whole counts."""


@dataclass(frozen=True, kw_only=True)
class CellsPlan(OfflinePlan):
    """The offline plan for several hierarchies; the number of kinds of cells is its height.

    With ``totals`` a second part of the budget is for the whole counts of reported cells.
    """

    totals: LevelLaws | None = None

    paper = f"{OfflinePlan.paper}; cells, kind by kind, in the place of a path's nodes"

    node, one_residual = "cell", "of a reported residual"

    held = "lower and upper hold the true residual with the stated confidence, given the selection"

    @property
    def whole_noise(self) -> NoiseTable | None:
        return None if self.totals is None else self.totals.noise

    @cached_property
    def draws(self) -> DrawList:
        """The tests and residuals of a selection, with one test for each kind of cells.

        With whole counts, a second step has one count of each kind, and the total. Epsilons and
        deltas of both steps add up, and the curve is one point.
        """
        selection = super().draws
        if self.totals is None:
            return selection
        count = Draw(law=self.totals.noise, times=self.height + 1)
        counts = counts_game([count], delta=self.totals.delta, group=1)
        parts = ((1 - TOTALS_SHARE, selection), (TOTALS_SHARE, counts))
        whole = self.budget
        steps = [
            {"epsilon": whole.epsilon * part, "delta": whole.delta * part, "game": draws}
            for part, draws in parts
        ]
        return DrawList(
            kind="steps",
            draws=selection.draws,
            facts={"steps": steps},
            delta=selection.delta + counts.delta,
        )

    @property
    def errors(self) -> dict[str, float]:
        found = {"residual": self.half_width(1) * self.unit.worth / self.grid}
        return found if self.totals is None else found | {"count": float(self.total_half_width)}

    @property
    def total_half_width(self) -> int:
        """Half width of the interval for a whole count."""
        assert self.totals is not None
        return half_width(self.totals.noise, 1, self.confidence)

    @property
    def types(self) -> dict[str, str]:
        """The columns of the result, and their DuckDB types."""
        number = "DOUBLE" if self.unit.measured else "BIGINT"
        found = cell_columns(self.hierarchy)
        found |= dict.fromkeys(("residual", "lower", "upper"), number)
        return found if self.totals is None else found | dict.fromkeys(WHOLE_COUNT_COLUMNS, number)

    def remake(self, asked: HhhArguments) -> CellsPlan:
        return cells_plan(asked)

    def frame(self, noisy: NoisyNodes, types: tuple[str, ...] = (), /) -> pd.DataFrame:
        from dpframe.asking.node_frame import tidy  # loads pandas

        return tidy(noisy, self, types, self.total_half_width if self.totals else 0)

    def finish_receipt(self, facts: Receipt, noisy: NoisyNodes, frame: pd.DataFrame, /) -> Receipt:
        nothing = [] if (frame["level"] > 0).any() else self._nothing_shown(frame)
        cells = frame[frame["level"] > 0]  # the remainder is small by design: no notice on it
        wide = wide_interval_notices(cells, ("residual", "lower", "upper"))
        return facts.with_notices([*nothing, *wide])

    @property
    def facts(self) -> dict[str, object]:
        facts = super().facts
        if self.totals is not None:
            facts["whole_counts"] = {
                "noise": law_facts(self.totals.noise, self.grid, self.unit.worth),
                "epsilon": self.budget.epsilon * TOTALS_SHARE,
                "delta": self.budget.delta * TOTALS_SHARE,
            }
        return facts

    def lines(self) -> list[Line]:
        lines = super().lines()
        return [*lines[:4], *self._of_totals(), *lines[4:]]  # behind the order of kinds

    def _of_totals(self) -> list[Line]:
        if self.totals is None:
            return []
        epsilon, delta = (TOTALS_SHARE * part for part in (self.budget.epsilon, self.budget.delta))
        cost = (
            "for ({epsilon:g}, {delta:g}) of the budget: a record is in at most {kinds} reported "
            "cells and the total; within +-{half_width} with confidence {confidence:g}"
        )
        return [
            noise_line(
                "whole counts",
                self.totals.noise,
                self.grid,
                cost,
                epsilon=epsilon,
                delta=delta,
                kinds=self.height,
                half_width=self.total_half_width,
                confidence=self.confidence,
            )
        ]


def cells_plan(asked: HhhArguments) -> CellsPlan:
    """Choose the noise; ParameterError with the reason for a mechanism that cannot count cells."""
    if asked.mechanism != "offline":
        named = f"mechanism={asked.mechanism!r}"
        reason = CELL_REFUSALS.get(named, CELL_REFUSALS["other mechanisms"])
        raise ParameterError(
            f"{named} takes one hierarchy, not {asked.hierarchy.spec!r}: {reason}. Use "
            "mechanism='offline', or pass one."
        )
    if not asked.totals:
        laws, threshold = offline_laws(asked)
        return CellsPlan(asked=asked, threshold=threshold, laws=laws)
    if asked.unit.grid > 1 or asked.unit.moves > 1:
        raise ParameterError(
            "totals (True) counts single records. Leave user and weight out, or pass "
            "contribution='records' and max_contributions=1."
        )
    whole = asked.budget
    counts = level_laws(
        "gaussian",
        levels=asked.hierarchy.height + 1,
        epsilon=whole.epsilon * TOTALS_SHARE,
        delta=whole.delta * TOTALS_SHARE,
    )
    rest = Budget(
        epsilon=whole.epsilon * (1 - TOTALS_SHARE), delta=whole.delta * (1 - TOTALS_SHARE)
    )
    laws, threshold = offline_laws(replace(asked, budget=rest))
    return CellsPlan(asked=asked, threshold=threshold, laws=laws, totals=counts)


WHOLE_COUNT_COLUMNS = ("count", "count_lower", "count_upper")
"""Columns of whole counts."""
