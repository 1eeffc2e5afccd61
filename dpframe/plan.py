"""What a release will do and cost, decided from public parameters alone.

This module sees no data: it may import the mathematics, never a source (a test checks that).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

from dpframe.accounting.calibrate import choose_laws, law_options, smallest_threshold
from dpframe.accounting.laws import Laws
from dpframe.accounting.levels import LevelLaws, level_laws
from dpframe.accounting.printed import printed_lower_bound
from dpframe.budget import Budget, PrivacyUnit, per_record
from dpframe.errors import ParameterError, ThresholdError
from dpframe.hierarchy import Hierarchy
from dpframe.mechanisms import level_histograms, offline_hhh, printed_hhh
from dpframe.mechanisms.printed_hhh import PrintedLaws
from dpframe.noise import NoiseTable
from dpframe.postprocess.intervals import half_width
from dpframe.tree import CountTree, NoisyNodes

Mechanism = Literal["offline", "laplace", "gaussian", "paper"]
MECHANISMS: tuple[str, ...] = get_args(Mechanism)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything about a release except the data and the draw.

    ``threshold`` is in records (or users); the laws count units of ``unit.grid``.
    """

    hierarchy: Hierarchy
    unit: PrivacyUnit
    budget: Budget
    mechanism: Mechanism
    threshold: int
    remainder: bool
    confidence: float
    laws: Laws | LevelLaws | PrintedLaws

    @property
    def height(self) -> int:
        return self.hierarchy.height

    @property
    def grid(self) -> int:
        return self.unit.grid

    @cached_property
    def test(self) -> NoiseTable:
        """The test noise as drawn, centred for the threshold."""
        if isinstance(self.laws, Laws):
            return self.laws.centred(self.threshold)
        return self.laws.test if isinstance(self.laws, PrintedLaws) else self.laws.noise

    @property
    def release(self) -> NoiseTable:
        return self.laws.noise if isinstance(self.laws, LevelLaws) else self.laws.release

    @property
    def band(self) -> int:
        """Units below which a count can never be reported, so that it need not be fetched."""
        if isinstance(self.laws, LevelLaws):
            return self.laws.threshold - self.laws.noise.highest
        reach = self.test.highest
        if isinstance(self.laws, PrintedLaws):
            reach += self.laws.gamma.highest
        return max(1, self.threshold * self.grid - reach)

    @property
    def delta_spent(self) -> float:
        """Delta that the accountant computed for the unit of privacy, at most ``budget.delta``."""
        record = per_record(self.budget, self.unit.moves)
        return self.budget.delta * min(1.0, self.laws.delta / record.delta)

    def run(self, tree: CountTree) -> NoisyNodes:
        """The only noisy step."""
        threshold = self.threshold * self.grid
        if isinstance(self.laws, Laws):
            return offline_hhh.run(
                tree,
                test=self.test,
                release=self.laws.release,
                threshold=threshold,
                remainder=self.remainder,
            )
        if isinstance(self.laws, PrintedLaws):
            return printed_hhh.run(tree, laws=self.laws, threshold=threshold)
        return level_histograms.run(
            tree,
            noise=self.laws.noise,
            shown=self.laws.threshold,
            threshold=threshold,
            remainder=self.remainder,
        )

    def half_width(self, terms: int) -> int:
        """Half width of the interval for a count of that many releases, in units."""
        return half_width(self.release, max(1, terms), self.confidence)

    @cached_property
    def chance_at_threshold(self) -> float:
        """P(a residual equal to the threshold is selected)."""
        if isinstance(self.laws, PrintedLaws):
            return printed_hhh.chance_at_threshold(self.laws)
        test = self.test
        return float(test.at_least()[max(0, -test.lowest)])

    @cached_property
    def certainly_reported(self) -> int:
        """Residuals from here on are always reported (records, rounded up)."""
        low = self.test.lowest
        if isinstance(self.laws, PrintedLaws):
            low += self.laws.gamma.lowest
        return self.threshold + -(low // self.grid)

    @cached_property
    def never_reported(self) -> int:
        """Residuals below this are never reported (records, rounded down)."""
        return max(1, self.band // self.grid)


def make_plan(
    *,
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    budget: Budget,
    mechanism: Mechanism = "offline",
    threshold: int | None = None,
    remainder: bool = True,
    release_share: float | None = None,
    confidence: float = 0.95,
    acknowledge: bool = False,
) -> Plan:
    """Choose the noise for one release of heavy hitters. Pure: no data, no randomness."""
    record = per_record(budget, unit.moves)
    laws: Laws | LevelLaws | PrintedLaws
    if mechanism == "offline":
        options = law_options(
            height=hierarchy.height,
            epsilon=record.epsilon,
            delta=record.delta,
            remainder=remainder,
            release_share=release_share or default_release_share(hierarchy.height, remainder),
            grid=unit.grid,
            threshold=threshold,
        )
        smallest = smallest_threshold(options)
        threshold = _at_least(threshold, smallest, budget, hierarchy.height)
        laws = choose_laws(options, threshold)
    elif unit.grid > 1:
        raise ParameterError(
            f"mechanism={mechanism!r} counts records, not shares of users: pass "
            "contribution='records' with max_contributions=, or use mechanism='offline'."
        )
    elif mechanism == "paper":
        laws, threshold = _printed(hierarchy.height, record, threshold, remainder, acknowledge)
    else:
        laws = level_laws(
            mechanism,
            levels=hierarchy.height + remainder,
            epsilon=record.epsilon,
            delta=record.delta,
        )
        threshold = _at_least(threshold, laws.threshold, budget, hierarchy.height)
    return Plan(
        hierarchy=hierarchy,
        unit=unit,
        budget=budget,
        mechanism=mechanism,
        threshold=threshold,
        remainder=remainder,
        confidence=confidence,
        laws=laws,
    )


def default_release_share(height: int, remainder: bool) -> float:
    """Part of epsilon that the released count gets; a third from three paid nodes on."""
    return 1 / min(3, max(2, height + remainder))


def _at_least(threshold: int | None, smallest: int, budget: Budget, height: int) -> int:
    if threshold is not None and threshold < smallest:
        raise ThresholdError(
            f"threshold ({threshold}) is below the smallest private threshold {smallest} for "
            f"epsilon={budget.epsilon:g}, delta={budget.delta:g}, height={height}: "
            "raise threshold, epsilon or delta."
        )
    return smallest if threshold is None else threshold


def _printed(
    height: int, record: Budget, threshold: int | None, remainder: bool, acknowledge: bool
) -> tuple[PrintedLaws, int]:
    if height >= 5:
        bound = printed_lower_bound(record.epsilon, height)
        raise ParameterError(
            f"mechanism='paper' is refused at height {height}: the printed algorithm is not "
            f"private from height 5 on; at epsilon={record.epsilon:g} its delta is at least "
            f"{bound:.1e}, not the requested {record.delta:g} (docs/soundness.md). "
            "Use mechanism='offline'."
        )
    if not acknowledge:
        raise ParameterError(
            "mechanism='paper' is the algorithm as printed, kept for comparison: pass "
            "acknowledge=True to run it, or use mechanism='offline', which has less noise."
        )
    if remainder:
        raise ParameterError(
            "mechanism='paper' releases no remainder, and adding one is not private at height 4: "
            "pass remainder=False."
        )
    smallest = printed_hhh.smallest_threshold(record.epsilon, record.delta, height)
    threshold = _at_least(threshold, smallest, record, height)
    laws = printed_hhh.printed_laws(record.epsilon, height, threshold)
    if laws.delta > record.delta:
        raise ParameterError(
            f"mechanism='paper' costs delta={laws.delta:.2g} at threshold {threshold}, more than "
            f"the requested {record.delta:g}: raise threshold."
        )
    return laws, threshold
