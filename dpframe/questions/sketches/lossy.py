"""Merged sketches, and sketches of users: their releases do not tell what the sketches lost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from dpframe.accounting.sketch_lattice import (
    LARGEST_TABLE,
    LatticeLaws,
    lattice_delta,
    lattice_laws,
)
from dpframe.accounting.sparse_gaussian import GshmLaws, gshm_delta, gshm_laws
from dpframe.asking.draws import DrawList
from dpframe.errors import BudgetError
from dpframe.mechanisms.sketch_release import NoisyCounts, release_sparse, release_sum
from dpframe.questions.sketches.frame import Intervals, count_intervals, most_lost
from dpframe.questions.sketches.lines import counts_meaning, counts_move, lattice_moves
from dpframe.questions.sketches.release_draws import merged_draws, sum_draws
from dpframe.questions.sketches.sketch_request import SketchRequest
from dpframe.questions.sketches.table_plan import TablePlan
from dpframe.sketches import SketchState

M = TypeVar("M", LatticeLaws, GshmLaws)


@dataclass(frozen=True, kw_only=True)
class LossyPlan(TablePlan[M, NoisyCounts]):
    """Counts that are too low by what the sketches dropped. How much they dropped stays private."""

    @property
    def intervals(self) -> str:
        return counts_meaning(self.asked)

    def counts(self, noisy: NoisyCounts) -> Intervals:
        return count_intervals(noisy, self.asked, above=self.above, below=self.below)

    def unpublished_at_most(self, noisy: NoisyCounts) -> int | None:
        most = most_lost(noisy, self.asked)
        if most is None:
            return None
        return (self.threshold - 1 + self.unpublished + most) // noisy.unit


@dataclass(frozen=True, kw_only=True)
class SumPlan(LossyPlan[LatticeLaws]):
    """Sketches of records, post-processed and added; counts are multiples of 1/(k + 1)."""

    @property
    def grid(self) -> int:
        return self.laws.unit

    @property
    def threshold(self) -> int:
        return self.laws.theta

    @property
    def sensitivity(self) -> str:
        return lattice_moves(self.asked)

    @cached_property
    def draws(self) -> DrawList:
        return sum_draws(self.laws, self.counters, group=self.max_contributions, curve=self.curve)

    def delta_at(self, epsilon: float) -> float:
        laws = self.laws
        return lattice_delta(
            laws.noise,
            family=laws.family,
            scale=laws.scale,
            theta=laws.theta,
            counters=self.counters,
            sketches=self.asked.levels,
            epsilon=epsilon,
            merged=laws.merged,
        )

    def run(self, counted: SketchState, /) -> NoisyCounts:
        return release_sum(counted, self.laws)


@dataclass(frozen=True, kw_only=True)
class SparsePlan(LossyPlan[GshmLaws]):
    """Whole counts, of which a record or user moves at most k by 1: bounded merges, users' sets."""

    grid = 1

    @property
    def threshold(self) -> int:
        return 1 + self.laws.t

    @property
    def sensitivity(self) -> str:
        return counts_move(self.asked)

    @cached_property
    def draws(self) -> DrawList:
        return merged_draws(self.laws, group=self.max_contributions, curve=self.curve)

    def delta_at(self, epsilon: float) -> float:
        laws = self.laws
        return gshm_delta(
            laws.noise,
            scale=laws.scale,
            t=laws.t,
            changed=laws.changed,
            sketches=self.asked.levels,
            epsilon=epsilon,
        )

    def run(self, counted: SketchState, /) -> NoisyCounts:
        return release_sparse(counted, self.laws)


def sum_plan(asked: SketchRequest) -> SumPlan:
    """Choose the noise for a sum."""
    record = asked.record
    laws = lattice_laws(
        counters=asked.counters,
        sketches=asked.levels,
        merged=True,
        epsilon=record.epsilon,
        delta=record.delta,
    )
    return SumPlan(asked=asked, laws=laws)


def sparse_plan(asked: SketchRequest) -> SparsePlan:
    """Choose the noise for a bounded merge, or for a sketch of users."""
    record, moved = asked.record, asked.counters * asked.levels
    # refuse before the table is built: counters that move together need a table this long
    entries = 2 * math.sqrt(moved) * -math.log(record.delta) / record.epsilon
    if 2 * entries > LARGEST_TABLE:
        raise BudgetError(
            f"epsilon ({record.epsilon:g}) is too small for {moved} counters. Raise epsilon, or "
            "lower the number of counters."
        )
    laws = gshm_laws(
        changed=asked.counters, sketches=asked.levels, epsilon=record.epsilon, delta=record.delta
    )
    return SparsePlan(asked=asked, laws=laws)
