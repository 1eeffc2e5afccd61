"""The request for a rollup, and what follows: draws, costs, curve, receipt.

**A mean and a sum** can share a draw, for the epsilon of both measures.

If records are protected, a mean is made of two sums: how far values are above the lower bound, and
how far they are below the upper bound. Where one bound is 0, the sum measure of these values is the
first of the two, or the second with its sign turned. The sum measure is then read from the mean's
draw, which gets the epsilon of both measures. If users are protected, nothing is shared: the bounds
of a sum bound a user's total, and the bounds of a mean bound one value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpframe.accounting.compose import Profile
from dpframe.accounting.losses import Losses, losses_of
from dpframe.accounting.tree_levels import STEP, losses_of_profile, parts_curve, pure_profile
from dpframe.asking.card import Draw, DrawList
from dpframe.asking.level_plan import LevelPlan, cell_columns
from dpframe.asking.privacy_receipt import Receipt
from dpframe.budget import Budget, ItemsUnit, PrivacyUnit
from dpframe.counts import ListedCells, ListedNodes
from dpframe.hierarchy import Hierarchy
from dpframe.hierarchy._types import TIMES, WHOLE
from dpframe.measures.bins import ValueKind
from dpframe.measures.measure import AT_BOUND_END, BINS_END, Measure, Vector, vectors_of
from dpframe.mechanisms.marginals import TableLaws, level_keys, listed_marginals
from dpframe.mechanisms.rollup import (
    BinEstimate,
    BinLaw,
    BoundSearch,
    DistinctLaw,
    SumFromMean,
    VectorCharge,
    strategy_variances,
    vector_charges,
)
from dpframe.noise import FINE, law_facts, rounded_up
from dpframe.postprocess import strategy
from dpframe.postprocess.joint_noise import half_width
from dpframe.postprocess.known_noise import BY_VALUE
from dpframe.postprocess.strategy import PARTS, Importance, Marginals, level_strategy
from dpframe.postprocess.weighted_laplace import deviation_factor, whole_half_width
from dpframe.questions.hhh.selection import Selection
from dpframe.questions.rollup.rounds import RoundsSelection

if TYPE_CHECKING:
    from dpframe.mechanisms.rollup import Estimate, NoisyRollup


def rollup_draws(plan: RollupNumbers) -> DrawList:
    """Return the draws of a plan. The selection releases no number.

    The scales of the noise follow from what is shown. So the game states for each vector one scale,
    which bounds the loss of all noise of the vector together.
    """
    selection = plan.selection
    drawn = [
        *(
            each
            for name, several in plan.paid.items()
            for each in (
                [_table_draws(name, plan.table_laws[name])]
                if name in plan.table_laws
                else vector_draws(name, several)
            )
        ),
        *(each for name, one in plan.searching.items() for each in _search_draws(name, one)),
        *(_distinct_draw(name, one) for name, one in plan.counts.items()),
        *(each for name, one in plan.binned.items() for each in _bin_draws(name, one)),
    ]
    facts: dict[str, Any] = {"height": plan.height, "drawn": drawn}
    if plan.hierarchy.has_cells and plan.listed_cells is None:
        facts["segments"] = True
    if plan.read:
        facts["read"] = {name: one.of for name, one in plan.read.items()}
    measures = DrawList(kind="measures", draws=(), facts=facts, delta=plan.delta, curve=plan.curve)
    if selection is None:
        return measures
    selecting = selection.draws
    by_rounds = isinstance(selection, RoundsSelection)
    applies_to = selecting.draws[0].applies_to if by_rounds else "in units of {counted}"
    test = replace(selecting.draws[0], applies_to=applies_to, values={"counted": plan.decides})
    budget = selection.budget
    steps: list[dict[str, object]] = [
        {"epsilon": budget.epsilon, "delta": budget.delta, "game": selecting}
    ]
    if drawn or not by_rounds:
        rest: dict[str, object] = {
            "epsilon": str(plan.epsilon_spent - Fraction(budget.epsilon)),
            "delta": sum(count.delta for count in plan.counts.values()),
            "game": measures,
        }
        steps.append(rest)
    return replace(measures, kind="steps", draws=(test,), facts={"steps": steps})


def _table_draws(name: str, laws: TableLaws) -> dict[str, Any]:
    """The draws of a count of listed cells: a table for each kind that is measured."""
    tables = [{"table": Draw(law=table), "times": times} for times, table in laws.times]
    facts = {"unit": 1, "at_most": 1, "tables": tables}
    return {
        "measure": name, "of": "rows", **facts, "epsilon": str(laws.epsilon), "delta": laws.delta
    }  # fmt: skip


def vector_draws(name: str, several: tuple[VectorCharge, ...]) -> Iterator[dict[str, Any]]:
    """The draws of a measure with known bounds, one for each group of vectors moving together."""
    at = 0
    while at < len(several):
        vector, epsilon = several[at].vector, several[at].epsilon
        at += several[at].together
        kind = vector.kind
        noise = {"scale": str(vector.most / epsilon)}
        if vector.column is None or kind == "outside":
            facts = {"unit": vector.unit, "at_most": vector.most // vector.unit}
            yield {"measure": name, "of": kind, **facts, **noise}
            continue
        steps = vector.bounds
        bounds = {"low": steps.low, "high": steps.high, "decimals": steps.decimals}
        yield {"measure": name, "of": "sum" if kind == "sum" else "mean", **bounds, **noise}


def _search_draws(name: str, one: BoundSearch) -> Iterator[dict[str, Any]]:
    """The draws of a measure with searched bounds: histograms of magnitudes, then the vectors
    within the found bounds."""
    for _ in one.searches:
        yield {"measure": name, "of": "search", "scale": str(1 / one.each)}
    found = one.measure.with_bounds(
        0.0, 1.0
    )  # any bounds: how epsilon is divided does not depend on them
    for together, part in vectors_of(found, by_user=one.by_user):
        vector, epsilon = together[0], part * one.rest
        if vector.kind == "outside":
            facts = {"unit": vector.unit, "at_most": vector.most // vector.unit}
            scale = {"scale": str(vector.most / epsilon)}
            yield {"measure": name, "of": "outside", **facts, **scale}
            continue
        unknown = dict.fromkeys(("low", "high", "decimals"))
        kind = "sum" if vector.kind == "sum" else "mean"
        yield {"measure": name, "of": kind, **unknown, "epsilon": str(epsilon)}


def _distinct_draw(name: str, one: DistinctLaw) -> dict[str, Any]:
    distinct = one.distinct
    facts: dict[str, Any] = {"at_most": distinct.at_most or 1, "singly": distinct.singly}
    if one.scale is not None:
        return {"measure": name, "of": "distinct", **facts, "scale": str(one.scale)}
    noise = {"table": Draw(law=one.noise), "epsilon": str(one.epsilon), "delta": one.delta}
    return {"measure": name, "of": "distinct", **facts, **noise}


def _bin_draws(name: str, one: BinLaw) -> Iterator[dict[str, Any]]:
    """The draws of a measure in bins: numbers of values, the bins, and groups of bins."""
    vectors, kinds, each = one.vectors, BIN_DRAWS, (one.size_epsilon, *one.epsilons)
    for kind, epsilon in zip(kinds, each, strict=False):
        if epsilon:
            facts = {"unit": vectors.unit, "at_most": vectors.levels}
            yield {"measure": name, "of": kind, **facts, "scale": str(vectors.most / epsilon)}


BIN_DRAWS = "values", "bins", "groups"
"""What proofs and receipts call the draws of numbers of values, of bins and of groups of bins."""


PaidVectors = Mapping[str, tuple[VectorCharge, ...]]


def draws_and_reads(
    measures: Mapping[str, Measure], each: Mapping[str, Fraction], *, by_user: bool
) -> tuple[PaidVectors, Mapping[str, SumFromMean]]:
    """The vectors that each measure draws, with their epsilons, and the sums that are read from the
    vectors of a mean. ``each`` is the epsilon of each measure; all bounds are known."""
    paid = {name: vector_charges(m, each[name], by_user=by_user) for name, m in measures.items()}
    read = {} if by_user else _sums_from_means(measures, paid)
    for name, one in read.items():
        paid[name] = paid[name][1:]
        given = sum((p.cost for p in paid[one.of]), one.epsilon)
        paid[one.of] = vector_charges(measures[one.of], given, by_user=by_user)
    return paid, read


def _sums_from_means(measures: Mapping[str, Measure], paid: PaidVectors) -> dict[str, SumFromMean]:
    means = {(m.column, m.lower, m.upper): name for name, m in measures.items() if m.kind == "mean"}
    found = {}
    for name, m in measures.items():
        of = means.get((m.column, m.lower, m.upper))
        if m.kind == "sum" and of is not None and 0 in (m.steps.low, m.steps.high):
            found[name] = SumFromMean(of=of, epsilon=paid[name][0].cost)
    return found


def shown_type(read: str, kind: ValueKind) -> str:
    """DuckDB's type of a quantile of a column of the type ``read``, empty if that is not known:
    the same for times, durations and whole numbers, else DOUBLE."""
    if kind == "time":
        return read if read in TIMES else "TIMESTAMP"
    if kind == "duration":
        return "INTERVAL"
    return "BIGINT" if read in WHOLE else "DOUBLE"


def _column_types(measure: Measure, read: str) -> Iterator[tuple[str, str]]:
    """The ends of the names of a measure's columns, with their types."""
    whole = measure.kind in ("count", "distinct", "histogram")
    value = shown_type(read, measure.value) if measure.is_binned else "DOUBLE"
    for end in measure.columns:
        if end == BINS_END:
            yield end, "VARCHAR"
        elif end.endswith(AT_BOUND_END):
            yield end, "BOOLEAN"
        else:
            yield end, "BIGINT" if whole or "_clipped" in end else value


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
    listed: ListedNodes | ListedCells | None = None
    selection_share: float | None = None
    confidence: float = 0.95
    level_importance: Importance = ()
    usual: bool = False
    """Whether the selection was left to dpframe."""
    why_shares: str = ""
    """Why shares select then, where users are protected."""

    @property
    def by_rounds(self) -> bool:
        """Whether rounds of weights select."""
        return isinstance(self.unit, ItemsUnit)

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
            **({"contribution": "items"} if self.by_rounds else {}),
            "threshold": self.threshold,
            **({} if self.heavy is None else {"heavy": self.heavy}),
            "keys": None if self.listed is None else self.listed.name,
            "selection_share": self.selection_share,
            "confidence": self.confidence,
            **self.importance,
        }

    @property
    def importance(self) -> dict[str, object]:
        """How important each level is, level 0 first, by name; empty if the caller did not say."""
        given = self.level_importance
        return {"level_importance": given if given == "even" else [*given]} if given else {}

    @property
    def skips_levels(self) -> bool:
        """Whether the caller said that some levels do not count."""
        return self.level_importance != "even" and 0 in self.level_importance

    @property
    def written_importance(self) -> str:
        """How important each level is, by the names of levels; empty if the caller did not say."""
        own, names = self.level_importance, ("*", *self.hierarchy.level_names)
        pairs = () if own == "even" else zip(names, own, strict=False)
        return ", ".join(f"{name} {one:g}" for name, one in pairs if one) or str(own or "")


@dataclass(frozen=True, kw_only=True)
class RollupNumbers(LevelPlan[RollupRequest]):
    """The request, with the noise of everything that is drawn.

    ``paid``: for each measure that adds up and has known bounds, its vectors and their epsilons.
    ``read``: the sums that are read from the vectors of a mean, and paid for there.
    ``searching``: the measures whose bounds are found first.
    ``counts``: the counts of different values, which do not add up.
    ``binned``: the measures that count values in bins.
    ``laws``: Gaussian noise of counts of listed cells; other measures of these have Laplace noise.
    """

    selection: Selection | RoundsSelection | None
    paid: Mapping[str, tuple[VectorCharge, ...]]
    read: Mapping[str, SumFromMean]
    searching: Mapping[str, BoundSearch]
    counts: Mapping[str, DistinctLaw]
    binned: Mapping[str, BinLaw]
    table_laws: Mapping[str, TableLaws]

    @property
    def listed_keys(self) -> ListedNodes | None:
        return None if isinstance(self.asked.listed, ListedCells) else self.asked.listed

    @property
    def listed_cells(self) -> ListedCells | None:
        """The cells of listed keys of several hierarchies."""
        return self.asked.listed if isinstance(self.asked.listed, ListedCells) else None

    @property
    def marginals(self) -> Marginals | None:
        """The kinds of listed cells, and how they are measured."""
        cells = self.listed_cells
        return None if cells is None else listed_marginals(cells, self.hierarchy.kind_order)

    @property
    def whole_cells(self) -> bool:
        """Whether numbers are of whole nodes or cells, which overlap."""
        return self.asked.by_rounds or self.listed_cells is not None

    @cached_property
    def listed_strategy(self) -> Mapping[int, Fraction]:
        """With which parts of epsilon levels of listed keys are measured besides the parts."""
        assert self.listed_keys is not None
        level, above = self.listed_keys.level, self.listed_keys.parent
        importance, by_user = self.asked.level_importance, self.unit.user is not None
        return level_strategy(level, above, by_user=by_user, importance=importance)

    @property
    def along(self) -> Mapping[str, Measure]:
        """The measures that are taken along with rounds."""
        return self.selection.measures if isinstance(self.selection, RoundsSelection) else {}

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
        return self.result_types(())

    @property
    def value_columns(self) -> list[str]:
        """One column of the result for each measure in bins, in the type of its values."""
        measures = self.asked.measures.items()
        return [f"{name}{m.columns[0]}" for name, m in measures if m.is_binned]

    def split_types(self, types: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Types of levels, and behind them types of columns of values in bins, apart; () if types
        are not known."""
        several = len(self.value_columns)
        return (types[: len(types) - several], types[len(types) - several :]) if types else ((), ())

    def result_types(self, read: Sequence[str]) -> dict[str, str]:
        """As ``types``; ``read`` are the types of columns whose quantiles are asked for, one a
        measure in bins, if they are known."""
        given = iter(read)
        return cell_columns(self.hierarchy) | {
            f"{name}{end}": kind
            for name, measure in self.asked.measures.items()
            for end, kind in _column_types(measure, next(given, "") if measure.is_binned else "")
        }

    @property
    def vectors(self) -> tuple[Vector, ...]:
        """The vectors of all measures with known bounds, which are measured on the parts."""
        return tuple(paid.vector for several in self.paid.values() for paid in several)

    def epsilon_of(self, name: str) -> Fraction:
        """The epsilon of a measure. For a mean, without the epsilon of the sums read from it; 0 for
        what is measured along with rounds, whose epsilon is that of the selection."""
        if name in self.along:
            return Fraction(0)
        for one in (self.counts, self.searching, self.binned):
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
        """The delta of the selection, of all counts of different values, and of Gaussian noise."""
        own = 0.0 if self.selection is None else self.selection.delta_spent
        own += sum(law.delta for law in self.table_laws.values())
        return own + sum(count.delta for count in self.counts.values())

    def curve(self, epsilons: Sequence[float]) -> Iterable[tuple[float, float]]:
        """The curve of the selection, of every measure and of every search together."""
        step = self.budget.epsilon * STEP
        losses = [(losses_of_profile(profile, step), 1) for profile in self._profiles()]
        losses += [_distinct_losses(count, step) for count in self.counts.values()]
        losses += [
            (losses_of(t, step), n) for one in self.table_laws.values() for n, t in one.times
        ]
        return parts_curve(losses, epsilons)

    def _profiles(self) -> Iterator[Profile]:
        """Curves of the selection, every search, and every group of vectors that move together.

        Each curve holds whatever the other draws answer. Which levels are measured besides the
        parts follows from what is shown, so a vector has one curve for all its levels.
        """
        if self.selection is not None:
            yield self.selection.profile
        for name, several in self.paid.items():
            if name in self.table_laws:
                continue
            at = 0
            while at < len(several):
                yield _pure_curve(several[at].epsilon)
                at += several[at].together
        for searching in self.searching.values():
            yield from (_pure_curve(searching.each) for _ in searching.searches)
            yield _pure_curve(searching.rest)
        for binned in self.binned.values():
            yield from map(_pure_curve, filter(None, (binned.size_epsilon, *binned.epsilons)))

    @property
    def _along_errors(self) -> dict[str, float]:
        chosen = self.selection
        return chosen.sum_errors(self.confidence) if isinstance(chosen, RoundsSelection) else {}

    @cached_property
    def errors(self) -> dict[str, float]:
        """By measure, the half width of one node's interval, in the measure's unit.

        For measures that add up it is the largest of listed nodes, on levels that count if the
        caller said which; else the largest that the part of a node can have, whichever levels are
        measured besides. For a mean it is that of ``MANY`` values at a bound. For values in bins it
        is the half width of a rank, as a part of ``MANY`` values. Measures with searched bounds
        have no entry.
        """
        found = {name: float(self.half_width(name)) for name in self.counts} | self._along_errors
        found |= {name: _rank_error(one, self.confidence) for name, one in self.binned.items()}
        return found | {name: self._planned_error(name) for name in self.paid}

    def _planned_error(self, name: str) -> float:
        if name in self.table_laws:
            return self._gaussian_error(self.table_laws[name])
        first = self.paid[self.read[name].of if name in self.read else name][0]
        vector, scale = first.vector, rounded_up(first.vector.most / first.epsilon)
        variance, largest = self._planned_variances
        variance = variance * (float(scale) * (1 + 2 / FINE)) ** 2  # scales are rounded up
        if self.asked.measures[name].kind == "mean":
            sd = math.sqrt(variance.max()) * vector.bounds.step / MANY
            return deviation_factor(self.confidence) * sd
        half = int(whole_half_width(variance, self.confidence, largest).max())
        return half * vector.bounds.step if vector.column else half / vector.unit

    @cached_property
    def _planned_variances(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Variances, and largest shares of one draw in them, of what ``errors`` are of, where noise
        on parts alone would have scale 1."""
        listed, importance = self.listed_keys, self.asked.level_importance
        if self.marginals is not None:
            weights = np.array([float(one) ** 2 for one in self.marginals.weights]) / 2
            return self.marginals.variances(weights), self.marginals.largest_shares(weights)
        if listed is None:
            least = float(strategy.LEAST_IMPORTANT_PARTS if importance else strategy.LEAST_PARTS)
            return np.array([2.0 if self.hierarchy.has_cells else 2 / least**2]), np.ones(1)
        variance, largest = strategy_variances(listed, self.listed_strategy)
        return variance[self.counting_nodes], largest[self.counting_nodes]

    @cached_property
    def counting_nodes(self) -> NDArray[np.bool_]:
        """The listed nodes on levels that count."""
        assert self.listed_keys is not None
        level, importance = self.listed_keys.level, self.asked.level_importance
        if not importance or importance == "even":
            return np.ones(len(level), dtype=np.bool_)
        counts: NDArray[np.bool_] = np.array(importance)[level] > 0
        return counts | (not counts.any())

    @property
    def listed_own(self) -> str:
        """What planned errors of listed nodes are of, in words."""
        return "a listed node has"

    def _gaussian_error(self, laws: TableLaws) -> float:
        """The largest half width of a listed cell."""
        assert self.marginals is not None
        sds = {at: law.sd for at, law in laws.tables.items()}
        told = [sds[at] ** -2 if at in sds else 0.0 for at in level_keys(self.marginals)]
        return deviation_factor(self.confidence) * math.sqrt(self.marginals.variances(told).max())

    @property
    def rank_errors(self) -> tuple[str, ...]:
        """The measures whose errors are of the rank of a quantile."""
        return tuple(self.binned)

    def half_width(self, name: str) -> int:
        """The half width of the intervals of a count of different values."""
        return half_width(self.counts[name].noise, 1, self.confidence)


def _rank_error(law: BinLaw, confidence: float) -> float:
    """The half width of the rank of a quantile among ``MANY`` values, in parts of these."""
    return deviation_factor(confidence) * law.deviation / MANY


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


PAPER = (
    "Biswas, Cormode, Kanza, Srivastava, Zhou (2024), Algorithm 1, corrected; discrete Laplace "
    "noise on the parts of the selection"
)


def rollup_facts(plan: RollupNumbers) -> dict[str, Any]:
    """The facts of the receipt on selection and measures; no fact depends on the data."""
    selection = plan.selection
    return {
        **({"segments": True} if plan.hierarchy.has_cells and not plan.whole_cells else {}),
        **({"adds_up": False} if plan.whole_cells else {}),
        "threshold": None if selection is None else selection.threshold,
        "selection": selection
        and {"epsilon": selection.budget.epsilon, "measure": plan.asked.heavy},
        "remainder": True,
        "keys": None if plan.asked.listed is None else plan.asked.listed.name,
        **plan.asked.importance,
        **({} if plan.listed_cells is None else {"listed": list(plan.listed_cells.sizes)}),
        "measures": {name: _measure_facts(plan, name) for name in plan.asked.measures},
    }


def noise_facts(plan: RollupNumbers, noisy: NoisyRollup, facts: Receipt) -> dict[str, Any]:
    """The facts on measures, with the noise of each measure, so that intervals of any confidence
    follow from the receipt.

    These facts are public: scales follow from parameters, found bounds and the shown nodes.
    """
    noise: dict[str, list[dict[str, Any]]] = {
        name: [_noise_scale_facts(one) for one in several if one.vector is not None]
        for name, several in noisy.measures.items()
    }
    noise |= {name: [_distinct_law_facts(one)] for name, one in plan.counts.items()}
    noise |= {name: [_table_facts(one)] for name, one in plan.table_laws.items()}
    noise |= {name: _bin_noise_facts(one) for name, one in noisy.binned.items()}
    if isinstance(plan.selection, RoundsSelection):
        assert noisy.found is not None
        noise |= plan.selection.found_facts(noisy.found)
    return {name: {**known, "noise": noise[name]} for name, known in facts["measures"].items()}


def _bin_noise_facts(estimate: BinEstimate) -> list[dict[str, Any]]:
    drawn = zip(BIN_DRAWS[1:], estimate.scales, strict=False)
    same = {"unit": estimate.node.unit, "decimals": None}
    return [{"of": of, **same, "scales": _scale_facts({PARTS: scale})} for of, scale in drawn]


def _scale_facts(scales: Mapping[int, Fraction]) -> dict[str, float | int]:
    return {"parts" if at == PARTS else str(at): _exact_scale(scales[at]) for at in scales}


def _distinct_law_facts(counts: DistinctLaw) -> dict[str, Any]:
    law = law_facts(counts.noise, 1)
    return {"of": "distinct", "unit": 1, "decimals": None, "law": law}


def _noise_scale_facts(estimate: Estimate) -> dict[str, Any]:
    """The scales of the discrete Laplace noise in one vector, in its units, on parts and levels."""
    vector = estimate.vector
    assert vector is not None
    of_values = vector.kind in ("sum", "above", "below")
    return {
        "of": vector.kind,
        "unit": vector.unit,
        "decimals": vector.bounds.decimals if of_values else None,
        "scales": _scale_facts(estimate.scales),
        **(BY_VALUE if vector.kind in ("above", "below") else {}),
    }


def _table_facts(laws: TableLaws) -> dict[str, Any]:
    """The tables of a count of listed cells, by level."""
    told = {
        "parts" if at == PARTS else str(at): law_facts(table, 1)
        for at, table in laws.tables.items()
    }
    return {"of": "rows", "unit": 1, "decimals": None, "laws": told}


def _exact_scale(scale: Fraction) -> float | int:
    """The scale of the draw: an int if it is whole and above 2^53, where doubles round; else a
    float."""
    return int(scale) if scale.denominator == 1 and scale > 2**53 else float(scale)


def released_bounds(plan: RollupNumbers, noisy: NoisyRollup) -> dict[str, tuple[float, float]]:
    """The bounds that a search found, by measure."""
    found = {}
    for name in plan.searching:
        vector = noisy.measures[name][0].vector
        assert vector is not None
        found[name] = (vector.bounds.lower, vector.bounds.upper)
    return found


def _bin_facts(measure: Measure) -> dict[str, Any]:
    """The quantiles and the edges of bins of a measure; empty for others."""
    if not measure.is_binned:
        return {}
    return {"at": list(measure.at), "edges": list(measure.bins.edges), "value": measure.value}


def _measure_facts(plan: RollupNumbers, name: str) -> dict[str, Any]:
    measure = plan.asked.measures[name]
    return {
        "spec": measure.spec,
        "epsilon": None if name in plan.along else float(plan.epsilon_of(name)),
        "lower": measure.lower,
        "upper": measure.upper,
        **_bin_facts(measure),
        **({"adds_up": False} if name in plan.along or measure.each != "row" else {}),
    }
