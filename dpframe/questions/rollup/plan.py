"""What a rollup of measures will do and cost. Sees no data.

The budget is divided. One share selects nodes, as heavy hitters do; the other shares measure on the
parts of the selected or listed nodes. Epsilons and deltas add up (adaptive composition). Delta pays
for the selection; up to half of delta pays for counts of different values, where these have less
noise with delta.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpframe.asking.call_arguments import add_advice
from dpframe.asking.card import DrawList, Line, Text, hierarchy_lines
from dpframe.asking.level_plan import cell_facts
from dpframe.asking.privacy_receipt import Receipt, Sight
from dpframe.budget import Budget, ItemsUnit
from dpframe.counts import ListedCells
from dpframe.errors import BudgetError, ParameterError
from dpframe.measures.bins import WHOLE_DIGITS, spoken_value
from dpframe.measures.measure import Measure, bin_vectors_of, distinct_of, searches_of
from dpframe.mechanisms import marginals, rollup
from dpframe.mechanisms.marginals import TableLaws
from dpframe.mechanisms.rollup import (
    BinLaw,
    BoundSearch,
    DistinctLaw,
    VectorCharge,
    node_counts,
)
from dpframe.postprocess.strategy import PARTS, Marginals
from dpframe.questions.hhh.checks import HhhArguments as Selecting
from dpframe.questions.hhh.checks import shares_line
from dpframe.questions.hhh.selection import Selection, choose_selection
from dpframe.questions.rollup.rollup_numbers import (
    MANY,
    PAPER,
    RollupNumbers,
    RollupRequest,
    draws_and_reads,
    noise_facts,
    released_bounds,
    rollup_draws,
    rollup_facts,
)
from dpframe.questions.rollup.rounds import (
    SELECTION_SHARE,
    RoundsSelection,
    by_rounds,
    choose_rounds,
)

if TYPE_CHECKING:
    import pandas as pd

RECORD_SELECTION_SHARE, USER_SELECTION_SHARE = Fraction(4, 25), Fraction(1, 3)
"""Part of epsilon for the selection of unlisted keys: by records, and by users. The counts of the
selection are not used again, so that this part is lost to the measures. At four levels 0.16 shows
more nodes than stability histograms that divide epsilon evenly over levels, with half their error
(tests/benchmarks/rollup_error.py). Users are fewer than records, so that a higher threshold would
hide more."""

SEARCH_SHARE = Fraction(1, 4)
"""Part of a measure's epsilon for each bound that is searched."""

UNRELEASED_SHARES = 0.02, 0.1, 0.3
"""Values of ``release_share`` to try for a selection whose counts are not released. The smallest
costs next to nothing. The first value is taken whose table of release noise is not too long,
although that table is never drawn from."""

LEAST_MEASURE_EPSILON = 1e-6
"""The smallest epsilon of a measure: with less, noise would hide everything."""

LARGEST_SCALE = 2**54
"""The largest scale of noise, if only parts are measured: a draw beyond 64 bits, which would be an
error, then has a chance below 1e-200."""


@dataclass(frozen=True, kw_only=True)
class RollupPlan(RollupNumbers):
    """Everything about a rollup except the data and the draw."""

    question: ClassVar[str | None] = "rollup"
    paper = PAPER

    @property
    def intervals(self) -> str:
        """What the intervals of the release mean; nothing is cut of values in bins."""
        cut = not all(measure.is_binned for measure in self.asked.measures.values())
        return (
            f"lower and upper hold the true value{' as bounds cut it' * cut}, with the stated "
            "confidence, given what is shown"
        )

    @cached_property
    def draws(self) -> DrawList:
        """The selection, then every measure on the selected or listed nodes."""
        return rollup_draws(self)

    @property
    def sight(self) -> Sight | None:
        if self.selection is None:
            return None
        node = "cell" if self.hierarchy.has_cells else "node"
        sight = self.selection.sight(self.budget.epsilon, node=node)
        whole = self.hierarchy.kind == "columns"
        sight = replace(sight, levels=self.hierarchy.level_names, is_complete=whole)
        heavy = self.asked.heavy
        return sight if heavy is None else replace(sight, counted=f"of {heavy}")

    @property
    def noise(self) -> dict[str, Any] | None:
        """The law of the tests; None where keys are listed."""
        return self.draws.noise.get("test")

    @property
    def facts(self) -> dict[str, object]:
        return {**super().facts, **rollup_facts(self), **cell_facts(self.hierarchy)}

    def run(self, counted: rollup.Measurable, /) -> rollup.NoisyRollup:
        """The only noisy step: the selection, then every measure on its parts."""
        if self.listed_cells is not None:
            return marginals.run(
                counted,
                listed=self.listed_cells,
                kinds=self.hierarchy.kind_order,
                paid=self.paid,
                read=self.read,
                searching=self.searching,
                laws=self.table_laws,
            )
        return rollup.run(
            counted,
            kinds=self.hierarchy.kind_order,
            selection=self._drawn_selection(),
            band=self.band,
            paid=self.paid,
            read=self.read,
            searching=self.searching,
            counts=self.counts,
            binned=self.binned,
            by_user=self.unit.user is not None,
            importance=self.asked.level_importance,
        )

    def _drawn_selection(self) -> rollup.Selection | rollup.Rounds | None:
        chosen = self.selection
        if chosen is None:
            return None
        if isinstance(chosen, RoundsSelection):
            sums = tuple(chosen.sums.values())
            return rollup.Rounds(laws=chosen.laws, sums=sums, parts=chosen.parts)
        return rollup.Selection(test=chosen.test_noise, threshold=chosen.threshold_units)

    def lines(self) -> list[Line]:
        """The card lines, all known before the data are read."""
        return rollup_lines(self)

    def frame(self, noisy: rollup.NoisyRollup, types: tuple[str, ...] = (), /) -> pd.DataFrame:
        """Reported nodes with their measures, in natural order."""

        from dpframe.questions.rollup.frame import rollup_frame  # loads pandas

        return rollup_frame(noisy, self, types)

    def finish_receipt(
        self, facts: Receipt, noisy: rollup.NoisyRollup, frame: pd.DataFrame, /
    ) -> Receipt:
        """The receipt with the found bounds, the noise of each measure, and notices."""
        from dpframe.questions.rollup.frame import rollup_notices, unseen_measures  # loads pandas

        chosen = self.selection
        if isinstance(chosen, RoundsSelection) and noisy.found is not None:
            unit = chosen.known_unit(noisy.found)
            told = {"counts": unit.counts, "at_most": unit.at_most}
            facts = facts.with_release_facts(told, chosen.found_lines(noisy.found, self.confidence))
        facts = facts.with_bounds(released_bounds(self, noisy))
        facts = facts.with_release_facts({"measures": noise_facts(self, noisy, facts)}, [])
        if noisy.weights:
            weights = {str(at): float(weight) for at, weight in noisy.weights.items() if at >= 0}
            lines = [] if self.asked.listed is not None else [measured_line(noisy.weights)]
            facts = facts.with_release_facts({"levels_measured": weights}, lines)
        if (sight := self.sight) is not None:
            nodes = int(np.count_nonzero(frame["level"].to_numpy()))
            facts = facts.with_not_shown(sight, nodes, unseen_measures(self, frame))
        return facts.with_notices(rollup_notices(self, noisy, frame))


def make_rollup_plan(asked: RollupRequest) -> RollupPlan:
    """Divide the budget, and choose the noise. Pure: no data, no randomness."""
    epsilon, delta = Fraction(asked.budget.epsilon), asked.budget.delta
    if asked.listed is None:
        share = asked.selection_share
        default = RECORD_SELECTION_SHARE if asked.unit.user is None else USER_SELECTION_SHARE
        default = SELECTION_SHARE if asked.by_rounds else default
        epsilon *= 1 - (default if share is None else Fraction(share))
    total = sum((Fraction(m.share) for m in asked.measures.values()), Fraction(0))
    each = {name: epsilon * Fraction(m.share) / total for name, m in asked.measures.items()}
    _check_measure_epsilons(each, asked)
    counts = _distinct_counts(asked, each, delta)
    by_user = asked.unit.user is not None
    height = 0 if asked.hierarchy.has_cells else asked.hierarchy.height
    in_bins = {
        name: one
        for name, measure in asked.measures.items()
        if (one := bin_vectors_of(measure, by_user=by_user, height=height)) is not None
    }
    spent = sum(count.delta for count in counts.values())
    selection: Selection | RoundsSelection | None = None
    along = {n: m for n, m in asked.measures.items() if asked.by_rounds and by_rounds(m)}
    if isinstance(asked.unit, ItemsUnit):
        measured = sum((each[name] for name in along), Fraction(0))
        own = Fraction(asked.budget.epsilon) - epsilon + measured
        selection = choose_rounds(
            unit=asked.unit,
            epsilon=own,
            delta=delta - spent,
            hierarchy=asked.hierarchy,
            measures=along,
            release_share=measured / own,
            given=asked.selection_share is not None,
        )
    elif asked.listed is None:
        selection = _choose_selection(
            asked, Fraction(asked.budget.epsilon) - epsilon, delta - spent
        )
    apart = {*counts, *along, *in_bins}
    others = {name: m for name, m in asked.measures.items() if name not in apart}
    known = {name: measure for name, measure in others.items() if not measure.needs_search}
    paid, read = draws_and_reads(known, each, by_user=by_user)
    searching = {
        name: _bounds_search(measure, each[name], by_user)
        for name, measure in others.items()
        if measure.needs_search
    }
    beside = _count_beside(paid, "users" if by_user else "rows")
    binned = {
        name: BinLaw(vectors=one, epsilon=each[name], at=asked.measures[name].at, beside=beside)
        for name, one in in_bins.items()
    }
    _check_scales(paid, searching, counts, binned)
    if asked.level_importance and not (paid or searching):
        raise ParameterError(
            "level_importance divides the epsilon of measures that add up, and none is asked for. "
            "Leave it out."
        )
    table_laws: dict[str, TableLaws] = {}
    if isinstance(asked.listed, ListedCells):
        counted = {} if by_user else paid
        kinds = asked.hierarchy.kind_order
        table_laws = marginals.laws_of_counts(asked.listed, kinds, counted, delta)
        if not table_laws:  # no delta is needed
            asked = replace(asked, budget=Budget(epsilon=asked.budget.epsilon, delta=0.0))
    return RollupPlan(
        table_laws=table_laws,
        asked=asked,
        selection=selection,
        paid=paid,
        read=read,
        searching=searching,
        counts=counts,
        binned=binned,
    )


def _count_beside(paid: Mapping[str, tuple[VectorCharge, ...]], kind: str) -> str | None:
    """The name of a measure that counts each record, or each user as 1; None without one."""
    counts = (name for name, several in paid.items() if several and several[0].vector.kind == kind)
    return next(counts, None)


def _check_measure_epsilons(each: Mapping[str, Fraction], asked: RollupRequest) -> None:
    """Raise BudgetError for a measure with too small an epsilon: noise would hide the measure."""
    for name, own in each.items():
        if own < Fraction(LEAST_MEASURE_EPSILON):
            raise BudgetError(
                f"measure {name!r} would get epsilon {float(own):.2g} of "
                f"{asked.budget.epsilon:g}. Ask for fewer measures, raise its share=, or raise "
                "epsilon."
            )


def _check_scales(
    paid: Mapping[str, tuple[VectorCharge, ...]],
    searching: Mapping[str, BoundSearch],
    counts: Mapping[str, DistinctLaw],
    binned: Mapping[str, BinLaw],
) -> None:
    """Raise BudgetError for noise beyond 64 bits."""
    vectors = {name: [p.vector.most / p.epsilon for p in each] for name, each in paid.items()}
    scales = {name: max(several) for name, several in vectors.items() if several}
    scales |= {name: 2 * 10**WHOLE_DIGITS / one.rest for name, one in searching.items()}
    scales |= {name: count.distinct.touched / count.epsilon for name, count in counts.items()}
    scales |= {
        name: 1_000 * one.vectors.most / min(one.epsilons) for name, one in binned.items()
    }  # a level gets at least a thousandth
    for name, scale in scales.items():
        if scale > LARGEST_SCALE:
            raise BudgetError(
                f"measure {name!r} would get noise beyond 64 bits. Raise epsilon or its share=, "
                "or lower at_most or the bounds."
            )


def _bounds_search(measure: Measure, epsilon: Fraction, by_user: bool) -> BoundSearch:
    searches = searches_of(measure)
    return BoundSearch(
        measure=measure,
        searches=searches,
        by_user=by_user,
        each=SEARCH_SHARE * epsilon,
        rest=epsilon - SEARCH_SHARE * epsilon * len(searches),
    )


def _distinct_counts(
    asked: RollupRequest, each: Mapping[str, Fraction], delta: float
) -> dict[str, DistinctLaw]:
    """The laws of counts of different values. Half of delta is divided over these counts; each uses
    its part only if that makes less noise."""
    user = asked.unit.user
    height = None if asked.hierarchy.has_cells else asked.hierarchy.height
    wanted = {n: distinct_of(m, user=user, height=height) for n, m in asked.measures.items()}
    found = {name: distinct for name, distinct in wanted.items() if distinct is not None}
    part = delta / 2 / max(1, len(found)) * (1 - 1e-9)
    return {
        name: node_counts(distinct, epsilon=each[name], delta=part)
        for name, distinct in found.items()
    }


def _choose_selection(asked: RollupRequest, epsilon: Fraction, delta: float) -> Selection:
    own = float(epsilon)
    while Fraction(own) > epsilon:
        own = math.nextafter(own, 0.0)
    with add_advice("raise selection_share", given=asked.selection_share is not None):
        for share in UNRELEASED_SHARES[:-1]:
            with suppress(BudgetError):
                return _select(asked, own, delta, share)
        return _select(asked, own, delta, UNRELEASED_SHARES[-1])


def _select(asked: RollupRequest, epsilon: float, delta: float, share: float) -> Selection:
    selecting = Selecting(
        hierarchy=asked.hierarchy,
        unit=asked.selection_unit,
        budget=Budget(epsilon=epsilon, delta=delta),
        threshold=asked.threshold,
        remainder=False,
        release_share=share,
        confidence=asked.confidence,
        part_of=asked.budget.epsilon,
    )
    return choose_selection(selecting, released=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RollupWords:
    """The words of card lines for what is shown: nodes of one hierarchy, or cells of several."""

    mechanism: str
    nodes: str
    threshold: str
    everywhere: str
    own: str
    pairs: str


NODE_WORDS = RollupWords(
    mechanism="measures what each shown node has of its own: outside of shown nodes below it; the "
    "number of a node adds up its own and theirs",
    nodes="nodes",
    threshold="that a node needs of its own; nodes above a shown one are shown, too",
    everywhere="at every node",
    own="one node has of its own",
    pairs="pairs of a node and a value for each user and level",
)


ROUNDS_WORDS = replace(
    NODE_WORDS,
    mechanism="nodes found by rounds of weights; users and sums at every shown node, other "
    "measures on what each shown node has of its own",
    threshold="that a node needs to be found, up to noise; nodes above it are shown, too",
)


CELL_WORDS = RollupWords(
    mechanism="measures on the segment of each shown cell: what no cell asked before it has",
    nodes="cells",
    threshold="that a cell needs in its own segment to be shown",
    everywhere="in every segment",
    own="one segment has",
    pairs="pairs of a segment and a value for each user",
)


LISTED_WORDS = replace(
    CELL_WORDS,
    mechanism="measures kinds of cells, each with its own noise; then all are made to add up",
    own="a cell of any kind has, at most",
)


def rollup_lines(plan: RollupNumbers) -> list[Line]:
    """The lines of the plan and of the card, all known before the data are read."""
    words = CELL_WORDS if plan.hierarchy.has_cells else NODE_WORDS
    words = LISTED_WORDS if plan.listed_cells is not None else words
    if plan.asked.by_rounds:
        words = ROUNDS_WORDS
    return [
        plan.guarantee_line,
        Line("mechanism", "rollup", words.mechanism),
        *hierarchy_lines(
            plan.hierarchy,
            adds_up=not plan.whole_cells,
            whole=plan.listed_cells is not None,
        ),
        *([shares_line(why)] if plan.asked.usual and (why := plan.asked.why_shares) else []),
        *_selection_lines(plan, words),
        *_level_lines(plan),
        *(
            line
            for name in plan.asked.measures
            for line in _rollup_measure_lines(plan, name, words)
        ),
        plan.delta_line,
    ]


def _selection_lines(plan: RollupNumbers, words: RollupWords) -> list[Line]:
    selection = plan.selection
    if plan.listed_cells is not None:
        values = " x ".join(f"{n:,}" for n in plan.listed_cells.sizes)
        meaning = (
            "listed values; every cell of them is shown, and a record with another value is in no "
            "row"
        )
        return [Line("keys", values, meaning)]
    if selection is None:
        return [
            Line(
                "keys",
                "listed",
                "every listed node is shown, whatever is below it, so that delta is 0",
            )
        ]
    what = plan.decides
    share = selection.budget.epsilon / plan.budget.epsilon
    return [
        Line.of(
            "selection",
            selection.budget.epsilon,
            "epsilon that decides which {nodes} are shown{along}: {share:.2g} of the whole",
            nodes=words.nodes,
            along=f", and measures {' and '.join(plan.along)}" if plan.along else "",
            share=share,
        ),
        Line.of(
            "threshold",
            selection.threshold,
            "{counted} {threshold}",
            counted=what,
            threshold=words.threshold,
        ),
        *plan.draws.lines,
    ]


def _level_lines(plan: RollupNumbers) -> list[Line]:
    """The lines on how important and which levels are measured; if nodes are not listed, on when
    that is decided. No line for cells, or if no measure adds up."""
    if not (plan.paid or plan.searching):
        return []
    if plan.marginals is not None:
        return _kind_lines(plan, plan.marginals)
    if plan.hierarchy.has_cells:
        return []  # each segment of cells is measured, and nothing above it
    said = plan.asked.written_importance
    lines = [Line("level_importance", said, "how much squared errors count")] * bool(said)
    if plan.listed_keys is not None:
        return [*lines, measured_line(plan.listed_strategy)]
    told = "by what is shown: what each node has of its own, and upper levels where that pays"
    return [*lines, Line("measured", "decided when nodes are shown", told)]


def _kind_lines(plan: RollupNumbers, shown: Marginals) -> list[Line]:
    """The lines on the kinds of listed cells that get noise."""
    names = [*reversed(plan.hierarchy.level_names), "everything"]
    pairs = zip(names, shown.weights, strict=True)
    parts = [f"{float(weight):.3g} on {name}" for name, weight in pairs if weight]
    told = [
        Line(
            "measured",
            ", ".join(parts),
            "parts of the epsilon of each measure; least squares make numbers agree, and tell the "
            "other kinds",
        )
    ]
    return [
        *(told if set(plan.asked.measures) - set(plan.table_laws) else []),
        *(_table_line(name, laws) for name, laws in plan.table_laws.items()),
    ]


def _table_line(name: str, laws: TableLaws) -> Line:
    """The line on the Gaussian noise of a count of listed cells."""
    sds = sorted(law.sd for law in laws.tables.values())
    return Line.of(
        "noise of {name}",
        Text("discrete Gaussian, sd {least:.4g} to {most:.4g}"),
        "added to each of {kinds} kinds of cells; least squares make numbers agree",
        name=name,
        least=sds[0],
        most=sds[-1],
        kinds=len(sds),
    )


def measured_line(weights: Mapping[int, Fraction]) -> Line:
    """The line that says which levels are measured, and with which part of a measure's epsilon."""
    parts = [f"{float(weights[PARTS]):.3g} on what each node has of its own"]
    parts += [f"{float(w):.3g} on level {at}" for at, w in sorted(weights.items()) if at != PARTS]
    return Line(
        "measured",
        ", ".join(parts),
        "parts of the epsilon of each measure that adds up; least squares make numbers agree",
    )


def _rollup_measure_lines(plan: RollupNumbers, name: str, words: RollupWords) -> list[Line]:
    """The lines on one measure: what it is, what it costs, and its expected error."""
    if isinstance(plan.selection, RoundsSelection) and name in plan.along:
        return plan.selection.lines(name)
    measure = plan.asked.measures[name]
    epsilon = float(plan.epsilon_of(name))
    drawn = f"; read from what {plan.read[name].of} draws for both" if name in plan.read else ""
    said = [
        Line.of(
            "{name}",
            measure.spec,
            "epsilon {epsilon:.4g}; {counts}{drawn}",
            epsilon=epsilon,
            counts=_measure_text(measure, plan, words),
            drawn=drawn,
            name=name,
        )
    ]
    error = plan.errors.get(name)
    if measure.needs_search:
        later = "bounds are found first, privately; the receipt says which"
        said.append(Line.of("error of {name}", "not known yet", later, name=name))
    elif error is not None:
        told: dict[str, object] = {
            "error": error,
            "points": 100 * error,
            "many": MANY,
            "own": words.own if plan.listed_keys is None else plan.listed_own,
        }
        told |= {
            "everywhere": words.everywhere,
            "confidence": f"with confidence {plan.confidence:g}",
        }
        of = "{everywhere}" if name in plan.counts else "of what {own}, at most"
        if measure.kind == "mean":
            of = "over {many} values that {own}, at most"
        elif name not in plan.counts and plan.listed_keys is not None and plan.asked.skips_levels:
            of += ", on levels whose importance is above 0"
        value = Text("+-{error:.4g} {confidence}")
        if measure.is_binned:
            value = Text("+-{points:.3g} points of rank among {many:,} values {confidence}")
            of = (
                "the part of the values below a shown quantile is off by at most this, where {own} "
                "so many; with half as many by twice this"
            )
        said.append(Line.of("error of {name}", value, of, name=name, **told))
    if measure.is_binned:
        said.append(_bins_line(name, measure, plan.binned[name]))
    elif measure.lower is not None:
        ends, cut = _measure_bounds_text(measure), _clipping_text(measure, plan)
        said.append(Line.of("bounds of {name}", ends, cut, name=name))
    return said


def _bins_line(name: str, measure: Measure, law: BinLaw) -> Line:
    low, high = (spoken_value(float(b or 0), measure.value) for b in (measure.lower, measure.upper))
    pooled = ""
    if measure.each == "row":
        pooled = "; a node needs about {fewest:,} values, else they count at the node above only"
    return Line.of(
        "bins of {name}",
        f"{measure.bins.size - 2:,} from {low} to {high}, and one beyond each end",
        "a value is known to within a bin; at_bound marks an interval that reaches beyond an end"
        f"{pooled}",
        name=name,
        fewest=law.fewest,
    )


def _measure_bounds_text(measure: Measure) -> str:
    ends = (measure.lower, measure.upper)
    return " to ".join(
        end if isinstance(end, str) else f"{end:g}" for end in ends if end is not None
    )


def _clipping_text(measure: Measure, plan: RollupNumbers) -> str:
    whose = "one value"
    if plan.unit.user is not None and measure.kind == "sum":
        whose = "everything that one user adds up to"
    return f"for {whose}; what is beyond is cut, and no interval covers that"


def _measure_text(measure: Measure, plan: RollupNumbers, words: RollupWords) -> str:
    """What a measure counts or adds up."""
    by_user = plan.unit.user is not None
    if measure.kind == "count":
        if not by_user:
            return "counts records"
        if measure.at_most is None:
            return "counts users, each weighing 1 in total, divided evenly over their records"
        return f"counts records, at most {measure.at_most} of each user"
    if measure.kind == "distinct":
        of = f", at most {measure.at_most} {words.pairs}"
        return f"different values {words.everywhere}{of if by_user else ''}; they do not add up"
    if measure.kind == "mean":
        each = ", in which every user weighs 1" if by_user else ""
        return f"mean of the values that are not NULL{each}"
    if measure.kind == "sum":
        return "adds up"
    what, weight = "values", ""
    if by_user and measure.each != "row":
        what = f"the {measure.each} of every user at every node"
        weight = ", each user weighing 1 at a level, divided evenly over their nodes there"
    elif by_user:
        weight = ", each user weighing 1 in total, divided evenly over their values"
    return f"{what}, counted in bins{weight}; quantiles and shares follow from these"
