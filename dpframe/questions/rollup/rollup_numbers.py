"""The request for a rollup, and the numbers that follow: costs, curve, errors. Sees no data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from dpframe.accounting.compose import Profile
from dpframe.accounting.losses import Losses, losses_of
from dpframe.accounting.part_curves import STEP, losses_of_profile, parts_curve, pure_profile
from dpframe.asking.level_plan import LevelPlan, cell_columns
from dpframe.budget import Budget, PrivacyUnit
from dpframe.hierarchy import Hierarchy
from dpframe.measures import Measure
from dpframe.mechanisms.measured_parts import rounded_up
from dpframe.mechanisms.node_counts import DistinctLaw
from dpframe.mechanisms.rollup import BoundSearch, SumFromMean, VectorCharge
from dpframe.postprocess.half_widths import half_width
from dpframe.postprocess.weighted_laplace import deviation_factor, whole_half_width
from dpframe.questions.hhh.offline import OfflinePlan
from dpframe.tree import ListedNodes
from dpframe.vectors import Vector

MANY = 1000
"""A card gives the error of a mean of this many values."""

MOST_COUNTS = 100
"""If one record or user moves more counts of different values than this number, these counts are
composed as one part."""


@dataclass(frozen=True, kw_only=True)
class RollupRequest:
    """The checked arguments of a rollup; dpframe chooses what is None.

    ``threshold`` is in records or users, or in the unit of ``heavy``, the measure that selects.
    """

    hierarchy: Hierarchy
    measures: Mapping[str, Measure]
    unit: PrivacyUnit
    budget: Budget
    threshold: float | None = None
    heavy: str | None = None
    listed: ListedNodes | None = None
    selection_share: float | None = None
    confidence: float = 0.95

    @property
    def mechanism(self) -> str:
        return "rollup"

    @property
    def selection_unit(self) -> PrivacyUnit:
        """The unit of privacy of the selection: who is protected, and what makes a node heavy."""
        if self.heavy is None:
            return self.unit
        measure = self.measures[self.heavy]
        return replace(
            self.unit, weight=measure.column, max_weight=measure.steps.upper, measured=True
        )

    @property
    def request(self) -> dict[str, object]:
        """The arguments as plain JSON types. Measures are in the order of the columns: another
        order is another request."""
        return {
            "counts": "rollup",
            "hierarchy": self.hierarchy.spec,
            "measures": [[name, measure.spec] for name, measure in self.measures.items()],
            **self.budget.request,
            "user": self.unit.user,
            "threshold": self.threshold,
            **({} if self.heavy is None else {"heavy": self.heavy}),
            "keys": None if self.listed is None else self.listed.name,
            "selection_share": self.selection_share,
            "confidence": self.confidence,
        }


@dataclass(frozen=True, kw_only=True)
class RollupNumbers(LevelPlan[RollupRequest]):
    """The request, with the noise of everything that is drawn.

    ``paid``: for each measure that adds up and has known bounds, its vectors and their epsilons.
    ``read``: the sums that are read from the vectors of a mean, and paid for there.
    ``searching``: the measures whose bounds are found first.
    ``counts``: the counts of different values, which do not add up.
    """

    selection: OfflinePlan | None
    paid: Mapping[str, tuple[VectorCharge, ...]]
    read: Mapping[str, SumFromMean]
    searching: Mapping[str, BoundSearch]
    counts: Mapping[str, DistinctLaw]

    @property
    def listed_keys(self) -> ListedNodes | None:
        return self.asked.listed

    @property
    def decides(self) -> str:
        """What the selection counts, in a word: records, users, or the name of a measure."""
        if self.asked.heavy is not None:
            return self.asked.heavy
        return "records" if self.unit.user is None else "users"

    @property
    def request(self) -> dict[str, object]:
        """The arguments that this plan answers, as plain JSON types; stored in users' ledgers."""
        return self.asked.request

    @property
    def band(self) -> int:
        """A count below this many units can never be selected; 1 if keys are listed."""
        return 1 if self.selection is None else self.selection.band

    @property
    def types(self) -> dict[str, str]:
        """The columns of cells and of measures in a result, with DuckDB's types."""
        kinds = {"count": "BIGINT", "distinct": "BIGINT"}
        return cell_columns(self.hierarchy) | {
            f"{name}{end}": "BIGINT" if "_clipped" in end else kinds.get(measure.kind, "DOUBLE")
            for name, measure in self.asked.measures.items()
            for end in measure.columns
        }

    @property
    def vectors(self) -> tuple[Vector, ...]:
        """The vectors of all measures with known bounds, which are measured on the parts."""
        return tuple(paid.vector for several in self.paid.values() for paid in several)

    def epsilon_of(self, name: str) -> Fraction:
        """The epsilon of a measure. For a mean, without the epsilon of the sums read from it."""
        for one in (self.counts, self.searching):
            if name in one:
                return one[name].epsilon
        own = self.read[name].epsilon if name in self.read else Fraction(0)
        others = sum((r.epsilon for r in self.read.values() if r.of == name), Fraction(0))
        return sum((p.cost for p in self.paid[name]), own - others)

    @property
    def epsilon_spent(self) -> Fraction:
        """The sum of all epsilons, exact; at most the epsilon of the budget."""
        own = Fraction(0) if self.selection is None else Fraction(self.selection.budget.epsilon)
        return sum((self.epsilon_of(name) for name in self.asked.measures), own)

    @property
    def delta(self) -> float:
        """The delta of the selection and of all counts of different values."""
        own = 0.0 if self.selection is None else self.selection.delta_spent
        return own + sum(count.delta for count in self.counts.values())

    def curve(self, epsilons: Sequence[float]) -> Iterable[tuple[float, float]]:
        """The curve of the selection, of every measure and of every search together."""
        step = self.budget.epsilon * STEP
        losses = [(losses_of_profile(profile, step), 1) for profile in self._profiles()]
        losses += [_distinct_losses(count, step) for count in self.counts.values()]
        return parts_curve(losses, epsilons)

    def _profiles(self) -> Iterator[Profile]:
        """Curves of the selection, every search, and every group of vectors that move together.

        Each curve holds whatever the other draws answer. Which levels are measured besides the
        parts follows from what is shown, so a vector has one curve for all its levels.
        """
        if self.selection is not None:
            yield self.selection.profile
        for several in self.paid.values():
            at = 0
            while at < len(several):
                yield _pure_curve(several[at].epsilon)
                at += several[at].together
        for searching in self.searching.values():
            yield from (_pure_curve(searching.each) for _ in searching.searches)
            yield _pure_curve(searching.rest)

    @cached_property
    def errors(self) -> dict[str, float]:
        """By measure, the half width of one node's interval, in the measure's unit.

        For measures that add up it is for the part of the node, if no level above is measured; for
        a mean, if the part has ``MANY`` values and their mean is at a bound. Measures with searched
        bounds have no entry.
        """
        found = {name: float(self.half_width(name)) for name in self.counts}
        for name in self.paid:
            paid = self.paid[self.read[name].of if name in self.read else name]
            scales = [rounded_up(p.vector.most / p.epsilon) for p in paid]
            spread = np.array([2 * float(scale) ** 2 for scale in scales])
            first = paid[0].vector
            if self.asked.measures[name].kind == "mean":
                sd = math.sqrt(spread[0]) * first.bounds.step / MANY
                found[name] = deviation_factor(self.confidence) * sd
            else:
                half = int(whole_half_width(spread[:1], self.confidence, np.ones(1))[0])
                found[name] = half * first.bounds.step if first.column else half / first.unit
        return found

    def half_width(self, name: str) -> int:
        """The half width of the intervals of a count of different values."""
        return half_width(self.counts[name].noise, 1, self.confidence)


def _distinct_losses(counts: DistinctLaw, step: float) -> tuple[Losses, int]:
    """The losses of a count of different values, and how often one record or user moves it."""
    distinct = counts.distinct
    if not distinct.singly or distinct.touched > MOST_COUNTS:
        whole = pure_profile(float(counts.epsilon), counts.delta)
        return losses_of_profile(whole, step), 1
    if counts.scale is not None:
        return losses_of_profile(_pure_curve(1 / counts.scale), step), distinct.touched
    assert counts.table is not None
    return losses_of(counts.table, step), distinct.touched


def _pure_curve(epsilon: Fraction) -> Profile:
    return pure_profile(float(epsilon))
