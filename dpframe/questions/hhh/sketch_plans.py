"""The plans with one sketch for each level, in one pass; users get the sketch with least noise."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from dpframe.accounting.compose import Profile
from dpframe.accounting.sketch_stream import SketchLaws, sketch_laws
from dpframe.accounting.sketch_users import better_user_laws
from dpframe.accounting.sparse_gaussian import GshmLaws
from dpframe.asking.card import Line, Text
from dpframe.asking.draws import DrawList
from dpframe.budget import per_record
from dpframe.mechanisms import merged_streaming, streaming_hhh
from dpframe.noise import NoiseTable
from dpframe.questions.hhh.checks import HhhArguments
from dpframe.questions.hhh.mechanism_plan import HhhPlan
from dpframe.questions.sketches.release_draws import merged_draws, sketch_draws
from dpframe.sketches import SketchState
from dpframe.tree import NoisyNodes

if TYPE_CHECKING:
    import pandas as pd

States = Sequence[SketchState]
L = TypeVar("L", SketchLaws, GshmLaws)

PAPER = (
    "Lebeda, Tetek (2023), Algorithms 1 and 2, a sketch a level; selection of Biswas et al. "
    "(2024), Algorithm 3, corrected"
)


@dataclass(frozen=True, kw_only=True)
class SketchedPlan(HhhPlan[L, States]):
    """One draw for each counter: it decides whether a node is reported, and is in the count."""

    paper = PAPER

    @property
    def test_noise(self) -> NoiseTable:
        return self.laws.noise

    @property
    def count_noise(self) -> NoiseTable:
        return self.laws.noise

    @cached_property
    def chance_at_threshold(self) -> float:
        return self.laws.chance(self.threshold_units)

    @property
    @abstractmethod
    def hidden(self) -> int:
        """The value below which noisy counters are hidden, and do not enter the selection."""

    @property
    @abstractmethod
    def sketch_line(self) -> Line:
        """The line that names the sketch."""

    @property
    @abstractmethod
    def error(self) -> str:
        """Text of the line on the sketch's error: the direction of the error, and whether it is
        released."""

    @property
    def facts(self) -> dict[str, object]:
        return {**super().facts, "hidden_below": self.hidden}

    def remake(self, asked: HhhArguments) -> StreamingPlan | UserSetsPlan:
        return streaming_plan(asked)

    def lines(self) -> list[Line]:
        counters, noise = self.counters or 0, self.laws.noise
        return [
            *self.heading_lines(),
            self.sketch_line,
            Line.of(
                "counters",
                counters,
                "of each of {height} sketches, one a level",
                height=self.height,
            ),
            self.threshold_line(),
            Line("hidden below", self.hidden, "noisy counters below this are not even looked at"),
            Line.of(
                "sketch error",
                Text("at most records / {counters}"),
                self.error,
                counters=counters + 1,
            ),
            *self.draws.lines,
            Line("standard error", round(noise.sd, 3), "of the noise in a reported count"),
            *self.ending_lines(),
        ]


@dataclass(frozen=True, kw_only=True)
class StreamingPlan(SketchedPlan[SketchLaws]):
    """Sketches of records, or of groups of records of one user."""

    held = (
        "lower and upper hold the sketch error and the noise together; the confidence is of "
        "the noise, before selection"
    )
    error = "how far a count can be too high before noise; released a level as sketch_error"

    @property
    def band(self) -> int:
        return max(1, self.laws.theta - self.laws.noise.highest - self.laws.shared.highest)

    @property
    def hidden(self) -> int:
        return self.laws.theta

    @property
    def sketch_line(self) -> Line:
        most, users = self.unit.moves, self.unit.user is not None
        how = f"groups of {most} records, which have the least noise"
        return Line("sketch", "Misra-Gries", how if users else "one record at a time")

    @cached_property
    def draws(self) -> DrawList:
        """One sketch of the stream for each level."""
        return sketch_draws(
            self.laws,
            self.height,
            standard=None,
            by_level=True,
            group=self.unit.moves,
            curve=self._curve,
        )

    def _curve(self, epsilons: Sequence[float]) -> Profile:
        return tuple((e, streaming_hhh.cost(self.laws, epsilon=e)) for e in epsilons)

    def run(self, counted: States, /) -> NoisyNodes:
        return streaming_hhh.run(
            counted,
            laws=self.laws,
            threshold=self.threshold_units,
            confidence=self.confidence,
            hierarchy=self.hierarchy,
        )


@dataclass(frozen=True, kw_only=True)
class UserSetsPlan(SketchedPlan[GshmLaws]):
    """Privacy-aware sketches, which take one user at a time."""

    held = (
        "lower holds the noise; nothing released says how far a count is too low, so upper is "
        "missing"
    )
    error = "how far a count can be too low before noise; not released, so upper is missing"
    by_user_sets = True

    @cached_property
    def draws(self) -> DrawList:
        """Counts that one user moves all in one direction; the accounting covers a whole user."""
        return merged_draws(self.laws, by_level=True, group=1)

    @property
    def band(self) -> int:
        return max(1, self.hidden - self.laws.noise.highest)

    @property
    def hidden(self) -> int:
        return 1 + self.laws.t

    @property
    def sketch_line(self) -> Line:
        how = "one user at a time, which has the least noise"
        return Line("sketch", "privacy-aware Misra-Gries", how)

    def run(self, counted: States, /) -> NoisyNodes:
        return merged_streaming.run(
            counted,
            laws=self.laws,
            threshold=self.threshold_units,
            hierarchy=self.hierarchy,
        )

    def frame(self, noisy: NoisyNodes, types: tuple[str, ...] = (), /) -> pd.DataFrame:
        import pandas as pd

        frame = super().frame(noisy, types)
        frame["upper"] = pd.array([pd.NA] * len(frame), dtype="Int64")
        return frame


def streaming_plan(asked: HhhArguments) -> StreamingPlan | UserSetsPlan:
    """Choose the noise of one sketch a level; for items of users, of the sketch that shows smaller
    counters."""
    height, unit, budget = asked.hierarchy.height, asked.unit, asked.budget
    if unit.contribution == "items":
        _, laws = better_user_laws(
            counters=asked.counters or 0,
            sketches=height,
            max_contributions=unit.max_contributions,
            epsilon=budget.epsilon,
            delta=budget.delta,
        )
        if isinstance(laws, GshmLaws):
            least = 1 + laws.t if asked.threshold is None else asked.threshold
            return UserSetsPlan(asked=asked, threshold=least, laws=laws)
    else:
        record = per_record(budget, unit.moves)
        laws = sketch_laws(sketches=height, epsilon=record.epsilon, delta=record.delta)
    threshold = laws.theta if asked.threshold is None else asked.threshold
    return StreamingPlan(asked=asked, threshold=threshold, laws=laws)
