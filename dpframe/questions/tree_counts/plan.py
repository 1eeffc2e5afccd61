"""What a release of the counts of all nodes will do and cost, from public parameters alone.

This module sees no data. Listed keys are a parameter like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, get_args

from dpframe.accounting.compose import Profile, whole_profile
from dpframe.accounting.laws import Laws
from dpframe.accounting.losses import composed_profile
from dpframe.accounting.relative import RelativeLaws, relative_laws
from dpframe.accounting.tree_levels import FINE_STEP, TreeLaws, tree_laws
from dpframe.asking.notices import mostly_invalid, no_weights
from dpframe.asking.quantities import Quantity
from dpframe.asking.receipt import Receipt
from dpframe.budget import Budget, PrivacyUnit, group_delta, per_record
from dpframe.errors import BudgetError, ParameterError, ThresholdError, advising
from dpframe.hierarchy import Hierarchy
from dpframe.mechanisms import hhh_counts, level_counts, relative_counts
from dpframe.noise import NoiseTable
from dpframe.postprocess.level_weights import best_weights, deepest_level
from dpframe.questions.hhh.base import Asked
from dpframe.questions.hhh.offline import offline_laws
from dpframe.questions.tree_counts.lines import tree_lines
from dpframe.questions.tree_counts.receipt import tree_receipt
from dpframe.tree import CountTree, ListedNodes, NoisyTree

if TYPE_CHECKING:
    import pandas as pd

TreeMechanism = Literal["additive", "laplace", "gaussian", "hhh", "relative"]
TREE_MECHANISMS: tuple[str, ...] = get_args(TreeMechanism)

GOES_WITH: Mapping[str, tuple[tuple[str, ...], str]] = {
    "level_weights": (
        ("additive", "laplace", "gaussian"),
        "divides the budget over one histogram a level",
    ),
    "alpha": (("relative",), "is the relative error that is accepted"),
    "largest": (("relative",), "is the largest number of records that the data could have"),
}
"""Arguments that only some mechanisms take, and what they do."""

LONGEST_PROFILE = 5_000
"""Entries of a table beyond which no whole privacy profile is computed, only its one point."""

AnyTreeLaws = TreeLaws | RelativeLaws | Laws


@dataclass(frozen=True, kw_only=True)
class TreePlan:
    """Everything about a release of tree counts except the data and the draw.

    ``budget.delta`` is 0 for a pure release of listed keys. ``threshold`` is in records, for
    unknown keys; None where keys are listed or the mechanism has thresholds of its own.
    """

    hierarchy: Hierarchy
    unit: PrivacyUnit
    budget: Budget
    mechanism: TreeMechanism
    laws: AnyTreeLaws
    listed: ListedNodes | None
    weights: tuple[float, ...]
    consistent: bool
    confidence: float
    threshold: int | None
    asked: dict[str, object]
    text_weights: bool = True
    """Whether weights are read from texts, as far as is known; a public fact of the source."""

    @property
    def request(self) -> dict[str, object]:
        """The arguments that this plan answers, as plain JSON types."""
        return {
            "counts": "tree",
            "hierarchy": self.hierarchy.spec,
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "user": self.unit.user,
            "contribution": self.unit.contribution if self.unit.user is not None else None,
            "max_contributions": self.unit.max_contributions,
            "weight": self.unit.weight,
            "max_weight": self.unit.max_weight,
            "mechanism": self.mechanism,
            "keys": None if self.listed is None else self.listed.name,
            "consistent": self.consistent,
            "confidence": self.confidence,
            **self.asked,
        }

    @property
    def method(self) -> str:
        """The mechanism that was chosen: laplace, gaussian, laplace-gaussian, hhh or relative."""
        return self.laws.family if isinstance(self.laws, TreeLaws) else self.mechanism

    @property
    def height(self) -> int:
        return self.hierarchy.height

    @property
    def grid(self) -> int:
        return self.unit.grid

    @property
    def thresholds(self) -> tuple[int, ...]:
        """Of every level, in units; for histograms of unknown keys."""
        assert isinstance(self.laws, TreeLaws)
        if self.threshold is None:
            return self.laws.thresholds
        return (self.threshold * self.grid,) * (self.height + 1)

    @cached_property
    def band(self) -> int:
        """Units below which a count can never be shown, so that it need not be fetched."""
        if isinstance(self.laws, RelativeLaws):
            return self.laws.band
        if isinstance(self.laws, Laws):
            assert self.threshold is not None
            test = self.laws.centred(self.threshold)
            return max(1, self.threshold * self.grid - test.highest)
        if self.listed is not None:
            return 1
        pairs = zip(self.thresholds, self.laws.noises, strict=True)
        return min(t - n.highest for t, n in pairs if isinstance(n, NoiseTable))

    @property
    def delta_spent(self) -> float:
        """Delta that the accountant computed for the unit of privacy, at most ``budget.delta``."""
        return group_delta(self.budget, self.unit.moves, self.laws.delta)

    @cached_property
    def profile(self) -> Profile:
        """What the release keeps at smaller epsilons too, where it is computed."""
        whole: Profile = ((self.budget.epsilon, self.budget.delta),)
        laws = self.laws
        if not isinstance(laws, TreeLaws) or not laws.bounded or laws.grid > 1:
            return whole
        tables = [n for n in laws.noises if isinstance(n, NoiseTable)]
        if max(len(t.weights) for t in tables) > LONGEST_PROFILE:
            return whole
        step = per_record(self.budget, self.unit.moves).epsilon * FINE_STEP
        return whole_profile(
            self.budget,
            self.unit.moves,
            lambda epsilons: composed_profile(tables, epsilons=epsilons, step=step),
        )

    def run(self, counted: CountTree, /) -> NoisyTree:
        """The only noisy step."""
        if isinstance(self.laws, RelativeLaws):
            return relative_counts.run(counted, laws=self.laws)
        if isinstance(self.laws, Laws):
            assert self.threshold is not None
            return hhh_counts.run(
                counted,
                test=self.laws.centred(self.threshold),
                release=self.laws.release,
                threshold=self.threshold * self.grid,
                confidence=self.confidence,
                height=self.height,
            )
        if self.listed is not None:
            return level_counts.run_listed(
                counted, laws=self.laws, listed=self.listed, confidence=self.confidence
            )
        return level_counts.run_unknown(
            counted, laws=self.laws, thresholds=self.thresholds, confidence=self.confidence
        )

    def lines(self) -> list[Quantity]:
        """What is known before the data are read."""
        return tree_lines(self)

    def advice(self) -> list[Quantity]:
        """Nothing else could be asked for."""
        return []

    def receipt(self, name: str | None = None) -> Receipt:
        """The receipt of a release of this plan."""
        return tree_receipt(self, name)

    def frame(self, noisy: NoisyTree, types: tuple[str, ...] = (), /) -> pd.DataFrame:
        """Released counts, in natural order."""
        from dpframe.questions.tree_counts.frame import tree_frame  # loads pandas

        return tree_frame(noisy, self, types)

    def answered(self, facts: Receipt, noisy: NoisyTree, frame: pd.DataFrame, /) -> Receipt:
        """The receipt with notices."""
        notices = mostly_invalid(frame, self.hierarchy)
        if self.text_weights and self.unit.weight is not None:
            notices += no_weights(frame, self.unit.weight)
        return facts.with_notices(notices)


def make_tree_plan(
    *,
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    budget: Budget,
    mechanism: TreeMechanism = "additive",
    listed: ListedNodes | None = None,
    level_weights: tuple[float, ...] | None = None,
    threshold: int | None = None,
    consistent: bool = True,
    confidence: float = 0.95,
    alpha: float | None = None,
    largest: int | None = None,
) -> TreePlan:
    """Choose the noise for one release of tree counts. Pure: no data, no randomness."""
    asked: dict[str, object] = {
        "level_weights": None if level_weights is None else list(level_weights),
        "threshold": threshold,
        "alpha": alpha,
        "largest": largest,
    }
    _check(mechanism, unit, budget, listed, threshold, alpha, largest)
    record = per_record(budget, unit.moves)
    deepest = hierarchy.height if listed is None else deepest_level(listed)
    weights: tuple[float, ...] = (1.0,) * (deepest + 1)  # no level below is released
    laws: AnyTreeLaws
    if mechanism == "relative":
        assert alpha is not None
        assert largest is not None
        laws = relative_laws(
            height=hierarchy.height,
            alpha=alpha,
            epsilon=record.epsilon,
            delta=record.delta,
            largest=largest,
            eta=1 - confidence,
        )
    elif mechanism == "hhh":
        laws, threshold = offline_laws(
            Asked(hierarchy=hierarchy, unit=unit, budget=budget, threshold=threshold)
        )
    else:
        family = None if mechanism == "additive" else mechanism
        if level_weights is not None:
            weights = level_weights[: deepest + 1]
        elif listed is not None and consistent:
            weights = best_weights(listed, deepest, squared=family == "gaussian")
        with advising("even out level_weights", given=level_weights is not None):
            laws = tree_laws(
                weights=weights,
                epsilon=record.epsilon,
                delta=record.delta,
                grid=unit.grid,
                listed=listed is not None,
                family=family,
            )
        _at_least(threshold, laws, budget)
    return TreePlan(
        hierarchy=hierarchy,
        unit=unit,
        budget=budget,
        mechanism=mechanism,
        laws=laws,
        listed=listed,
        weights=weights,
        consistent=consistent,
        confidence=confidence,
        threshold=threshold,
        asked=asked,
    )


def _check(
    mechanism: TreeMechanism,
    unit: PrivacyUnit,
    budget: Budget,
    listed: ListedNodes | None,
    threshold: int | None,
    alpha: float | None,
    largest: int | None,
) -> None:
    """Arguments that do not go together."""
    additive = mechanism in ("additive", "laplace", "gaussian")
    if listed is None and budget.delta == 0:
        raise BudgetError(
            "delta is missing: which keys there are is private, and showing them needs delta > 0, "
            "well below one over the number of people. Or list the keys: keys=[...], a frame, or "
            "keys='domain'; then delta=0 is possible."
        )
    if listed is not None and not additive:
        raise ParameterError(
            f"mechanism={mechanism!r} finds keys by itself: leave keys out, or use "
            "mechanism='additive', which gives every listed key a count."
        )
    if mechanism == "gaussian" and budget.delta == 0:
        raise BudgetError(
            "mechanism='gaussian' needs delta > 0: pass delta, or use mechanism='laplace'."
        )
    if unit.grid > 1 and mechanism in ("gaussian", "relative"):
        raise ParameterError(
            f"mechanism={mechanism!r} counts no shares of users: pass contribution='records' with "
            "max_contributions=, or use mechanism='laplace'."
        )
    if threshold is not None and (listed is not None or mechanism == "relative"):
        why = "listed keys are all shown" if listed is not None else "it has thresholds of its own"
        raise ParameterError(f"threshold ({threshold!r}) must be left out: {why}.")
    wanted = mechanism == "relative"
    for name, value in (("alpha", alpha), ("largest", largest)):
        if value is None and wanted:
            meaning = {
                "alpha": "the relative error that is accepted, for example 0.5",
                "largest": "the largest number of records that the data could have, known publicly",
            }[name]
            raise ParameterError(f"mechanism='relative' needs {name}=, {meaning}.")


def _at_least(threshold: int | None, laws: TreeLaws, budget: Budget) -> None:
    if threshold is None:
        return
    smallest = -(-max(laws.thresholds) // laws.grid)
    if threshold < smallest:
        raise ThresholdError(
            f"threshold ({threshold}) is below the smallest private threshold {smallest} for "
            f"epsilon={budget.epsilon:g}, delta={budget.delta:g} and {len(laws.noises)} levels: "
            "raise threshold, epsilon or delta."
        )
