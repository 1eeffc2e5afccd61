"""The base of all plans of heavy hitters, different users at nodes, and the printed algorithm."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np

import dpframe.papers as printed_hhh
from dpframe.accounting.compose import Profile
from dpframe.accounting.tree_levels import NodeLaws, node_laws
from dpframe.asking.card import (
    Draw,
    DrawList,
    Line,
    Text,
    address_notices,
    counts_game,
    hierarchy_lines,
    invalid_notices,
    typical_error_line,
    units_to_worth,
    wide_interval_notices,
    zero_measure_notices,
)
from dpframe.asking.level_plan import LevelPlan, cell_facts, moved_count_lines
from dpframe.asking.privacy_receipt import (
    Receipt,
    Sight,
    empty_result_notices,
    unseen_residual_shares,
)
from dpframe.budget import Budget, PrivacyUnit, as_written, per_record
from dpframe.counts import CountTree, ListedNodes, NoisyNodes
from dpframe.errors import ParameterError
from dpframe.mechanisms import level_counts as user_counts
from dpframe.noise import NoiseTable
from dpframe.papers import PrintedLaws, printed_lower_bound
from dpframe.postprocess.joint_noise import half_width
from dpframe.questions.hhh.checks import HhhArguments, threshold_in_units
from dpframe.questions.hhh.selection import (
    counted_words,
    is_bounded,
    is_divided,
    least_threshold,
    test_and_release_draws,
)

if TYPE_CHECKING:
    import pandas as pd

L = TypeVar("L")
C = TypeVar("C")


@dataclass(frozen=True, kw_only=True)
class HhhPlan(LevelPlan[HhhArguments], Generic[L, C]):
    """Everything about a release of heavy hitters except the data and the draw.

    ``threshold`` is in records or users, or in what ``unit`` measures. The laws are in units of the
    grid: ``unit.grid`` units are worth ``unit.worth``.
    """

    threshold: float
    laws: L

    question: ClassVar[str | None] = "hhh"

    held: ClassVar[str] = (
        "lower and upper hold the true count with the stated confidence, given what is shown"
    )
    """What the intervals of counts mean."""

    node: ClassVar[str] = "node"
    """A word for what is reported."""

    one_residual: ClassVar[str] = "of the count of a node without shown nodes below it"
    """The count to which the typical error on the card belongs."""

    adds_up: ClassVar[bool] = True
    """Whether rows of cells are disjoint."""

    coverage: ClassVar[bool] = True
    """Whether the card says which residuals are reported."""

    listed_keys: ClassVar[ListedNodes | None] = None
    """Always None: no mechanism takes listed keys."""

    former: HhhArguments | None = None
    """The arguments of the same call in earlier versions, which answered it by another mechanism;
    None if they did not."""

    way: Line | None = None
    """The line on why this way was taken, if the call left the way of users to dpframe."""

    # -- what was asked for -------------------------------------------------------------------

    @property
    def remainder(self) -> bool:
        return self.asked.remainder

    @property
    def items(self) -> int | None:
        """How many different values of a user take part; None if a tree is counted."""
        return None

    @property
    def counters(self) -> int | None:
        """The number of counters of each sketch; None if the mechanism has no sketches."""
        return self.asked.counters

    @property
    def by_user_sets(self) -> bool:
        """Whether sketches take one user at a time, so that nothing released bounds their error."""
        return False

    @property
    def partitions(self) -> int | None:
        """The number of partitions of a source, if each partition has sketches; else None."""
        return None

    @property
    def request(self) -> dict[str, object]:
        """The arguments that this plan answers, as plain JSON types; stored in users' ledgers."""
        return self.asked.request

    @property
    def shown_threshold(self) -> float:
        """The threshold, as an int if it is whole, also for a measure."""
        return int(self.threshold) if float(self.threshold).is_integer() else self.threshold

    @property
    def smallest_threshold(self) -> float | None:
        """The least threshold that is private for what was asked; None if there is none."""
        if self.asked.threshold is None:
            return self.threshold
        return least_threshold(self.remake, replace(self.asked, threshold=None))

    def planned_threshold(self, epsilon: float) -> float | None:
        """The least threshold that is private at another epsilon; None if there is none."""
        budget = Budget(epsilon=epsilon, delta=self.budget.delta)
        return least_threshold(self.remake, replace(self.asked, budget=budget, threshold=None))

    @property
    def sight(self) -> Sight:
        """From which number on a node is shown."""
        return Sight(
            below=self.shown_threshold,
            counted=counted_words(self.unit),
            epsilon=self.budget.epsilon,
            planned=self.planned_threshold,
            allowed=self.smallest_threshold,
            certain=self.certainly_reported if self.coverage else None,
            node=self.node,
            is_own=self.coverage and self.height > 1,
            is_divided=is_divided(self.unit),
            is_bounded=is_bounded(self.unit),
            levels=self.hierarchy.level_names,
            is_complete=self.hierarchy.kind == "columns",
        )

    @property
    def threshold_units(self) -> int:
        """The threshold in units, in which it is compared with counts."""
        return threshold_in_units(self.threshold, self.unit)

    # -- what a mechanism says ----------------------------------------------------------------

    @property
    @abstractmethod
    def test_noise(self) -> NoiseTable:
        """The noise that decides what is reported, as it is drawn; centred if the mechanism
        centres its tests."""

    @property
    @abstractmethod
    def count_noise(self) -> NoiseTable:
        """The noise in reported counts."""

    @property
    @abstractmethod
    def band(self) -> int:
        """A count below this many units can never be reported, so it need not be fetched."""

    @property
    def chance_at_threshold(self) -> float:
        """P(a residual equal to the threshold is selected)."""
        return float(self.test_noise.at_least()[max(0, -self.test_noise.lowest)])

    @staticmethod
    @abstractmethod
    def remake(asked: HhhArguments) -> HhhPlan[Any, Any]:
        """The plan of this mechanism for other arguments."""

    @abstractmethod
    def run(self, counted: C, /) -> NoisyNodes:
        """The only noisy step."""

    # -- what follows -------------------------------------------------------------------------

    @property
    def intervals(self) -> str:
        """What the intervals of the release mean."""
        if not self.unit.measured:
            return self.held
        return (
            f"{self.held}; of {self.unit.weight!r} as it is counted: they do not cover what "
            "max_weight cuts off, which makes counts too low, nor its rounding"
        )

    def half_width(self, terms: int) -> int:
        """Half width of the interval for a count with ``terms`` draws of noise, in units."""
        return half_width(self.count_noise, max(1, terms), self.confidence)

    @property
    def certainly_reported(self) -> float:
        """Residuals from here on are always reported; in records, users or the measure, rounded
        up."""
        return units_to_worth(self.threshold_units - self.test_noise.lowest, self.unit, up=True)

    @property
    def never_reported(self) -> float:
        """Residuals below this are never reported; in records, users or the measure, rounded
        down."""
        return units_to_worth(self.band, self.unit, up=False)

    @property
    def facts(self) -> dict[str, object]:
        return {
            **super().facts,
            "threshold": self.shown_threshold,
            "remainder": self.remainder,
            "counters": self.counters,
            **cell_facts(self.hierarchy),
        }

    def lines(self) -> list[Line]:
        return [
            *self.heading_lines(),
            self.threshold_line(),
            *(self.coverage_lines() if self.coverage else ()),
            *self.draws.lines,
            *self.error_lines(),
            *self.ending_lines(),
        ]

    def heading_lines(self) -> list[Line]:
        """The lines that the card of every mechanism starts with."""
        return [
            self.guarantee_line,
            Line("mechanism", self.mechanism, self.paper),
            *hierarchy_lines(self.hierarchy, adds_up=self.adds_up),
            Line("counts", self.unit.counts, self.unit.what_counts),
            *_weight_lines(self.unit),
            *([] if self.way is None else [self.way]),
        ]

    def threshold_line(self) -> Line:
        """The line on the residual from which a node is reported."""
        return Line.of(
            "threshold",
            self.shown_threshold,
            "residual {counted} from which a {node} is reported",
            counted=self.unit.count_noun,
            node=self.node,
        )

    def coverage_lines(self) -> list[Line]:
        """The lines on which residuals are reported."""
        chance, certain = round(self.chance_at_threshold, 4), self.certainly_reported
        meaning = "probability that a node whose residual equals the threshold is shown"
        return [
            Line("chance at threshold", chance, meaning),
            Line("certainly reported", certain, "every residual from here on is reported"),
            Line("never reported", self.never_reported, "no residual below this is reported"),
        ]

    def error_lines(self) -> list[Line]:
        """The lines on how far reported counts are from the truth."""
        noise, grid, what = self.count_noise, self.grid, self.unit.count_noun
        if self.unit.measured:
            bound, wide = (
                units_to_worth(units, self.unit, up=True)
                for units in (noise.highest, self.half_width(1))
            )
            sd = noise.sd / grid * self.unit.worth
        else:  # shares are rounded to whole users after the noise: up to half a user more
            bound, wide = -(-(noise.highest + grid // 2) // grid), -(-self.half_width(1) // grid)
            sd = round(noise.sd / grid, 3)
        of = f"{self.one_residual}, in {{counted}}"
        furthest = "no reported residual is further from the truth, in {counted}"
        return [
            Line.of("standard error", sd, "of a reported residual, in {counted}", counted=what),
            typical_error_line(wide, self.confidence, of, counted=what),
            Line.of("largest error", bound, furthest, counted=what),
        ]

    def ending_lines(self) -> list[Line]:
        """The lines that the card of every mechanism ends with."""
        meaning = "whether the rest is released as level 0"
        return [Line("remainder", self.remainder, meaning), self.delta_line]

    def frame(self, noisy: NoisyNodes, types: tuple[str, ...] = (), /) -> pd.DataFrame:
        """The frame of released nodes, in natural order."""
        from dpframe.asking.node_frame import (
            tidy,  # loads pandas, which `import dpframe` does not
        )

        return tidy(noisy, self, types)

    def finish_receipt(self, facts: Receipt, noisy: NoisyNodes, frame: pd.DataFrame, /) -> Receipt:
        """The receipt with the released error of sketches, and with notices."""
        said = facts.with_sketch_error(noisy.sketch_error)
        invalid = invalid_notices(frame, self.hierarchy)
        if self.unit.measured and (empty := zero_measure_notices(frame, self.unit)):
            return said.with_notices([*invalid, *empty])
        said, nothing = self._with_not_shown(said, frame)
        told = [*wide_interval_notices(frame), *address_notices(frame, self.hierarchy)]
        return said.with_notices([*(invalid or nothing), *told])

    def _with_not_shown(self, facts: Receipt, frame: pd.DataFrame) -> tuple[Receipt, list[Line]]:
        """Return the receipt with what is not shown, and a notice if nothing is."""
        sight, level = self.sight, frame["level"].to_numpy()
        nodes = int(np.count_nonzero(level))
        shares: dict[str, list[float]] = {}
        if self.remainder and nodes:
            parts = unseen_residual_shares(frame, self.height)
            shares = {facts.count_noun: parts} if parts else {}
        nothing = empty_result_notices(level, sight)
        return facts.with_not_shown(sight, nodes, shares), nothing


def _weight_lines(unit: PrivacyUnit) -> list[Line]:
    """Return the line on how weights are cut and rounded: an exception would tell of a record."""
    if not unit.measured:
        return []
    more = "larger weights count" if unit.user is None else "users who have more in all count"
    return [
        Line.of(
            "weights",
            Text("up to {most} a {whose}"),
            (
                "{more} {most}: what is cut off makes counts too low, and intervals do not "
                "cover it; missing and negative ones, NaN and text that is no number count 0; "
                "rounded at random to multiples of {step:.4g}, right on average, with a "
                "standard deviation of about half of that at most times the square root of the "
                "number of {each}"
            ),
            most=as_written(unit.worth),
            whose="row" if unit.user is None else "user",
            more=more,
            step=unit.worth / unit.grid,
            each="finest nodes" if unit.user is None else "users",
        )
    ]


@dataclass(frozen=True, kw_only=True)
class NodesPlan(HhhPlan[NodeLaws, CountTree]):
    """One draw for each node: the draw decides whether the node is shown, and is in the count."""

    paper = (
        "a noisy number of users at every node, and a threshold (stability histograms: Bun, "
        "Nissim, Stemmer 2019), of each level as many nodes of one user as at_most says"
    )
    held = (
        "lower and upper hold the number of users as they are counted, with the stated "
        "confidence, given what is shown: they do not cover what at_most takes away, which makes "
        "counts too low"
    )

    @property
    def mechanism(self) -> str:
        """The name in receipts; the caller asks for "offline" with ``contribution="items"``."""
        return "items"

    @property
    def test_noise(self) -> NoiseTable:
        return self.count_noise

    @cached_property
    def count_noise(self) -> NoiseTable:
        """The noise of the counts of all levels."""
        return self.laws.tables[0]

    @cached_property
    def draws(self) -> DrawList:
        """One draw for each count that a user moves. The total is always shown."""
        moved = self.laws.moved
        scale = moved.scales[0] if moved.family == "laplace" else None
        total = Draw(law=self.count_noise, scale=scale)
        nodes = Draw(
            law=self.count_noise,
            names=("release",),
            label="noise",
            applies_to="added to every count, and decides",
            times=sum(self.laws.times) - 1,
            least=self.threshold_units,
            scale=scale,
        )
        return counts_game([total, nodes], delta=self.laws.delta, group=1, curve=self._curve)

    @property
    def band(self) -> int:
        return self.threshold_units - self.count_noise.highest

    def _curve(self, epsilons: Sequence[float]) -> Profile:
        return self.laws.profile(epsilons, self.budget.epsilon)

    @property
    def errors(self) -> dict[str, float]:
        return {"count": self.half_width(1)}

    @staticmethod
    def remake(asked: HhhArguments) -> NodesPlan:
        assert asked.unit.nodes is not None
        return nodes_plan(asked, asked.unit.nodes)

    def run(self, counted: CountTree, /) -> NoisyNodes:
        thresholds = (self.threshold_units,) * (self.height + 1)
        return user_counts.run_unlisted_users(
            counted, laws=self.laws, thresholds=thresholds, confidence=self.confidence
        )

    @property
    def facts(self) -> dict[str, object]:
        return {**super().facts, "moved": sum(self.laws.times)}

    def finish_receipt(self, facts: Receipt, noisy: NoisyNodes, frame: pd.DataFrame, /) -> Receipt:
        said, nothing = self._with_not_shown(facts, frame)
        return said.with_notices([*nothing, *wide_interval_notices(frame)])

    @property
    def smallest_threshold(self) -> float:
        return _smallest_node_threshold(self.laws)

    @property
    def sight(self) -> Sight:
        return replace(super().sight, is_own=False)

    def lines(self) -> list[Line]:
        noise, shown = self.count_noise, self.shown_threshold
        return [
            *self.heading_lines(),
            Line("threshold", shown, "noisy number of users from which a node is shown"),
            Line(
                "certainly reported",
                self.certainly_reported,
                "every node that so many users count at is shown",
            ),
            Line("never reported", self.never_reported, "no node of fewer users is shown"),
            *moved_count_lines(self.laws, self.unit.nodes),
            *self.draws.lines,
            Line("standard error", round(noise.sd, 3), "of a count, in users"),
            typical_error_line(
                self.half_width(1),
                self.confidence,
                "of a count for its noise, in users; wider near the threshold",
            ),
            Line("largest error", noise.highest, "the noise of no count is larger, in users"),
            Line("adds up", False, "level 0 is the number of all users, and no sum"),
            self.delta_line,
        ]


def _smallest_node_threshold(laws: NodeLaws) -> int:
    return max(laws.moved.thresholds)


def nodes_plan(asked: HhhArguments, at_most: int) -> NodesPlan:
    """Choose the smallest noise and threshold within the budget."""
    for name in ("release_share", "totals"):
        if value := getattr(asked, name):
            raise ParameterError(
                f"{name} ({value!r}) does not go with contribution='items'. Leave it out."
            )
    times = (1, *[at_most] * asked.hierarchy.height)
    laws = node_laws(
        times=times,
        weights=times,
        epsilon=asked.budget.epsilon,
        delta=asked.budget.delta,
        listed=False,
        family=None,
    )
    own = replace(asked, remainder=False)
    return NodesPlan(asked=own, threshold=own.at_least(_smallest_node_threshold(laws)), laws=laws)


@dataclass(frozen=True, kw_only=True)
class PrintedPlan(HhhPlan[PrintedLaws, CountTree]):
    """One draw for all tests, besides the two draws of each node."""

    paper = "Biswas, Cormode, Kanza, Srivastava, Zhou (2024), Algorithm 1, as printed"

    @property
    def test_noise(self) -> NoiseTable:
        return self.laws.test

    @property
    def count_noise(self) -> NoiseTable:
        return self.laws.release

    @property
    def band(self) -> int:
        reach = self.test_noise.highest + self.laws.gamma.highest
        return max(1, self.threshold_units - reach)

    @cached_property
    def draws(self) -> DrawList:
        """One draw for all tests, then a test and noise for each node; no proof is written yet."""
        gamma = Draw(
            law=self.laws.gamma,
            names=("shared",),
            label="shared noise",
            applies_to="one gamma for all tests",
        )
        draws = (gamma, *test_and_release_draws(self.test_noise, self.count_noise))
        return DrawList(kind=None, draws=draws, delta=self.laws.delta, group=self.unit.moves)

    @cached_property
    def chance_at_threshold(self) -> float:
        return printed_hhh.chance_at_threshold(self.laws)

    @property
    def certainly_reported(self) -> float:
        low = self.test_noise.lowest + self.laws.gamma.lowest
        return self.threshold + -(low // self.grid)

    @staticmethod
    def remake(asked: HhhArguments) -> PrintedPlan:
        return printed_plan(asked)

    def run(self, counted: CountTree, /) -> NoisyNodes:
        return printed_hhh.run(counted, laws=self.laws, threshold=self.threshold_units)


def printed_plan(asked: HhhArguments) -> PrintedPlan:
    """Choose the noise, with exact delta; ParameterError where the algorithm is not private."""
    height, record = asked.hierarchy.height, per_record(asked.budget, asked.unit.moves)
    if height >= 5:
        bound = printed_lower_bound(record.epsilon, height)
        raise ParameterError(
            f"mechanism='paper' is refused at height {height}: from 5 on it is not private. Its "
            f"delta is at least {bound:.1e}, not {record.delta:g} (docs/soundness.md). Use "
            "mechanism='offline'."
        )
    if not asked.acknowledge:
        raise ParameterError(
            "mechanism='paper' is only for comparison. Pass acknowledge=True, or use "
            "mechanism='offline'."
        )
    if asked.remainder:
        raise ParameterError("mechanism='paper' releases no remainder. Pass remainder=False.")
    smallest = printed_hhh.printed_threshold(record.epsilon, record.delta, height)
    threshold = int(replace(asked, budget=record).at_least(smallest))
    laws = printed_hhh.printed_laws(record.epsilon, height, threshold)
    if laws.delta > record.delta:
        raise ParameterError(
            f"mechanism='paper' costs delta={laws.delta:.2g} at threshold {threshold}, not "
            f"{record.delta:g}. Raise threshold."
        )
    return PrintedPlan(asked=asked, threshold=threshold, laws=laws)
