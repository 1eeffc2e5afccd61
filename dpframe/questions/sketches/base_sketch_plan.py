"""The base class of the plans of all releases of a sketch. Sees no sketch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar

from dpframe.accounting.compose import Profile
from dpframe.asking.card import Line, Text
from dpframe.asking.level_plan import ReleasePlan
from dpframe.asking.privacy_receipt import Receipt
from dpframe.budget import Budget
from dpframe.mechanisms.sketch_release import NoisyCounts, NoisySketch
from dpframe.questions.sketches.frame import Intervals, sketch_frame
from dpframe.questions.sketches.sketch_request import (
    NAMES,
    PAPERS,
    SketchRequest,
    SketchUnit,
    Structure,
)
from dpframe.sketches import SketchState

if TYPE_CHECKING:
    import pandas as pd

ROUNDING = 1e-12
"""A bound on the rounding error of a convolved probability; subtracted from the chance to miss."""

L = TypeVar("L")
N = TypeVar("N", NoisySketch, NoisyCounts)


@dataclass(frozen=True, kw_only=True)
class SketchPlan(ReleasePlan, Generic[L, N]):
    """Everything about the release of a sketch except the sketch and the draw.

    The plan draws as every plan does. It has no request, and its unit of privacy names no column:
    only named releases and sources need these, and releases of a sketch are numbered.
    """

    asked: SketchRequest
    laws: L

    # -- the request --------------------------------------------------------------------------

    @property
    def structure(self) -> Structure:
        return self.asked.structure

    @property
    def counters(self) -> int:
        return self.asked.counters

    @property
    def sketches(self) -> int:
        return self.asked.sketches

    @property
    def max_contributions(self) -> int:
        return self.asked.max_contributions

    @property
    def budget(self) -> Budget:
        return self.asked.budget

    @property
    def unit(self) -> SketchUnit:
        return self.asked.protected

    @property
    def records(self) -> int | None:
        return self.asked.records

    @property
    def confidence(self) -> float:
        return self.asked.confidence

    # -- what each kind of release defines ----------------------------------------------------

    @property
    def mechanism_name(self) -> str:
        return NAMES[self.structure]

    @property
    def paper(self) -> str:
        return PAPERS[self.structure]

    @property
    @abstractmethod
    def grid(self) -> int:
        """Units per count: noise is drawn in units of 1/grid of a count."""

    @property
    @abstractmethod
    def threshold(self) -> int | None:
        """The threshold in units of ``1/grid``; for one stream, U - alpha_hat is compared with it.
        None with a universe."""

    @property
    @abstractmethod
    def noise_sd(self) -> float:
        """Standard deviation of the noise in a released count, in counts."""

    @property
    @abstractmethod
    def sensitivity(self) -> str:
        """How far one record or user can change the values that get noise."""

    @abstractmethod
    def delta_at(self, epsilon: float) -> float:
        """The delta of one record at an epsilon of at most the record's budget."""

    @abstractmethod
    def reach(self, mass: float) -> int:
        """The smallest q, in units of ``1/grid``, with P(Z > q) <= mass. Z is symmetric."""

    @abstractmethod
    def key_lines(self) -> list[Line]:
        """The card lines on which keys are published."""

    @abstractmethod
    def run(self, counted: SketchState, /) -> N:
        """The only noisy step."""

    @abstractmethod
    def counts(self, noisy: N) -> Intervals:
        """Counts, lower bounds on the true counts and, where known, upper bounds."""

    def sketch_error(self, noisy: N) -> int | None:
        """The error of the sketch itself, alpha_hat; None where it is not released."""
        return None

    def unpublished_at_most(self, noisy: N) -> int | None:
        """An upper bound, at the confidence, on the true count of a key that is not published; None
        if the release does not tell one."""
        return None

    # -- intervals: how far the noise reaches -------------------------------------------------

    @property
    def _miss(self) -> float:
        return 1 - self.confidence - ROUNDING

    @cached_property
    def above(self) -> int:
        """The q with P(Z < -q) <= half the chance to miss, in units of ``1/grid``."""
        return self.reach(self._miss / 2)

    @property
    def below(self) -> int:
        """The noise that ``lower`` allows for, in units of ``1/grid``; for ``upper``: ``above``."""
        return self.above

    # -- what follows from the request and the kind -------------------------------------------

    def curve(self, epsilons: Sequence[float]) -> Profile:
        """The points (epsilon, delta) of one record."""
        return tuple((e, self.delta_at(e)) for e in epsilons)

    def lines(self) -> list[Line]:
        """The card lines, all known before the sketch is released."""
        asked = self.asked
        return [
            self.guarantee_line,
            Line("mechanism", self.mechanism_name, self.paper),
            Line("counts", self.unit.counts, self.unit.what_counts),
            Line.of("counters", asked.counters, "of each of {n} sketches", n=asked.sketches),
            Line("sensitivity", self.sensitivity, "what the noise has to cover"),
            *self.draws.lines,
            Line.of(
                "noise error",
                Text("+-{half_width} with confidence {confidence:g}"),
                "of a count, from the noise alone",
                half_width=-(-self.above // self.grid),
                confidence=asked.confidence,
            ),
            *self.key_lines(),
        ]

    @property
    def facts(self) -> dict[str, object]:
        asked = self.asked
        return {
            "hierarchy": None,
            "counters": asked.counters,
            "sketches": asked.sketches,
            "sensitivity": self.sensitivity,
            "threshold": None if self.threshold is None else self.threshold / self.grid,
            "universe": None if asked.universe is None else len(asked.universe),
            "records": asked.records,
            "confidence": asked.confidence,
            "sketch_error": None,
            "unpublished_at_most": None,
            "release_number": 1,
        }

    def frame(self, noisy: N, types: tuple[str, ...] = (), /) -> pd.DataFrame:
        """Columns key, count, lower, upper; sorted by key."""
        return sketch_frame(noisy.keys, self.counts(noisy))

    def finish_receipt(self, facts: Receipt, noisy: N, frame: pd.DataFrame, /) -> Receipt:
        """The receipt, with the released error and the bound on unpublished keys."""
        error, unpublished = self.sketch_error(noisy), self.unpublished_at_most(noisy)
        rows: list[list[object]] = []
        if error is not None:
            meaning = "released too: how far counts can be above the truth, itself noisy"
            rows.append(["sketch error", error, meaning])
        if unpublished is not None:
            meaning = f"true count of a key that is not published, confidence {self.confidence:g}"
            rows.append(["unpublished at most", unpublished, meaning])
        own = {"sketch_error": error, "unpublished_at_most": unpublished}
        return facts.with_facts({**own, "card": [*facts["card"], *rows]})
