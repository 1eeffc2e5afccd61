"""The default mechanism: exact counts, and bounded noise whose cost is computed exactly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from dpframe.accounting.calibrate import choose_laws, law_options, smallest_law_threshold
from dpframe.accounting.part_curves import profiles_together
from dpframe.accounting.path_laws import Laws
from dpframe.asking.draws import DrawList
from dpframe.budget import Budget, PrivacyUnit, per_record
from dpframe.errors import add_advice
from dpframe.mechanisms import offline_hhh
from dpframe.noise import NoiseTable
from dpframe.questions.hhh.checks import HhhArguments, threshold_in_records
from dpframe.questions.hhh.mechanism_plan import HhhPlan, test_and_release_draws
from dpframe.tree import Counts, NoisyNodes


@dataclass(frozen=True, kw_only=True)
class OfflinePlan(HhhPlan[Laws, Counts]):
    """Two kinds of draws: test noise decides whether a node is reported, and release noise is added
    to the residual of each reported node. Counts are sums of these noisy residuals."""

    paper = "Biswas, Cormode, Kanza, Srivastava, Zhou (2024), Algorithm 1, corrected"

    @cached_property
    def test_noise(self) -> NoiseTable:
        return self.laws.median_test(threshold_in_records(self.threshold, self.unit))

    @property
    def count_noise(self) -> NoiseTable:
        return self.laws.release

    @property
    def band(self) -> int:
        return max(1, self.threshold_units - self.test_noise.highest)

    @cached_property
    def draws(self) -> DrawList:
        """The tests and the released residuals, with the exact curve for records.

        Shares, and tables that are too long for the recursion, have the curve of two parts: tests
        and releases.
        """
        return selection_draws(
            self.laws,
            self.test_noise,
            height=self.height,
            threshold=self.threshold_units,
            remainder=self.remainder,
            budget=self.budget,
            unit=self.unit,
        )

    @property
    def errors(self) -> dict[str, float]:
        return {"count": self.half_width(1) * self.unit.worth / self.grid}

    def remake(self, asked: HhhArguments) -> OfflinePlan:
        return offline_plan(asked)

    @property
    def whole_noise(self) -> NoiseTable | None:
        """The noise of whole counts; None where none are released."""
        return None

    def run(self, counted: Counts, /) -> NoisyNodes:
        return offline_hhh.run(
            counted,
            kinds=self.hierarchy.kind_order,
            test=self.test_noise,
            release=self.count_noise,
            threshold=self.threshold_units,
            remainder=self.remainder,
            band=self.band,
            totals=self.whole_noise,
        )


def selection_draws(
    laws: Laws,
    test: NoiseTable,
    *,
    height: int,
    threshold: int,
    remainder: bool,
    budget: Budget,
    unit: PrivacyUnit,
    released: bool = True,
) -> DrawList:
    """Return what a selection draws for each node: a test, and noise in a reported residual.

    ``test`` is the law of the tests, centred. If nothing is ``released``, an observer only sees
    which nodes are selected. The game is a path for one record; for shares and long tables, it
    covers all units of a record or user, wherever the units lie.
    """
    tests, release = test_and_release_draws(test, laws.release, grid=laws.grid, worth=unit.worth)
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
            "height": height,
            "threshold": threshold,
            "remainder": remainder,
            "test": tests,
            "release": release if released else None,
            **shares,
        },
        delta=laws.delta,
        group=unit.moves,
        curve=partial(_selection_curve, laws, budget, unit.moves, height, remainder),
    )


def _selection_curve(
    laws: Laws,
    budget: Budget,
    moves: int,
    height: int,
    remainder: bool,
    epsilons: Sequence[float],
) -> Iterable[tuple[float, float]]:
    if not offline_hhh.has_profile(laws):
        parts = offline_hhh.selection_profiles(laws, height=height)
        return profiles_together(
            [(part, 1) for part in parts], epsilons, per_record(budget, moves).epsilon
        )
    cost = partial(offline_hhh.cost, laws, height=height, remainder=remainder)
    return ((e, cost(epsilon=e)) for e in epsilons)


def default_release_share(height: int, remainder: bool) -> float:
    """Return the part of epsilon for released counts: a half if at most two nodes of a path are
    paid for (the remainder counts as one), else a third."""
    return 1 / min(3, max(2, height + remainder))


def offline_laws(asked: HhhArguments) -> tuple[Laws, float]:
    """Return the smallest noise within the budget, and the threshold."""
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
    return choose_laws(options, threshold_in_records(threshold, asked.unit)), threshold


def offline_plan(asked: HhhArguments) -> OfflinePlan:
    """Choose the noise of the default mechanism."""
    laws, threshold = offline_laws(asked)
    return OfflinePlan(asked=asked, threshold=threshold, laws=laws)
