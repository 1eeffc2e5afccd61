"""The mechanisms of tree counts, and the choice: noisy histograms, and different users at nodes.

This module sees no data. Listed keys are a parameter like any other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from dpframe.accounting.losses import composed_profile
from dpframe.accounting.tree_levels import (
    FINE_STEP,
    NodeLaws,
    TreeLaws,
    laplace_parts,
    node_laws,
    profiles_together,
    tree_laws,
)
from dpframe.asking.call_arguments import add_advice, check_contribution
from dpframe.asking.card import Draw, DrawList, Line, Text, counts_game, noise_line
from dpframe.asking.level_plan import moved_count_lines
from dpframe.budget import Budget, Contribution, PrivacyUnit, per_record
from dpframe.common.calls import load_name
from dpframe.counts import CountTree, ListedNodes, NoisyTree
from dpframe.errors import BudgetError, DpframeError, ParameterError, ThresholdError
from dpframe.hierarchy import Hierarchy
from dpframe.mechanisms import level_counts
from dpframe.mechanisms import level_counts as user_counts
from dpframe.noise import NoiseTable, UnboundedNoise
from dpframe.postprocess.consistency import best_weights
from dpframe.postprocess.joint_noise import half_width
from dpframe.questions.tree_counts.base_tree_plan import (
    SOURCE,
    TreeMechanism,
    TreePlan,
    TreeRequest,
)

LONGEST_PROFILE = 2_000_000
"""Entries of a table beyond which its exact privacy profile takes too much memory."""

PAPERS = {
    "laplace": f"{SOURCE}, Corollary 15, with integer noise and exact composition",
    "gaussian": f"{SOURCE}, Corollary 15, with integer noise and exact composition",
    "laplace-gaussian": f"{SOURCE}, Corollary 15, with exact composition of noise between both",
}


@dataclass(frozen=True, kw_only=True)
class HistogramsPlan(TreePlan[TreeLaws]):
    """One draw for each node, from the law of its level."""

    shares: tuple[float, ...]
    """How the budget is divided over the levels."""

    @property
    def weights(self) -> tuple[float, ...]:
        return self.shares

    @property
    def method(self) -> str:
        return self.laws.family

    @property
    def paper(self) -> str:
        return PAPERS[self.laws.family]

    @cached_property
    def draws(self) -> DrawList:
        """On each level a count moves by one, or counts move by the shares of a user.

        The curve of bounded noise on whole records is exact, unless a table is too long. Otherwise
        the curve of Laplace noise composes one part for each level, and the curve of other noise is
        one point.
        """
        laws = self.laws
        draws = [
            Draw(
                law=noise,
                grid=self.grid,
                times=times,
                least=least,
                scale=scale if laws.family == "laplace" else None,
            )
            for noise, scale, times, least in zip(
                laws.noises, laws.scales, self.times, self.least, strict=True
            )
        ]
        return counts_game(
            draws,
            units=self.grid,
            delta=laws.delta,
            group=self.unit.moves,
            curve=self._curve if self._exact or laws.family == "laplace" else None,
        )

    @property
    def noise(self) -> dict[str, Any]:
        return {"levels": [draw.facts for draw in self.draws.draws]}

    @property
    def times(self) -> tuple[int, ...]:
        """How many counts of each level one unit of privacy moves."""
        return (1,) * len(self.laws.noises)

    @property
    def moved_laws(self) -> TreeLaws:
        """The laws of all counts that one unit of privacy moves: here one for each level."""
        return self.laws

    @property
    def tables(self) -> list[NoiseTable]:
        """The laws with bounds: all laws, or none in a pure release."""
        return bounded_noises(self.laws)

    @property
    def least(self) -> tuple[int | None, ...]:
        """The smallest noisy count shown on each level, in units; None where all are shown."""
        return (None,) * len(self.laws.noises)

    @property
    def _exact(self) -> bool:
        lengths = [len(table.weights) for table in self.tables]
        return bool(lengths) and self.laws.grid == 1 and max(lengths) <= LONGEST_PROFILE

    def _curve(self, epsilons: Sequence[float]) -> Iterable[tuple[float, float]]:
        record = per_record(self.budget, self.unit.moves).epsilon
        if self._exact:
            return composed_profile(
                bounded_noises(self.moved_laws), epsilons=epsilons, step=record * FINE_STEP
            )
        return profiles_together(Counter(laplace_parts(self.moved_laws)).items(), epsilons, record)

    @property
    def errors(self) -> dict[str, float]:
        """The half width of the noisiest count's interval, in records or users, before counts are
        made to add up."""
        widest = max(half_width(noise, 1, self.confidence) for noise in self.laws.noises)
        return {"count": widest / self.grid}

    def own_lines(self) -> list[Line]:
        grid, what = self.grid, self.unit.count_noun
        noises = [
            noise_line("noise {name}", noise, grid, "added to every count there", name=name)
            for name, noise in _level_noise_groups(self.laws)
        ]
        before = " before counts are made to add up" if self.adds_up else ""
        sd = max(noise.sd / grid for noise in self.laws.noises)
        error = Line.of(
            "standard error",
            Text("{sd:.4g}"),
            "of the noisiest count{before}, in {counted}",
            sd=sd,
            before=before,
            counted=what,
        )
        if not self.tables or self.consistent:
            return [*noises, error]
        most = -(-(max(n.highest for n in self.tables) + grid // 2) // grid)
        bound = Line.of(
            "largest error",
            most,
            "no count is further off, in {counted}",
            counted=what,
        )
        return [*noises, error, bound]


def bounded_noises(laws: TreeLaws) -> list[NoiseTable]:
    """The noise tables, which are the laws with bounds."""
    return [noise for noise in laws.noises if isinstance(noise, NoiseTable)]


@dataclass(frozen=True, kw_only=True)
class ListedPlan(HistogramsPlan):
    """A plan that releases every listed key."""

    keys: ListedNodes

    band = 1
    least_shown = None

    def run(self, counted: CountTree, /) -> NoisyTree:
        return level_counts.run_listed_counts(
            counted, laws=self.laws, listed=self.keys, confidence=self.confidence
        )


@dataclass(frozen=True, kw_only=True)
class UnknownPlan(HistogramsPlan):
    """A plan that shows a node if its noisy count reaches the threshold of its level."""

    @property
    def thresholds(self) -> tuple[int, ...]:
        """The thresholds of all levels, in units."""
        if self.threshold is None:
            return self.laws.thresholds
        return (self.threshold * self.grid,) * (self.height + 1)

    @property
    def least(self) -> tuple[int | None, ...]:
        return (None, *self.thresholds[1:])

    @property
    def least_shown(self) -> int:
        return -(-max(self.thresholds) // self.grid)

    @property
    def smallest_threshold(self) -> int:
        return _smallest_level_threshold(self.laws, self.grid)

    @cached_property
    def band(self) -> int:
        pairs = zip(self.thresholds, self.tables, strict=True)
        return min(threshold - noise.highest for threshold, noise in pairs)

    @property
    def certain(self) -> int:
        pairs = zip(self.thresholds[1:], self.tables[1:], strict=True)
        return -(-max(threshold - noise.lowest for threshold, noise in pairs) // self.grid)

    def planned_threshold(self, epsilon: float) -> int | None:
        budget = Budget(epsilon=epsilon, delta=self.budget.delta)
        return _least_shown(replace(self.asked, budget=budget, threshold=None))

    def own_lines(self) -> list[Line]:
        shown = [str(-(-t // self.grid)) for t in self.thresholds]
        text = shown[0] if len(set(shown)) == 1 else ", ".join(shown)
        meaning = f"noisy {self.unit.count_noun} from which a node is shown, a level"
        return [Line("threshold", text, meaning), *super().own_lines()]

    def run(self, counted: CountTree, /) -> NoisyTree:
        return level_counts.run_unknown_counts(
            counted, laws=self.laws, thresholds=self.thresholds, confidence=self.confidence
        )


def histogram_plan(asked: TreeRequest) -> ListedPlan | UnknownPlan:
    """Choose the noise of every level: of the named family, or of the family with less noise."""
    listed, family = asked.listed, asked.mechanism
    if listed is not None and asked.threshold is not None:
        raise ParameterError(
            f"threshold ({asked.threshold!r}) does not go with keys. Leave it out."
        )
    shares = level_shares(asked)
    record = per_record(asked.budget, asked.unit.moves)
    with add_advice("even out level_weights", given=asked.level_weights is not None):
        laws = tree_laws(
            weights=shares,
            epsilon=record.epsilon,
            delta=record.delta,
            grid=asked.unit.grid,
            listed=listed is not None,
            family=family if family == "laplace" or family == "gaussian" else None,
        )
    if listed is not None:
        return ListedPlan(asked=asked, laws=laws, shares=shares, keys=listed)
    _check_level_threshold(asked, laws)
    return UnknownPlan(asked=asked, laws=laws, shares=shares)


@lru_cache(maxsize=64)
def _least_shown(asked: TreeRequest) -> int | None:
    """The count from which nodes of unknown keys are shown; None if no noise is found."""
    try:
        return histogram_plan(asked).least_shown
    except DpframeError:
        return None


def level_shares(asked: TreeRequest) -> tuple[float, ...]:
    """The division of the budget over levels: the caller's; else, for listed keys that are made to
    add up, the division with the least error; else an even one."""
    listed, deepest = asked.listed, asked.deepest
    if asked.level_weights is not None:
        return asked.level_weights[: deepest + 1]
    if listed is not None and asked.consistent:
        return best_weights(listed, deepest, squared=asked.mechanism == "gaussian")
    return (1.0,) * (deepest + 1)


def _smallest_level_threshold(laws: TreeLaws, grid: int) -> int:
    return -(-max(laws.thresholds) // grid)


def _check_level_threshold(asked: TreeRequest, laws: TreeLaws) -> None:
    threshold, budget = asked.threshold, asked.budget
    smallest = _smallest_level_threshold(laws, laws.grid)
    if threshold is not None and threshold < smallest:
        raise ThresholdError(
            f"threshold ({threshold}) is below the smallest private threshold {smallest} for "
            f"epsilon={budget.epsilon:g}, delta={budget.delta:g} and {len(laws.noises)} levels. "
            "Raise threshold, epsilon or delta."
        )


def _level_noise_groups(laws: TreeLaws) -> list[tuple[str, NoiseTable | UnboundedNoise]]:
    """The different laws, each with a text that names its levels."""
    groups: dict[object, list[int]] = {}
    for level, noise in enumerate(laws.noises):
        key = noise.scale if isinstance(noise, UnboundedNoise) else noise.weights.tobytes()
        groups.setdefault(key, []).append(level)
    if len(groups) == 1:
        return [("a level", laws.noises[0])]
    return [
        (f"of level {', '.join(map(str, levels))}", laws.noises[levels[0]])
        for levels in groups.values()
    ]


@dataclass(frozen=True, kw_only=True)
class ItemsPlan(HistogramsPlan):
    """One draw for every listed node, from the law of its level."""

    keys: ListedNodes
    paid: NodeLaws

    band = 1
    least_shown = None
    consistent = False
    adds_up = False

    paper = (
        "a noisy number of users at every node, of each level as many of one user as at_most says "
        "(stability histograms: Bun, Nissim, Stemmer 2019), with integer noise and exact "
        "composition"
    )

    @property
    def times(self) -> tuple[int, ...]:
        return self.paid.times

    @property
    def moved_laws(self) -> TreeLaws:
        return self.paid.moved

    @property
    def moved_by_user(self) -> int:
        return sum(self.paid.times)

    @property
    def method(self) -> str:
        return f"items-{self.laws.family}"

    @property
    def coverage(self) -> str:
        return (
            "lower and upper hold the number of users as they are counted, with the stated "
            "confidence: they do not cover what at_most takes away, which makes counts too low"
        )

    def own_lines(self) -> list[Line]:
        return [*moved_count_lines(self.paid, self.unit.nodes), *super().own_lines()]

    def run(self, counted: CountTree, /) -> NoisyTree:
        return user_counts.run_listed_users(counted, laws=self.paid, confidence=self.confidence)


def items_plan(asked: TreeRequest, listed: ListedNodes, at_most: int) -> ItemsPlan:
    """Choose the smallest noise for listed keys."""
    if asked.threshold is not None:
        raise ParameterError(
            f"threshold ({asked.threshold!r}) does not go with keys. Leave it out."
        )
    if len(listed.level) > MOST_NODES:
        raise ParameterError(
            f"keys has {len(listed.level)} nodes, and contribution='items' allows {MOST_NODES}. "
            "List fewer keys, or pass contribution='share'."
        )
    sizes = np.bincount(listed.level, minlength=asked.deepest + 1).tolist()
    times = [min(at_most, size) for size in sizes[: asked.deepest + 1]]
    shares = tuple(map(float, times))
    if asked.level_weights is not None:
        shares = asked.level_weights[: asked.deepest + 1]
    family = asked.mechanism
    with add_advice("even out level_weights", given=asked.level_weights is not None):
        paid = node_laws(
            times=times,
            weights=shares,
            epsilon=asked.budget.epsilon,
            delta=asked.budget.delta,
            listed=True,
            family=family if family == "laplace" or family == "gaussian" else None,
        )
    return ItemsPlan(asked=asked, laws=paid.levels, shares=shares, keys=listed, paid=paid)


MOST_NODES = 100_000
"""The most listed nodes that are written into one statement."""


MECHANISMS: Mapping[TreeMechanism, tuple[str, str]] = {
    "additive": ("dpframe.questions.tree_counts.plan", "histogram_plan"),
    "laplace": ("dpframe.questions.tree_counts.plan", "histogram_plan"),
    "gaussian": ("dpframe.questions.tree_counts.plan", "histogram_plan"),
    "hhh": ("dpframe.questions.tree_counts.base_tree_plan", "heavy_hitters_plan"),
    "relative": ("dpframe.questions.tree_counts.base_tree_plan", "relative_plan"),
}
"""For each mechanism: its module, loaded when it is first used, and the function that plans."""

TREE_MECHANISMS = tuple(MECHANISMS)

ADDITIVE = ("additive", "laplace", "gaussian")

GOES_WITH: Mapping[str, tuple[tuple[str, ...], str]] = {
    "level_weights": (ADDITIVE, "divides the budget over one histogram a level"),
    "alpha": (("relative",), "is the relative error that is accepted"),
    "largest": (("relative",), "is the largest number of records that the data could have"),
}
"""For each argument that only some mechanisms take: these mechanisms, and the argument's effect."""

CONTRIBUTIONS: Mapping[str, tuple[Contribution, ...]] = {
    "additive": ("share", "items"),
    "laplace": ("share", "items"),
    "gaussian": ("items",),
    "hhh": ("share",),
}
"""The ways in which each mechanism can count a user, besides "records". Shares need counts on a
grid."""


def needed_delta(delta: float) -> float:
    """Return delta; BudgetError if it is 0, because it is private which keys occur."""
    if delta == 0:
        raise BudgetError(
            "delta is missing, and showing unknown keys needs delta > 0. Pass delta, well below "
            "one over the number of people, or list the keys: keys=[...] or keys='domain'."
        )
    return delta


def make_tree_plan(
    *,
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    budget: Budget,
    mechanism: TreeMechanism = "additive",
    **options: Any,
) -> TreePlan[Any]:
    """Choose the noise for one release of tree counts; ``options`` are the rest of ``TreeRequest``.

    Pure: no data, no randomness.
    """
    asked = TreeRequest(
        hierarchy=hierarchy, unit=unit, budget=budget, mechanism=mechanism, **options
    )
    if asked.listed is None:
        needed_delta(budget.delta)
    if asked.listed is not None and mechanism not in ADDITIVE:
        raise ParameterError(
            f"mechanism={mechanism!r} finds keys by itself. Leave keys out, or use "
            "mechanism='additive', which counts every listed key."
        )
    if mechanism == "gaussian" and budget.delta == 0:
        raise BudgetError(
            "mechanism='gaussian' needs delta > 0. Pass delta, or use mechanism='laplace'."
        )
    check_contribution(unit, mechanism, CONTRIBUTIONS)
    if asked.listed is not None and unit.nodes is not None:
        return items_plan(asked, asked.listed, unit.nodes)
    plan: TreePlan[Any] = load_name(*MECHANISMS[mechanism])(asked)
    return plan
