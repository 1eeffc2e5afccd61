"""Noise on every key of a public universe: delta is 0 for every kind of sketch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from dpframe.accounting.sketch_pure import PureLaws, pure_laws
from dpframe.asking.card import Line
from dpframe.asking.draws import DrawList
from dpframe.mechanisms.sketch_release import NoisyCounts, release_universe_top
from dpframe.questions.sketches.base_sketch_plan import SketchPlan
from dpframe.questions.sketches.frame import Intervals, count_intervals
from dpframe.questions.sketches.lines import counts_meaning, counts_move, lattice_moves
from dpframe.questions.sketches.release_draws import universe_draws
from dpframe.questions.sketches.sketch_request import SOURCE, SketchRequest
from dpframe.sketches import SketchState


@dataclass(frozen=True, kw_only=True)
class UniversePlan(SketchPlan[PureLaws, NoisyCounts]):
    """The release of the k largest noisy counts of listed keys."""

    keys: pa.Array

    threshold = None

    @property
    def mechanism_name(self) -> str:
        return f"{super().mechanism_name}-universe"

    @property
    def paper(self) -> str:
        where = "Algorithm 3" if self.grid > 1 else "section 7"
        return f"{SOURCE}, {where}, Laplace noise on every key of the universe"

    @property
    def grid(self) -> int:
        return self.laws.unit

    @property
    def noise_sd(self) -> float:
        return self.laws.sd

    @property
    def sensitivity(self) -> str:
        return lattice_moves(self.asked) if self.grid > 1 else counts_move(self.asked)

    @property
    def intervals(self) -> str:
        return counts_meaning(self.asked)

    @cached_property
    def draws(self) -> DrawList:
        return universe_draws(self.laws, group=self.max_contributions, curve=self.curve)

    def delta_at(self, epsilon: float) -> float:
        return self.laws.delta(epsilon)

    def reach(self, mass: float) -> int:
        return self.laws.reach(mass)

    def key_lines(self) -> list[Line]:
        largest = f"largest {self.counters} of {len(self.keys)} keys"
        return [Line("published", largest, "keys that are not listed are never published")]

    def run(self, counted: SketchState, /) -> NoisyCounts:
        return release_universe_top(counted, self.keys, self.laws)

    def counts(self, noisy: NoisyCounts) -> Intervals:
        return count_intervals(noisy, self.asked, above=self.above, below=self.below)


def universe_plan(asked: SketchRequest, universe: pa.Array) -> UniversePlan:
    """Choose the noise for every key of a universe."""
    laws = pure_laws(
        counters=asked.counters,
        epsilon=asked.record.epsilon,
        post_processed=asked.structure in ("variant", "standard", "sum"),
    )
    return UniversePlan(asked=asked, laws=laws, keys=universe)
