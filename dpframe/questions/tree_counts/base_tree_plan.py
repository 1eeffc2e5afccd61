"""The base of plans of tree counts, and the plans by heavy hitters and with relative errors."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

import numpy as np

from dpframe.accounting.path_recursion import Laws
from dpframe.accounting.relative_steps import RelativeLaws, relative_laws
from dpframe.asking.card import (
    DrawList,
    Line,
    Text,
    hierarchy_line,
    invalid_notices,
    reported_node_rows,
    wide_interval_notices,
    zero_weights_notices,
)
from dpframe.asking.level_plan import LevelPlan
from dpframe.asking.privacy_receipt import (
    Receipt,
    Sight,
    empty_result_notices,
    unseen_residual_shares,
)
from dpframe.budget import Budget, PrivacyUnit, per_record
from dpframe.counts import CountTree, ListedNodes, NoisyTree
from dpframe.errors import ParameterError
from dpframe.hierarchy import Hierarchy
from dpframe.mechanisms import level_counts as relative_counts
from dpframe.mechanisms import offline_hhh as hhh_counts
from dpframe.postprocess.consistency import deepest_level
from dpframe.questions.hhh.checks import HhhArguments as HeavyHittersAsked
from dpframe.questions.hhh.selection import Selection, choose_selection, is_bounded, is_divided

if TYPE_CHECKING:
    import pandas as pd

TreeMechanism = Literal["additive", "laplace", "gaussian", "hhh", "relative"]

SOURCE = "Ghazi, Kamath, Kumar, Manurangsi, Wu (2023)"


@dataclass(frozen=True, kw_only=True)
class TreeRequest:
    """The checked arguments of tree counts; dpframe chooses what is None.

    ``budget.delta`` is 0 for a pure release of listed keys. ``threshold`` is in records or users.
    """

    hierarchy: Hierarchy
    unit: PrivacyUnit
    budget: Budget
    mechanism: TreeMechanism = "additive"
    listed: ListedNodes | None = None
    level_weights: tuple[float, ...] | None = None
    threshold: int | None = None
    consistent: bool = True
    confidence: float = 0.95
    alpha: float | None = None
    largest: int | None = None

    @property
    def deepest(self) -> int:
        """The deepest released level."""
        return self.hierarchy.height if self.listed is None else deepest_level(self.listed)


class Costs(Protocol):
    """What the laws of all mechanisms have in common: a delta."""

    @property
    def delta(self) -> float:
        """The delta that the accountant computed for one record."""


L = TypeVar("L", bound=Costs)


@dataclass(frozen=True, kw_only=True)
class TreePlan(LevelPlan[TreeRequest], Generic[L]):
    """Everything about a release of tree counts except the data and the draw."""

    laws: L

    question = "tree_counts"
    audience = "against anybody who sees the result"

    text_weights: bool = True
    """Whether weights may be read from texts: a public fact of the source."""

    # -- the request --------------------------------------------------------------------------

    @property
    def listed_keys(self) -> ListedNodes | None:
        return self.asked.listed

    @property
    def consistent(self) -> bool:
        return self.asked.consistent

    @property
    def adds_up(self) -> bool:
        """Whether the true count of a node is the sum of its children's counts and the rest."""
        return True

    @property
    def request(self) -> dict[str, object]:
        """The arguments that this plan answers, as plain JSON types."""
        asked = self.asked
        return {
            "counts": "tree",
            "hierarchy": self.hierarchy.spec,
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "user": self.unit.user,
            "contribution": self.unit.contribution if self.unit.user is not None else None,
            "max_contributions": self.unit.request["max_contributions"],
            "weight": self.unit.weight,
            "max_weight": self.unit.max_weight,
            "mechanism": self.mechanism,
            "keys": None if self.listed_keys is None else self.listed_keys.name,
            "consistent": self.asked.consistent,
            "confidence": self.confidence,
            "level_weights": None if asked.level_weights is None else list(asked.level_weights),
            "threshold": asked.threshold,
            "alpha": asked.alpha,
            "largest": asked.largest,
            **({} if self.unit.nodes is None else {"at_most": self.unit.nodes}),
        }

    # -- what each mechanism defines ----------------------------------------------------------

    @property
    def moved_by_user(self) -> int | None:
        """How many counts one user moves, where users count once at each of their nodes; else
        None."""
        return None

    @property
    def method(self) -> str:
        """The mechanism that was chosen: laplace, gaussian, laplace-gaussian, hhh or relative; with
        "items-" before it where different users are counted."""
        return self.mechanism

    @property
    def weights(self) -> tuple[float, ...]:
        """How the budget is divided over the levels."""
        return (1.0,) * (self.asked.deepest + 1)

    @property
    def threshold(self) -> int | None:
        """The caller's threshold for unknown keys, in records or users; None if there is none."""
        return self.asked.threshold

    @property
    @abstractmethod
    def least_shown(self) -> int | None:
        """The count from which a node is shown, in records or users: the largest over levels. None
        where all nodes are shown."""

    @property
    def smallest_threshold(self) -> int | None:
        """The least threshold that is private here, in records or users; None if the caller's
        threshold took its place."""
        return self.least_shown if self.asked.threshold is None else None

    @property
    @abstractmethod
    def band(self) -> int:
        """A count below this many units can never be shown, so it need not be fetched."""

    @abstractmethod
    def own_lines(self) -> list[Line]:
        """The card lines of this mechanism, known before the data are read."""

    @abstractmethod
    def run(self, counted: CountTree, /) -> NoisyTree:
        """The only noisy step."""

    # -- what follows from the request and the mechanism --------------------------------------

    @property
    def coverage(self) -> str:
        """What ``lower`` and ``upper`` hold, in words; ``intervals`` adds what weights need."""
        held = "lower and upper hold the true count with the stated confidence"
        if self.listed_keys is None:
            held += ", given what is shown"
        if self.consistent:
            held += "; they are those of the noise, widened where needed to hold the adjusted count"
        return held

    @property
    def intervals(self) -> str:
        """What the intervals of the release mean."""
        weighed = "; of the weights as they are counted, not as they were cut or left out"
        return self.coverage if self.unit.weight is None else self.coverage + weighed

    def lines(self) -> list[Line]:
        """The card lines, all known before the data are read."""
        return [
            self.guarantee_line,
            Line.of("mechanism", Text("tree counts, {method}"), self.paper, method=self.method),
            hierarchy_line(self.hierarchy),
            Line("counts", self.unit.counts, self.unit.what_counts),
            *self._weights(),
            self._keys(),
            *self.own_lines(),
            Line("adds up", self.consistent, self._additivity()),
            self.delta_line,
        ]

    def _weights(self) -> list[Line]:
        """The line on weights that are cut or count 0: an error would tell of a record. As long as
        the source is not known, the line allows for texts."""
        if self.unit.weight is None:
            return []
        texts = ", and texts (of a CSV file) that are no whole number, such as 12.50,"
        nothing = "missing and negative ones" + (texts if self.text_weights else "")
        return [
            Line.of(
                "weights",
                Text("whole numbers up to {most}"),
                "larger ones count {most}; {nothing} count 0; intervals do not cover that",
                most=self.unit.most,
                nothing=nothing,
            )
        ]

    def _keys(self) -> Line:
        if self.listed_keys is not None:
            nodes = Text("{n} listed nodes")
            meaning = "all are released, those of count 0 too"
            return Line.of("keys", nodes, meaning, n=len(self.listed_keys.level))
        return Line("keys", "unknown", "found in the data; small nodes are not shown")

    def _additivity(self) -> str:
        if self.unit.nodes is not None:
            return "different users do not: who is at two nodes counts at both, above them once"
        if self.consistent:
            parents = "parents the sum of their children and <other>"
            return f"counts are whole, not negative, and {parents}"
        return "counts as they were drawn: unbiased noise, signed, parents need not be sums"

    @property
    def mechanism_name(self) -> str:
        return f"tree-{self.method}"

    @property
    def facts(self) -> dict[str, object]:
        return {
            **super().facts,
            **self._moved_facts(),
            "weight": self.unit.weight,
            "max_weight": self.unit.max_weight,
            "keys": None if self.listed_keys is None else self.listed_keys.name,
            "threshold": self.least_shown,
            "remainder": True,
            "consistent": self.consistent,
            "level_weights": list(self.weights),
        }

    def _moved_facts(self) -> dict[str, object]:
        """How many counts a user moves, and how many nodes are listed on each level but level 0.
        Empty unless different users are counted."""
        if self.moved_by_user is None or self.listed_keys is None:
            return {}
        nodes = np.bincount(self.listed_keys.level, minlength=self.height + 1)[1:].tolist()
        return {"moved": self.moved_by_user, "listed": nodes}

    def frame(self, noisy: NoisyTree, types: tuple[str, ...] = (), /) -> pd.DataFrame:
        """The frame of released counts, in natural order."""

        from dpframe.asking.node_frame import counts_frame  # loads pandas

        return counts_frame(
            noisy,
            self.hierarchy,
            types,
            grid=self.grid,
            consistent=self.consistent,
            adds_up=self.adds_up,
        )

    def planned_threshold(self, epsilon: float) -> float | None:
        """The count from which nodes are shown at another epsilon; None if it is not planned."""
        return None

    @property
    def sight(self) -> Sight | None:
        if self.least_shown is None:
            return None
        return Sight(
            below=self.least_shown,
            counted=self.unit.count_noun,
            epsilon=self.budget.epsilon,
            planned=self.planned_threshold,
            allowed=self.smallest_threshold,
            certain=self.certain,
            is_divided=is_divided(self.unit),
            is_bounded=is_bounded(self.unit),
            levels=self.hierarchy.level_names,
            is_complete=self.hierarchy.kind == "columns",
        )

    @property
    def certain(self) -> int | None:
        """The count from which nodes are certainly shown; None if there is none."""
        return None

    def finish_receipt(self, facts: Receipt, noisy: NoisyTree, frame: pd.DataFrame, /) -> Receipt:
        """The receipt with notices, and with what is not shown."""
        invalid = invalid_notices(frame, self.hierarchy) if self.adds_up else []
        weight = self.unit.weight if self.text_weights else None
        if weight is not None and (unread := zero_weights_notices(frame, weight)):
            return facts.with_notices([*invalid, *unread])
        if (sight := self.sight) is None:
            return facts.with_notices([*invalid, *wide_interval_notices(frame)])
        node = reported_node_rows(frame)
        nodes = int(np.count_nonzero(node))
        nothing, shares = empty_result_notices(frame["level"].to_numpy()[node], sight), {}
        if nodes and self.adds_up:
            whole = node | (frame["level"].to_numpy() == 0)
            parts = unseen_residual_shares(frame, self.height, whole)
            shares = {facts.count_noun: parts} if parts else {}
        said = facts.with_not_shown(sight, nodes, shares)
        return said.with_notices([*(invalid or nothing), *wide_interval_notices(frame)])


@dataclass(frozen=True, kw_only=True)
class HeavyHittersPlan(TreePlan[Laws]):
    """Two kinds of draws: test noise decides whether a node is reported, and release noise is added
    to the residual of each reported node. Counts are sums of these noisy residuals."""

    selection: Selection

    paper = "Biswas, Cormode, Kanza, Srivastava, Zhou (2024), Algorithm 1, corrected; added up"

    @property
    def threshold(self) -> int:
        """Residual from which a node is reported, in records or users."""
        return int(self.selection.threshold)

    @property
    def least_shown(self) -> int:
        return self.threshold

    @property
    def sight(self) -> Sight:
        return self.selection.sight(self.budget.epsilon)

    @cached_property
    def draws(self) -> DrawList:
        """The draws of heavy hitters with a remainder."""
        draws = self.selection.draws
        test, release = draws.draws
        test = replace(test, applies_to="decides what is shown")
        return replace(
            draws, draws=(test, replace(release, applies_to="added to reported residuals"))
        )

    @property
    def band(self) -> int:
        return self.selection.band

    def own_lines(self) -> list[Line]:
        grid, what, release = self.grid, self.unit.count_noun, self.laws.release
        most = self.threshold + -(self.selection.test_noise.lowest // grid) - 1
        return [
            Line.of(
                "threshold",
                self.threshold,
                "residual {counted} from which a node is reported",
                counted=what,
            ),
            Line.of(
                "hidden at most",
                most,
                "{counted} of a node that is not reported, beyond others",
                counted=what,
            ),
            *self.draws.lines,
            Line.of(
                "standard error",
                Text("{sd:.4g}"),
                "of a reported residual, in {counted}",
                sd=release.sd / grid,
                counted=what,
            ),
        ]

    def run(self, counted: CountTree, /) -> NoisyTree:
        return hhh_counts.run_hhh_counts(
            counted,
            test=self.selection.test_noise,
            release=self.laws.release,
            threshold=self.selection.threshold_units,
            confidence=self.confidence,
            height=self.height,
        )


def heavy_hitters_plan(asked: TreeRequest) -> HeavyHittersPlan:
    """Choose the noise of heavy hitters with a remainder."""
    chosen = choose_selection(
        HeavyHittersAsked(
            hierarchy=asked.hierarchy,
            unit=asked.unit,
            budget=asked.budget,
            threshold=asked.threshold,
        )
    )
    return HeavyHittersPlan(asked=asked, laws=chosen.laws, selection=chosen)


T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class RelativePlan(TreePlan[RelativeLaws]):
    """One step for each threshold, the largest threshold first."""

    paper = f"{SOURCE}, Algorithms 1 and 2, with integer noise"

    @property
    def least_shown(self) -> int:
        return self.laws.smallest_threshold

    @property
    def band(self) -> int:
        return self.laws.band

    @property
    def noise(self) -> dict[str, Any]:
        steps = self.laws.steps[::-1]
        return {
            "steps": len(steps),
            "tops": [step.tops for step in steps],
            "scales": [float(step.scale) for step in steps],
            "bounds": [step.bound for step in steps],
        }

    @property
    def draws(self) -> DrawList:
        """The steps, largest threshold first, with the scales of their noise in records."""
        steps = [
            {
                "tops": step.tops,
                "thresholds": str(2 * step.scale),
                "queries": str(4 * step.scale),
                "tests": str(step.scale),
                "bound": step.bound,
                "cut": step.cut,
            }
            for step in self.laws.steps[::-1]
        ]
        return DrawList(
            kind="relative",
            draws=(),
            facts={"steps": steps},
            delta=self.laws.delta,
            group=self.unit.moves,
        )

    @property
    def coverage(self) -> str:
        return (
            "lower and upper hold the true count of a node with the stated confidence if the data "
            f"have no more than {self.laws.largest} records"
        )

    def own_lines(self) -> list[Line]:
        laws = self.laws
        failing = f"{laws.eta:.4g}"
        return [
            Line("relative error", laws.alpha, "that counts are within, from the least count on"),
            Line("least count", laws.smallest_threshold, "smaller nodes are not told from empty"),
            Line("largest", laws.largest, "records that the caller says the data have at most"),
            Line("steps", len(laws.steps), "thresholds, each classifies the nodes left over"),
            Line("chance of failure", failing, "that a count is not within its interval"),
        ]

    def run(self, counted: CountTree, /) -> NoisyTree:
        return relative_counts.run_relative_counts(counted, laws=self.laws)


def relative_plan(asked: TreeRequest) -> RelativePlan:
    """Choose the steps; ParameterError without ``alpha`` or ``largest``, or with ``threshold``."""
    if asked.threshold is not None:
        raise ParameterError(
            f"threshold ({asked.threshold!r}) does not go with mechanism='relative'. Leave it out."
        )
    alpha = _require_argument(
        "alpha", asked.alpha, "the relative error that is accepted, for example 0.5"
    )
    most = "the largest number of records that the data could have, known publicly"
    largest = _require_argument("largest", asked.largest, most)
    record = per_record(asked.budget, asked.unit.moves)
    laws = relative_laws(
        height=asked.hierarchy.height,
        alpha=alpha,
        epsilon=record.epsilon,
        delta=record.delta,
        largest=largest,
        eta=1 - asked.confidence,
    )
    return RelativePlan(asked=asked, laws=laws)


def _require_argument(name: str, value: T | None, meaning: str) -> T:
    if value is None:
        raise ParameterError(f"mechanism='relative' needs {name}=, {meaning}.")
    return value
