"""Which nodes a release shows: those whose residual, with the noise of a test, reaches a threshold.

Heavy hitters, tree counts by heavy hitters and rollups have the same selection. It sees no data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any, Protocol

from dpframe.accounting.calibrate import choose_laws, law_options, smallest_law_threshold
from dpframe.accounting.path_recursion import Laws
from dpframe.accounting.tree_levels import profiles_together
from dpframe.asking.call_arguments import add_advice
from dpframe.asking.card import Draw, DrawList, units_to_worth
from dpframe.asking.level_plan import SpendingPlan
from dpframe.asking.privacy_receipt import Sight
from dpframe.budget import Budget, PrivacyUnit, per_record
from dpframe.errors import DpframeError
from dpframe.mechanisms import offline_hhh
from dpframe.noise import NoiseTable
from dpframe.questions.hhh.checks import HhhArguments, threshold_in_records, threshold_in_units


@dataclass(frozen=True, kw_only=True)
class Selection(SpendingPlan):
    """The tests of a selection, their noise, and what they cost.

    ``threshold`` is in records or users, or in what the unit measures. If nothing is ``released``,
    an observer only sees which nodes are selected.
    """

    asked: HhhArguments
    threshold: float
    laws: Laws
    released: bool = True

    @property
    def budget(self) -> Budget:
        return self.asked.budget

    @property
    def unit(self) -> PrivacyUnit:
        return self.asked.unit

    @property
    def threshold_units(self) -> int:
        """The threshold in units, in which it is compared with counts."""
        return threshold_in_units(self.threshold, self.asked.unit)

    @cached_property
    def test_noise(self) -> NoiseTable:
        """The noise that decides what is selected, centred for the threshold."""
        return self.laws.median_test(threshold_in_records(self.threshold, self.asked.unit))

    @property
    def band(self) -> int:
        """A count below this many units can never be selected, so it need not be fetched."""
        return max(1, self.threshold_units - self.test_noise.highest)

    @property
    def certainly_reported(self) -> float:
        """Residuals from here on are always selected; in records, users or the measure, rounded
        up."""
        certain = self.threshold_units - self.test_noise.lowest
        return units_to_worth(certain, self.asked.unit, up=True)

    @property
    def smallest_threshold(self) -> float | None:
        """The least threshold that is private for what was asked; None if there is none."""
        if self.asked.threshold is None:
            return self.threshold
        return least_threshold(choose_selection, replace(self.asked, threshold=None))

    def sight(self, epsilon: float, *, node: str = "node") -> Sight:
        """From which number on a node is shown. ``epsilon`` is that of the whole release, of which
        the selection keeps its part."""
        asked, unit, part = self.asked, self.asked.unit, self.budget.epsilon / epsilon

        def planned(larger: float) -> float | None:
            budget = Budget(epsilon=part * larger, delta=self.budget.delta)
            return least_threshold(choose_selection, replace(asked, budget=budget, threshold=None))

        return Sight(
            below=self.threshold,
            counted=counted_words(unit),
            epsilon=epsilon,
            planned=planned,
            allowed=self.smallest_threshold,
            certain=self.certainly_reported,
            node=node,
            is_own=asked.hierarchy.height > 1,
            is_divided=is_divided(unit),
            is_bounded=is_bounded(unit),
            levels=asked.hierarchy.level_names,
            is_complete=asked.hierarchy.kind == "columns",
        )

    @cached_property
    def draws(self) -> DrawList:
        """The tests and the released residuals, with the exact curve for records.

        The game is a path for one record. Shares, and tables that are too long for the recursion,
        have the curve of two parts, tests and releases. It covers all units of a record or user,
        wherever the units lie.
        """
        laws, released = self.laws, self.released
        tests, release = test_and_release_draws(
            self.test_noise, laws.release, grid=laws.grid, worth=self.asked.unit.worth
        )
        kind, shares = "path", dict[str, object]()
        if not offline_hhh.has_profile(laws):
            kind = "shares"
            shares = {
                "units": laws.grid,
                "left": laws.left,
                "right": laws.right,
                "release_scale": laws.release_scale if released else None,
            }
        return DrawList(
            kind=kind,
            draws=(tests, release) if released else (tests,),
            facts={
                "height": self.asked.hierarchy.height,
                "threshold": self.threshold_units,
                "remainder": self.asked.remainder,
                "test": tests,
                "release": release if released else None,
                **shares,
            },
            delta=laws.delta,
            group=self.asked.unit.moves,
            curve=self._curve,
        )

    def _curve(self, epsilons: Sequence[float]) -> Iterable[tuple[float, float]]:
        laws, height = self.laws, self.asked.hierarchy.height
        if not offline_hhh.has_profile(laws):
            parts = offline_hhh.selection_profiles(laws, height=height)
            record = per_record(self.budget, self.asked.unit.moves)
            return profiles_together([(part, 1) for part in parts], epsilons, record.epsilon)
        cost = partial(offline_hhh.cost, laws, height=height, remainder=self.asked.remainder)
        return ((e, cost(epsilon=e)) for e in epsilons)


class HasThreshold(Protocol):
    """A selection, or a plan with one."""

    @property
    def threshold(self) -> float: ...


@lru_cache(maxsize=256)
def least_threshold(
    planned: Callable[[HhhArguments], HasThreshold], asked: HhhArguments
) -> float | None:
    """Return the threshold that is planned for arguments without one; None if noise needs one."""
    try:
        return planned(asked).threshold
    except DpframeError:
        return None


def counted_words(unit: PrivacyUnit) -> str:
    """Return what a threshold counts, for the words behind the number."""
    return f"of {unit.weight!r}" if unit.measured else unit.count_noun


def is_divided(unit: PrivacyUnit) -> bool:
    """Return whether each user weighs 1 in total, divided over their records."""
    return unit.user is not None and unit.contribution == "share" and not unit.measured


def is_bounded(unit: PrivacyUnit) -> bool:
    """Return whether records, nodes or weights beyond a bound count nothing."""
    by_share = unit.user is None or unit.contribution == "share"
    return not by_share or unit.max_weight is not None


def test_and_release_draws(
    test: NoiseTable, release: NoiseTable, **facts: Any
) -> tuple[Draw, Draw]:
    """Return the draws of a selection: one decides whether a node is reported, the other is added
    to what is reported.

    ``facts`` are fields of both draws.
    """
    decides = Draw(
        law=test,
        names=("test",),
        label="test noise",
        applies_to="decides what is reported",
        **facts,
    )
    counts = replace(
        decides,
        law=release,
        names=("release",),
        label="release noise",
        applies_to="added to what is reported",
    )
    return decides, counts


def choose_selection(asked: HhhArguments, *, released: bool = True) -> Selection:
    """Choose the smallest noise within the budget, and the threshold."""
    height, remainder, share = asked.hierarchy.height, asked.remainder, asked.release_share
    record = per_record(asked.budget, asked.unit.moves)
    with add_advice("move release_share towards the middle", given=share is not None):
        options = law_options(
            height=height,
            epsilon=record.epsilon,
            delta=record.delta,
            remainder=remainder,
            release_share=share or default_release_share(height, remainder),
            grid=asked.unit.grid,
            threshold=None
            if asked.threshold is None
            else threshold_in_records(asked.threshold, asked.unit),
        )
    threshold = asked.at_least(smallest_law_threshold(options))
    laws = choose_laws(options, threshold_in_records(threshold, asked.unit))
    return Selection(asked=asked, threshold=threshold, laws=laws, released=released)


def default_release_share(height: int, remainder: bool) -> float:
    """Return the part of epsilon for released counts: a half if at most two nodes of a path are
    paid for (the remainder counts as one), else a third."""
    return 1 / min(3, max(2, height + remainder))
