"""What a rollup of measures will do and cost. Sees no data.

The budget is divided: one part selects nodes, as heavy hitters do; the others measure on the parts
of what was selected, or of what is listed. Epsilons and deltas add up (adaptive composition); delta
is for the selection, and half of it for different values where that makes less noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np

from dpframe._forking import no_fork
from dpframe.accounting.compose import Profile, whole_profile
from dpframe.accounting.parts import STEP, together
from dpframe.asking.card import Line, hierarchy_line
from dpframe.asking.level_plan import LevelPlan
from dpframe.asking.proofs import Game
from dpframe.asking.receipt import Receipt
from dpframe.budget import Budget
from dpframe.errors import BudgetError, advising
from dpframe.hierarchy import Cells
from dpframe.measures import Measure
from dpframe.mechanisms import rollup
from dpframe.mechanisms.measured_parts import rounded_up
from dpframe.mechanisms.node_counts import NodeCounts, node_counts
from dpframe.mechanisms.rollup import Paid, Read, Searching
from dpframe.postprocess.intervals import half_width
from dpframe.postprocess.weighted_laplace import deviation_factor, whole_half_width
from dpframe.questions.hhh.checks import Asked as Selecting
from dpframe.questions.hhh.offline import OfflinePlan, offline_plan
from dpframe.questions.rollup.base import Asked
from dpframe.questions.rollup.curve import parts
from dpframe.questions.rollup.game import rollup_game
from dpframe.questions.rollup.limits import check_least, check_scales
from dpframe.questions.rollup.lines import MANY, OF_NODES, Words, lines, measured_line
from dpframe.questions.rollup.receipt import bounds_found, noise_told, rollup_receipt
from dpframe.questions.rollup.sharing import drawn_and_read
from dpframe.tree import ListedNodes
from dpframe.vectors import Vector, distinct_of, searches_of

if TYPE_CHECKING:
    import pandas as pd

SELECTION, OF_USERS = Fraction(4, 25), Fraction(1, 3)
"""Part of epsilon that selects, where keys are not listed: records, and users. Its counts are not
used again, so that everything else pays for it: at four levels 0.16 shows more nodes than even
stability histograms do, with half of their error (tests/benchmarks/rollup_error.py). Users are
fewer than records, so that a higher threshold would hide more."""

SEARCH = Fraction(1, 4)
"""Part of a measure's epsilon for each bound that is searched."""

UNSHOWN = 0.02, 0.1, 0.3
"""``release_share`` of a selection whose counts are not released: as good as nothing, or the first
whose table, which is never drawn from, is not too long."""


@dataclass(frozen=True, kw_only=True)
class RollupPlan(LevelPlan[Asked]):
    """Everything about a rollup except the data and the draw.

    ``paid`` are the vectors that each measure that adds up draws, with their epsilons, ``read`` the
    sums that are read from those of a mean, which are paid for there; ``searching`` are
    measures whose bounds are found first, and ``counts`` those of different values, which do not
    add up.
    """

    selection: OfflinePlan | None
    paid: Mapping[str, tuple[Paid, ...]]
    read: Mapping[str, Read]
    searching: Mapping[str, Searching]
    counts: Mapping[str, NodeCounts]

    words: ClassVar[Words] = OF_NODES

    @property
    def listed(self) -> ListedNodes | None:
        return self.asked.listed

    @property
    def axes(self) -> list[Line]:
        """What the numbers are rolled up by."""
        return [hierarchy_line(self.hierarchy)]

    @property
    def decides(self) -> str:
        """What the selection counts: records, users, or the measure of this name."""
        if self.asked.heavy is not None:
            return self.asked.heavy
        return "records" if self.unit.user is None else "users"

    @property
    def request(self) -> dict[str, object]:
        """The arguments that this plan answers, as plain JSON types; stored in users' ledgers."""
        return self.asked.request

    # -- what follows -------------------------------------------------------------------------

    @property
    def band(self) -> int:
        """Units below which a count can never be selected."""
        return 1 if self.selection is None else self.selection.band

    @property
    def types(self) -> dict[str, str]:
        """The columns of measures in a result, with DuckDB's types."""
        kinds = {"count": "BIGINT", "distinct": "BIGINT"}
        return {
            f"{name}{end}": "BIGINT" if "_clipped" in end else kinds.get(measure.kind, "DOUBLE")
            for name, measure in self.asked.measures.items()
            for end in measure.columns
        }

    @property
    def vectors(self) -> tuple[Vector, ...]:
        """What is measured on the parts."""
        return tuple(paid.vector for several in self.paid.values() for paid in several)

    def epsilon_of(self, name: str) -> Fraction:
        """What a measure costs; a mean without what sums that are read from it add."""
        for one in (self.counts, self.searching):
            if name in one:
                return one[name].epsilon
        own = self.read[name].epsilon if name in self.read else Fraction(0)
        others = sum((r.epsilon for r in self.read.values() if r.of == name), Fraction(0))
        return sum((p.cost for p in self.paid[name]), own - others)

    @property
    def epsilon_spent(self) -> Fraction:
        """All epsilons, added up exactly; at most that of the budget."""
        own = Fraction(0) if self.selection is None else Fraction(self.selection.budget.epsilon)
        return sum((self.epsilon_of(name) for name in self.asked.measures), own)

    @property
    def delta_spent(self) -> float:
        """That of the selection, and of different values."""
        own = 0.0 if self.selection is None else self.selection.delta_spent
        return own + sum(count.delta for count in self.counts.values())

    @cached_property
    def profile(self) -> Profile:
        """That of the selection, of every measure and of every search as parts."""
        losses = parts(self, self.budget.epsilon * STEP)
        return whole_profile(self.budget, 1, lambda epsilons: together(losses, epsilons))

    @cached_property
    def errors(self) -> dict[str, float]:
        """Half widths of the intervals of what one node has of its own, in the measure's unit,
        where nothing above it is measured; a mean is one of ``MANY`` values, and at a bound. None
        for measures whose bounds are searched.
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
        """Of the intervals of a number of different values."""
        return half_width(self.counts[name].noise, 1, self.confidence)

    @cached_property
    def game(self) -> Game:
        """What it draws, for a verifier."""
        return rollup_game(self)

    def run(self, counted: rollup.Countable, /) -> rollup.NoisyRollup:
        """The only noisy step: the selection, then every measure on its parts."""
        return rollup.run(
            counted,
            selection=None
            if self.selection is None
            else rollup.Selection(
                test=self.selection.test_noise, threshold=self.selection.threshold_units
            ),
            paid=self.paid,
            read=self.read,
            searching=self.searching,
            counts=self.counts,
            by_user=self.unit.user is not None,
        )

    def lines(self) -> list[Line]:
        """What is known before the data are read."""
        return lines(self)

    def receipt(self, name: str | None = None) -> Receipt:
        """The receipt of a release of this plan."""
        return rollup_receipt(self, name)

    def frame(self, noisy: rollup.NoisyRollup, types: tuple[str, ...] = (), /) -> pd.DataFrame:
        """Reported nodes with their measures, in natural order."""
        with no_fork():
            from dpframe.questions.rollup.frame import rollup_frame  # loads pandas

        return rollup_frame(noisy, self, types)

    def answered(
        self, facts: Receipt, noisy: rollup.NoisyRollup, frame: pd.DataFrame, /
    ) -> Receipt:
        """The receipt with the bounds that were found, the noise of measures, and notices."""
        with no_fork():
            from dpframe.questions.rollup.notices import notices  # loads pandas

        said = facts.with_bounds(bounds_found(self, noisy))
        said = said.and_told({"measures": noise_told(self, noisy, said)}, [])
        if noisy.weights:
            weights = {str(at): float(weight) for at, weight in noisy.weights.items() if at >= 0}
            told = [] if self.listed is not None else [measured_line(noisy.weights)]
            said = said.and_told({"levels_measured": weights}, told)
        return said.with_notices(notices(self, noisy, frame))


P = TypeVar("P", bound=RollupPlan)


def make_rollup_plan(asked: Asked, kind: type[P]) -> P:
    """Divide the budget, and choose the noise. Pure: no data, no randomness."""
    epsilon, delta = Fraction(asked.budget.epsilon), asked.budget.delta
    if asked.listed is None:
        share = asked.selection_share
        default = SELECTION if asked.unit.user is None else OF_USERS
        epsilon *= 1 - (default if share is None else Fraction(share))
    total = sum((Fraction(m.share) for m in asked.measures.values()), Fraction(0))
    each = {name: epsilon * Fraction(m.share) / total for name, m in asked.measures.items()}
    check_least(each, asked)
    counts = _node_counts(asked, each, delta)
    spent = sum(count.delta for count in counts.values())
    by_user, selection = asked.unit.user is not None, None
    if asked.listed is None:
        selection = _selection(asked, Fraction(asked.budget.epsilon) - epsilon, delta - spent)
    others = {n: m for n, m in asked.measures.items() if n not in counts}
    known = {name: measure for name, measure in others.items() if not measure.searched}
    paid, read = drawn_and_read(known, each, by_user=by_user)
    searching = {
        name: _searching(measure, each[name], by_user)
        for name, measure in others.items()
        if measure.searched
    }
    check_scales(paid, searching, counts)
    return kind(
        asked=asked,
        selection=selection,
        paid=paid,
        read=read,
        searching=searching,
        counts=counts,
    )


def _searching(measure: Measure, epsilon: Fraction, by_user: bool) -> Searching:
    searches = searches_of(measure)
    return Searching(
        measure=measure,
        searches=searches,
        by_user=by_user,
        each=SEARCH * epsilon,
        rest=epsilon - SEARCH * epsilon * len(searches),
    )


def _node_counts(asked: Asked, each: Mapping[str, Fraction], delta: float) -> dict[str, NodeCounts]:
    """Different values, with half of delta between them where that makes less noise."""
    user = asked.unit.user
    height = None if isinstance(asked.hierarchy, Cells) else asked.hierarchy.height
    wanted = {n: distinct_of(m, user=user, height=height) for n, m in asked.measures.items()}
    found = {name: distinct for name, distinct in wanted.items() if distinct is not None}
    part = delta / 2 / max(1, len(found)) * (1 - 1e-9)
    return {
        name: node_counts(distinct, epsilon=each[name], delta=part)
        for name, distinct in found.items()
    }


def _selection(asked: Asked, epsilon: Fraction, delta: float) -> OfflinePlan:
    own = float(epsilon)
    while Fraction(own) > epsilon:
        own = math.nextafter(own, 0.0)
    with advising("raise selection_share", given=asked.selection_share is not None):
        for share in UNSHOWN[:-1]:
            with suppress(BudgetError):
                return offline_plan(_selecting(asked, own, delta, share))
        return offline_plan(_selecting(asked, own, delta, UNSHOWN[-1]))


def _selecting(asked: Asked, epsilon: float, delta: float, share: float) -> Selecting:
    return Selecting(
        hierarchy=asked.hierarchy,
        unit=asked.selecting,
        budget=Budget(epsilon=epsilon, delta=delta),
        threshold=asked.threshold,
        remainder=False,
        release_share=share,
        confidence=asked.confidence,
        part_of=asked.budget.epsilon,
    )
