"""Everything about the release of a sketch except the sketch and the draw."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe.accounting.compose import Profile, whole_profile
from dpframe.accounting.gshm import GshmLaws, gshm_delta, gshm_laws
from dpframe.accounting.sketch_lattice import (
    LARGEST_TABLE,
    LatticeLaws,
    lattice_delta,
    lattice_laws,
)
from dpframe.accounting.sketch_pure import PureLaws, pure_laws
from dpframe.accounting.sketches import SketchLaws, sketch_delta, sketch_laws
from dpframe.budget import Budget, group_delta, per_record
from dpframe.errors import BudgetError
from dpframe.mechanisms.sketch_release import (
    NoisyCounts,
    NoisySketch,
    single_stream,
    sparse,
    summed,
    top_of_universe,
)
from dpframe.noise import NoiseTable
from dpframe.sketches._state import SketchState

if TYPE_CHECKING:
    pass

Structure = Literal["variant", "standard", "sum", "bounded", "users"]
"""What a record can change: a stream's sketch (two kinds), a merge (two ways), users' sets."""

LEAST_EPSILON = 1e-4
"""Of a record; below it the tables of the noise get too long."""

ROUNDING = 1e-12
"""Above the rounding of a convolved probability; taken off the chance to miss."""


@dataclass(frozen=True, kw_only=True)
class SketchPlan:
    """Laws and facts of a release; public.

    Parameters
    ----------
    structure, unit, counters, sketches
        Of the sketch: what moves, "record" or "user", k, and how many streams it holds.
    max_contributions
        Records of one user, by promise of the caller; 1 protects single records.
    budget
        ``delta`` is 0 with a universe.
    universe
        Public keys, ascending; None for keys that nobody listed.
    records
        Public upper bound on the records (or items of users) that went in.
    levels
        Sketches that one record enters: of a merge with one a level their number.
    """

    structure: Structure
    unit: str
    counters: int
    sketches: int
    max_contributions: int
    budget: Budget
    universe: pa.Array | None
    records: int | None
    confidence: float
    laws: SketchLaws | LatticeLaws | GshmLaws | PureLaws
    levels: int = 1

    @property
    def single(self) -> bool:
        """Whether the error of the sketch itself, alpha_hat, is released too."""
        return isinstance(self.laws, SketchLaws)

    @property
    def grid(self) -> int:
        """Units of one over this are what the noise is drawn in."""
        return self.laws.unit if isinstance(self.laws, LatticeLaws | PureLaws) else 1

    @property
    def threshold(self) -> int | None:
        """In units of ``1/grid``; of U - alpha_hat for one stream; None with a universe."""
        if isinstance(self.laws, PureLaws):
            return None
        return 1 + self.laws.t if isinstance(self.laws, GshmLaws) else self.laws.theta

    @property
    def noise_sd(self) -> float:
        """Standard deviation of the noise in a released count, in counts."""
        return self.laws.noise.sd if isinstance(self.laws, SketchLaws) else self.laws.sd

    @property
    def delta_spent(self) -> float:
        """Delta that the accountant computed for the unit of privacy, at most ``budget.delta``."""
        if isinstance(self.laws, PureLaws):
            return 0.0
        return group_delta(self.budget, self.max_contributions, self.laws.delta)

    @cached_property
    def profile(self) -> Profile:
        """What the release keeps at smaller epsilons too, for composing it with others."""
        return whole_profile(
            self.budget,
            self.max_contributions,
            lambda epsilons: [(e, self._delta(e)) for e in epsilons],
        )

    def _delta(self, epsilon: float) -> float:
        laws = self.laws
        if isinstance(laws, PureLaws):
            return laws.delta(epsilon)
        common = {"scale": laws.scale, "sketches": self.levels, "epsilon": epsilon}
        if isinstance(laws, GshmLaws):
            return gshm_delta(laws.noise, t=laws.t, changed=laws.changed, **common)  # type: ignore[arg-type]
        table = {"family": laws.family, "theta": laws.theta, **common}
        if isinstance(laws, LatticeLaws):
            return lattice_delta(laws.noise, counters=self.counters, merged=laws.merged, **table)  # type: ignore[arg-type]
        return sketch_delta(laws.noise, unshared=laws.unshared, **table)  # type: ignore[arg-type]

    # -- intervals: how far the noise reaches -------------------------------------------------

    @property
    def _miss(self) -> float:
        return 1 - self.confidence - ROUNDING

    @cached_property
    def above(self) -> int:
        """q with P(Z < -q) <= half the chance to miss, in units of ``1/grid``."""
        return self._reach(self._miss / 2)

    @cached_property
    def below(self) -> int:
        """As ``above`` for the other side; of one stream for Z - eta, with what is left."""
        if not isinstance(self.laws, SketchLaws):
            return self.above
        tails = _tails(_difference(self.laws.noise, self.laws.shared))
        missed = float(self.laws.noise.at_least()[self._index(self.above)])
        lowest = self.laws.noise.lowest - self.laws.shared.highest
        return max(0, int(np.argmax(tails <= self._miss - missed)) + lowest - 1)

    @cached_property
    def unpublished(self) -> int | None:
        """q with P(Z < -q) <= the chance to miss: for a bound on what is not published."""
        return None if isinstance(self.laws, PureLaws) else self._reach(self._miss)

    def _reach(self, mass: float) -> int:
        """Least q with P(Z > q) <= mass; Z is symmetric."""
        if isinstance(self.laws, PureLaws):
            return self.laws.reach(mass)
        noise = self.laws.noise
        return max(0, int(np.argmax(noise.at_least() <= mass)) + noise.lowest - 1)

    def _index(self, q: int) -> int:
        assert not isinstance(self.laws, PureLaws)
        return q + 1 - self.laws.noise.lowest

    # -- the draw -----------------------------------------------------------------------------

    def run(self, state: SketchState) -> NoisySketch | NoisyCounts:
        """The only noisy step."""
        if isinstance(self.laws, PureLaws):
            return top_of_universe(state, self.universe, self.laws)
        if isinstance(self.laws, SketchLaws):
            return single_stream(state, self.laws)
        if isinstance(self.laws, LatticeLaws):
            return summed(state, self.laws)
        return sparse(state, self.laws)


def make_sketch_plan(
    *,
    structure: Structure,
    unit: str,
    counters: int,
    sketches: int = 1,
    max_contributions: int = 1,
    budget: Budget,
    universe: pa.Array | None = None,
    records: int | None = None,
    confidence: float = 0.95,
    levels: int = 1,
) -> SketchPlan:
    """Choose noise and threshold; BudgetError if nothing reaches the budget.

    More than one level only for what is merged, without a universe.
    """
    record = per_record(budget, max_contributions)
    if record.epsilon < LEAST_EPSILON and max_contributions > 1:
        raise BudgetError(
            f"epsilon ({budget.epsilon:g}) divided over max_contributions ({max_contributions}) "
            f"leaves less than {LEAST_EPSILON:g} for a record: raise epsilon, or lower "
            "max_contributions."
        )
    common = {"epsilon": record.epsilon, "delta": record.delta}
    laws: SketchLaws | LatticeLaws | GshmLaws | PureLaws
    if universe is not None:
        processed = structure in ("variant", "standard", "sum")
        laws = pure_laws(counters=counters, epsilon=record.epsilon, post_processed=processed)
    elif structure == "sum":
        laws = lattice_laws(counters=counters, sketches=levels, merged=True, **common)
    elif structure in ("bounded", "users"):
        _check_table(counters * levels, record)
        laws = gshm_laws(changed=counters, sketches=levels, **common)
    else:
        laws = sketch_laws(
            sketches=1, standard=structure == "standard", counters=counters, **common
        )
    return SketchPlan(
        structure=structure,
        unit=unit,
        counters=counters,
        sketches=sketches,
        max_contributions=max_contributions,
        budget=budget,
        universe=universe,
        records=records,
        confidence=confidence,
        laws=laws,
        levels=levels,
    )


def _check_table(counters: int, record: Budget) -> None:
    """Gaussian noise for k counters that move together: about this many entries on each side."""
    entries = 2 * math.sqrt(counters) * -math.log(record.delta) / record.epsilon
    if 2 * entries > LARGEST_TABLE:
        raise BudgetError(
            f"epsilon ({record.epsilon:g}) is too small for {counters} counters: the noise would "
            f"need tables of {2 * entries:.0e} entries. Raise epsilon, or lower the number of "
            "counters."
        )


def _difference(noise: NoiseTable, shared: NoiseTable) -> NDArray[np.float64]:
    """The law of Z - eta; by Fourier transforms, whose rounding ``ROUNDING`` covers."""
    size = len(noise.weights) + len(shared.weights) - 1
    product = np.fft.rfft(noise.pmf, size) * np.fft.rfft(shared.pmf[::-1], size)
    return np.maximum(np.fft.irfft(product, size), 0.0)


def _tails(pmf: NDArray[np.float64]) -> NDArray[np.float64]:
    """P(value >= lowest + i), 0 at the end."""
    return np.append(np.cumsum(pmf[::-1])[::-1], 0.0)
