"""Which nodes a release shows: those whose residual, with the noise of a test, reaches a threshold.

Heavy hitters, tree counts by heavy hitters and rollups have the same selection. It sees no data.

**The noise for a budget** is chosen among every shape that may serve, Gaussian halves too.

Each shape starts from a closed form or a search and is trimmed with the recursion of
:mod:`dpframe.accounting.path_recursion`. The result satisfies ``delta <= budget`` strictly, by the
accountant that reads the very tables that the sampler draws from.

**Gaussian halves** serve the test noise of tall hierarchies where one record is the unit of
privacy.

A path pays for the left half on every level: from height 7 or so a Gaussian left half spreads
less than a geometric one, and far above the smallest threshold a Gaussian on both sides spreads
least. There is no closed form; the scale is searched with the exact recursion.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from typing import Any, Literal, Protocol

from dpframe.accounting.losses import least_bound, least_scale
from dpframe.accounting.path_recursion import (
    LONGEST_TABLE,
    SELECTED_AT_THRESHOLD,
    Laws,
    geometric_laws,
    one_direction,
)
from dpframe.accounting.tree_levels import profiles_together
from dpframe.asking.call_arguments import add_advice
from dpframe.asking.card import Draw, DrawList, units_to_worth
from dpframe.asking.level_plan import SpendingPlan
from dpframe.asking.privacy_receipt import Sight
from dpframe.budget import Budget, PrivacyUnit, per_record
from dpframe.errors import DpframeError
from dpframe.mechanisms import offline_hhh
from dpframe.noise import NoiseTable, halves
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


@lru_cache(maxsize=256)
def gaussian_laws(
    shape: Literal["gaussian-left", "gaussian"],
    *,
    base: Laws,
    height: int,
    epsilon: float,
    delta: float,
    remainder: bool,
) -> Laws | None:
    """Return the laws with the least Gaussian left half, beside the right half of ``base`` or a
    Gaussian right half.

    None where no such laws are found near ``base``, at large delta for instance; ``base`` serves
    then.
    """
    both = shape == "gaussian"

    def test_law(scale: float, right_bound: int | None) -> NoiseTable:
        bound = math.ceil(scale * math.sqrt(2 * math.log(20 * height / delta)))
        right = ("gaussian", scale) if both else ("geometric", base.right)
        return halves(
            left=("gaussian", scale, bound),
            right=(*right, bound if right_bound is None else right_bound),
            recentre=False,
        )

    def cost(test: NoiseTable, more_first: bool) -> float:
        return one_direction(
            test,
            base.release,
            height=height,
            epsilon=epsilon,
            remainder=remainder,
            more_first=more_first,
        )

    def scale_cost(scale: float) -> float:
        test = test_law(scale, None if both else base.test.highest + 2)
        fewer = cost(test, False)
        return max(fewer, cost(test, True)) if both else fewer

    scale = least_scale(scale_cost, base.left * (0.5 if both else 0.8), delta)
    widest = test_law(scale, None).highest if both else base.test.highest + 2
    bound = least_bound(lambda b: cost(test_law(scale, b), True), widest, delta)
    for _ in range(12):
        test = test_law(scale, bound)
        fewer, more = cost(test, False), cost(test, True)
        if max(fewer, more) <= delta:
            return Laws(
                shape=shape,
                test=test,
                release=base.release,
                grid=1,
                left=scale,
                right=scale if both else base.right,
                release_scale=base.release_scale,
                delta=max(fewer, more),
            )
        scale *= 1.005 if fewer > delta or both else 1.0
        bound += 1 if more > delta else 0
    return None


CURVED_FROM = 7
"""Height from which a Gaussian left half can beat a geometric one."""

SYMMETRIC_FROM = 12
"""Height from which test noise with two Gaussian halves can beat noise with a geometric right half,
at high thresholds."""


def choose_laws(options: Sequence[Laws], threshold: int | Fraction) -> Laws:
    """Return the law with the narrowest test noise that selects a residual equal to the threshold
    with a chance of at least 1/2. If no law does, return the law with the largest such chance."""
    balanced = [o for o in options if o.smallest_threshold(0.5) <= threshold]
    if balanced:
        return min(balanced, key=lambda o: o.test.sd)
    able = [o for o in options if o.smallest_threshold(SELECTED_AT_THRESHOLD) <= threshold]
    return max(able, key=lambda o: o.chance_at(threshold))


def smallest_law_threshold(options: Sequence[Laws]) -> int:
    """Return the smallest threshold at which some law selects a residual equal to the threshold
    with a chance of at least ``SELECTED_AT_THRESHOLD``."""
    return min(o.smallest_threshold(SELECTED_AT_THRESHOLD) for o in options)


def law_options(
    *,
    height: int,
    epsilon: float,
    delta: float,
    remainder: bool,
    release_share: float,
    grid: int,
    threshold: int | Fraction | None,
) -> list[Laws]:
    """Return every law within the budget that may serve; all of them are sound."""
    base = geometric_laws(
        height=height,
        epsilon=epsilon,
        delta=delta,
        remainder=remainder,
        release_share=release_share,
        grid=grid,
    )
    options = [base]
    if grid > 1 or height < CURVED_FROM or len(base.test.weights) > LONGEST_TABLE:
        return options
    shapes: list[Literal["gaussian-left", "gaussian"]] = ["gaussian-left"]
    if (
        height >= SYMMETRIC_FROM
        and threshold is not None
        and threshold > 2 * base.smallest_threshold(0.5)
    ):
        shapes.append("gaussian")
    for shape in shapes:
        laws = gaussian_laws(
            shape, base=base, height=height, epsilon=epsilon, delta=delta, remainder=remainder
        )
        if laws is not None:
            options.append(laws)
    return options
